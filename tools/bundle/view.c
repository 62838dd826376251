// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a whole bundle into arrays of kernels, codes and notes for the tools.
#include "tools/bundle/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launches.h"
#include "base/sizes.h"
#include "tools/bundle/dictionary_family.h"
#include "tools/common/cli.h"

static kiln_status read_code(bundle_view *v, const kiln_kernel_entry *kernel, uint32_t index, view_code *out,
                             kiln_error *err) {
  KILN_TRY(kiln_bundle_code_at(v->bundle, kernel, index, &out->entry, err));
  KILN_TRY(kiln_bundle_blob_at(v->bundle, out->entry.blob, &out->blob, err));
  out->target = kiln_bundle_target_at(v->bundle, out->entry.target, err);
  out->info_bytes = out->target ? kiln_bundle_info(v->bundle, out->entry.info, &out->info_size, err) : NULL;
  if (!out->info_bytes) return KILN_STATUS_CORRUPT;
  if (kiln_code_info_decode(out->info_bytes, out->info_size, &out->info)) return KILN_OK;
  return kiln_record_refuse(err, KILN_RECORD_CODE_INFO, out->info_bytes, out->info_size,
                            "%s: the info of code %u of kernel %u", v->bundle->name, index, kernel->number);
}

// The interface of a kernel has the kernel's name, so a file cannot make one interface be decoded for many
// kernels.
static kiln_status read_kernel(bundle_view *v, const kiln_kernel_entry *entry, view_kernel *out,
                               kiln_error *err) {
  out->name = kiln_bundle_text(v->bundle, entry->name, err);
  out->record = out->name ? kiln_bundle_record(v->bundle, entry->interface, &out->record_size, err) : NULL;
  if (!out->record) return KILN_STATUS_CORRUPT;
  if (!kiln_interface_decode(v->arena, out->record, out->record_size, &out->interface) ||
      strcmp(out->interface.name, out->name))
    return kiln_record_refuse(err, KILN_RECORD_INTERFACE, out->record, out->record_size,
                              "%s: the interface of '%s'", v->bundle->name, out->name);
  kiln_layout_params(&out->interface);
  out->codes = KILN_NEW_ARRAY(v->arena, view_code, entry->code_count);
  out->code_count = entry->code_count;
  for (uint32_t i = 0; i < entry->code_count; i++) {
    KILN_TRY(read_code(v, entry, i, &out->codes[i], err));
    const kiln_code_entry *c = &out->codes[i].entry;
    if (c->config >= out->interface.config_count || c->variant >= out->interface.variant_count)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: '%s' has code for config %u of %u, variant %u of %u",
                       v->bundle->name, out->name, c->config, out->interface.config_count, c->variant,
                       out->interface.variant_count);
  }
  return KILN_OK;
}

static kiln_status read_notes(bundle_view *v, kiln_error *err) {
  size_t total = 0, size;
  v->note_count = (uint32_t)v->bundle->section_count[KILN_BUNDLE_NOTES];
  v->notes = KILN_NEW_ARRAY(v->arena, view_note, v->note_count);
  for (uint32_t i = 0; i < v->note_count; i++) {
    const uint8_t *at = kiln_bundle_in(v->bundle, KILN_BUNDLE_NOTES, (uint64_t)i * 8, 8, err);
    if (!at || !(v->notes[i].key = kiln_bundle_text(v->bundle, kiln_le32(at), err)) ||
        !(v->notes[i].value = (const char *)kiln_bundle_record(v->bundle, kiln_le32(at + 4), &size, err)))
      return KILN_STATUS_CORRUPT;
    total += strlen(v->notes[i].key) + size;
    if (total > KILN_BUNDLE_MAX_NOTES || memchr(v->notes[i].value, 0, size))
      return kiln_fail(err, KILN_STATUS_CORRUPT,
                       "%s: note %u is damaged, or the notes have more than %d bytes", v->bundle->name, i,
                       KILN_BUNDLE_MAX_NOTES);
  }
  return KILN_OK;
}

const char *bundle_view_note(const bundle_view *view, const view_note *note) {
  static const struct {
    const char *prefix, *reader;
  } rows[] = {{"triton ", "kiln.triton"}, {"torch ", "torch.compile"}, {"ninetoothed ", "NineToothed"}};
  const size_t size = strlen(note->value);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strncmp(note->key, rows[i].prefix, strlen(rows[i].prefix)) != 0) continue;
    if (size < 1024) return kiln_arena_format(view->arena, "%zu bytes for %s", size, rows[i].reader);
    return kiln_arena_format(view->arena, "%.1f KiB for %s", (double)size / 1024, rows[i].reader);
  }
  return note->value;
}

// In order of name, each once.
static kiln_status read_kernels(bundle_view *v, kiln_error *err) {
  v->kernel_count = (uint32_t)v->bundle->section_count[KILN_BUNDLE_NAMES];
  v->kernels = KILN_NEW_ARRAY(v->arena, view_kernel, v->kernel_count);
  for (uint32_t i = 0; i < v->kernel_count; i++) {
    kiln_kernel_entry entry;
    KILN_TRY(kiln_bundle_named_at(v->bundle, i, &entry, err));
    KILN_TRY(read_kernel(v, &entry, &v->kernels[i], err));
    if (i && strcmp(v->kernels[i - 1].name, v->kernels[i].name) >= 0)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the names '%.60s' and '%.60s' are not in order",
                       v->bundle->name, v->kernels[i - 1].name, v->kernels[i].name);
  }
  return kiln_bundle_statement(v->bundle, &v->statement, err);
}

static kiln_status open_source(const kiln_source *source, const char *name, bundle_view *out,
                               kiln_error *err) {
  kiln_open_options options = {.size = sizeof options};
  *out = (bundle_view){.arena = kiln_arena_create()};
  kiln_status status = kiln_bundle_open_named(source, name, &options, &out->bundle, err);
  if (status == KILN_OK) status = read_kernels(out, err);
  if (status == KILN_OK) status = read_notes(out, err);
  if (status != KILN_OK) bundle_view_close(out);
  return status;
}

kiln_status bundle_view_open(const char *path, bundle_view *out, kiln_error *err) {
  return open_source(&(kiln_source){.path = path}, path, out, err);
}

kiln_status bundle_view_open_bytes(const char *name, const void *bytes, size_t size, bundle_view *out,
                                   kiln_error *err) {
  return open_source(&(kiln_source){.bytes = bytes, .size = size}, name, out, err);
}

kiln_status bundle_view_read(const char *path, kiln_buffer *out, kiln_error *err) {
  enum { MOST_STREAMED = 1 << 30 };
  static const char magic[] = "PK\3\4"; // of an archive's first member
  if (!strcmp(path, "-")) return cli_read_file(path, magic, MOST_STREAMED, out, err);
  kiln_open_options options = {.size = sizeof options};
  kiln_bundle *found;
  KILN_TRY(kiln_bundle_open_named(&(kiln_source){.path = path}, path, &options, &found, err));
  kiln_bundle_close(found);
  return cli_read_file(path, "", (size_t)1 << 40, out, err);
}

void bundle_view_close(bundle_view *v) {
  kiln_bundle_close(v->bundle);
  kiln_arena_destroy(v->arena);
  memset(v, 0, sizeof *v);
}

// ----------------------------------------------------------------------------------------- copying

/// The digests of the blobs that were added, so that a blob that many codes share is decoded once.
typedef struct added_blobs {
  kiln_digest *digests; // owned; by number
  bool *known;          // owned
} added_blobs;

static kiln_status copy_code(const bundle_view *v, const view_code *from, uint32_t kernel, added_blobs *added,
                             kiln_bundle_writer *w, kiln_error *err) {
  char family[DICTIONARY_FAMILY];
  kiln_bytes bytes = {0};
  uint32_t blob = from->entry.blob;
  kiln_bundle_code code = {.kernel = kernel,
                           .config = from->entry.config,
                           .variant = from->entry.variant,
                           .target = from->target,
                           .family = family,
                           .info = from->info_bytes,
                           .info_size = from->info_size,
                           .digest = added->digests[blob].bytes};
  KILN_TRY(dictionary_family(from->target, from->info.format, family, &code.flags, err));
  if (from->entry.maps != KILN_BUNDLE_NONE &&
      !(code.maps = kiln_bundle_info(v->bundle, from->entry.maps, &code.maps_size, err)))
    return KILN_STATUS_CORRUPT;
  if (!added->known[blob]) {
    KILN_TRY(kiln_bundle_load(v->bundle, blob, &bytes, err));
    added->digests[blob] = kiln_digest_of(bytes.bytes, bytes.size);
    code.code = bytes.bytes;
    code.code_size = bytes.size;
  }
  kiln_status status = kiln_bundle_writer_code(w, &code, err);
  kiln_bytes_deinit(&bytes);
  if (status == KILN_OK) added->known[blob] = true;
  return status;
}

/// Notes about one kernel go where the kernel goes.
static const char *const of_kernels[] = {KILN_SIZES_PREFIX, KILN_LAUNCHES_PREFIX};
enum { OF_KERNELS = sizeof of_kernels / sizeof *of_kernels };

static bool is_of_kernel(const char *key) {
  bool is = false;
  for (size_t i = 0; i < OF_KERNELS; i++) is |= !strncmp(key, of_kernels[i], strlen(of_kernels[i]));
  return is;
}

static kiln_status copy_notes(const bundle_view *v, const view_kernel *k, kiln_bundle_writer *w,
                              kiln_error *err) {
  char key[sizeof KILN_LAUNCHES_PREFIX + KILN_BUNDLE_MAX_NAME];
  for (size_t i = 0; i < OF_KERNELS; i++) {
    size_t size;
    snprintf(key, sizeof key, "%s%s", of_kernels[i], k->name);
    const char *value = kiln_bundle_note(v->bundle, key, &size);
    if (value) KILN_TRY(kiln_bundle_writer_note(w, key, value, err));
  }
  return KILN_OK;
}

static kiln_status copy_kernel(const bundle_view *v, const view_kernel *k, kiln_bundle_writer *w,
                               bundle_filter *filter, void *context, bool first_wins, added_blobs *added,
                               kiln_error *err) {
  uint32_t number = KILN_BUNDLE_NONE;
  bool has_own = false; // code that the writer did not have
  for (uint32_t i = 0; i < k->code_count; i++) {
    if (filter && !filter(context, k, &k->codes[i])) continue;
    kiln_status status = number == KILN_BUNDLE_NONE
                             ? kiln_bundle_writer_kernel(w, k->name, k->record, k->record_size, &number, err)
                             : KILN_OK;
    if (status != KILN_OK) return status; // EXISTS: codes of two interfaces cannot be in one bundle
    status = copy_code(v, &k->codes[i], number, added, w, err);
    if (status != KILN_OK && !(status == KILN_STATUS_EXISTS && first_wins)) return status;
    has_own |= status == KILN_OK;
  }
  // EXISTS: what is checked before a launch, or launched in its place, would not be that of the code
  return has_own ? copy_notes(v, k, w, err) : KILN_OK;
}

kiln_status bundle_view_copy(const bundle_view *v, kiln_bundle_writer *w, bundle_filter *filter,
                             void *context, bool first_wins, kiln_error *err) {
  size_t blobs = (size_t)v->bundle->section_count[KILN_BUNDLE_BLOBS];
  added_blobs added = {calloc(blobs + 1, sizeof *added.digests), calloc(blobs + 1, sizeof *added.known)};
  kiln_status copied = added.digests && added.known
                           ? KILN_OK
                           : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  for (uint32_t i = 0; i < v->kernel_count && copied == KILN_OK; i++)
    copied = copy_kernel(v, &v->kernels[i], w, filter, context, first_wins, &added, err);
  free(added.digests);
  free(added.known);
  KILN_TRY(copied);
  for (uint32_t i = 0; i < v->note_count; i++) {
    if (is_of_kernel(v->notes[i].key)) continue;
    kiln_status status = kiln_bundle_writer_note(w, v->notes[i].key, v->notes[i].value, err);
    if (status != KILN_OK && !(status == KILN_STATUS_EXISTS && first_wins)) return status;
  }
  return KILN_OK;
}
