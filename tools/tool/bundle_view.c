// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/tool/bundle_view.h"

#include <string.h>

#include "tools/tool/pack_family.h"

static kiln_status read_code(bundle_view *v, uint32_t number, view_code *out, kiln_error *err) {
  KILN_TRY(kiln_bundle_code_at(v->bundle, number, &out->entry, err));
  KILN_TRY(kiln_bundle_blob_at(v->bundle, out->entry.blob, &out->blob, err));
  out->target = kiln_bundle_target_at(v->bundle, out->entry.target, err);
  out->info_bytes = out->target ? kiln_bundle_record(v->bundle, out->entry.info, &out->info_size, err) : NULL;
  if (!out->info_bytes) return KILN_STATUS_CORRUPT;
  if (kiln_code_info_decode(out->info_bytes, out->info_size, &out->info)) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the code info of code %u is damaged", v->bundle->name,
                   number);
}

static kiln_status read_kernel(bundle_view *v, uint32_t number, view_kernel *out, kiln_error *err) {
  kiln_kernel_entry entry;
  KILN_TRY(kiln_bundle_kernel_at(v->bundle, number, &entry, err));
  out->name = kiln_bundle_text(v->bundle, entry.name, err);
  out->record = out->name ? kiln_bundle_record(v->bundle, entry.interface, &out->record_size, err) : NULL;
  if (!out->record) return KILN_STATUS_CORRUPT;
  if (!kiln_interface_decode(v->arena, out->record, out->record_size, &out->interface))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the interface of '%s' is damaged", v->bundle->name,
                     out->name);
  kiln_layout_params(&out->interface);
  out->codes = KILN_NEW_ARRAY(v->arena, view_code, entry.code_count);
  out->code_count = entry.code_count;
  for (uint32_t i = 0; i < entry.code_count; i++) {
    KILN_TRY(read_code(v, entry.code + i, &out->codes[i], err));
    const kiln_code_entry *c = &out->codes[i].entry;
    if (c->config >= out->interface.config_count || c->variant >= out->interface.variant_count)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: '%s' has code for config %u of %u, variant %u of %u",
                       v->bundle->name, out->name, c->config, out->interface.config_count, c->variant,
                       out->interface.variant_count);
  }
  return KILN_OK;
}

static kiln_status read_notes(bundle_view *v, kiln_error *err) {
  v->note_count = (uint32_t)v->bundle->section_count[KILN_BUNDLE_NOTES];
  v->notes = KILN_NEW_ARRAY(v->arena, view_note, v->note_count);
  for (uint32_t i = 0; i < v->note_count; i++) {
    const uint8_t *at = kiln_bundle_in(v->bundle, KILN_BUNDLE_NOTES, (uint64_t)i * 8, 8, err);
    if (!at || !(v->notes[i].key = kiln_bundle_text(v->bundle, kiln_le32(at), err)) ||
        !(v->notes[i].value = kiln_bundle_text(v->bundle, kiln_le32(at + 4), err)))
      return KILN_STATUS_CORRUPT;
  }
  return KILN_OK;
}

static kiln_status read_kernels(bundle_view *v, kiln_error *err) {
  v->kernel_count = (uint32_t)v->bundle->section_count[KILN_BUNDLE_NAMES];
  v->kernels = KILN_NEW_ARRAY(v->arena, view_kernel, v->kernel_count);
  for (uint32_t i = 0; i < v->kernel_count; i++) {
    const uint8_t *number = kiln_bundle_in(v->bundle, KILN_BUNDLE_NAMES, (uint64_t)i * 4, 4, err);
    if (!number) return KILN_STATUS_CORRUPT;
    KILN_TRY(read_kernel(v, kiln_le32(number), &v->kernels[i], err));
  }
  return KILN_OK;
}

static kiln_status open_source(const kiln_source *source, bundle_view *out, kiln_error *err) {
  kiln_open_options options = {.size = sizeof options};
  *out = (bundle_view){.arena = kiln_arena_create()};
  if (!out->arena) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = kiln_bundle_open(source, &options, &out->bundle, err);
  if (status == KILN_OK) status = read_kernels(out, err);
  if (status == KILN_OK) status = read_notes(out, err);
  if (status != KILN_OK) bundle_view_close(out);
  return status;
}

kiln_status bundle_view_open(const char *path, bundle_view *out, kiln_error *err) {
  return open_source(&(kiln_source){.path = path}, out, err);
}

kiln_status bundle_view_open_bytes(const void *bytes, size_t size, bundle_view *out, kiln_error *err) {
  return open_source(&(kiln_source){.bytes = bytes, .size = size}, out, err);
}

void bundle_view_close(bundle_view *v) {
  kiln_bundle_close(v->bundle);
  kiln_arena_destroy(v->arena);
  memset(v, 0, sizeof *v);
}

// ----------------------------------------------------------------------------------------- copying

static kiln_status copy_code(const bundle_view *v, const view_code *from, uint32_t kernel,
                             kiln_bundle_writer *w, kiln_error *err) {
  char family[KILN_TOOL_FAMILY];
  kiln_bytes bytes;
  kiln_bundle_code code = {.kernel = kernel,
                           .config = from->entry.config,
                           .variant = from->entry.variant,
                           .target = from->target,
                           .family = family,
                           .info = from->info_bytes,
                           .info_size = from->info_size};
  KILN_TRY(kiln_tool_family(from->target, from->info.format, family, &code.flags, err));
  if (from->entry.maps != KILN_BUNDLE_NONE &&
      !(code.maps = kiln_bundle_record(v->bundle, from->entry.maps, &code.maps_size, err)))
    return KILN_STATUS_CORRUPT;
  KILN_TRY(kiln_bundle_load(v->bundle, from->entry.blob, &bytes, err));
  code.code = bytes.bytes;
  code.code_size = bytes.size;
  kiln_status status = kiln_bundle_writer_code(w, &code, err);
  kiln_bytes_deinit(&bytes);
  return status;
}

static kiln_status copy_kernel(const bundle_view *v, const view_kernel *k, kiln_bundle_writer *w,
                               bundle_filter *filter, void *context, bool first_wins, kiln_error *err) {
  uint32_t number = KILN_BUNDLE_NONE;
  for (uint32_t i = 0; i < k->code_count; i++) {
    if (filter && !filter(context, k, &k->codes[i])) continue;
    kiln_status status = number == KILN_BUNDLE_NONE
                             ? kiln_bundle_writer_kernel(w, k->name, k->record, k->record_size, &number, err)
                             : KILN_OK;
    // Another interface of the same name: the codes of the two cannot stand together.
    if (status == KILN_STATUS_EXISTS && first_wins) return KILN_OK;
    if (status == KILN_OK) status = copy_code(v, &k->codes[i], number, w, err);
    if (status != KILN_OK && !(status == KILN_STATUS_EXISTS && first_wins)) return status;
  }
  return KILN_OK;
}

kiln_status bundle_view_copy(const bundle_view *v, kiln_bundle_writer *w, bundle_filter *filter,
                             void *context, bool first_wins, kiln_error *err) {
  for (uint32_t i = 0; i < v->kernel_count; i++)
    KILN_TRY(copy_kernel(v, &v->kernels[i], w, filter, context, first_wins, err));
  for (uint32_t i = 0; i < v->note_count; i++) {
    kiln_status status = kiln_bundle_writer_note(w, v->notes[i].key, v->notes[i].value, err);
    if (status != KILN_OK && !(status == KILN_STATUS_EXISTS && first_wins)) return status;
  }
  return KILN_OK;
}
