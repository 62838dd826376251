// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `layouts` and `conversions` keep besides a kernel, in its text (ir/text.h). Above the body:
//
//   layouts products                                the pass has run; some products are by matrix
//   instructions shape *f32[64, 64] axis=1 vector=2 reduced=3    tiles of one shape that are accessed along
//   an axis
//
// and after operations, of the result:
//
//   with feed(%12, 1, stored, waits)       what is loaded, or stored to a slot, goes to operand 1 of %12
//   with slots(@l1, @l2, read, memory 3 6 8 : 1 2 4)     of an `alloc`: layouts of its writer and its reader,
//                                          layout_memory: vector, row, pad, offsets
//   with product(@l1, @l2, @l3) split(0 1 2 0 0 1 1) order(3 2)     of a `dot`
//   with full                              of a `for`: kiln_loop_is_full
//   with shifted                           loaded in whole pieces of 16 bytes, in which its rows begin anywhere
//   with deferred                          made by the reduction that it goes to (defer.c)
//
// `wanted` serves the pass alone, and facts are computed again.
#include <string.h>

#include "compiler/passes/gpu/layouts/layouts_text.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

// ---------------------------------------------------------------------------------------- printing

static void put_kernel(const ir_kernel *kernel, kiln_buffer *out) {
  const kiln_layouts *c = kernel->layouts;
  if (!c) return;
  kiln_buffer_format(out, "  layouts%s\n", c->has_products ? " products" : "");
  for (const kiln_shape *s = c->shapes; s; s = s->next) {
    char text[IR_TYPE_TEXT];
    kiln_buffer_format(out, "  shape %s axis=%u vector=%u reduced=%u\n", ir_type_text(s->type, text), s->axis,
                       s->vector, s->reduced);
  }
}

static void put_product(ir_printing *p, const kiln_dot_layouts *l) {
  kiln_buffer *out = ir_printing_out(p);
  const kiln_dot_split *s = &l->split;
  unsigned count = LAYOUT_MAX_BITS;
  kiln_buffer_format(out, " product(");
  const kiln_layout *const all[] = {&l->left, &l->right, &l->accumulator};
  for (unsigned i = 0; i < 3; i++) {
    if (i) kiln_buffer_u8(out, ',');
    ir_printing_layout(p, all[i]);
  }
  kiln_buffer_format(out, ") split(%u %u %u %u %u %u %u) order(", s->warp_batch, s->warp_m, s->warp_n,
                     s->reg_batch, s->reg_m, s->reg_n, s->reg_k);
  while (count && !s->order[count - 1]) count--;
  for (unsigned i = 0; i < count; i++) kiln_buffer_format(out, i ? " %u" : "%u", s->order[i]);
  kiln_buffer_u8(out, ')');
}

static void put_result(ir_printing *p, const kiln_layout_notes *n) {
  kiln_buffer *out = ir_printing_out(p);
  if (n->feed.dot)
    kiln_buffer_format(out, " feed(%%%u, %u%s%s)", n->feed.dot->results[0].id, n->feed.operand,
                       n->feed.is_stored ? ", stored" : "", n->feed.waits ? ", waits" : "");
  if (n->slots) {
    kiln_buffer_format(out, " slots(");
    ir_printing_layout(p, &n->slots->writer);
    kiln_buffer_u8(out, ',');
    ir_printing_layout(p, &n->slots->reader);
    const layout_memory *m = &n->slots->memory;
    kiln_buffer_format(out, "%s%s", n->slots->has_reader ? ", read" : "",
                       n->slots->is_exchange ? ", exchange" : "");
    if (m->bits) kiln_buffer_format(out, ", memory %u %u %u :", m->vector, m->row, m->pad);
    for (unsigned i = 0; i < m->bits; i++) kiln_buffer_format(out, " %u", m->offset[i]);
    kiln_buffer_u8(out, ')');
  }
  if (n->product) put_product(p, n->product);
  if (n->is_shifted) kiln_buffer_format(out, " shifted");
  if (n->is_deferred) kiln_buffer_format(out, " deferred");
}

static void put_op(ir_printing *p, const ir_kernel *kernel, const ir_op *op) {
  kiln_buffer *out = ir_printing_out(p);
  const kiln_layouts *c = kernel->layouts;
  if (!c) return;
  const size_t before = out->size;
  kiln_buffer_format(out, " with");
  const size_t begin = out->size;
  if (op->result_count) put_result(p, c->notes[op->results[0].id]);
  if (op->code == IR_FOR && kiln_loop_is_full(c, op)) kiln_buffer_format(out, " full");
  if (out->size == begin) out->size = before;
}

// ----------------------------------------------------------------------------------------- reading

/// Notes of an operation until values have numbers.
typedef struct noted {
  struct noted *next;
  ir_op *op;
  kiln_layout_notes notes;
  ir_value *fed; ///< the product's result, of a feed
} noted;

typedef struct all_noted {
  kiln_layouts *c;
  kiln_shape **last_shape;
  noted *first;
} all_noted;

static all_noted *noted_of(ir_reading *r) {
  if (!r->noted) r->noted = KILN_NEW(r->w.arena, all_noted);
  return r->noted;
}

static bool read_named(ir_reading *r, const char *name, int64_t most, unsigned *out) {
  int64_t number;
  if (!ir_words_expect(&r->w, name) || !ir_words_expect(&r->w, "=") ||
      !ir_words_number(&r->w, 0, most, &number))
    return false;
  *out = (unsigned)number;
  return true;
}

static bool read_shape(ir_reading *r) {
  all_noted *all = noted_of(r);
  kiln_shape *s = KILN_NEW(r->w.arena, kiln_shape);
  if (!all->c) return ir_words_fail(&r->w, "the line 'layouts' before shapes");
  if (!ir_read_type(r, &s->type)) return false;
  if (!s->type.rank || s->type.is_view || s->type.slots) return ir_words_fail(&r->w, "the shape of a tile");
  *all->last_shape = s;
  all->last_shape = &s->next;
  return read_named(r, "axis", s->type.rank - 1, &s->axis) &&
         read_named(r, "vector", LAYOUT_MAX_BITS, &s->vector) &&
         read_named(r, "reduced", (1 << IR_MAX_RANK) - 1, &s->reduced);
}

static bool read_line(ir_reading *r, const char *word) {
  all_noted *all = noted_of(r);
  if (!strcmp(word, "shape")) return read_shape(r);
  if (strcmp(word, "layouts") != 0) return false;
  if (all->c) return ir_words_fail(&r->w, "one line 'layouts'");
  all->c = KILN_NEW(r->w.arena, kiln_layouts);
  all->last_shape = &all->c->shapes;
  all->c->has_products = ir_words_take(&r->w, "products");
  return true;
}

static bool read_feed(ir_reading *r, noted *n) {
  int64_t operand;
  if (!ir_read_value_later(r, &n->fed) || !ir_words_expect(&r->w, ",") ||
      !ir_words_number(&r->w, 0, 1, &operand))
    return false;
  n->notes.feed.operand = (unsigned)operand;
  while (ir_words_take(&r->w, ",")) {
    if (ir_words_take(&r->w, "stored")) n->notes.feed.is_stored = true;
    else if (ir_words_take(&r->w, "waits")) n->notes.feed.waits = true;
    else return ir_words_fail(&r->w, "'stored' or 'waits'");
  }
  return true;
}

/// A layout that must be there.
static bool read_layout(ir_reading *r, kiln_layout *out) {
  const kiln_layout *l;
  if (!ir_read_layout(r, &l)) return false;
  if (!l) return ir_words_fail(&r->w, "a layout such as @l0");
  *out = *l;
  return true;
}

static bool read_number(ir_reading *r, int64_t most, uint8_t *out) {
  int64_t number;
  if (!ir_words_number(&r->w, 0, most, &number)) return false;
  *out = (uint8_t)number;
  return true;
}

static bool read_memory(ir_reading *r, layout_memory *m) {
  int64_t offset;
  uint32_t set;
  if (!read_number(r, LAYOUT_MAX_BITS, &m->vector) || !read_number(r, LAYOUT_MAX_BITS, &m->row) ||
      !read_number(r, UINT8_MAX, &m->pad) || !ir_words_expect(&r->w, ":"))
    return false;
  for (m->bits = 0; m->bits < LAYOUT_MAX_BITS && !ir_words_at(&r->w, ")"); m->bits++) {
    if (!ir_words_number(&r->w, 1, UINT32_MAX, &offset)) return false;
    if (layout_solve(m->offset, m->bits, (uint32_t)offset, &set))
      return ir_words_fail(&r->w, "an offset that is no combination of those before it");
    m->offset[m->bits] = (uint32_t)offset;
  }
  for (unsigned i = 0; i < m->bits; i++)
    if (m->offset[i] >> m->bits) return ir_words_fail(&r->w, "offsets below the number of elements");
  return true;
}

static bool read_slots(ir_reading *r, noted *n) {
  kiln_slot_layouts *s = n->notes.slots = KILN_NEW(r->w.arena, kiln_slot_layouts);
  if (!read_layout(r, &s->writer) || !ir_words_expect(&r->w, ",") || !read_layout(r, &s->reader))
    return false;
  while (ir_words_take(&r->w, ",")) {
    if (ir_words_take(&r->w, "read")) s->has_reader = true;
    else if (ir_words_take(&r->w, "exchange")) s->is_exchange = true;
    else if (!ir_words_take(&r->w, "memory")) return ir_words_fail(&r->w, "'read', 'exchange' or 'memory'");
    else if (!read_memory(r, &s->memory)) return false;
  }
  return true;
}

static bool read_split(ir_reading *r, kiln_dot_split *s) {
  unsigned *const parts[] = {&s->warp_batch, &s->warp_m, &s->warp_n, &s->reg_batch,
                             &s->reg_m,      &s->reg_n,  &s->reg_k};
  int64_t number;
  if (!ir_words_expect(&r->w, "split") || !ir_words_expect(&r->w, "(")) return false;
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!ir_words_number(&r->w, 0, LAYOUT_MAX_BITS, &number)) return false;
    *parts[i] = (unsigned)number;
  }
  if (!ir_words_expect(&r->w, ")") || !ir_words_expect(&r->w, "order") || !ir_words_expect(&r->w, "("))
    return false;
  for (unsigned i = 0; i < LAYOUT_MAX_BITS && !ir_words_at(&r->w, ")"); i++) {
    if (!ir_words_number(&r->w, 0, LAYOUT_MAX_BITS, &number)) return false;
    s->order[i] = (uint8_t)number;
  }
  return true;
}

static bool read_product(ir_reading *r, noted *n) {
  kiln_dot_layouts *l = n->notes.product = KILN_NEW(r->w.arena, kiln_dot_layouts);
  if (!read_layout(r, &l->left) || !ir_words_expect(&r->w, ",") || !read_layout(r, &l->right) ||
      !ir_words_expect(&r->w, ",") || !read_layout(r, &l->accumulator))
    return false;
  return ir_words_expect(&r->w, ")") && read_split(r, &l->split);
}

static noted *notes_for(ir_reading *r, ir_op *op) {
  all_noted *all = noted_of(r);
  if (all->first && all->first->op == op) return all->first;
  noted *n = KILN_NEW(r->w.arena, noted);
  *n = (noted){.next = all->first, .op = op};
  return all->first = n;
}

static bool read_op(ir_reading *r, ir_op *op) {
  static const struct {
    const char *word;
    ir_opcode code; ///< IR_OPCODE_COUNT: any with a result
    bool (*read)(ir_reading *, noted *);
  } kinds[] = {{"feed", IR_OPCODE_COUNT, read_feed},
               {"slots", IR_ALLOC, read_slots},
               {"product", IR_DOT, read_product}};
  if (!noted_of(r)->c) return ir_words_fail(&r->w, "the line 'layouts' above the body before notes");
  noted *n = notes_for(r, op);
  if (op->code == IR_FOR && ir_words_take(&r->w, "full")) return n->notes.is_full = true;
  if (op->code == IR_LOAD && ir_words_take(&r->w, "shifted")) return n->notes.is_shifted = true;
  if (op->result_count && ir_words_take(&r->w, "deferred")) return n->notes.is_deferred = true;
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (ir_words_at(&r->w, kinds[i].word) && op->result_count &&
        (kinds[i].code == op->code || kinds[i].code == IR_OPCODE_COUNT)) {
      ir_words_next(&r->w);
      return ir_words_expect(&r->w, "(") && kinds[i].read(r, n) && ir_words_expect(&r->w, ")");
    }
  return false;
}

static bool check_product(ir_reading *r, const ir_op *op, const kiln_dot_layouts *l) {
  const kiln_layout *const all[] = {&l->left, &l->right, &l->accumulator};
  for (unsigned i = 0; i < 3; i++)
    if (all[i]->bits != ir_log2_elements(op->operands[i]->type))
      return ir_words_fail(&r->w, "products whose layouts have the elements of their operands");
  return true;
}

static bool check_slots(ir_reading *r, const ir_op *alloc, const kiln_slot_layouts *s) {
  const unsigned bits = ir_log2_elements(alloc->results[0].type);
  if (s->writer.bits != bits || s->reader.bits != bits || s->memory.bits != bits)
    return ir_words_fail(&r->w, "slots whose layouts and memory have the elements of their tile");
  return true;
}

static bool finish(ir_reading *r, ir_kernel *kernel) {
  all_noted *all = noted_of(r);
  kiln_layouts *c = all->c;
  if (!c) return true;
  c->arena = r->w.arena;
  c->kernel = kernel;
  c->facts = kiln_facts_compute(c->arena, kernel);
  const uint32_t count = ir_number(kernel);
  kiln_layout_notes *notes = KILN_NEW_ARRAY(c->arena, kiln_layout_notes, count);
  c->notes = KILN_NEW_ARRAY(c->arena, kiln_layout_notes *, count);
  for (uint32_t i = 0; i < count; i++) c->notes[i] = &notes[i];
  for (noted *n = all->first; n; n = n->next) {
    if (n->fed && (!n->fed->def || n->fed->def->code != IR_DOT))
      return ir_words_fail(&r->w, "feeds of the result of a dot");
    if (n->fed) n->notes.feed.dot = n->fed->def;
    if (n->notes.product && !check_product(r, n->op, n->notes.product)) return false;
    if (n->notes.slots && !check_slots(r, n->op, n->notes.slots)) return false;
    if (n->notes.slots) kiln_slots_measure(n->op, n->notes.slots);
    if (n->op->code == IR_FOR) c->notes[ir_for_counter(n->op)->id]->is_full = n->notes.is_full;
    n->notes.is_full = false;
    if (n->op->result_count) *c->notes[n->op->results[0].id] = n->notes;
  }
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (op->code == IR_DOT && !c->notes[op->results[0].id]->product)
      return ir_words_fail(&r->w, "every dot with a note of its product");
  kernel->layouts = c;
  return true;
}

const ir_text_notes kiln_layouts_text = {put_kernel, put_op, read_line, read_op, finish};

bool kiln_layouts_text_open(ir_kernel *kernel, const kiln_fetch_machine *machine) {
  kiln_layouts *c = kernel->layouts;
  c->machine = *machine;
  c->lanes = machine->lanes;
  c->warps = (unsigned)__builtin_ctz(kernel->warps);
  return kernel->warps <= machine->threads >> machine->lanes;
}
