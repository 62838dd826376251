// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs ldmatrix and mma: the manual's figures say which lane and register holds which element.
#include <string.h>

#include "tools/ptx/matrix.h"

enum { MOST_M = 16, MOST_N = 8 };

// ---------------------------------------------------------------------------------------------- ldmatrix

// Rows of 8 elements of 16 bits; lane 8 j + r gives the address of row r of matrix j. A lane reads what it
// gets: that is how accesses are ordered.
static uint64_t load_pair(ptx_exec *x, uint32_t lane, const ptx_place *rows, uint8_t *out_defined) {
  uint32_t group = lane / 4, pair = lane % 4 * 2;
  uint64_t value = 0;
  *out_defined = 0;
  for (uint32_t k = 0; k < 2; k++) {
    const ptx_place *row = x->i->is_trans ? &rows[pair + k] : &rows[group];
    uint64_t offset = row->offset + 2 * (x->i->is_trans ? group : pair + k);
    ptx_race_read(x->run, x->block, ptx_thread_of(x, lane), row->region, offset, 2, READ_WEAK);
    for (uint32_t byte = 0; byte < 2; byte++) {
      value |= (uint64_t)row->region->bytes[offset + byte] << (16 * k + 8 * byte);
      *out_defined |=
          (uint8_t)((!row->region->defined || row->region->defined[offset + byte]) << (2 * k + byte));
    }
  }
  return value;
}

void ptx_do_ldmatrix(ptx_exec *x) {
  const ptx_operand *to = &x->i->operands[0];
  uint32_t count = x->i->count, lanes = x->mask;
  uint64_t addresses[PTX_LANES];
  ptx_place rows[PTX_LANES];
  if (x->i->shape[0] != 8 || x->i->shape[1] != 8 || ptx_bits(x->i->types[0]) != 16 ||
      (to->kind == OPERAND_VECTOR ? to->count : 1) != count || lanes != ~0u) {
    ptx_find(x->run, PTX_UNKNOWN, "this form, or with lanes missing (0x%08x), is not modelled", lanes);
    return;
  }
  x->mask = count == 4 ? ~0u : (1u << 8 * count) - 1; // only these give addresses
  ptx_addresses(x, &x->i->operands[1], addresses);
  PTX_EACH_LANE(lane, x->mask) {
    rows[lane] = ptx_locate(x, lane, x->i->operands[1].space ? x->i->operands[1].space : x->i->space,
                            addresses[lane], 16, 16);
    if (!rows[lane].region) return;
  }
  x->mask = lanes;
  bool is_raced[PTX_LANES] = {false};
  PTX_EACH_LANE(lane, x->mask) is_raced[lane] = ptx_race_load(x->run, x->block, ptx_thread_of(x, lane));
  for (uint32_t j = 0; j < count; j++) PTX_EACH_LANE(lane, x->mask) {
      uint8_t defined;
      uint64_t value = load_pair(x, lane, &rows[8 * j], &defined);
      ptx_write_parts(x, to->kind == OPERAND_VECTOR ? &to->items[j] : to, lane, value,
                      is_raced[lane] ? 0 : defined);
    }
}

// The other way round. A lane writes what it has.
void ptx_do_stmatrix(ptx_exec *x) {
  const ptx_operand *from = &x->i->operands[1];
  uint32_t count = x->i->count, lanes = x->mask;
  uint64_t addresses[PTX_LANES], buffer[PTX_LANES];
  if (x->i->shape[0] != 8 || x->i->shape[1] != 8 || ptx_bits(x->i->types[0]) != 16 ||
      (from->kind == OPERAND_VECTOR ? from->count : 1) != count || lanes != ~0u) {
    ptx_find(x->run, PTX_UNKNOWN, "this form, or with lanes missing (0x%08x), is not modelled", lanes);
    return;
  }
  x->mask = count == 4 ? ~0u : (1u << 8 * count) - 1;
  ptx_addresses(x, &x->i->operands[0], addresses);
  PTX_EACH_LANE(lane, x->mask)
  if (!ptx_locate(x, lane, SPACE_SHARED, addresses[lane], 16, 16).region) return;
  x->mask = lanes;
  for (uint32_t j = 0; j < count; j++) {
    const ptx_operand *o = from->kind == OPERAND_VECTOR ? &from->items[j] : from;
    uint32_t ignored = ~0u;
    const uint64_t *v = ptx_source(x, o, buffer, &ignored);
    PTX_EACH_LANE(lane, lanes) for (uint32_t k = 0; k < 4; k++) {
      uint32_t row = x->i->is_trans ? lane % 4 * 2 + k / 2 : lane / 4;
      uint32_t column = x->i->is_trans ? lane / 4 : lane % 4 * 2 + k / 2;
      uint64_t offset = addresses[8 * j + row] + 2 * column + k % 2;
      uint8_t byte = (uint8_t)(v[lane] >> 8 * k);
      ptx_race_write(x->run, x->block, ptx_thread_of(x, lane), &x->block->shared, offset, 1, false, &byte);
      x->block->shared.bytes[offset] = byte;
      x->block->shared.defined[offset] = ptx_defined_bytes(x, o, lane) >> k & 1;
    }
  }
}

// --------------------------------------------------------------------------------------------------- mma

ptx_factor ptx_factor_of(ptx_type type, uint64_t bits, bool is_defined) {
  ptx_factor e = {.is_defined = is_defined};
  if (ptx_types[type].kind == PTX_CLASS_FLOAT) {
    if (type == PTX_TYPE_tf32) bits &= ~0x1fffull; // the lower bits are not read
    e.real = ptx_float_unpack(type == PTX_TYPE_tf32 ? PTX_TYPE_f32 : type, bits);
  } else {
    uint32_t shift = 64 - ptx_bits(type);
    e.whole = ptx_types[type].kind == PTX_CLASS_SIGNED ? (int64_t)(bits << shift) >> shift
                                                       : (int64_t)(bits << shift >> shift);
  }
  return e;
}

static const ptx_operand *item(const ptx_operand *o, uint32_t k) {
  return o->kind == OPERAND_VECTOR ? &o->items[k] : o;
}
static uint32_t item_count(const ptx_operand *o) { return o->kind == OPERAND_VECTOR ? o->count : 1; }

// A: register r of lane 4 g + t holds row g + 8 (r % 2), and from column (r / 2) 4 p + t p on p elements, p
// in a register. B, by columns: column g, and rows r 4 p + t p on.
void ptx_read_factor(ptx_exec *x, const ptx_operand *o, ptx_type type, bool is_a,
                     ptx_factor (*out)[PTX_MOST_K]) {
  uint32_t bits = ptx_bits(type), per = 32 / bits;
  uint64_t buffer[PTX_LANES];
  for (uint32_t r = 0; r < item_count(o); r++) {
    uint32_t ignored = ~0u;
    const uint64_t *v = ptx_source(x, item(o, r), buffer, &ignored);
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
      uint32_t row = lane / 4 + (is_a ? 8 * (r % 2) : 0), k = (is_a ? r / 2 : r) * 4 * per + lane % 4 * per;
      uint8_t defined = ptx_defined_bytes(x, item(o, r), lane);
      for (uint32_t e = 0; e < per; e++) {
        uint8_t bytes = (uint8_t)(ptx_mask_bits(bits / 8) << bits / 8 * e);
        out[row][k + e] =
            ptx_factor_of(type, v[lane] >> bits * e & ptx_mask_bits(bits), (defined & bytes) == bytes);
      }
    }
  }
}

// Accumulators: rows g and g + 8, columns 2 t and 2 t + 1; two of 16 bits share a register.
ptx_factor ptx_read_sum(ptx_exec *x, const ptx_operand *o, ptx_type type, uint32_t lane, uint32_t k) {
  uint64_t buffer[PTX_LANES];
  uint32_t bits = ptx_bits(type), per = 32 / bits, ignored = ~0u;
  const ptx_operand *from = item(o, k / per);
  uint64_t v = ptx_source(x, from, buffer, &ignored)[lane] >> bits * (k % per);
  return ptx_factor_of(type, v & ptx_mask_bits(bits), ptx_defined_bytes(x, from, lane) == 0xff);
}

uint64_t ptx_sum_of(const ptx_instruction *i, const ptx_factor *a, const ptx_factor *b, const ptx_factor *c,
                    bool *out_defined) {
  ptx_type to = i->types[0];
  double real = 0;
  int64_t whole = c->whole;
  *out_defined = c->is_defined;
  for (uint32_t k = 0; k < i->shape[2]; k++) {
    real += a[k].real * b[k].real;
    whole += a[k].whole * b[k].whole;
    *out_defined &= a[k].is_defined && b[k].is_defined;
  }
  if (ptx_types[to].kind == PTX_CLASS_FLOAT) return ptx_float_pack(to, real + c->real, ROUND_N, false);
  if (i->sat) whole = whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : whole;
  return (uint64_t)whole & 0xffffffff;
}

static bool is_modelled(const ptx_exec *x) {
  const ptx_instruction *i = x->i;
  const ptx_operand *o = i->operands;
  if (i->type_count != 4 || i->shape[0] != MOST_M || i->shape[1] != MOST_N || i->shape[2] > PTX_MOST_K ||
      x->mask != ~0u)
    return false;
  uint32_t a_bits = ptx_bits(i->types[1]), b_bits = ptx_bits(i->types[2]), c_bits = ptx_bits(i->types[3]),
           d_bits = ptx_bits(i->types[0]);
  bool are_types = a_bits >= 8 && a_bits <= 32 && a_bits == b_bits && c_bits >= 16 && c_bits <= 32 &&
                   d_bits >= 16 && d_bits <= 32;
  return are_types && i->layouts == 2 && item_count(&o[0]) == 4 * d_bits / 32 &&
         item_count(&o[3]) == 4 * c_bits / 32 && item_count(&o[1]) == 16u * i->shape[2] * a_bits / 1024 &&
         item_count(&o[2]) == 8u * i->shape[2] * b_bits / 1024;
}

void ptx_do_mma(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  static ptx_factor a[MOST_M][PTX_MOST_K], b[MOST_N][PTX_MOST_K];
  if (!is_modelled(x)) {
    ptx_find(x->run, PTX_UNKNOWN, "this form, or with lanes missing (0x%08x), is not modelled", x->mask);
    return;
  }
  ptx_read_factor(x, &i->operands[1], i->types[1], true, a);
  ptx_read_factor(x, &i->operands[2], i->types[2], false, b);
  uint32_t bits = ptx_bits(i->types[0]), per = 32 / bits;
  uint64_t results[PTX_LANES][4];
  bool defined[PTX_LANES][4];
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    for (uint32_t k = 0; k < 4; k++) {
      ptx_factor c = ptx_read_sum(x, &i->operands[3], i->types[3], lane, k);
      results[lane][k] =
          ptx_sum_of(i, a[lane / 4 + 8 * (k / 2)], b[lane % 4 * 2 + k % 2], &c, &defined[lane][k]);
    }
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    for (uint32_t k = 0; k < 4; k += per) {
      uint64_t value = results[lane][k] | (per == 2 ? results[lane][k + 1] << 16 : 0);
      ptx_write(x, item(&i->operands[0], k / per), lane, value,
                defined[lane][k] && defined[lane][k + per - 1]);
    }
}
