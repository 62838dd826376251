// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln inspect, stat, diff, verify: what is in a bundle.
#include <sodium/crypto_sign_ed25519.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/expr.h"
#include "tools/common/key_file.h"
#include "tools/tool/bundle_view.h"
#include "tools/tool/tool.h"

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

// ---------------------------------------------------------------------------------------------------------------- inspect

typedef struct inspect_settings {
  const char *kernel, *target;
  bool codes;
  cli_list words;
} inspect_settings;

static void print_param(const kiln_param_record *p) {
  static const char *const accesses[] = {"", " in", " out", " inout", " accum"};
  const char *scalar = kiln_scalars[p->scalar].spelling;
  printf("    %s: %s%s%s", p->name, p->view_rank ? "view " : p->pointer == 2 ? "**" : p->pointer ? "*" : "", scalar, accesses[p->access]);
  if (p->view_rank) printf(" of rank %u", p->view_rank);
  if (p->align > 1) printf(" @align(%u)", p->align);
  if (p->div > 1) printf(" @div(%lld)", (long long)p->div);
  if (p->has_range) printf(" @range(%lld, %lld)", (long long)p->lo, (long long)p->hi);
  printf("  at %u, %u bytes\n", p->offset, p->size);
}

static void print_interface(const bundle_view *v, const kiln_interface *in) {
  const char **names = KILN_NEW_ARRAY(v->arena, const char *, in->param_count + 1);
  char text[400];
  for (uint32_t i = 0; i < in->param_count; i++) names[i] = in->params[i].name;
  printf("  symbol %s, abi %016llx, block of %u bytes\n", in->symbol, (ull)kiln_interface_abi(in), in->block_bytes);
  for (uint32_t i = 0; i < in->param_count; i++) print_param(&in->params[i]);
  for (uint32_t c = 0; c < in->config_count; c++) {
    const kiln_config_record *config = &in->configs[c];
    printf("  config %u: %s  grid ", c, config->text);
    if (!config->grid[0].size && !config->grid[1].size && !config->grid[2].size) {
      printf("given by the caller\n");
      continue;
    }
    for (unsigned axis = 0; axis < 3; axis++) {
      const kiln_span *g = &config->grid[axis];
      bool valid = kiln_expr_verify(g->bytes, g->size, in->param_count);
      printf("%s%s", axis ? ", " : "(", !g->size ? "1" : valid ? kiln_expr_text(g->bytes, g->size, names, in->param_count, text, sizeof text) : "?");
    }
    printf(")\n");
  }
  for (uint32_t i = 0; i < in->variant_count; i++) printf("  variant %u: %s\n", i, *in->variants[i].text ? in->variants[i].text : "generic");
}

static void print_code(const view_code *c) {
  printf("  %-24s config %u variant %u  %u -> %u bytes  %u threads, %u registers, %u spilled, %u shared  %s\n", c->target, c->entry.config,
         c->entry.variant, c->blob.raw, c->blob.stored, c->info.block_threads, c->info.registers, c->info.spill_bytes, c->info.shared_bytes,
         c->info.producer);
}

static bool is_shown(const inspect_settings *s, const view_kernel *k) {
  if (s->kernel && !strstr(k->name, s->kernel)) return false;
  for (uint32_t i = 0; s->target && i < k->code_count; i++)
    if (!strcmp(k->codes[i].target, s->target)) return true;
  return !s->target;
}

static int show_inspect(const bundle_view *v, void *context) {
  const inspect_settings *s = context;
  printf("%s: %u kernels, %llu codes, %llu targets, %zu bytes, format %u.%u\n", v->bundle->name, v->kernel_count,
         (ull)v->bundle->section_count[KILN_BUNDLE_CODES], (ull)v->bundle->section_count[KILN_BUNDLE_TARGETS], v->bundle->size,
         kiln_le16(v->bundle->header + KILN_BH_MAJOR), kiln_le16(v->bundle->header + KILN_BH_MINOR));
  printf("signature: %s\n", kiln_le32(v->bundle->header + KILN_BH_SIZE + KILN_BG_KIND) ? "Ed25519 (see `kiln verify`)" : "none");
  for (uint32_t i = 0; i < v->note_count; i++) printf("note %s: %s\n", v->notes[i].key, v->notes[i].value);
  for (uint32_t i = 0; i < v->kernel_count; i++) {
    const view_kernel *k = &v->kernels[i];
    if (!is_shown(s, k)) continue;
    printf("%s  (%u codes)\n", k->name, k->code_count);
    if (!s->codes && !s->kernel) continue;
    print_interface(v, &k->interface);
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
  };
  const cli_page page = {.usage = "kiln inspect [options] BUNDLE", .summary = "Lists what is in a bundle.", .options = options,
                         .option_count = sizeof options / sizeof *options};
  int exit_code = cli_parse(&page, argc, argv, &s.words);
  if (exit_code == -1 && s.words.count != 1) exit_code = cli_usage(&page, "expected one bundle, found %zu words", s.words.count);
  if (exit_code == -1) exit_code = with_view(s.words.items[0], show_inspect, &s);
  cli_list_deinit(&s.words);
  return exit_code;
}

// ------------------------------------------------------------------------------------------------------------------- stat

typedef struct stat_row {
  const char *name; // borrowed
  uint64_t codes, raw, stored;
} stat_row;

typedef struct stat_settings {
  const char *by;
  cli_list words;
} stat_settings;

static int by_name(const void *a, const void *b) { return strcmp(((const stat_row *)a)->name, ((const stat_row *)b)->name); }

static void print_rows(stat_row *rows, size_t count) {
  uint64_t raw = 0, stored = 0;
  qsort(rows, count, sizeof *rows, by_name);
  printf("%-40s %8s %12s %12s %7s\n", "", "codes", "raw", "stored", "ratio");
  for (size_t i = 0; i < count;) {
    stat_row sum = {rows[i].name, 0, 0, 0};
    for (; i < count && !strcmp(rows[i].name, sum.name); i++) sum.codes += rows[i].codes, sum.raw += rows[i].raw, sum.stored += rows[i].stored;
    printf("%-40s %8llu %12llu %12llu %6.1fx\n", sum.name, (ull)sum.codes, (ull)sum.raw, (ull)sum.stored,
           sum.stored ? (double)sum.raw / (double)sum.stored : 0.0);
    raw += sum.raw, stored += sum.stored;
  }
  printf("%-40s %8s %12llu %12llu %6.1fx\n", "sum", "", (ull)raw, (ull)stored, stored ? (double)raw / (double)stored : 0.0);
}

// A code that several entries share is counted in each by its part.
static size_t code_rows(const bundle_view *v, stat_row *rows, bool by_target) {
  size_t count = 0;
  for (uint32_t i = 0; i < v->kernel_count; i++)
    for (uint32_t c = 0; c < v->kernels[i].code_count; c++) {
      const view_code *code = &v->kernels[i].codes[c];
      uint32_t shares = code->blob.references ? code->blob.references : 1;
      rows[count++] = (stat_row){by_target ? code->target : v->kernels[i].name, 1, code->blob.raw / shares, code->blob.stored / shares};
    }
  return count;
}

static const char *const section_names[KILN_BUNDLE_SECTIONS] = {"kernels", "names", "codes", "blobs", "targets", "members", "notes", "records"};

static size_t section_rows(const bundle_view *v, stat_row *rows) {
  size_t count = 0;
  const kiln_bundle *b = v->bundle;
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) {
    uint64_t end = i + 1 < KILN_BUNDLE_SECTIONS ? b->section_at[i + 1] : b->region_size;
    rows[count++] = (stat_row){section_names[i], b->section_count[i], end - b->section_at[i], end - b->section_at[i]};
  }
  return count;
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
    const uint8_t *m = kiln_bundle_in(v->bundle, KILN_BUNDLE_MEMBERS, (uint64_t)e.member * KILN_BM_SIZE, KILN_BM_SIZE, &err);
    const char *member = m ? kiln_bundle_text(v->bundle, kiln_le32(m + KILN_BM_NAME), &err) : NULL;
    if (!member) return cli_report(err.status, &err);
    *(strncmp(member, "dictionary/", 11) ? &payload : &dictionaries) += e.stored;
  }
  size_t count = !strcmp(s->by, "section") ? section_rows(v, rows) : code_rows(v, rows, !strcmp(s->by, "arch"));
  print_rows(rows, count);
  printf("file %zu, codes %llu, dictionaries %llu, index and container %llu bytes\n", v->bundle->size, (ull)payload, (ull)dictionaries,
         (ull)(v->bundle->size - payload - dictionaries));
  return CLI_OK;
}

int kiln_command_stat(int argc, char **argv) {
  stat_settings s = {.by = "arch"};
  const cli_option options[] = {{"by", 0, CLI_TEXT, &s.by, "WHAT", "arch, kernel or section (arch)"}};
  const cli_page page = {.usage = "kiln stat [--by=arch|kernel|section] BUNDLE", .summary = "Sums of sizes.", .options = options, .option_count = 1};
  int exit_code = cli_parse(&page, argc, argv, &s.words);
  if (exit_code == -1 && s.words.count != 1) exit_code = cli_usage(&page, "expected one bundle, found %zu words", s.words.count);
  if (exit_code == -1 && strcmp(s.by, "arch") && strcmp(s.by, "kernel") && strcmp(s.by, "section"))
    exit_code = cli_usage(&page, "--by: expected arch, kernel or section, found '%s'", s.by);
  if (exit_code == -1) exit_code = with_view(s.words.items[0], show_stat, &s);
  cli_list_deinit(&s.words);
  return exit_code;
}

// ----------------------------------------------------------------------------------------------------------------- verify

// The signature of the header, by the key in the slot; `key` (32 bytes) must be that key when it is not NULL.
static kiln_status check_signature(const kiln_bundle *b, const uint8_t *key, kiln_error *err) {
  const uint8_t *slot = b->header + KILN_BH_SIZE;
  bool is_signed = kiln_le32(slot + KILN_BG_KIND) == 1;
  if (!is_signed) return key ? kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle is not signed", b->name) : KILN_OK;
  if (key && memcmp(key, slot + KILN_BG_KEY, crypto_sign_ed25519_PUBLICKEYBYTES))
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle is signed with another key", b->name);
  if (crypto_sign_ed25519_verify_detached(slot + KILN_BG_SIGNATURE, b->header, KILN_BH_SIZE, slot + KILN_BG_KEY))
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the signature does not fit the header", b->name);
  char hex[2 * crypto_sign_ed25519_PUBLICKEYBYTES + 1];
  sodium_bin2hex(hex, sizeof hex, slot + KILN_BG_KEY, crypto_sign_ed25519_PUBLICKEYBYTES);
  printf("%s: signed by %s%s\n", b->name, hex, key ? "" : " (give --key to say whom you trust)");
  return KILN_OK;
}

static int show_verify(const bundle_view *v, void *context) {
  kiln_error err;
  kiln_status status = kiln_bundle_check_all(v->bundle, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  for (uint32_t i = 0; i < v->bundle->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_blob_entry e;
    kiln_bytes bytes;
    status = kiln_bundle_blob_at(v->bundle, i, &e, &err);
    if (status == KILN_OK) status = kiln_bundle_load(v->bundle, i, &bytes, &err);
    if (status != KILN_OK) return cli_report(status, &err);
    kiln_digest digest = kiln_digest_of(bytes.bytes, bytes.size);
    kiln_bytes_deinit(&bytes);
    if (memcmp(digest.bytes, e.digest, KILN_DIGEST_SIZE)) {
      kiln_fail(&err, KILN_STATUS_CORRUPT, "%s: blob %u does not have the digest of the index", v->bundle->name, i);
      return cli_report(err.status, &err);
    }
  }
  kiln_digest digest = kiln_digest_of(v->bundle->region, (size_t)v->bundle->region_size);
  if (memcmp(digest.bytes, v->bundle->header + KILN_BH_DIGEST, KILN_DIGEST_SIZE)) {
    kiln_fail(&err, KILN_STATUS_CORRUPT, "%s: the index does not have the digest of the header", v->bundle->name);
    return cli_report(err.status, &err);
  }
  status = check_signature(v->bundle, context, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  printf("%s: %u pages, %llu blobs: all as written\n", v->bundle->name, v->bundle->page_count, (ull)v->bundle->section_count[KILN_BUNDLE_BLOBS]);
  return CLI_OK;
}

int kiln_command_verify(int argc, char **argv) {
  const char *key_path = NULL;
  const cli_option options[] = {{"key", 0, CLI_TEXT, &key_path, "FILE", "public key (of `kiln cache keygen`) that must have signed the bundles"}};
  const cli_page page = {.usage = "kiln verify [--key=FILE] BUNDLE...",
                         .summary = "Checks every page, code, digest and the signature of bundles.", .options = options, .option_count = 1};
  cli_list words = {0};
  uint8_t key[KEY_FILE_PUBLIC];
  kiln_error err = {0};
  int exit_code = cli_parse(&page, argc, argv, &words);
  if (exit_code == -1 && !words.count) exit_code = cli_usage(&page, "expected a bundle");
  if (exit_code == -1 && key_path && key_file_public(key_path, key, &err) != KILN_OK) exit_code = cli_report(err.status, &err);
  if (exit_code == -1)
    for (size_t i = (exit_code = CLI_OK); i < words.count && exit_code == CLI_OK; i++)
      exit_code = with_view(words.items[i], show_verify, key_path ? key : NULL);
  cli_list_deinit(&words);
  return exit_code;
}
