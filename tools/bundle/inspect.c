// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln inspect, stat: prints what is in a bundle.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "base/launches.h"
#include "base/plural.h"
#include "tools/bundle/view.h"
#include "tools/bundle/suggest.h"
#include "tools/bundle/dictionary_family.h"
#include "tools/kiln-tool/commands.h"
#include "tools/bundle/json.h"

typedef unsigned long long ull;

/// Opens the one bundle of a command, runs `show`, closes it.
static int with_view(const char *path, int (*show)(const bundle_view *v, void *context), void *context) {
  bundle_view v;
  kiln_error err = {0};
  kiln_status status = bundle_view_open(path, &v, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  int exit_code = show(&v, context);
  bundle_view_close(&v);
  return exit_code;
}

// ----------------------------------------------------------------------------------------- inspect

typedef struct inspect_settings {
  const char *kernel, *target;
  bool codes, json;
  cli_list words;
} inspect_settings;

static void print_param(const kiln_param_record *p) {
  static const char *const accesses[] = {"", " in", " out", " inout", " accum"};
  const char *scalar = kiln_scalars[p->scalar].spelling;
  printf("    %s: %s%s%s", cli_name(p->name),
         p->view_rank      ? "view "
         : p->pointer == 2 ? "**"
         : p->pointer      ? "*"
                           : "",
         scalar, accesses[p->access]);
  if (p->view_rank) printf(" of rank %u", p->view_rank);
  if (p->align > 1) printf(" @align(%u)", p->align);
  if (p->rows) printf(" @rows(%u)", p->rows);
  if (p->div > 1) printf(" @div(%lld)", (long long)p->div);
  if (p->has_range) printf(" @range(%lld, %lld)", (long long)p->lo, (long long)p->hi);
  printf("  at %u, %u bytes\n", p->offset, p->size);
}

static void print_interface(const bundle_view *v, const kiln_interface *in) {
  const char **names = KILN_NEW_ARRAY(v->arena, const char *, in->param_count + 1);
  char text[400];
  for (uint32_t i = 0; i < in->param_count; i++) names[i] = in->params[i].name;
  printf("  symbol %s, abi %016llx, block of %u bytes\n", cli_name(in->symbol), (ull)kiln_interface_abi(in),
         in->block_bytes);
  for (uint32_t i = 0; i < in->param_count; i++) print_param(&in->params[i]);
  for (uint32_t c = 0; c < in->config_count; c++) {
    const kiln_config_record *config = &in->configs[c];
    printf("  config %u: %s  grid ", c, cli_name(config->text));
    if (!config->grid[0].size && !config->grid[1].size && !config->grid[2].size) {
      printf("given by the caller\n");
      continue;
    }
    for (unsigned axis = 0; axis < 3; axis++) {
      const kiln_span *g = &config->grid[axis];
      bool valid = kiln_expr_verify(g->bytes, g->size, in->param_count);
      printf("%s%s", axis ? ", " : "(",
             !g->size ? "1"
             : valid  ? kiln_expr_text(g->bytes, g->size, names, in->param_count, text, sizeof text)
                      : "?");
    }
    printf(")");
    const kiln_span *cost = &config->cost;
    if (cost->size && kiln_expr_verify(cost->bytes, cost->size, in->param_count))
      printf("  cost %s", kiln_expr_text(cost->bytes, cost->size, names, in->param_count, text, sizeof text));
    printf("\n");
  }
  for (uint32_t i = 0; i < in->variant_count; i++)
    printf("  variant %u: %s\n", i, *in->variants[i].text ? cli_name(in->variants[i].text) : "generic");
}

static const char *words_of(kiln_span code, const char *const *names, uint32_t count, char text[400]) {
  return kiln_expr_text(code.bytes, code.size, names, count, text, 400);
}

/// What runs in place of the kernel once it has scratch memory. Values are named v0, v1 and so on.
static void print_launches(const bundle_view *v, const view_kernel *k) {
  char key[sizeof KILN_LAUNCHES_PREFIX + KILN_BUNDLE_MAX_NAME], text[400];
  size_t size;
  kiln_interface in = k->interface;
  snprintf(key, sizeof key, KILN_LAUNCHES_NOTE, k->name);
  const char *note = kiln_bundle_note(v->bundle, key, &size);
  if (!note || !kiln_launches_decode(v->arena, note, &in)) return;
  const uint32_t first = in.param_count + 1, count = first + in.value_count;
  const char **names = KILN_NEW_ARRAY(v->arena, const char *, count);
  for (uint32_t i = 0; i < in.param_count; i++) names[i] = in.params[i].name;
  names[in.param_count] = "scratch";
  for (uint32_t i = 0; i < in.value_count; i++) names[first + i] = kiln_arena_format(v->arena, "v%u", i);
  printf("  in its place with scratch memory of %s bytes:\n", words_of(in.scratch, names, count, text));
  for (uint32_t i = 0; i < in.value_count; i++) {
    const kiln_launch_value *value = &in.values[i];
    printf("    v%u = %s", i, words_of(value->value, names, count, text));
    if (value->condition.size) printf("  if %s", words_of(value->condition, names, count, text));
    printf("\n");
  }
  for (uint32_t i = 0; i < in.launch_count; i++) {
    const kiln_launch_record *l = &in.launches[i];
    printf("    %s(", cli_name(l->kernel));
    for (uint32_t j = 0; j < l->arg_count; j++)
      printf("%s%s", j ? ", " : "",
             l->args[j].value.size ? words_of(l->args[j].value, names, count, text)
                                   : names[l->args[j].param]);
    printf(")  if %s\n", words_of(l->condition, names, count, text));
  }
}

static void print_code(const view_code *c) {
  printf("  %-24s %-5s config %u variant %u  %u -> %u bytes  %u threads, %u registers, %u spilled, %u shared "
         " %s\n",
         cli_name(c->target), kiln_format_name(c->info.format), c->entry.config, c->entry.variant,
         c->blob.raw, c->blob.stored, c->info.block_threads, c->info.registers, c->info.spill_bytes,
         c->info.shared_bytes, cli_name(c->info.producer));
}

static bool is_shown(const inspect_settings *s, const view_kernel *k) {
  if (s->kernel && !strstr(k->name, s->kernel)) return false;
  for (uint32_t i = 0; s->target && i < k->code_count; i++)
    if (!strcmp(k->codes[i].target, s->target)) return true;
  return !s->target;
}

// Reports that the bundle does not have what was asked for.
static int nothing_to_show(const bundle_view *v, const inspect_settings *s) {
  kiln_error err;
  bool named = false;
  name_suggestion guess;
  for (uint32_t i = 0; s->kernel && i < v->kernel_count; i++)
    named |= strstr(v->kernels[i].name, s->kernel) != NULL;
  if (s->kernel && !named) {
    guess = suggest_kernel(v, s->kernel);
    kiln_fail(&err, KILN_STATUS_NOT_FOUND, "%s has no kernel whose name contains '%s'%s", v->bundle->name,
              s->kernel, guess.text);
  } else {
    guess = suggest_target(v, s->target);
    kiln_fail(&err, KILN_STATUS_NOT_FOUND, "%s has no code for %s%s", v->bundle->name, s->target,
              *guess.text ? guess.text : " (`kiln stat` lists its targets)");
  }
  return cli_report(err.status, &err);
}

static int inspect_json(const bundle_view *v, const inspect_settings *s) {
  kiln_buffer out = {0};
  kiln_error err = {0};
  kiln_buffer_format(&out, "{");
  kiln_status status = json_bundle(&out, v, &err);
  kiln_buffer_format(&out, ",\n \"kernels\": [");
  bool first = true;
  for (uint32_t i = 0; i < v->kernel_count; i++) {
    if (!is_shown(s, &v->kernels[i])) continue;
    kiln_buffer_format(&out, "%s\n  ", first ? "" : ",");
    json_kernel(&out, &v->kernels[i], s->target);
    first = false;
  }
  kiln_buffer_format(&out, "]}");
  if (status == KILN_OK) return json_print(&out);
  kiln_buffer_deinit(&out);
  return cli_report(status, &err);
}

/// "targets: sm_90a (120 codes), gfx942 (120)": what a reader of a long list wants first.
static void print_targets(const bundle_view *v) {
  enum { WIDTH = 110 };
  struct row {
    const char *target;
    uint32_t count;
  } *rows = KILN_NEW_ARRAY(v->arena, struct row, v->bundle->section_count[KILN_BUNDLE_TARGETS] + 1);
  uint32_t row_count = 0;
  int column = printf("targets:");
  for (uint32_t k = 0; k < v->kernel_count; k++)
    for (uint32_t c = 0; c < v->kernels[k].code_count; c++) {
      uint32_t at = 0;
      while (at < row_count && strcmp(rows[at].target, v->kernels[k].codes[c].target)) at++;
      if (at == row_count) rows[row_count++] = (struct row){v->kernels[k].codes[c].target, 0};
      rows[at].count++;
    }
  for (uint32_t i = 0; i < row_count; i++) {
    char text[200];
    int size = snprintf(text, sizeof text, " %s (%u)%s", cli_name(rows[i].target), rows[i].count,
                        i + 1 < row_count ? "," : "");
    if (column + size > WIDTH) column = printf("\n        ") - 1;
    column += size;
    fputs(text, stdout);
  }
  printf("%s\n", row_count ? "" : " none");
}

static int show_inspect(const bundle_view *v, void *context) {
  const inspect_settings *s = context;
  uint32_t shown = 0;
  while (shown < v->kernel_count && !is_shown(s, &v->kernels[shown])) shown++;
  if (shown == v->kernel_count && (s->kernel || s->target)) return nothing_to_show(v, s);
  if (s->json) return inspect_json(v, s);
  const ull codes = v->bundle->section_count[KILN_BUNDLE_CODES],
            targets = v->bundle->section_count[KILN_BUNDLE_TARGETS];
  printf("%s: %u kernel%s, %llu code%s, %llu target%s, %zu bytes, format %u.%u\n", v->bundle->name,
         v->kernel_count, kiln_plural(v->kernel_count), codes, kiln_plural(codes), targets,
         kiln_plural(targets), v->bundle->size, kiln_le16(v->bundle->header + KILN_BH_MAJOR),
         kiln_le16(v->bundle->header + KILN_BH_MINOR));
  printf("signature: %s\n",
         kiln_le32(v->bundle->header + KILN_BH_SIZE + KILN_BG_KIND) ? "Ed25519 (see `kiln verify`)" : "none");
  print_targets(v);
  if (*v->statement.name || v->statement.version)
    printf("stated: name '%s', version %llu\n", cli_name(v->statement.name), (ull)v->statement.version);
  for (uint32_t i = 0; i < v->note_count; i++) {
    const bool is_code = !strncmp(v->notes[i].key, KILN_LAUNCHES_PREFIX, strlen(KILN_LAUNCHES_PREFIX));
    const char *value = is_code ? "(--codes says it in words)" : bundle_view_note(v, &v->notes[i]);
    printf("note %s: %s\n", cli_name(v->notes[i].key), value);
  }
  for (uint32_t i = 0; i < v->kernel_count; i++) {
    const view_kernel *k = &v->kernels[i];
    if (!is_shown(s, k)) continue;
    printf("%s  (%u code%s)\n", cli_name(k->name), k->code_count, kiln_plural(k->code_count));
    if (!s->codes && !s->kernel) continue;
    print_interface(v, &k->interface);
    print_launches(v, k);
    for (uint32_t c = 0; c < k->code_count; c++)
      if (!s->target || !strcmp(k->codes[c].target, s->target)) print_code(&k->codes[c]);
  }
  return CLI_OK;
}

int kiln_command_inspect(int argc, char **argv) {
  inspect_settings s = {0};
  const cli_option options[] = {
      {"kernel", 'k', CLI_TEXT, &s.kernel, "TEXT", "only kernels whose name contains TEXT, in full"},
      {"target", 't', CLI_TEXT, &s.target, "NAME", "only codes for this target"},
      {"codes", 'c', CLI_FLAG, &s.codes, NULL, "parameters, configs, variants and codes of every kernel"},
      {"json", 0, CLI_FLAG, &s.json, NULL, "print all of it as JSON"},
  };
  const cli_page page = CLI_PAGE("kiln inspect [options] BUNDLE", "Lists what is in a bundle.", options);
  int exit_code = cli_parse_one(&page, argc, argv, "bundle", &s.words);
  char target[KILN_TARGET_NAME];
  if (s.target) s.target = bundle_target_name(s.target, target);
  if (exit_code == -1) exit_code = with_view(s.words.items[0], show_inspect, &s);
  cli_list_deinit(&s.words);
  return exit_code;
}

// -------------------------------------------------------------------------------------------- stat

typedef struct stat_row {
  const char *name; // borrowed
  uint64_t codes, raw, stored;
} stat_row;

typedef struct stat_settings {
  const char *by;
  bool json;
  cli_list words;
} stat_settings;

static int by_name(const void *a, const void *b) {
  return strcmp(((const stat_row *)a)->name, ((const stat_row *)b)->name);
}

// Rows of one name become one; returns how many are left.
static size_t sum_rows(stat_row *rows, size_t count) {
  size_t left = 0;
  qsort(rows, count, sizeof *rows, by_name);
  for (size_t i = 0; i < count; i++) {
    if (!left || strcmp(rows[left - 1].name, rows[i].name)) {
      rows[left++] = rows[i];
      continue;
    }
    stat_row *sum = &rows[left - 1];
    sum->codes += rows[i].codes, sum->raw += rows[i].raw, sum->stored += rows[i].stored;
  }
  return left;
}

static void print_rows(const stat_row *rows, size_t count) {
  uint64_t raw = 0, stored = 0;
  printf("%-40s %8s %12s %12s %7s\n", "", "codes", "raw", "stored", "ratio");
  for (const stat_row *r = rows; r < rows + count; r++) {
    printf("%-40s %8llu %12llu %12llu %6.1fx\n", cli_name(r->name), (ull)r->codes, (ull)r->raw,
           (ull)r->stored, r->stored ? (double)r->raw / (double)r->stored : 0.0);
    raw += r->raw, stored += r->stored;
  }
  printf("%-40s %8s %12llu %12llu %6.1fx\n", "sum", "", (ull)raw, (ull)stored,
         stored ? (double)raw / (double)stored : 0.0);
}

// A code that several entries share is counted in each by its part.
static size_t code_rows(const bundle_view *v, stat_row *rows, bool by_target) {
  size_t count = 0;
  for (uint32_t i = 0; i < v->kernel_count; i++)
    for (uint32_t c = 0; c < v->kernels[i].code_count; c++) {
      const view_code *code = &v->kernels[i].codes[c];
      uint32_t shares = code->blob.references ? code->blob.references : 1;
      rows[count++] = (stat_row){by_target ? code->target : v->kernels[i].name, 1, code->blob.raw / shares,
                                 code->blob.stored / shares};
    }
  return count;
}

static const char *const section_names[KILN_BUNDLE_SECTIONS] = {"kernels", "names",   "codes", "blobs",
                                                                "targets", "members", "notes", "records"};

static size_t section_rows(const bundle_view *v, stat_row *rows) {
  size_t count = 0;
  const kiln_bundle *b = v->bundle;
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) {
    uint64_t end = i + 1 < KILN_BUNDLE_SECTIONS ? b->section_at[i + 1] : b->region_size;
    rows[count++] =
        (stat_row){section_names[i], b->section_count[i], end - b->section_at[i], end - b->section_at[i]};
  }
  return count;
}

static int stat_json(const stat_row *rows, size_t count, const bundle_view *v, const char *by,
                     uint64_t payload, uint64_t dictionaries) {
  kiln_buffer out = {0};
  kiln_buffer_format(&out, "{");
  json_member(&out, true, "bundle", v->bundle->name);
  json_member(&out, false, "by", by);
  kiln_buffer_format(&out,
                     ", \"file\": %zu, \"codes\": %llu, \"dictionaries\": %llu, \"index_and_container\": "
                     "%llu,\n \"rows\": [",
                     v->bundle->size, (ull)payload, (ull)dictionaries,
                     (ull)(v->bundle->size - payload - dictionaries));
  for (size_t i = 0; i < count; i++) {
    kiln_buffer_format(&out, "%s\n  {", i ? "," : "");
    json_member(&out, true, "name", rows[i].name);
    kiln_buffer_format(&out, ", \"count\": %llu, \"raw\": %llu, \"stored\": %llu}", (ull)rows[i].codes,
                       (ull)rows[i].raw, (ull)rows[i].stored);
  }
  kiln_buffer_format(&out, "]}");
  return json_print(&out);
}

static int show_stat(const bundle_view *v, void *context) {
  const stat_settings *s = context;
  size_t codes = v->bundle->section_count[KILN_BUNDLE_CODES];
  stat_row *rows = KILN_NEW_ARRAY(v->arena, stat_row, codes + KILN_BUNDLE_SECTIONS);
  uint64_t payload = 0, dictionaries = 0;
  for (uint32_t i = 0; i < v->bundle->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_blob_entry e;
    kiln_error err;
    if (kiln_bundle_blob_at(v->bundle, i, &e, &err) != KILN_OK) return cli_report(err.status, &err);
    const uint8_t *m =
        kiln_bundle_in(v->bundle, KILN_BUNDLE_MEMBERS, (uint64_t)e.member * KILN_BM_SIZE, KILN_BM_SIZE, &err);
    const char *member = m ? kiln_bundle_text(v->bundle, kiln_le32(m + KILN_BM_NAME), &err) : NULL;
    if (!member) return cli_report(err.status, &err);
    *(strncmp(member, "dictionary/", 11) ? &payload : &dictionaries) += e.stored;
  }
  size_t count =
      !strcmp(s->by, "section") ? section_rows(v, rows) : code_rows(v, rows, !strcmp(s->by, "arch"));
  count = sum_rows(rows, count);
  if (s->json) return stat_json(rows, count, v, s->by, payload, dictionaries);
  print_rows(rows, count);
  printf("file %zu, codes %llu, dictionaries %llu, index and container %llu bytes\n", v->bundle->size,
         (ull)payload, (ull)dictionaries, (ull)(v->bundle->size - payload - dictionaries));
  return CLI_OK;
}

int kiln_command_stat(int argc, char **argv) {
  stat_settings s = {.by = "arch"};
  const cli_option options[] = {{"by", 0, CLI_TEXT, &s.by, "WHAT", "arch, kernel or section (arch)"},
                                {"json", 0, CLI_FLAG, &s.json, NULL, "print JSON"}};
  const cli_page page = CLI_PAGE(
      "kiln stat [--by=arch|kernel|section] BUNDLE",
      "Prints sums of sizes. A code that several kernels share counts in each by its part.", options);
  int exit_code = cli_parse_one(&page, argc, argv, "bundle", &s.words);
  if (exit_code == -1 && strcmp(s.by, "arch") && strcmp(s.by, "kernel") && strcmp(s.by, "section"))
    exit_code = cli_usage(&page, "--by: expected arch, kernel or section, found '%s'", s.by);
  if (exit_code == -1) exit_code = with_view(s.words.items[0], show_stat, &s);
  cli_list_deinit(&s.words);
  return exit_code;
}
