// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies of functions. One block is read straight through. Several blocks (early returns) are structured into
// `if`: a branch ends where its two sides meet again, which is the immediate post-dominator, and what stands
// on a side is read in that side. A block that two sides share without being where they meet, such as a
// common return, is read once in each.
//
// Needs: no cycle between blocks. Loops are scf operations in TTIR.
#include <string.h>

#include "compiler/ttir/ttir_reader.h"

enum { MAX_BLOCKS = 4096 };

typedef struct block {
  ttir_token label; // kind TTIR_END for the entry
  ttir_lexer start; // at the label; at the first statement for the entry
  ttir_token targets[2];
  uint32_t successors[2];
  uint32_t successor_count;
  uint32_t order; // successors have smaller ones
  uint32_t meet;  // immediate post-dominator
  uint8_t state;  // of the depth-first walk
} block;

typedef struct graph {
  block *blocks; // arena; blocks[count] is the virtual exit
  uint32_t count, capacity;
  uint32_t finished;
} graph;

static void skip_arguments(ttir_reader *r) {
  if (ttir_peek(r, '(') && !ttir_lex_skip_group(&r->lex))
    ttir_error(r, "expected ')' after the arguments of a block");
}

static block *add_block(ttir_reader *r, graph *g) {
  if (g->count == MAX_BLOCKS) {
    ttir_error(r, "a function has more than %d blocks", MAX_BLOCKS);
    return &g->blocks[g->count - 1];
  }
  KILN_GROW(r->arena, g->blocks, g->count, g->capacity);
  g->blocks[g->count] = (block){.start = r->lex};
  return &g->blocks[g->count++];
}

static void read_target(ttir_reader *r, block *b) {
  b->targets[b->successor_count++] = ttir_take(r, TTIR_BLOCK, "a block");
  skip_arguments(r);
}

// Finds labels and branches of the body at the lexer, after its opening brace.
static void scan_blocks(ttir_reader *r, graph *g) {
  block *b = add_block(r, g);
  while (!r->failed && !ttir_peek(r, '}')) {
    if (r->lex.token.kind == TTIR_END) {
      ttir_expect(r, '}');
    } else if (r->lex.token.kind == TTIR_BLOCK) {
      b = add_block(r, g);
      b->label = r->lex.token;
      ttir_lex_next(&r->lex);
      skip_arguments(r);
      ttir_expect(r, ':');
    } else if (ttir_accept_word(r, "cf.br")) {
      if (b->successor_count == 0) read_target(r, b);
    } else if (ttir_accept_word(r, "cf.cond_br")) {
      ttir_take(r, TTIR_VALUE, "a condition");
      if (r->lex.token.kind == TTIR_ALIAS) ttir_lex_next(&r->lex); // %c#1
      ttir_expect(r, ',');
      if (b->successor_count == 0) {
        read_target(r, b);
        ttir_expect(r, ',');
        read_target(r, b);
      }
    } else if (ttir_peek(r, '{') || ttir_peek(r, '(')) {
      if (!ttir_lex_skip_group(&r->lex)) ttir_expect(r, '}');
    } else {
      ttir_lex_next(&r->lex);
    }
  }
}

static uint32_t find_block(ttir_reader *r, const graph *g, const ttir_token *label) {
  for (uint32_t i = 1; i < g->count; i++)
    if (g->blocks[i].label.length == label->length &&
        memcmp(g->blocks[i].label.at, label->at, label->length) == 0)
      return i;
  r->line = label->line;
  ttir_error(r, "block ^%.*s is not defined", (int)label->length, label->at);
  return g->count;
}

static void link_blocks(ttir_reader *r, graph *g) {
  for (uint32_t i = 0; i < g->count; i++)
    for (uint32_t k = 0; k < g->blocks[i].successor_count; k++)
      g->blocks[i].successors[k] = find_block(r, g, &g->blocks[i].targets[k]);
}

// Numbers blocks so that successors come first, without recursion. A block met while it is open closes a
// cycle.
static void order_blocks(ttir_reader *r, graph *g) {
  enum { NEW, OPEN, DONE };
  uint32_t *stack = KILN_NEW_ARRAY(r->arena, uint32_t, g->count + 1u), depth = 0;
  stack[depth++] = 0;
  g->blocks[0].state = OPEN;
  while (depth) {
    block *b = &g->blocks[stack[depth - 1]];
    uint32_t next = g->count;
    for (uint32_t k = 0; k < b->successor_count && next == g->count; k++) {
      const block *s = &g->blocks[b->successors[k]];
      if (s->state == OPEN) {
        r->line = s->label.line;
        ttir_error(r, "blocks ^%.*s and its successors form a loop; only scf.for and scf.while are supported",
                   (int)s->label.length, s->label.at);
        return;
      }
      if (s->state == NEW) next = b->successors[k];
    }
    if (next < g->count) {
      g->blocks[next].state = OPEN;
      stack[depth++] = next;
    } else {
      b->state = DONE;
      b->order = ++g->finished;
      depth--;
    }
  }
}

static uint32_t meet_of(const graph *g, uint32_t a, uint32_t b) {
  while (a != b) {
    if (g->blocks[a].order > g->blocks[b].order) a = g->blocks[a].meet;
    else b = g->blocks[b].meet;
  }
  return a;
}

// Immediate post-dominators in the order found: every successor is final before its predecessors. The exit
// has order 0.
static void find_meets(ttir_reader *r, graph *g) {
  uint32_t *by_order = KILN_NEW_ARRAY(r->arena, uint32_t, g->count + 1u);
  for (uint32_t i = 0; i < g->count; i++)
    if (g->blocks[i].order) by_order[g->blocks[i].order] = i;
  for (uint32_t at = 1; at <= g->finished; at++) {
    block *b = &g->blocks[by_order[at]];
    b->meet = b->successor_count == 0 ? g->count : b->successors[0];
    if (b->successor_count == 2) b->meet = meet_of(g, b->successors[0], b->successors[1]);
  }
}

// ---------------------------------------------------------------------------------------- emission

typedef struct passed {
  ir_value *values[TTIR_MAX_VALUES];
  uint32_t count;
} passed;

static void walk(ttir_reader *r, const graph *g, uint32_t at, uint32_t stop, passed *values);

static bool accept_return(ttir_reader *r) {
  return ttir_accept_word(r, "tt.return") || ttir_accept_word(r, "tt.map_elementwise.return");
}

// Enters block `at`: names its arguments as `values`, steps to its first statement.
static void enter(ttir_reader *r, const block *b, const passed *values) {
  uint32_t count = 0;
  r->lex = b->start;
  if (b->label.kind != TTIR_BLOCK) return;
  ttir_lex_next(&r->lex);
  if (ttir_accept(r, '(')) {
    while (!r->failed && !ttir_peek(r, ')')) {
      ttir_token name = ttir_take(r, TTIR_VALUE, "a block argument");
      ttir_colon_type(r);
      ttir_skip_loc(r);
      if (count < values->count) ttir_define(r, name, &values->values[count], 1);
      count++;
      if (!ttir_accept(r, ',')) break;
    }
    ttir_expect(r, ')');
  }
  ttir_expect(r, ':');
  if (count != values->count)
    ttir_error(r, "block ^%.*s takes %u values, a branch passes %u", (int)b->label.length, b->label.at, count,
               values->count);
}

// `%a, %b : T, U` with or without parentheses around; types are those of the values.
static void read_passed(ttir_reader *r, passed *out) {
  out->count = 0;
  if (r->lex.token.kind != TTIR_VALUE) return;
  out->count = ttir_values(r, out->values, TTIR_MAX_VALUES);
  ttir_expect(r, ':');
  for (uint32_t i = 0; i < out->count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_read_type(r, false);
  }
}

// `^bb1(%x : i32)`
static void read_branch(ttir_reader *r, passed *out) {
  ttir_take(r, TTIR_BLOCK, "a block");
  out->count = 0;
  if (!ttir_accept(r, '(')) return;
  read_passed(r, out);
  ttir_expect(r, ')');
}

// One side of a branch, up to where the sides meet.
static ir_block *side(ttir_reader *r, const graph *g, uint32_t target, uint32_t meet, passed *values) {
  ttir_region region = ttir_open_region(r);
  if (target != meet && !r->failed) walk(r, g, target, meet, values);
  ttir_emit(r, IR_YIELD, NULL, values->values, values->count, NULL);
  ttir_close_region(r, &region);
  return region.block;
}

// After cf.cond_br: emits the `if`; leaves in `values` what arrives where the sides meet.
static void branch(ttir_reader *r, const graph *g, const block *b, passed *values) {
  passed *sides = KILN_NEW_ARRAY(r->arena, passed, 2);
  ir_block *blocks[2];
  ir_value *condition = ttir_value(r);
  for (int i = 0; i < 2; i++) {
    ttir_expect(r, ',');
    read_branch(r, &sides[i]);
  }
  for (int i = 0; i < 2 && !r->failed; i++) blocks[i] = side(r, g, b->successors[i], b->meet, &sides[i]);
  ir_op *op = ttir_emit_regions(r, IR_IF, NULL, &condition, 1, blocks, 2);
  values->count = op ? op->result_count : 0;
  for (uint32_t i = 0; i < values->count; i++) values->values[i] = &op->results[i];
}

// Emits blocks from `at` up to `stop` (not included); `values` are passed to the first and come back as those
// passed to `stop`.
static void walk(ttir_reader *r, const graph *g, uint32_t at, uint32_t stop, passed *values) {
  while (!r->failed && at != stop) {
    const block *b = &g->blocks[at];
    enter(r, b, values);
    ttir_statements(r);
    r->line = r->lex.token.line;
    if (accept_return(r)) read_passed(r, values);
    else if (ttir_accept_word(r, "cf.br")) read_branch(r, values);
    else if (ttir_accept_word(r, "cf.cond_br")) branch(r, g, b, values);
    else ttir_expect_word(r, "tt.return, cf.br or cf.cond_br");
    at = b->meet;
  }
}

static uint32_t read_blocks(ttir_reader *r, graph *g, ir_value **out_values) {
  link_blocks(r, g);
  if (!r->failed) order_blocks(r, g);
  if (r->failed) return 0;
  find_meets(r, g);
  passed *values = KILN_NEW(r->arena, passed);
  walk(r, g, 0, g->count, values);
  if (r->failed) return 0;
  memcpy(out_values, values->values, values->count * sizeof *out_values);
  return values->count;
}

static uint32_t read_straight(ttir_reader *r, ir_value **out_values) {
  passed *values = KILN_NEW(r->arena, passed);
  ttir_statements(r);
  r->line = r->lex.token.line;
  if (accept_return(r)) read_passed(r, values);
  else ttir_expect_word(r, "tt.return");
  ttir_skip_loc(r);
  ttir_expect(r, '}');
  if (r->failed) return 0;
  memcpy(out_values, values->values, values->count * sizeof *out_values);
  return values->count;
}

uint32_t ttir_body(ttir_reader *r, ir_value *out_values[TTIR_MAX_VALUES]) {
  if (!r->module->has_blocks) return read_straight(r, out_values);
  graph *g = KILN_NEW(r->arena, graph);
  ttir_lexer start = r->lex;
  scan_blocks(r, g);
  if (r->failed) return 0;
  // one more for the virtual exit, whose order is 0
  KILN_GROW(r->arena, g->blocks, g->count, g->capacity);
  g->blocks[g->count] = (block){.meet = g->count};
  if (g->count > 1 || g->blocks[0].successor_count) return read_blocks(r, g, out_values);
  r->lex = start;
  return read_straight(r, out_values);
}
