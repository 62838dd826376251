// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that products read what the copy engine wrote. It follows the LLVM code of kernels with one
// product: where each tensor load puts its box (extents and swizzle of the map record), and what each
// descriptor of a `wgmma.mma_async` then addresses. The address functions are the hardware's (PTX ISA,
// "wgmma.mma_async", "Shared Memory Matrix Layout"): swizzles act on address bits, base offset 0.
//
// Over element sizes 1, 2, 4, both majors of A and B, rows of 32 to 128 bytes and several of them, N 16 to
// 256.
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/codegen/nvptx_llvm.h"

enum { WINDOW = 0x400, SHARED = 232 * 1024, MOST_DEPTH = 200, GROUP = 128, ROWS = 64, STEP = 32 };

typedef struct shape {
  const char *type, *sum;
  unsigned bytes, m, n, k, warps;
  bool a_mn, b_mn, twice; ///< twice: a second product of the same operands beside the first
} shape;

/// What lies in a byte of shared memory: which operand, its row and its byte in the row of the tile in
/// memory.
typedef struct content {
  uint8_t operand; ///< 0 nothing, 1 A, 2 B
  uint16_t row, byte;
} content;

typedef struct followed {
  shape s;
  kiln_code_info info;
  content memory[SHARED];
  unsigned loads, products;
  uint32_t thread, block;
} followed;

// ------------------------------------------------------------------------------------- evaluation

/// The integer at the first program, the first slot and the first turn: what is not known is 0.
static uint64_t value_of(const followed *f, LLVMValueRef v, unsigned depth) {
  if (depth > MOST_DEPTH) FAIL("an address is too deep");
  if (LLVMIsAConstantInt(v)) return LLVMConstIntGetZExtValue(v);
  if (LLVMIsAGlobalVariable(v)) return WINDOW;
  bool is_constant = LLVMIsAConstantExpr(v);
  if (!is_constant && !LLVMIsAInstruction(v)) return 0;
  LLVMOpcode code = is_constant ? LLVMGetConstOpcode(v) : LLVMGetInstructionOpcode(v);
  uint64_t x[2] = {0};
  if (code == LLVMCall) {
    size_t size;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(v), &size);
    if (strstr(name, "sreg.tid.x")) return f->thread;
    if (strstr(name, "sreg.ctaid.x")) return f->block;
    return strstr(name, "shfl.sync.idx") ? value_of(f, LLVMGetOperand(v, 1), depth + 1) : 0;
  }
  for (int i = 0; i < LLVMGetNumOperands(v) && i < 2 && code != LLVMPHI; i++)
    x[i] = value_of(f, LLVMGetOperand(v, (unsigned)i), depth + 1);
  LLVMTypeRef type = LLVMTypeOf(v);
  unsigned bits = LLVMGetTypeKind(type) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type) : 64;
  uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
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
  case LLVMSExt: return (uint64_t)(int64_t)(int32_t)x[0] & mask;
  case LLVMZExt:
  case LLVMTrunc:
  case LLVMPtrToInt: return x[0] & mask;
  default: return 0;
  }
}

static uint64_t operand(const followed *f, LLVMValueRef call, unsigned i) {
  return value_of(f, LLVMGetOperand(call, i), 0);
}

/// The 16-byte pieces of a pattern of 8 rows change places. `mode`: 1 32, 2 64, 3 128 bytes.
// ------------------------------------------------------------------------------------------ writer

/// Box of map `number` of the record (docs/bundle.md): all maps here have rank 2.
static const uint8_t *map_of(const followed *f, unsigned number) {
  const uint8_t *at = (const uint8_t *)f->info.maps.bytes + 1;
  CHECK(number < at[-1]);
  for (unsigned i = 0;; i++) {
    unsigned rank = at[1];
    CHECK_INT(rank, 2);
    if (i == number) return at;
    at += 6 + 4 * rank;
    for (unsigned k = 0; k < 2 * rank;
         k++) {          // two extents, a stride, the offset; blocks with a size in front
      CHECK(*at < 0x80); // a varint of one byte
      at += 1 + *at;
    }
  }
}

static unsigned box_extent(const uint8_t *map, unsigned axis) {
  return map[6 + 4 * axis] | map[7 + 4 * axis] << 8;
}

static void write_box(followed *f, LLVMValueRef call, unsigned first_map) {
  LLVMValueRef param = LLVMGetOperand(call, 1),
               function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
  unsigned number = 0;
  while (LLVMGetParam(function, first_map + number) != param) number++;
  const uint8_t *map = map_of(f, number);
  uint32_t to = (uint32_t)operand(f, call, 0), column = (uint32_t)operand(f, call, 3);
  unsigned width = box_extent(map, 0) * f->s.bytes, rows = box_extent(map, 1);
  CHECK_INT(operand(f, call, 4), 0);
  CHECK(width <= 16u << map[2]);
  CHECK_INT(to % (128u << map[2]), 0); // patterns begin at multiples of themselves
  for (unsigned row = 0; row < rows; row++)
    for (unsigned byte = 0; byte < width; byte++) {
      content *c = &f->memory[swizzled(to + row * width + byte, map[2]) - WINDOW];
      if (c->operand) FAIL("two copies into one byte");
      *c = (content){(uint8_t)(1 + map[5]), (uint16_t)row, (uint16_t)(column * f->s.bytes + byte)};
    }
  f->loads++;
}

// ------------------------------------------------------------------------------------------ reader

/// Where the unit finds byte `b` of element (i, k): i along rows or columns, k along the reduced index.
static uint32_t element_address(const shape *s, uint64_t descriptor, bool is_mn, unsigned i, unsigned k) {
  static const uint8_t modes[] = {0, 3, 2, 1};
  unsigned mode = modes[descriptor >> 62], width = 16u << mode;
  uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, lead = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
           stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
  CHECK(mode && !(descriptor >> 49 & 7));
  if (is_mn) start += i * s->bytes / width * lead + i * s->bytes % width + k / 8 * stride + k % 8 * width;
  else start += i / 8 * stride + i % 8 * width + k * s->bytes;
  return swizzled(start, mode);
}

static void read_operand(const followed *f, uint64_t descriptor, unsigned which, unsigned first,
                         unsigned count, unsigned step) {
  const shape *s = &f->s;
  bool is_mn = which == 1 ? s->a_mn : s->b_mn;
  for (unsigned i = 0; i < count; i++)
    for (unsigned k = 0; k < STEP / s->bytes; k++) {
      unsigned free = first + i, depth = step * (STEP / s->bytes) + k;
      uint32_t at = element_address(s, descriptor, is_mn, i, k);
      CHECK(at >= WINDOW && at < WINDOW + SHARED);
      const content *c = &f->memory[at - WINDOW];
      unsigned row = is_mn ? depth : free, byte = (is_mn ? free : depth) * s->bytes;
      if (c->operand != which || c->row != row || c->byte != byte)
        FAIL("%s %u x %u x %u, %u warps, %s: (%u, %u) of operand %u reads row %u, byte %u of %u", s->type,
             s->m, s->n, s->k, s->warps, is_mn ? "MN" : "K", free, depth, which, c->row, c->byte, c->operand);
    }
}

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/// What the text adds to the descriptor before its next step; goes on after it. 0: nothing.
static uint64_t further(const char **text, char name) {
  char word[] = "add.s64 a, $";
  word[sizeof "add.s64 " - 1] = name;
  const char *at = strstr(*text, word);
  if (!at) return 0;
  char *end;
  uint64_t more = strtoull(strchr(at + sizeof word - 1, ',') + 1, &end, 10);
  *text = end;
  return more;
}

/// Groups stand below one another as long as there are rows, then side by side.
static void read_product(followed *f, LLVMValueRef call, const char *text) {
  const shape *s = &f->s;
  unsigned groups = s->warps / 4, down = least(groups, s->m / ROWS), across = groups / down;
  unsigned blocks = s->m / ROWS / down, columns = s->n / across, steps = s->k * s->bytes / STEP;
  unsigned group = f->thread / GROUP, block = f->products++ % blocks;
  unsigned row = group / across * ROWS * blocks + block * ROWS, column = group % across * columns;
  bool is_sum = strstr(text, "add.s64 a, $"); // a step's descriptor is that of the first and something
  CHECK_INT(is_sum, s->twice);
  for (unsigned i = 0; i < steps; i++) {
    unsigned at = is_sum ? 0 : 2 * i;
    read_operand(f, operand(f, call, 1 + at) + further(&text, 'a'), 1, row, ROWS, i);
    read_operand(f, operand(f, call, 2 + at) + further(&text, 'b'), 2, column, columns, i);
  }
}

// ------------------------------------------------------------------------------------------- whole

static void visit(followed *f, LLVMValueRef function, bool reads) {
  unsigned first_map = LLVMCountParams(function) - *(const uint8_t *)f->info.maps.bytes;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
      if (LLVMGetInstructionOpcode(i) != LLVMCall || !LLVMIsAInlineAsm(LLVMGetCalledValue(i))) continue;
      size_t size;
      const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(i), &size);
      if (!reads && strstr(text, "cp.async.bulk.tensor") && strstr(text, "mbarrier"))
        write_box(f, i, first_map);
      if (reads && strstr(text, "wgmma.mma_async")) read_product(f, i, text);
    }
}

/// Of the kernel's LLVM IR, which the context owns from here on.
static LLVMValueRef function_of(LLVMContextRef context, const kiln_artifact *artifact) {
  LLVMModuleRef module = NULL;
  char *message = NULL;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)artifact->code.bytes,
                                                                         artifact->code.size, "kernel");
  if (LLVMParseIRInContext(context, buffer, &module, &message)) FAIL("%s", message);
  LLVMValueRef function = LLVMGetFirstFunction(module);
  while (function && !LLVMCountBasicBlocks(function)) function = LLVMGetNextFunction(function);
  CHECK(function != NULL);
  return function;
}

static void follow(followed *f, const kiln_artifact *artifact) {
  LLVMContextRef context = LLVMContextCreate();
  LLVMValueRef function = function_of(context, artifact);
  visit(f, function, false);
  CHECK(f->loads > 1);
  for (f->thread = 0; f->thread < f->s.warps * 32; f->thread += GROUP) {
    f->products = 0;
    visit(f, function, true);
    CHECK(f->products > 0);
  }
  LLVMDisposeModule(LLVMGetGlobalParent(function));
  LLVMContextDispose(context);
}

/// The unit cuts f32 operands off where tf32 ends: they are rounded on their way to shared memory. (The map
/// after those of the operands, if there is one, is the result's.)
static void check_elements(const followed *f) {
  for (unsigned i = 0; i < 2; i++) {
    unsigned element = *map_of(f, i);
    if ((f->s.bytes == 4) != (element == KILN_MAP_TF32))
      FAIL("map %u of %s has element %u", i, f->s.type, element);
  }
}

static void check_shape(const shape *s) {
  char text[1200], a[40], b[40];
  kiln_artifact artifact = {0};
  followed *f = calloc(1, sizeof *f);
  CHECK(f != NULL);
  snprintf(a, sizeof a, s->a_mn ? "trans(load(A, [k, 0]))" : "load(A, [0, k])");
  snprintf(b, sizeof b, s->b_mn ? "load(B, [k, 0])" : "trans(load(B, [0, k]))");
  snprintf(text, sizeof text,
           "kiln 1\nkernel p(a: in *%s @align(16), b: in *%s @align(16), c: out *%s @align(16), M: i32, N: "
           "i32, K: i32,\n"
           "    lda: i64 @div(16), ldb: i64 @div(16), ldc: i64 @div(16))\n"
           "  @grid(1) @config(warps = %u, stages = 2)\n{\n"
           "  let A = view(a, [%s], [lda, 1], [%u, %u])\n  let B = view(b, [%s], [ldb, 1], [%u, %u])\n"
           "  var acc = zeros(%s[%u, %u])\n"
           "  var more = zeros(%s[%u, %u])\n"
           "  for k in 0 .. K step %u {\n    let x = %s\n    let y = %s\n    acc = dot(x, y, acc%s)\n%s  }\n"
           "  store(view(c, [M, N], [ldc, 1], [%u, %u]), [0, 0], acc + more)\n}\n",
           s->type, s->type, s->sum, s->warps, s->a_mn ? "K, M" : "M, K", s->a_mn ? s->k : s->m,
           s->a_mn ? s->m : s->k, s->b_mn ? "K, N" : "N, K", s->b_mn ? s->k : s->n, s->b_mn ? s->n : s->k,
           s->sum, s->m, s->n, s->sum, s->m, s->n, s->k, a, b,
           s->bytes == 4              ? ", prec = tf32"
           : !strcmp(s->type, "e4m3") ? ", prec = fast"
                                      : "",
           s->twice ? "    more = dot(x, y, more)\n" : "", s->m, s->n);
  compile(text, &artifact);
  f->s = *s;
  f->info = artifact.info;
  if (!f->info.maps.size) FAIL("no tensor maps in\n%s", text);
  check_elements(f);
  follow(f, &artifact);
  free(f);
  kiln_artifact_deinit(&artifact);
}

static void check_types(const shape *type, bool a_mn, bool b_mn) {
  static const struct { unsigned m, warps; } rows[] = {{64, 4}, {64, 8}, {128, 8}, {128, 4}};
  for (unsigned width = 32; width <= 256; width *= 2)
    for (unsigned n = 16; n <= 256; n *= 2)
      for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned across = rows[i].m == 64 && rows[i].warps == 8 ? 2 : 1;
        shape s = *type;
        s.m = rows[i].m, s.warps = rows[i].warps, s.n = n, s.k = width / s.bytes, s.a_mn = a_mn,
        s.b_mn = b_mn;
        bool is_small = n / across >= 16 && s.m * n / (s.warps * 32) <= 128;
        bool fits = 2 * (s.m + n) * width + 40 * 1024 <= 227 * 1024;
        if (is_small && fits) check_shape(&s);
      }
}

TEST(nvptx_descriptors, one_byte) {
  check_types(&(shape){.type = "e4m3", .sum = "f32", .bytes = 1}, false, false);
  check_types(&(shape){.type = "i8", .sum = "i32", .bytes = 1}, false, false);
}

TEST(nvptx_descriptors, two_bytes) {
  for (unsigned i = 0; i < 4; i++)
    check_types(&(shape){.type = "bf16", .sum = "f32", .bytes = 2}, i & 1, i & 2);
}

TEST(nvptx_descriptors, four_bytes) {
  check_types(&(shape){.type = "f32", .sum = "f32", .bytes = 4}, false, false);
}

/// Products that are under way together. (An operand that both transpose stays in registers.)
TEST(nvptx_descriptors, two_products) {
  static const unsigned sizes[][4] = {
      {64, 64, 64, 4}, {128, 128, 64, 8}, {64, 128, 128, 8}, {128, 64, 32, 8}};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const unsigned *m = sizes[i];
    check_shape(&(shape){"bf16", "f32", 2, m[0], m[1], m[2], m[3], false, true, true});
  }
}

// ------------------------------------------------------------------------------------ parts of tiles

enum { TEXT = 1000 };

typedef struct tile {
  unsigned m, n, warps;
  bool is_turned; ///< as it is stored
} tile;

/// One product; of A, B and the result the parts that the texts say.
static void product_text(char out[TEXT], const tile *t, unsigned shares, const char *a, const char *b,
                         const char *c) {
  snprintf(
      out, TEXT,
      "kiln 1\nkernel p(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16), n: i32 "
      "@div(8))\n"
      "  @grid(1) @config(warps = %u, stages = %u)\n{\n"
      "  let A = view(a, [n, n], [n, 1], [%u, 64])\n  let B = view(b, [n, n], [n, 1], [%u, 64])\n"
      "  var acc = zeros(f32[%u, %u])\n"
      "  for k in 0 .. n step 64 @split(%u) { acc = dot(load(A, [0, k]%s), trans(load(B, [0, k]%s)), acc) }\n"
      "  store(view(c, [n, n], [n, 1], [%u, %u]), [0, 0], %s%s)\n}\n",
      t->warps, shares > 1 ? 3 : 2, t->m, t->n, t->m, t->n, shares, a, b, t->is_turned ? t->n : t->m,
      t->is_turned ? t->m : t->n, t->is_turned ? "trans(acc as bf16)" : "acc as bf16", c);
}

// ------------------------------------------------------------------------------------- staged stores

/// A store by the copy engine: its tile, warps, columns that count (0: all), and what its box must have: the
/// largest power of two that divides what a group stages, at most 64. Turned, these are rows of the box.
typedef struct staged {
  unsigned m, n, warps, first, box;
} staged;

static void check_staged(const staged *s, bool is_turned) {
  char text[TEXT], first[2][48] = {"", ""};
  kiln_artifact artifact = {0};
  followed f = {.s = {.bytes = 2}};
  for (int i = 0; s->first && i < 2; i++)
    snprintf(first[i], sizeof first[i], ", first = %u, axis = %d", s->first, is_turned ? 0 : i);
  product_text(text, &(tile){s->m, s->n, s->warps, is_turned}, 1, "", first[0], first[1]);
  compile(text, &artifact);
  f.info = artifact.info;
  CHECK_INT(*(const uint8_t *)f.info.maps.bytes, 3);
  const uint8_t *map = map_of(&f, 2);
  CHECK_INT(map[5], 2); // of the third parameter
  CHECK_INT(box_extent(map, is_turned), s->box);
  CHECK_INT(box_extent(map, !is_turned), 64);
  CHECK_INT(box_extent(map_of(&f, 1), 1), s->first ? s->first : s->n);
  CHECK_INT(16u << map[2], is_turned ? 128 : 2 * s->box < 32 ? 16 : 2 * s->box);
  kiln_artifact_deinit(&artifact);
}

/// Groups that share the columns stage fewer than the tile has.
TEST(nvptx_descriptors, staged_stores) {
  static const staged cases[] = {{64, 64, 4, 0, 64},    {64, 64, 8, 0, 32},     {64, 128, 8, 0, 64},
                                 {64, 32, 8, 0, 16},    {128, 256, 8, 192, 64}, {128, 256, 8, 160, 32},
                                 {128, 128, 8, 96, 32}, {128, 256, 8, 208, 16}, {128, 128, 8, 112, 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int is_turned = 0; is_turned < 2; is_turned++) check_staged(&cases[i], is_turned);
}

// ------------------------------------------------------------------------------------ shared programs

enum { MOST_BLOCKS = 4, MOST_PIECES = 4, MOST_SIDE = 512 };

/// Blocks that share a program: its tile, warps, rows and columns that count (0: all); as many blocks times
/// `shares` share its steps, too.
typedef struct shared {
  unsigned m, n, warps, rows, columns, shares;
  bool is_turned;
} shared;

/// Where a group's piece of the result, 64 rows and some columns, comes from: the first of each.
typedef struct piece {
  unsigned row, column, columns;
} piece;

/// Rows of an operand's tile that lie in each block's memory: that of the first byte of each row in memory.
typedef struct cluster {
  followed at;
  const shared *s;
  int row[MOST_BLOCKS][SHARED / 128]; ///< by its 128 bytes; -1: none
  uint8_t operand[MOST_BLOCKS][SHARED / 128];
  piece pieces[MOST_PIECES];
  unsigned piece_count, sent, share;
  uint8_t stored[MOST_SIDE][MOST_SIDE];
} cluster;

/// Number of the block among those that have its share of the steps, or of all blocks in a mask.
static unsigned in_share(const cluster *c, unsigned block) { return block - c->share * (c->s->warps / 8); }
static uint32_t of_share(const cluster *c, uint32_t mask) { return mask >> c->share * (c->s->warps / 8); }

static void copy_rows(cluster *c, LLVMValueRef call, const char *text, unsigned first_map) {
  LLVMValueRef param = LLVMGetOperand(call, 1),
               function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
  unsigned number = 0;
  while (LLVMGetParam(function, first_map + number) != param) number++;
  const uint8_t *map = map_of(&c->at, number);
  uint32_t to = (uint32_t)operand(&c->at, call, 0), row = (uint32_t)operand(&c->at, call, 4),
           mask = strstr(text, ".multicast") ? (uint32_t)operand(&c->at, call, 5) : 1u << c->at.block,
           blocks = of_share(c, mask);
  CHECK(blocks && blocks < 1u << MOST_BLOCKS);
  for (unsigned b = 0; b < MOST_BLOCKS; b++)
    for (unsigned i = 0; blocks >> b & 1 && i < box_extent(map, 1); i++) {
      unsigned at = (to - WINDOW) / 128 + i;
      CHECK(c->operand[b][at] == 0);
      c->operand[b][at] = (uint8_t)(1 + map[5]), c->row[b][at] = (int)(row + i);
    }
}

/// The rows of operand `which` that begin at a descriptor are one after another; the first of them.
static unsigned rows_at(const cluster *c, uint64_t descriptor, unsigned which, unsigned count) {
  unsigned at = (((uint32_t)descriptor & 0x3fff) * 16 - WINDOW) / 128;
  unsigned block = in_share(c, c->at.block);
  CHECK_INT(descriptor >> 62, 1); // rows of 128 bytes
  for (unsigned i = 0; i < count; i++) {
    CHECK_INT(c->operand[block][at + i], which);
    CHECK_INT(c->row[block][at + i], c->row[block][at] + (int)i);
  }
  return (unsigned)c->row[block][at];
}

static void note_piece(cluster *c, LLVMValueRef call, const char *text) {
  piece p = {.columns = (unsigned)atoi(strstr(text, ".m64n") + 5)};
  p.row = rows_at(c, operand(&c->at, call, 1), 1, ROWS);
  p.column = rows_at(c, operand(&c->at, call, 2), 2, p.columns);
  CHECK(c->piece_count < MOST_PIECES);
  c->pieces[c->piece_count++] = p;
}

/// A group sends its pieces in order, of each its share of the columns, in boxes from the first on.
static void note_sent(cluster *c, LLVMValueRef call) {
  const uint8_t *map = map_of(&c->at, 2);
  bool t = c->s->is_turned;
  unsigned row = (unsigned)operand(&c->at, call, t ? 2 : 3),
           column = (unsigned)operand(&c->at, call, t ? 3 : 2);
  unsigned own = c->pieces[0].columns / c->s->shares, columns = box_extent(map, t), boxes = own / columns;
  const piece *p = &c->pieces[c->sent / boxes];
  CHECK_INT(box_extent(map, !t), ROWS);
  CHECK(c->sent / boxes < c->piece_count);
  CHECK_INT(row, p->row);
  CHECK_INT(column, p->column + c->share * own + c->sent++ % boxes * columns);
  for (unsigned i = 0; i < ROWS; i++)
    for (unsigned j = 0; j < columns; j++) c->stored[row + i][column + j]++;
}

static void visit_cluster(cluster *c, LLVMValueRef function, bool reads) {
  unsigned first_map = LLVMCountParams(function) - *(const uint8_t *)c->at.info.maps.bytes;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
      if (LLVMGetInstructionOpcode(i) != LLVMCall || !LLVMIsAInlineAsm(LLVMGetCalledValue(i))) continue;
      size_t size;
      const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(i), &size);
      bool is_copy = strstr(text, "cp.async.bulk.tensor"), is_load = is_copy && strstr(text, "mbarrier");
      if (!reads && is_load) copy_rows(c, i, text, first_map);
      if (reads && strstr(text, "wgmma.mma_async")) note_piece(c, i, text);
      if (reads && is_copy && !is_load) note_sent(c, i);
    }
}

static void follow_share(cluster *c, LLVMValueRef function) {
  unsigned blocks = c->s->warps / 8, first = c->share * blocks;
  memset(c->operand, 0, sizeof c->operand);
  for (c->at.block = first; c->at.block < first + blocks; c->at.block++) visit_cluster(c, function, false);
  for (c->at.block = first; c->at.block < first + blocks; c->at.block++)
    for (unsigned group = 0; group < 2; group++) {
      c->at.thread = group * GROUP;
      c->piece_count = c->sent = 0;
      visit_cluster(c, function, true);
      CHECK(c->piece_count && c->sent);
    }
}

static void follow_cluster(cluster *c, LLVMValueRef function) {
  const shared *s = c->s;
  unsigned rows = s->rows ? s->rows : s->m, columns = s->columns ? s->columns : s->n;
  for (c->share = 0; c->share < s->shares; c->share++) follow_share(c, function);
  for (unsigned i = 0; i < MOST_SIDE; i++)
    for (unsigned j = 0; j < MOST_SIDE; j++) CHECK_INT(c->stored[i][j], i < rows && j < columns);
}

static void part_text(char out[48], unsigned count, unsigned axis) {
  snprintf(out, 48, count ? ", first = %u, axis = %u" : "", count, axis);
}

static void part_of_store(char out[48], const shared *s) {
  unsigned rows = s->rows ? s->rows : s->m, columns = s->columns ? s->columns : s->n;
  snprintf(out, 48, ", first = [%u, %u]", s->is_turned ? columns : rows, s->is_turned ? rows : columns);
}

static void check_shared(const shared *s) {
  char text[TEXT], x[48], y[48], z[48];
  kiln_artifact artifact = {0};
  cluster *c = calloc(1, sizeof *c);
  CHECK(c != NULL);
  c->s = s, c->at.s.bytes = 2;
  part_text(x, s->rows, 0), part_text(y, s->columns, 0), part_of_store(z, s);
  product_text(text, &(tile){s->m, s->n, s->warps, s->is_turned}, s->shares, x, y, z);
  compile(text, &artifact);
  c->at.info = artifact.info;
  if (!c->at.info.maps.size) FAIL("no tensor maps in\n%s", text);
  LLVMContextRef context = LLVMContextCreate();
  LLVMValueRef function = function_of(context, &artifact);
  follow_cluster(c, function);
  LLVMDisposeModule(LLVMGetGlobalParent(function));
  LLVMContextDispose(context);
  free(c);
  kiln_artifact_deinit(&artifact);
}

/// Each block's groups read the rows and columns whose sums they store, or their share of them, and all
/// together store each element that counts once.
TEST(nvptx_descriptors, shared_programs) {
  static const shared cases[] = {{256, 64, 16},
                                 {256, 256, 16},
                                 {256, 256, 32},
                                 {512, 128, 16},
                                 {512, 64, 32},
                                 {128, 256, 16},
                                 {128, 128, 16},
                                 {256, 128, 32},
                                 {256, 256, 16, 0, 192},
                                 {256, 256, 32, 0, 160},
                                 {512, 256, 16, 0, 96},
                                 {128, 256, 16, 0, 192},
                                 {128, 512, 16, 0, 288},
                                 {128, 256, 16, 0, 160},
                                 {256, 512, 16, 192, 384},
                                 {256, 256, 16, 192, 0},
                                 {128, 256, 16, 64, 192},
                                 {256, 512, 16, 192, 320},
                                 {256, 512, 16, 128, 448},
                                 {256, 128, 16, 192, 64},
                                 {256, 256, 16, 0, 0, 2},
                                 {256, 256, 16, 0, 192, 3},
                                 {512, 128, 32, 0, 0, 2},
                                 {128, 256, 16, 0, 0, 2},
                                 {128, 256, 16, 0, 0, 4},
                                 {128, 256, 16, 0, 192, 3},
                                 {128, 512, 16, 0, 320, 2},
                                 {256, 256, 32, 0, 192, 2},
                                 {256, 256, 16, 192, 0, 2},
                                 {256, 256, 16, 192, 0, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int is_turned = 0; is_turned < 2; is_turned++) {
      shared s = cases[i];
      s.is_turned = is_turned;
      if (!s.shares) s.shares = 1;
      check_shared(&s);
    }
}
