// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of the report (compiler/report.h) on what the lowering of GPUs does.
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/gpu.h"

enum { WIDEST = 16, MOST_VISITS = 200 };

/// A row of the report, until all code is made.
typedef struct gpu_note {
  struct gpu_note *next;
  const ir_op *op;
  kiln_report_row row;
  bool may_be_refused; ///< passes may know why it is no better
} gpu_note;

static gpu_note *put(gpu *g, const ir_op *op, kiln_report_row row) {
  gpu_note *note = KILN_NEW(g->arena, gpu_note);
  *note = (gpu_note){.op = op, .row = row};
  if (g->last_note) g->last_note->next = note;
  else g->first_note = note;
  return g->last_note = note;
}

void gpu_write_report(gpu *g) {
  for (gpu_note *note = g->first_note; note && g->report; note = note->next) {
    note->row.operation = ir_operation(note->op);
    if (note->may_be_refused) {
      const kiln_refusal refusal = kiln_refusal_of(g->refusals, note->row.operation);
      note->row.reason = (uint8_t)refusal.reason;
      note->row.parameter = refusal.parameter;
    }
    kiln_report_put(g->report, &note->row);
  }
}

// -------------------------------------------------------------------------------------------- reasons

/// A search for the parameter that keeps an address from being a multiple of 16 bytes.
typedef struct search {
  const gpu *g;
  unsigned axis, element; ///< of the access; log2 of the bytes of an element
  unsigned visits;
} search;

static bool is_multiple(const search *s, const ir_value *v) {
  const kiln_fact *fact = kiln_fact_of(s->g->layouts->facts, v);
  unsigned axis = v->type.rank > s->axis ? s->axis : 0,
           scale = v->type.pointer ? 0 : s->element; // offsets count elements
  return fact->divisibility[axis] + scale >= 4;
}

/// What a loop's argument begins as; NULL for other arguments.
static const ir_value *initial_of(const ir_value *v) {
  const ir_op *loop = v->block ? v->block->parent : NULL;
  if (!loop || !ir_is_loop(loop) || v->block != loop->regions[0] || v->index < ir_loop_counters(loop))
    return NULL;
  return ir_loop_initials(loop)[v->index - ir_loop_counters(loop)];
}

/// 1 + the number of a parameter that `v` is made of by sums, products and renaming, and that is no multiple
/// of 16 bytes; 0: there is none.
static uint32_t culprit(search *s, const ir_value *v) {
  if (s->visits++ >= MOST_VISITS || is_multiple(s, v)) return 0;
  if (!v->def) {
    const ir_value *initial = initial_of(v);
    return v->block == s->g->kernel->body ? v->index + 1 : initial ? culprit(s, initial) : 0;
  }
  ir_opcode code = v->def->code;
  bool is_walked = ir_is_renaming(v->def) || code == IR_PTRADD || code == IR_ADD || code == IR_SUB ||
                   code == IR_MUL || code == IR_CAST || code == IR_HINT;
  for (uint32_t i = 0; is_walked && i < v->def->operand_count; i++) {
    uint32_t found = culprit(s, v->def->operands[i]);
    if (found) return found;
  }
  return 0;
}

static bool is_in_loop(const ir_op *op) {
  for (const ir_op *o = op->block->parent; o; o = o->block->parent)
    if (ir_is_loop(o)) return true;
  return false;
}

static kiln_report_reason why_not_wider(gpu *g, const ir_op *op, uint32_t bytes, uint32_t narrow,
                                        uint32_t *parameter) {
  const ir_value *pointer = op->operands[0];
  const kiln_fact *fact = kiln_fact_of(g->layouts->facts, pointer);
  ir_type pointee = ir_pointee(ir_element(pointer->type));
  search s = {.g = g, .axis = kiln_access_axis(g->layouts, op)};
  s.element = pointee.pointer ? 3 : (unsigned)__builtin_ctz(kiln_scalars[pointee.scalar].bytes);
  if (bytes >= WIDEST && narrow < bytes) return KILN_REASON_MASK;
  if (bytes >= WIDEST) { // a tensor map would feed a product better
    const bool may_be_mapped = kiln_matrix_machine_of(g->target) && op->code == IR_LOAD && is_in_loop(op);
    for (const ir_op *o = ir_next(g->kernel->body, NULL); o && may_be_mapped; o = ir_next(g->kernel->body, o))
      if (o->code == IR_DOT && is_in_loop(o)) return KILN_REASON_NOT_MAPPED;
    return KILN_REASON_NONE;
  }
  if (!fact->contiguity[s.axis]) return KILN_REASON_SCATTERED;
  if (fact->divisibility[s.axis] >= 4) return narrow < bytes ? KILN_REASON_MASK : KILN_REASON_FEW;
  *parameter = culprit(&s, pointer);
  if (!*parameter) return KILN_REASON_ADDRESS;
  return g->kernel->params[*parameter - 1].type.pointer ? KILN_REASON_ALIGNMENT : KILN_REASON_MULTIPLE;
}

// ----------------------------------------------------------------------------------------------- rows

static uint8_t kind_of(const ir_op *op) {
  return op->code == IR_STORE || op->code == IR_STAGE ? KILN_REPORT_STORE : KILN_REPORT_LOAD;
}

void gpu_note_access(gpu *g, const ir_op *op, uint32_t bytes, uint32_t narrow, uint32_t element) {
  kiln_report_row row = {.kind = kind_of(op), .bytes = bytes};
  row.engine = !op->operands[0]->type.rank ? KILN_ENGINE_SCALAR
               : bytes > element           ? KILN_ENGINE_VECTOR
                                           : KILN_ENGINE_ELEMENT;
  if (op->operands[0]->type.rank) row.reason = (uint8_t)why_not_wider(g, op, bytes, narrow, &row.parameter);
  put(g, op, row);
}

void gpu_note_shifted(gpu *g, const ir_op *op, uint32_t bytes) {
  kiln_report_row row = {.kind = kind_of(op), .engine = KILN_ENGINE_SHIFTED, .bytes = WIDEST};
  row.reason = (uint8_t)why_not_wider(g, op, bytes, bytes, &row.parameter);
  put(g, op, row);
}

void gpu_note_copy(gpu *g, const ir_op *op, kiln_engine engine, uint32_t bytes) {
  kiln_report_row row = {.kind = kind_of(op), .engine = (uint8_t)engine, .bytes = bytes};
  if (engine == KILN_ENGINE_COPY && bytes < WIDEST)
    row.reason = (uint8_t)why_not_wider(g, op, bytes, bytes, &row.parameter);
  put(g, op, row);
}

void gpu_note_product(gpu *g, const ir_op *op, kiln_engine engine, const char *name, kiln_report_reason why) {
  gpu_note *note =
      put(g, op,
          (kiln_report_row){
              .kind = KILN_REPORT_PRODUCT, .engine = (uint8_t)engine, .name = name, .reason = (uint8_t)why});
  note->may_be_refused = !why && (op->code == IR_DOT || !g->has_roles);
}

void gpu_note_shuffle(gpu *g, const kiln_layout *layout, unsigned bytes) {
  put(g, g->current,
      (kiln_report_row){
          .kind = KILN_REPORT_CONVERSION, .engine = KILN_ENGINE_SHUFFLE, .bytes = bytes << layout->bits});
}

void gpu_note_exchange(gpu *g, const ir_op *op, const layout_memory *memory, const kiln_layout *writer,
                       const kiln_layout *reader, unsigned log2_bytes, bool is_matrix) {
  kiln_report_row row = {.kind = KILN_REPORT_CONVERSION,
                         .engine = is_matrix ? KILN_ENGINE_LDMATRIX : KILN_ENGINE_SHARED,
                         .bytes = 1u << (memory->bits + log2_bytes)};
  if (!g->report) return;
  row.write = writer ? layout_bank_ways(memory, writer, log2_bytes) : 0;
  row.read = layout_bank_ways(memory, reader, log2_bytes);
  put(g, op, row);
}

void gpu_note_slot_read(gpu *g, const ir_op *op, const kiln_slot_layouts *s, const kiln_slot_read *read) {
  gpu_note_exchange(g, op, &s->memory, s->is_exchange ? &s->writer : NULL,
                    read->is_matrix ? &read->plan.address : &read->to, s->log2_bytes, read->is_matrix);
}
