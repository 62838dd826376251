// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln extract: writes one code of a bundle as the file that it was: PTX, a cubin, a code object or a host object.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "runtime/kiln.h"
#include "tools/bundle/dictionary_family.h"
#include "tools/bundle/suggest.h"
#include "tools/bundle/view.h"
#include "tools/kiln-tool/commands.h"

typedef struct choice {
  const char *output, *target;
  int64_t config, variant; ///< -1: any
} choice;

static bool is_chosen(const choice *how, const view_code *c) {
  return (!how->target || !strcmp(how->target, c->target)) &&
         (how->config < 0 || (uint64_t)how->config == c->entry.config) &&
         (how->variant < 0 || (uint64_t)how->variant == c->entry.variant);
}

/// "gfx942 config 0 variant 0, ..." of the codes that fit, as many as there is room for.
static void list_codes(const choice *how, const view_kernel *k, kiln_buffer *out) {
  enum { ROOM = 200 };
  for (uint32_t i = 0; i < k->code_count && out->size < ROOM; i++)
    if (is_chosen(how, &k->codes[i]))
      kiln_buffer_format(out, "%s%s config %u variant %u%s", out->size ? ", " : "",
                         cli_name(k->codes[i].target), k->codes[i].entry.config, k->codes[i].entry.variant,
                         k->codes[i].entry.flags & KILN_BUNDLE_CODE_PTX ? " (PTX)" : "");
  if (out->size >= ROOM) kiln_buffer_format(out, ", ...");
  kiln_buffer_u8(out, 0);
}

static kiln_status find_code(const bundle_view *v, const char *name, const choice *how, const view_code **out,
                             kiln_error *err) {
  const view_kernel *k = NULL;
  uint32_t count = 0;
  for (uint32_t i = 0; i < v->kernel_count; i++)
    if (!strcmp(v->kernels[i].name, name)) k = &v->kernels[i];
  if (!k)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s has no kernel '%s'%s", v->bundle->name, name,
                     suggest_kernel(v, name).text);
  for (uint32_t i = 0; i < k->code_count; i++)
    if (is_chosen(how, &k->codes[i])) *out = &k->codes[i], count++;
  if (count == 1) return KILN_OK;
  static const choice any = {.config = -1, .variant = -1};
  kiln_buffer list = {0};
  list_codes(count ? how : &any, k, &list);
  kiln_status status = count ? kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                                         "%u codes of %s fit: %s; --target, --config and --variant choose",
                                         count, name, (const char *)list.bytes)
                             : kiln_fail(err, KILN_STATUS_NOT_FOUND, "no code of %s fits; there are %s", name,
                                         (const char *)list.bytes);
  kiln_buffer_deinit(&list);
  return status;
}

static kiln_status extract(const bundle_view *v, const char *bundle, const char *name, const choice *how,
                           kiln_error *err) {
  const view_code *code = NULL;
  kiln_bytes bytes;
  KILN_TRY(find_code(v, name, how, &code, err));
  if (code->info.format != KILN_FORMAT_PTX && !strcmp(how->output, "-") && isatty(1))
    return kiln_fail(
        err, KILN_STATUS_INVALID_ARGUMENT,
        "the code is no text and standard output is a terminal: -o names a file, `kiln disasm` prints it");
  KILN_TRY(kiln_bundle_load(v->bundle, code->entry.blob, &bytes, err));
  kiln_status status = cli_write_made(how->output, bundle, bytes.bytes, bytes.size, err);
  kiln_bytes_deinit(&bytes);
  return status;
}

int kiln_command_extract(int argc, char **argv) {
  choice how = {.output = "-", .config = -1, .variant = -1};
  const cli_option options[] = {
      {"output", 'o', CLI_OUTPUT, &how.output, "FILE", "where the code goes (standard output)"},
      {"target", 't', CLI_TEXT, &how.target, "NAME", "the code for this target"},
      {"config", 0, CLI_NUMBER, &how.config, "N",
       "the code of this config, as `kiln inspect --codes` numbers them"},
      {"variant", 0, CLI_NUMBER, &how.variant, "N", "the code of this variant"}};
  const cli_page page = CLI_PAGE(
      "kiln extract [options] BUNDLE KERNEL",
      "Writes one code of a kernel, checked and decompressed: PTX, a cubin, a code object or a host object.",
      options);
  cli_list words = {0};
  bundle_view v;
  kiln_error err;
  char target[KILN_TARGET_NAME];
  int exit_code = cli_parse(&page, argc, argv, &words);
  if (exit_code == -1 && words.count != 2)
    exit_code = cli_usage(&page, "expected BUNDLE and KERNEL, found %zu word%s", words.count,
                          kiln_plural(words.count));
  if (exit_code == -1) {
    if (how.target) how.target = bundle_target_name(how.target, target);
    kiln_status status = bundle_view_open(words.items[0], &v, &err);
    if (status == KILN_OK) {
      status = extract(&v, words.items[0], words.items[1], &how, &err);
      bundle_view_close(&v);
    }
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  cli_list_deinit(&words);
  return exit_code;
}
