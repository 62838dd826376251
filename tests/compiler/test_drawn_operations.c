// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts what the generator of kernels (tests/kernelgen.h) draws, in the canonical form, where what nothing
// uses is gone: each operation of ops.def at each place, with each element type, rank and attribute it may
// have, and forms of loops, branches and memory by name. What is never drawn is never checked, so a count of
// 0 fails, unless a table here says why.
//
// KILN_CENSUS prints all counts, KILN_SEEDS names another first seed.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/digest.h"
#include "compiler/front.h"
#include "compiler/ir/attrs.h"
#include "compiler/passes/lower/legality.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

enum { KERNELS = 4000, POINTERS = KILN_SCALAR_COUNT, ELEMENTS, SIZES = 11 };
enum { RANKS = 8 }; ///< the last one: of that rank or more
enum { WORDS = 16, DOT_SIZES = 7 };

typedef enum place { TOP, BRANCH, LOOP, AROUND, AFTER, CARRIED, PLACES } place;
static const char *const place_names[PLACES] = {"at the top",
                                                "in a branch",
                                                "in a loop",
                                                "from outside of a region, in it and after it",
                                                "used after its region",
                                                "carried by a loop"};

typedef enum form {
  SWAPPED,
  TURNED,
  DATA_IN_TEST,
  DATA_IN_BOUND,
  DATA_IN_CONDITION,
  WRITE_IN_TEST,
  MADE_IN_TEST,
  LONG_COUNTER,
  NO_RESULTS,
  MANY_RESULTS,
  LOOP_IN_LOOP,
  LOOP_IN_BRANCH,
  BRANCH_IN_LOOP,
  BRANCH_IN_BRANCH,
  CARRIED_SUM,
  SUM_USED_AFTER,
  PRODUCT_OF_CARRIED,
  PRODUCT_OF_ITSELF,
  GROWN_FROM_CARRIED,
  GROWN_FROM_SUM,
  POINTER_CARRIED,
  VIEW_CARRIED,
  VIEW_OF_BRANCH,
  ATOMIC_USED,
  ATOMIC_AT_ONE_PLACE_USED,
  ATOMIC_AT_DATA,
  REREAD,
  REREAD_IN_LOOP,
  STORED_TWICE,
  DATA_IN_INDEX,
  DATA_IN_PLACE,
  FUNCTION_OF_ONE,
  FUNCTION_OF_TWO,
  STRICT,
  STRICT_AND_FLUSHED,
  PARAMETER_CARRIED,
  PARAMETER_OF_BRANCH,
  PARAMETER_STORED,
  PARAMETER_ATOMIC,
  PARAMETER_REREAD,
  PARAMETER_WITHOUT_STRIDE,
  PARAMETER_BACKWARDS,
  PARAMETER_EMPTY,
  PARAMETER_SMALLER_THAN_TILE,
  PARAMETER_WITH_GAPS,
  PARAMETER_TURNED,
  PARAMETER_OF_ROWS,
  PARAMETER_UNALIGNED,
  NO_ALIAS,
  POINTERS_LOADED,
  POINTERS_MASKED,
  POINTERS_STORED,
  POINTERS_EXCHANGED,
  POINTERS_CARRIED,
  READ_THROUGH_LOADED,
  PROMISED_AT_END,
  PROMISED_VALUE,
  PROMISED_MULTIPLE,
  PROMISED_NEAR,
  POINTER_UNALIGNED,
  KNOWN_GRID,
  EIGHT_WARPS,
  STAGES_OF_KERNEL,
  FEW_REGISTERS,
  COUNTER_AT_END,
  CONSTANT_AT_END,
  MASKED_FAR_AWAY,
  MASKED_TOGETHER,
  FORMS
} form;
static const char *const form_names[FORMS] = {
    [SWAPPED] = "two carried values that trade places each turn",
    [TURNED] = "a carried tile that takes another one's elements, at other places",
    [DATA_IN_TEST] = "a while whose test depends on memory or a reduction",
    [DATA_IN_BOUND] = "a for whose bound depends on memory or a reduction",
    [DATA_IN_CONDITION] = "a branch that depends on memory or a reduction",
    [WRITE_IN_TEST] = "a while whose test writes memory",
    [MADE_IN_TEST] = "a while whose test makes a tile that is used in the body or afterwards",
    [LONG_COUNTER] = "a for with a counter of i64",
    [NO_RESULTS] = "a branch for its effects alone",
    [MANY_RESULTS] = "a branch with several values",
    [LOOP_IN_LOOP] = "a loop in a loop",
    [LOOP_IN_BRANCH] = "a loop in a branch",
    [BRANCH_IN_LOOP] = "a branch in a loop",
    [BRANCH_IN_BRANCH] = "a branch in a branch",
    [CARRIED_SUM] = "a product that adds to a carried sum, which goes on as it is",
    [SUM_USED_AFTER] = "a sum that is used after a product has been added to it",
    [PRODUCT_OF_CARRIED] = "a product of a carried tile",
    [PRODUCT_OF_ITSELF] = "a product of a tile with itself",
    [GROWN_FROM_CARRIED] = "a tile that grows by the same each turn, from a carried one",
    [GROWN_FROM_SUM] =
        "a tile that grows by the same each turn, from a sum to which a product is added before its use",
    [POINTER_CARRIED] = "carried pointers",
    [VIEW_CARRIED] = "a carried view",
    [VIEW_OF_BRANCH] = "a view of a branch",
    [ATOMIC_USED] = "an atomic whose old values are used",
    [ATOMIC_AT_ONE_PLACE_USED] = "the same, of all lanes at one place",
    [ATOMIC_AT_DATA] = "an atomic at places that memory or a reduction gives",
    [REREAD] = "a load of what was stored before",
    [REREAD_IN_LOOP] = "the same in one loop",
    [STORED_TWICE] = "two stores to one buffer",
    [DATA_IN_INDEX] = "a gather at places that memory or a reduction gives",
    [DATA_IN_PLACE] = "a scatter to places that memory or a reduction gives",
    [FUNCTION_OF_ONE] = "a reduction by a function of one value",
    [FUNCTION_OF_TWO] = "a reduction by a function of two values",
    [STRICT] = "a kernel with @fp(strict)",
    [PARAMETER_CARRIED] = "a view parameter that a loop carries",
    [PARAMETER_OF_BRANCH] = "a view parameter that a branch yields",
    [PARAMETER_STORED] = "a store through a view parameter",
    [PARAMETER_ATOMIC] = "an atomic through a view parameter",
    [PARAMETER_REREAD] = "a load through a view parameter of what was stored",
    [PARAMETER_WITHOUT_STRIDE] = "a view parameter with a stride of 0",
    [PARAMETER_BACKWARDS] = "a view parameter with a negative stride",
    [PARAMETER_EMPTY] = "a view parameter with an extent of 0 or less",
    [PARAMETER_SMALLER_THAN_TILE] = "a view parameter that is smaller than its tile",
    [PARAMETER_WITH_GAPS] = "a view parameter with gaps between rows",
    [PARAMETER_TURNED] = "a view parameter whose last axis is not the closest",
    [PARAMETER_OF_ROWS] = "a view parameter with @rows",
    [PARAMETER_UNALIGNED] = "a view parameter without @align",
    [NO_ALIAS] = "a parameter with @noalias",
    [POINTERS_LOADED] = "a load of pointers",
    [POINTERS_MASKED] = "a load of pointers, or of others where they are masked off",
    [POINTERS_STORED] = "a store of pointers",
    [POINTERS_EXCHANGED] = "an exchange of pointers",
    [POINTERS_CARRIED] = "loaded pointers that a loop carries",
    [PROMISED_AT_END] = "an integer parameter in a range that ends where its type does",
    [PROMISED_VALUE] = "an integer parameter of one value",
    [PROMISED_MULTIPLE] = "an integer parameter that is a multiple",
    [PROMISED_NEAR] = "a pointer with @within",
    [POINTER_UNALIGNED] = "a pointer without @align",
    [KNOWN_GRID] = "a kernel whose grid has a limit",
    [EIGHT_WARPS] = "a kernel of eight warps",
    [STAGES_OF_KERNEL] = "a kernel with stages",
    [FEW_REGISTERS] = "a kernel with a limit of registers",
    [COUNTER_AT_END] = "a for that counts to where its type ends",
    [CONSTANT_AT_END] = "an integer constant at an end of its type",
    [MASKED_FAR_AWAY] = "a load at offsets from data, masked off outside of the buffer",
    [MASKED_TOGETHER] = "an access whose lanes are masked off together",
    [READ_THROUGH_LOADED] = "a load through loaded pointers",
    [STRICT_AND_FLUSHED] = "a kernel with @fp(strict, ftz)",
};

typedef struct census {
  uint32_t places[IR_TILE_COUNT][PLACES], elements[IR_TILE_COUNT][ELEMENTS], ranks[IR_TILE_COUNT][RANKS];
  uint32_t attributes[IR_TILE_COUNT][WORDS][WORDS]; // by row of attrs.def, and word; 0: set at all
  uint32_t parameters[KILN_SCALAR_COUNT];           // that are scalars
  uint32_t flushed[IR_TILE_COUNT][ELEMENTS];        // where @fp(ftz) holds
  uint32_t casts[KILN_SCALAR_COUNT][KILN_SCALAR_COUNT], sizes[SIZES], products[3][DOT_SIZES], forms[FORMS];
} census;

// ------------------------------------------------------------------------------- what is not drawn

enum {
  RESULTS = 1 << AROUND | 1 << AFTER | 1 << CARRIED,
  EVERYWHERE = (1 << PLACES) - 1,
};

static const struct unplaced {
  ir_opcode code;
  unsigned places;
  const char *why;
} unplaced[] = {
    {IR_ASM, EVERYWHERE, "its text is of one machine; test_inline_ptx draws it"},
    {IR_PRINT, EVERYWHERE, "writes to standard output; test_printing draws it"},
    {IR_YIELD, 1 << TOP, "ends a region"},
    {IR_COND, 1 << TOP | 1 << BRANCH, "ends the test of a while"},
};

/// Element types that an operation may have and that are not drawn.
static const struct unelemental {
  ir_opcode code;
  unsigned element;
  const char *why;
} unelemental[] = {{IR_BITCAST, KILN_I1, "nothing else has one bit"}};

/// Attributes that are not drawn.
static const struct unsaid {
  ir_opcode code;
  const char *spelling, *why;
} unsaid[] = {
    {IR_LOAD, "feeds", "is set by a pass"},    {IR_ASM, "text", "as all of asm"},
    {IR_ASM, "constraints", "as all of asm"},  {IR_ASM, "pack", "as all of asm"},
    {IR_ASM, "pure", "as all of asm"},         {IR_PRINT, "hex", "as all of print"},
    {IR_PRINT, "unsigned", "as all of print"}, {IR_PRINT, "text", "as all of print"},
};

static bool is_unsaid(ir_opcode code, const char *spelling) {
  for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++)
    if (unsaid[i].code == code && !strcmp(unsaid[i].spelling, spelling)) return true;
  return false;
}

/// Whether the operation takes a way of combining: reductions and scans those that have element types and
/// functions, atomics what some element type has.
static bool combines(ir_opcode code, unsigned kind) {
  bool is_taken = false;
  if (code == IR_REDUCE || code == IR_SCAN) return kind == IR_COMBINE_REGION || ir_combines[kind].classes;
  for (unsigned element = 0; element < KILN_SCALAR_COUNT; element++)
    is_taken |= ir_atomic_takes((ir_combine)kind, (kiln_scalar)element);
  return is_taken;
}

/// Ranks of results, or of the value that is stored. Of scalars the canonical form has splat and select for
/// expand and join.
enum { ANY = RANKS - 1 };
static const struct ranked {
  ir_opcode code;
  uint8_t least, most;
} ranked[] = {
    {IR_PID, 0, 0},      {IR_NPID, 0, 0},    {IR_CONST, 0, 0},       {IR_IOTA, 1, 1},
    {IR_SPLAT, 1, ANY},  {IR_DIM, 0, 0},     {IR_VIEW_BASE, 0, 0},   {IR_VIEW_STRIDE, 0, 0},
    {IR_DOT, 2, 3},      {IR_SORT, 1, ANY},  {IR_SCAN, 1, ANY},      {IR_EXPAND, 2, ANY},
    {IR_JOIN, 2, ANY},   {IR_TRANS, 2, ANY}, {IR_BROADCAST, 1, ANY}, {IR_VIEW, 1, ANY},
    {IR_GATHER, 1, ANY}, {IR_SCATTER, 1, 1},
};

// ---------------------------------------------------------------------------------------- counting

/// What is known of the values of a kernel, by their ids.
typedef struct known {
  bool *is_data;         ///< depends on memory
  const ir_value **from; ///< of pointers and views: the parameter; NULL: not known
  const ir_op **within;  ///< a region's operation that uses the value from outside; NULL: none so far
} known;

typedef struct counter {
  census *all;
  known known;
  const ir_value *loaded_from[KERNELGEN_BUFFERS], *stored_to[KERNELGEN_BUFFERS];
  bool flushes; ///< @fp(ftz)
} counter;

static bool is_memory(const ir_op *op) {
  return op->code == IR_LOAD || op->code == IR_VIEW_LOAD || op->code == IR_ATOMIC || op->code == IR_CAS;
}

static bool is_stored_by(const ir_op *op) {
  return op->code == IR_STORE || op->code == IR_VIEW_STORE || op->code == IR_ATOMIC ||
         op->code == IR_VIEW_ATOMIC || op->code == IR_CAS;
}

static void pass_on(known *k, const ir_value *to, const ir_value *from) {
  k->is_data[to->id] |= k->is_data[from->id];
  if (to->type.pointer || to->type.is_view) k->from[to->id] = k->from[from->id];
}

static void find_out(ir_op *op, void *context) {
  known *k = context;
  for (uint32_t r = 0; r < op->result_count; r++) {
    k->is_data[op->results[r].id] |= is_memory(op);
    for (uint32_t i = op->operand_count; !op->region_count && i-- > 0;)
      pass_on(k, &op->results[r], op->operands[i]);
  }
  for (uint32_t i = 0; op->code == IR_IF && i < op->result_count; i++)
    for (unsigned which = 0; which < 2; which++)
      pass_on(k, &op->results[i], ir_if_end(op, which)->operands[i]);
  if (op->code == IR_REDUCE || op->code == IR_SCAN)
    for (uint32_t i = 0; i < op->result_count; i++) pass_on(k, &op->results[i], op->operands[i]);
  if (!ir_is_loop(op)) return;
  for (uint32_t i = 0; i < ir_carried_count(op); i++) {
    pass_on(k, ir_loop_args(op)[i], ir_loop_initials(op)[i]);
    k->is_data[ir_loop_args(op)[i]->id] |= k->is_data[ir_loop_next(op)->operands[i]->id];
    if (op->code == IR_FOR) pass_on(k, &op->results[i], ir_loop_args(op)[i]);
  }
  for (uint32_t i = 0; op->code == IR_WHILE && i < op->result_count; i++) {
    pass_on(k, &op->results[i], ir_cond_passed(ir_while_test(op))[i]);
    pass_on(k, op->regions[1]->args[i], ir_cond_passed(ir_while_test(op))[i]);
  }
}

/// The operation of `outer` in which `op` stands, at any depth.
static const ir_op *standing_in(const ir_block *outer, const ir_op *op) {
  while (op->block != outer) op = op->block->parent;
  return op;
}

static const ir_op *around(const ir_op *op) {
  for (const ir_op *p = op->block->parent; p; p = p->block->parent)
    if (p->code == IR_IF || ir_is_loop(p)) return p;
  return NULL;
}

static bool is_of_function(const ir_op *op) {
  return op->block->parent && (op->block->parent->code == IR_REDUCE || op->block->parent->code == IR_SCAN);
}

static void count_places(counter *c, const ir_op *op) {
  const ir_op *outer = around(op);
  c->all->places[op->code][!outer ? TOP : outer->code == IR_IF ? BRANCH : LOOP]++;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    if (!v->def || is_of_function(op)) continue;
    const ir_op *at = standing_in(v->def->block, op), **within = &c->known.within[v->id];
    if (*within && *within != at) c->all->places[v->def->code][AROUND]++;
    if (at != op) *within = at;
  }
}

static void count_end(counter *c, const ir_op *op, const ir_op *end, uint32_t skip) {
  for (uint32_t i = 0; i < op->result_count; i++) {
    const ir_op *def = end->operands[skip + i]->def;
    if (def && op->results[i].uses && ir_is_inside(def->block, op)) c->all->places[def->code][AFTER]++;
  }
}

static void count_carried(counter *c, const ir_op *loop) {
  for (uint32_t i = 0; i < ir_carried_count(loop); i++) {
    const ir_value *next = ir_loop_next(loop)->operands[i], *arg = ir_loop_args(loop)[i];
    if (!arg->uses) continue;
    if (next->def && ir_is_inside(next->def->block, loop)) c->all->places[next->def->code][CARRIED]++;
    c->all->forms[POINTER_CARRIED] += arg->type.pointer && !arg->type.is_view;
    c->all->forms[VIEW_CARRIED] += arg->type.is_view;
    const ir_op *trans = next->def;
    while (trans && trans->code == IR_RESHAPE) trans = trans->operands[0]->def;
    const ir_value *from = trans && trans->code == IR_TRANS ? trans->operands[0] : NULL;
    while (from && ir_producer(from, IR_RESHAPE)) from = from->def->operands[0];
    c->all->forms[TURNED] += from && from != arg && from->block == arg->block && arg->block;
    for (uint32_t k = 0; k < i; k++)
      c->all->forms[SWAPPED] +=
          loop->code == IR_FOR && next == ir_loop_args(loop)[k] && ir_loop_next(loop)->operands[k] == arg;
  }
}

static void count_elements(counter *c, const ir_op *op) {
  ir_type types[IR_MAX_RESULTS];
  uint32_t count = 0;
  if (op->code == IR_FOR || op->code == IR_WHILE || op->code == IR_IF)
    for (uint32_t i = 0; i < op->result_count; i++) types[count++] = op->results[i].type;
  else if (op->operand_count) types[count++] = op->operands[op->code == IR_SELECT]->type;
  else if (op->result_count) types[count++] = op->results[0].type;
  const bool is_memory_of = ir_ops[op->code].classes == KILN_CLASS_POINTER;
  for (uint32_t i = 0; i < count; i++) {
    const unsigned element = types[i].pointer && !is_memory_of ? POINTERS : types[i].scalar;
    c->all->elements[op->code][element]++;
    c->all->flushed[op->code][element] += c->flushes;
  }
  if (op->code == IR_CAST) c->all->casts[types[0].scalar][op->results[0].type.scalar]++;
}

static void count_size(counter *c, ir_opcode code, ir_type type) {
  c->all->ranks[code][type.rank < RANKS ? type.rank : RANKS - 1]++;
  const unsigned size = ir_log2_elements(type);
  if (!type.is_view && size < SIZES) c->all->sizes[size]++;
}

static void count_sizes(counter *c, const ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) count_size(c, op->code, op->results[i].type);
  if (op->code == IR_STORE) count_size(c, op->code, op->operands[1]->type);
  if (op->code == IR_VIEW_STORE || op->code == IR_VIEW_ATOMIC)
    count_size(c, op->code, op->operands[op->operand_count - 1]->type);
  if (op->code == IR_YIELD || op->code == IR_COND || !op->result_count)
    for (uint32_t i = 0; i < op->operand_count; i++) count_size(c, op->code, op->operands[i]->type);
  if (op->code != IR_DOT) return;
  const ir_type a = op->operands[0]->type, b = op->operands[1]->type;
  const unsigned sizes[3] = {a.log2[a.rank - 2], b.log2[b.rank - 1], a.log2[a.rank - 1]};
  for (unsigned i = 0; i < 3; i++)
    if (sizes[i] < DOT_SIZES) c->all->products[i][sizes[i]]++;
}

static void count_attributes(counter *c, const ir_op *op) {
  unsigned n = 0;
  for (const ir_attr_info *row = ir_next_attr(op->code, NULL); row; row = ir_next_attr(op->code, row), n++) {
    uint32_t *count = c->all->attributes[op->code][n];
    if (row->form == IR_ATTR_TEXT) count[0] += ir_attr_text(&op->attrs, row) != NULL;
    else {
      const uint64_t value = ir_attr_get(&op->attrs, row);
      if (row->form == IR_ATTR_WORD || row->form == IR_ATTR_KIND) count[value]++;
      else count[0] += (row->form == IR_ATTR_FLAG ? value & (uint64_t)row->most : value) != 0;
    }
  }
}

static const ir_value *buffer_of(const counter *c, const ir_op *op) {
  return c->known.from[op->operands[0]->id];
}

static void count_rereads(counter *c, const ir_op *op) {
  const ir_value *buffer = op->operand_count && (is_memory(op) || is_stored_by(op)) ? buffer_of(c, op) : NULL;
  if (!buffer || buffer->index >= KERNELGEN_BUFFERS) return;
  const bool is_stored = is_stored_by(op), was_stored = c->stored_to[buffer->index] != NULL;
  c->all->forms[STORED_TWICE] += is_stored && was_stored;
  if (is_memory(op) && was_stored) c->all->forms[REREAD]++;
  if (is_stored) c->stored_to[buffer->index] = buffer;
  for (const ir_op *loop = around(op); loop && op->code == IR_LOAD; loop = around(loop))
    for (const ir_op *other = ir_loop_body(loop)->first; other && ir_is_loop(loop); other = other->next)
      c->all->forms[REREAD_IN_LOOP] += is_stored_by(other) && buffer_of(c, other) == buffer;
}

static bool is_data(const counter *c, const ir_value *v) { return c->known.is_data[v->id]; }

static bool is_uniform_place(const ir_value *p) {
  if (ir_producer(p, IR_SPLAT)) return true;
  int64_t offset;
  return p->type.rank && ir_producer(p, IR_PTRADD) && ir_constant_int(p->def->operands[1], &offset) &&
         is_uniform_place(p->def->operands[0]);
}

/// Where `v` is a result of a loop that adds the same to it each turn: what it begins as.
static const ir_value *grown_from(const ir_value *v) {
  const ir_op *loop = ir_producer(v, IR_FOR);
  if (!loop || !v->type.rank) return NULL;
  const ir_value *next = ir_loop_next(loop)->operands[v->index], *arg = ir_loop_args(loop)[v->index];
  const ir_op *add = ir_producer(next, IR_ADD);
  if (!add || (add->operands[0] != arg && add->operands[1] != arg)) return NULL;
  const ir_value *more = add->operands[add->operands[0] == arg];
  uint64_t bits;
  return ir_constant_bits(more, &bits) || ir_splat_source(more) ? ir_loop_initials(loop)[v->index] : NULL;
}

static bool is_carried(const ir_value *v) {
  return v->block && v->block->parent && ir_is_loop(v->block->parent);
}

static void count_product(counter *c, const ir_op *op) {
  const ir_value *sum = op->operands[2];
  uint32_t *forms = c->all->forms;
  forms[PRODUCT_OF_ITSELF] += op->operands[0] == op->operands[1];
  forms[PRODUCT_OF_CARRIED] += is_carried(op->operands[0]) || is_carried(op->operands[1]);
  if (is_carried(sum))
    for (uint32_t i = 0; i < ir_carried_count(sum->block->parent); i++)
      forms[CARRIED_SUM] += ir_loop_args(sum->block->parent)[i] == sum &&
                            ir_loop_next(sum->block->parent)->operands[i] == &op->results[0];
  bool is_grown = false;
  for (const ir_op *other = op->block->first; other; other = other->next)
    for (uint32_t i = 0; i < other->operand_count; i++) {
      const ir_value *v = other->operands[i];
      const bool is_after = other->number > op->number;
      forms[SUM_USED_AFTER] += is_after && v == sum;
      is_grown |= is_after && grown_from(v) == sum && is_carried(sum) && v->def->number < op->number;
    }
  forms[GROWN_FROM_SUM] += is_grown;
}

static bool writes(const ir_block *block) {
  for (const ir_op *op = block->first; op; op = op->next)
    if (is_stored_by(op)) return true;
  return false;
}

static void count_forms(counter *c, const ir_op *op) {
  uint32_t *forms = c->all->forms;
  const ir_op *outer = around(op);
  if (ir_is_loop(op) || op->code == IR_IF) {
    const bool is_loop = ir_is_loop(op);
    if (outer)
      forms[is_loop ? (ir_is_loop(outer) ? LOOP_IN_LOOP : LOOP_IN_BRANCH)
                    : (ir_is_loop(outer) ? BRANCH_IN_LOOP : BRANCH_IN_BRANCH)]++;
    for (uint32_t i = 0; i < op->result_count; i++) {
      forms[GROWN_FROM_CARRIED] += grown_from(&op->results[i]) && is_carried(grown_from(&op->results[i]));
      forms[VIEW_OF_BRANCH] += !is_loop && op->results[i].type.is_view;
    }
  }
  switch (op->code) {
  case IR_FOR:
    forms[LONG_COUNTER] += ir_for_counter(op)->type.scalar == KILN_I64;
    forms[DATA_IN_BOUND] += is_data(c, ir_for_upper(op)) || is_data(c, ir_for_lower(op));
    break;
  case IR_WHILE:
    forms[DATA_IN_TEST] += is_data(c, ir_cond_condition(ir_while_test(op)));
    forms[WRITE_IN_TEST] += writes(op->regions[0]);
    for (uint32_t i = 0; i < op->result_count; i++) {
      const ir_value *v = ir_cond_passed(ir_while_test(op))[i];
      forms[MADE_IN_TEST] += v->def && v->type.rank && ir_is_inside(v->def->block, op) &&
                             (op->results[i].uses || op->regions[1]->args[i]->uses);
    }
    break;
  case IR_IF:
    forms[DATA_IN_CONDITION] += is_data(c, ir_if_condition(op));
    forms[NO_RESULTS] += !op->result_count;
    forms[MANY_RESULTS] += op->result_count > 1;
    break;
  case IR_DOT: count_product(c, op); break;
  case IR_ATOMIC:
    forms[ATOMIC_USED] += op->results[0].uses != 0;
    forms[ATOMIC_AT_ONE_PLACE_USED] += op->results[0].uses && is_uniform_place(op->operands[0]);
    forms[ATOMIC_AT_DATA] += is_data(c, op->operands[0]);
    break;
  case IR_SCATTER: forms[DATA_IN_PLACE] += is_data(c, op->operands[1]); break;
  case IR_GATHER: forms[DATA_IN_INDEX] += is_data(c, op->operands[1]); break;
  case IR_REDUCE:
    if (op->region_count) forms[op->operand_count == 1 ? FUNCTION_OF_ONE : FUNCTION_OF_TWO]++;
    break;
  default: break;
  }
}

/// Of a view that the kernel uses.
static void count_view(uint32_t *forms, const ir_param *p, const kernelgen_view *v) {
  const unsigned last = v->rank - 1u;
  bool stands = false, turns_back = false, is_empty = false, is_smaller = false;
  for (unsigned i = 0; i < v->rank; i++) {
    stands |= v->strides[i] == 0, turns_back |= v->strides[i] < 0;
    is_empty |= v->extents[i] < 1;
    is_smaller |=
        v->extents[i] > 0 && p->type.log2[i] != IR_DROPPED && v->extents[i] < (int64_t)1 << p->type.log2[i];
  }
  forms[PARAMETER_WITHOUT_STRIDE] += stands, forms[PARAMETER_BACKWARDS] += turns_back;
  forms[PARAMETER_EMPTY] += is_empty, forms[PARAMETER_SMALLER_THAN_TILE] += is_smaller;
  forms[PARAMETER_OF_ROWS] += p->rows != 0, forms[PARAMETER_UNALIGNED] += !p->align;
  if (!last) return;
  forms[PARAMETER_WITH_GAPS] += v->strides[last] == 1 && v->strides[last - 1] > v->extents[last];
  forms[PARAMETER_TURNED] += v->strides[last - 1] == 1 && v->strides[last] > 1;
}

static int64_t largest_of(ir_type type) { return (int64_t)(UINT64_MAX >> (65 - ir_type_bits(type))); }

static bool is_at_end(ir_type type, int64_t n) { return n == largest_of(type) || n == -largest_of(type) - 1; }

static void count_promises(uint32_t *forms, const ir_param *p) {
  forms[NO_ALIAS] += p->noalias, forms[PROMISED_NEAR] += p->within;
  forms[POINTER_UNALIGNED] += p->type.pointer && !p->align;
  forms[PROMISED_MULTIPLE] += p->div > 1, forms[PROMISED_VALUE] += p->has_range && p->lo == p->hi;
  forms[PROMISED_AT_END] += p->has_range && (is_at_end(p->type, p->lo) || is_at_end(p->type, p->hi));
}

static void count_kernel_attributes(uint32_t *forms, const ir_kernel *k) {
  forms[STRICT] += k->fp_strict, forms[STRICT_AND_FLUSHED] += k->fp_strict && k->fp_flush;
  forms[KNOWN_GRID] += k->grid_limit[0] != 0, forms[EIGHT_WARPS] += k->warps == 8;
  forms[STAGES_OF_KERNEL] += k->stages != 0, forms[FEW_REGISTERS] += k->max_registers != 0;
}

static void count_parameters(census *all, const kernelgen_case *c) {
  uint32_t buffer = 0;
  for (uint32_t i = 0; i < c->param_count; i++) {
    const ir_param *p = &c->params[i];
    const kernelgen_view *v = p->type.pointer || p->type.is_view ? &c->buffers[buffer++].view : NULL;
    if (!c->kernel->body->args[i]->uses) continue;
    count_promises(all->forms, p);
    if (!v) all->parameters[p->type.scalar]++;
    if (v && v->rank) count_view(all->forms, p, v);
  }
}

static bool is_parameter(const ir_value *v) { return v->type.is_view && v->block && !v->block->parent; }

static void count_limits(const counter *c, const ir_op *op) {
  uint32_t *forms = c->all->forms;
  int64_t n;
  if (op->code == IR_FOR)
    forms[COUNTER_AT_END] +=
        ir_constant_int(ir_for_lower(op), &n) && n > largest_of(ir_for_counter(op)->type) - 8;
  if (op->code == IR_CONST && ir_type_class(op->results[0].type) == KILN_CLASS_INT)
    forms[CONSTANT_AT_END] += ir_constant_int(&op->results[0], &n) && is_at_end(op->results[0].type, n);
  if (op->code != IR_LOAD && op->code != IR_STORE) return;
  const ir_value *mask =
      op->operand_count > 1u + (op->code == IR_STORE) ? op->operands[1 + (op->code == IR_STORE)] : NULL;
  if (!mask) return;
  const ir_op *test = ir_producer(mask, IR_AND) ? mask->def->operands[0]->def : mask->def;
  const ir_op *at = ir_producer(op->operands[0], IR_PTRADD);
  forms[MASKED_TOGETHER] += ir_splat_source(mask) != NULL;
  forms[MASKED_FAR_AWAY] += at && test && test->code == IR_CMP && test->operands[0] == at->operands[1] &&
                            c->known.is_data[at->operands[1]->id];
}

static bool is_pointer_load(const ir_value *v) { return ir_producer(v, IR_LOAD) && v->type.pointer; }

static void count_pointers(uint32_t *forms, const ir_op *op) {
  const bool is_load = op->code == IR_LOAD, of_pointers = is_load && op->results[0].type.pointer;
  forms[POINTERS_LOADED] += of_pointers;
  forms[POINTERS_MASKED] += of_pointers && op->operand_count > 2;
  forms[POINTERS_STORED] += op->code == IR_STORE && op->operands[1]->type.pointer;
  forms[POINTERS_EXCHANGED] += op->code == IR_CAS && op->results[0].type.pointer;
  forms[READ_THROUGH_LOADED] += is_load && is_pointer_load(op->operands[0]);
  for (uint32_t i = 0; ir_is_loop(op) && i < op->operand_count; i++)
    forms[POINTERS_CARRIED] += is_pointer_load(op->operands[i]);
}

static void count_uses_of_parameters(uint32_t *forms, const ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++)
    forms[PARAMETER_CARRIED] += ir_is_loop(op) && is_parameter(op->operands[i]);
  for (unsigned which = 0; op->code == IR_IF && which < 2; which++)
    for (uint32_t i = 0; i < op->result_count; i++)
      forms[PARAMETER_OF_BRANCH] += is_parameter(ir_if_end(op, which)->operands[i]);
  if (!op->operand_count || !is_parameter(op->operands[0])) return;
  forms[PARAMETER_STORED] += op->code == IR_VIEW_STORE;
  forms[PARAMETER_ATOMIC] += op->code == IR_VIEW_ATOMIC;
  for (const ir_op *before = op; op->code == IR_VIEW_LOAD && before; before = before->prev)
    forms[PARAMETER_REREAD] += is_stored_by(before) && before->operands[0] == op->operands[0];
}

static void count_op(ir_op *op, void *context) {
  counter *c = context;
  if (op->code >= IR_TILE_COUNT) return;
  count_places(c, op);
  count_elements(c, op);
  count_sizes(c, op);
  count_attributes(c, op);
  count_rereads(c, op);
  count_forms(c, op);
  count_uses_of_parameters(c->all->forms, op);
  count_pointers(c->all->forms, op);
  count_limits(c, op);
  if (ir_is_loop(op)) count_carried(c, op);
  if (op->code == IR_FOR) count_end(c, op, ir_loop_next(op), 0);
  if (op->code == IR_WHILE) count_end(c, op, ir_while_test(op), 1);
  for (unsigned which = 0; op->code == IR_IF && which < 2; which++) count_end(c, op, ir_if_end(op, which), 0);
}

static void count_kernel(census *all, uint64_t seed) {
  kiln_arena *arena = kiln_arena_create();
  kernelgen_case made;
  kernelgen_make(arena, seed, &(kernelgen_options){0}, &made);
  kiln_canonicalise(made.kernel);
  ir_count_uses(made.kernel);
  const uint32_t values = ir_number(made.kernel);
  counter c = {.all = all,
               .flushes = made.kernel->fp_flush,
               .known = {KILN_NEW_ARRAY(arena, bool, values), KILN_NEW_ARRAY(arena, const ir_value *, values),
                         KILN_NEW_ARRAY(arena, const ir_op *, values)}};
  for (uint32_t i = 0; i < made.kernel->body->arg_count; i++)
    c.known.from[made.kernel->body->args[i]->id] = made.kernel->body->args[i];
  for (int i = 0; i < 3; i++) ir_walk(made.kernel->body, find_out, &c.known); // loops in loops settle
  ir_walk(made.kernel->body, count_op, &c);
  count_parameters(all, &made);
  count_kernel_attributes(all->forms, made.kernel);
  kiln_arena_destroy(arena);
}

// --------------------------------------------------------------------------------------- comparing

/// What is missing, one a line.
typedef struct missing {
  char text[16000];
  size_t size;
  unsigned count;
} missing;

__attribute__((format(printf, 3, 4))) static void expect(missing *m, uint32_t count, const char *format,
                                                         ...) {
  char what[200];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (getenv("KILN_CENSUS")) printf("%8u %s\n", count, what);
  if (count) return;
  m->count++;
  if (m->size + strlen(what) + 2 < sizeof m->text)
    m->size += (size_t)sprintf(m->text + m->size, "\n%s", what);
}

static bool is_left_out(ir_opcode code, place where) {
  for (size_t i = 0; i < sizeof unplaced / sizeof *unplaced; i++)
    if (unplaced[i].code == code && unplaced[i].places >> where & 1) return true;
  return false;
}

static void expect_places(missing *m, const census *all) {
  for (ir_opcode code = 0; code < IR_TILE_COUNT; code++)
    for (place where = 0; where < PLACES; where++) {
      const bool has_place = ir_ops[code].results || !(RESULTS >> where & 1);
      if (has_place && !is_left_out(code, where))
        expect(m, all->places[code][where], "%s %s", ir_ops[code].text, place_names[where]);
    }
}

/// Whether some target has the operation for the element.
static bool may_have(ir_opcode code, unsigned element) {
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
  const bool is_view = code == IR_VIEW_LOAD || code == IR_VIEW_STORE || code == IR_VIEW_ATOMIC;
  const unsigned classes = is_view ? (unsigned)KILN_CLASS_POINTER : ir_ops[code].classes;
  const bool is_control = code == IR_FOR || code == IR_WHILE || code == IR_IF; // of any element, pointers too
  if (is_control) return true;
  if (!classes || code == IR_ASM || code == IR_PRINT || code == IR_COND) return false;
  if (element == POINTERS) return classes & KILN_CLASS_POINTER && classes != KILN_CLASS_POINTER;
  bool is_taken = code != IR_ATOMIC && code != IR_VIEW_ATOMIC;
  for (unsigned kind = 1; kind < IR_COMBINE_COUNT && !is_taken; kind++)
    is_taken = ir_atomic_takes((ir_combine)kind, element);
  for (size_t i = 0; i < sizeof unelemental / sizeof *unelemental; i++)
    if (unelemental[i].code == code && unelemental[i].element == element) return false;
  const bool is_memory_of = classes == KILN_CLASS_POINTER;
  return is_taken && (is_memory_of || classes & kiln_scalars[element].type_class) &&
         kiln_op_legality(code, element, false, 0, &target).legal != KILN_LEGAL_REFUSED;
}

static void expect_elements(missing *m, const census *all) {
  for (ir_opcode code = 0; code < IR_TILE_COUNT; code++)
    for (unsigned element = 0; element < ELEMENTS; element++)
      if (may_have(code, element))
        expect(m, all->elements[code][element], "%s of %s", ir_ops[code].text,
               element == POINTERS ? "pointers" : kiln_scalars[element].spelling);
  for (ir_opcode code = 0; code < IR_TILE_COUNT; code++)
    for (unsigned element = 0; element < KILN_SCALAR_COUNT; element++)
      if ((element == KILN_F32 || element == KILN_BF16) && ir_ops[code].classes & KILN_CLASS_FLOAT &&
          may_have(code, element))
        expect(m, all->flushed[code][element], "%s of %s under @fp(ftz)", ir_ops[code].text,
               kiln_scalars[element].spelling);
  for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++)
    for (unsigned to = 0; to < KILN_SCALAR_COUNT; to++)
      if (from != to)
        expect(m, all->casts[from][to], "cast from %s to %s", kiln_scalars[from].spelling,
               kiln_scalars[to].spelling);
}

static void expect_sizes(missing *m, const census *all) {
  for (ir_opcode code = 0; code < IR_TILE_COUNT; code++) {
    unsigned least = 0, most = ir_ops[code].results || ir_ops[code].most ? RANKS - 1 : 0;
    for (size_t i = 0; i < sizeof ranked / sizeof *ranked; i++)
      if (ranked[i].code == code) least = ranked[i].least, most = ranked[i].most;
    if (code == IR_ASM || code == IR_PRINT || code == IR_BARRIER) continue;
    for (unsigned rank = least; rank <= most; rank++)
      expect(m, all->ranks[code][rank], "%s of rank %u%s", ir_ops[code].text, rank,
             rank == ANY ? " or more" : "");
  }
  for (unsigned size = 0; size < SIZES; size++)
    expect(m, all->sizes[size], "a tile of %u elements", 1u << size);
  for (unsigned axis = 0; axis < 3; axis++)
    for (unsigned size = 0; size < DOT_SIZES; size++)
      expect(m, all->products[axis][size], "a product with %u along %c", 1u << size, "MNK"[axis]);
}

static void expect_attributes(missing *m, const census *all) {
  for (ir_opcode code = 0; code < IR_TILE_COUNT; code++) {
    unsigned n = 0;
    for (const ir_attr_info *row = ir_next_attr(code, NULL); row; row = ir_next_attr(code, row), n++) {
      const uint32_t *counts = all->attributes[code][n];
      const char *const *words =
          row->form == IR_ATTR_WORD || row->form == IR_ATTR_KIND ? ir_words_of(row->words) : NULL;
      if (row->canonical == IR_IN_NONE || is_unsaid(code, row->spelling)) continue;
      if (!words) expect(m, counts[0], "%s with %s", ir_ops[code].text, row->spelling);
      for (unsigned i = 0; words && words[i]; i++)
        if (row->words != IR_WORDS_COMBINE || combines(code, i))
          expect(m, counts[i], "%s with %s %s", ir_ops[code].text, row->spelling, words[i]);
    }
  }
}

static void expect_forms(missing *m, const census *all) {
  for (unsigned element = 0; element < KILN_SCALAR_COUNT; element++)
    expect(m, all->parameters[element], "a parameter of %s", kiln_scalars[element].spelling);
  for (form f = 0; f < FORMS; f++) expect(m, all->forms[f], "%s", form_names[f]);
}

TEST(drawn_operations, nothing_is_left_out) {
  static census all;
  static missing m;
  const char *seeds = getenv("KILN_SEEDS");
  const uint64_t first = seeds ? strtoull(seeds, NULL, 10) : 1;
  for (uint64_t i = 0; i < KERNELS; i++) count_kernel(&all, first + i);
  expect_places(&m, &all);
  expect_elements(&m, &all);
  expect_sizes(&m, &all);
  expect_attributes(&m, &all);
  expect_forms(&m, &all);
  if (m.count) FAIL("of %d kernels none has, %u times:%s", KERNELS, m.count, m.text);
}

// --------------------------------------------------------------------------------- one seed, one kernel

/// A kernel as text, and the data that it begins with.
static void put_kernel(uint64_t seed, kiln_buffer *out) {
  kiln_arena *arena = kiln_arena_create();
  kernelgen_case made;
  kernelgen_memory memory;
  kernelgen_make(arena, seed, &(kernelgen_options){0}, &made);
  ir_print(made.kernel, NULL, out);
  kiln_buffer_bytes(out, made.grid, sizeof made.grid);
  kernelgen_memory_init(&made, &memory);
  for (uint32_t i = 0; i < made.buffer_count; i++) memory.addresses[i] = (i + 1) << 20; // the same each time
  kernelgen_memory_place(&made, &memory);
  kiln_buffer_bytes(out, memory.args, sizeof memory.args);
  for (uint32_t i = 0; i < made.buffer_count; i++)
    kiln_buffer_bytes(out, memory.blocks[i], kiln_canary_bytes(&memory.around[i]));
  kernelgen_memory_deinit(&memory);
  kiln_arena_destroy(arena);
}

static void put_rereads(uint64_t seed, kiln_buffer *out) {
  kiln_buffer text;
  kernelgen_rereads_text(seed, &text);
  kiln_buffer_bytes(out, text.bytes, text.size);
  kiln_buffer_deinit(&text);
}

static void put_products(uint64_t seed, kiln_buffer *out) {
  kiln_buffer text;
  kernelgen_products_text(seed, &text);
  kiln_buffer_bytes(out, text.bytes, text.size);
  kiln_buffer_deinit(&text);
}

/// Appends a line with the digest of what `put` makes of 20 seeds.
static void put_digest(const char *name, uint64_t first, void (*put)(uint64_t seed, kiln_buffer *out),
                       kiln_buffer *out) {
  kiln_buffer all = {0};
  char hex[KILN_DIGEST_HEX + 1];
  for (uint64_t seed = first; seed < first + 20; seed++) put(seed, &all);
  const kiln_digest digest = kiln_digest_of(all.bytes, all.size);
  kiln_digest_hex(&digest, hex);
  kiln_buffer_format(out, "%s %llu..%llu %s\n", name, (unsigned long long)first,
                     (unsigned long long)first + 19, hex);
  kiln_buffer_deinit(&all);
}

/// C leaves open in which order operands and arguments are evaluated, so whatever draws twice in one
/// expression draws another kernel with another compiler.
TEST(drawn_operations, a_seed_means_one_kernel_whatever_compiled_the_generator) {
  kiln_buffer text = {0};
  for (uint64_t first = 1; first <= 200; first += 20) put_digest("kernels", first, put_kernel, &text);
  for (uint64_t first = 1; first <= 100; first += 20) put_digest("rereads", first, put_rereads, &text);
  for (uint64_t first = 1; first <= 100; first += 20) put_digest("products", first, put_products, &text);
  kiln_test_golden("drawn_kernels.txt", (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
}
