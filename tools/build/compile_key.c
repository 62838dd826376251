// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the cache key of a compile: every input that can change the code is a field of it.
#include "tools/build/compile_key.h"

#include <stdio.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/options.h"

static const char *mode_text(kiln_mode mode) {
  static const char *const texts[] = {
      [KILN_MODE_ANY] = "any", [KILN_MODE_ON] = "on", [KILN_MODE_OFF] = "off"};
  return texts[mode];
}

static void add_parameters(kiln_key_builder *b, const kiln_interface *interface) {
  kiln_buffer bytes = {0};
  for (uint32_t i = 0; i < interface->param_count; i++) {
    kiln_buffer_u8(&bytes, interface->params[i].scalar);
    kiln_buffer_u8(&bytes, interface->params[i].pointer);
    kiln_buffer_u8(&bytes, interface->params[i].view_rank);
  }
  kiln_key_add(b, KILN_FIELD_PARAMETERS, NULL, bytes.bytes, bytes.size);
  kiln_buffer_deinit(&bytes);
}

static void add_target(kiln_key_builder *b, const kiln_target *t) {
  char features[KILN_TARGET_FEATURES + 64];
  const kiln_processor *p = t->processor;
  kiln_key_text(b, KILN_FIELD_TRIPLE, kiln_target_triple(t));
  kiln_key_text(b, KILN_FIELD_PROCESSOR, kiln_target_cpu(t));
  kiln_key_named_text(b, KILN_FIELD_FEATURE, "list", kiln_target_features(t, features));
  if (p->ptx) kiln_key_named_number(b, KILN_FIELD_FORMAT_VERSION, "ptx", p->ptx);
  if (!t->code_object) return;
  kiln_key_named_text(b, KILN_FIELD_FEATURE, "xnack", mode_text(t->xnack));
  kiln_key_named_text(b, KILN_FIELD_FEATURE, "sramecc", mode_text(t->sramecc));
  kiln_key_named_number(b, KILN_FIELD_FEATURE, "wave", t->wave);
  kiln_key_named_number(b, KILN_FIELD_FORMAT_VERSION, "code_object", t->code_object);
}

// An option that cannot act on a family stays out of that family's keys: the PTX assembler does not split
// AMDGPU and host entries. The requested form is in FORMAT, resolved.
static void add_options(kiln_key_builder *b, const kiln_codegen_options *options, kiln_family family) {
  kiln_buffer value = {0};
  for (size_t i = 0; i < kiln_option_count(); i++) {
    const kiln_option_info *option = kiln_option_at(i);
    const bool acts = strcmp(option->name, "emit") &&
                      (kiln_family_of(family)->assembled || strcmp(option->name, "ptx-assembler"));
    if (!option->in_key || !acts) continue;
    kiln_buffer_clear(&value);
    kiln_option_value(options, option, &value);
    kiln_key_add(b, KILN_FIELD_OPTION, option->name, value.bytes, value.size);
  }
  kiln_buffer_deinit(&value);
}

kiln_status compile_key(const compile_inputs *in, kiln_key *out, kiln_error *err) {
  kiln_key_builder b;
  kiln_family family = in->target->processor->family;
  const kiln_family_info *f = kiln_family_of(family);
  kiln_key_begin(&b, KILN_KEY_COMPILE);
  kiln_key_add(&b, KILN_FIELD_IR, NULL, in->canonical->bytes, in->canonical->size);
  kiln_key_text(&b, KILN_FIELD_SYMBOL, in->symbol);
  add_parameters(&b, in->interface);
  add_target(&b, in->target);
  // The requested form, resolved. If the assembler does not know the processor, it is the other form.
  const bool is_assembled = f->assembled && in->options->assembler != KILN_ASSEMBLER_NONE;
  const char *form = kiln_format_name(in->options->output ? in->options->output : f->plain);
  char either[32];
  if (!in->options->output && is_assembled) {
    snprintf(either, sizeof either, "%s, else %s", kiln_format_name(f->assembled), form);
    form = either;
  }
  kiln_key_text(&b, KILN_FIELD_FORMAT, form);
  add_options(&b, in->options, family);
  if (in->positions->size)
    kiln_key_add(&b, KILN_FIELD_POSITION, NULL, in->positions->bytes, in->positions->size);
  kiln_key_add(&b, KILN_FIELD_COMPILER, NULL, in->who->compiler.digest.bytes, KILN_DIGEST_SIZE);
  if (f->assembled && in->who->assembler.text[0])
    kiln_key_named_text(&b, KILN_FIELD_TOOLCHAIN, "assembler", in->who->assembler.text);
  kiln_key_named_number(&b, KILN_FIELD_SCHEMA, "canonical", KILN_CANONICAL_VERSION);
  kiln_key_named_number(&b, KILN_FIELD_SCHEMA, "kernel_abi", KILN_KERNEL_ABI);
  kiln_status status = kiln_key_finish(&b, out, err);
  kiln_key_builder_deinit(&b);
  return status;
}
