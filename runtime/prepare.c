// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares what can be known about a kernel before its first launch: checks its expressions and brings them
// into forms that evaluate in a few instructions, turns promised facts into tests on the block, and finds
// the parameters that expressions read.
#include <string.h>

#include "base/expr.h"
#include "runtime/choice_memo.h"
#include "runtime/device/device.h"
#include "runtime/launch.h"

// ------------------------------------------------------------------------------------- expressions

enum { MOST_PATTERN = 5 };
typedef struct pattern {
  kiln_form form;
  uint8_t count, ops[MOST_PATTERN];
} pattern;

// Postfix forms that grids and conditions are mostly made of. A parameter alone is its division by 1.
static const pattern patterns[] = {
    {KILN_FORM_CONST, 1, {KILN_EXPR_CONST}},
    {KILN_FORM_CDIV, 1, {KILN_EXPR_PARAM}},
    {KILN_FORM_CDIV, 3, {KILN_EXPR_PARAM, KILN_EXPR_CONST, KILN_EXPR_CDIV}},
    {KILN_FORM_DIVISIBLE,
     5,
     {KILN_EXPR_PARAM, KILN_EXPR_CONST, KILN_EXPR_REM, KILN_EXPR_CONST, KILN_EXPR_EQ}},
};

static uint8_t size_of(const kiln_param_record *p) { return kiln_param_is_address(p) ? 8 : (uint8_t)p->size; }

static bool is_power_of_2(int64_t value) { return value > 0 && !(value & (value - 1)); }

static bool match_pattern(const kiln_interface *interface, const pattern *p, kiln_span code,
                          kiln_prepared_expr *out) {
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  int64_t constants[2] = {1, 0};
  uint32_t constant_count = 0, number = 0;
  for (unsigned i = 0; i < p->count; i++) {
    int64_t operand = 0;
    uint8_t op = r.left ? kiln_expr_take(&r, &operand) : 0;
    if (op != p->ops[i]) return false;
    if (op == KILN_EXPR_CONST) constants[constant_count++] = operand;
    if (op == KILN_EXPR_PARAM) number = (uint32_t)operand;
  }
  if (r.left || constants[1]) return false;
  out->value = constants[0];
  out->form = p->form;
  if (p->form == KILN_FORM_CONST) return true;
  // Forms with a division keep to positive divisors; the general form knows the rest, and other widths.
  const kiln_param_record *param = &interface->params[number];
  bool is_taken = constants[0] > 0 && (size_of(param) == 4 || size_of(param) == 8);
  if (!is_taken) out->form = KILN_FORM_GENERAL;
  out->is_wide = size_of(param) == 8;
  out->offset = param->offset;
  if (out->form == KILN_FORM_CDIV && is_power_of_2(out->value)) {
    out->form = KILN_FORM_CDIV_LOG2;
    out->shift = (uint8_t)__builtin_ctzll((unsigned long long)out->value--);
  }
  return is_taken;
}

/// A choice depends on some bits of the parameter, on its value; expressions in general form read it.
enum { USE_READ = 1, USE_WHOLE = 2, USE_VALUE = 4 };

static void note_params(const kiln_interface *interface, kiln_span code, uint8_t how, uint8_t *used,
                        bool *out_is_valid) {
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  while (r.left) {
    int64_t param;
    if (kiln_expr_take(&r, &param) != KILN_EXPR_PARAM) continue;
    used[param] |= how;
    if (!kiln_param_is_integer(&interface->params[param])) *out_is_valid = false;
  }
}

/// A condition on the low bits of a parameter is tested in the block.
static bool is_mask_test(const kiln_prepared_expr *e) {
  return e->form == KILN_FORM_DIVISIBLE && is_power_of_2(e->value) && e->value - 1 <= UINT32_MAX;
}

static bool prepare_expr(const kiln_interface *interface, kiln_span code, bool is_condition, uint8_t *used,
                         kiln_prepared_expr *out) {
  bool is_valid = kiln_expr_verify(code.bytes, code.size, interface->param_count);
  *out = (kiln_prepared_expr){.form = KILN_FORM_GENERAL, .code = code};
  if (!is_valid) return false;
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns && out->form == KILN_FORM_GENERAL; i++)
    match_pattern(interface, &patterns[i], code, out);
  uint8_t how = USE_READ;
  if (!is_condition || !is_mask_test(out)) how |= USE_WHOLE;
  if (out->form == KILN_FORM_GENERAL) how |= USE_VALUE;
  note_params(interface, code, how, used, &is_valid);
  return is_valid;
}

// ------------------------------------------------------------------------------------------- facts

/// What a view promises of its strides: that the last is 1, the others multiples.
static void add_strides(kiln_kernel *k, uint32_t param) {
  const kiln_param_record *p = &k->interface.params[param];
  for (uint32_t axis = 0; axis < p->view_rank; axis++) {
    bool is_last = axis + 1 == p->view_rank;
    k->facts[k->fact_count++] = (kiln_fact){.param = param,
                                            .offset = p->offset + 8 * (1 + p->view_rank + axis),
                                            .size = 8,
                                            .is_signed = true,
                                            .div = is_last ? 1 : p->rows / kiln_scalars[p->scalar].bytes,
                                            .lo = is_last ? 1 : INT64_MIN,
                                            .hi = is_last ? 1 : INT64_MAX};
  }
}

static bool add_facts(kiln_kernel *k) {
  uint32_t count = k->interface.param_count, most = count;
  for (uint32_t i = 0; i < count; i++) most += k->interface.params[i].view_rank;
  k->masks = KILN_NEW_ARRAY(k->arena, uint64_t, count);
  k->facts = KILN_NEW_ARRAY(k->arena, kiln_fact, most);
  if (!k->facts) return false;
  for (uint32_t i = 0; i < count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    if (kiln_param_is_address(p)) {
      if (p->align > 1 && !(p->align & (p->align - 1))) k->masks[i] = p->align - 1;
      if (p->rows) add_strides(k, i);
    } else if (kiln_param_is_integer(p) && (p->div > 1 || p->has_range)) {
      k->facts[k->fact_count++] = (kiln_fact){.param = i,
                                              .offset = p->offset,
                                              .size = (uint8_t)p->size,
                                              .is_signed = p->scalar != KILN_I1,
                                              .div = p->div > 1 ? p->div : 1,
                                              .lo = p->has_range ? p->lo : INT64_MIN,
                                              .hi = p->has_range ? p->hi : INT64_MAX};
    }
  }
  return true;
}

static bool add_alignments(kiln_kernel *k) {
  const uint32_t count = k->interface.param_count;
  uint16_t *next = KILN_NEW_ARRAY(k->arena, uint16_t, count);
  k->alignments = KILN_NEW_ARRAY(k->arena, kiln_alignment, count);
  if (!k->alignments) return false;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t mask = k->masks[i];
    uint32_t of = 0;
    while (of < k->alignment_count && k->alignments[of].mask != mask) of++;
    if (!mask || of < k->alignment_count) continue;
    kiln_alignment *a = &k->alignments[k->alignment_count++];
    *a = (kiln_alignment){.offsets = next, .mask = mask};
    for (uint32_t j = i; j < count; j++)
      if (k->masks[j] == mask) *next++ = (uint16_t)k->interface.params[j].offset;
    a->end = next;
  }
  return true;
}

static bool add_integers(kiln_kernel *k, const uint8_t *used) {
  k->integers = KILN_NEW_ARRAY(k->arena, kiln_integer_param, k->interface.param_count);
  if (!k->integers) return false;
  for (uint32_t i = 0; i < k->interface.param_count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    if (used[i] & USE_VALUE)
      k->integers[k->integer_count++] = (kiln_integer_param){i, p->offset, size_of(p), p->scalar != KILN_I1};
  }
  return true;
}

static bool add_slots(kiln_kernel *k) {
  uint32_t count = 0, end = 0;
  k->slots = KILN_NEW_ARRAY(k->arena, kiln_slot, k->interface.param_count);
  if (!k->slots) return false;
  for (unsigned pass = 0; pass < 3; pass++) {
    for (uint32_t i = 0; i < k->interface.param_count; i++) {
      const kiln_param_record *p = &k->interface.params[i];
      unsigned group = p->size == 8 ? 0 : p->size == 4 ? 1 : 2;
      if (group == pass) k->slots[count++] = (kiln_slot){(uint16_t)i, (uint16_t)p->size, p->offset};
    }
    if (pass == 0) k->slots_of_8 = count;
    if (pass == 1) k->slots_to_4 = count;
  }
  for (uint32_t i = 0; i < k->interface.param_count; i++) {
    k->has_gaps |= k->interface.params[i].offset != end;
    end = k->interface.params[i].offset + k->interface.params[i].size;
  }
  return true;
}

// What a prepared launch has to look at when a parameter changes.
static bool add_reads(kiln_kernel *k, const uint8_t *used) {
  k->is_read = KILN_NEW_ARRAY(k->arena, bool, k->interface.param_count);
  if (!k->is_read) return false;
  for (uint32_t i = 0; i < k->interface.param_count; i++) k->is_read[i] = used[i] != 0;
  for (uint32_t i = 0; i < k->fact_count; i++) k->is_read[k->facts[i].param] = true;
  return true;
}

static kiln_status invalid(const kiln_kernel *k, const char *what, kiln_error *err) {
  if (kiln_arena_failed(k->arena)) return kiln_kernel_no_memory(k, err);
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: kernel '%s': %s is not valid", k->bundle->name,
                   k->interface.name, what);
}

static bool prepare_conjunction(kiln_kernel *k, const kiln_span *conditions, uint32_t count, uint8_t *used,
                                kiln_conjunction *out) {
  out->masks = KILN_NEW_ARRAY(k->arena, kiln_mask_test, count);
  out->others = KILN_NEW_ARRAY(k->arena, kiln_prepared_expr, count);
  if (!out->others) return false;
  for (uint32_t i = 0; i < count; i++) {
    kiln_prepared_expr e;
    if (!prepare_expr(&k->interface, conditions[i], true, used, &e)) return false;
    if (is_mask_test(&e)) out->masks[out->mask_count++] = (kiln_mask_test){e.offset, (uint32_t)(e.value - 1)};
    else out->others[out->other_count++] = e;
  }
  return true;
}

__attribute__((noinline)) void kiln_memo_note(struct kiln_choice_memo *m, uint32_t offset, uint32_t size,
                                              uint64_t mask) {
  uint8_t *bytes = (uint8_t *)m->relevant;
  for (uint32_t i = 0; i < size; i++, mask >>= 8) bytes[offset + i] |= (uint8_t)mask;
}

static void note_tests(struct kiln_choice_memo *m, const kiln_conjunction *c) {
  for (uint32_t i = 0; i < c->mask_count; i++) kiln_memo_note(m, c->masks[i].offset, 4, c->masks[i].mask);
}

/// Which bits of the arguments a choice by costs depends on.
static bool add_memo(kiln_kernel *k, const uint8_t *used) {
  uint32_t words = (k->interface.block_bytes + 7) / 8;
  if (!k->has_costs || words > KILN_MEMO_WORDS) return true;
  struct kiln_choice_memo *m = k->memo = KILN_NEW(k->arena, struct kiln_choice_memo);
  if (!m) return false;
  m->word_count = words;
  for (uint32_t i = 0; i < k->interface.param_count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    if (used[i] & USE_WHOLE) kiln_memo_note(m, p->offset, size_of(p), UINT64_MAX);
    if (k->masks[i]) kiln_memo_note(m, p->offset, 8, k->masks[i]);
  }
  for (uint32_t i = 0; i < k->interface.config_count; i++) note_tests(m, &k->configs[i].require);
  for (uint32_t i = 0; i < k->interface.variant_count; i++) note_tests(m, &k->variants[i]);
  for (uint32_t i = 0; i < k->fact_count; i++)
    kiln_memo_note(m, k->facts[i].offset, k->facts[i].size, UINT64_MAX);
  return true;
}

/// Without a grid of its own it is empty, which a launch tells apart where it ends.
static bool prepare_grid(const kiln_interface *in, const kiln_span *from, uint8_t *used,
                         kiln_prepared_config *to) {
  for (unsigned axis = 0; axis < 3; axis++) to->has_grid |= from[axis].size != 0;
  for (unsigned axis = 0; axis < 3; axis++) {
    kiln_prepared_expr *e = &to->grid[axis];
    *e = (kiln_prepared_expr){.form = KILN_FORM_CONST, .value = to->has_grid};
    if (from[axis].size && !prepare_expr(in, from[axis], false, used, e)) return false;
    if (e->form != KILN_FORM_CONST || e->value != 1) to->axes = axis + 1;
  }
  return true;
}

kiln_status kiln_kernel_prepare(kiln_kernel *k, kiln_error *err) {
  const kiln_interface *in = &k->interface;
  uint8_t used[KILN_MOST_PARAMS] = {0};
  k->configs = KILN_NEW_ARRAY(k->arena, kiln_prepared_config, in->config_count);
  if (!k->configs) return kiln_kernel_no_memory(k, err);
  for (uint32_t c = 0; c < in->config_count; c++) {
    const kiln_config_record *from = &in->configs[c];
    kiln_prepared_config *to = &k->configs[c];
    if (!prepare_grid(in, from->grid, used, to)) return invalid(k, "a @grid expression", err);
    if (!prepare_conjunction(k, from->require, from->require_count, used, &to->require))
      return invalid(k, "a @require expression", err);
    to->cost = (kiln_prepared_expr){.form = KILN_FORM_CONST, .value = INT64_MAX};
    k->has_costs |= from->cost.size != 0;
    if (from->cost.size && !prepare_expr(in, from->cost, false, used, &to->cost))
      return invalid(k, "a @cost expression", err);
  }
  k->variants = KILN_NEW_ARRAY(k->arena, kiln_conjunction, in->variant_count);
  if (!k->variants) return kiln_kernel_no_memory(k, err);
  for (uint32_t v = 0; v < in->variant_count; v++)
    if (!prepare_conjunction(k, in->variants[v].conditions, in->variants[v].condition_count, used,
                             &k->variants[v]))
      return invalid(k, "a @variant condition", err);
  return add_facts(k) && add_alignments(k) && add_reads(k, used) && add_slots(k) && add_integers(k, used) &&
                 add_memo(k, used)
             ? KILN_OK
             : kiln_kernel_no_memory(k, err);
}
