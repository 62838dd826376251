// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a recorded case and packs its arguments.
#include "tools/case/recording.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "compiler/ir/ir.h"
#include "tools/common/cli.h"

enum { MOST_TEXT = 64 << 20 };
static const size_t most_buffer = (size_t)8 << 30;

typedef struct dtype {
  const char *name;
  case_element element;
} dtype;

// Type names in the spelling of PyTorch and of Triton signatures; types that are not listed are compared byte
// by byte.
static const dtype dtypes[] = {
    {"torch.float64", CASE_F64},
    {"torch.float32", CASE_F32},
    {"torch.float16", CASE_F16},
    {"torch.bfloat16", CASE_BF16},
    {"torch.float8_e4m3fn", CASE_E4M3},
    {"torch.float8_e5m2", CASE_E5M2},
    {"*fp64", CASE_F64},
    {"*fp32", CASE_F32},
    {"*fp16", CASE_F16},
    {"*bf16", CASE_BF16},
    {"*fp8e4nv", CASE_E4M3},
    {"*fp8e5", CASE_E5M2},
};

static case_element element_of(const char *name) {
  for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
    if (!strcmp(dtypes[i].name, name)) return dtypes[i].element;
  return CASE_BYTES;
}

static const char *path_of(const case_file *c, const char *name) {
  return kiln_arena_format(c->arena, "%s/%s", c->folder, name);
}

static kiln_status wrong(const case_file *c, kiln_error *err, const char *what, const char *name) {
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s/case.json: expected %s%s%s", c->folder, what,
                   name ? " of argument " : "", name ? name : "");
}

static bool read_integers(const kiln_json *list, int64_t *out, uint32_t *out_count) {
  *out_count = 0;
  if (!list || list->kind != KILN_JSON_ARRAY || list->count > CASE_MAX_RANK) return false;
  for (const kiln_json *item = list->first; item; item = item->next)
    if (!kiln_json_integer(item, &out[(*out_count)++])) return false;
  return true;
}

static kiln_status read_grid(case_file *c, const kiln_json *root, kiln_error *err) {
  int64_t grid[CASE_MAX_RANK];
  uint32_t count;
  bool ok = read_integers(kiln_json_find(root, "grid"), grid, &count) && count >= 1 && count <= 3;
  for (uint32_t i = 0; i < 3; i++) {
    int64_t extent = ok && i < count ? grid[i] : 1;
    if (extent < 0 || extent > INT32_MAX) ok = false;
    else c->grid[i] = (uint32_t)extent;
  }
  return ok ? KILN_OK : wrong(c, err, "a grid of 1 to 3 extents", NULL);
}

static kiln_status read_buffers(case_file *c, const kiln_json *root, kiln_error *err) {
  const kiln_json *list = kiln_json_find(root, "buffers");
  if (!list || list->kind != KILN_JSON_ARRAY || list->count > CASE_MAX_BUFFERS)
    return wrong(c, err, "at most 256 buffers", NULL);
  c->buffers = KILN_NEW_ARRAY(c->arena, case_buffer, list->count);
  for (const kiln_json *item = list->first; item; item = item->next) {
    case_buffer *b = &c->buffers[c->buffer_count];
    int64_t size;
    if (!kiln_json_integer(kiln_json_find(item, "bytes"), &size) || size < 0 || (uint64_t)size > most_buffer)
      return wrong(c, err, "a size for each buffer", NULL);
    const kiln_json *changed = kiln_json_find(item, "changed");
    b->size = (uint64_t)size;
    b->changed = changed && changed->kind == KILN_JSON_TRUE;
    b->name = "";
    c->buffer_count++;
  }
  return KILN_OK;
}

static kiln_status read_tensor(case_file *c, const kiln_json *item, case_arg *arg, kiln_error *err) {
  int64_t buffer, offset = 0;
  uint32_t strides = 0;
  if (!kiln_json_integer(kiln_json_find(item, "buffer"), &buffer)) { // described, not recorded
    if (c->golden && strcmp(kiln_json_text(item, "kind", ""), "NoneType"))
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "the memory of argument %s was not recorded", arg->name);
    arg->kind = CASE_NULL;
    return KILN_OK;
  }
  const kiln_json *place = kiln_json_find(item, "offset_bytes");
  if (place && !kiln_json_integer(place, &offset)) return wrong(c, err, "a whole offset_bytes", arg->name);
  if (buffer < 0 || buffer >= c->buffer_count || offset < 0 || (uint64_t)offset > c->buffers[buffer].size)
    return wrong(c, err, "a buffer that exists and an offset inside it", arg->name);
  arg->kind = CASE_TENSOR;
  arg->buffer = (uint32_t)buffer;
  arg->offset = (uint64_t)offset;
  bool shaped = read_integers(kiln_json_find(item, "shape"), arg->shape, &arg->rank);
  if (!shaped || !read_integers(kiln_json_find(item, "stride"), arg->stride, &strides) ||
      strides != arg->rank)
    arg->rank = 0;
  case_buffer *b = &c->buffers[buffer];
  if (!*b->name) {
    const char *type = kiln_json_text(item, "dtype", kiln_json_text(item, "sig", ""));
    b->name = arg->name;
    b->element = element_of(type);
    b->addresses = strstr(type, "int64") || !strcmp(type, "*i64") || !strcmp(type, "*u64");
  }
  return KILN_OK;
}

static kiln_status read_number(const case_file *c, const char *kind, const char *text, case_arg *arg,
                               kiln_error *err) {
  char *end;
  if (!strcmp(kind, "bool")) {
    arg->kind = CASE_INTEGER;
    arg->integer = !strcmp(text, "True") || !strcmp(text, "true") || !strcmp(text, "1");
    return KILN_OK;
  }
  arg->kind = CASE_INTEGER;
  arg->integer = strtoll(text, &end, 10);
  if (*text && *end == 0) return KILN_OK;
  arg->kind = CASE_FLOAT;
  arg->number = strtod(text, &end);
  return *text && *end == 0 ? KILN_OK : wrong(c, err, "a number as value", arg->name);
}

static kiln_status read_arg(case_file *c, const kiln_json *item, kiln_error *err) {
  const char *kind = kiln_json_text(item, "kind", "");
  const char *signature = kiln_json_text(item, "sig", "");
  if (!strcmp(signature, "constexpr")) return KILN_OK;
  case_arg *arg = &c->args[c->arg_count++];
  arg->name = kiln_json_text(item, "name", "");
  const char *value = kiln_json_text(item, "value", NULL);
  bool points = signature[0] == '*' || !strncmp(signature, "tensordesc", 10);
  if (!value || points) return read_tensor(c, item, arg, err);
  return read_number(c, kind, value, arg, err);
}

static kiln_status read_args(case_file *c, const kiln_json *root, kiln_error *err) {
  const kiln_json *list = kiln_json_find(root, "args");
  if (!list || list->kind != KILN_JSON_ARRAY || list->count > CASE_MAX_ARGS)
    return wrong(c, err, "at most 1024 args", NULL);
  c->args = KILN_NEW_ARRAY(c->arena, case_arg, list->count);
  for (const kiln_json *item = list->first; item; item = item->next) KILN_TRY(read_arg(c, item, err));
  return KILN_OK;
}

static kiln_status read_memory(case_file *c, const char *prefix, uint32_t index, kiln_buffer *out,
                               kiln_error *err) {
  const char *path = path_of(c, kiln_arena_format(c->arena, "%s%u.bin", prefix, index));
  KILN_TRY(cli_read_file(path, "", most_buffer, out, err));
  if (out->size == c->buffers[index].size) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: expected %llu bytes, found %zu", path,
                   (unsigned long long)c->buffers[index].size, out->size);
}

static kiln_status read_memories(case_file *c, kiln_error *err) {
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    KILN_TRY(read_memory(c, "in", i, &c->buffers[i].before, err));
    if (c->buffers[i].changed) KILN_TRY(read_memory(c, "out", i, &c->buffers[i].after, err));
  }
  return KILN_OK;
}

static const char *last_part(kiln_arena *arena, const char *folder) {
  size_t end = strlen(folder), begin;
  while (end > 1 && folder[end - 1] == '/') end--;
  for (begin = end; begin > 0 && folder[begin - 1] != '/';) begin--;
  return kiln_arena_text(arena, folder + begin, end - begin);
}

kiln_status case_file_read(kiln_arena *arena, const char *folder, case_file *c, kiln_error *err) {
  const kiln_json *root;
  *c = (case_file){.arena = arena, .folder = folder, .name = last_part(arena, folder)};
  KILN_TRY(cli_read_file(path_of(c, "kernel.ttir"), "", MOST_TEXT, &c->text, err));
  KILN_TRY(cli_read_file(path_of(c, "case.json"), "", MOST_TEXT, &c->metadata, err));
  kiln_status status = kiln_json_parse(arena, (const char *)c->metadata.bytes, c->metadata.size, &root, err);
  if (status != KILN_OK) return kiln_context(err, status, "%s/case.json", folder);
  const kiln_json *golden = kiln_json_find(root, "golden");
  c->golden = golden && golden->kind == KILN_JSON_TRUE;
  KILN_TRY(read_grid(c, root, err));
  KILN_TRY(read_buffers(c, root, err));
  KILN_TRY(read_args(c, root, err));
  return c->golden ? read_memories(c, err) : KILN_OK;
}

// --------------------------------------------------------------------------------------- addresses

enum { ADDRESS_ROOM = 64 << 20 };
static const uint64_t lowest_address = 1ull << 32, highest_address = 1ull << 47, address_step = 2 << 20;

static uint64_t word_at(const uint8_t *bytes) {
  uint64_t word = 0;
  for (unsigned i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << 8 * i;
  return word;
}

static bool is_address(uint64_t word) { return word >= lowest_address && word < highest_address; }

case_span case_file_addresses(const case_file *c) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    const kiln_buffer *memory = &c->buffers[i].before;
    for (size_t at = 0; c->buffers[i].addresses && at + 8 <= memory->size; at += 8) {
      uint64_t word = word_at(memory->bytes + at);
      if (!is_address(word)) continue;
      if (word < low) low = word;
      if (word > high) high = word;
    }
  }
  if (high == 0) return (case_span){0};
  low -= low % address_step;
  return (case_span){.begin = low, .size = high - low + ADDRESS_ROOM};
}

static void relocate(kiln_buffer *memory, case_span span, uint64_t to) {
  for (size_t at = 0; at + 8 <= memory->size; at += 8) {
    uint64_t word = word_at(memory->bytes + at);
    if (!is_address(word)) continue;
    word = word - span.begin + to;
    for (unsigned i = 0; i < 8; i++) memory->bytes[at + i] = (uint8_t)(word >> 8 * i);
  }
}

void case_file_relocate(case_file *c, case_span span, uint64_t to) {
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    if (!c->buffers[i].addresses) continue;
    relocate(&c->buffers[i].before, span, to);
    relocate(&c->buffers[i].after, span, to);
  }
}

void case_file_deinit(case_file *c) {
  kiln_buffer_deinit(&c->text);
  kiln_buffer_deinit(&c->metadata);
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    kiln_buffer_deinit(&c->buffers[i].before);
    kiln_buffer_deinit(&c->buffers[i].after);
  }
}

// ----------------------------------------------------------------------------------------- packing

static void append_bits(kiln_buffer *out, uint64_t bits, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) kiln_buffer_u8(out, (uint8_t)(bits >> 8 * i));
}

static void pad_to(kiln_buffer *out, uint32_t offset) {
  while (out->size < offset && !out->failed) kiln_buffer_u8(out, 0);
}

static uint64_t number_bits(const case_arg *arg, kiln_scalar scalar) {
  bool is_float = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  if (is_float)
    return ir_float_to_bits(scalar, arg->kind == CASE_FLOAT ? arg->number : (double)arg->integer, true);
  return arg->kind == CASE_FLOAT ? (uint64_t)(int64_t)arg->number : (uint64_t)arg->integer;
}

static uint64_t address_of(const case_arg *arg, const uint64_t *addresses) {
  return arg->kind == CASE_TENSOR ? addresses[arg->buffer] + arg->offset : 0;
}

static kiln_status misfit(const case_file *c, const char *param, const char *what, kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_ABI, "%s: parameter %s: expected %s", c->name, param, what);
}

static kiln_status put_view(const case_file *c, const kiln_param_record *param, const case_arg *arg,
                            const uint64_t *addresses, kiln_buffer *out, kiln_error *err) {
  if (arg->kind != CASE_TENSOR || arg->rank != param->view_rank)
    return misfit(c, param->name, "a tensor of the view's rank", err);
  append_bits(out, address_of(arg, addresses), 8);
  for (uint32_t i = 0; i < arg->rank; i++) append_bits(out, (uint64_t)arg->shape[i], 8);
  for (uint32_t i = 0; i < arg->rank; i++) append_bits(out, (uint64_t)arg->stride[i], 8);
  return KILN_OK;
}

// Extents and strides that follow a host descriptor: parameter `at` counts from the first one after it.
static uint64_t descriptor_number(const case_arg *arg, uint32_t at) {
  return (uint64_t)(at < arg->rank ? arg->shape[at] : arg->stride[at - arg->rank]);
}

kiln_status case_file_pack(const case_file *c, const kiln_interface *interface, const uint64_t *addresses,
                           kiln_buffer *out, kiln_error *err) {
  const case_arg *descriptor = NULL;
  uint32_t at = 0, following = 0;
  kiln_buffer_clear(out);
  for (uint32_t i = 0; i < interface->param_count; i++) {
    const kiln_param_record *param = &interface->params[i];
    pad_to(out, param->offset);
    if (descriptor && following < 2 * descriptor->rank) {
      append_bits(out, descriptor_number(descriptor, following++), kiln_scalars[param->scalar].bytes);
      continue;
    }
    descriptor = NULL;
    if (at >= c->arg_count)
      return kiln_fail(err, KILN_STATUS_ABI, "%s: the kernel has %u parameters, the case has %u arguments",
                       c->name, interface->param_count, c->arg_count);
    KILN_ASSERT(c->args);
    const case_arg *arg = &c->args[at++];
    if (param->view_rank) {
      KILN_TRY(put_view(c, param, arg, addresses, out, err));
      descriptor = arg;
      following = 0;
    } else if (param->pointer) {
      if (arg->kind != CASE_TENSOR && arg->kind != CASE_NULL) return misfit(c, param->name, "a tensor", err);
      append_bits(out, address_of(arg, addresses), 8);
    } else {
      if (arg->kind == CASE_TENSOR) return misfit(c, param->name, "a number", err);
      append_bits(out, number_bits(arg, (kiln_scalar)param->scalar), kiln_scalars[param->scalar].bytes);
    }
  }
  pad_to(out, interface->block_bytes);
  if (at != c->arg_count)
    return kiln_fail(err, KILN_STATUS_ABI, "%s: the kernel takes %u arguments, the case has %u", c->name, at,
                     c->arg_count);
  return out->failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", c->name)
                     : KILN_OK;
}
