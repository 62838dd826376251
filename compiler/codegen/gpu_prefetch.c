// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads of matrix operands one iteration ahead: a load in a loop whose value goes to a dot becomes a loop-carried value that the iteration before has
// loaded, so that its latency hides behind the dots. Works on the IR before layouts are chosen.
//
//   for iv in lo..hi { x = load p(iv); dot(x, ...) }   =>   x0 = load p(lo) if lo < hi
//                                                           for iv (x = x0) { x1 = load p(iv + step) if there is a next; dot(x, ...); yield x1 }
//
// Needs: the loop writes no memory and has no barrier; address and mask follow from the index, carried values and invariants by pure operations.
#include <string.h>

#include "compiler/codegen/gpu_lower.h"

enum { MAX_LOADS = 4, MAX_SLICE = 128, MAX_WORDS = 32, MAX_ALL_WORDS = 176 };

/// As which iteration a value is recomputed.
typedef enum iteration { THIS, NEXT, FIRST, ITERATIONS } iteration;

typedef struct copy {
  const ir_value *from;
  iteration when;
  ir_value *to;
} copy;

typedef struct prefetch {
  ir_kernel *kernel;
  ir_op *loop;
  ir_block *body;
  unsigned threads; ///< logarithm
  ir_op *loads[MAX_LOADS];
  unsigned count;
  copy copies[ITERATIONS * MAX_SLICE];
  unsigned copy_count;
  ir_builder b;
  ir_value *next_index;
} prefetch;

// ---------------------------------------------------------------------------------------------------------- what fits

static void note_effect(ir_op *op, void *context) {
  uint8_t effect = ir_ops[op->code].effect;
  if (effect == IR_WRITE || effect == IR_SYNC) *(bool *)context = true;
}

static bool is_renaming(const ir_op *op) {
  return op->code == IR_TRANS || op->code == IR_RESHAPE || op->code == IR_EXPAND || op->code == IR_CAST;
}

/// The load in this body that a dot operand comes from, or NULL.
static ir_op *load_behind(const prefetch *p, ir_value *value) {
  for (unsigned i = 0; i < 16 && value->def && value->def->block == p->body; i++) {
    if (value->def->code == IR_LOAD) return value->def->operands[0]->type.rank && !(value->def->attrs.flags & IR_VOLATILE) ? value->def : NULL;
    if (!is_renaming(value->def)) return NULL;
    value = value->def->operands[0];
  }
  return NULL;
}

/// Counts the operations a value needs in this iteration or the next; false when one of them is not pure.
static bool measure(const prefetch *p, const ir_value *value, iteration when, unsigned *size) {
  if (++*size > MAX_SLICE) return false;
  if (!value->def) {
    if (value->block != p->body || value->index == 0 || when == THIS) return true;
    return measure(p, ir_terminator(p->body)->operands[value->index - 1], THIS, size);
  }
  if (value->def->block != p->body) return true;
  if (ir_ops[value->def->code].effect != IR_PURE || value->def->region_count || value->def->code == IR_DOT) return false;
  for (uint32_t i = 0; i < value->def->operand_count; i++)
    if (!measure(p, value->def->operands[i], when, size)) return false;
  return true;
}

static uint64_t words_of(const prefetch *p, ir_type type) {
  unsigned elements = ir_log2_elements(type);
  return (((uint64_t)ir_type_bits(type) << elements) / 32) >> p->threads;
}

static bool add_load(prefetch *p, ir_op *load) {
  unsigned size = 0;
  for (unsigned i = 0; i < p->count; i++)
    if (p->loads[i] == load) return true;
  if (p->count == MAX_LOADS) return false;
  for (uint32_t i = 0; i < load->operand_count; i++)
    if (!measure(p, load->operands[i], NEXT, &size)) return false;
  p->loads[p->count++] = load;
  return true;
}

/// Finds the loads; false when there are none or registers would not do.
static bool find_loads(prefetch *p) {
  bool has_effect = false;
  uint64_t words = 0, all = 0;
  ir_walk(p->body, note_effect, &has_effect);
  if (has_effect) return false;
  for (ir_op *op = p->body->first; op; op = op->next)
    for (uint32_t i = 0; op->code == IR_DOT && i < 2; i++) {
      ir_op *load = load_behind(p, op->operands[i]);
      if (load) add_load(p, load);
    }
  for (unsigned i = 0; i < p->count; i++) words += words_of(p, p->loads[i]->results[0].type);
  for (uint32_t i = 0; i < p->loop->result_count; i++) all += words_of(p, p->loop->results[i].type);
  return p->count && words <= MAX_WORDS && all + words <= MAX_ALL_WORDS;
}

// ------------------------------------------------------------------------------------------------------------- copies

static ir_value *remembered(const prefetch *p, const ir_value *value, iteration when) {
  for (unsigned i = 0; i < p->copy_count; i++)
    if (p->copies[i].from == value && p->copies[i].when == when) return p->copies[i].to;
  return NULL;
}

static ir_value *remember(prefetch *p, const ir_value *value, iteration when, ir_value *to) {
  if (p->copy_count < sizeof p->copies / sizeof *p->copies) p->copies[p->copy_count++] = (copy){value, when, to};
  return to;
}

/// The value as it is in that iteration, computed at the builder's place.
static ir_value *value_in(prefetch *p, ir_value *value, iteration when) {
  bool is_argument = !value->def && value->block == p->body, is_inside = value->def && value->def->block == p->body;
  if (!is_argument && !is_inside) return value;
  ir_value *known = remembered(p, value, when);
  if (known) return known;
  if (is_argument) {
    if (when == THIS) return value;
    if (when == FIRST) return p->loop->operands[value->index ? 2 + value->index : 0];
    return value->index ? value_in(p, ir_terminator(p->body)->operands[value->index - 1], THIS) : p->next_index;
  }
  ir_op *op = value->def;
  ir_value **operands = KILN_NEW_ARRAY(p->kernel->arena, ir_value *, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = value_in(p, op->operands[i], when);
  ir_op *made = ir_emit(&p->b, op->code, &op->attrs, operands, op->operand_count, &value->type, NULL, 0);
  return made ? remember(p, value, when, &made->results[value->index]) : value;
}

/// The load as it is in that iteration, under `condition` (i1 scalar).
static ir_value *load_in(prefetch *p, ir_op *load, iteration when, ir_value *condition) {
  ir_value *operands[3] = {NULL};
  for (uint32_t i = 0; i < load->operand_count; i++) operands[i] = value_in(p, load->operands[i], when);
  ir_type mask_type = ir_with_element(operands[0]->type, ir_scalar_type(KILN_I1));
  ir_value *mask = ir_splat(&p->b, condition, mask_type);
  if (operands[1]) mask = ir_binary(&p->b, IR_AND, 0, operands[1], mask);
  operands[1] = mask;
  ir_op *made = ir_emit(&p->b, IR_LOAD, &load->attrs, operands, load->operand_count > 2 ? 3 : 2, &load->results[0].type, NULL, 0);
  return made ? &made->results[0] : NULL;
}

// ---------------------------------------------------------------------------------------------------------------- loop

static ir_value **extended(prefetch *p, ir_value **from, uint32_t count, ir_value **more) {
  ir_value **out = KILN_NEW_ARRAY(p->kernel->arena, ir_value *, count + p->count);
  for (uint32_t i = 0; i < count; i++) out[i] = from[i];
  for (uint32_t i = 0; i < p->count; i++) out[count + i] = more[i];
  return out;
}

static void rewrite(prefetch *p) {
  ir_op *loop = p->loop, *end = ir_terminator(p->body);
  ir_value *first[MAX_LOADS], *next[MAX_LOADS], *iv = p->body->args[0];
  p->b = (ir_builder){.arena = p->kernel->arena, .block = loop->block, .before = loop};
  ir_value *is_entered = ir_compare(&p->b, IR_LT, 0, loop->operands[0], loop->operands[1]);
  for (unsigned i = 0; i < p->count; i++) first[i] = load_in(p, p->loads[i], FIRST, is_entered);
  p->b = (ir_builder){.arena = p->kernel->arena, .block = p->body, .before = p->body->first, .error = p->b.error};
  ir_value *left = ir_binary(&p->b, IR_SUB, 0, loop->operands[1], iv);
  ir_value *has_next = ir_compare(&p->b, IR_GT, IR_UNSIGNED, left, loop->operands[2]);
  p->next_index = ir_binary(&p->b, IR_ADD, 0, iv, loop->operands[2]);
  for (unsigned i = 0; i < p->count; i++) next[i] = load_in(p, p->loads[i], NEXT, has_next);
  if (p->b.error.status != KILN_OK) return; // what was added is unused and pure
  for (unsigned i = 0; i < p->count; i++) {
    p->loads[i]->results[0].forward = ir_block_arg(p->kernel->arena, p->body, p->loads[i]->results[0].type);
    ir_remove(p->loads[i]);
  }
  end->operands = extended(p, end->operands, end->operand_count, next);
  end->operand_count += p->count;
  ir_value **operands = extended(p, loop->operands, loop->operand_count, first);
  p->b = (ir_builder){.arena = p->kernel->arena, .block = loop->block, .before = loop, .place = loop->place};
  ir_apply_forwards(p->kernel);
  ir_op *made = ir_emit(&p->b, IR_FOR, &loop->attrs, operands, loop->operand_count + p->count, NULL, &p->body, 1);
  if (!made) return;
  for (uint32_t i = 0; i < loop->result_count; i++) loop->results[i].forward = &made->results[i];
  loop->region_count = 0; // the body is the new loop's
  ir_remove(loop);
  ir_apply_forwards(p->kernel);
}

typedef struct finder {
  ir_kernel *kernel;
  unsigned threads;
} finder;

static void visit(ir_op *op, void *context) {
  const finder *f = context;
  if (op->code != IR_FOR) return;
  prefetch *p = KILN_NEW(f->kernel->arena, prefetch);
  *p = (prefetch){.kernel = f->kernel, .loop = op, .body = op->regions[0], .threads = f->threads};
  if (find_loads(p)) rewrite(p);
}

void gpu_prefetch(ir_kernel *kernel, unsigned threads) {
  finder f = {.kernel = kernel, .threads = threads};
  ir_walk(kernel->body, visit, &f);
}
