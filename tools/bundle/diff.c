// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln diff: prints the differences between two bundles, kernel by kernel.
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/plural.h"
#include "tools/bundle/view.h"
#include "tools/kiln-tool/commands.h"
#include "tools/bundle/json.h"

typedef struct diff_sums {
  uint32_t only_left, only_right, changed, same;
  bool json;
  kiln_buffer out; // owned: the differences as JSON
} diff_sums;

// Begins the JSON object of one difference.
static void begin(diff_sums *sums, const char *what, const char *how, const char *name) {
  kiln_buffer_format(&sums->out, "%s\n  {", sums->out.size ? "," : "");
  json_member(&sums->out, true, "what", what);
  json_member(&sums->out, false, "how", how);
  json_member(&sums->out, false, "name", name);
}

static int compare_codes(const view_code *a, const view_code *b) {
  if (a->entry.config != b->entry.config) return a->entry.config < b->entry.config ? -1 : 1;
  if (a->entry.variant != b->entry.variant) return a->entry.variant < b->entry.variant ? -1 : 1;
  int order = strcmp(a->target, b->target);
  return order ? order
               : (int)(a->entry.flags & KILN_BUNDLE_CODE_PTX) - (int)(b->entry.flags & KILN_BUNDLE_CODE_PTX);
}

static void print_code(diff_sums *sums, const char *sign, const view_kernel *k, const view_code *c) {
  begin(sums, "code", *sign == '-' ? "only_first" : "only_second", k->name);
  kiln_buffer_format(&sums->out, ", \"code\": ");
  json_code(&sums->out, c);
  kiln_buffer_format(&sums->out, "}");
  if (!sums->json)
    printf("%s %s  %s config %u variant %u (%u bytes)\n", sign, cli_name(k->name), cli_name(c->target),
           c->entry.config, c->entry.variant, c->blob.raw);
}

static void diff_codes(const view_kernel *a, const view_kernel *b, diff_sums *sums) {
  for (uint32_t i = 0, j = 0; i < a->code_count || j < b->code_count;) {
    int order = i >= a->code_count ? 1 : j >= b->code_count ? -1 : compare_codes(&a->codes[i], &b->codes[j]);
    if (order < 0) {
      sums->only_left++;
      print_code(sums, "-", a, &a->codes[i++]);
    } else if (order > 0) {
      sums->only_right++;
      print_code(sums, "+", b, &b->codes[j++]);
    } else {
      const view_code *x = &a->codes[i++], *y = &b->codes[j++];
      bool same = !memcmp(x->blob.digest, y->blob.digest, KILN_DIGEST_SIZE) && x->info_size == y->info_size &&
                  !memcmp(x->info_bytes, y->info_bytes, x->info_size);
      ++*(same ? &sums->same : &sums->changed);
      if (same) continue;
      begin(sums, "code", "changed", a->name);
      kiln_buffer_format(&sums->out, ", \"first\": ");
      json_code(&sums->out, x);
      kiln_buffer_format(&sums->out, ", \"second\": ");
      json_code(&sums->out, y);
      kiln_buffer_format(&sums->out, "}");
      if (!sums->json)
        printf("! %s  %s config %u variant %u: %u -> %u bytes, %u -> %u registers, %u -> %u spilled, %u -> "
               "%u shared\n",
               cli_name(a->name), cli_name(x->target), x->entry.config, x->entry.variant, x->blob.raw,
               y->blob.raw, x->info.registers, y->info.registers, x->info.spill_bytes, y->info.spill_bytes,
               x->info.shared_bytes, y->info.shared_bytes);
    }
  }
}

static void diff_kernels(const bundle_view *a, const bundle_view *b, diff_sums *sums) {
  static const view_kernel none;
  for (uint32_t i = 0, j = 0; i < a->kernel_count || j < b->kernel_count;) {
    int order = i >= a->kernel_count   ? 1
                : j >= b->kernel_count ? -1
                                       : strcmp(a->kernels[i].name, b->kernels[j].name);
    const view_kernel *x = order <= 0 ? &a->kernels[i++] : &none, *y = order >= 0 ? &b->kernels[j++] : &none;
    if (!order && (x->record_size != y->record_size || memcmp(x->record, y->record, x->record_size))) {
      sums->changed++;
      begin(sums, "interface", "changed", x->name);
      kiln_buffer_format(&sums->out, ", \"first\": \"%016llx\", \"second\": \"%016llx\"}",
                         (unsigned long long)kiln_interface_abi(&x->interface),
                         (unsigned long long)kiln_interface_abi(&y->interface));
      if (!sums->json)
        printf("! %s: interface, abi %016llx -> %016llx\n", cli_name(x->name),
               (unsigned long long)kiln_interface_abi(&x->interface),
               (unsigned long long)kiln_interface_abi(&y->interface));
    }
    diff_codes(x, y, sums);
  }
}

static void diff_notes(const bundle_view *a, const bundle_view *b, diff_sums *sums) {
  for (uint32_t i = 0, j = 0; i < a->note_count || j < b->note_count;) {
    int order = i >= a->note_count ? 1 : j >= b->note_count ? -1 : strcmp(a->notes[i].key, b->notes[j].key);
    const char *key = order <= 0 ? a->notes[i].key : b->notes[j].key;
    if (order || strcmp(a->notes[i].value, b->notes[j].value)) {
      const char *left = order <= 0 ? bundle_view_note(a, &a->notes[i]) : "(none)",
                 *right = order >= 0 ? bundle_view_note(b, &b->notes[j]) : "(none)";
      sums->changed++;
      begin(sums, "note", order < 0 ? "only_first" : order > 0 ? "only_second" : "changed", key);
      json_member(&sums->out, false, "first", left);
      json_member(&sums->out, false, "second", right);
      kiln_buffer_format(&sums->out, "}");
      if (!sums->json) printf("! note %s: %s -> %s\n", cli_name(key), cli_name(left), cli_name(right));
    }
    i += order <= 0;
    j += order >= 0;
  }
}

// What is compared are digests: of damaged codes they say nothing.
static int check_both(bundle_view *a, bundle_view *b) {
  kiln_error err = {0};
  kiln_status status = kiln_bundle_check_all(a->bundle, &err);
  if (status == KILN_OK) status = kiln_bundle_check_all(b->bundle, &err);
  if (status == KILN_OK) return -1;
  bundle_view_close(a);
  bundle_view_close(b);
  return cli_report(status, &err);
}

static int diff_json(diff_sums *sums, const bundle_view *a, const bundle_view *b) {
  KILN_ASSERT(a->bundle && b->bundle);
  kiln_buffer out = {0};
  kiln_buffer_format(&out, "{");
  json_member(&out, true, "first", a->bundle->name);
  json_member(&out, false, "second", b->bundle->name);
  kiln_buffer_format(
      &out, ", \"same\": %u, \"changed\": %u, \"only_first\": %u, \"only_second\": %u,\n \"differences\": [",
      sums->same, sums->changed, sums->only_left, sums->only_right);
  kiln_buffer_bytes(&out, sums->out.bytes, sums->out.size);
  kiln_buffer_format(&out, "]}");
  out.failed |= sums->out.failed;
  return json_print(&out);
}

int kiln_command_diff(int argc, char **argv) {
  diff_sums sums = {0};
  const cli_option options[] = {{"json", 0, CLI_FLAG, &sums.json, NULL, "print JSON"}};
  const cli_page page = CLI_PAGE(
      "kiln diff [--json] BUNDLE BUNDLE",
      "Shows the differences between two bundles: - only in the first, + only in the second, ! changed.\n"
      "Prints nothing where nothing differs. Exit code 1 when something does.",
      options);
  cli_list words = {0};
  bundle_view a = {0}, b = {0};
  kiln_error err = {0};
  int exit_code = cli_parse(&page, argc, argv, &words);
  if (exit_code == -1 && words.count != 2)
    exit_code =
        cli_usage(&page, "expected two bundles, found %zu word%s", words.count, kiln_plural(words.count));
  if (exit_code == -1) {
    kiln_status status = bundle_view_open(words.items[0], &a, &err);
    if (status == KILN_OK && (status = bundle_view_open(words.items[1], &b, &err)) != KILN_OK)
      bundle_view_close(&a);
    exit_code = status == KILN_OK ? check_both(&a, &b) : cli_report(status, &err);
  }
  cli_list_deinit(&words);
  if (exit_code != -1) return exit_code;
  diff_notes(&a, &b, &sums);
  diff_kernels(&a, &b, &sums);
  bool differs = sums.changed || sums.only_left || sums.only_right;
  if (sums.json) exit_code = diff_json(&sums, &a, &b);
  else if (differs)
    printf("%u same, %u changed, %u only in the first, %u only in the second\n", sums.same, sums.changed,
           sums.only_left, sums.only_right);
  bundle_view_close(&a);
  bundle_view_close(&b);
  kiln_buffer_deinit(&sums.out);
  return exit_code > 0 ? exit_code : differs ? CLI_FAILED : CLI_OK;
}
