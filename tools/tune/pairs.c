// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairs kernels with the shapes that they are to be measured with.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/common/tuned_file.h"
#include "tools/tune/recorded_shapes.h"
#include "tools/tune/session.h"

enum { MOST_SHAPES_FILE = 16 << 20 };

const char *tune_note_of(const bundle_view *v, const char *prefix, const char *name) {
  char key[5000];
  snprintf(key, sizeof key, "%s%.4096s", prefix, name);
  for (uint32_t i = 0; i < v->note_count; i++)
    if (!strcmp(v->notes[i].key, key)) return v->notes[i].value;
  return NULL;
}

// ------------------------------------------------------------------------------------------- pairs

static bool is_called(const char *kernel, const char *wanted) {
  size_t plain = strcspn(kernel, "[");
  return !strcmp(kernel, wanted) || (strlen(wanted) == plain && !memcmp(kernel, wanted, plain));
}

// 4096 for "x=random:4096:1".
static uint64_t elements_of(const tune_shape *shape) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < shape->argument_count; i++) {
    const char *colon = strchr(shape->arguments[i], ':');
    if (colon) sum += strtoull(colon + 1, NULL, 0);
  }
  return sum;
}

// Orders by kernel, since a device keeps the configs of one kernel loaded, and then the largest first, so
// that several devices end at about the same time.
static int by_size(const void *a, const void *b) {
  const tune_pair *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->elements != y->elements) return x->elements > y->elements ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static kiln_status add_pairs(tuner *t, const tune_shape *shape, kiln_error *err) {
  uint32_t before = t->pair_count;
  for (uint32_t k = 0; k < t->view.kernel_count; k++) {
    if (!is_called(t->view.kernels[k].name, shape->kernel)) continue;
    t->pairs = realloc(t->pairs, (t->pair_count + 1) * sizeof *t->pairs);
    if (!t->pairs) abort();
    uint32_t same = 0;
    while (same < t->pair_count && t->pairs[same].kernel != &t->view.kernels[k]) same++;
    t->pairs[t->pair_count] = (tune_pair){.kernel = &t->view.kernels[k],
                                          .shape = shape,
                                          .elements = elements_of(shape),
                                          .group = same < t->pair_count ? t->pairs[same].group : same,
                                          .number = t->pair_count};
    t->pair_count++;
  }
  if (t->pair_count > before) return KILN_OK;
  if (t->s->record) { // an application launches kernels of other bundles, too
    fprintf(stderr, "kiln: note: %s:%u: %s has no kernel '%s': left out\n", t->shapes_path, shape->line,
            t->bundle_path, shape->kernel);
    return KILN_OK;
  }
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s:%u: %s has no kernel '%s'; `kiln inspect` lists them",
                   t->shapes_path, shape->line, t->bundle_path, shape->kernel);
}

// The text of the shapes: of --shapes, of --record combined with it, or of the job.
kiln_status tune_shapes_text(const tune_settings *s, kiln_buffer *out, kiln_error *err) {
  kiln_buffer given = {0}, record = {0};
  if (s->job) {
    kiln_buffer_bytes(out, s->job->shapes.bytes, s->job->shapes.size);
    return KILN_OK;
  }
  kiln_status status = s->shapes ? cli_read_file(s->shapes, "", MOST_SHAPES_FILE, &given, err) : KILN_OK;
  if (status == KILN_OK && s->record) {
    status = cli_read_file(s->record, "", MOST_SHAPES_FILE, &record, err);
    tune_recorded_join((const char *)record.bytes, record.size, (const char *)given.bytes, given.size, out);
  } else if (status == KILN_OK) {
    kiln_buffer_bytes(out, given.bytes, given.size);
  }
  kiln_buffer_deinit(&given);
  kiln_buffer_deinit(&record);
  return status;
}

static const char *shapes_path(const tune_settings *s) {
  return s->job ? s->job->name : s->record ? s->record : s->shapes;
}

/// An error in the text is also printed with its line.
static kiln_status read_shapes(const tune_settings *s, kiln_arena *arena, tune_shape **out,
                               uint32_t *out_count, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_tuned_place place = {0};
  kiln_status status = tune_shapes_text(s, &text, err);
  if (status == KILN_OK)
    status = tune_shapes_read(arena, shapes_path(s), (const char *)text.bytes, text.size, out, out_count,
                              &place, err);
  if (status != KILN_OK && place.line) tuned_file_point((const char *)text.bytes, text.size, place);
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status tune_shapes_check(const tune_settings *s, kiln_error *err) {
  kiln_arena *arena = kiln_arena_create();
  tune_shape *shapes;
  uint32_t count = 0;
  kiln_status status = read_shapes(s, arena, &shapes, &count, err);
  kiln_arena_destroy(arena);
  return status;
}

kiln_status tune_pairs_read(tuner *t, kiln_error *err) {
  t->shapes_path = shapes_path(t->s);
  kiln_status status = read_shapes(t->s, t->arena, &t->shapes, &t->shape_count, err);
  for (uint32_t i = 0; i < t->shape_count && status == KILN_OK; i++)
    if (!t->s->only || !strcmp(t->s->only, t->shapes[i].kernel)) status = add_pairs(t, &t->shapes[i], err);
  if (status == KILN_OK && !t->pair_count)
    status = kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s has no shape", t->shapes_path);
  if (status == KILN_OK && strchr(t->s->devices, ','))
    qsort(t->pairs, t->pair_count, sizeof *t->pairs, by_size);
  return status;
}

// --------------------------------------------------------------------------------------- arguments

static kiln_status no_argument(const tuner *t, const tune_pair *j, const char *text, kiln_error *err) {
  kiln_buffer names = {0};
  for (uint32_t i = 0; i < j->kernel->interface.param_count; i++)
    kiln_buffer_format(&names, "%s%s", i ? ", " : "", j->kernel->interface.params[i].name);
  kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s:%u: '%s': kernel %s has the parameters %.*s",
            t->shapes_path, j->shape->line, text, j->kernel->name, (int)names.size,
            (const char *)names.bytes);
  kiln_buffer_deinit(&names);
  return KILN_STATUS_INVALID_ARGUMENT;
}

kiln_status tune_pair_values(const tuner *t, const tune_pair *j, tune_subject *s, kiln_error *err) {
  kiln_kernel *kernel;
  KILN_TRY(kiln_kernel_get(t->null_device, j->kernel->name, NULL, &kernel, err));
  s->values = calloc(kiln_param_count(kernel) + 1, sizeof *s->values);
  if (!s->values) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (; s->count < kiln_param_count(kernel); s->count++) {
    kiln_param param;
    KILN_TRY(kiln_param_at(kernel, s->count, &param));
    KILN_TRY(run_value_begin(&s->values[s->count], &param, err));
  }
  if (t->recorded) return tune_case_values(t, j, s, err);
  for (uint32_t i = 0; i < j->shape->argument_count; i++) {
    const char *text = j->shape->arguments[i], *equals = strchr(text, '=');
    run_value *v = NULL;
    for (size_t k = 0; k < s->count && !v; k++) {
      const char *name = s->values[k].param.name;
      KILN_ASSERT(name);
      if (strlen(name) == (size_t)(equals - text) && !memcmp(name, text, (size_t)(equals - text)))
        v = &s->values[k];
    }
    if (!v) return no_argument(t, j, text, err);
    kiln_status status = run_value_set(v, equals + 1, err);
    if (status != KILN_OK) return kiln_context(err, status, "%s:%u", t->shapes_path, j->shape->line);
  }
  for (size_t i = 0; i < s->count; i++)
    if (!s->values[i].is_set)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s:%u: argument '%s' (%s) of %s is missing%s",
                       t->shapes_path, j->shape->line, s->values[i].param.name, s->values[i].param.type,
                       j->kernel->name,
                       t->s->record ? "; a line of --shapes says what buffers of a kernel hold" : "");
  return KILN_OK;
}
