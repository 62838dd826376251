// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stable bytes of a canonical kernel.
//
// kernel:
//   u8 version; varint warps, stages, registers; u8 fp flags (1 strict, 2 flush); varint grid limit x 3;
//   params; block
// params:
//   varint count; each: type, u8 access, u8 flags (1 noalias, 2 range, 4 within), varint align, svarint div,
//   lo, hi
// type:
//   u8 scalar; u8 pointer | view << 2 | rank << 4; u8 log2 x rank
// block:
//   varint argument count, types (a kernel's body: none); varint operation count, operations
// op:
//   varint number, of the tile stage; varint mask of the attributes that are not zero, those attributes;
//   varint operand count, operands; varint region count, blocks; the type of the result when operands do not
//   give it
// operand:
//   varint distance back from the newest value: 0 is the newest. Values are numbered as they appear:
//   parameters, arguments of a block when it begins, results when their operation ends
//
// Names, places and addresses are nowhere in it. Decoding builds with ir_emit, which types every operation,
// and ends with ir_verify.
#include <string.h>

#include "compiler/ir/attrs.h"
#include "compiler/ir/canonical.h"

enum { DEEPEST = 256, MOST_PARAMS = 4096, MOST_OPS = 1 << 22, MOST_OPERANDS = 4096 };

static bool needs_type(ir_opcode code) {
  switch ((ir_rule)ir_ops[code].rule) {
  case IR_RULE_GIVEN:
  case IR_RULE_IOTA:
  case IR_RULE_SPLAT:
  case IR_RULE_CAST:
  case IR_RULE_BITCAST:
  case IR_RULE_BROADCAST:
  case IR_RULE_RESHAPE:
  case IR_RULE_SORT:
  case IR_RULE_VIEW: return true;
  default: return false;
  }
}

// ------------------------------------------------------------------------------------------ encode

typedef struct encoder {
  kiln_buffer *out;
  uint32_t next;   // number of the next value
  bool tiles_only; // no operation of machines so far
} encoder;

static void put_type(kiln_buffer *out, ir_type t) {
  kiln_buffer_u8(out, t.scalar);
  kiln_buffer_u8(out, (uint8_t)(t.pointer | t.is_view << 2 | t.rank << 4));
  kiln_buffer_bytes(out, t.log2, t.rank);
}

// The attributes that a mask bit stands for, in order of the bits.
enum {
  HAS_BITS = 1,
  HAS_DIVISIBLE = 2,
  HAS_CONTIGUOUS = 4,
  HAS_TEXT = 8,
  HAS_CONSTRAINTS = 16,
  HAS_FLAGS = 32,
  HAS_PERM = 64,
  FIRST_BYTE = 128,
};

/// What an operation has, as the bytes have it: the fields of all operations.
typedef struct plain {
  uint64_t at[IR_IN_PLACES]; ///< by ir_canonical_place
  const char *text, *constraints;
  uint32_t flags;
  uint8_t perm[IR_MAX_RANK];
  uint8_t kind, round, cache, evict, order, scope, precision;
} plain;

static const struct {
  uint8_t offset; ///< in `plain`; 0: `place`
  uint8_t place;
  uint8_t most;
} byte_fields[] = {
    {offsetof(plain, kind), 0, IR_COMBINE_COUNT - 1},
    {0, IR_IN_AXIS, IR_MAX_RANK},
    {offsetof(plain, round), 0, IR_ROUND_ZERO},
    {offsetof(plain, cache), 0, IR_CACHE_WT},
    {offsetof(plain, evict), 0, IR_EVICT_LAST},
    {offsetof(plain, order), 0, IR_ORDER_ACQ_REL},
    {offsetof(plain, scope), 0, IR_SCOPE_SYSTEM},
    {offsetof(plain, precision), 0, IR_PREC_FAST},
    {0, IR_IN_PACK, 16},
    {0, IR_IN_STAGES, 255},
    {0, IR_IN_UNROLL, 255},
    {0, IR_IN_SPLIT, 255},
};
enum { BYTE_FIELDS = sizeof byte_fields / sizeof *byte_fields, ALL_FLAGS = (1 << 11) - 1 };
enum { HAS_FIRST = FIRST_BYTE << BYTE_FIELDS, HAS_ACROSS = HAS_FIRST << 1 };

static uint64_t byte_of(const plain *p, unsigned i) {
  return byte_fields[i].offset ? ((const uint8_t *)p)[byte_fields[i].offset] : p->at[byte_fields[i].place];
}

static uint32_t flag_of(const ir_attr_info *row) {
  static const uint8_t bits[] = {6, 7, 8, 10};
  return row->canonical >= IR_IN_PLACES ? 1u << bits[row->canonical - IR_IN_PLACES] : 0;
}

static unsigned perm_length(const plain *p) {
  unsigned length = IR_MAX_RANK;
  while (length && !p->perm[length - 1]) length--;
  return length;
}

static void put_block(encoder *e, const ir_block *block, bool with_args) {
  uint64_t count = 0;
  if (with_args) {
    kiln_buffer_varint(e->out, block->arg_count);
    for (uint32_t i = 0; i < block->arg_count; i++) put_type(e->out, block->args[i]->type);
  }
  for (uint32_t i = 0; i < block->arg_count; i++) block->args[i]->id = e->next++;
  for (const ir_op *op = block->first; op; op = op->next) count++;
  kiln_buffer_varint(e->out, count);
  for (ir_op *op = block->first; op; op = op->next) {
    e->tiles_only &= op->code < IR_TILE_COUNT;
    kiln_buffer_varint(e->out, ir_number_of_code(op->code));
    // The attributes: which of them are not zero, then these.
    const ir_attrs *a = &op->attrs;
    plain p = {.at = {[IR_IN_BITS] = a->bits, [IR_IN_AXIS] = a->axis}, .flags = a->flags, .kind = a->kind};
    p.round = a->round, p.cache = a->cache, p.evict = a->evict, p.order = a->order, p.scope = a->scope;
    p.precision = a->precision;
    memcpy(p.perm, a->perm, sizeof p.perm);
    for (const ir_attr_info *row = ir_next_attr(op->code, NULL); row; row = ir_next_attr(op->code, row)) {
      if (row->canonical == IR_IN_TEXT) p.text = ir_attr_text(a, row);
      else if (row->canonical == IR_IN_CONSTRAINTS) p.constraints = ir_attr_text(a, row);
      else if (flag_of(row)) p.flags |= ir_attr_get(a, row) ? flag_of(row) : 0;
      else if (row->canonical > IR_IN_SHARED) p.at[row->canonical] = ir_attr_get(a, row);
    }
    uint32_t mask = (p.at[IR_IN_BITS] ? HAS_BITS : 0) | (p.at[IR_IN_DIVISIBLE] ? HAS_DIVISIBLE : 0) |
                    (p.at[IR_IN_CONTIGUOUS] ? HAS_CONTIGUOUS : 0) | (p.text ? HAS_TEXT : 0) |
                    (p.constraints ? HAS_CONSTRAINTS : 0) | (p.flags ? HAS_FLAGS : 0) |
                    (perm_length(&p) ? HAS_PERM : 0) | (p.at[IR_IN_FIRST] ? HAS_FIRST : 0) |
                    (p.at[IR_IN_ACROSS] ? HAS_ACROSS : 0);
    for (unsigned i = 0; i < BYTE_FIELDS; i++)
      if (byte_of(&p, i)) mask |= (uint32_t)FIRST_BYTE << i;
    kiln_buffer_varint(e->out, mask);
    if (mask & HAS_BITS) kiln_buffer_varint(e->out, p.at[IR_IN_BITS]);
    if (mask & HAS_DIVISIBLE) kiln_buffer_svarint(e->out, (int64_t)p.at[IR_IN_DIVISIBLE]);
    if (mask & HAS_CONTIGUOUS) kiln_buffer_svarint(e->out, (int64_t)p.at[IR_IN_CONTIGUOUS]);
    if (mask & HAS_TEXT) kiln_buffer_text(e->out, p.text);
    if (mask & HAS_CONSTRAINTS) kiln_buffer_text(e->out, p.constraints);
    if (mask & HAS_FLAGS) kiln_buffer_varint(e->out, p.flags);
    if (mask & HAS_PERM) kiln_buffer_block(e->out, p.perm, perm_length(&p));
    for (unsigned i = 0; i < BYTE_FIELDS; i++)
      if (mask & (uint32_t)FIRST_BYTE << i) kiln_buffer_u8(e->out, (uint8_t)byte_of(&p, i));
    if (mask & HAS_FIRST) kiln_buffer_varint(e->out, p.at[IR_IN_FIRST]);
    if (mask & HAS_ACROSS) kiln_buffer_varint(e->out, p.at[IR_IN_ACROSS]);
    kiln_buffer_varint(e->out, op->operand_count);
    for (uint32_t i = 0; i < op->operand_count; i++)
      kiln_buffer_varint(e->out, e->next - 1 - ir_resolve(op->operands[i])->id);
    kiln_buffer_varint(e->out, op->region_count);
    for (uint32_t i = 0; i < op->region_count; i++) put_block(e, op->regions[i], true);
    if (needs_type(op->code)) put_type(e->out, op->results[0].type);
    for (uint32_t i = 0; i < op->result_count; i++) op->results[i].id = e->next++;
  }
}

bool kiln_canonical_encode(ir_kernel *kernel, kiln_buffer *out) {
  kiln_buffer_u8(out, KILN_CANONICAL_VERSION);
  kiln_buffer_varint(out, kernel->warps);
  kiln_buffer_varint(out, kernel->stages);
  kiln_buffer_varint(out, kernel->max_registers);
  kiln_buffer_u8(out, (uint8_t)(kernel->fp_strict | kernel->fp_flush << 1));
  for (unsigned i = 0; i < 3; i++) kiln_buffer_varint(out, (uint64_t)kernel->grid_limit[i]);
  kiln_buffer_varint(out, kernel->param_count);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    const ir_param *p = &kernel->params[i];
    put_type(out, p->type);
    kiln_buffer_u8(out, p->access);
    kiln_buffer_u8(out, (uint8_t)(p->noalias | p->has_range << 1 | p->within << 2 | (p->rows != 0) << 3));
    kiln_buffer_varint(out, p->align);
    if (p->rows) kiln_buffer_varint(out, p->rows);
    kiln_buffer_svarint(out, p->div);
    kiln_buffer_svarint(out, p->lo);
    kiln_buffer_svarint(out, p->hi);
  }
  encoder e = {.out = out, .tiles_only = true};
  put_block(&e, kernel->body, false);
  return e.tiles_only;
}

// ------------------------------------------------------------------------------------------ decode

typedef struct decoder {
  kiln_reader r;
  kiln_arena *arena;
  ir_builder b;
  ir_value **values; // arena
  uint32_t count, capacity;
  uint64_t ops_left;
  kiln_error *err;
} decoder;

static void define(decoder *d, ir_value *v) {
  KILN_GROW(d->arena, d->values, d->count, d->capacity);
  d->values[d->count++] = v;
}

static bool get_type(decoder *d, ir_type *t) {
  uint8_t scalar = kiln_read_u8(&d->r), packed = kiln_read_u8(&d->r);
  *t = (ir_type){.scalar = scalar, .pointer = packed & 3, .is_view = packed >> 2 & 1, .rank = packed >> 4};
  if (scalar >= KILN_SCALAR_COUNT || t->pointer > 2 || packed & 8 || t->rank > IR_MAX_RANK ||
      (t->is_view && (t->pointer || !t->rank)))
    return false;
  const uint8_t *log2 = kiln_read_bytes(&d->r, t->rank);
  unsigned sum = 0;
  for (unsigned i = 0; log2 && i < t->rank; i++) {
    t->log2[i] = log2[i];
    if (log2[i] == IR_DROPPED && t->is_view) continue;
    if (log2[i] > IR_MAX_LOG2_ELEMENTS || (sum += log2[i]) > IR_MAX_LOG2_ELEMENTS) return false;
  }
  return !d->r.failed;
}

static const char *get_text(decoder *d) {
  size_t size;
  const uint8_t *bytes = kiln_read_block(&d->r, &size);
  if (!bytes || (size && memchr(bytes, 0, size))) return d->r.failed = true, d->r.left = 0, "";
  return kiln_arena_text(d->arena, (const char *)bytes, size);
}

static bool get_plain(decoder *d, plain *p) {
  size_t perm;
  *p = (plain){0};
  uint32_t mask = (uint32_t)kiln_read_count(&d->r, HAS_ACROSS * 2 - 1);
  if (mask & HAS_BITS) p->at[IR_IN_BITS] = kiln_read_varint(&d->r);
  if (mask & HAS_DIVISIBLE) p->at[IR_IN_DIVISIBLE] = (uint64_t)kiln_read_svarint(&d->r);
  if (mask & HAS_CONTIGUOUS) p->at[IR_IN_CONTIGUOUS] = (uint64_t)kiln_read_svarint(&d->r);
  if (mask & HAS_TEXT) p->text = get_text(d);
  if (mask & HAS_CONSTRAINTS) p->constraints = get_text(d);
  if (mask & HAS_FLAGS) p->flags = (uint32_t)kiln_read_count(&d->r, ALL_FLAGS);
  if (mask & HAS_PERM) {
    const uint8_t *bytes = kiln_read_block(&d->r, &perm);
    if (!bytes || perm > IR_MAX_RANK) return false;
    memcpy(p->perm, bytes, perm);
  }
  for (unsigned i = 0; i < BYTE_FIELDS; i++) {
    if (!(mask & (uint32_t)FIRST_BYTE << i)) continue;
    uint8_t v = kiln_read_u8(&d->r);
    if (v > byte_fields[i].most) return false;
    if (byte_fields[i].offset) ((uint8_t *)p)[byte_fields[i].offset] = v;
    else p->at[byte_fields[i].place] = v;
  }
  if (mask & HAS_FIRST) p->at[IR_IN_FIRST] = kiln_read_count(&d->r, 1u << IR_MAX_LOG2_ELEMENTS);
  if (mask & HAS_ACROSS) p->at[IR_IN_ACROSS] = kiln_read_count(&d->r, 1u << IR_MAX_LOG2_ELEMENTS);
  return !d->r.failed;
}

static bool get_block(decoder *d, ir_block *block, bool with_args, unsigned depth);

static bool get_code(decoder *d, ir_opcode *code) {
  uint64_t number = kiln_read_varint(&d->r);
  if (d->r.failed) return false;
  if (ir_code_of_number(number, code) && *code < IR_TILE_COUNT) return true;
  kiln_fail(&d->b.error, KILN_STATUS_CORRUPT,
            "expected the number of an operation of tiles, below %d, found %llu%s", IR_TILE_COUNT,
            (unsigned long long)number,
            number >= IR_MACHINE_NUMBER ? " (operations of machines are not canonical)" : "");
  return false;
}

static bool get_op(decoder *d, unsigned depth) {
  ir_type type = {0};
  ir_block *regions[2];
  if (!d->ops_left--) return false;
  ir_opcode code;
  if (!get_code(d, &code)) return false;
  // Attributes are taken as the operation's rows name them, and nothing that it cannot have may be left over.
  plain p;
  ir_attrs attrs = {0}, *a = &attrs;
  if (!get_plain(d, &p)) return false;
  for (const ir_attr_info *row = ir_next_attr(code, NULL); row; row = ir_next_attr(code, row)) {
    if (row->canonical == IR_IN_TEXT) ir_attr_set_text(a, row, p.text), p.text = NULL;
    else if (row->canonical == IR_IN_CONSTRAINTS)
      ir_attr_set_text(a, row, p.constraints), p.constraints = NULL;
    else if (flag_of(row)) ir_attr_set(a, row, (p.flags & flag_of(row)) != 0), p.flags &= ~flag_of(row);
    else if (row->canonical > IR_IN_SHARED)
      ir_attr_set(a, row, p.at[row->canonical]), p.at[row->canonical] = 0;
  }
  enum { OWN_FLAGS = 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 };
  a->bits = p.at[IR_IN_BITS], a->axis = (uint8_t)p.at[IR_IN_AXIS];
  p.at[IR_IN_BITS] = p.at[IR_IN_AXIS] = 0;
  for (unsigned i = 0; i < IR_IN_PLACES; i++)
    if (p.at[i]) return false;
  if (p.text || p.constraints || p.flags & OWN_FLAGS) return false;
  a->flags = p.flags, a->kind = p.kind, a->round = p.round, a->cache = p.cache, a->evict = p.evict;
  a->order = p.order, a->scope = p.scope, a->precision = p.precision;
  memcpy(a->perm, p.perm, sizeof p.perm);
  uint32_t count = (uint32_t)kiln_read_count(&d->r, MOST_OPERANDS < d->r.left ? MOST_OPERANDS : d->r.left);
  ir_value **operands = KILN_NEW_ARRAY(d->arena, ir_value *, count);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t back = kiln_read_varint(&d->r);
    if (d->r.failed || back >= d->count) return false;
    operands[i] = d->values[d->count - 1 - back];
  }
  uint32_t region_count = (uint32_t)kiln_read_count(&d->r, 2);
  if (d->r.failed) return false;
  ir_block *outer = d->b.block;
  bool ok = true;
  for (uint32_t i = 0; ok && i < region_count; i++) {
    regions[i] = d->b.block = KILN_NEW(d->arena, ir_block);
    ok = get_block(d, regions[i], true, depth + 1);
  }
  d->b.block = outer;
  if (!ok) return false;
  bool typed = needs_type(code);
  if (typed && !get_type(d, &type)) return false;
  const ir_op_info *info = &ir_ops[code];
  bool arity = (int64_t)count >= info->least && (info->most < 0 || (int64_t)count <= info->most);
  ir_op *op = arity
                  ? ir_emit(&d->b, code, &attrs, operands, count, typed ? &type : NULL, regions, region_count)
                  : NULL;
  for (uint32_t i = 0; op && i < op->result_count; i++) define(d, &op->results[i]);
  return op != NULL;
}

static bool get_block(decoder *d, ir_block *block, bool with_args, unsigned depth) {
  ir_type type;
  if (depth > DEEPEST) return false;
  uint64_t args = with_args ? kiln_read_count(&d->r, d->r.left) : 0;
  for (uint64_t i = 0; i < args; i++) {
    if (!get_type(d, &type)) return false;
    ir_block_arg(d->arena, block, type);
  }
  for (uint32_t i = 0; i < block->arg_count; i++) define(d, block->args[i]);
  uint64_t count = kiln_read_count(&d->r, d->r.left);
  for (uint64_t i = 0; i < count; i++)
    if (!get_op(d, depth)) return false;
  return !d->r.failed;
}

static bool get_kernel(decoder *d, ir_kernel *kernel) {
  enum { MOST_WARPS = 64 };
  kernel->warps = (uint16_t)kiln_read_count(&d->r, MOST_WARPS);
  kernel->stages = (uint16_t)kiln_read_count(&d->r, UINT16_MAX);
  kernel->max_registers = (uint16_t)kiln_read_count(&d->r, UINT16_MAX);
  uint8_t flags = kiln_read_u8(&d->r);
  kernel->fp_strict = flags & 1;
  kernel->fp_flush = flags >> 1 & 1;
  for (unsigned i = 0; i < 3; i++) kernel->grid_limit[i] = (int64_t)kiln_read_count(&d->r, INT64_MAX);
  uint32_t params = (uint32_t)kiln_read_count(&d->r, MOST_PARAMS);
  if (d->r.failed || flags > 3 || !kernel->warps || kernel->warps & (kernel->warps - 1)) return false;
  for (uint32_t i = 0; i < params; i++) {
    ir_param p = {.name = kiln_arena_format(d->arena, "p%u", i)};
    if (!get_type(d, &p.type)) return false;
    p.access = kiln_read_u8(&d->r);
    uint8_t bits = kiln_read_u8(&d->r);
    p.noalias = bits & 1;
    p.has_range = bits >> 1 & 1;
    p.within = bits >> 2 & 1;
    p.align = (uint32_t)kiln_read_count(&d->r, 1 << 20);
    bool has_rows = bits >> 3 & 1;
    if (has_rows) p.rows = (uint32_t)kiln_read_count(&d->r, 1 << 20);
    p.div = kiln_read_svarint(&d->r);
    p.lo = kiln_read_svarint(&d->r);
    p.hi = kiln_read_svarint(&d->r);
    if (d->r.failed || bits > 15 || (has_rows && !p.rows) || ir_param_fault(&p)) return false;
    ir_add_param(kernel, &p);
  }
  d->b.block = kernel->body;
  return get_block(d, kernel->body, false, 0) && kiln_read_done(&d->r);
}

kiln_status kiln_canonical_decode(kiln_arena *arena, const uint8_t *bytes, size_t size, const char *name,
                                  ir_kernel **out, kiln_error *err) {
  decoder d = {.r = kiln_reader_of(bytes, size),
               .arena = arena,
               .b = {.arena = arena},
               .ops_left = MOST_OPS,
               .err = err};
  *out = NULL;
  uint8_t version = kiln_read_u8(&d.r);
  if (version != KILN_CANONICAL_VERSION)
    return kiln_fail(err, KILN_STATUS_VERSION, "canonical form: expected version %d, found %u",
                     KILN_CANONICAL_VERSION, version);
  ir_kernel *kernel = ir_kernel_create(arena, name);
  if (!get_kernel(&d, kernel))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "canonical form: damaged near byte %zu of %zu%s%s",
                     size - d.r.left, size, d.b.error.status != KILN_OK ? ": " : "",
                     d.b.error.status != KILN_OK ? d.b.error.text : "");
  KILN_TRY(ir_verify(kernel, "decode", err));
  *out = kernel;
  return KILN_OK;
}
