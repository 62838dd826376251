// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln merge, split, prune: makes bundles from bundles.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launches.h"
#include "base/plural.h"
#include "base/sizes.h"
#include "tools/bundle/view.h"
#include "tools/bundle/suggest.h"
#include "tools/bundle/dictionary_family.h"
#include "tools/bundle/resign.h"
#include "tools/kiln-tool/commands.h"
#include "tools/bundle/json.h"
#include "tools/common/dictionary.h"

typedef struct combine_settings {
  const char *out, *dictionary;
  kiln_bundle_dictionary which;
  int64_t level, max_size;
  cli_list words, targets, kernels;
  bool *met_targets, *met_kernels; ///< owned: for each listed one, some bundle has it
  char (*names)[KILN_TARGET_NAME]; ///< owned: of the targets, as bundles have them
  bool json;
  resign signature;
} combine_settings;

/// The rows of the options that all three have, for a page.
#define COMBINE_OPTIONS(s)                                                                         \
  {"out", 'o', CLI_OUTPUT, &(s)->out, "FILE", "the bundle to write"},                              \
      {"level", 0, CLI_NUMBER, &(s)->level, "N", "zstd level, 1 to 19 (3)"},                       \
      {"dictionary", 0, CLI_TEXT, &(s)->dictionary, "WHICH", "auto, none, small or large (auto)"}, \
      RESIGN_OPTIONS(&(s)->signature), {                                                           \
    "json", 0, CLI_FLAG, &(s)->json, NULL, "print the sums as JSON"                                \
  }

/// Whether `text` is among the first `count` listed names; notes that it was found.
static bool is_listed(const cli_list *list, bool *met, size_t count, const char *text) {
  for (size_t i = 0; i < list->count; i++)
    if (!strcmp(list->items[i], text)) return met[i] = true, i < count;
  return false;
}

/// The context of a filter: the settings, and how many of the listed targets are dropped (prune).
typedef struct filter_context {
  const combine_settings *settings;
  size_t dropped_targets;
} filter_context;

static bool keep_listed(void *context, const view_kernel *k, const view_code *c) {
  const filter_context *f = context;
  (void)k;
  return is_listed(&f->settings->targets, f->settings->met_targets, SIZE_MAX, c->target);
}

static bool drop_listed(void *context, const view_kernel *k, const view_code *c) {
  const filter_context *f = context;
  const combine_settings *s = f->settings;
  bool drop_kernel = is_listed(&s->kernels, s->met_kernels, SIZE_MAX, k->name),
       drop_target = is_listed(&s->targets, s->met_targets, f->dropped_targets, c->target);
  return !drop_kernel && !drop_target;
}

static const char *shape_of(const kiln_param_record *p) {
  return p->view_rank ? "view " : p->pointer == 2 ? "**" : p->pointer ? "*" : "";
}

static void say_params(kiln_buffer *out, const kiln_param_record *a, const kiln_param_record *b) {
  if (strcmp(a->name, b->name))
    kiln_buffer_format(out, "a parameter '%s' here and '%s' there", a->name, b->name);
  else if (a->scalar != b->scalar || a->pointer != b->pointer || a->view_rank != b->view_rank)
    kiln_buffer_format(out, "parameter '%s' is %s%s here and %s%s there", a->name, shape_of(a),
                       kiln_scalars[a->scalar].spelling, shape_of(b), kiln_scalars[b->scalar].spelling);
  else if (a->access != b->access || a->align != b->align || a->rows != b->rows || a->div != b->div ||
           a->has_range != b->has_range || a->lo != b->lo || a->hi != b->hi)
    kiln_buffer_format(out, "parameter '%s' has another access mode or other facts", a->name);
}

/// The first difference between two interfaces whose records differ. The caller deinits `out`.
static void say_difference(kiln_buffer *out, const kiln_interface *a, const kiln_interface *b) {
  if (a->param_count != b->param_count)
    kiln_buffer_format(out, "%u parameter%s here and %u there", a->param_count, kiln_plural(a->param_count),
                       b->param_count);
  for (uint32_t i = 0; i < a->param_count && !out->size; i++) say_params(out, &a->params[i], &b->params[i]);
  if (!out->size && a->config_count != b->config_count)
    kiln_buffer_format(out, "%u config%s here and %u there", a->config_count, kiln_plural(a->config_count),
                       b->config_count);
  for (uint32_t i = 0; i < a->config_count && !out->size; i++)
    if (strcmp(a->configs[i].text, b->configs[i].text))
      kiln_buffer_format(out, "a config '%s' here and '%s' there", a->configs[i].text, b->configs[i].text);
  if (!out->size && a->variant_count != b->variant_count)
    kiln_buffer_format(out, "%u variant%s here and %u there", a->variant_count, kiln_plural(a->variant_count),
                       b->variant_count);
  if (!out->size) kiln_buffer_format(out, "the same parameters and configs; something else of it differs");
}

static const view_kernel *with_code(const bundle_view *v, const char *name) {
  for (uint32_t i = 0; i < v->kernel_count; i++)
    if (v->kernels[i].code_count && !strcmp(v->kernels[i].name, name)) return &v->kernels[i];
  return NULL;
}

static const char *note_of(const bundle_view *v, const char *prefix, const char *kernel) {
  size_t length = strlen(prefix);
  for (uint32_t i = 0; i < v->note_count; i++)
    if (!strncmp(v->notes[i].key, prefix, length) && !strcmp(v->notes[i].key + length, kernel))
      return v->notes[i].value;
  return NULL;
}

// The first line of `text` that is not in `other`: the name of a parameter, the code of its size, its text.
static const char *line_apart(const char *text, const char *other) {
  for (size_t length; *text; text += length + (text[length] == '\n')) {
    length = strcspn(text, "\n");
    const char *at = other;
    while (*at && (strncmp(at, text, length) || (at[length] && at[length] != '\n')))
      at += strcspn(at, "\n"), at += *at == '\n';
    if (!*at) break;
  }
  return text;
}

static void say_size(kiln_buffer *out, const char *line, const char *where) {
  const char *code = line + strcspn(line, " \n"), *text = code + (*code == ' ');
  text += strcspn(text, " \n");
  text += *text == ' ';
  if (*line)
    kiln_buffer_format(out, "'%.*s' needs %.*s elements %s", (int)(code - line), line,
                       (int)strcspn(text, "\n"), text, where);
  else kiln_buffer_format(out, "fewer are stated %s", where);
}

// Whether both bundles state sizes, or launches, of a kernel, and not the same. Both have code of it.
static bool refuse_notes(const bundle_view *earlier, const char *earlier_path, const bundle_view *later,
                         const char *path, const char *name, kiln_error *err) {
  const char *sizes = note_of(later, KILN_SIZES_PREFIX, name),
             *old_sizes = note_of(earlier, KILN_SIZES_PREFIX, name);
  const char *launches = note_of(later, KILN_LAUNCHES_PREFIX, name),
             *old_launches = note_of(earlier, KILN_LAUNCHES_PREFIX, name);
  kiln_buffer text = {0};
  if (sizes && old_sizes && strcmp(sizes, old_sizes) != 0) {
    kiln_buffer_format(&text, "other sizes of buffers (@size) in %s: ", earlier_path);
    say_size(&text, line_apart(sizes, old_sizes), "here");
    kiln_buffer_format(&text, ", ");
    say_size(&text, line_apart(old_sizes, sizes), "there");
  } else if (launches && old_launches && strcmp(launches, old_launches) != 0) {
    kiln_buffer_format(&text, "other launches in its place in %s", earlier_path);
  }
  bool found = text.size;
  if (found)
    kiln_fail(err, KILN_STATUS_EXISTS,
              "%s: '%s' has %.*s; one bundle cannot have both (`kiln prune --drop-kernel` leaves one out)",
              path, name, (int)text.size, (const char *)text.bytes);
  kiln_buffer_deinit(&text);
  return found;
}

// Whether a kernel of `later` has another interface, other sizes or launches in `earlier`; the error then says so.
static bool refuse_interfaces(const bundle_view *earlier, const char *earlier_path, const bundle_view *later,
                              const char *path, kiln_error *err) {
  for (uint32_t i = 0; i < later->kernel_count; i++) {
    const view_kernel *b = &later->kernels[i], *a = with_code(earlier, b->name);
    if (!b->code_count || !a) continue;
    if (a->record_size == b->record_size && !memcmp(a->record, b->record, a->record_size)) {
      if (refuse_notes(earlier, earlier_path, later, path, b->name, err)) return true;
      continue;
    }
    kiln_buffer text = {0};
    say_difference(&text, &b->interface, &a->interface);
    kiln_fail(err, KILN_STATUS_EXISTS,
              "%s: '%s' has another interface in %s: %.*s; one bundle cannot have both (`kiln prune "
              "--drop-kernel` leaves one out)",
              path, b->name, earlier_path, (int)text.size, (const char *)text.bytes);
    kiln_buffer_deinit(&text);
    return true;
  }
  return false;
}

// The writer knows no files: looks which of the bundles before number `index` has the other interface.
static void explain_conflict(const combine_settings *s, size_t index, const bundle_view *later,
                             kiln_error *err) {
  bool found = false;
  for (size_t i = 0; i < index && !found; i++) {
    bundle_view v;
    kiln_error ignored;
    if (bundle_view_open(s->words.items[i], &v, &ignored) != KILN_OK) continue;
    found = refuse_interfaces(&v, s->words.items[i], later, s->words.items[index], err);
    bundle_view_close(&v);
  }
}

// Adds one bundle. If the result will be signed, the whole bundle and its signature are checked first.
static kiln_status add_bundle(combine_settings *s, size_t index, kiln_bundle_writer *w, bundle_filter *filter,
                              filter_context *context, kiln_error *err) {
  const char *path = s->words.items[index];
  bundle_view v;
  kiln_buffer file = {0};
  resign *r = &s->signature;
  kiln_status status = r->key ? bundle_view_read(path, &file, err) : KILN_OK;
  if (status == KILN_OK)
    status = r->key ? bundle_view_open_bytes(path, file.bytes, file.size, &v, err)
                    : bundle_view_open(path, &v, err);
  if (status == KILN_OK) {
    if (r->key)
      status = bundle_check(&v, &file, (const uint8_t(*)[KEY_FILE_PUBLIC])r->keys, r->key_count, err);
    if (status != KILN_OK) kiln_context(err, status, "--sign");
    resign_note_input(r, path, v.bundle->header, &v.statement);
    if (status == KILN_OK) {
      status = bundle_view_copy(&v, w, filter, context, true, err);
      if (status == KILN_STATUS_EXISTS) explain_conflict(s, index, &v, err);
    }
    bundle_view_close(&v);
  }
  kiln_buffer_deinit(&file);
  return status;
}

// Builds one bundle from all bundles of the command line; the caller owns `*out`.
static kiln_status combine(combine_settings *s, bundle_filter *filter, filter_context *context,
                           kiln_buffer *out, kiln_bundle_sums *sums, kiln_error *err) {
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_bundle_options options = {.level = (int)s->level, .dictionary = s->which, .threads = 4};
  kiln_status status = w ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  resign_begin(&s->signature);
  for (size_t i = 0; i < s->words.count && status == KILN_OK; i++)
    status = add_bundle(s, i, w, filter, context, err);
  if (status == KILN_OK) status = kiln_bundle_writer_build(w, &options, out, sums, err);
  kiln_bundle_writer_destroy(w);
  return status;
}

// A listed name that no bundle has is an error.
static kiln_status refuse_listed(const combine_settings *s, const char *kernel, const char *target,
                                 kiln_error *err) {
  bundle_view v;
  KILN_TRY(bundle_view_open(s->words.items[0], &v, err));
  name_suggestion guess = kernel ? suggest_kernel(&v, kernel) : suggest_target(&v, target);
  bundle_view_close(&v);
  if (kernel)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s has no code of a kernel '%s'%s", s->words.items[0],
                     kernel, *guess.text ? guess.text : " (`kiln inspect` lists its kernels)");
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s has no code for %s%s", s->words.items[0], target,
                   *guess.text ? guess.text : " (`kiln stat` lists its targets)");
}

static kiln_status need_listed(const combine_settings *s, kiln_error *err) {
  for (size_t i = 0; i < s->targets.count; i++)
    if (!s->met_targets[i]) return refuse_listed(s, NULL, s->targets.items[i], err);
  for (size_t i = 0; i < s->kernels.count; i++)
    if (!s->met_kernels[i]) return refuse_listed(s, s->kernels.items[i], NULL, err);
  return KILN_OK;
}

/// `dropped`: how many of the listed targets prune left out.
static void print_sums(const combine_settings *s, const kiln_bundle_sums *sums, size_t dropped) {
  if (!s->json) {
    printf("%s: %u kernel%s, %u code%s, %llu bytes%s\n", s->out, sums->kernels, kiln_plural(sums->kernels),
           sums->codes, kiln_plural(sums->codes), (unsigned long long)sums->file,
           dropped && s->max_size ? ", listed targets dropped to fit" : "");
    return;
  }
  kiln_buffer out = {0};
  kiln_buffer_format(&out, "{");
  json_member(&out, true, "bundle", s->out);
  kiln_buffer_format(&out, ", \"kernels\": %u, \"codes\": %u, \"bytes\": %llu", sums->kernels, sums->codes,
                     (unsigned long long)sums->file);
  if (s->max_size) {
    kiln_buffer_format(&out, ", \"dropped_targets\": [");
    for (size_t i = 0; i < dropped; i++) {
      kiln_buffer_format(&out, "%s", i ? ", " : "");
      cli_json_text(&out, s->targets.items[i]);
    }
    kiln_buffer_format(&out, "]");
  }
  kiln_buffer_format(&out, "}");
  json_print(&out);
}

static kiln_status write_combined(combine_settings *s, bundle_filter *filter, kiln_error *err) {
  kiln_buffer bytes = {0};
  kiln_bundle_sums sums;
  // Without a size every listed target is dropped; with one, no more than needed.
  filter_context context = {s, s->max_size ? 0 : s->targets.count};
  kiln_status status = combine(s, filter, &context, &bytes, &sums, err);
  if (status == KILN_OK) status = need_listed(s, err);
  while (status == KILN_OK && s->max_size && sums.file > (uint64_t)s->max_size &&
         context.dropped_targets < s->targets.count) {
    context.dropped_targets++;
    status = combine(s, filter, &context, &bytes, &sums, err);
  }
  if (status == KILN_OK && s->max_size && sums.file > (uint64_t)s->max_size)
    status =
        kiln_fail(err, KILN_STATUS_LIMIT, "%s would have %llu bytes%s; --max-size allows %lld%s", s->out,
                  (unsigned long long)sums.file, s->targets.count ? " with all listed targets dropped" : "",
                  (long long)s->max_size, s->targets.count ? "" : ", and --drop-target says what may go");
  if (status == KILN_OK && !sums.codes)
    status = kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s would have no code", s->out);
  if (status == KILN_OK) status = resign_finish(&s->signature, s->out, &bytes, err);
  if (status == KILN_OK) status = cli_write_file(s->out, bytes.bytes, bytes.size, err);
  if (status == KILN_OK) resign_report(&s->signature, s->out);
  if (status == KILN_OK) print_sums(s, &sums, s->max_size ? context.dropped_targets : s->targets.count);
  kiln_buffer_deinit(&bytes);
  return status;
}

// Allocates the notes about listed names, and translates targets to the names that bundles use.
static kiln_status prepare(combine_settings *s, kiln_error *err) {
  s->met_targets = calloc(s->targets.count + 1, 1);
  s->met_kernels = calloc(s->kernels.count + 1, 1);
  s->names = calloc(s->targets.count + 1, sizeof *s->names);
  if (!s->met_targets || !s->met_kernels || !s->names)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (size_t i = 0; i < s->targets.count; i++)
    s->targets.items[i] = bundle_target_name(s->targets.items[i], s->names[i]);
  return KILN_OK;
}

static int finish(const cli_page *page, int exit_code, combine_settings *s, size_t most_words,
                  bundle_filter *filter) {
  kiln_error err;
  if (exit_code == -1 && !s->out) exit_code = cli_usage(page, "--out is missing");
  if (exit_code == -1 && (!s->words.count || s->words.count > most_words))
    exit_code = cli_usage(page, "expected %s, found %zu words", most_words == 1 ? "one bundle" : "bundles",
                          s->words.count);
  if (exit_code == -1 && (s->level < 1 || s->level > 19))
    exit_code = cli_usage(page, "--level: expected 1 to 19, found %lld", (long long)s->level);
  if (exit_code == -1 && s->dictionary && !dictionary_parse(s->dictionary, &s->which))
    exit_code =
        cli_usage(page, "--dictionary: expected auto, none, small or large, found '%s'", s->dictionary);
  if (exit_code == -1) {
    kiln_status status = resign_open(&s->signature, &err);
    if (status == KILN_OK) status = prepare(s, &err);
    if (status == KILN_OK) status = write_combined(s, filter, &err);
    free(s->met_targets);
    free(s->met_kernels);
    free(s->names);
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  cli_list_deinit(&s->words);
  cli_list_deinit(&s->targets);
  cli_list_deinit(&s->kernels);
  resign_deinit(&s->signature);
  return exit_code;
}

int kiln_command_merge(int argc, char **argv) {
  combine_settings s = {.level = 3};
  const cli_option options[] = {COMBINE_OPTIONS(&s)};
  const cli_page page =
      CLI_PAGE("kiln merge -o FILE BUNDLE...",
               "Merges bundles into one. Where two have the same kernel, config, variant "
               "and target, the earlier one wins. "
               "A kernel must have the same interface, sizes of buffers and launches in all "
               "of them.",
               options);
  return finish(&page, cli_parse(&page, argc, argv, &s.words), &s, SIZE_MAX, NULL);
}

int kiln_command_split(int argc, char **argv) {
  combine_settings s = {.level = 3};
  const cli_option options[] = {
      COMBINE_OPTIONS(&s),
      {"arch", 0, CLI_LIST, &s.targets, "TARGET", "take codes for this target; may be repeated"}};
  const cli_page page = CLI_PAGE(
      "kiln split --arch=TARGET... -o FILE BUNDLE",
      "Takes the codes for some targets out of a bundle. A target that it has no code for is an error.",
      options);
  int exit_code = cli_parse(&page, argc, argv, &s.words);
  if (exit_code == -1 && !s.targets.count) exit_code = cli_usage(&page, "--arch is missing");
  return finish(&page, exit_code, &s, 1, keep_listed);
}

int kiln_command_prune(int argc, char **argv) {
  combine_settings s = {.level = 3};
  const cli_option options[] = {
      COMBINE_OPTIONS(&s),
      {"drop-target", 0, CLI_LIST, &s.targets, "TARGET", "drop codes for this target; may be repeated"},
      {"drop-kernel", 0, CLI_LIST, &s.kernels, "NAME", "drop this kernel; may be repeated"},
      {"max-size", 0, CLI_NUMBER, &s.max_size, "BYTES",
       "drop targets in the order given, only until the file fits"}};
  const cli_page page = CLI_PAGE(
      "kiln prune [--drop-target=TARGET...] [--drop-kernel=NAME...] [--max-size=BYTES] -o FILE BUNDLE",
      "Makes a bundle smaller.", options);
  return finish(&page, cli_parse(&page, argc, argv, &s.words), &s, 1, drop_listed);
}
