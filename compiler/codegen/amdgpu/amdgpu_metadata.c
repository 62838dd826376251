// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a code object says about a kernel: the note NT_AMDGPU_METADATA, a MessagePack map (LLVM's AMDGPUUsage,
// "Code Object V3+ Metadata").
//
//   { "amdhsa.kernels": [ { ".name": text, ".vgpr_count": number, ... } ... ], "amdhsa.target": text,
//   "amdhsa.version": [1, minor] }
#include <string.h>

#include "base/buffer.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/finish/finish_elf.h"

enum { NOTE_METADATA = 32, PACK_DEPTH = 32 };

// ------------------------------------------------------------------------------------- MessagePack

typedef enum pack_kind {
  PACK_NIL,
  PACK_BOOL,
  PACK_NUMBER,
  PACK_TEXT,
  PACK_ARRAY,
  PACK_MAP,
  PACK_OTHER
} pack_kind;

// A value: a number or truth in `number`, a text in `bytes`, the element count of array or map in `number`.
typedef struct pack_value {
  pack_kind kind;
  uint64_t number;
  kiln_span bytes;
} pack_value;

static uint64_t read_big(kiln_reader *r, unsigned bytes) {
  uint64_t v = 0;
  while (bytes--) v = v << 8 | kiln_read_u8(r);
  return v;
}

static pack_value read_text(kiln_reader *r, pack_kind kind, uint64_t size) {
  const uint8_t *at = size <= r->left ? kiln_read_bytes(r, size) : NULL;
  r->failed = r->failed || (!at && size);
  return (pack_value){.kind = kind, .bytes = {at, at ? size : 0}};
}

// First bytes 0xc0 to 0xdf: how many bytes follow as a number, and what the number is.
typedef struct pack_row {
  uint8_t kind, width;
  bool is_size; // a length or count, not the value
} pack_row;

static const pack_row pack_rows[32] = {
    [0x00] = {PACK_NIL, 0, false},    [0x02] = {PACK_BOOL, 0, false},   [0x03] = {PACK_BOOL, 0, false},
    [0x04] = {PACK_OTHER, 1, true},   [0x05] = {PACK_OTHER, 2, true},   [0x06] = {PACK_OTHER, 4, true},
    [0x0a] = {PACK_OTHER, 4, false},  [0x0b] = {PACK_OTHER, 8, false},  [0x0c] = {PACK_NUMBER, 1, false},
    [0x0d] = {PACK_NUMBER, 2, false}, [0x0e] = {PACK_NUMBER, 4, false}, [0x0f] = {PACK_NUMBER, 8, false},
    [0x10] = {PACK_NUMBER, 1, false}, [0x11] = {PACK_NUMBER, 2, false}, [0x12] = {PACK_NUMBER, 4, false},
    [0x13] = {PACK_NUMBER, 8, false}, [0x19] = {PACK_TEXT, 1, true},    [0x1a] = {PACK_TEXT, 2, true},
    [0x1b] = {PACK_TEXT, 4, true},    [0x1c] = {PACK_ARRAY, 2, true},   [0x1d] = {PACK_ARRAY, 4, true},
    [0x1e] = {PACK_MAP, 2, true},     [0x1f] = {PACK_MAP, 4, true},
};

static pack_value read_value(kiln_reader *r) {
  uint8_t first = kiln_read_u8(r);
  if (first < 0x80 || first >= 0xe0) return (pack_value){.kind = PACK_NUMBER, .number = first};
  if (first < 0x90) return (pack_value){.kind = PACK_MAP, .number = first & 15};
  if (first < 0xa0) return (pack_value){.kind = PACK_ARRAY, .number = first & 15};
  if (first < 0xc0) return read_text(r, PACK_TEXT, first & 31);
  pack_row row = pack_rows[first & 31];
  uint64_t number = read_big(r, row.width);
  if (row.is_size && (row.kind == PACK_TEXT || row.kind == PACK_OTHER)) return read_text(r, row.kind, number);
  return (pack_value){.kind = row.kind, .number = row.kind == PACK_BOOL ? first & 1u : number};
}

static void skip_inside(kiln_reader *r, pack_value v, unsigned depth) {
  if (v.kind != PACK_ARRAY && v.kind != PACK_MAP) return;
  if (depth > PACK_DEPTH) r->failed = true;
  uint64_t count = v.kind == PACK_MAP ? v.number * 2 : v.number;
  for (uint64_t i = 0; i < count && !r->failed; i++) skip_inside(r, read_value(r), depth + 1);
}

static bool is_text(pack_value v, const char *text) {
  return v.kind == PACK_TEXT && v.bytes.size == strlen(text) &&
         memcmp(v.bytes.bytes, text, v.bytes.size) == 0;
}

// ----------------------------------------------------------------------------------------- kernels

static const struct {
  const char *key;
  size_t offset;
} kernel_numbers[] = {
    {".group_segment_fixed_size", offsetof(kiln_amdgpu_facts, lds_bytes)},
    {".private_segment_fixed_size", offsetof(kiln_amdgpu_facts, private_bytes)},
    {".kernarg_segment_size", offsetof(kiln_amdgpu_facts, kernarg_bytes)},
    {".kernarg_segment_align", offsetof(kiln_amdgpu_facts, kernarg_align)},
    {".vgpr_count", offsetof(kiln_amdgpu_facts, vgprs)},
    {".agpr_count", offsetof(kiln_amdgpu_facts, agprs)},
    {".sgpr_count", offsetof(kiln_amdgpu_facts, sgprs)},
    {".vgpr_spill_count", offsetof(kiln_amdgpu_facts, vgpr_spills)},
    {".sgpr_spill_count", offsetof(kiln_amdgpu_facts, sgpr_spills)},
    {".wavefront_size", offsetof(kiln_amdgpu_facts, wave)},
    {".max_flat_workgroup_size", offsetof(kiln_amdgpu_facts, max_threads)},
};

static void set_number(kiln_amdgpu_facts *out, pack_value key, uint64_t number) {
  for (size_t i = 0; i < sizeof kernel_numbers / sizeof *kernel_numbers; i++)
    if (is_text(key, kernel_numbers[i].key))
      *(uint32_t *)(void *)((char *)out + kernel_numbers[i].offset) = (uint32_t)number;
}

// The list of arguments: a map each.
static void read_args(kiln_reader *r, pack_value list, kiln_amdgpu_facts *out) {
  if (list.kind != PACK_ARRAY) r->failed = true;
  for (uint64_t i = 0; i < list.number && !r->failed; i++) {
    pack_value map = read_value(r);
    if (map.kind != PACK_MAP) r->failed = true;
    for (uint64_t j = 0; j < map.number && !r->failed; j++) {
      pack_value key = read_value(r), value = read_value(r);
      if (i < KILN_AMDGPU_ARGS && is_text(key, ".offset")) out->args[i].offset = (uint32_t)value.number;
      if (i < KILN_AMDGPU_ARGS && is_text(key, ".size")) out->args[i].size = (uint32_t)value.number;
      skip_inside(r, value, 0);
    }
  }
  out->arg_count = (uint32_t)list.number;
}

// One map of amdhsa.kernels; true when it is the one called `symbol`.
static bool read_kernel(kiln_reader *r, const char *symbol, kiln_amdgpu_facts *out) {
  pack_value map = read_value(r);
  bool found = false;
  if (map.kind != PACK_MAP) r->failed = true;
  for (uint64_t i = 0; i < map.number && !r->failed; i++) {
    pack_value key = read_value(r), value = read_value(r);
    if (is_text(key, ".name")) found = is_text(value, symbol);
    if (is_text(key, ".uses_dynamic_stack")) out->dynamic_stack = value.number != 0;
    if (value.kind == PACK_NUMBER) set_number(out, key, value.number);
    if (is_text(key, ".args")) read_args(r, value, out);
    else skip_inside(r, value, 0);
  }
  return found;
}

static bool read_kernels(kiln_reader *r, pack_value list, const char *symbol, kiln_amdgpu_facts *out) {
  if (list.kind != PACK_ARRAY) r->failed = true;
  bool found = false;
  for (uint64_t i = 0; i < list.number && !r->failed; i++) {
    kiln_amdgpu_facts one = {0};
    if (!read_kernel(r, symbol, &one)) continue;
    memcpy(one.target, out->target, sizeof one.target);
    one.code_object = out->code_object;
    *out = one, found = true;
  }
  return found;
}

static void copy_text(pack_value v, char *out, size_t capacity) {
  size_t size = v.bytes.size < capacity - 1 ? v.bytes.size : capacity - 1;
  if (v.kind != PACK_TEXT || !size) return;
  memcpy(out, v.bytes.bytes, size);
  out[size] = 0;
}

static kiln_status read_metadata(kiln_reader *r, const char *symbol, kiln_amdgpu_facts *out,
                                 kiln_error *err) {
  pack_value top = read_value(r);
  bool found = false;
  for (uint64_t i = 0; top.kind == PACK_MAP && i < top.number && !r->failed; i++) {
    pack_value key = read_value(r), value = read_value(r);
    if (is_text(key, "amdhsa.kernels")) {
      found = read_kernels(r, value, symbol, out) || found;
    } else {
      if (is_text(key, "amdhsa.target")) copy_text(value, out->target, sizeof out->target);
      skip_inside(r, value, 0);
    }
  }
  if (r->failed || top.kind != PACK_MAP)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "code object: its metadata is damaged");
  return found
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_NOT_FOUND, "code object: kernel %s is not in its metadata", symbol);
}

// -------------------------------------------------------------------------------------------- note

// The description of the first note of the wanted type: name size, size, type, name and description, each
// padded to 4.
static kiln_span find_note(kiln_span notes, uint32_t wanted) {
  kiln_reader r = kiln_reader_of(notes.bytes, notes.size);
  while (r.left && !r.failed) {
    uint32_t name_size = kiln_read_u32(&r), size = kiln_read_u32(&r), type = kiln_read_u32(&r);
    kiln_read_bytes(&r, ((size_t)name_size + 3) & ~(size_t)3);
    const uint8_t *at = size <= r.left ? kiln_read_bytes(&r, size) : NULL;
    if (at && type == wanted) return (kiln_span){at, size};
    size_t pad = (4 - size % 4) % 4;
    if (!at || r.left < pad) break;
    kiln_read_bytes(&r, pad);
  }
  return (kiln_span){0};
}

kiln_status kiln_amdgpu_read_facts(const uint8_t *object, size_t size, const char *symbol,
                                   kiln_amdgpu_facts *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  elf_file file;
  elf_section notes;
  if (!elf_open(object, size, &file))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "code object: expected an ELF file in %zu bytes", size);
  if (!elf_section_find(&file, NULL, SHT_NOTE, &notes))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "code object: it has no notes");
  kiln_span metadata = find_note(notes.bytes, NOTE_METADATA);
  if (!metadata.bytes) return kiln_fail(err, KILN_STATUS_CORRUPT, "code object: it has no metadata note");
  // EI_ABIVERSION is 2 for version 4, 3 for 5, 4 for 6.
  out->code_object = object[EI_ABIVERSION] + 2u;
  kiln_reader r = kiln_reader_of(metadata.bytes, metadata.size);
  return read_metadata(&r, symbol, out, err);
}
