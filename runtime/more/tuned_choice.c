// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the tuned choice for the arguments of a launch, and remembers the result for arguments of the same
// class.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/more/core.h"
#include "runtime/more/shape_record.h"

static KILN_PRINTF(3, 4) void tell(const kiln_kernel *k, int level, const char *format, ...) {
  char text[700];
  int used = snprintf(text, sizeof text, "tuned choices of '%.100s' in %.200s: ", k->interface.name,
                      k->tuned->bundle->name);
  va_list list;
  va_start(list, format);
  vsnprintf(text + used, sizeof text - (size_t)used, format, list);
  va_end(list);
  kiln_log(k->device, k->interface.name, level, text);
}

// ------------------------------------------------------------------------------------------ inputs

static bool is_any(const char *text) { return !strcmp(text, "*"); }

static bool is_for_device(const kiln_device *d, const kiln_tuned_entry *e) {
  const char *product = e->texts[KILN_TUNED_PRODUCT], *processor = e->texts[KILN_TUNED_PROCESSOR];
  uint64_t units = e->numbers[KILN_TUNED_UNITS];
  return (is_any(product) || !strcmp(product, d->description)) &&
         (is_any(processor) || !strcmp(processor, d->target.name)) && (!units || units == d->processors);
}

// The parameter `name`, or that of a view before the dot; `out_rest` is what follows the dot.
static int find_param(const kiln_interface *in, const char *name, const char **out_rest) {
  size_t length = strcspn(name, ".");
  *out_rest = name[length] ? name + length + 1 : NULL;
  for (uint32_t i = 0; i < in->param_count; i++)
    if (strlen(in->params[i].name) == length && !memcmp(in->params[i].name, name, length)) return (int)i;
  return -1;
}

// A number below `limit` that is the whole text.
static bool read_index(const char *text, uint32_t limit, uint32_t *out) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  unsigned long v = strtoul(text, &end, 10);
  *out = (uint32_t)v;
  return !*end && v < limit;
}

// Where in the block the axis lies; false when the kernel has no such argument.
static bool place_input(const kiln_interface *in, const kiln_tuned_axis *axis, kiln_tuned_input *out) {
  const char *rest;
  uint32_t word;
  int at = find_param(in, axis->name, &rest);
  if (at < 0) return false;
  const kiln_param_record *p = &in->params[at];
  bool is_address = kiln_param_is_address(p),
       is_integer = !is_address && kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL);
  *out = (kiln_tuned_input){axis->kind, (uint32_t)at, p->offset, 8, true, 0, 2};
  if (!rest) {
    if (!is_address) out->size = (uint8_t)p->size, out->is_signed = p->scalar != KILN_I1;
    return axis->kind == KILN_TUNED_BIN ? is_integer
                                        : axis->kind == KILN_TUNED_ALIGNED && (is_integer || is_address);
  }
  if (axis->kind == KILN_TUNED_STRIDE) {
    if (!read_index(rest, p->view_rank, &word)) return false;
    out->offset += 8 + 8 * (p->view_rank + word);
    out->radix = 3;
    return true;
  }
  if (strncmp(rest, "extent", 6) || !read_index(rest + 6, p->view_rank, &word)) return false;
  out->offset += 8 + 8 * word;
  return true;
}

// The input that stands for the axis, made where it is not there; -1 when it cannot be.
static int find_input(kiln_tuned *t, const kiln_interface *in, const kiln_tuned_axis *axis) {
  kiln_tuned_input input;
  if (!place_input(in, axis, &input)) return -1;
  for (uint32_t i = 0; i < t->input_count; i++)
    if (t->inputs[i].kind == input.kind && t->inputs[i].offset == input.offset) return (int)i;
  if (t->input_count == KILN_TUNED_MOST_AXES) return -1;
  t->inputs[t->input_count] = input;
  return (int)t->input_count++;
}

// ----------------------------------------------------------------------------------------- choices

static uint32_t find_config(const kiln_kernel *k, const char *text) {
  uint32_t c = 0;
  while (c < k->interface.config_count &&
         (strcmp(k->interface.configs[c].text, text) || !k->configs[c].is_usable))
    c++;
  return c;
}

// False: the choice is left out, with a line in the log.
static bool take_choice(kiln_kernel *k, const kiln_tuned_entry *e) {
  kiln_tuned *t = k->tuned;
  uint32_t config = find_config(k, e->texts[KILN_TUNED_CONFIG]);
  kiln_tuned_choice choice = {.config = (uint16_t)config, .line = e->line};
  if (config == k->interface.config_count)
    return tell(k, KILN_LOG_INFO, "line %u: there is no code for %s of '%.200s': left out", e->line,
                k->device->target.name, e->texts[KILN_TUNED_CONFIG]),
           false;
  memset(choice.values, KILN_TUNED_ANY, sizeof choice.values);
  for (uint32_t i = 0; i < e->axis_count; i++) {
    int at = find_input(t, &k->interface, &e->axes[i]);
    if (at < 0)
      return tell(k, KILN_LOG_WARNING, "line %u: the kernel has no argument '%.100s' of that kind: left out",
                  e->line, e->axes[i].name),
             false;
    choice.values[at] = e->axes[i].value;
  }
  t->choices[t->choice_count++] = choice;
  return true;
}

// How many values each input has: of bins those from the lowest to the highest that was measured.
static void set_ranges(kiln_tuned *t) {
  uint64_t cells = 1;
  for (uint32_t i = 0; i < t->input_count; i++) {
    kiln_tuned_input *in = &t->inputs[i];
    uint8_t least = KILN_TUNED_ANY, most = 0;
    bool any = false;
    for (uint32_t c = 0; c < t->choice_count; c++) {
      uint8_t v = t->choices[c].values[i];
      any |= v == KILN_TUNED_ANY;
      if (v == KILN_TUNED_ANY) continue;
      if (v < least) least = v;
      if (v > most) most = v;
    }
    if (in->kind == KILN_TUNED_BIN) {
      t->has_bins |= least != KILN_TUNED_ANY;
      if (any) least = 0, most = KILN_TUNED_MOST_BINS - 1; // measured for all
      in->least = least;
      in->radix = (uint32_t)most - least + 1;
    }
    cells = cells > KILN_TUNED_MOST_CELLS ? cells : cells * in->radix;
  }
  t->cell_count = cells > KILN_TUNED_MOST_CELLS ? 0 : cells;
}

static kiln_status take_entries(kiln_kernel *k, const kiln_tuned_entry *entries, uint32_t count,
                                kiln_error *err) {
  kiln_tuned *t = k->tuned;
  kiln_buffer types = {0};
  t->choices = KILN_NEW_ARRAY(k->arena, kiln_tuned_choice, count);
  kiln_interface_types(&k->interface, &types);
  kiln_buffer_u8(&types, 0);
  if (!t->choices || types.failed) {
    kiln_buffer_deinit(&types);
    return kiln_kernel_no_memory(k, err);
  }
  uint32_t foreign = 0;
  for (unsigned pass = 0; pass < 2; pass++) // those that name the product go first where both are as near
    for (uint32_t i = 0; i < count && t->choice_count < KILN_TUNED_MOST_CHOICES; i++) {
      const kiln_tuned_entry *e = &entries[i];
      if (is_any(e->texts[KILN_TUNED_PRODUCT]) != pass ||
          strcmp(e->texts[KILN_TUNED_KERNEL], k->interface.name) || !is_for_device(k->device, e))
        continue;
      bool fits = !strcmp(e->texts[KILN_TUNED_TYPES], (const char *)types.bytes);
      foreign += !fits;
      if (fits) take_choice(k, e);
    }
  kiln_buffer_deinit(&types);
  if (foreign)
    tell(k, KILN_LOG_WARNING, "%u are for other parameters than the kernel has: left out", foreign);
  return KILN_OK;
}

// Takes the choices of one note. NOT_FOUND: none of them is for this kernel here.
static kiln_status take_note(kiln_kernel *k, size_t size, kiln_error *err) {
  kiln_tuned *t = k->tuned;
  kiln_tuned_entry *entries;
  uint32_t count;
  kiln_error why = {0};
  kiln_arena *scratch = kiln_arena_create_with(NULL);
  if (!scratch) return kiln_kernel_no_memory(k, err);
  kiln_status status = kiln_tuned_read(scratch, "note", t->note, size, &entries, &count, NULL, &why);
  if (status == KILN_OK) status = take_entries(k, entries, count, err);
  else if (status == KILN_STATUS_OUT_OF_MEMORY) kiln_kernel_no_memory(k, err);
  else {
    tell(k, KILN_LOG_WARNING, "they are not used: %s", why.text);
    status = KILN_STATUS_NOT_FOUND;
  }
  kiln_arena_destroy(scratch);
  if (status == KILN_OK && !t->choice_count) status = KILN_STATUS_NOT_FOUND;
  if (status != KILN_OK) return status;
  set_ranges(t);
  if (t->cell_count && !(t->cells = calloc(t->cell_count, sizeof *t->cells)))
    return kiln_kernel_no_memory(k, err);
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------- nearest

// The sum of the squares of the bins between; UINT32_MAX when a fact differs.
static uint32_t distance(const kiln_tuned *t, const kiln_tuned_choice *c, const uint8_t *values) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < t->input_count; i++) {
    int away = (int)c->values[i] - values[i];
    if (c->values[i] == KILN_TUNED_ANY || !away) continue;
    if (t->inputs[i].kind != KILN_TUNED_BIN) return UINT32_MAX;
    sum += (uint32_t)(away * away);
  }
  return sum;
}

typedef struct config_set {
  uint8_t bits[KILN_MOST_CODES / 8];
} config_set;

// The nearest choice whose config is not in `tried`, of equally near ones the first; the count of choices
// when none is near.
static uint32_t next_nearest(const kiln_tuned *t, const uint8_t *values, const config_set *tried) {
  uint32_t best = t->choice_count, least = t->is_exact ? 1 : KILN_TUNED_NEAR + 1;
  for (uint32_t i = 0; i < t->choice_count; i++) {
    uint32_t config = t->choices[i].config, d = distance(t, &t->choices[i], values);
    if (d < least && !(tried->bits[config / 8] >> config % 8 & 1)) best = i, least = d;
  }
  return best;
}

static void search(const kiln_tuned *t, const uint8_t *values, bool (*each)(void *context, uint32_t choice),
                   void *context) {
  config_set tried;
  memset(&tried, 0, sizeof tried); // an initialiser would be 8 KiB of zeros in the file, to copy from
  for (;;) {
    uint32_t choice = next_nearest(t, values, &tried);
    if (choice == t->choice_count || each(context, choice)) return;
    tried.bits[t->choices[choice].config / 8] |= (uint8_t)(1u << t->choices[choice].config % 8);
  }
}

typedef struct filling {
  uint32_t found[KILN_TUNED_NEAREST], count;
  bool has_more;
} filling;

static bool note_nearest(void *context, uint32_t choice) {
  filling *f = context;
  if (f->count == KILN_TUNED_NEAREST) return f->has_more = true;
  f->found[f->count++] = choice;
  return false;
}

static void values_of(const kiln_tuned *t, const uint8_t *block, uint8_t *values) {
  for (uint32_t i = 0; i < t->input_count; i++) values[i] = (uint8_t)kiln_tuned_value(&t->inputs[i], block);
}

static uint64_t outside(const kiln_tuned *t, const uint8_t *block) {
  uint8_t values[KILN_TUNED_MOST_AXES];
  values_of(t, block, values);
  kiln_recorder_note(t, values, block);
  return 0;
}

static uint64_t fill(const kiln_tuned *t, const uint8_t *block, uint64_t number) {
  uint8_t values[KILN_TUNED_MOST_AXES];
  filling f = {.count = 0};
  uint64_t cell = KILN_TUNED_FILLED;
  values_of(t, block, values);
  search(t, values, note_nearest, &f);
  for (uint32_t i = 0; i < f.count; i++) cell |= ((uint64_t)t->choices[f.found[i]].config + 1) << 16 * i;
  if (f.has_more) cell |= KILN_TUNED_MORE;
  if (f.count && !distance(t, &t->choices[f.found[0]], values)) cell |= KILN_TUNED_EXACT;
  else if (t->recorder) kiln_recorder_note(t, values, block);
  if (t->cell_count) atomic_store_explicit(&t->cells[number], cell, memory_order_relaxed);
  return cell;
}

// ------------------------------------------------------------------------------------------ kernels

static void add_input(kiln_kernel *k, kiln_tuned_axis_kind kind, const char *format, const char *name,
                      unsigned number) {
  char text[300];
  int length = snprintf(text, sizeof text, format, name, number);
  if (length > 0 && length < (int)sizeof text)
    find_input(k->tuned, &k->interface, &(kiln_tuned_axis){.kind = kind, .name = text});
}

// Without choices: what `kiln tune` tells shapes apart by where no @key says less. No value is measured.
static void add_all_inputs(kiln_kernel *k) {
  for (uint32_t i = 0; i < k->interface.param_count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    bool is_integer = !p->pointer && !p->view_rank && kiln_scalars[p->scalar].type_class & KILN_CLASS_INT;
    if (is_integer) add_input(k, KILN_TUNED_BIN, "%s", p->name, 0);
    if (is_integer && (!p->div || p->div % KILN_TUNED_ALIGNMENT))
      add_input(k, KILN_TUNED_ALIGNED, "%s", p->name, 0);
    for (unsigned axis = 0; axis < p->view_rank; axis++) {
      add_input(k, KILN_TUNED_BIN, "%s.extent%u", p->name, axis);
      add_input(k, KILN_TUNED_STRIDE, "%s.%u", p->name, axis);
    }
  }
  for (uint32_t i = 0; i < k->tuned->input_count; i++) k->tuned->inputs[i].radix = 0;
}

static kiln_status attach_recorder(kiln_kernel *k, kiln_error *err) {
  kiln_recorder *recorder = kiln_recorder_of(k);
  if (recorder && !k->tuned) {
    k->tuned = KILN_NEW(k->arena, kiln_tuned);
    if (!k->tuned) return kiln_kernel_no_memory(k, err);
    add_all_inputs(k);
  }
  if (recorder) k->tuned->recorder = recorder, k->memo = NULL; // it sees every launch
  return KILN_OK;
}

// The choices of the first bundle that has some for the kernel here.
static kiln_status attach_choices(kiln_kernel *k, kiln_error *err) {
  char key[KILN_TUNED_NOTE];
  const kiln_library *l = k->device->library;
  if (!kiln_tuned_note_key(k->interface.name, key)) return KILN_OK;
  for (size_t i = 0; i < l->bundle_count; i++) {
    size_t size;
    const char *note = kiln_bundle_note(l->bundles[i], key, &size);
    if (!note) continue;
    kiln_tuned *t = k->tuned = KILN_NEW(k->arena, kiln_tuned);
    if (!t) return kiln_kernel_no_memory(k, err);
    t->bundle = l->bundles[i];
    t->note = note;
    t->is_exact = k->has_costs;
    kiln_status status = take_note(k, size, err);
    if (status == KILN_OK) return KILN_OK;
    k->tuned = NULL;
    if (status != KILN_STATUS_NOT_FOUND) return status;
  }
  return KILN_OK;
}

kiln_status kiln_more_tuned_attach(kiln_kernel *k, kiln_error *err) {
  KILN_TRY(attach_choices(k, err));
  KILN_TRY(attach_recorder(k, err));
  if (k->tuned) {
    k->tuned->values = values_of;
    k->tuned->outside = outside;
    k->tuned->fill = fill;
    k->tuned->search = search;
  }
  for (uint32_t i = 0; k->tuned && i < k->tuned->input_count; i++) {
    const kiln_tuned_input *in = &k->tuned->inputs[i];
    k->is_read[in->param] = true;
    if (k->memo)
      kiln_memo_note(k->memo, in->offset, in->size,
                     in->kind == KILN_TUNED_ALIGNED ? KILN_TUNED_ALIGNMENT - 1 : UINT64_MAX);
  }
  return KILN_OK;
}
