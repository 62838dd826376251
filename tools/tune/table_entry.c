// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes what a measurement is for, as a line of a table: kernel, bins and facts of the arguments,
// device.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/common/code_metrics.h"
#include "tools/tune/session.h"

enum { ALIGNED = KILN_TUNED_ALIGNMENT };

static bool is_integer(const kiln_param_record *p) {
  return !p->pointer && !p->view_rank && kiln_scalars[p->scalar].type_class & KILN_CLASS_INT;
}

static bool is_listed(const char *names, const char *name) {
  size_t length = strlen(name);
  for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && !memcmp(at, name, length)) return true;
  return false;
}

static int64_t word_of(const run_value *v, unsigned word) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < 8; i++) bits |= (uint64_t)v->packed[8 * word + i] << 8 * i;
  return (int64_t)bits;
}

static int64_t integer_of(const run_value *v) {
  unsigned shift = 64 - 8 * kiln_scalars[v->scalar].bytes;
  return (int64_t)((uint64_t)word_of(v, 0) << shift) >> shift;
}

static void add_axis(const tuner *t, kiln_tuned_entry *e, kiln_tuned_axis_kind kind, const char *name,
                     uint8_t value) {
  kiln_tuned_add_axis(e, (kiln_tuned_axis){kind, kiln_arena_text(t->arena, name, strlen(name)), value});
}

static void add_integer(const tuner *t, kiln_tuned_entry *e, const kiln_param_record *p, const run_value *v) {
  int64_t number = integer_of(v);
  add_axis(t, e, KILN_TUNED_BIN, p->name, kiln_tuned_bin(number));
  if (!p->div || p->div % ALIGNED) add_axis(t, e, KILN_TUNED_ALIGNED, p->name, number % ALIGNED == 0);
}

static void add_view(const tuner *t, kiln_tuned_entry *e, const kiln_param_record *p, const run_value *v) {
  char name[300];
  for (unsigned axis = 0; axis < p->view_rank; axis++) {
    int64_t stride = word_of(v, 1 + p->view_rank + axis);
    snprintf(name, sizeof name, "%.200s.extent%u", p->name, axis);
    add_axis(t, e, KILN_TUNED_BIN, name, kiln_tuned_bin(word_of(v, 1 + axis)));
    snprintf(name, sizeof name, "%.200s.%u", p->name, axis);
    add_axis(t, e, KILN_TUNED_STRIDE, name, (uint64_t)stride < 2 ? (uint8_t)stride : 2);
  }
}

// What the choice depends on: `@key`, or else every integer; views; alignments that are not promised.
// Measured buffers are aligned.
static void add_axes(const tuner *t, const tune_subject *s, kiln_tuned_entry *e) {
  const char *key = tune_note_of(&t->view, "tuning key ", s->interface->name);
  for (size_t i = 0; i < s->count; i++) {
    const kiln_param_record *p = &s->interface->params[i];
    if (is_integer(p) && (!key || is_listed(key, p->name))) add_integer(t, e, p, &s->values[i]);
    if (p->view_rank) add_view(t, e, p, &s->values[i]);
    if (kiln_param_is_address(p) && p->align < ALIGNED) add_axis(t, e, KILN_TUNED_ALIGNED, p->name, 1);
  }
}

static const char *number_text(const tuner *t, uint64_t number) {
  return kiln_arena_format(t->arena, "%llu", (unsigned long long)number);
}

// Makes one line of a name that the driver gave.
static const char *single_line(const tuner *t, const char *text) {
  char *copy = kiln_arena_text(t->arena, text, strlen(text));
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
  return copy;
}

kiln_tuned_entry *tune_entry_make(const tuner *t, const tune_subject *s) {
  kiln_buffer types = {0};
  kiln_tuned_entry *e = KILN_NEW(t->arena, kiln_tuned_entry);
  kiln_interface_types(s->interface, &types);
  e->texts[KILN_TUNED_KERNEL] = s->interface->name;
  e->texts[KILN_TUNED_TYPES] = kiln_arena_text(t->arena, (const char *)types.bytes, types.size);
  e->texts[KILN_TUNED_PRODUCT] = single_line(t, t->where.product);
  e->texts[KILN_TUNED_PROCESSOR] = single_line(t, t->where.processor);
  e->texts[KILN_TUNED_UNITS] = number_text(t, t->where.units);
  e->numbers[KILN_TUNED_UNITS] = t->where.units;
  e->texts[KILN_TUNED_TOOLCHAIN] = t->toolchain;
  kiln_buffer_deinit(&types);
  add_axes(t, s, e);
  return e;
}

const char *tune_entry_identity(const tuner *t, const kiln_tuned_entry *e) {
  kiln_buffer text = {0};
  kiln_tuned_write(e, KILN_TUNED_IDENTITY_ONLY, &text);
  const char *identity = kiln_arena_text(t->arena, (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
  return identity;
}

static void set_number(const tuner *t, kiln_tuned_entry *e, kiln_tuned_field field, double number) {
  e->numbers[field] = number > 0 ? (uint64_t)(number + 0.5) : 0;
  e->texts[field] = number_text(t, e->numbers[field]);
}

// Describes the code of the winner; unknown if it can no longer be read.
static void set_code(const tuner *t, kiln_tuned_entry *e, const view_code *code) {
  kiln_bytes bytes = {0};
  kiln_error unseen;
  if (!code || kiln_bundle_load(t->view.bundle, code->entry.blob, &bytes, &unseen) != KILN_OK) return;
  code_metrics figures = code_metrics_of(&code->info, bytes.bytes, bytes.size);
  code_metrics_write(&figures, t->arena, e);
  kiln_bytes_deinit(&bytes);
}

void tune_entry_fill(const tuner *t, kiln_tuned_entry *e, const tune_subject *s, const tune_contest *c) {
  char date[32];
  time_t now = time(NULL);
  struct tm utc;
  const kiln_config_record *configs = s->interface->configs;
  kiln_estimate best = kiln_samples_estimate(&c->contenders[c->winner].samples),
                usual = kiln_samples_estimate(&c->contenders[c->usual].samples);
  e->texts[KILN_TUNED_CONFIG] = configs[c->candidates[c->winner].config].text;
  set_code(t, e, c->candidates[c->winner].code);
  set_number(t, e, KILN_TUNED_NS, best.median);
  e->texts[KILN_TUNED_DEFAULT] = configs[c->candidates[c->usual].config].text;
  if (c->contenders[c->usual].samples.count) set_number(t, e, KILN_TUNED_DEFAULT_NS, usual.median);
  if (isfinite(best.high))
    set_number(t, e, KILN_TUNED_SPREAD, (best.high - best.low) / 2 / best.median * 1000);
  set_number(t, e, KILN_TUNED_SAMPLES, (double)c->contenders[c->winner].samples.count);
  e->texts[KILN_TUNED_JUDGE] = c->judge.by;
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  e->texts[KILN_TUNED_DATE] = kiln_arena_text(t->arena, date, strlen(date));
}
void tune_pair_title(const tune_pair *j, const tune_subject *s, char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "%s", j->kernel->name);
  for (size_t i = 0; i < s->count && used < capacity; i++)
    if (is_integer(&s->interface->params[i]))
      used += (size_t)snprintf(out + used, capacity - used, " %s=%lld", s->values[i].param.name,
                               (long long)integer_of(&s->values[i]));
}

// ------------------------------------------------------------------------------------------- hints

uint32_t tune_config_called(const kiln_interface *in, const char *text) {
  uint32_t c = 0;
  while (c < in->config_count && strcmp(in->configs[c].text, text)) c++;
  return c;
}

// The sum of squared differences in bins.
static uint32_t bins_apart(const kiln_tuned_entry *a, const kiln_tuned_entry *b) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < a->axis_count; i++)
    for (uint32_t j = 0; j < b->axis_count; j++)
      if (a->axes[i].kind == KILN_TUNED_BIN && b->axes[j].kind == KILN_TUNED_BIN &&
          !strcmp(a->axes[i].name, b->axes[j].name)) {
        int away = (int)a->axes[i].value - b->axes[j].value;
        sum += (uint32_t)(away * away);
      }
  return sum;
}

static void take_chosen(const tuner *t, const kiln_tuned_entry *e, const tune_subject *s, tune_hints *out) {
  const char *identity = tune_entry_identity(t, e);
  out->is_all = true;
  for (size_t i = 0; i < t->s->among.count; i++) {
    const kiln_tuner_row *row = kiln_tuner_table_find(&t->among[i], identity);
    if (row && out->count < TUNE_MOST_HINTS)
      out->configs[out->count++] = tune_config_called(s->interface, row->entry->texts[KILN_TUNED_CONFIG]);
  }
}

void tune_entry_hints(const tuner *t, const kiln_tuned_entry *e, const tune_subject *s, tune_hints *out) {
  uint32_t apart[TUNE_MOST_HINTS + 1] = {0};
  *out = (tune_hints){.units = t->where.units};
  if (t->s->among.count) {
    take_chosen(t, e, s, out);
    return;
  }
  for (uint32_t i = 0; i < t->known.count; i++) {
    const kiln_tuned_entry *other = t->known.rows[i].entry;
    uint32_t config = tune_config_called(s->interface, other->texts[KILN_TUNED_CONFIG]),
             d = bins_apart(e, other), at = 0;
    if (strcmp(other->texts[KILN_TUNED_KERNEL], e->texts[KILN_TUNED_KERNEL]) ||
        config == s->interface->config_count)
      continue;
    while (at < out->count && out->configs[at] != config) at++;
    if (at < out->count && apart[at] <= d) continue;
    if (at == out->count && out->count < TUNE_MOST_HINTS) out->count++;
    if (at == TUNE_MOST_HINTS && apart[--at] <= d) continue;
    for (; at && apart[at - 1] > d; at--) apart[at] = apart[at - 1], out->configs[at] = out->configs[at - 1];
    apart[at] = d, out->configs[at] = config;
  }
}
