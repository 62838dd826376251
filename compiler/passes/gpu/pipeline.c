// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a loop loads for its products, in iterations to come. A value of a later iteration is its operations
// once more, over the carried values as the iterations between leave them.
#include "compiler/passes/gpu/pipeline.h"
#include "compiler/passes/gpu/loops.h"

enum { MAX_BEHIND = 64, MOST_TILES = 64, MOST_MORE = 40 /* that a pass lets a loop carry */ };

typedef struct walk {
  ir_kernel *kernel;
  const kiln_fetch_machine *machine;
  void (*pipeline)(kiln_pipeline *loop);
  kiln_error error;
} walk;

static void open_loop(ir_op *op, void *context) {
  walk *w = context;
  if (op->code != IR_FOR || w->error.status != KILN_OK) return;
  unsigned most = w->machine->threads >> w->machine->lanes,
           warps = w->kernel->warps < most ? w->kernel->warps : most;
  kiln_pipeline *a = KILN_NEW(w->kernel->arena, kiln_pipeline);
  *a = (kiln_pipeline){.kernel = w->kernel,
                       .machine = w->machine,
                       .loop = op,
                       .body = ir_loop_body(op),
                       .threads = w->machine->lanes + (unsigned)__builtin_ctz(warps),
                       .reads_masks = w->machine->has_buffers};
  w->pipeline(a);
  w->error = a->b.error;
}

kiln_status kiln_pipeline_loops(ir_kernel *kernel, kiln_pass_context *context,
                                void (*pipeline)(kiln_pipeline *loop), const char *pass, kiln_error *err) {
  walk w = {.kernel = kernel, .machine = &context->machine, .pipeline = pipeline};
  ir_walk(kernel->body, open_loop, &w);
  if (w.error.status == KILN_OK) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INTERNAL, "%s: %s", pass, w.error.text);
}

// ----------------------------------------------------------------------------------------- what fits

/// What fetches and stores to slots write is shared memory of their own, and the barrier before it is read is
/// theirs: a loop with another is not given any.
static bool has_effect(const kiln_pipeline *a) {
  bool writes = false, meets = false, fetches = false;
  for (const ir_op *op = ir_next(a->body, NULL); op; op = ir_next(a->body, op)) {
    const bool is_fetch = op->code == IR_FETCH || op->code == IR_FETCH_COMMIT || op->code == IR_FETCH_WAIT ||
                          op->code == IR_SLOT_STORE || op->code == IR_MMA || op->code == IR_MMA_WAIT;
    fetches |= is_fetch;
    meets |= ir_ops[op->code].effect == IR_SYNC;
    writes |= ir_ops[op->code].effect == IR_WRITE && !is_fetch && !(a->allows_stores && op->code == IR_STORE);
  }
  return writes || (meets && !fetches);
}

static bool is_read(const ir_op *op) {
  return op->code == IR_LOAD && !op->operands[0]->type.rank && !(op->attrs.flags & IR_VOLATILE);
}

static bool is_load(const ir_op *op) {
  return op->code == IR_LOAD && op->operands[0]->type.rank && !(op->attrs.flags & IR_VOLATILE);
}

/// Values of iterations that an address and a mask need, each once.
typedef struct measuring {
  const kiln_pipeline *a;
  unsigned size, tiles,
      known_count; ///< operations; those on tiles, which every thread repeats for each element
  struct {
    const ir_value *value;
    kiln_iteration when;
  } known[KILN_PIPELINE_SLICE];
  const ir_op *reads[KILN_PIPELINE_READS];
  unsigned read_count;
} measuring;

static bool is_measured(measuring *m, const ir_value *value, kiln_iteration when) {
  for (unsigned i = 0; i < m->known_count; i++)
    if (m->known[i].value == value && m->known[i].when == when) return true;
  if (m->known_count == KILN_PIPELINE_SLICE) return false;
  m->known[m->known_count].value = value;
  m->known[m->known_count++].when = when;
  return false;
}

/// Adds a load to some, once; false: there are too many.
static bool add_read(const ir_op **reads, unsigned *count, const ir_op *read) {
  for (unsigned i = 0; i < *count; i++)
    if (reads[i] == read) return true;
  if (*count == KILN_PIPELINE_READS) return false;
  reads[(*count)++] = read;
  return true;
}

static bool measure(measuring *m, const ir_value *value, kiln_iteration when);

/// What a branch takes from the loop's body, in its regions too.
static void visit_taken(ir_op *branch, const ir_block *body, void (*visit)(ir_value *value, void *context),
                        void *context) {
  for (ir_op *op = branch; op != branch->next; op = ir_next(branch->block, op))
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (ir_home(op->operands[i]) == body) visit(op->operands[i], context);
}

typedef struct measuring_branch {
  measuring *m;
  kiln_iteration when;
  bool is_pure;
} measuring_branch;

static void measure_taken(ir_value *value, void *context) {
  measuring_branch *b = context;
  b->is_pure = b->is_pure && measure(b->m, value, b->when);
}

/// Pure, or a scalar that may be loaded again in another iteration.
static bool can_repeat(measuring *m, const ir_op *op) {
  if (m->a->allows_reads && is_read(op)) return add_read(m->reads, &m->read_count, op);
  return ir_is_pure(op) && (!op->region_count || op->code == IR_IF) && op->code != IR_DOT;
}

/// Counts the operations a value needs in that iteration; false when one of them cannot be repeated.
static bool measure(measuring *m, const ir_value *value, kiln_iteration when) {
  const kiln_pipeline *a = m->a;
  if (value->def) value = &value->def->results[0]; // all that a branch gives is one
  if (is_measured(m, value, when)) return true;
  if (++m->size > KILN_PIPELINE_SLICE || (m->tiles += value->type.rank != 0) > MOST_TILES) return false;
  if (!value->def) {
    if (value->block != a->body || value->index == 0 || when == KILN_THIS) return true;
    return measure(m, ir_loop_next(a->loop)->operands[value->index - 1], when - 1);
  }
  ir_op *op = value->def;
  if (op->block != a->body) return true;
  if (!can_repeat(m, op)) return false;
  for (const ir_op *in = ir_next(op->block, op); in != op->next; in = ir_next(op->block, in)) m->size++;
  measuring_branch b = {m, when, true};
  visit_taken(op, a->body, measure_taken, &b);
  return b.is_pure;
}

static void add_load(kiln_pipeline *a, ir_op *load, ir_op *dot, unsigned operand, kiln_iteration when) {
  measuring m = {.a = a};
  for (unsigned i = 0; i < a->count; i++)
    if (a->loads[i].load == load) return;
  if (a->count == KILN_PIPELINE_LOADS) return;
  for (uint32_t i = 0; i < load->operand_count; i++)
    if (!measure(&m, load->operands[i], when)) return;
  for (unsigned i = 0; i < m.read_count; i++)
    if (!add_read(a->reads, &a->read_count, m.reads[i])) return;
  a->loads[a->count++] = (kiln_pipeline_load){load, dot, operand};
}

bool kiln_pipeline_add(kiln_pipeline *a, ir_op *load, unsigned iterations) {
  const unsigned before = a->count;
  if (is_load(load)) add_load(a, load, NULL, 0, iterations);
  return a->count > before;
}

/// Only renamed or cast on its way to the product.
static void add_straight(kiln_pipeline *a, const ir_value *value, ir_op *dot, unsigned operand,
                         kiln_iteration when) {
  enum { MOST_BETWEEN = 16 };
  for (unsigned i = 0; i < MOST_BETWEEN && value->def && value->def->block == a->body; i++) {
    ir_op *op = value->def;
    if (is_load(op)) add_load(a, op, dot, operand, when);
    if (op->code != IR_TRANS && op->code != IR_RESHAPE && op->code != IR_EXPAND && op->code != IR_CAST)
      return;
    value = op->operands[0];
  }
}

/// All loads in this body that the operand is computed from, as far as `budget` operations reach.
static void add_sources(kiln_pipeline *a, const ir_value *value, ir_op *dot, unsigned operand,
                        kiln_iteration when, unsigned *budget) {
  ir_op *op = value->def;
  if (!op || op->block != a->body || !*budget) return;
  --*budget;
  if (is_load(op)) {
    add_load(a, op, dot, operand, when);
    return;
  }
  if (ir_ops[op->code].effect != IR_PURE || op->region_count || op->code == IR_DOT) return;
  for (uint32_t i = 0; i < op->operand_count; i++)
    add_sources(a, op->operands[i], dot, operand, when, budget);
}

/// Warpgroups multiply what its threads store: fragments of operands take no registers.
static bool has_products_of_groups(const kiln_pipeline *a) {
  for (const ir_op *op = a->body->first; op; op = op->next)
    if (op->code == IR_MMA) return true;
  return false;
}

bool kiln_pipeline_find(kiln_pipeline *a, bool deep, unsigned iterations) {
  a->count = a->read_count = 0;
  if (has_effect(a)) return false;
  for (ir_op *op = a->body->first; op; op = op->next) {
    // What threads store for products of warpgroups comes after memory and slot. (Other stores are of what has been
    // loaded an iteration ahead.)
    const bool is_stored = op->code == IR_SLOT_STORE && has_products_of_groups(a);
    const uint32_t first = is_stored ? 2 : 0, count = is_stored ? 1 : 2;
    for (uint32_t i = first; (op->code == IR_DOT || is_stored) && i < first + count; i++) {
      unsigned budget = MAX_BEHIND;
      if (deep) add_sources(a, op->operands[i], op, i, iterations, &budget);
      else add_straight(a, op->operands[i], op, i, iterations);
    }
  }
  return a->count != 0;
}

uint64_t kiln_pipeline_words(const kiln_pipeline *a, ir_type type) {
  return (((uint64_t)ir_type_bits(type) << ir_log2_elements(type)) / 32) >> a->threads;
}

static uint64_t words_of_loads(const kiln_pipeline *a) {
  uint64_t words = 0;
  for (unsigned i = 0; i < a->count; i++) words += kiln_pipeline_words(a, a->loads[i].load->results[0].type);
  return words;
}

static uint64_t words_carried(const kiln_pipeline *a) {
  uint64_t words = 0;
  for (uint32_t i = 0; i < a->loop->result_count; i++)
    words += kiln_pipeline_words(a, a->loop->results[i].type);
  return words;
}

bool kiln_pipeline_has_room(const kiln_pipeline *a) {
  enum { MAX_WORDS = 32, MAX_WORDS_OF_GROUPS = 64, MAX_ALL_WORDS = 176 }; // of loads, of all that is carried
  uint64_t words = words_of_loads(a);
  return words <= (has_products_of_groups(a) ? MAX_WORDS_OF_GROUPS : MAX_WORDS) &&
         words_carried(a) + words <= MAX_ALL_WORDS;
}

bool kiln_pipeline_overflows(const kiln_pipeline *a) {
  enum { REGISTERS = 255 };
  return words_carried(a) + words_of_loads(a) > REGISTERS;
}

// -------------------------------------------------------------------------------------- iterations

static void stand(kiln_pipeline *a, ir_block *block, ir_op *before) {
  a->b = (ir_builder){.arena = a->kernel->arena,
                      .block = block,
                      .before = before,
                      .place = a->loop->place,
                      .machine = true,
                      .error = a->b.error};
}

/// Counter of iteration `when` and whether the loop comes to it, from those of the iteration before. Exact
/// also near the ends of the integers.
static void advance(kiln_pipeline *a, kiln_iteration when) {
  ir_value *step = ir_for_step(a->loop);
  ir_value *left = ir_binary(&a->b, IR_SUB, 0, ir_for_upper(a->loop), a->index[when - 1]);
  ir_value *fits = ir_compare(&a->b, IR_GT, IR_UNSIGNED, left, step);
  a->exists[when] = a->exists[when - 1] ? ir_binary(&a->b, IR_AND, 0, a->exists[when - 1], fits) : fits;
  a->index[when] = ir_binary(&a->b, IR_ADD, 0, a->index[when - 1], step);
}

void kiln_pipeline_open_before(kiln_pipeline *a, unsigned count) {
  stand(a, a->loop->block, a->loop);
  a->index[KILN_FIRST] = ir_for_lower(a->loop);
  a->exists[KILN_FIRST] = ir_compare(&a->b, IR_LT, 0, ir_for_lower(a->loop), ir_for_upper(a->loop));
  for (unsigned n = 1; n < count; n++) advance(a, KILN_FIRST + n);
}

void kiln_pipeline_open_inside(kiln_pipeline *a, unsigned count) {
  stand(a, a->body, a->body->first);
  a->index[KILN_THIS] = ir_for_counter(a->loop);
  a->exists[KILN_THIS] = NULL;
  for (unsigned n = 1; n <= count; n++) advance(a, KILN_THIS + n);
}

void kiln_pipeline_open_copies(kiln_pipeline *a, ir_value *step, unsigned count) {
  stand(a, a->body, a->body->first);
  a->index[KILN_THIS] = ir_for_counter(a->loop);
  for (unsigned n = 0; n <= count; n++) a->exists[KILN_THIS + n] = NULL;
  for (unsigned n = 1; n <= count; n++)
    a->index[KILN_THIS + n] = ir_binary(&a->b, IR_ADD, 0, a->index[KILN_THIS + n - 1], step);
}

/// The value in the next iteration rests on scalars and on what the loop does not change.
static bool rests_on_scalars(const kiln_pipeline *a, const ir_value *value, unsigned *size) {
  if (++*size > KILN_PIPELINE_SLICE) return false;
  if (!value->def) return value->block != a->body || !value->type.rank;
  if (value->def->block != a->body) return true;
  if (value->def->region_count) return false;
  for (uint32_t i = 0; i < value->def->operand_count; i++)
    if (!rests_on_scalars(a, value->def->operands[i], size)) return false;
  return true;
}

void kiln_pipeline_stay(kiln_pipeline *a) {
  unsigned size = 0;
  for (unsigned i = 0; i < a->count; i++) {
    const ir_op *load = a->loads[i].load;
    if (load->operand_count > 1 || !rests_on_scalars(a, load->operands[0], &size)) return;
  }
  a->stays = true;
  a->index[KILN_NEXT] =
      ir_ternary(&a->b, IR_SELECT, 0, a->exists[KILN_NEXT], a->index[KILN_NEXT], a->index[KILN_THIS]);
}

// -------------------------------------------------------------------------------------------- masks

static const ir_value *without_shape(const ir_value *v) {
  while (v->def && (v->def->code == IR_EXPAND || v->def->code == IR_BROADCAST || v->def->code == IR_SPLAT))
    v = v->def->operands[0];
  return v;
}

/// v is operand + constant.
static bool is_sum(const ir_value *v, const ir_value *operand, int64_t constant) {
  int64_t more;
  return v->def && v->def->code == IR_ADD && v->def->operands[0] == operand &&
         ir_constant_int(v->def->operands[1], &more) && more == constant;
}

/// A choice by length > 0.
static bool is_chosen(const ir_op *choice, const ir_value *length) {
  int64_t zero;
  const ir_op *test = choice->code == IR_SELECT ? choice->operands[0]->def : NULL;
  return test && test->code == IR_CMP && test->attrs.kind == IR_GT && !(test->attrs.flags & IR_UNSIGNED) &&
         test->operands[0] == length && ir_constant_int(test->operands[1], &zero) && !zero;
}

/// v is length / step rounded up: (length + step - 1) / step, where that does not pass the largest integer,
/// or as cdiv has it: (length > 0 ? length - 1 : length) / step, and one more where length > 0.
static bool is_rounded_up(const ir_value *v, const ir_value *length, int64_t step) {
  int64_t by;
  const ir_op *op = v->def, *quotient = op;
  if (!op) return false;
  const bool is_choice = is_chosen(op, length);
  if (is_choice) quotient = op->operands[2]->def;
  if (!quotient || quotient->code != IR_DIV || quotient->attrs.flags & IR_UNSIGNED) return false;
  if (!ir_constant_int(quotient->operands[1], &by) || by != step || by <= 0) return false;
  const ir_value *divided = quotient->operands[0];
  if (!is_choice) return is_sum(divided, length, step - 1);
  return is_sum(op->operands[1], op->operands[2], 1) && divided->def && is_chosen(divided->def, length) &&
         is_sum(divided->def->operands[1], length, -1) && divided->def->operands[2] == length;
}

/// The loop goes from 0 or more in steps of one to length / step, rounded up: iteration n begins at n * step,
/// and the one after the last at `length` or beyond.
static bool covers(const kiln_pipeline *a, const ir_value *length, int64_t step) {
  int64_t lower, one;
  if (!ir_constant_int(ir_for_lower(a->loop), &lower) || lower < 0) return false;
  if (!ir_constant_int(ir_for_step(a->loop), &one) || one != 1) return false;
  return is_rounded_up(ir_for_upper(a->loop), length, step);
}

/// The mask holds nowhere in the iteration after the last: one of its conditions is that a number from 0 on
/// lies below length - n * step.
static bool ends_with_loop(const kiln_pipeline *a, const ir_value *mask) {
  const ir_op *op = without_shape(mask)->def;
  int64_t step;
  if (!op) return false;
  if (op->code == IR_AND) return ends_with_loop(a, op->operands[0]) || ends_with_loop(a, op->operands[1]);
  if (op->code != IR_CMP || op->attrs.kind != IR_LT || op->attrs.flags & IR_UNSIGNED) return false;
  const ir_op *place = without_shape(op->operands[0])->def, *left = without_shape(op->operands[1])->def;
  if (!place || place->code != IR_IOTA || !left || left->code != IR_SUB) return false;
  const ir_op *begin = left->operands[1]->def;
  return begin && begin->code == IR_MUL && begin->operands[0] == ir_for_counter(a->loop) &&
         ir_constant_int(begin->operands[1], &step) && covers(a, left->operands[0], step);
}

// ------------------------------------------------------------------------------------------- values

static ir_value *remembered(const kiln_pipeline *a, const ir_value *value, kiln_iteration when) {
  for (unsigned i = 0; i < a->copy_count; i++)
    if (a->copies[i].from == value && a->copies[i].when == when) return a->copies[i].to;
  return NULL;
}

static ir_value *remember(kiln_pipeline *a, const ir_value *value, kiln_iteration when, ir_value *to) {
  if (a->copy_count < sizeof a->copies / sizeof *a->copies)
    a->copies[a->copy_count++] = (kiln_pipeline_copy){value, when, to};
  return to;
}

/// A counter or carried value.
static ir_value *argument_in(kiln_pipeline *a, ir_value *value, kiln_iteration when) {
  if (when == KILN_THIS) return value;
  if (!value->index) return a->index[when];
  uint32_t carried = value->index - ir_loop_counters(a->loop);
  if (when == KILN_FIRST) return ir_loop_initials(a->loop)[carried];
  ir_value *next = kiln_pipeline_value(a, ir_loop_next(a->loop)->operands[carried], when - 1);
  if (!a->stays || next == value) return next;
  return remember(a, value, when, ir_ternary(&a->b, IR_SELECT, 0, a->exists[when], next, value));
}

typedef struct copying {
  kiln_pipeline *a;
  kiln_iteration when;
  bool is_mapped; ///< values have the copies that stand for them, for ir_clone
} copying;

static void map_taken(ir_value *value, void *context) {
  const copying *c = context;
  ir_value *copy = kiln_pipeline_value(c->a, value, c->when);
  value->slot = c->is_mapped ? copy : NULL;
}

/// A branch in that iteration, whole: `value` is one of its results.
static ir_value *branch_in(kiln_pipeline *a, const ir_value *value, kiln_iteration when) {
  ir_op *branch = value->def;
  copying c = {.a = a, .when = when};
  visit_taken(branch, a->body, map_taken, &c); // all are computed before one of them is mapped
  c.is_mapped = true;
  visit_taken(branch, a->body, map_taken, &c);
  ir_op *made = ir_clone(&a->b, branch);
  c.is_mapped = false;
  visit_taken(branch, a->body, map_taken, &c);
  for (ir_op *op = branch; op != branch->next; op = ir_next(branch->block, op))
    for (uint32_t i = 0; i < op->result_count; i++) op->results[i].slot = NULL; // forget their copies
  for (uint32_t i = 0; i < branch->result_count; i++)
    remember(a, &branch->results[i], when, &made->results[i]);
  return &made->results[value->index];
}

/// A scalar that the loop loads, as it does in that iteration.
static ir_value *read_in(kiln_pipeline *a, const ir_value *value, kiln_iteration when) {
  ir_value *made = kiln_pipeline_load_at(a, value->def, when);
  return made ? remember(a, value, when, made) : (ir_value *)value;
}

ir_value *kiln_pipeline_value(kiln_pipeline *a, ir_value *value, kiln_iteration when) {
  bool is_argument = !value->def && value->block == a->body;
  if (!is_argument && (!value->def || value->def->block != a->body)) return value;
  ir_value *known = remembered(a, value, when);
  if (known) return known;
  if (is_argument) return argument_in(a, value, when);
  if (value->def->region_count) return branch_in(a, value, when);
  if (value->def->code == IR_LOAD) return read_in(a, value, when);
  ir_op *op = value->def;
  ir_value **operands = KILN_NEW_ARRAY(a->kernel->arena, ir_value *, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++)
    operands[i] = kiln_pipeline_value(a, op->operands[i], when);
  a->b.place = op->place;
  ir_op *made = ir_emit(&a->b, op->code, &op->attrs, operands, op->operand_count, &value->type, NULL, 0);
  return made ? remember(a, value, when, &made->results[value->index]) : value;
}

kiln_pipeline_place kiln_pipeline_at(kiln_pipeline *a, const ir_op *load, kiln_iteration when) {
  kiln_pipeline_place at = {.pointer = kiln_pipeline_value(a, load->operands[0], when)};
  ir_value *mask = load->operand_count > 1 ? kiln_pipeline_value(a, load->operands[1], when) : NULL;
  if (load->operand_count > 2) at.other = kiln_pipeline_value(a, load->operands[2], when);
  a->b.place = load->place;
  if (a->stays) return at;
  if (a->reads_masks && when == KILN_NEXT && mask && ends_with_loop(a, load->operands[1])) {
    at.mask = mask;
    return at;
  }
  at.mask = a->exists[when];
  if (at.mask && at.pointer->type.rank)
    at.mask = ir_splat(&a->b, at.mask, ir_with_element(at.pointer->type, ir_scalar_type(KILN_I1)));
  if (mask) at.mask = at.mask ? ir_binary(&a->b, IR_AND, 0, mask, at.mask) : mask;
  return at;
}

ir_value *kiln_pipeline_load_at(kiln_pipeline *a, const ir_op *load, kiln_iteration when) {
  kiln_pipeline_place at = kiln_pipeline_at(a, load, when);
  ir_value *operands[3] = {at.pointer, at.mask, at.other};
  uint32_t count = at.other ? 3 : at.mask ? 2 : 1;
  ir_op *made = ir_emit(&a->b, IR_LOAD, &load->attrs, operands, count, &load->results[0].type, NULL, 0);
  return made ? &made->results[0] : NULL;
}

void kiln_pipeline_open_end(kiln_pipeline *a) {
  ir_op *end = ir_loop_next(a->loop);
  stand(a, a->body, end);
  for (ir_op *op = a->body->first; op != end; op = op->next)
    for (uint32_t i = 0; i < op->result_count; i++) remember(a, &op->results[i], KILN_THIS, &op->results[i]);
}

// -------------------------------------------------------------------------------------------- leads

/// Values of the body that others follow from, in any iteration.
typedef struct reaching {
  const kiln_pipeline *a;
  const ir_value *seen[KILN_PIPELINE_SLICE];
  unsigned count;
  bool reads, branches; ///< one is loaded, or chosen by a branch
} reaching;

static bool has_seen(const reaching *r, const ir_value *value) {
  for (unsigned i = 0; i < r->count; i++)
    if (r->seen[i] == value) return true;
  return false;
}

static void reach(ir_value *value, void *context) {
  reaching *r = context;
  const kiln_pipeline *a = r->a;
  if (r->count == KILN_PIPELINE_SLICE || has_seen(r, value)) return;
  r->seen[r->count++] = value;
  if (value->def) {
    if (value->def->block != a->body) return;
    r->reads |= value->def->code == IR_LOAD;
    r->branches |= value->def->region_count != 0;
    visit_taken(value->def, a->body, reach, r);
  } else if (value->block == a->body && value->index >= ir_loop_counters(a->loop)) {
    reach(ir_loop_next(a->loop)->operands[value->index - ir_loop_counters(a->loop)], r);
  }
}

/// It is carried on by an addition at most, of what the loop does not change.
static bool is_counted(const kiln_pipeline *a, const ir_value *value) {
  const ir_value *next = ir_loop_next(a->loop)->operands[value->index - ir_loop_counters(a->loop)];
  const ir_op *op = next->def;
  if (next == value || !op) return true;
  return (op->code == IR_ADD || op->code == IR_SUB || op->code == IR_PTRADD) && op->operands[0] == value &&
         ir_home(op->operands[1]) != a->body;
}

/// Whether it runs ahead, for addresses that follow from it.
static bool leads(const kiln_pipeline *a, const reaching *addresses, ir_value *value, bool *out_has_to) {
  reaching r = {.a = a};
  *out_has_to = false;
  if (!has_seen(addresses, value)) return false;
  reach(value, &r);
  *out_has_to = r.reads;
  return r.reads || (!value->type.rank && addresses->branches && !is_counted(a, value));
}

bool kiln_pipeline_lead_before(kiln_pipeline *a, unsigned ahead) {
  reaching addresses = {.a = a};
  for (unsigned i = 0; i < a->count; i++)
    for (uint32_t k = 0; k < a->loads[i].load->operand_count; k++)
      reach(a->loads[i].load->operands[k], &addresses);
  a->lead_count = 0;
  for (uint32_t i = 0; ahead && i < a->loop->result_count; i++) {
    ir_value *value = ir_loop_args(a->loop)[i];
    bool has_to;
    if (!leads(a, &addresses, value, &has_to)) continue;
    if (a->lead_count == KILN_PIPELINE_LEADS || a->loop->result_count + MOST_MORE > IR_MAX_RESULTS) {
      if (has_to) return false;
      continue;
    }
    kiln_pipeline_lead *lead = &a->leads[a->lead_count++];
    *lead = (kiln_pipeline_lead){.value = value, .from = value->type.rank ? ahead : 1};
    for (unsigned n = lead->from; n <= ahead; n++)
      lead->first[n] = kiln_pipeline_value(a, value, KILN_FIRST + n);
  }
  return true;
}

void kiln_pipeline_lead_inside(kiln_pipeline *a, unsigned ahead) {
  for (unsigned i = 0; i < a->lead_count; i++) {
    kiln_pipeline_lead *lead = &a->leads[i];
    for (unsigned n = lead->from; n <= ahead; n++) {
      lead->ahead[n] = ir_block_arg(a->kernel->arena, a->body, lead->value->type);
      remember(a, lead->value, KILN_THIS + n, lead->ahead[n]);
    }
  }
}

static ir_value *carried_on(const kiln_pipeline *a, const kiln_pipeline_lead *lead) {
  return ir_loop_next(a->loop)->operands[lead->value->index - ir_loop_counters(a->loop)];
}

void kiln_pipeline_lead_on(kiln_pipeline *a, unsigned ahead, ir_value **first, ir_value **next,
                           uint32_t *count) {
  for (unsigned i = 0; i < a->lead_count; i++) {
    const kiln_pipeline_lead *lead = &a->leads[i];
    for (unsigned n = lead->from; n <= ahead; n++, ++*count) {
      first[*count] = lead->first[n];
      next[*count] =
          n < ahead ? lead->ahead[n + 1] : kiln_pipeline_value(a, carried_on(a, lead), KILN_THIS + n);
    }
  }
}

/// What the body would compute to carry on is carried already.
static void hand_on(kiln_pipeline *a) {
  for (unsigned i = 0; i < a->lead_count; i++) {
    ir_value *next = ir_resolve(carried_on(a, &a->leads[i])), *there = a->leads[i].ahead[KILN_NEXT];
    if (there && next->def && next->def->block == a->body) ir_forward(next, there);
  }
}

// --------------------------------------------------------------------------------------------- loop

ir_op *kiln_pipeline_remake(kiln_pipeline *a, ir_value *const *first, ir_value *const *next, uint32_t count) {
  stand(a, a->loop->block, a->loop);
  hand_on(a);
  ir_apply_forwards(a->kernel);
  ir_op *made = kiln_carry_more(&a->b, a->loop, first, next, count);
  if (!made) return NULL;
  ir_apply_forwards(a->kernel);
  return a->loop = made;
}
