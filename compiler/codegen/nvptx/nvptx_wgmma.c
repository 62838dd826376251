// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a group of four warps from shared memory (PTX ISA, "wgmma.mma_async"). B is described by a
// 64-bit descriptor, A too or comes in registers; the accumulator is in registers.
//
// All products of one `mma` and the wait for them are one assembly text whose accumulators are tied operands:
// the assembler sees a plain sequence and adds no waits of its own.
#include <string.h>

#include "compiler/codegen/nvptx/nvptx_async.h"
#include "compiler/passes/gpu/gpu.h"

enum { STEP = 32, ROWS = 6, MAX_STEPS = 16, MOST_LOOKED_AT = 1000 };

// ------------------------------------------------------------------------------------- descriptors

/// An operand in shared memory: columns of `row` bytes, one after another, each with a row of the tile after
/// the other, 16-byte pieces exchanged within 8 rows.
typedef struct operand {
  LLVMValueRef address; ///< of what the group reads first
  uint32_t step;        ///< bytes from one step of the reduced index to the next, inside a column
  uint32_t column;      ///< bytes from one column to the next
  unsigned row;
  unsigned per_column; ///< steps that a column has; 0: all
  uint64_t high;
} operand;

/// `free`: the offset in rows or columns of the product, i32, a multiple of 64 or of the group's columns.
static operand describe(gpu *g, ir_value *memory, ir_value *slot, bool is_mn, LLVMValueRef free) {
  ir_type tile = memory->type;
  unsigned bytes = kiln_scalars[tile.scalar].bytes, row = kiln_memory_row(tile, NVPTX_ROW);
  const ir_alloc *alloc = &memory->def->attrs.alloc;
  uint32_t column = row * kiln_memory_rows(tile, alloc->rows) / (is_mn || !alloc->parts ? 1 : alloc->parts),
           lead = is_mn ? column : 16;
  operand o = {
      .row = row, .column = column, .step = is_mn ? 16 * row : STEP, .per_column = is_mn ? 0 : row / STEP};
  LLVMValueRef offset;
  if (is_mn) {
    unsigned shift = (unsigned)__builtin_ctz(row / bytes);
    LLVMValueRef columns = LLVMBuildLShr(g->builder, free, gpu_i32(g, shift), "");
    LLVMValueRef inside = LLVMBuildAnd(g->builder, free, gpu_i32(g, row / bytes - 1), "");
    offset = LLVMBuildAdd(g->builder, LLVMBuildMul(g->builder, columns, gpu_i32(g, column), ""),
                          LLVMBuildMul(g->builder, inside, gpu_i32(g, bytes), ""), "");
  } else {
    offset = LLVMBuildMul(g->builder, free, gpu_i32(g, row), "");
  }
  o.address = LLVMBuildAdd(g->builder, nvptx_slot_address(g, memory, slot), offset, "");
  const unsigned swizzle = row == 128 ? 1 : row == 64 ? 2 : 3;
  o.high = (uint64_t)swizzle << 62 | (uint64_t)(8 * row / 16) << 32 | (uint64_t)(lead / 16) << 16;
  return o;
}

/// What is added to the descriptor of the first step for another one.
static uint32_t further(const operand *o, unsigned step) {
  uint32_t more =
      o->per_column ? step / o->per_column * o->column + step % o->per_column * o->step : step * o->step;
  return more / 16;
}

static LLVMValueRef descriptor(gpu *g, const operand *o, unsigned step) {
  LLVMValueRef v = LLVMBuildLShr(g->builder, o->address, gpu_i32(g, 4), "");
  v = LLVMBuildZExt(g->builder, LLVMBuildAnd(g->builder, v, gpu_i32(g, 0x3fff), ""), g->i64, "");
  return LLVMBuildAdd(g->builder, v, LLVMConstInt(g->i64, o->high + further(o, step), false), "");
}

// ------------------------------------------------------------------------------------------ asm

static const char *type_text(const ir_type *t) {
  static const char *const texts[KILN_SCALAR_COUNT] = {
      [KILN_F16] = "f16",   [KILN_BF16] = "bf16", [KILN_F32] = "tf32",
      [KILN_E4M3] = "e4m3", [KILN_E5M2] = "e5m2", [KILN_I8] = "s8"};
  return texts[t->scalar];
}

/// One `mma` of one block of 64 rows while its text is written.
typedef struct product {
  const ir_op *op;
  ir_type a, b, c;
  unsigned sums, steps; ///< accumulators a thread, steps of the reduced index
  LLVMValueRef *arguments;
  unsigned count;
  unsigned left, right; ///< with is_queued: arguments, descriptors of the first step
  bool is_same_left;    ///< A is in registers and the same in each iteration of the loop around
  kiln_buffer text, constraints;
} product;

static unsigned pass(product *p, const char *constraint, LLVMValueRef value) {
  kiln_buffer_format(&p->constraints, ",%s", constraint);
  p->arguments[p->count] = value;
  return p->sums + p->count++;
}

/// Of products that leave few registers for anything else the text itself adds to a descriptor what a step
/// wants: LLVM would keep the sums in registers all through a loop.
static void put_descriptor(gpu *g, product *p, const char *name, const operand *o, unsigned step) {
  if (p->op->attrs.mma.is_queued) kiln_buffer_format(&p->text, ", %s", name);
  else kiln_buffer_format(&p->text, ", $%u", pass(p, "l", descriptor(g, o, step)));
}

static LLVMValueRef left_word(gpu *g, const LLVMValueRef *registers, unsigned step, unsigned word) {
  return LLVMBuildBitCast(g->builder, gpu_pack(g, registers + 8 * step + 2 * word, 2), g->i32, "");
}

/// Whether `v` is the same in each iteration of the loop around `op`, or is computed from what is: LLVM and
/// the assembler move that before the loop. After `budget` values it is taken to be.
static bool is_same_each_time(const ir_op *op, const ir_value *v, unsigned *budget) {
  const ir_op *loop = op->block->parent, *around = v->def ? v->def->block->parent : v->block->parent;
  while (loop && !ir_is_loop(loop)) loop = loop->block->parent;
  while (around && around != loop) around = around->block->parent;
  if (!loop) return false;
  if (!around || !*budget) return true;
  --*budget;
  if (!v->def || !(ir_has(v->def->code, IR_EACH) || v->def->code == IR_CONVERT)) return false;
  for (uint32_t i = 0; i < v->def->operand_count; i++)
    if (!is_same_each_time(op, v->def->operands[i], budget)) return false;
  return true;
}

/// The words of A, q0, q1 and so on, each combined with a zero that the assembler does not know. ptxas up to
/// 13.0 copies the registers of such an A before the loop, and gives the copies to others after the first
/// product where another one has as many: from the second iteration on A was garbage.
static void put_left_words(gpu *g, product *p, const LLVMValueRef *registers) {
  const unsigned words = 4 * p->steps;
  kiln_buffer_format(&p->text, ".reg .b32 z, q<%u>; mov.u32 z, %%smid; shr.u32 z, z, 31; ", words);
  for (unsigned i = 0; i < words; i++)
    kiln_buffer_format(&p->text, "xor.b32 q%u, $%u, z; ", i,
                       pass(p, "r", left_word(g, registers, i / 4, i % 4)));
}

static void put_step(gpu *g, product *p, unsigned step, unsigned columns, const operand *left,
                     const LLVMValueRef *registers, const operand *right, const char *scale) {
  bool is_queued = p->op->attrs.mma.is_queued;
  if (is_queued && !registers)
    kiln_buffer_format(&p->text, "add.s64 a, $%u, %u; ", p->left, further(left, step));
  if (is_queued) kiln_buffer_format(&p->text, "add.s64 b, $%u, %u; ", p->right, further(right, step));
  kiln_buffer_format(&p->text, "wgmma.mma_async.sync.aligned.m64n%uk%u.%s.%s.%s ", columns,
                     STEP / kiln_scalars[p->a.scalar].bytes, p->c.scalar == KILN_F32 ? "f32" : "s32",
                     type_text(&p->a), type_text(&p->b));
  for (unsigned i = 0; i < p->sums; i++) kiln_buffer_format(&p->text, "%s$%u", i ? "," : "{", i);
  kiln_buffer_format(&p->text, "}");
  if (registers) {
    for (unsigned i = 0; i < 4; i++) {
      kiln_buffer_format(&p->text, i ? "," : ", {");
      if (p->is_same_left) kiln_buffer_format(&p->text, "q%u", 4 * step + i);
      else kiln_buffer_format(&p->text, "$%u", pass(p, "r", left_word(g, registers, step, i)));
    }
    kiln_buffer_format(&p->text, "}");
  } else {
    put_descriptor(g, p, "a", left, step);
  }
  put_descriptor(g, p, "b", right, step);
  kiln_buffer_format(&p->text, ", %s", scale);
  // Scale and major immediates: floats negate by -1; 16-bit types say which operands lie the other way.
  bool is_float = p->c.scalar == KILN_F32, has_major = kiln_scalars[p->a.scalar].bytes == 2;
  if (is_float) kiln_buffer_format(&p->text, ", 1, 1");
  if (has_major && !registers) kiln_buffer_format(&p->text, ", %d", p->op->attrs.mma.a_mn ? 1 : 0);
  if (has_major) kiln_buffer_format(&p->text, ", %d", p->op->attrs.mma.b_mn ? 1 : 0);
  kiln_buffer_format(&p->text, "; ");
}

static void put_results(product *p) {
  for (unsigned i = 0; i < p->sums; i++)
    kiln_buffer_format(&p->constraints, "%s%s", i ? "," : "", p->c.scalar == KILN_F32 ? "=f" : "=r");
}

/// Ends the text. `initial`: values that the results are tied to; NULL: the text writes them first.
static void issue(gpu *g, product *p, const LLVMValueRef *initial, LLVMValueRef *sums) {
  LLVMTypeRef *types = KILN_NEW_ARRAY(g->arena, LLVMTypeRef, p->sums); // one for each accumulator
  for (unsigned i = 0; i < p->sums; i++) types[i] = p->c.scalar == KILN_F32 ? g->f32 : g->i32;
  LLVMTypeRef result = p->sums ? LLVMStructTypeInContext(g->context, types, p->sums, false)
                               : LLVMVoidTypeInContext(g->context);
  for (unsigned i = 0; initial && i < p->sums; i++) {
    kiln_buffer_format(&p->constraints, ",%u", i);
    p->arguments[p->count++] = initial[i];
  }
  kiln_buffer_format(&p->constraints, "%s~{memory}", p->constraints.size ? "," : "");
  LLVMValueRef made = kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, (const char *)p->text.bytes,
                                    (const char *)p->constraints.bytes, result, p->arguments, p->count);
  kiln_buffer_deinit(&p->text);
  kiln_buffer_deinit(&p->constraints);
  for (unsigned i = 0; i < p->sums; i++) sums[i] = LLVMBuildExtractValue(g->builder, made, i, "");
}

/// 64 rows and `columns` columns: all steps, then the wait unless the product goes on. `keep`: whether the
/// accumulators count; NULL: they start from zero.
static void multiply(gpu *g, product *p, unsigned columns, const operand *left, const LLVMValueRef *registers,
                     const operand *right, LLVMValueRef keep, const LLVMValueRef *initial,
                     LLVMValueRef *sums) {
  bool is_queued = p->op->attrs.mma.is_queued;
  p->sums = columns / 2;
  p->count = 0;
  put_results(p);
  kiln_buffer_format(&p->text, "{ ");
  if (keep) kiln_buffer_format(&p->text, ".reg .pred p; setp.ne.b32 p, $%u, 0; ", pass(p, "r", keep));
  if (p->is_same_left) put_left_words(g, p, registers);
  kiln_buffer_format(&p->text, "%swgmma.fence.sync.aligned; ", is_queued ? ".reg .b64 a, b; " : "");
  if (is_queued && !registers) p->left = pass(p, "l", descriptor(g, left, 0));
  if (is_queued) p->right = pass(p, "l", descriptor(g, right, 0));
  for (unsigned step = 0; step < p->steps; step++)
    put_step(g, p, step, columns, left, registers, right, step ? "1" : keep ? "p" : "0");
  kiln_buffer_format(&p->text, "wgmma.commit_group.sync.aligned; %s}",
                     p->op->attrs.mma.is_async ? "" : "wgmma.wait_group.sync.aligned 0; ");
  issue(g, p, keep ? initial : NULL, sums);
}

/// Each part of the columns is summed alone, then added to its accumulators. The last one may be narrower.
static void add_parts(gpu *g, product *p, unsigned columns, const operand *left, const operand *right,
                      const LLVMValueRef *initial, LLVMValueRef *sums) {
  enum { MOST = 1 << KILN_PARTIAL_COLUMNS };
  LLVMValueRef *part = KILN_NEW_ARRAY(g->arena, LLVMValueRef, MOST / 2);
  for (unsigned first = 0; first < columns; first += MOST) {
    operand from = *right;
    from.address = LLVMBuildAdd(g->builder, right->address, gpu_i32(g, first * right->row), "");
    multiply(g, p, columns - first < MOST ? columns - first : MOST, left, NULL, &from, NULL, NULL, part);
    for (unsigned k = 0; k < p->sums; k++)
      sums[first / 2 + k] = LLVMBuildFAdd(g->builder, initial[first / 2 + k], part[k], "");
  }
}

void nvptx_lower_mma(gpu *g, ir_op *op) {
  ir_value *acc = op->operands[0], *a = op->operands[2], *b;
  bool in_memory = a->type.slots;
  if (!g->group) nvptx_find_group(g);
  b = op->operands[in_memory ? 4 : 3];
  kiln_mma_split s = kiln_mma_split_of(g->layouts, acc->type);
  const gpu_tile initial = gpu_operand(g, op, 0), left = in_memory ? (gpu_tile){0} : gpu_operand(g, op, 2);
  if (g->status != KILN_OK) return;
  const gpu_tile out = gpu_result(g, &op->results[0]);
  unsigned k_axis = op->attrs.mma.a_mn ? 0 : 1, sums = 1u << (s.columns - 1);
  unsigned counted = op->attrs.mma.b_mn ? b->def->attrs.alloc.columns : b->def->attrs.alloc.rows;
  unsigned columns = counted ? counted >> s.groups_n : 1u << s.columns;
  product p = {.op = op, .a = a->type, .b = b->type, .c = acc->type};
  p.is_same_left = !in_memory && is_same_each_time(op, a, &(unsigned){MOST_LOOKED_AT});
  p.steps = (kiln_scalars[a->type.scalar].bytes << a->type.log2[k_axis]) / STEP;
  p.arguments = KILN_NEW_ARRAY(g->arena, LLVMValueRef, sums + 8u * p.steps + 8u);
  LLVMValueRef column; // where the group's columns begin in memory
  if (g->kernel->groups_beside) column = LLVMBuildMul(g->builder, g->group, gpu_i32(g, columns), "");
  else column = g->spread ? gpu_i32(g, 0) : nvptx_group_column(g, &s, 1u << s.columns);
  operand right = describe(g, b, op->operands[in_memory ? 5 : 4], op->attrs.mma.b_mn, column);
  // An accumulator that always starts from zero is not written first, which would have to wait for the unit.
  bool is_fresh = op->attrs.mma.is_queued && ir_is_zero(op->operands[1]);
  LLVMValueRef keep = is_fresh ? NULL : LLVMBuildZExt(g->builder, gpu_scalar(g, op->operands[1]), g->i32, "");
  unsigned rows = in_memory && a->def->attrs.alloc.rows ? a->def->attrs.alloc.rows : 64u << s.blocks;
  for (unsigned block = 0; block < 1u << s.blocks; block++) {
    const LLVMValueRef *before = initial.regs + (size_t)block * sums;
    LLVMValueRef *after = out.regs + (size_t)block * sums;
    operand from = {0};
    bool counts = 64 * block < rows || !g->kernel->groups_beside;
    for (unsigned i = 0; !counts && i < sums; i++)
      after[i] = before[i]; // after them are rows without products
    if (!counts) continue;
    if (in_memory) {
      // First row, and column, of the group among those that its block has in shared memory. Groups of a block
      // that shares its program stand below each other.
      LLVMValueRef row = nvptx_group_row(g, &s, g->group, g->spread ? 0 : s.groups_n);
      row = LLVMBuildAdd(g->builder, row, gpu_i32(g, 64 * block), "");
      from = describe(g, a, op->operands[3], op->attrs.mma.a_mn, row);
    }
    const LLVMValueRef *registers = in_memory ? NULL : left.regs + ((size_t)block << (a->type.log2[1] - 1));
    if (op->attrs.mma.is_partial) add_parts(g, &p, columns, &from, &right, before, after);
    else multiply(g, &p, columns, &from, registers, &right, keep, before, after);
    // After them are columns without products. Where `keep` is false they are zero.
    for (unsigned i = columns / 2; i < sums; i++) after[i] = before[i];
  }
}

/// Groups of instructions of an asynchronous product, of which there is one for each 64 rows of a warpgroup: the least of
/// all in the kernel without roles.
static unsigned groups_of_products(gpu *g, unsigned products) {
  unsigned least = 0;
  if (g->has_roles || !products) return products;
  for (const ir_op *op = ir_next(g->kernel->body, NULL); op; op = ir_next(g->kernel->body, op)) {
    if (op->code != IR_MMA || !op->attrs.mma.is_async) continue;
    const unsigned groups = 1u << kiln_mma_split_of(g->layouts, op->results[0].type).blocks;
    if (!least || groups < least) least = groups;
  }
  return products * (least ? least : 1);
}

/// The accumulators pass through the text of the wait, so that nothing that reads them comes before it.
void nvptx_lower_mma_wait(gpu *g, ir_op *op) {
  product p = {.c = op->result_count ? op->results[0].type : (ir_type){0}};
  gpu_tile *tiles = KILN_NEW_ARRAY(g->arena, gpu_tile, op->result_count);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    tiles[i] = gpu_operand(g, op, i);
    p.sums += 1u << tiles[i].layout.registers;
  }
  p.arguments = KILN_NEW_ARRAY(g->arena, LLVMValueRef, p.sums + 1u);
  LLVMValueRef *sums = KILN_NEW_ARRAY(g->arena, LLVMValueRef, p.sums);
  unsigned at = 0;
  for (uint32_t i = 0; i < op->operand_count; i++)
    for (uint32_t r = 0; r < 1u << tiles[i].layout.registers; r++) sums[at++] = tiles[i].regs[r];
  put_results(&p);
  kiln_buffer_format(&p.text, "wgmma.wait_group.sync.aligned %u;", groups_of_products(g, op->attrs.wait.out));
  issue(g, &p, sums, sums);
  at = 0;
  for (uint32_t i = 0; i < op->result_count; i++) {
    const gpu_tile out = gpu_result(g, &op->results[i]);
    for (uint32_t r = 0; r < 1u << out.layout.registers; r++) out.regs[r] = sums[at++];
  }
}
