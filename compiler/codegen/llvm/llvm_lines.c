// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes line tables: makes the debug information of a module and sets the place of each instruction.
#include "compiler/codegen/llvm/llvm_lines.h"

#include <llvm-c/DebugInfo.h>
#include <stdlib.h>
#include <string.h>

enum {
  DWARF_VERSION = 4,
  EMIT_TABLES = LLVMDWARFEmissionLineTablesOnly,
  EMIT_DIRECTIVES = 3, ///< DICompileUnit::DebugDirectivesOnly, for which LLVM's C API has no name
};

struct kiln_llvm_lines {
  LLVMModuleRef module;
  LLVMContextRef context;
  LLVMDIBuilderRef builder;        // owned
  const kiln_positions *positions; // borrowed
  LLVMMetadataRef *files, *scopes; // owned; by file: the descriptor, and the function seen from it
  LLVMMetadataRef function;
};

static void add_flag(LLVMModuleRef module, const char *name, unsigned value) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetModuleContext(module));
  LLVMAddModuleFlag(module, LLVMModuleFlagBehaviorWarning, name, strlen(name),
                    LLVMValueAsMetadata(LLVMConstInt(i32, value, false)));
}

kiln_llvm_lines *kiln_llvm_lines_create(LLVMModuleRef module, const kiln_positions *positions, bool is_text) {
  static const char folder[] = ".", producer[] = "kiln";
  if (!positions || !positions->file_count) return NULL;
  kiln_llvm_lines *l = calloc(1, sizeof *l);
  LLVMMetadataRef *places = calloc(2 * (size_t)positions->file_count, sizeof *places);
  if (!l || !places) {
    free(l);
    free(places);
    return NULL;
  }
  *l = (kiln_llvm_lines){.module = module,
                         .context = LLVMGetModuleContext(module),
                         .builder = LLVMCreateDIBuilder(module),
                         .positions = positions,
                         .files = places,
                         .scopes = places + positions->file_count};
  for (uint32_t i = 0; i < positions->file_count; i++)
    l->files[i] = LLVMDIBuilderCreateFile(l->builder, positions->files[i], strlen(positions->files[i]),
                                          folder, sizeof folder - 1);
  LLVMDIBuilderCreateCompileUnit(
      l->builder, LLVMDWARFSourceLanguageC, l->files[0], producer, sizeof producer - 1, true, "", 0, 0, "", 0,
      (LLVMDWARFEmissionKind)(is_text ? EMIT_DIRECTIVES : EMIT_TABLES), 0, false, false, "", 0, "", 0);
  add_flag(module, "Debug Info Version", LLVMDebugMetadataVersion());
  add_flag(module, "Dwarf Version", DWARF_VERSION);
  return l;
}

/// Where the kernel begins: at its first operation that has a place.
static kiln_position first_place(const kiln_positions *p) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->items[i].line) return p->items[i];
  return (kiln_position){.line = 0};
}

void kiln_llvm_lines_begin(kiln_llvm_lines *l, LLVMValueRef function) {
  if (!l) return;
  size_t size;
  const char *name = LLVMGetValueName2(function, &size);
  kiln_position first = first_place(l->positions);
  LLVMMetadataRef type =
      LLVMDIBuilderCreateSubroutineType(l->builder, l->files[first.file], NULL, 0, LLVMDIFlagZero);
  l->function = LLVMDIBuilderCreateFunction(l->builder, l->files[first.file], name, size, name, size,
                                            l->files[first.file], first.line, type, false, true, first.line,
                                            LLVMDIFlagZero, true);
  LLVMSetSubprogram(function, l->function);
  l->scopes[first.file] = l->function;
}

static LLVMMetadataRef scope_of(kiln_llvm_lines *l, uint32_t file) {
  if (!l->scopes[file])
    l->scopes[file] = LLVMDIBuilderCreateLexicalBlockFile(l->builder, l->function, l->files[file], 0);
  return l->scopes[file];
}

LLVMMetadataRef kiln_llvm_lines_at(kiln_llvm_lines *l, LLVMBuilderRef builder, const ir_op *op) {
  if (!l || !l->function) return NULL;
  LLVMMetadataRef before = LLVMGetCurrentDebugLocation2(builder);
  uint32_t number = ir_operation(op);
  if (number >= l->positions->count || !l->positions->items[number].line) return before;
  const kiln_position *p = &l->positions->items[number];
  LLVMSetCurrentDebugLocation2(
      builder, LLVMDIBuilderCreateDebugLocation(l->context, p->line, p->column, scope_of(l, p->file), NULL));
  return before;
}

void kiln_llvm_lines_back(kiln_llvm_lines *l, LLVMBuilderRef builder, LLVMMetadataRef before) {
  if (l && l->function) LLVMSetCurrentDebugLocation2(builder, before);
}

void kiln_llvm_lines_end(kiln_llvm_lines *l) {
  if (!l) return;
  LLVMDIBuilderFinalize(l->builder);
  LLVMDisposeDIBuilder(l->builder);
  free(l->files);
  free(l);
}
