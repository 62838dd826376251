// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln translate`: prints the kernel of a Triton IR file in the kernel language. What it prints compiles
// to the same key.
#include <stdio.h>
#include <string.h>

#include "tools/kiln/commands.h"
#include "tools/build/plan.h"

typedef struct translate {
  cli_list words, only;
  const char *output, *target;
  int64_t warps, stages;
} translate;

static bool is_wanted(const translate *t, const char *name) {
  for (size_t i = 0; i < t->only.count; i++)
    if (!strcmp(t->only.items[i], name)) return true;
  return t->only.count == 0;
}

// Parameters are numbered in the text; their names in the source stand above it.
static void print_names(const kiln_interface *interface, kiln_buffer *out) {
  kiln_buffer_format(out, "// %s:", interface->name);
  for (uint32_t i = 0; i < interface->param_count; i++)
    kiln_buffer_format(out, " p%u %s%s", i, interface->params[i].name,
                       i + 1 < interface->param_count ? "," : "");
  kiln_buffer_format(out, "\n");
}

// Prints the requested kernel of the unit under its own name: one file holds one kernel.
static kiln_status print_kernel(const translate *t, plan *p, kiln_buffer *out, kiln_error *err) {
  plan_source *source = &p->sources[0];
  kiln_diagnostics d = {.arena = source->arena};
  size_t printed = 0;
  for (size_t i = 0; i < kiln_unit_instance_count(source->unit); i++) {
    const kiln_interface *interface = kiln_unit_interface(source->unit, i);
    if (!is_wanted(t, interface->name)) continue;
    uint32_t config = kiln_unit_first_config(source->unit, i, &p->targets[0]);
    ir_kernel *kernel = kiln_unit_lower(source->unit, source->arena, i, config, interface->variant_count - 1,
                                        &p->targets[0], &d);
    if (!kernel) {
      kiln_diagnostics_print(&d, (const char *)source->text.bytes, source->text.size, out);
      fwrite(out->bytes, 1, out->size, stderr);
      return kiln_fail(err, KILN_STATUS_SOURCE, "%s: %s does not lower", source->path, interface->name);
    }
    kernel->name = interface->name;
    if (printed)
      return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                       "%s holds several kernels; --kernel=NAME chooses one", source->path);
    print_names(interface, out);
    kiln_print_ir(kernel, out);
    printed++;
  }
  if (printed) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s: no kernel of that name among %zu", source->path,
                   kiln_unit_instance_count(source->unit));
}

static kiln_status take_target(const translate *t, plan *p, kiln_error *err) {
  cli_list targets = {0};
  cli_list_add(&targets, t->target);
  kiln_status status = plan_targets(p, &targets, err);
  cli_list_deinit(&targets);
  return status;
}

static kiln_status translate_source(const translate *t, plan *p, kiln_error *err) {
  kiln_buffer text = {0};
  kiln_front_options options = {.warps = (uint32_t)t->warps, .stages = (uint32_t)t->stages};
  kiln_status status = plan_add_source(p, t->words.items[0], &options, err);
  if (status == KILN_OK) status = print_kernel(t, p, &text, err);
  if (status == KILN_OK) status = cli_write_made(t->output, t->words.items[0], text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}

int kiln_command_translate(int argc, char **argv) {
  translate t = {.output = "-", .target = "host"};
  plan p = {0};
  kiln_error err = {0};
  const cli_option options[] = {
      {"output", 'o', CLI_OUTPUT, &t.output, "FILE", "where the text goes (standard output)"},
      {"kernel", 'k', CLI_LIST, &t.only, "NAME", "only this kernel"},
      {"target", 't', CLI_TEXT, &t.target, "NAME", "for sources that ask for their target (host)"},
      {"warps", 0, CLI_COUNT, &t.warps, "N", "warps of the kernel (default: metadata, then 4)",
       KILN_MOST_WARPS},
      {"stages", 0, CLI_COUNT, &t.stages, "N", "pipeline stages (default: metadata, then 3)",
       KILN_MOST_STAGES},
  };
  const cli_page page = {
      "kiln translate [options] FILE.ttir",
      "Prints the kernel of a Triton IR file in the kernel language, one operation a line.", options,
      sizeof options / sizeof *options};
  plan_init(&p);
  int code = cli_parse_one(&page, argc, argv, "source", &t.words);
  if (code == -1 && take_target(&t, &p, &err) != KILN_OK) code = cli_misuse(err.status, &err);
  if (code == -1) {
    kiln_status status = translate_source(&t, &p, &err);
    code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  plan_deinit(&p);
  cli_list_deinit(&t.words);
  cli_list_deinit(&t.only);
  return code;
}
