// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decodes the tensor maps of a code, and encodes them for the driver from the arguments of a launch.
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "runtime/more/core.h"

// ---------------------------------------------------------------------------------------- decoding

/// Maps number what a launch is given by words: a parameter is one, a view parameter 1 + 2 * rank, which are
/// its base address, extents and strides.
typedef struct word {
  const kiln_param_record *param;
  uint32_t part; ///< 0: the parameter, or the base of a view
} word;

static uint32_t words_of(const kiln_param_record *p) { return 1 + 2u * p->view_rank; }

static uint32_t word_count(const kiln_interface *in) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < in->param_count; i++) count += words_of(&in->params[i]);
  return count;
}

/// The word `number`, which is one.
static word word_at(const kiln_interface *in, uint64_t number) {
  const kiln_param_record *p = in->params;
  for (; number >= words_of(p); p++) number -= words_of(p);
  return (word){p, (uint32_t)number};
}

static bool is_within(const kiln_block_words *words, const kiln_block_words *of) {
  uint64_t both = 0;
  for (unsigned i = 0; i < KILN_WORD_SETS; i++) both |= words->in[i] & of->in[i];
  return both != 0;
}

static bool has_word(const kiln_block_words *words, uint32_t i) { return words->in[i / 64] >> i % 64 & 1; }

enum { ADDRESS = 8 };

static uint32_t bytes_of(const kiln_param_record *p) { return kiln_param_is_address(p) ? ADDRESS : p->size; }

static uint32_t word_offset(word w) { return w.param->offset + w.part * ADDRESS; }

static void add_words(kiln_block_words *to, word w) {
  uint32_t last = (word_offset(w) + bytes_of(w.param) - 1) / KILN_BLOCK_WORD;
  for (uint32_t i = word_offset(w) / KILN_BLOCK_WORD; i <= last; i++) to->in[i / 64] |= UINT64_C(1) << i % 64;
}

// Only integers and addresses may be read.
static bool take_expression(const kiln_interface *in, kiln_reader *r, kiln_block_words *reads,
                            kiln_span *out) {
  out->bytes = kiln_read_block(r, &out->size);
  if (!out->bytes || !kiln_expr_verify(out->bytes, out->size, word_count(in))) return false;
  kiln_reader code = kiln_reader_of(out->bytes, out->size);
  while (code.left) {
    uint8_t op = kiln_read_u8(&code);
    if (op == KILN_EXPR_CONST) kiln_read_svarint(&code);
    if (op != KILN_EXPR_PARAM) continue;
    word w = word_at(in, kiln_read_varint(&code));
    if (!kiln_param_is_integer(w.param)) return false;
    add_words(reads, w);
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
  if ((m->element >= KILN_SCALAR_COUNT && m->element != KILN_MAP_TF32) || !m->rank ||
      m->rank > KILN_MAP_RANK || m->swizzle > 3 || m->interleave > 2 || m->fill > 1)
    return false;
  if (m->param >= word_count(in)) return false;
  word base = word_at(in, m->param);
  if (!kiln_param_is_address(base.param) || base.part) return false;
  for (unsigned i = 0; i < m->rank; i++) {
    const uint8_t *box = kiln_read_bytes(r, 4);
    if (!box) return false;
    m->box[i] = kiln_le32(box);
  }
  m->sizes = (kiln_block_words){{0}};
  for (unsigned i = 0; i < m->rank; i++)
    if (!take_expression(in, r, &m->sizes, &m->extents[i])) return false;
  for (unsigned i = 0; i + 1 < m->rank; i++)
    if (!take_expression(in, r, &m->sizes, &m->strides[i])) return false;
  if (!take_expression(in, r, &m->sizes, &m->offset)) return false;
  m->base_at = word_offset(base);
  return true;
}

// ---------------------------------------------------------------------------------------- encoding

static kiln_status evaluate(const kiln_kernel *k, kiln_span code, const int64_t *values, unsigned map,
                            uint64_t *out, kiln_error *err) {
  int64_t value;
  *out = 0;
  if (!kiln_expr_eval(code.bytes, code.size, values, &value))
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': an extent of tensor map %u overflows or divides by zero",
                     k->interface.name, map);
  *out = (uint64_t)value;
  return KILN_OK;
}

enum { ANY_STRIDE = 128 };

static bool has_elements(const kiln_tensor_map_values *v) {
  for (unsigned i = 0; i < v->map->rank; i++)
    if ((int64_t)v->extents[i] <= 0) return false;
  return true;
}

/// The engine finds zeros where a program loads from a tensor without elements, and what it stores goes
/// nowhere. It writes pieces of 16 bytes, so the row is of whole ones, whatever the type of its elements.
static void stand_in(const kiln_kernel *k, kiln_tensor_map_values *v) {
  enum { ELEMENTS = 16, ACCESS_IN = 1 };
  bool is_read = word_at(&k->interface, v->map->param).param->access == ACCESS_IN;
  v->address = (uint64_t)(uintptr_t)k->device->nowhere + (is_read ? 0 : KILN_NOWHERE_BYTES / 2);
  for (unsigned i = 0; i < v->map->rank; i++) v->extents[i] = i ? 1 : ELEMENTS;
  for (unsigned i = 0; i + 1 < v->map->rank; i++) v->strides[i] = ANY_STRIDE;
}

/// Indices are i32 in the instruction, so no element after that is reached. Drivers take 2^32, too, but an H200
/// then stops with an illegal instruction.
static const int64_t MOST_EXTENT = (int64_t)1 << 31;

/// Bytes between neighbours along an axis: what the driver takes.
static const int64_t MOST_STRIDE = ((int64_t)1 << 40) - 1;

enum { MOST_WORDS = KILN_MOST_PARAMS + KILN_MOST_BLOCK / 8, MOST_NAMED = 16 };

/// Names of the words that an expression reads, "v.extent0" of views, for its text; and these with their
/// values.
typedef struct named_words {
  const char *names[MOST_WORDS];
  char texts[MOST_NAMED][64], values[300];
} named_words;

static KILN_COLD void name_words(const kiln_kernel *k, kiln_span code, const int64_t *values,
                                 named_words *out) {
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  size_t used = 0;
  uint32_t count = 0;
  memset(out, 0, sizeof *out);
  while (r.left && count < MOST_NAMED) {
    int64_t number;
    if (kiln_expr_take(&r, &number) != KILN_EXPR_PARAM || out->names[number]) continue;
    word w = word_at(&k->interface, (uint64_t)number);
    bool is_extent = w.part && w.part <= w.param->view_rank;
    const char *text = w.param->name;
    if (w.part) {
      snprintf(out->texts[count], sizeof *out->texts, "%.40s.%s%u", text, is_extent ? "extent" : "stride",
               w.part - 1 - (is_extent ? 0 : w.param->view_rank));
      text = out->texts[count++];
    }
    out->names[number] = text;
    int n = snprintf(out->values + used, sizeof out->values - used, "%s%s = %lld", used ? ", " : "", text,
                     (long long)values[number]);
    if (n > 0 && (size_t)n < sizeof out->values - used) used += (size_t)n;
  }
}

/// The base offset is 0, divided by what must hold for the code to be right.
static KILN_COLD kiln_status refuse(const kiln_kernel *k, kiln_span offset, const int64_t *values,
                                    kiln_error *err) {
  char text[KILN_ERROR_TEXT / 2];
  named_words words;
  name_words(k, offset, values, &words);
  kiln_expr_text(offset.bytes, offset.size, words.names, word_count(&k->interface), text, sizeof text);
  return kiln_fail(err, KILN_STATUS_LAUNCH,
                   "'%s': with these arguments (%s) its offsets of 32 bits wrap around: %s fails",
                   k->interface.name, words.values, text);
}

/// Bytes that a map cannot have between neighbours along an axis, and what they come from.
static KILN_COLD kiln_status refuse_stride(const kiln_kernel *k, const kiln_tensor_map *m, unsigned axis,
                                           const int64_t *values, const int64_t *stride, kiln_error *err) {
  char text[KILN_ERROR_TEXT / 2], number[40] = "over 64 bits";
  named_words words;
  const kiln_span code = m->strides[axis - 1];
  name_words(k, code, values, &words);
  kiln_expr_text(code.bytes, code.size, words.names, word_count(&k->interface), text, sizeof text);
  if (stride) snprintf(number, sizeof number, "%lld", (long long)*stride);
  return kiln_fail(err, KILN_STATUS_LAUNCH,
                   "'%s': '%s' has a stride of %s bytes, %s (%s), expected 0 to %lld for tensor maps",
                   k->interface.name, word_at(&k->interface, m->param).param->name, text, number,
                   words.values, (long long)MOST_STRIDE);
}

/// A stride along which there is one element or none is never added, so any will do.
static kiln_status measure_stride(const kiln_kernel *k, unsigned axis, const int64_t *values,
                                  kiln_map_sizes *v, kiln_error *err) {
  const kiln_span code = v->map->strides[axis - 1];
  int64_t stride = ANY_STRIDE;
  if (has_elements(v) && v->extents[axis] > 1) {
    const bool is_number = kiln_expr_eval(code.bytes, code.size, values, &stride);
    if (!is_number || stride < 0 || stride > MOST_STRIDE)
      return refuse_stride(k, v->map, axis, values, is_number ? &stride : NULL, err);
  }
  v->strides[axis - 1] = (uint64_t)stride;
  return KILN_OK;
}

static kiln_status measure(const kiln_kernel *k, unsigned number, const int64_t *values, kiln_map_sizes *v,
                           kiln_error *err) {
  const kiln_tensor_map *m = v->map;
  int64_t offset;
  for (unsigned i = 0; i < m->rank; i++) {
    KILN_TRY(evaluate(k, m->extents[i], values, number, &v->extents[i], err));
    if ((int64_t)v->extents[i] > MOST_EXTENT) v->extents[i] = (uint64_t)MOST_EXTENT;
  }
  for (unsigned i = 1; i < m->rank; i++) KILN_TRY(measure_stride(k, i, values, v, err));
  if (!kiln_expr_eval(m->offset.bytes, m->offset.size, values, &offset))
    return refuse(k, m->offset, values, err);
  v->address = (uint64_t)offset;
  return KILN_OK;
}

static kiln_status encode_one(const kiln_kernel *k, unsigned number, const kiln_map_sizes *sizes,
                              const uint8_t *block, uint8_t *out, kiln_error *err) {
  kiln_tensor_map_values v = *sizes;
  v.address += kiln_le64(block + v.map->base_at);
  if (!has_elements(&v)) stand_in(k, &v);
  kiln_status status = k->device->kind->encode_map(k->device, &v, out, err);
  return status == KILN_OK ? status
                           : kiln_context(err, status, "'%s': tensor map %u", k->interface.name, number);
}

/// Integers and addresses of a block, by word.
static void read_words(const kiln_interface *in, const uint8_t *block, int64_t *values) {
  for (uint32_t i = 0; i < in->param_count; i++) {
    const kiln_param_record *p = &in->params[i];
    for (uint32_t part = 0; part < words_of(p); part++, values++)
      *values = kiln_param_is_integer(p) ? kiln_read_integer(block + p->offset + part * ADDRESS,
                                                             (uint8_t)bytes_of(p), p->scalar != KILN_I1)
                                         : 0;
  }
}

static kiln_status encode_maps(const kiln_kernel *k, const kiln_code *code, const kiln_block_words *changes,
                               kiln_map_sizes *known, uint8_t *block, kiln_error *err) {
  int64_t values[MOST_WORDS];
  bool has_values = false;
  _Alignas(KILN_MAP_ALIGNMENT) uint8_t map[KILN_MAP_BYTES];
  if (!k->device->kind->encode_map)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "'%s' wants tensor maps, which %s does not have",
                     k->interface.name, k->device->name);
  memset(block + code->params_end, 0, code->maps_at - code->params_end);
  for (unsigned i = 0; i < code->map_count; i++) {
    const kiln_tensor_map *m = &code->maps[i];
    bool is_other = !changes || has_word(changes, m->base_at / KILN_BLOCK_WORD);
    if (!changes || is_within(changes, &m->sizes)) {
      kiln_map_sizes now = {.map = m};
      if (!has_values) read_words(&k->interface, block, values);
      has_values = true;
      KILN_TRY(measure(k, i, values, &now, err));
      is_other = is_other || memcmp(&now, &known[i], sizeof now) != 0;
      known[i] = now;
    }
    if (!is_other) continue;
    KILN_TRY(encode_one(k, i, &known[i], block, map, err));
    memcpy(block + code->maps_at + i * KILN_MAP_BYTES, map, sizeof map);
  }
  return KILN_OK;
}

kiln_status kiln_more_tensor_maps_decode(kiln_kernel *k, const uint8_t *record, size_t size, kiln_code *code,
                                         kiln_error *err) {
  kiln_reader r = kiln_reader_of(record, size);
  uint32_t count = kiln_read_u8(&r), start = kiln_maps_at(code->params_end);
  bool is_whole = count <= KILN_MOST_MAPS && start + count * KILN_MAP_BYTES <= KILN_MOST_BLOCK;
  kiln_tensor_map *maps = KILN_NEW_ARRAY(k->arena, kiln_tensor_map, is_whole ? count : 0);
  if (!maps) return kiln_kernel_no_memory(k, err);
  for (uint32_t i = 0; is_whole && i < count; i++) is_whole = take_map(&k->interface, &r, &maps[i]);
  if (!is_whole || !kiln_read_done(&r))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the tensor maps of '%s' are damaged", k->bundle->name,
                     k->interface.name);
  code->maps = maps;
  code->encode_maps = encode_maps;
  code->map_count = count;
  code->maps_at = start;
  code->memo = kiln_memo_create(k, code);
  return KILN_OK;
}
