// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/tensor_map.h"

#include <string.h>

#include "base/expr.h"
#include "runtime/device.h"
#include "runtime/launch.h"

// ---------------------------------------------------------------------------------------- decoding

static bool is_address(const kiln_param_record *p) { return p->pointer || p->view_rank; }

static bool is_integer(const kiln_param_record *p) {
  return is_address(p) || kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL);
}

// Only integers and addresses may be read.
static bool take_expression(const kiln_interface *in, kiln_reader *r, kiln_span *out) {
  out->bytes = kiln_read_block(r, &out->size);
  if (!out->bytes || !kiln_expr_verify(out->bytes, out->size, in->param_count)) return false;
  kiln_reader code = kiln_reader_of(out->bytes, out->size);
  while (code.left) {
    uint8_t op = kiln_read_u8(&code);
    if (op == KILN_EXPR_CONST) kiln_read_svarint(&code);
    if (op == KILN_EXPR_PARAM && !is_integer(&in->params[kiln_read_varint(&code)])) return false;
  }
  return true;
}

static bool take_map(const kiln_interface *in, kiln_reader *r, kiln_tensor_map *m) {
  m->element = kiln_read_u8(r);
  m->rank = kiln_read_u8(r);
  m->swizzle = kiln_read_u8(r);
  m->interleave = kiln_read_u8(r);
  m->fill = kiln_read_u8(r);
  m->param = kiln_read_u8(r);
  if (m->element >= KILN_SCALAR_COUNT || !m->rank || m->rank > KILN_MAP_RANK || m->swizzle > 3 ||
      m->interleave > 2 || m->fill > 1)
    return false;
  if (m->param >= in->param_count || !is_address(&in->params[m->param])) return false;
  for (unsigned i = 0; i < m->rank; i++) {
    const uint8_t *box = kiln_read_bytes(r, 4);
    if (!box) return false;
    m->box[i] = kiln_le32(box);
  }
  for (unsigned i = 0; i < m->rank; i++)
    if (!take_expression(in, r, &m->extents[i])) return false;
  for (unsigned i = 0; i + 1 < m->rank; i++)
    if (!take_expression(in, r, &m->strides[i])) return false;
  return take_expression(in, r, &m->offset);
}

kiln_status kiln_tensor_maps_decode(kiln_kernel *k, uint32_t record, kiln_code *code, kiln_error *err) {
  size_t size;
  const uint8_t *bytes = kiln_bundle_info(k->bundle, record, &size, err);
  if (!bytes) return KILN_STATUS_CORRUPT;
  kiln_reader r = kiln_reader_of(bytes, size);
  uint32_t count = kiln_read_u8(&r);
  bool is_whole =
      count <= KILN_MOST_MAPS && kiln_maps_end(kiln_maps_at(k->used_bytes), count) <= KILN_MOST_BLOCK;
  kiln_tensor_map *maps = KILN_NEW_ARRAY(k->arena, kiln_tensor_map, is_whole ? count : 0);
  if (!maps) return kiln_kernel_no_memory(k, err);
  for (uint32_t i = 0; is_whole && i < count; i++) is_whole = take_map(&k->interface, &r, &maps[i]);
  if (!is_whole || !kiln_read_done(&r))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the tensor maps of '%s' are damaged", k->bundle->name,
                     k->interface.name);
  code->maps = maps;
  code->map_count = count;
  code->maps_at = kiln_maps_at(k->used_bytes);
  return KILN_OK;
}

// ---------------------------------------------------------------------------------------- encoding

static kiln_status evaluate(const kiln_kernel *k, kiln_span code, const int64_t *values, unsigned map,
                            const char *what, uint64_t *out, kiln_error *err) {
  int64_t value;
  *out = 0;
  if (!kiln_expr_eval(code.bytes, code.size, values, &value))
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s of tensor map %u overflows or divides by zero",
                     k->interface.name, what, map);
  *out = (uint64_t)value;
  return KILN_OK;
}

static kiln_status encode_one(const kiln_kernel *k, const kiln_code *code, unsigned number,
                              const int64_t *values, uint8_t *out, kiln_error *err) {
  const kiln_tensor_map *m = &code->maps[number];
  kiln_tensor_map_values v = {.map = m};
  for (unsigned i = 0; i < m->rank; i++) {
    KILN_TRY(evaluate(k, m->extents[i], values, number, "an extent", &v.extents[i], err));
    if (v.extents[i] - 1 >= (uint64_t)1 << 32)
      return kiln_fail(err, KILN_STATUS_LAUNCH,
                       "'%s': extent %u of tensor map %u is %lld; 1 to 4294967296 are allowed",
                       k->interface.name, i, number, (long long)v.extents[i]);
  }
  for (unsigned i = 0; i + 1 < m->rank; i++)
    KILN_TRY(evaluate(k, m->strides[i], values, number, "a stride", &v.strides[i], err));
  KILN_TRY(evaluate(k, m->offset, values, number, "the base offset", &v.address, err));
  v.address += (uint64_t)values[m->param];
  kiln_status status = k->device->kind->encode_map(k->device, &v, out, err);
  return status == KILN_OK ? status
                           : kiln_context(err, status, "'%s': tensor map %u", k->interface.name, number);
}

kiln_status kiln_tensor_maps_encode(const kiln_kernel *k, const kiln_code *code, uint8_t *block,
                                    kiln_error *err) {
  int64_t values[KILN_MOST_PARAMS];
  _Alignas(KILN_MAP_ALIGNMENT) uint8_t map[KILN_MAP_BYTES];
  if (!k->device->kind->encode_map)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "'%s' wants tensor maps, which %s does not have",
                     k->interface.name, k->device->name);
  for (uint32_t i = 0; i < k->interface.param_count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    if (is_integer(p))
      values[i] =
          kiln_read_integer(block + p->offset, is_address(p) ? 8 : (uint8_t)p->size, p->scalar != KILN_I1);
  }
  memset(block + k->used_bytes, 0, code->maps_at - k->used_bytes);
  for (unsigned i = 0; i < code->map_count; i++) {
    KILN_TRY(encode_one(k, code, i, values, map, err));
    memcpy(block + kiln_maps_end(code->maps_at, i), map, sizeof map);
  }
  return KILN_OK;
}
