// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes of kernels: which there are, those that are plain values, and what callers may allocate and
// differentiate.
#include <string.h>

#include "compiler/front/instance.h"

bool kiln_is_kernel(const kiln_item *item) { return item->kind == KILN_ITEM_KERNEL && !item->broken; }

bool kiln_is_attribute(const kiln_node *a, const char *name) { return !strcmp(a->atom->text, name); }

// The one attribute `name` of the kernel, or NULL.
const kiln_node *kiln_find_attribute(const kiln_maker *m, const char *name) {
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    if (kiln_is_attribute(m->kernel->attributes.items[i], name)) return m->kernel->attributes.items[i];
  return NULL;
}

void kiln_check_attributes(kiln_maker *m) {
  static const struct {
    const char *name;
    bool repeats;
    uint8_t least, most;
  } known[] = {{"grid", false, 1, 3},     {"config", true, 0, 255},    {"instance", true, 1, 255},
               {"variant", true, 1, 32},  {"require", true, 1, 32},    {"warps", false, 1, 1},
               {"stages", false, 1, 1},   {"regs", false, 1, 1},       {"key", false, 1, 255},
               {"fp", false, 1, 2},       {"grid_limit", false, 3, 3}, {"space", true, 1, 255},
               {"returns", false, 1, 26}, {"backward", false, 1, 1},   {"cost", false, 1, 1},
               {"configs", false, 1, 1}};
  enum { KNOWN = sizeof known / sizeof *known };
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++) {
    const kiln_node *a = m->kernel->attributes.items[i];
    size_t which = 0;
    while (which < KNOWN && !kiln_is_attribute(a, known[which].name)) which++;
    if (which == KNOWN)
      kiln_elab_unknown_attribute(&m->e, a, "kernel",
                                  "@grid @config @instance @variant @require @cost @configs @warps @stages "
                                  "@regs @key @space @fp @returns @backward");
    else if (!known[which].repeats && kiln_find_attribute(m, a->atom->text) != a)
      kiln_elab_error(&m->e, a->place, "'@%s' is there already, at line %u", a->atom->text,
                      kiln_find_attribute(m, a->atom->text)->place.line);
    else if (a->list.count < known[which].least || a->list.count > known[which].most)
      kiln_elab_error(&m->e, a->place, "'@%s' takes %u to %u arguments, found %u", a->atom->text,
                      known[which].least, known[which].most, a->list.count);
  }
}

// The kernel that `a`, "@configs(K)", names, if it states configs; NULL after an error.
static const kiln_item *stating(kiln_maker *m, const kiln_node *a) {
  const kiln_node *n = a->list.count == 1 ? a->list.items[0] : NULL;
  const kiln_item *other = n && n->kind == KILN_NODE_NAME ? n->atom->item : NULL;
  uint32_t count = 0;
  bool borrows = false;
  if (other && other->broken) return NULL; // has its errors
  for (uint32_t i = 0; other && kiln_is_kernel(other) && i < other->attributes.count; i++) {
    count += kiln_is_attribute(other->attributes.items[i], "config");
    borrows |= kiln_is_attribute(other->attributes.items[i], "configs");
  }
  if (count && !borrows) return other;
  kiln_elab_error(&m->e, n ? n->place : a->place,
                  "'@configs': expected a kernel that states its own configs");
  return NULL;
}

void kiln_share_configs(kiln_maker *m, kiln_item *kernel) {
  kiln_list all = {0};
  uint32_t capacity = 0;
  for (uint32_t i = 0; i < kernel->attributes.count; i++) {
    kiln_node *a = kernel->attributes.items[i];
    const kiln_item *other = kiln_is_attribute(a, "configs") ? stating(m, a) : NULL;
    for (uint32_t j = 0; other && j < other->attributes.count; j++) {
      if (!kiln_is_attribute(other->attributes.items[j], "config")) continue;
      KILN_GROW(kiln_maker_arena(m), all.items, all.count, capacity);
      all.items[all.count++] = other->attributes.items[j];
    }
    KILN_GROW(kiln_maker_arena(m), all.items, all.count, capacity);
    all.items[all.count++] = a; // it stays: whose configs are taken over states none of its own
  }
  kernel->attributes = all;
}

static void fp_attribute(kiln_maker *m) {
  const kiln_node *a = kiln_find_attribute(m, "fp");
  for (uint32_t i = 0; a && i < a->list.count; i++) {
    const kiln_node *n = a->list.items[i];
    bool strict = n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "strict"),
         flush = n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "ftz");
    m->instance->fp_strict |= strict;
    m->instance->fp_flush |= flush;
    if (!strict && !flush) kiln_elab_error(&m->e, n->place, "'@fp': expected strict or ftz");
  }
}

static void key_attribute(kiln_maker *m) {
  const kiln_node *a = kiln_find_attribute(m, "key");
  const char *names = "";
  for (uint32_t i = 0; a && i < a->list.count; i++) {
    const kiln_node *n = a->list.items[i];
    uint32_t j = 0;
    while (j < m->kernel->params.count &&
           !(n->kind == KILN_NODE_NAME && m->kernel->params.items[j]->atom == n->atom))
      j++;
    if (j == m->kernel->params.count)
      kiln_elab_error(&m->e, n->place, "'@key': expected the name of a parameter");
    else names = kiln_arena_format(kiln_maker_arena(m), "%s%s%s", names, i ? "," : "", n->atom->text);
  }
  m->instance->tuning_key = names;
}

void kiln_plain_attributes(kiln_maker *m) {
  int64_t v = 0;
  const kiln_node *regs = kiln_find_attribute(m, "regs"), *limits = kiln_find_attribute(m, "grid_limit");
  if (regs && regs->list.count != 1)
    kiln_elab_error(&m->e, regs->place, "'@regs' takes 1 argument, found %u", regs->list.count);
  else if (regs && kiln_elab_integer(&m->e, regs->list.items[0], 1, KILN_MOST_REGISTERS, "regs", &v))
    m->instance->max_registers = (uint16_t)v;
  m->instance->has_grid_limit = limits != NULL;
  for (uint32_t i = 0; limits && i < limits->list.count && i < 3; i++)
    if (kiln_elab_integer(&m->e, limits->list.items[i], 0, INT32_MAX, "grid_limit", &v))
      m->instance->grid_limit[i] = v;
  fp_attribute(m);
  key_attribute(m);
}

// --------------------------------------------------------- what callers may allocate and differentiate

// The parameter that `n`, "y[rows, cols]", names, if a caller may allocate it; -1 after an error.
static int returned_param(kiln_maker *m, const kiln_node *n) {
  const ir_param *params = m->instance->params;
  if (n->kind != KILN_NODE_INDEX || n->a->kind != KILN_NODE_NAME)
    return kiln_elab_error(&m->e, n->place,
                           "'@returns': expected a parameter and its extents, as in y[rows, cols]"),
           -1;
  uint32_t i = 0;
  while (i < m->kernel->params.count && m->kernel->params.items[i]->atom != n->a->atom) i++;
  if (i == m->kernel->params.count)
    return kiln_elab_error(&m->e, n->place, "'@returns': there is no parameter '%s'", n->a->atom->text), -1;
  bool is_written = params[i].access == IR_ACCESS_OUT || params[i].access == IR_ACCESS_ACCUM;
  if (!is_written || (!params[i].type.is_view && params[i].type.pointer != 1))
    return kiln_elab_error(&m->e, n->place,
                           "'@returns': expected a parameter that is out or accum, which '%s' is not",
                           n->a->atom->text),
           -1;
  if (params[i].type.is_view && params[i].type.rank != n->list.count)
    return kiln_elab_error(&m->e, n->place, "'@returns': '%s' has %u axes, found %u extents",
                           n->a->atom->text, params[i].type.rank, n->list.count),
           -1;
  return (int)i;
}

static void returned_extents(kiln_maker *m, const kiln_node *n, const char *const *names, kiln_buffer *out) {
  for (uint32_t i = 0; i < n->list.count; i++) {
    const ir_param *params = m->instance->params;
    const kiln_launch_expr *x =
        kiln_launch_build(&m->e, m->kernel, params, NULL, n->list.items[i], "@returns");
    char text[512];
    if (!x) continue;
    if (x->is_bool || kiln_launch_has_pointer(x, params))
      kiln_elab_error(&m->e, n->list.items[i]->place, "@returns: expected integers");
    kiln_span code = kiln_launch_encode(kiln_maker_arena(m), x);
    kiln_buffer_format(
        out, "%s%s", i ? ", " : "",
        kiln_expr_text(code.bytes, code.size, names, m->kernel->params.count, text, sizeof text));
  }
}

void kiln_make_statements(kiln_maker *m) {
  const kiln_node *returns = kiln_find_attribute(m, "returns"),
                  *backward = kiln_find_attribute(m, "backward");
  const char **names = kiln_param_names(m);
  kiln_buffer text = {0};
  uint64_t seen = 0;
  for (uint32_t i = 0; returns && i < returns->list.count; i++) {
    const kiln_node *n = returns->list.items[i];
    int at = returned_param(m, n);
    if (at < 0) continue;
    if (at < 64 && seen >> at & 1)
      kiln_elab_error(&m->e, n->place, "'@returns': '%s' is there already", n->a->atom->text);
    seen |= at < 64 ? (uint64_t)1 << at : 0;
    kiln_buffer_format(&text, "%s%s[", text.size ? ", " : "", names[at]);
    returned_extents(m, n, names, &text);
    kiln_buffer_format(&text, "]");
  }
  if (text.size)
    m->instance->interface.returns =
        kiln_arena_text(kiln_maker_arena(m), (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
  if (!backward || !backward->list.count) return;
  const kiln_node *name = backward->list.items[0];
  if (name->kind == KILN_NODE_NAME) m->instance->interface.backward = name->atom->text;
  else kiln_elab_error(&m->e, name->place, "'@backward': expected the name of a kernel");
}
