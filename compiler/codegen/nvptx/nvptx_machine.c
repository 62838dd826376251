// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVPTX as a GPU target: kernel marking, predicated and hinted memory accesses, atomics with order and scope,
// inline assembly.
#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/codegen/nvptx/nvptx_async.h"
#include "compiler/codegen/nvptx/nvptx_matrix.h"

enum { STATIC_SHARED = 48 * 1024, MAX_WARPS = 32, PTX_KERNEL = 71, PTX_EVICT = 74 };

#define UNPACK(...) __VA_ARGS__
static const kl_body bodies[] = {
#define BODY(name, least, uses, text) {KL_##name, least, text, {UNPACK uses}, false},
#include "compiler/codegen/nvptx/prelude_nvptx.def"
#undef BODY
};

// ------------------------------------------------------------------------------------------ kernel

/// What the assembler is told of a kernel. LLVM ignores silently what another version of it would read: up to
/// 20 a list of metadata, from 21 on attributes. tests/codegen/test_nvptx_bounds.c reads the PTX.
#if LLVM_VERSION_MAJOR < 21
static void set_bound(gpu *g, LLVMValueRef function, const char *name, unsigned value) {
  LLVMMetadataRef parts[3] = {LLVMValueAsMetadata(function),
                              LLVMMDStringInContext2(g->context, name, strlen(name)),
                              LLVMValueAsMetadata(gpu_i32(g, value))};
  LLVMAddNamedMetadataOperand(g->module, "nvvm.annotations",
                              LLVMMetadataAsValue(g->context, LLVMMDNodeInContext2(g->context, parts, 3)));
}
#define BOUND_THREADS "maxntidx"
#define BOUND_BLOCKS "minctasm"
#define BOUND_REGISTERS "maxnreg"
#define BOUND_CLUSTER "cluster_dim_x"

/// One list names all parameters.
static void set_constant(gpu *g, LLVMValueRef function, unsigned first, unsigned count) {
  LLVMMetadataRef numbers[GPU_MOST_MAPS];
  for (unsigned i = 0; i < count; i++) numbers[i] = LLVMValueAsMetadata(gpu_i32(g, first + i + 1));
  LLVMMetadataRef parts[3] = {LLVMValueAsMetadata(function),
                              LLVMMDStringInContext2(g->context, "grid_constant", 13),
                              LLVMMDNodeInContext2(g->context, numbers, count)};
  LLVMAddNamedMetadataOperand(g->module, "nvvm.annotations",
                              LLVMMetadataAsValue(g->context, LLVMMDNodeInContext2(g->context, parts, 3)));
}
#else
static void set_bound(gpu *g, LLVMValueRef function, const char *name, unsigned value) {
  char text[16];
  (void)g;
  snprintf(text, sizeof text, "%u", value);
  kiln_llvm_mark(function, name, text);
}
#define BOUND_THREADS "nvvm.maxntid"
#define BOUND_BLOCKS "nvvm.minctasm"
#define BOUND_REGISTERS "nvvm.maxnreg"
#define BOUND_CLUSTER "nvvm.cluster_dim"

static void set_constant(gpu *g, LLVMValueRef function, unsigned first, unsigned count) {
  static const char name[] = "nvvm.grid_constant";
  for (unsigned i = 0; i < count; i++)
    LLVMAddAttributeAtIndex(function, first + i + 1,
                            LLVMCreateStringAttribute(g->context, name, sizeof name - 1, "", 0));
}
#endif

static void mark_maps(gpu *g, LLVMValueRef function, unsigned first) {
  LLVMTypeRef bytes = LLVMArrayType2(g->i8, 128);
  unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
  for (unsigned i = 0; i < g->map_count; i++) {
    LLVMAddAttributeAtIndex(function, first + i + 1, LLVMCreateTypeAttribute(g->context, byval, bytes));
    kiln_llvm_attribute(function, (int)(first + i + 1), "align", 64);
  }
  set_constant(g, function, first, g->map_count);
}

static void finish_kernel(gpu *g, LLVMValueRef function) {
  LLVMSetFunctionCallConv(function, PTX_KERNEL);
  set_bound(g, function, BOUND_THREADS, gpu_block_threads(g));
  const ir_roles *roles = g->has_roles ? &g->kernel->body->last->attrs.roles : NULL;
  if (roles) set_bound(g, function, BOUND_BLOCKS, roles->resident);
  if (roles && nvptx_cluster(roles) > 1) set_bound(g, function, BOUND_CLUSTER, nvptx_cluster(roles));
  if (g->kernel->max_registers) set_bound(g, function, BOUND_REGISTERS, g->kernel->max_registers);
}

// ---------------------------------------------------------------------------------------- assembly

/// An assembly text in the making.
typedef struct text {
  char bytes[1024];
  size_t size;
} text;

KILN_PRINTF(2, 3) static void append(text *t, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(t->bytes + t->size, sizeof t->bytes - t->size, format, arguments);
  va_end(arguments);
  if (n > 0) t->size += (size_t)n < sizeof t->bytes - t->size ? (size_t)n : sizeof t->bytes - t->size - 1;
}

static const char *evict_text(const gpu *g, unsigned evict) {
  static const char *const texts[] = {
      [IR_EVICT_NORMAL] = "", [IR_EVICT_FIRST] = ".L1::evict_first", [IR_EVICT_LAST] = ".L1::evict_last"};
  return g->target->processor->ptx >= PTX_EVICT ? texts[evict] : "";
}

/// What PTX has for the access: a word of loads says nothing of a store, and the other way round.
static const char *cache_text(unsigned cache, bool is_store) {
  static const char *const texts[][2] = {
      [IR_CACHE_DEFAULT] = {"", ""}, [IR_CACHE_CA] = {".ca", ""}, [IR_CACHE_CV] = {".cv", ""},
      [IR_CACHE_WB] = {"", ".wb"},   [IR_CACHE_WT] = {"", ".wt"}, [IR_CACHE_CG] = {".cg", ".cg"},
      [IR_CACHE_CS] = {".cs", ".cs"}};
  return texts[cache][is_store];
}

/// "v4.b32" for 16 bytes, and so on.
static const char *shape_text(unsigned bytes) {
  return bytes == 1 ? "b8" : bytes == 2 ? "b16" : bytes == 4 ? "b32" : bytes == 8 ? "v2.b32" : "v4.b32";
}

/// Registers of a piece: 16-bit ones for one or two bytes, words else.
typedef struct words {
  LLVMValueRef values[4];
  unsigned count;
  char letter;
} words;

static words words_of(gpu *g, LLVMValueRef packed, unsigned bytes) {
  words w = {.count = bytes > 4 ? bytes / 4 : 1, .letter = bytes <= 2 ? 'h' : 'r'};
  if (bytes == 1) w.values[0] = LLVMBuildZExt(g->builder, packed, g->i16, "");
  else if (bytes <= 4) w.values[0] = packed;
  else
    for (unsigned i = 0; i < w.count; i++)
      w.values[i] = LLVMBuildExtractElement(g->builder, packed, gpu_i32(g, i), "");
  return w;
}

static void append_operands(text *t, unsigned first, unsigned count) {
  append(t, count > 1 ? "{" : "");
  for (unsigned i = 0; i < count; i++) append(t, "%s$%u", i ? "," : "", first + i);
  append(t, count > 1 ? "}" : "");
}

static LLVMValueRef load(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMValueRef mask,
                         LLVMValueRef other, LLVMTypeRef type) {
  text code = {.size = 0}, constraints = {.size = 0};
  words w = words_of(g, mask ? other : LLVMGetUndef(type), a->bytes);
  LLVMValueRef arguments[8];
  LLVMTypeRef results[4];
  unsigned count = 0;
  const char *evict = evict_text(g, a->evict),
             *cache = a->is_volatile || evict[0] || (a->is_invariant && a->cache == IR_CACHE_CV)
                          ? ""
                          : cache_text(a->cache, false);
  for (unsigned i = 0; i < w.count; i++)
    append(&constraints, "%s=%c", i ? "," : "", w.letter), results[i] = w.letter == 'h' ? g->i16 : g->i32;
  append(&constraints, ",l");
  arguments[count++] = pointer;
  if (mask) append(&constraints, ",b"), arguments[count++] = mask;
  for (unsigned i = 0; mask && i < w.count; i++)
    append(&constraints, ",%u", i), arguments[count++] = w.values[i];
  if (mask) append(&code, "@$%u ", w.count + 1);
  append(&code, "ld%s.global%s%s%s.%s ", a->is_volatile ? ".volatile" : "", cache,
         a->is_invariant && !a->is_volatile && !cache[0] ? ".nc" : "", a->is_volatile ? "" : evict,
         shape_text(a->bytes));
  append_operands(&code, 0, w.count);
  append(&code, ", [$%u];", w.count);
  bool effects = !a->is_invariant || a->is_volatile;
  if (effects) append(&constraints, ",~{memory}");
  LLVMTypeRef result =
      w.count == 1 ? results[0] : LLVMStructTypeInContext(g->context, results, w.count, false);
  LLVMValueRef loaded = kiln_llvm_asm(g->builder, effects ? KILN_ASM_EFFECTS : KILN_ASM_PURE, code.bytes,
                                      constraints.bytes, result, arguments, count);
  if (w.count == 1) return a->bytes == 1 ? LLVMBuildTrunc(g->builder, loaded, g->i8, "") : loaded;
  LLVMValueRef vector = LLVMGetPoison(type);
  for (unsigned i = 0; i < w.count; i++)
    vector = LLVMBuildInsertElement(g->builder, vector, LLVMBuildExtractValue(g->builder, loaded, i, ""),
                                    gpu_i32(g, i), "");
  return vector;
}

/// "@$4 st.global.b16", for `bytes` where operand `mask` (0: none) says so.
static void append_store(gpu *g, text *t, const gpu_access *a, unsigned bytes, unsigned mask) {
  const char *evict = evict_text(g, a->evict),
             *cache = a->is_volatile || evict[0] ? "" : cache_text(a->cache, true);
  if (mask) append(t, "@$%u ", mask);
  append(t, "st%s.global%s%s.%s ", a->is_volatile ? ".volatile" : "", cache, a->is_volatile ? "" : evict,
         shape_text(bytes));
}

static void store(gpu *g, const gpu_access *a, LLVMValueRef pointer, LLVMValueRef mask, LLVMValueRef value) {
  text code = {.size = 0}, constraints = {.size = 0};
  words w = words_of(g, value, a->bytes);
  LLVMValueRef arguments[8];
  unsigned count = 0;
  append(&constraints, "l");
  arguments[count++] = pointer;
  for (unsigned i = 0; i < w.count; i++)
    append(&constraints, ",%c", w.letter), arguments[count++] = w.values[i];
  if (mask) append(&constraints, ",b"), arguments[count++] = mask;
  append_store(g, &code, a, a->bytes, mask ? w.count + 1 : 0);
  append(&code, "[$0], ");
  append_operands(&code, 1, w.count);
  append(&code, ";");
  append(&constraints, ",~{memory}");
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS, code.bytes, constraints.bytes,
                LLVMVoidTypeInContext(g->context), arguments, count);
}

/// One piece of assembly: operand 0 is the place, then come words, then masks.
static bool store_parts(gpu *g, const gpu_access *a, LLVMValueRef pointer, const LLVMValueRef *masks,
                        unsigned parts, LLVMValueRef value) {
  text code = {.size = 0}, constraints = {.size = 0};
  unsigned bytes = a->bytes / parts, count = 0;
  if (bytes < 2 || a->bytes < 4) return false;
  words w = words_of(g, value, a->bytes);
  LLVMValueRef arguments[16];
  append(&constraints, "l");
  arguments[count++] = pointer;
  for (unsigned i = 0; i < w.count; i++) append(&constraints, ",r"), arguments[count++] = w.values[i];
  for (unsigned i = 0; i < parts; i++) append(&constraints, ",b"), arguments[count++] = masks[i];
  if (bytes == 2) append(&code, "{\n\t.reg .b16 e<%u>;\n\t", parts);
  for (unsigned i = 0; bytes == 2 && i < w.count; i++)
    append(&code, "mov.b32 {e%u, e%u}, $%u;\n\t", 2 * i, 2 * i + 1, 1 + i);
  for (unsigned i = 0; i < parts; i++) {
    append_store(g, &code, a, bytes, 1 + w.count + i);
    append(&code, "[$0+%u], ", i * bytes);
    if (bytes == 2) append(&code, "e%u", i);
    else append_operands(&code, 1 + i * (bytes / 4), bytes / 4);
    append(&code, i + 1 < parts ? ";\n\t" : bytes == 2 ? ";\n\t}" : ";");
  }
  append(&constraints, ",~{memory}");
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS, code.bytes, constraints.bytes,
                LLVMVoidTypeInContext(g->context), arguments, count);
  return true;
}

// ----------------------------------------------------------------------------------------- atomics

static const char *order_text(unsigned order) {
  static const char *const texts[] = {[IR_ORDER_RELAXED] = "relaxed",
                                      [IR_ORDER_ACQUIRE] = "acquire",
                                      [IR_ORDER_RELEASE] = "release",
                                      [IR_ORDER_ACQ_REL] = "acq_rel"};
  return texts[order];
}

static const char *scope_text(unsigned scope) {
  static const char *const texts[] = {
      [IR_SCOPE_GPU] = "gpu", [IR_SCOPE_CTA] = "cta", [IR_SCOPE_SYSTEM] = "sys"};
  return texts[scope];
}

static LLVMValueRef as_bits(gpu *g, LLVMValueRef value) {
  LLVMTypeRef type = LLVMTypeOf(value);
  if (type == g->half) return LLVMBuildBitCast(g->builder, value, g->i16, "");
  if (type == g->f32) return LLVMBuildBitCast(g->builder, value, g->i32, "");
  return type == g->f64 ? LLVMBuildBitCast(g->builder, value, g->i64, "") : value;
}

static char letter_of(gpu *g, LLVMTypeRef type) { return type == g->i16 ? 'h' : type == g->i64 ? 'l' : 'r'; }

/// Nobody uses the result or waits for what others wrote: an instruction without an answer will do.
static bool is_reduction(const ir_op *op) {
  return op->code == IR_ATOMIC && !op->results[0].uses && op->attrs.order == IR_ORDER_RELAXED &&
         op->attrs.kind != IR_COMBINE_XCHG;
}

/// One atom instruction on bits; `instruction` is its end: "add.f32".
static LLVMValueRef atom(gpu *g, const ir_op *op, const char *instruction, LLVMValueRef pointer,
                         LLVMValueRef first, LLVMValueRef second) {
  text code = {.size = 0}, constraints = {.size = 0};
  LLVMTypeRef type = LLVMTypeOf(first);
  LLVMValueRef arguments[3] = {pointer, first, second};
  char letter = letter_of(g, type);
  const char *order = order_text(op->attrs.order), *scope = scope_text(op->attrs.scope);
  if (!second && is_reduction(op)) {
    append(&code, "red.%s.%s.global.%s [$0], $1;", order, scope, instruction);
    append(&constraints, "l,%c,~{memory}", letter);
    kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS, code.bytes, constraints.bytes,
                  LLVMVoidTypeInContext(g->context), arguments, 2);
    return LLVMConstNull(type);
  }
  append(&code, "atom.%s.%s.global.%s $0, [$1], $2%s;", order, scope, instruction, second ? ", $3" : "");
  append(&constraints, "=%c,l,%c%s,~{memory}", letter, letter,
         second ? (letter == 'l'   ? ",l"
                   : letter == 'h' ? ",h"
                                   : ",r")
                : "");
  return kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS, code.bytes, constraints.bytes, type, arguments,
                       second ? 3 : 2);
}

/// The end of the instruction when there is one for the type, else NULL.
static const char *native_atomic(const gpu *g, const ir_op *op, kiln_scalar s) {
  const unsigned number = g->target->processor->number, ptx = g->target->processor->ptx;
  const bool wide = kiln_scalars[s].bits == 64, is_unsigned = op->attrs.flags & IR_UNSIGNED,
             is_float = kiln_scalars[s].type_class == KILN_CLASS_FLOAT;
  switch ((ir_combine)op->attrs.kind) {
  case IR_COMBINE_ADD:
    if (s == KILN_F16) return "add.noftz.f16";
    if (s == KILN_BF16) return number >= 90 && ptx >= 78 ? "add.noftz.bf16" : NULL;
    return s == KILN_F32 ? "add.f32" : s == KILN_F64 ? "add.f64" : wide ? "add.u64" : "add.u32";
  case IR_COMBINE_MAX:
    return is_float ? NULL : is_unsigned ? (wide ? "max.u64" : "max.u32") : wide ? "max.s64" : "max.s32";
  case IR_COMBINE_MIN:
    return is_float ? NULL : is_unsigned ? (wide ? "min.u64" : "min.u32") : wide ? "min.s64" : "min.s32";
  case IR_COMBINE_AND: return wide ? "and.b64" : "and.b32";
  case IR_COMBINE_OR: return wide ? "or.b64" : "or.b32";
  case IR_COMBINE_XOR: return wide ? "xor.b64" : "xor.b32";
  case IR_COMBINE_XCHG: return kiln_scalars[s].bits < 32 ? NULL : wide ? "exch.b64" : "exch.b32";
  case IR_COMBINE_REGION:
  case IR_COMBINE_MUL: break;
  }
  return NULL;
}

/// What the element becomes; halves are computed in f32, and exchanged as they are.
static LLVMValueRef combined(gpu *g, const ir_op *op, kiln_scalar s, LLVMValueRef old, LLVMValueRef value) {
  if (op->attrs.kind == IR_COMBINE_XCHG) return value;
  if (kiln_scalars[s].bits != 16) return kiln_element_combine(&g->elements, op, s, old, value);
  return gpu_from_f32(
      g, s, kiln_element_combine(&g->elements, op, KILN_F32, gpu_to_f32(g, s, old), gpu_to_f32(g, s, value)));
}

static LLVMValueRef from_bits(gpu *g, LLVMValueRef bits, LLVMTypeRef type) {
  return LLVMTypeOf(bits) == type ? bits : LLVMBuildBitCast(g->builder, bits, type, "");
}

/// Compares elements as they lie in memory and swaps. 16 bits have an instruction of their own: ptxas swaps the
/// word around them, which in PTX would race with whoever accesses the other half.
static LLVMValueRef cas(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                        LLVMValueRef expected, LLVMValueRef desired) {
  unsigned bits = kiln_scalars[scalar].bits;
  const char *instruction = bits == 64 ? "cas.b64" : bits == 32 ? "cas.b32" : "cas.b16";
  return from_bits(g, atom(g, op, instruction, pointer, as_bits(g, expected), as_bits(g, desired)),
                   LLVMTypeOf(expected));
}

/// Compares and swaps until nobody changed the element in between.
static LLVMValueRef atomic_loop(gpu *g, const ir_op *op, kiln_scalar s, LLVMValueRef pointer,
                                LLVMValueRef value) {
  LLVMBuilderRef b = g->builder;
  LLVMTypeRef type = LLVMTypeOf(value), bits = LLVMTypeOf(as_bits(g, value));
  LLVMValueRef start = LLVMBuildLoad2(b, bits, pointer, "");
  LLVMSetVolatile(start, true);
  LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = gpu_block(g, "again"),
                    after = gpu_block(g, "swapped");
  LLVMBuildBr(b, loop);
  LLVMPositionBuilderAtEnd(b, loop);
  LLVMValueRef seen = LLVMBuildPhi(b, bits, ""), old = from_bits(g, seen, type);
  LLVMValueRef next = as_bits(g, combined(g, op, s, old, value));
  LLVMValueRef found = cas(g, op, s, pointer, seen, next);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, found, seen, ""), after, loop);
  LLVMAddIncoming(seen, (LLVMValueRef[2]){start, found}, (LLVMBasicBlockRef[2]){from, loop}, 2);
  LLVMPositionBuilderAtEnd(b, after);
  return old;
}

static LLVMValueRef atomic(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                           LLVMValueRef value) {
  const char *instruction = native_atomic(g, op, scalar);
  if (!instruction) return atomic_loop(g, op, scalar, pointer, value);
  return from_bits(g, atom(g, op, instruction, pointer, as_bits(g, value), NULL), LLVMTypeOf(value));
}

/// Neighbours that are added by one instruction, from sm_90 on.
static bool adds_vectors(const gpu *g, const ir_op *op, kiln_scalar s) {
  const kiln_processor *processor = g->target->processor;
  return processor->number >= 90 && processor->ptx >= 81 && op->attrs.kind == IR_COMBINE_ADD &&
         (s == KILN_F32 || s == KILN_F16 || s == KILN_BF16);
}

static bool atomic_piece(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                         const LLVMValueRef *values, unsigned count, LLVMValueRef mask) {
  const char *instruction = native_atomic(g, op, scalar), *type;
  if (!instruction || !is_reduction(op)) return false;
  type = strrchr(instruction, '.');
  unsigned each = count > 1 && adds_vectors(g, op, scalar) ? count : 1, bytes = kiln_scalars[scalar].bytes;
  text code = {.size = 0}, constraints = {.size = 0};
  LLVMValueRef arguments[18] = {pointer};
  append(&constraints, "l");
  for (unsigned i = 0; i < count; i++) {
    arguments[1 + i] = as_bits(g, values[i]);
    append(&constraints, ",%c", letter_of(g, LLVMTypeOf(arguments[1 + i])));
  }
  if (mask) append(&constraints, ",b"), arguments[1 + count] = mask;
  for (unsigned i = 0; i < count; i += each) {
    if (i) append(&code, ";\n\t");
    if (mask) append(&code, "@$%u ", 1 + count);
    append(&code, "red.%s.%s.global.%.*s", order_text(op->attrs.order), scope_text(op->attrs.scope),
           (int)(type - instruction), instruction);
    if (each > 1) append(&code, ".v%u", each);
    append(&code, "%s [$0+%u], ", type, i * bytes);
    append_operands(&code, 1 + i, each);
  }
  append(&code, ";");
  append(&constraints, ",~{memory}");
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS, code.bytes, constraints.bytes,
                LLVMVoidTypeInContext(g->context), arguments, 1 + count + !!mask);
  return true;
}

// ----------------------------------------------------------------------------------------- asserts

/// A text in global memory as a generic pointer.
static LLVMValueRef constant_text(gpu *g, const char *message) {
  unsigned size = (unsigned)strlen(message);
  LLVMValueRef bytes = LLVMConstStringInContext(g->context, message, size, false);
  LLVMValueRef array = LLVMAddGlobalInAddressSpace(g->module, LLVMTypeOf(bytes), "kiln_text", 1);
  LLVMSetInitializer(array, bytes);
  LLVMSetGlobalConstant(array, true);
  LLVMSetLinkage(array, LLVMInternalLinkage);
  return LLVMConstAddrSpaceCast(array, LLVMPointerTypeInContext(g->context, 0));
}

/// The driver's own function for assert() of C: prints "FILE:LINE: FUNCTION: block: [..], thread: [..]
/// Assertion `MESSAGE` failed." and ends the kernel with an error of its own. FILE is the kernel, LINE the
/// number of the operation.
static void report_assert(gpu *g, const ir_op *op) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(g->context, 0);
  LLVMTypeRef types[5] = {pointer, pointer, g->i32, pointer, g->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(g->context), types, 5, false);
  LLVMValueRef callee = LLVMGetNamedFunction(g->module, "__assertfail");
  if (!callee) callee = LLVMAddFunction(g->module, "__assertfail", type);
  LLVMValueRef arguments[5] = {constant_text(g, op->attrs.assertion.text ? op->attrs.assertion.text : ""),
                               constant_text(g, g->kernel->name), gpu_i32(g, ir_operation(op)),
                               constant_text(g, "operation"), LLVMConstInt(g->i64, 1, false)};
  LLVMBuildCall2(g->builder, type, callee, arguments, 5, "");
}

/// The driver's printf, which takes the values as they lie in a structure of C.
static void print(gpu *g, const char *format, const LLVMValueRef *values, unsigned count) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(g->context, 0), types[2] = {pointer, pointer}, fields[32];
  LLVMTypeRef type = LLVMFunctionType(g->i32, types, 2, false);
  LLVMValueRef callee = LLVMGetNamedFunction(g->module, "vprintf");
  if (!callee) callee = LLVMAddFunction(g->module, "vprintf", type);
  for (unsigned i = 0; i < count; i++) fields[i] = LLVMTypeOf(values[i]);
  LLVMTypeRef all = LLVMStructTypeInContext(g->context, fields, count, false);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder),
                    entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
  LLVMPositionBuilderBefore(g->builder, LLVMGetFirstInstruction(entry));
  LLVMValueRef memory = LLVMBuildAlloca(g->builder, all, "");
  LLVMSetAlignment(memory, 8);
  LLVMPositionBuilderAtEnd(g->builder, here);
  for (unsigned i = 0; i < count; i++)
    LLVMBuildStore(g->builder, values[i], LLVMBuildStructGEP2(g->builder, all, memory, i, ""));
  LLVMValueRef arguments[2] = {constant_text(g, format), memory};
  LLVMBuildCall2(g->builder, type, callee, arguments, 2, "");
}

const gpu_machine *gpu_machine_nvptx(const kiln_target *target, gpu_machine *storage) {
  const kiln_processor *p = target->processor;
  const bool has_wgmma = kiln_matrix_machine_of(target) != NULL;
  *storage = (gpu_machine){.name = p->name,
                           .lanes = 5,
                           .processor = p->number,
                           .max_shared = p->shared_bytes,
                           .static_shared = STATIC_SHARED,
                           .max_warps = MAX_WARPS,
                           .shares_bases = true,
                           .reads_words = true,
                           .bodies = bodies,
                           .body_count = sizeof bodies / sizeof *bodies,
                           .emit_product = nvptx_emit_product,
                           .matrix = p->matrix,
                           .finish_kernel = finish_kernel,
                           .load = load,
                           .store = store,
                           .store_parts = store_parts,
                           .atomic = atomic,
                           .cas = cas,
                           .atomic_piece = atomic_piece,
                           .report_assert = report_assert,
                           .print = print,
                           .enter_loop = has_wgmma ? nvptx_enter_loop : NULL,
                           .lower_machine = has_wgmma ? nvptx_lower_machine : NULL,
                           .meet_engine = has_wgmma ? nvptx_meet_engine : NULL,
                           .mark_maps = mark_maps};
  return storage;
}
