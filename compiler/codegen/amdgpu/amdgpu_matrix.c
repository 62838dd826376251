// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The matrix instructions of AMDGPU as linear maps: MFMA of gfx9 (waves of 64) and WMMA of gfx11, gfx12 and
// gfx1250 (waves of 32).
//
// A fragment says, for each bit of register and lane number, which bit of row, column or reduced index it is.
// Left and right operand permute the reduced index alike, which is all that a product asks for. Sources: the
// instruction set guides of CDNA 1 to 4 and RDNA 3 and 4; for gfx1250 the operands' symmetry is all that is
// used.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "compiler/codegen/amdgpu/amdgpu.h"

enum { NO = GPU_NO_BIT, END = GPU_END };
#define M(i) GPU_M(i)
#define N(i) GPU_N(i)
#define K(i) GPU_K(i)

#define UNIT(name) (1u << KILN_MATRIX_##name)
#define MFMA_94 (UNIT(MFMA_942) | UNIT(MFMA_950) | UNIT(MFMA_9_4))
#define MFMA_90 (UNIT(MFMA_90A) | MFMA_94)
#define MFMA_ALL (UNIT(MFMA_908) | MFMA_90)
#define NO_XF32 (UNIT(MFMA_908) | UNIT(MFMA_90A) | UNIT(MFMA_950) | UNIT(MFMA_9_4))
#define MFMA_OLD (UNIT(MFMA_908) | UNIT(MFMA_90A))

// ---------------------------------------------------------------------------------------- emission

static LLVMValueRef gather(gpu *g, const LLVMValueRef *elements, unsigned count, kiln_scalar scalar) {
  if (count == 1) return elements[0];
  LLVMValueRef v = LLVMGetUndef(LLVMVectorType(gpu_scalar_type(g, scalar), count));
  for (unsigned i = 0; i < count; i++)
    v = LLVMBuildInsertElement(g->builder, v, elements[i], gpu_i32(g, i), "");
  return v;
}

static void scatter(gpu *g, LLVMValueRef vector, LLVMValueRef *elements, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    elements[i] = LLVMBuildExtractElement(g->builder, vector, gpu_i32(g, i), "");
}

static unsigned register_count(const gpu_fragment *f) {
  unsigned bits = 0;
  while (f->registers[bits] != END) bits++;
  return 1u << bits;
}

/// How an intrinsic is called. Its arguments in order: A and B the operands, C the sums, a and b the formats
/// of fp8 operands, + and - flags of one bit, h and 0 zeros of 16 and 32 bits. Its overloads are types of
/// such.
typedef struct matrix_call {
  const char *arguments, *overloads;
  bool has_whole_bytes; ///< bytes are one integer, else a vector of words
  bool has_bfloat;      ///< bf16 is called so, else 16-bit integers
  /// Where LLVM has no form of the instruction whose sums begin with the constant 0: what stands behind its
  /// operands, in assembly.
  const char *flags;
} matrix_call;

enum { MOST_ARGUMENTS = 9, MOST_OVERLOADS = 2 };

static LLVMValueRef gather_operand(gpu *g, const matrix_call *c, const LLVMValueRef *elements, unsigned count,
                                   kiln_scalar scalar) {
  LLVMValueRef v = gather(g, elements, count, scalar);
  LLVMTypeRef type = LLVMTypeOf(v);
  if (kiln_scalars[scalar].bytes == 1)
    type =
        c->has_whole_bytes ? LLVMIntTypeInContext(g->context, 8 * count) : LLVMVectorType(g->i32, count / 4);
  if (scalar == KILN_BF16 && c->has_bfloat) type = LLVMVectorType(LLVMBFloatTypeInContext(g->context), count);
  return LLVMBuildBitCast(g->builder, v, type, "");
}

static bool is_nothing(LLVMValueRef vector) { return LLVMIsConstant(vector) && LLVMIsNull(vector); }

/// The first product of a sum: else a vector of zeros keeps registers for all of a loop. LLVM does not see
/// two hazards of gfx11 here, and neither occurs: operands are never sums of the product before, nor what a
/// function (v_exp, v_sqrt) gives, as both are f32 or i32 and are converted first.
static LLVMValueRef begin_sums(gpu *g, const gpu_matrix_form *form, const matrix_call *c,
                               LLVMValueRef *operands) {
  static const char prefix[] = "llvm.amdgcn.", constraints[] = "=&v,v,v";
  char text[96], *at = text;
  at += snprintf(text, sizeof text, "v_%s $0, $1, $2, 0%s", form->name + strlen(prefix), c->flags);
  assert(at < text + sizeof text);
  for (char *dot = text; *dot && *dot != ' '; dot++)
    if (*dot == '.') *dot = '_';
  LLVMTypeRef types[] = {LLVMTypeOf(operands[0]), LLVMTypeOf(operands[1])},
              type = LLVMFunctionType(LLVMTypeOf(operands[2]), types, 2, false);
  LLVMValueRef assembly =
      LLVMGetInlineAsm(type, text, (size_t)(at - text), (char *)constraints, sizeof constraints - 1, false,
                       false, LLVMInlineAsmDialectATT, false);
  LLVMValueRef call = LLVMBuildCall2(g->builder, type, assembly, operands, 2, "");
  kiln_llvm_attribute(call, KILN_LLVM_ITSELF, "convergent", 0);
  return call;
}

static void emit(gpu *g, const gpu_matrix_form *form, const LLVMValueRef *left, const LLVMValueRef *right,
                 LLVMValueRef *accumulator, const matrix_call *c) {
  unsigned count = register_count(&form->left_fragment), sums = register_count(&form->accumulator_fragment),
           argument_count = 0, overload_count = 0;
  LLVMValueRef operands[] = {gather_operand(g, c, left, count, form->left),
                             gather_operand(g, c, right, count, form->right),
                             gather(g, accumulator, sums, form->accumulator)},
               arguments[MOST_ARGUMENTS];
  LLVMTypeRef overloads[MOST_OVERLOADS];
  if (c->flags && is_nothing(operands[2])) {
    scatter(g, begin_sums(g, form, c, operands), accumulator, sums);
    return;
  }
  for (const char *at = c->arguments; *at; at++) {
    assert(argument_count < MOST_ARGUMENTS);
    LLVMValueRef *to = &arguments[argument_count++];
    switch (*at) {
    case 'a': *to = gpu_i32(g, form->left == KILN_E5M2); break;
    case 'b': *to = gpu_i32(g, form->right == KILN_E5M2); break;
    case '+':
    case '-': *to = gpu_i1(g, *at == '+'); break;
    case 'h': *to = LLVMConstInt(g->i16, 0, false); break;
    case '0': *to = gpu_i32(g, 0); break;
    default: *to = operands[*at - 'A'];
    }
  }
  for (const char *at = c->overloads; *at; at++) {
    assert(overload_count < MOST_OVERLOADS);
    overloads[overload_count++] = LLVMTypeOf(operands[*at - 'A']);
  }
  LLVMValueRef made = kiln_llvm_intrinsic(g->builder, g->module, form->name, overloads, overload_count,
                                          arguments, argument_count);
  if (made) scatter(g, made, accumulator, sums);
  else gpu_fail(g, KILN_STATUS_UNSUPPORTED, "this LLVM has no %s", form->name);
}

#define EMIT(name, ...)                                                                  \
  static void emit_##name(gpu *g, const gpu_matrix_form *form, const LLVMValueRef *left, \
                          const LLVMValueRef *right, LLVMValueRef *accumulator) {        \
    static const matrix_call call = {__VA_ARGS__};                                       \
    emit(g, form, left, right, accumulator, &call);                                      \
  }
// Behind the sums of MFMA: broadcasts and exchanges of blocks; of fp8 the operands' formats (0 e4m3, 1 e5m2)
// and selections and scales: constant zeros for both scales mean the instruction without.
EMIT(mfma, "ABC000", "", .has_whole_bytes = true)
EMIT(mfma_950, "ABC000", "", .has_bfloat = true)
EMIT(mfma_fp8, "ABCab0000", "AB")
// Before an operand of integers: it is signed; behind their sums: they do not saturate.
EMIT(wmma, "ABC", "CA")
EMIT(wmma_integer, "+A+BC-", "CA")
EMIT(wmma_11, "ABC", "CA", .flags = "")
EMIT(wmma_11_integer, "+A+BC-", "CA", .flags = " neg_lo:[1,1,0]")
// gfx1250: floats of 16 and 32 bits have sign changes of both operands and of the sums, fp8 of the sums
// alone; the last two are hints that an operand is the last instruction's.
EMIT(wmma_1250, "-A-BhC--", "CA", .has_bfloat = true)
EMIT(wmma_1250_fp8, "ABhC--", "CA")
EMIT(wmma_1250_integer, "+A+BC---", "CA")
#undef EMIT

static void stay(gpu *g, const gpu_matrix_form *form, LLVMValueRef *accumulator) {
  unsigned sums = register_count(&form->accumulator_fragment);
  scatter(g, amdgpu_pin(g, gather(g, accumulator, sums, form->accumulator)), accumulator, sums);
}

// ------------------------------------------------------------------------------------------ shapes

// MFMA: lanes count rows (columns), then what is left of the reduced index; accumulators of 32 rows
// interleave by 4 between the halves.
#define OPERANDS_32(registers, ...)                                                  \
  .left_fragment = {{registers}, {M(0), M(1), M(2), M(3), M(4), __VA_ARGS__, END}},  \
  .right_fragment = {{registers}, {N(0), N(1), N(2), N(3), N(4), __VA_ARGS__, END}}, \
  .accumulator_fragment = {{M(0), M(1), M(3), M(4), END}, {N(0), N(1), N(2), N(3), N(4), M(2), END}}
#define OPERANDS_16(registers, ...)                                           \
  .left_fragment = {{registers}, {M(0), M(1), M(2), M(3), __VA_ARGS__, END}}, \
  .right_fragment = {{registers}, {N(0), N(1), N(2), N(3), __VA_ARGS__, END}}
#define SUMS_16 .accumulator_fragment = {{M(0), M(1), END}, {N(0), N(1), N(2), N(3), M(2), M(3), END}}
#define LIST(...) __VA_ARGS__

#define PAIR(l, r, c) \
  .left = KILN_##l, .right = KILN_##r, .from_left = KILN_##l, .from_right = KILN_##r, .accumulator = KILN_##c
#define TYPES(t, c) PAIR(t, t, c)
#define MFMA(n, u, ...) \
  { .name = "llvm.amdgcn.mfma." n, .units = u, .lanes = 64, .emit = emit_mfma, __VA_ARGS__ }
#define MFMA_950(n, ...) \
  { .name = "llvm.amdgcn.mfma." n, .units = UNIT(MFMA_950), .lanes = 64, .emit = emit_mfma_950, __VA_ARGS__ }
#define MKN(a, b, c) .m = a, .n = b, .k = c

// Both sizes of 16 bits and of fp8, on gfx950.
#define MFMA_950_16(t, type)                                      \
  MFMA_950("f32.32x32x16." t, TYPES(type, F32), MKN(5, 5, 4),     \
           OPERANDS_32(LIST(K(0), K(1), K(2), END), K(3))),       \
      MFMA_950("f32.16x16x32." t, TYPES(type, F32), MKN(4, 4, 5), \
               OPERANDS_16(LIST(K(0), K(1), K(2), END), K(3), K(4)), SUMS_16)
#define MFMA_950_WIDE(n, l, r, ...)                                                          \
  {                                                                                          \
    .name = "llvm.amdgcn.mfma.scale.f32." n ".f8f6f4", .units = UNIT(MFMA_950), .lanes = 64, \
    .emit = emit_mfma_fp8, PAIR(l, r, F32), __VA_ARGS__                                      \
  }
#define MFMA_950_8(t, l, r)                                                                                  \
  MFMA_950_WIDE("32x32x64", l, r, MKN(5, 5, 6), OPERANDS_32(LIST(K(0), K(1), K(2), K(3), K(4), END), K(5))), \
      MFMA_950_WIDE("16x16x128", l, r, MKN(4, 4, 7),                                                         \
                    OPERANDS_16(LIST(K(0), K(1), K(2), K(3), K(4), END), K(5), K(6)), SUMS_16),              \
      MFMA("f32.32x32x16." t, UNIT(MFMA_950), PAIR(l, r, F32), MKN(5, 5, 4),                                 \
           OPERANDS_32(LIST(K(0), K(1), K(2), END), K(3))),                                                  \
      MFMA("f32.16x16x32." t, UNIT(MFMA_950), PAIR(l, r, F32), MKN(4, 4, 5),                                 \
           OPERANDS_16(LIST(K(0), K(1), K(2), END), K(3), K(4)), SUMS_16)

// Both sizes of f32.
#define MFMA_F32(u, p)                                                                                    \
  MFMA("f32.32x32x2f32", u, TYPES(F32, F32), .precision = p, MKN(5, 5, 1), OPERANDS_32(LIST(END), K(0))), \
      MFMA("f32.16x16x4f32", u, TYPES(F32, F32), .precision = p, MKN(4, 4, 2),                            \
           OPERANDS_16(LIST(END), K(0), K(1)), SUMS_16)

// WMMA of gfx11: each lane has 16 elements of a row, the upper half-wave the same again. Accumulators: rows
// alternate between the halves.
#define WMMA_11(n, e, types)                                                                              \
  {                                                                                                       \
    .name = "llvm.amdgcn.wmma." n, .units = UNIT(WMMA_11), .lanes = 32, .emit = e, .finish = stay, types, \
    MKN(4, 4, 4), .left_fragment = {{K(0), K(1), K(2), K(3), END}, {M(0), M(1), M(2), M(3), NO, END}},    \
    .right_fragment = {{K(0), K(1), K(2), K(3), END}, {N(0), N(1), N(2), N(3), NO, END}},                 \
    .accumulator_fragment = {                                                                             \
      {M(1), M(2), M(3), END},                                                                            \
      {N(0), N(1), N(2), N(3), M(0), END}                                                                 \
    }                                                                                                     \
  }
// WMMA of gfx12: the halves share the reduced index, and each has eight rows that follow one another.
#define WMMA_12(n, e, types)                                                                              \
  {                                                                                                       \
    .name = "llvm.amdgcn.wmma." n, .units = UNIT(WMMA_12), .lanes = 32, .emit = e, .finish = stay, types, \
    MKN(4, 4, 4), .left_fragment = {{K(0), K(1), K(2), END}, {M(0), M(1), M(2), M(3), K(3), END}},        \
    .right_fragment = {{K(0), K(1), K(2), END}, {N(0), N(1), N(2), N(3), K(3), END}},                     \
    .accumulator_fragment = {                                                                             \
      {M(0), M(1), M(2), END},                                                                            \
      {N(0), N(1), N(2), N(3), M(3), END}                                                                 \
    }                                                                                                     \
  }

// WMMA of gfx1250: accumulators as on gfx12; of the reduced index the halves share the bit `half`, whichever
// it is.
#define WMMA_1250(n, e, types, k_bits, half, ...)                                                          \
  {                                                                                                        \
    .name = "llvm.amdgcn.wmma." n, .units = UNIT(WMMA_1250), .lanes = 32, .emit = e, types,                \
    MKN(4, 4, k_bits), .left_fragment = {{__VA_ARGS__, END}, {M(0), M(1), M(2), M(3), half, END}},         \
    .right_fragment = {{__VA_ARGS__, END}, {N(0), N(1), N(2), N(3), half, END}}, .accumulator_fragment = { \
      {M(0), M(1), M(2), END},                                                                             \
      {N(0), N(1), N(2), N(3), M(3), END}                                                                  \
    }                                                                                                      \
  }
#define WMMA_1250_F32(p) \
  WMMA_1250("f32.16x16x4.f32", emit_wmma_1250, LIST(TYPES(F32, F32), .precision = p), 2, K(1), K(0))
#define WMMA_1250_16(t, type) \
  WMMA_1250("f32.16x16x32." t, emit_wmma_1250, LIST(TYPES(type, F32)), 5, K(3), K(0), K(1), K(2), K(4))
#define WMMA_1250_8(t, l, r)                                                                                \
  WMMA_1250("f32.16x16x128." t, emit_wmma_1250_fp8, LIST(PAIR(l, r, F32)), 7, K(4), K(0), K(1), K(2), K(3), \
            K(5), K(6)),                                                                                    \
      WMMA_1250("f32.16x16x64." t, emit_wmma_1250_fp8, LIST(PAIR(l, r, F32)), 6, K(4), K(0), K(1), K(2),    \
                K(3), K(5))

const gpu_matrix_form amdgpu_forms[] = {
    MFMA_950_16("f16", F16),
    MFMA_950_16("bf16", BF16),
    MFMA_950("i32.32x32x32.i8", TYPES(I8, I32), MKN(5, 5, 5),
             OPERANDS_32(LIST(K(0), K(1), K(2), K(3), END), K(4))),
    MFMA_950("i32.16x16x64.i8", TYPES(I8, I32), MKN(4, 4, 6),
             OPERANDS_16(LIST(K(0), K(1), K(2), K(3), END), K(4), K(5)), SUMS_16),
    MFMA_950_8("fp8.fp8", E4M3, E4M3),
    MFMA_950_8("fp8.bf8", E4M3, E5M2),
    MFMA_950_8("bf8.fp8", E5M2, E4M3),
    MFMA_950_8("bf8.bf8", E5M2, E5M2),
    MFMA("f32.32x32x8f16", MFMA_ALL, TYPES(F16, F32), MKN(5, 5, 3), OPERANDS_32(LIST(K(0), K(1), END), K(2))),
    MFMA("f32.16x16x16f16", MFMA_ALL, TYPES(F16, F32), MKN(4, 4, 4),
         OPERANDS_16(LIST(K(0), K(1), END), K(2), K(3)), SUMS_16),
    MFMA("f32.32x32x8bf16.1k", MFMA_90, TYPES(BF16, F32), MKN(5, 5, 3),
         OPERANDS_32(LIST(K(0), K(1), END), K(2))),
    MFMA("f32.16x16x16bf16.1k", MFMA_90, TYPES(BF16, F32), MKN(4, 4, 4),
         OPERANDS_16(LIST(K(0), K(1), END), K(2), K(3)), SUMS_16),
    MFMA("f32.32x32x4bf16", UNIT(MFMA_908), TYPES(BF16, F32), MKN(5, 5, 2),
         OPERANDS_32(LIST(K(0), END), K(1))),
    MFMA("f32.16x16x8bf16", UNIT(MFMA_908), TYPES(BF16, F32), MKN(4, 4, 3),
         OPERANDS_16(LIST(K(0), END), K(1), K(2)), SUMS_16),
    MFMA("i32.32x32x16.i8", MFMA_94, TYPES(I8, I32), MKN(5, 5, 4),
         OPERANDS_32(LIST(K(0), K(1), K(2), END), K(3))),
    MFMA("i32.16x16x32.i8", MFMA_94, TYPES(I8, I32), MKN(4, 4, 5),
         OPERANDS_16(LIST(K(0), K(1), K(2), END), K(3), K(4)), SUMS_16),
    MFMA("i32.32x32x8i8", MFMA_OLD, TYPES(I8, I32), MKN(5, 5, 3), OPERANDS_32(LIST(K(0), K(1), END), K(2))),
    MFMA("i32.16x16x16i8", MFMA_OLD, TYPES(I8, I32), MKN(4, 4, 4),
         OPERANDS_16(LIST(K(0), K(1), END), K(2), K(3)), SUMS_16),
    // tf32 is what xf32 is called here; where there is none, and for three-fold tf32, f32 itself is exact
    // enough.
    MFMA("f32.32x32x4.xf32", UNIT(MFMA_942), TYPES(F32, F32), .precision = IR_PREC_TF32, MKN(5, 5, 2),
         OPERANDS_32(LIST(K(0), END), K(1))),
    MFMA("f32.16x16x8.xf32", UNIT(MFMA_942), TYPES(F32, F32), .precision = IR_PREC_TF32, MKN(4, 4, 3),
         OPERANDS_16(LIST(K(0), END), K(1), K(2)), SUMS_16),
    MFMA_F32(MFMA_ALL, IR_PREC_IEEE),
    MFMA_F32(NO_XF32, IR_PREC_TF32),
    MFMA_F32(MFMA_ALL, IR_PREC_TF32X3),
    // Accumulators of f64 have their rows the other way round: lanes first.
    MFMA("f64.16x16x4f64", MFMA_90, TYPES(F64, F64), MKN(4, 4, 2), OPERANDS_16(LIST(END), K(0), K(1)),
         .accumulator_fragment = {{M(2), M(3), END}, {N(0), N(1), N(2), N(3), M(0), M(1), END}}),

    WMMA_11("f32.16x16x16.f16", emit_wmma_11, LIST(TYPES(F16, F32))),
    WMMA_11("f32.16x16x16.bf16", emit_wmma_11, LIST(TYPES(BF16, F32))),
    WMMA_11("i32.16x16x16.iu8", emit_wmma_11_integer, LIST(TYPES(I8, I32))),

    WMMA_12("f32.16x16x16.f16", emit_wmma, LIST(TYPES(F16, F32))),
    WMMA_12("f32.16x16x16.bf16", emit_wmma, LIST(TYPES(BF16, F32))),
    WMMA_12("i32.16x16x16.iu8", emit_wmma_integer, LIST(TYPES(I8, I32))),
    WMMA_12("f32.16x16x16.fp8.fp8", emit_wmma, LIST(PAIR(E4M3, E4M3, F32))),
    WMMA_12("f32.16x16x16.fp8.bf8", emit_wmma, LIST(PAIR(E4M3, E5M2, F32))),
    WMMA_12("f32.16x16x16.bf8.fp8", emit_wmma, LIST(PAIR(E5M2, E4M3, F32))),
    WMMA_12("f32.16x16x16.bf8.bf8", emit_wmma, LIST(PAIR(E5M2, E5M2, F32))),

    WMMA_1250_16("f16", F16),
    WMMA_1250_16("bf16", BF16),
    WMMA_1250("i32.16x16x64.iu8", emit_wmma_1250_integer, LIST(TYPES(I8, I32)), 6, K(4), K(0), K(1), K(2),
              K(3), K(5)),
    WMMA_1250_8("fp8.fp8", E4M3, E4M3),
    WMMA_1250_8("fp8.bf8", E4M3, E5M2),
    WMMA_1250_8("bf8.fp8", E5M2, E4M3),
    WMMA_1250_8("bf8.bf8", E5M2, E5M2),
    WMMA_1250_F32(IR_PREC_IEEE),
    WMMA_1250_F32(IR_PREC_TF32),
    WMMA_1250_F32(IR_PREC_TF32X3),
};
const size_t amdgpu_form_count = sizeof amdgpu_forms / sizeof *amdgpu_forms;
