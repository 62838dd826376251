// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor maps of a kernel: the record that the runtime encodes them by (docs/bundle.md), and the kernel's
// parameters that bring them. Operations with equal maps share one; `map` of copy and stage is its
// number.
#include "base/expr.h"
#include "compiler/analysis/provenance.h"
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/gpu.h"

#include <string.h>

/// The box, innermost axis first: `row` bytes of each of `rows` rows, of one index on other axes.
static void put_box(kiln_buffer *out, ir_type view, unsigned row, unsigned rows) {
  const unsigned bytes = kiln_scalars[view.scalar].bytes;
  uint32_t elements = 1;
  for (unsigned i = view.rank; i-- > 0;) {
    uint32_t extent = view.log2[i] == IR_DROPPED ? 1 : 1u << view.log2[i];
    if (i + 1 == view.rank) extent = row / bytes;
    else if (extent > 1) extent = rows;
    uint8_t word[4] = {(uint8_t)extent, (uint8_t)(extent >> 8), 0, 0};
    kiln_buffer_bytes(out, word, 4);
    elements *= extent;
  }
  KILN_ASSERT(elements * bytes == row * rows); // what is copied from and to shared memory at a time
}

static void put_constant(kiln_buffer *out, int64_t value) {
  kiln_buffer_u8(out, KILN_EXPR_CONST);
  kiln_buffer_svarint(out, value);
}

/// Rounds the value of the code down: what remains is stored without the copy engine (nvptx_row_ends.c).
static void put_whole(kiln_buffer *code, int64_t multiple) {
  put_constant(code, multiple);
  kiln_buffer_u8(code, KILN_EXPR_DIV);
  put_constant(code, multiple);
  kiln_buffer_u8(code, KILN_EXPR_MUL);
}

static bool put_expressions(gpu *g, kiln_buffer *out, const ir_op *op) {
  enum { PIECE = 16 }; // bytes that the copy engine writes
  const ir_op *view = op->operands[0]->def;
  ir_type type = view->results[0].type;
  unsigned rank = type.rank, bytes = kiln_scalars[type.scalar].bytes;
  bool is_good = true;
  for (unsigned i = 0; i < 2 * rank; i++) {
    bool is_extent = i < rank;
    unsigned axis = rank - 1 - i % rank;
    if (!is_extent && axis == rank - 1) continue; // the innermost stride is 1
    kiln_buffer code = {0};
    is_good &= kiln_launch_expression(g->kernel, (is_extent ? ir_view_extents : ir_view_strides)(view)[axis],
                                      is_extent ? 1 : bytes, &code);
    if (is_extent && axis == rank - 1 && op->code == IR_STAGE && op->attrs.access.is_ragged)
      put_whole(&code, PIECE / bytes);
    kiln_buffer_block(out, code.bytes, code.size);
    kiln_buffer_deinit(&code);
  }
  kiln_buffer offset = {0}; // 0, and the conditions of the launch
  kiln_write_conditions(g->kernel, &offset);
  kiln_buffer_block(out, offset.bytes, offset.size);
  kiln_buffer_deinit(&offset);
  return is_good;
}

void gpu_collect_map(ir_op *op, void *context) {
  gpu *g = context;
  if (op->code != IR_COPY && op->code != IR_STAGE) return;
  const ir_op *view = op->operands[0]->def;
  const ir_value *base = kiln_behind(view->operands[0]);
  ir_type type = view->results[0].type;
  kiln_buffer map = {0};
  if (base->index > UINT8_MAX) {
    gpu_fail(g, KILN_STATUS_UNSUPPORTED, "operation %u: its view comes after too many parameters",
             ir_operation(op));
    return;
  }
  // What is copied feeds products: of f32 the unit takes tf32, and would leave the rest of a fraction out, where
  // the copy engine rounds.
  bool is_rounded = op->code == IR_COPY && type.scalar == KILN_F32;
  kiln_buffer_u8(&map, is_rounded ? KILN_MAP_TF32 : type.scalar);
  kiln_buffer_u8(&map, type.rank);
  const kiln_matrix_machine *m = kiln_matrix_machine_of(g->target);
  const bool is_stage = op->code == IR_STAGE;
  const kiln_boxes copied = is_stage ? (kiln_boxes){0} : kiln_boxes_of(op, m->row_bytes);
  const unsigned row = is_stage ? kiln_stage_row(m, g->kernel, op) : copied.row,
                 rows = is_stage ? kiln_stage_box_rows(m, g->kernel, op) : copied.rows;
  unsigned swizzle = row >= 128 ? 3 : row >= 64 ? 2 : row >= 32 ? 1 : 0;
  kiln_buffer_u8(&map, (uint8_t)swizzle);
  kiln_buffer_u8(&map, 0); // not interleaved
  kiln_buffer_u8(&map, 0); // zeros outside
  kiln_buffer_u8(&map, (uint8_t)base->index);
  put_box(&map, type, row, rows);
  if (!put_expressions(g, &map, op))
    gpu_fail(g, KILN_STATUS_UNSUPPORTED, "operation %u: its view is not an expression of the parameters",
             ir_operation(op));
  unsigned number = 0;
  while (number < g->map_count &&
         (g->maps[number].size != map.size || memcmp(g->maps[number].bytes, map.bytes, map.size)))
    number++;
  if (number == GPU_MOST_MAPS) {
    gpu_fail(g, KILN_STATUS_LIMIT, "expected at most %d tensor maps, found more", GPU_MOST_MAPS);
  } else if (number == g->map_count) {
    g->maps[number] = (gpu_map){.bytes = kiln_arena_copy(g->arena, map.bytes, map.size), .size = map.size};
    g->map_count++;
  }
  *(op->code == IR_COPY ? &op->attrs.copy.map : &op->attrs.access.map) = (uint8_t)number;
  gpu_note_copy(g, op, KILN_ENGINE_TENSOR_MAP,
                (uint32_t)kiln_scalars[type.scalar].bytes << ir_log2_elements(ir_view_tile(type)));
  kiln_buffer_deinit(&map);
}

kiln_span gpu_map_record(gpu *g, kiln_arena *arena) {
  if (!g->map_count) return (kiln_span){0};
  kiln_buffer record = {0};
  kiln_buffer_u8(&record, (uint8_t)g->map_count);
  for (unsigned i = 0; i < g->map_count; i++) kiln_buffer_bytes(&record, g->maps[i].bytes, g->maps[i].size);
  kiln_span out = {kiln_arena_copy(arena, record.bytes, record.size), record.size};
  kiln_buffer_deinit(&record);
  return out;
}
