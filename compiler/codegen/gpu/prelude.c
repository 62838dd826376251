// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls to kl_* functions and the text that defines those that were called.
#include "compiler/codegen/gpu/prelude.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "compiler/codegen/llvm/llvm_module.h"

typedef struct row {
  const char *name, *signature;
  bool is_pure;
} row;

static const row rows[KL_COUNT] = {
#define PRELUDE(name, signature, pure) {#name, signature, pure},
#include "compiler/codegen/gpu/prelude.def"
#undef PRELUDE
};

// -------------------------------------------------------------------------------------- signatures

static const struct {
  char letter;
  const char *text;
} letters[] = {{'v', "void"},
               {'b', "i1"},
               {'c', "i8"},
               {'s', "i16"},
               {'i', "i32"},
               {'l', "i64"},
               {'h', "half"},
               {'f', "float"},
               {'d', "double"},
               {'p', "ptr addrspace(1)"},
               {'q', "ptr addrspace(3)"},
               {'g', "ptr"}};

static const char *letter_text(char letter) {
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
    if (letters[i].letter == letter) return letters[i].text;
  return "void";
}

static LLVMTypeRef letter_type(LLVMContextRef c, char letter) {
  switch (letter) {
  case 'b': return LLVMInt1TypeInContext(c);
  case 'c': return LLVMInt8TypeInContext(c);
  case 's': return LLVMInt16TypeInContext(c);
  case 'i': return LLVMInt32TypeInContext(c);
  case 'l': return LLVMInt64TypeInContext(c);
  case 'h': return LLVMHalfTypeInContext(c);
  case 'f': return LLVMFloatTypeInContext(c);
  case 'd': return LLVMDoubleTypeInContext(c);
  case 'p': return LLVMPointerTypeInContext(c, 1);
  case 'q': return LLVMPointerTypeInContext(c, 3);
  case 'g': return LLVMPointerTypeInContext(c, 0);
  default: return LLVMVoidTypeInContext(c);
  }
}

/// One type of a signature: an optional vector length of one digit, then a letter.
typedef struct word {
  unsigned lanes;
  char letter;
} word;

static word next_word(const char **at) {
  word w = {0};
  if (**at >= '0' && **at <= '9') w.lanes = (unsigned)(*(*at)++ - '0');
  w.letter = *(*at)++;
  return w;
}

static LLVMTypeRef word_type(LLVMContextRef c, word w) {
  LLVMTypeRef element = letter_type(c, w.letter);
  return w.lanes ? LLVMVectorType(element, w.lanes) : element;
}

static void word_text(kiln_buffer *out, word w) {
  if (w.lanes) kiln_buffer_format(out, "<%u x %s>", w.lanes, letter_text(w.letter));
  else kiln_buffer_format(out, "%s", letter_text(w.letter));
}

enum { MAX_ARGUMENTS = 10 };

/// Several results are a vector, or a struct of those of one assembly instruction.
static LLVMTypeRef signature_type(LLVMContextRef c, const char *signature, bool is_assembly) {
  word w = next_word(&signature);
  LLVMTypeRef arguments[MAX_ARGUMENTS], parts[9], result;
  for (unsigned i = 0; i < w.lanes; i++) parts[i] = letter_type(c, w.letter);
  result = w.lanes && is_assembly ? LLVMStructTypeInContext(c, parts, w.lanes, false) : word_type(c, w);
  unsigned count = 0;
  for (signature++; *signature != ')' && count < MAX_ARGUMENTS;)
    arguments[count++] = word_type(c, next_word(&signature));
  return LLVMFunctionType(result, arguments, count, false);
}

// ------------------------------------------------------------------------------------------- calls

static const kl_body *find(const kl_prelude *prelude, kl_function function) {
  const kl_body *found = NULL;
  for (size_t i = 0; i < prelude->body_count; i++) {
    const kl_body *body = &prelude->bodies[i];
    if (body->function == function && body->least <= prelude->processor &&
        !(body->with_denormals && prelude->flush))
      found = body;
  }
  return found;
}

bool kl_has(const kl_prelude *prelude, kl_function function) { return find(prelude, function) != NULL; }

enum { MOST_ASSEMBLY = 256 }; ///< bytes of the text of one instruction

/// The assembly of a body like `asm 'text', 'constraints'`.
static LLVMValueRef assembly(const kl_prelude *prelude, const kl_body *body, LLVMTypeRef type) {
  const char *from = strchr(body->body, '\'') + 1, *end = strchr(from, '\''),
             *constraints = strchr(end + 1, '\'') + 1;
  char text[MOST_ASSEMBLY];
  size_t size = 0;
  for (; from < end; from++) {
    if (*from != '^') text[size++] = *from;
    else if (prelude->flush) size += strlen(strcpy(text + size, ".ftz"));
    KILN_ASSERT(size + sizeof ".ftz" < sizeof text);
  }
  return LLVMGetInlineAsm(type, text, size, (char *)constraints, strlen(constraints) - 1, false, false,
                          LLVMInlineAsmDialectATT, false);
}

static LLVMAttributeRef attribute(const kl_prelude *prelude, const char *name) {
  return LLVMCreateEnumAttribute(prelude->context, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
}

void kl_prelude_open(kl_prelude *prelude) {
  prelude->convergent = attribute(prelude, "convergent");
  prelude->no_memory = attribute(prelude, "memory"); // of any kind: 0
}

LLVMValueRef kl_call(kl_prelude *prelude, kl_function function, const LLVMValueRef *arguments,
                     unsigned count) {
  const row *r = &rows[function];
  if (!prelude->declared[function]) {
    const kl_body *body = find(prelude, function);
    const bool is_assembly = body && strncmp(body->body, "asm ", 4) == 0;
    LLVMTypeRef type = signature_type(prelude->context, r->signature, is_assembly);
    LLVMValueRef callee =
        is_assembly ? assembly(prelude, body, type) : LLVMAddFunction(prelude->module, r->name, type);
    if (!is_assembly && !r->is_pure)
      LLVMAddAttributeAtIndex(callee, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, prelude->convergent);
    prelude->is_instruction[function] = is_assembly;
    prelude->types[function] = type;
    prelude->declared[function] = callee;
  }
  LLVMValueRef call = LLVMBuildCall2(prelude->builder, prelude->types[function], prelude->declared[function],
                                     (LLVMValueRef *)arguments, count, "");
  if (prelude->is_instruction[function])
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             r->is_pure ? prelude->no_memory : prelude->convergent);
  else prelude->used[function] = true;
  return call;
}

// ----------------------------------------------------------------------------------------- linking

static void close_over_uses(kl_prelude *prelude) {
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned f = 0; f < KL_COUNT; f++) {
      const kl_body *body = prelude->used[f] ? find(prelude, f) : NULL;
      for (unsigned i = 0; body && i < 5 && body->uses[i] != KL_COUNT; i++)
        if (!prelude->used[body->uses[i]]) changed = prelude->used[body->uses[i]] = true;
    }
  }
}

static void write_function(kiln_buffer *out, const row *r, const kl_body *body, bool flush) {
  const char *signature = r->signature;
  kiln_buffer_format(out, "define ");
  word_text(out, next_word(&signature));
  kiln_buffer_format(out, " @%s(", r->name);
  signature++;
  for (unsigned i = 0; *signature != ')'; i++) {
    if (i) kiln_buffer_format(out, ", ");
    word_text(out, next_word(&signature));
    kiln_buffer_format(out, " %%%c", (char)('a' + i));
  }
  kiln_buffer_format(out, ") alwaysinline nounwind%s {\n", r->is_pure ? "" : " convergent");
  for (const char *p = body->body; *p; p++)
    if (*p == '^') kiln_buffer_format(out, "%s", flush ? ".ftz" : "");
    else kiln_buffer_u8(out, *p == '\'' ? '"' : (uint8_t)*p);
  kiln_buffer_format(out, "\n}\n");
}

static kiln_status write_all(kl_prelude *prelude, kiln_buffer *out, kiln_error *err) {
  for (unsigned f = 0; f < KL_COUNT; f++) {
    if (!prelude->used[f]) continue;
    const kl_body *body = find(prelude, f);
    if (!body)
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                       "expected a target with %s, found processor number %u without it", rows[f].name,
                       prelude->processor);
    write_function(out, &rows[f], body, prelude->flush);
  }
  return out->failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the prelude") : KILN_OK;
}

kiln_status kl_link(kl_prelude *prelude, kiln_error *err) {
  kiln_buffer text = {0};
  close_over_uses(prelude);
  kiln_status status = write_all(prelude, &text, err);
  if (status == KILN_OK && text.size)
    status = kiln_llvm_link_text(prelude->context, prelude->module, (const char *)text.bytes, text.size,
                                 "prelude", err);
  for (unsigned f = 0; status == KILN_OK && f < KL_COUNT; f++) {
    LLVMValueRef function = prelude->used[f] ? LLVMGetNamedFunction(prelude->module, rows[f].name) : NULL;
    if (function) LLVMSetLinkage(function, LLVMInternalLinkage);
  }
  kiln_buffer_deinit(&text);
  return status;
}
