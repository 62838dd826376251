// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests rows that end within 16 bytes (compiler/codegen/nvptx/nvptx_row_ends.c). It follows the LLVM code of
// stores and sums through tensor maps: which elements the copy engine writes (map record, boxes and
// coordinates), and which each thread writes by itself, read from where and written to where. Together they
// are the tile's elements inside the view, each once. Tiles, groups of warps, extents, distances of rows
// and places are drawn, transposed and added too.
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "tests/codegen/nvptx_llvm.h"

enum { WINDOW = 0x400, SHARED = 232 * 1024, GROUP = 128, MOST_DEPTH = 200, SIDE = 600, BASE = 1 << 24 };
enum { PARAM_C = 2, PARAM_M = 3, PARAM_N = 4, PARAM_ROW = 6, PARAM_FAR = 7, PARAMS = 8 };

typedef struct shape {
  unsigned m, n, warps, first; ///< tile of the product; columns of it that are stored, 0: all
  bool is_turned, adds;
  bool is_f32;                      ///< the result; what is added is
  unsigned rows, columns, distance; ///< of the view: extents, elements from row to row
  unsigned row, column;             ///< where the tile begins in the view
  bool is_far;                      ///< rows are 2^32 elements apart, a product of parameters of 32 bits
} shape;

/// The element of the view that a byte of shared memory holds.
typedef struct element {
  bool is_there;
  uint16_t row, column;
} element;

enum { KNOWN = 1 << 12 };

typedef struct followed {
  const shape *s;
  kiln_code_info info;
  LLVMValueRef function;
  int64_t params[PARAMS];
  unsigned bytes, thread;
  element memory[SHARED];
  uint8_t engine[SIDE][SIDE], threads[SIDE][SIDE];
  unsigned by_threads; ///< elements
  struct {
    LLVMValueRef value;
    uint64_t is;
  } known[KNOWN]; ///< of the branch that a thread is in
} followed;

// ------------------------------------------------------------------------------------- evaluation

static bool find_known(const followed *f, LLVMValueRef v, unsigned *out_at) {
  unsigned at = (unsigned)((uintptr_t)v >> 4) * 2654435761u % KNOWN;
  while (f->known[at].value && f->known[at].value != v) at = (at + 1) % KNOWN;
  *out_at = at;
  return f->known[at].value != NULL;
}

static void know(followed *f, LLVMValueRef v, uint64_t is) {
  unsigned at;
  find_known(f, v, &at);
  f->known[at].value = v, f->known[at].is = is;
}

static unsigned width_of(LLVMValueRef v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  return LLVMGetTypeKind(type) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type) : 64;
}

static int64_t as_signed(LLVMValueRef v, uint64_t x) {
  unsigned width = width_of(v);
  return (int64_t)(x << (64 - width)) >> (64 - width);
}

static uint64_t value_of(const followed *f, LLVMValueRef v, unsigned depth);

static bool compared(LLVMValueRef v, uint64_t x, uint64_t y) {
  LLVMValueRef first = LLVMGetOperand(v, 0);
  int64_t a = as_signed(first, x), b = as_signed(first, y);
  switch ((int)LLVMGetICmpPredicate(v)) {
  case LLVMIntEQ: return x == y;
  case LLVMIntNE: return x != y;
  case LLVMIntSGE: return a >= b;
  case LLVMIntSGT: return a > b;
  case LLVMIntSLE: return a <= b;
  case LLVMIntSLT: return a < b;
  case LLVMIntUGE: return x >= y;
  case LLVMIntUGT: return x > y;
  case LLVMIntULE: return x <= y;
  default: return x < y;
  }
}

/// What is not known is 0: the first program, slot and turn.
static uint64_t result_of_call(const followed *f, LLVMValueRef v, unsigned depth) {
  size_t size;
  LLVMValueRef callee = LLVMGetCalledValue(v);
  if (LLVMIsAInlineAsm(callee)) {
    const char *text = LLVMGetInlineAsmAsmString(callee, &size);
    return !strncmp(text, "mov.b", 5) ? value_of(f, LLVMGetOperand(v, 0), depth + 1) : 0;
  }
  const char *name = LLVMGetValueName2(callee, &size);
  if (strstr(name, "sreg.tid.x")) return f->thread;
  return strstr(name, "shfl.sync.idx") ? value_of(f, LLVMGetOperand(v, 1), depth + 1) : 0;
}

static uint64_t size_of(LLVMTypeRef type) {
  switch ((int)LLVMGetTypeKind(type)) {
  case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(type) / 8;
  case LLVMHalfTypeKind:
  case LLVMBFloatTypeKind: return 2;
  case LLVMFloatTypeKind: return 4;
  default: FAIL("an address of elements of unknown size");
  }
}

static uint64_t computed(const followed *f, LLVMValueRef v, unsigned depth) {
  bool is_constant = LLVMIsAConstantExpr(v);
  LLVMOpcode code = is_constant ? LLVMGetConstOpcode(v) : LLVMGetInstructionOpcode(v);
  uint64_t x[3] = {0}, mask = width_of(v) == 64 ? UINT64_MAX : (UINT64_C(1) << width_of(v)) - 1;
  if (code == LLVMCall) return result_of_call(f, v, depth) & mask;
  for (int i = 0; i < LLVMGetNumOperands(v) && i < 3 && code != LLVMPHI; i++)
    x[i] = value_of(f, LLVMGetOperand(v, (unsigned)i), depth + 1);
  switch ((int)code) {
  case LLVMAdd: return (x[0] + x[1]) & mask;
  case LLVMSub: return (x[0] - x[1]) & mask;
  case LLVMMul: return x[0] * x[1] & mask;
  case LLVMUDiv: return x[1] ? x[0] / x[1] : 0;
  case LLVMURem: return x[1] ? x[0] % x[1] : 0;
  case LLVMShl: return x[0] << x[1] & mask;
  case LLVMLShr: return x[0] >> x[1];
  case LLVMAnd: return x[0] & x[1];
  case LLVMOr: return x[0] | x[1];
  case LLVMXor: return x[0] ^ x[1];
  case LLVMSelect: return x[0] & 1 ? x[1] : x[2];
  case LLVMICmp: return compared(v, x[0], x[1]);
  case LLVMSExt: return (uint64_t)as_signed(LLVMGetOperand(v, 0), x[0]) & mask;
  case LLVMZExt:
  case LLVMTrunc:
  case LLVMIntToPtr:
  case LLVMPtrToInt:
  case LLVMLoad: // what lies there is known by its address
  case LLVMBitCast:
  case LLVMAddrSpaceCast: return x[0] & mask;
  case LLVMGetElementPtr:
    return x[0] + (uint64_t)as_signed(LLVMGetOperand(v, 1), x[1]) * size_of(LLVMGetGEPSourceElementType(v));
  default: return 0;
  }
}

static uint64_t value_of(const followed *f, LLVMValueRef v, unsigned depth) {
  unsigned at;
  if (depth > MOST_DEPTH) FAIL("a value is too deep");
  if (find_known(f, v, &at)) return f->known[at].is;
  if (LLVMIsAConstantInt(v)) return LLVMConstIntGetZExtValue(v);
  if (LLVMIsAGlobalVariable(v)) return WINDOW;
  for (unsigned i = 0; i < PARAMS; i++)
    if (LLVMGetParam(f->function, i) == v)
      return (uint64_t)f->params[i] & (width_of(v) == 64 ? UINT64_MAX : (UINT64_C(1) << width_of(v)) - 1);
  return LLVMIsAInstruction(v) || LLVMIsAConstantExpr(v) ? computed(f, v, depth) : 0;
}

// ------------------------------------------------------------------------------------- what the engine
// writes

/// The record of the last map, which is C's: after those of A and B. Innermost extent, evaluated.
static const uint8_t *map_of_c(const followed *f, int64_t *out_extent) {
  kiln_reader r = kiln_reader_of(f->info.maps.bytes, f->info.maps.size);
  unsigned count = kiln_read_u8(&r);
  const uint8_t *map = NULL;
  for (unsigned i = 0; i < count; i++) {
    map = kiln_read_bytes(&r, 6);
    CHECK(map != NULL && map[1] == 2 && kiln_read_bytes(&r, 8));
    for (unsigned k = 0; k < 4; k++) {
      size_t size;
      const uint8_t *code = kiln_read_block(&r, &size);
      CHECK(code && kiln_expr_verify(code, size, PARAMS));
      if (!k) CHECK(kiln_expr_eval(code, size, f->params, out_extent));
    }
  }
  CHECK(map && map[5] == PARAM_C);
  return map;
}

/// A box goes from shared memory to where its coordinates say: its elements inside the map are written in
/// pieces of 16 bytes.
static void send_box(followed *f, LLVMValueRef call) {
  const shape *s = f->s;
  int64_t extent;
  const uint8_t *map = map_of_c(f, &extent);
  unsigned width = map[6] | map[7] << 8, rows = map[10] | map[11] << 8, piece = 16 / f->bytes;
  uint32_t from = (uint32_t)value_of(f, LLVMGetOperand(call, 1), 0);
  unsigned column = (unsigned)value_of(f, LLVMGetOperand(call, 2), 0),
           row = (unsigned)value_of(f, LLVMGetOperand(call, 3), 0);
  CHECK(column % piece == 0);
  for (unsigned i = 0; i < rows; i++)
    for (unsigned j = 0; j < width; j++) {
      uint32_t at = swizzled(from + (i * width + j) * f->bytes, map[2]);
      f->memory[at - WINDOW] = (element){true, (uint16_t)(row + i), (uint16_t)(column + j)};
      bool is_written = row + i < s->rows && column + j < (unsigned)(extent + piece - 1) / piece * piece;
      if (is_written) f->engine[row + i][column + j]++;
    }
}

static void send(followed *f, LLVMBasicBlockRef block) {
  memset(f->memory, 0, sizeof f->memory);
  for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
    size_t size;
    if (LLVMGetInstructionOpcode(i) != LLVMCall || !LLVMIsAInlineAsm(LLVMGetCalledValue(i))) continue;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(i), &size);
    if (strstr(text, "async.bulk.tensor")) send_box(f, i);
  }
}

// ------------------------------------------------------------------------------------- what threads write

static void write_element(followed *f, uint64_t from, uint64_t to) {
  CHECK(from >= WINDOW && from < WINDOW + SHARED);
  const element *e = &f->memory[from - WINDOW];
  uint64_t place = (to - BASE) / f->bytes, distance = f->s->is_far ? UINT64_C(1) << 32 : f->s->distance;
  CHECK(e->is_there && (to - BASE) % f->bytes == 0);
  CHECK_INT(place / distance, e->row);
  CHECK_INT(place % distance, e->column);
  f->threads[e->row][e->column]++;
  f->by_threads++;
}

static void run_instruction(followed *f, LLVMValueRef i) {
  size_t size;
  if (LLVMGetInstructionOpcode(i) == LLVMStore) {
    write_element(f, value_of(f, LLVMGetOperand(i, 0), 0), value_of(f, LLVMGetOperand(i, 1), 0));
    return;
  }
  bool is_asm = LLVMGetInstructionOpcode(i) == LLVMCall && LLVMIsAInlineAsm(LLVMGetCalledValue(i));
  const char *text = is_asm ? LLVMGetInlineAsmAsmString(LLVMGetCalledValue(i), &size) : "";
  if (strstr(text, "red.relaxed.gpu.global.add.f32"))
    write_element(f, value_of(f, LLVMGetOperand(i, 1), 0), value_of(f, LLVMGetOperand(i, 0), 0));
  else know(f, i, computed(f, i, 0));
}

static void run_phis(followed *f, LLVMBasicBlockRef block, LLVMBasicBlockRef from) {
  for (LLVMValueRef i = LLVMGetFirstInstruction(block); LLVMIsAPHINode(i); i = LLVMGetNextInstruction(i))
    for (unsigned k = 0; k < LLVMCountIncoming(i); k++)
      if (LLVMGetIncomingBlock(i, k) == from) {
        know(f, i, value_of(f, LLVMGetIncomingValue(i, k), 0));
        break;
      }
}

static bool is_named(LLVMBasicBlockRef block, const char *name) {
  return !strncmp(LLVMGetBasicBlockName(block), name, strlen(name));
}

/// From the branch to `ragged` to where it ends.
static void run_thread(followed *f, LLVMBasicBlockRef before) {
  enum { MOST_BLOCKS = 1000 };
  LLVMBasicBlockRef block = before, from = NULL;
  memset(f->known, 0, sizeof f->known);
  for (unsigned count = 0; !is_named(block, "whole"); count++) {
    CHECK(count < MOST_BLOCKS);
    LLVMValueRef last = LLVMGetBasicBlockTerminator(block);
    if (block != before) {
      run_phis(f, block, from);
      for (LLVMValueRef i = LLVMGetFirstInstruction(block); i != last; i = LLVMGetNextInstruction(i))
        if (!LLVMIsAPHINode(i)) run_instruction(f, i);
    }
    from = block;
    bool is_second = LLVMIsConditional(last) && !(value_of(f, LLVMGetCondition(last), 0) & 1);
    block = LLVMGetSuccessor(last, is_second);
  }
}

static void run_group(followed *f, LLVMBasicBlockRef ragged) {
  LLVMBasicBlockRef before = NULL;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f->function); b && !before;
       b = LLVMGetNextBasicBlock(b)) {
    LLVMValueRef last = LLVMGetBasicBlockTerminator(b);
    for (unsigned i = 0; i < LLVMGetNumSuccessors(last); i++)
      if (LLVMGetSuccessor(last, i) == ragged) before = b;
  }
  CHECK(before != NULL);
  unsigned first = f->thread;
  for (; f->thread < first + GROUP; f->thread++) run_thread(f, before);
  f->thread = first;
}

// ------------------------------------------------------------------------------------- whole

static void kernel_text(const shape *s, char out[2000]) {
  unsigned rows = s->is_turned ? s->n : s->m, columns = s->is_turned ? s->m : s->n;
  char right[40] = "", part[40] = "";
  if (s->first) snprintf(right, sizeof right, ", first = %u, axis = 0", s->first);
  if (s->first) snprintf(part, sizeof part, ", first = %u, axis = %d", s->first, !s->is_turned);
  const char *value = s->is_turned ? "trans(acc as bf16)" : s->is_f32 ? "acc" : "acc as bf16";
  snprintf(
      out, 2000,
      "kiln 1\nkernel p(a: in *bf16 @align(16), b: in *bf16 @align(16), c: %s @align(16), M: i32, N: i32,\n"
      "    K: i32 @div(8), ldc: i32 @div(8), far: i32 @div(8))\n  @grid(1) @config(warps = %u, stages = "
      "2)\n{\n"
      "  let A = view(a, [M, K], [K, 1], [%u, 64])\n  let B = view(b, [N, K], [K, 1], [%u, 64])\n"
      "  var acc = zeros(f32[%u, %u])\n"
      "  for k in 0 .. K step 64 { acc = dot(load(A, [0, k]), trans(load(B, [0, k]%s)), acc) }\n"
      "  %s(view(c, [M, N], [%s, 1], [%u, %u]), [%u, %u], %s%s)\n}\n",
      s->adds     ? "accum *f32"
      : s->is_f32 ? "out *f32"
                  : "out *bf16",
      s->warps, s->m, s->n, s->m, s->n, right, s->adds ? "atomic.add" : "store",
      s->is_far ? "ldc * far" : "ldc", rows, columns, s->row, s->column, value, part);
}

/// Each element of the tile in the view is written once, by the engine or by a thread, and nothing else is.
static void compare(const followed *f, const char *text) {
  const shape *s = f->s;
  unsigned rows = s->is_turned ? s->first ? s->first : s->n : s->m, columns = s->is_turned ? s->m
                                                                              : s->first   ? s->first
                                                                                           : s->n;
  for (unsigned i = 0; i < SIDE; i++)
    for (unsigned j = 0; j < SIDE; j++) {
      bool is_inside = i >= s->row && i < s->row + rows && i < s->rows && j >= s->column &&
                       j < s->column + columns && j < s->columns;
      if (f->engine[i][j] + f->threads[i][j] != is_inside)
        FAIL("(%u, %u) of %u x %u is written %u times by the engine and %u times by threads in\n%s", i, j,
             s->rows, s->columns, f->engine[i][j], f->threads[i][j], text);
    }
}

/// Returns how many elements threads write.
static unsigned check_shape(const shape *s) {
  char text[2000];
  kiln_artifact artifact = {0};
  followed *f = calloc(1, sizeof *f);
  CHECK(f != NULL);
  kernel_text(s, text);
  compile(text, &artifact);
  f->s = s, f->info = artifact.info, f->bytes = s->is_f32 ? 4 : 2;
  f->params[PARAM_C] = BASE, f->params[PARAM_M] = s->rows, f->params[PARAM_N] = s->columns;
  f->params[PARAM_ROW] = s->is_far ? 1 << 16 : s->distance, f->params[PARAM_FAR] = 1 << 16;
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = NULL;
  char *message = NULL;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)artifact.code.bytes,
                                                                         artifact.code.size, "kernel");
  if (LLVMParseIRInContext(context, buffer, &module, &message)) FAIL("%s", message);
  f->function = LLVMGetFirstFunction(module);
  while (!LLVMCountBasicBlocks(f->function)) f->function = LLVMGetNextFunction(f->function);
  unsigned sent = 0;
  for (f->thread = 0; f->thread < s->warps * 32; f->thread += GROUP)
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f->function); b; b = LLVMGetNextBasicBlock(b)) {
      memset(f->known, 0, sizeof f->known);
      if (is_named(b, "send")) send(f, b), sent++;
      if (is_named(b, "ragged")) run_group(f, b);
    }
  if (!sent) FAIL("no store by the engine in\n%s", text);
  compare(f, text);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
  kiln_artifact_deinit(&artifact);
  unsigned by_threads = f->by_threads;
  free(f);
  return by_threads;
}

static unsigned draw(uint64_t *seed, unsigned below) {
  return (unsigned)(kiln_test_random(seed) >> 20) % below;
}

TEST(nvptx_row_ends, every_element_once) {
  static const shape tiles[] = {{64, 64, 4},   {128, 128, 8},      {64, 128, 8},       {64, 32, 4},
                                {128, 256, 8}, {128, 256, 8, 176}, {128, 256, 8, 208}, {128, 128, 8, 112},
                                {128, 64, 4},  {64, 64, 8}};
  uint64_t seed = 1;
  unsigned by_threads = 0;
  for (unsigned i = 0; i < 120; i++) {
    shape s = tiles[draw(&seed, sizeof tiles / sizeof *tiles)];
    s.is_turned = i % 4 == 1, s.adds = i % 4 == 2 && !s.first, s.is_f32 = s.adds || (i % 4 == 3 && !s.first);
    unsigned rows = s.is_turned ? s.n : s.m, columns = s.is_turned ? s.m : s.n;
    s.row = 16 * draw(&seed, 4), s.column = 16 * draw(&seed, 4);
    s.rows = draw(&seed, s.row + rows + 40), s.columns = draw(&seed, s.column + columns + 40);
    if (draw(&seed, 2)) s.columns = s.column + 1 + draw(&seed, columns);
    s.distance = (s.columns + 7) / 8 * 8 + 8 * draw(&seed, 9) + 8;
    s.is_far = i % 9 == 4;
    by_threads += check_shape(&s);
  }
  CHECK(by_threads > 5000);
}
