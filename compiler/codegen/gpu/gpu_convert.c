// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one conversion between layouts: renaming registers, shuffles within a warp, or a round trip through
// swizzled shared memory.
//
// Shared memory protocol: scratch is at offset 0 and lives within one operation. Writing scratch needs a
// barrier when threads may still read what was there (g->shared_dirty); reading needs one after the writes;
// afterwards the scratch is dirty.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

enum { MAX_SELECT_BITS = 3, MAX_SHUFFLES = 64 };

static unsigned places(const kiln_layout *l) { return l->registers + l->lanes + l->warps; }
static unsigned threads_of(const kiln_layout *l) { return l->lanes + l->warps; }

// --------------------------------------------------------------------------------------- registers
// chosen by threads

/// How the register (and lane) to read from depends on the reading thread. selector[b] is NULL when register
/// bit b does not.
typedef struct choice {
  LLVMValueRef selector[LAYOUT_MAX_BITS];
  uint8_t bits[LAYOUT_MAX_BITS];
  unsigned count;
} choice;

static choice find_choice(gpu *g, const layout_moves *moves, const kiln_layout *from, const kiln_layout *to,
                          bool emit) {
  choice c = {.count = 0};
  for (unsigned b = 0; b < from->registers; b++) {
    uint32_t basis[LAYOUT_MAX_PLACES] = {0};
    bool varies = false;
    for (unsigned i = 0; i < threads_of(to); i++)
      varies |= (basis[i] = moves->from[to->registers + i] >> b & 1) != 0;
    if (!varies) continue;
    c.bits[c.count++] = (uint8_t)b;
    if (emit)
      c.selector[b] = LLVMBuildTrunc(g->builder, gpu_thread_bits(g, basis, threads_of(to)), g->i1, "");
  }
  return c;
}

/// Register part of where register `r` of `to` comes from, before thread bits have their say.
static uint32_t source_set(const layout_moves *moves, const kiln_layout *to, uint32_t r) {
  uint32_t set = 0;
  for (unsigned i = 0; i < to->registers; i++)
    if (r >> i & 1) set ^= moves->from[i];
  return set;
}

typedef LLVMValueRef reader(gpu *g, LLVMValueRef value, void *context);

/// The element of register `base`, or of those that the selectors choose, each passed through `read`.
static LLVMValueRef pick(gpu *g, const gpu_tile *tile, const choice *c, unsigned level, uint32_t base,
                         reader *read, void *context) {
  if (level == c->count) return read ? read(g, tile->regs[base], context) : tile->regs[base];
  unsigned bit = c->bits[level];
  LLVMValueRef same = pick(g, tile, c, level + 1, base, read, context),
               other = pick(g, tile, c, level + 1, base ^ 1u << bit, read, context);
  return LLVMBuildSelect(g->builder, c->selector[bit], other, same, "");
}

static gpu_tile rename_registers(gpu *g, const gpu_tile *tile, const layout_moves *moves,
                                 const kiln_layout *to) {
  gpu_tile out = gpu_tile_new(g, to);
  choice c = find_choice(g, moves, &tile->layout, to, true);
  for (uint32_t r = 0; r < 1u << to->registers; r++)
    out.regs[r] = pick(g, tile, &c, 0, source_set(moves, to, r), NULL, NULL);
  return out;
}

// --------------------------------------------------------------------------------- within the warp

typedef struct lane_source {
  LLVMValueRef lane; ///< NULL: XOR with the constant
  unsigned flip;
} lane_source;

static LLVMValueRef read_lane(gpu *g, LLVMValueRef value, void *context) {
  const lane_source *s = context;
  if (s->lane) return gpu_shuffle_idx(g, value, LLVMBuildXor(g->builder, s->lane, gpu_i32(g, s->flip), ""));
  return s->flip ? gpu_shuffle_xor(g, value, s->flip) : value;
}

static gpu_tile exchange_lanes(gpu *g, const gpu_tile *tile, const layout_moves *moves,
                               const kiln_layout *to) {
  const kiln_layout *from = &tile->layout;
  gpu_tile out = gpu_tile_new(g, to);
  choice c = find_choice(g, moves, from, to, true);
  uint32_t basis[LAYOUT_MAX_PLACES] = {0}, lane_mask = (1u << from->lanes) - 1;
  bool is_identity = true;
  for (unsigned i = 0; i < threads_of(to); i++) {
    basis[i] = moves->from[to->registers + i] >> from->registers & lane_mask;
    is_identity &= basis[i] == (i < to->lanes ? 1u << i : 0);
  }
  lane_source source = {.lane = is_identity ? NULL : gpu_thread_bits(g, basis, threads_of(to))};
  for (uint32_t r = 0; r < 1u << to->registers; r++) {
    uint32_t set = source_set(moves, to, r);
    source.flip = set >> from->registers & lane_mask;
    out.regs[r] = pick(g, tile, &c, 0, set & ((1u << from->registers) - 1), read_lane, &source);
  }
  return out;
}

// ----------------------------------------------------------------------------------- shared memory

void gpu_barrier(gpu *g) {
  static const kl_function functions[2] = {KL_kl_barrier, KL_kl_barrier_shared};
  LLVMValueRef arguments[2];
  if (g->barrier_threads)
    arguments[0] = gpu_i32(g, g->barrier), arguments[1] = gpu_i32(g, g->barrier_threads);
  if (g->barrier_threads) kl_call(&g->prelude, g->builder, KL_kl_named_barrier, arguments, 2);
  else kl_call(&g->prelude, g->builder, functions[kl_has(&g->prelude, KL_kl_barrier_shared)], NULL, 0);
  g->shared_dirty = false;
}

void gpu_scratch_begin(gpu *g, uint64_t bytes) {
  if (g->spread) gpu_fail(g, KILN_STATUS_INTERNAL, "an exchange between blocks that share a program");
  bytes += g->scratch_base;
  if (bytes > g->machine->max_shared)
    gpu_fail(g, KILN_STATUS_LIMIT,
             "an exchange between threads needs %llu bytes of shared memory, expected at most %u on %s",
             (unsigned long long)bytes, g->machine->max_shared, g->machine->name);
  else if (bytes > g->shared_bytes) g->shared_bytes = (uint32_t)bytes;
  if (g->shared_dirty) gpu_barrier(g);
}

LLVMValueRef gpu_shared_at(gpu *g, LLVMValueRef byte_offset) {
  return LLVMBuildGEP2(g->builder, g->i8, g->shared, &byte_offset, 1, "");
}

/// A tile's way into or out of shared memory: which registers make a piece, and where a thread's first
/// element lies.
typedef struct passage {
  const layout_memory *memory;
  const kiln_layout *layout;
  unsigned log2_bytes, vector;
  uint8_t piece[8];   ///< register bits within a piece
  uint32_t start;     ///< byte offset of the tile
  LLVMValueRef base;  ///< byte offset of the thread's first element within it
  LLVMValueRef plain; ///< the same without what is left free
  uint32_t base_bits; ///< bits that the latter can have
  LLVMValueRef slot;  ///< byte offset of a slot, or NULL
} passage;

/// The same of a place that differs between threads, in bytes.
static LLVMValueRef padded(gpu *g, const layout_memory *memory, unsigned log2_bytes, LLVMValueRef place) {
  LLVMValueRef row = LLVMBuildLShr(g->builder, place, gpu_i32(g, memory->row + log2_bytes), "");
  LLVMValueRef free = LLVMBuildMul(g->builder, row, gpu_i32(g, (uint32_t)memory->pad << log2_bytes), "");
  return LLVMBuildAdd(g->builder, place, free, "");
}

static passage open_passage(gpu *g, const layout_memory *memory, const kiln_layout *layout,
                            unsigned log2_bytes, uint32_t start) {
  passage p = {.start = start, .memory = memory, .layout = layout, .log2_bytes = log2_bytes};
  uint32_t basis[LAYOUT_MAX_PLACES] = {0};
  p.vector = layout_memory_vector(memory, layout, 4 - log2_bytes, p.piece);
  for (unsigned i = 0; i < threads_of(layout); i++) {
    basis[i] = layout_offset(memory, layout->basis[layout->registers + i]) << log2_bytes;
    p.base_bits |= basis[i];
  }
  p.base = p.plain = gpu_thread_bits(g, basis, threads_of(layout));
  if (memory->pad) p.base = padded(g, memory, log2_bytes, p.plain);
  return p;
}

/// Register number of element `i` of the piece that starts at register `r`.
static uint32_t piece_register(const passage *p, uint32_t r, unsigned i) {
  for (unsigned j = 0; j < p->vector; j++)
    if (i >> j & 1) r |= 1u << p->piece[j];
  return r;
}

static bool starts_piece(const passage *p, uint32_t r) {
  return r == (r & ~piece_register(p, 0, (1u << p->vector) - 1));
}

static LLVMValueRef piece_pointer(gpu *g, const passage *p, uint32_t r) {
  uint32_t own = layout_offset(p->memory, layout_element(p->layout, r)), more = p->start;
  LLVMValueRef base = p->base;
  if (!(own << p->log2_bytes & p->base_bits)) {
    more += layout_padded(p->memory, own) << p->log2_bytes;
  } else {
    base = LLVMBuildXor(g->builder, p->plain, gpu_i32(g, own << p->log2_bytes), "");
    if (p->memory->pad) base = padded(g, p->memory, p->log2_bytes, base);
  }
  LLVMValueRef at = gpu_shared_at(g, base), last = gpu_i32(g, more);
  if (p->slot) at = LLVMBuildGEP2(g->builder, g->i8, at, (LLVMValueRef[1]){p->slot}, 1, "");
  return LLVMBuildGEP2(g->builder, g->i8, at, &last, 1, "");
}

static void write_tile(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                       uint32_t start, LLVMValueRef slot) {
  passage p = open_passage(g, memory, &tile->layout, log2_bytes, start);
  p.slot = slot;
  LLVMValueRef owner = gpu_is_owner(g, &tile->layout), elements[16];
  LLVMBasicBlockRef after = NULL;
  if (owner) {
    LLVMBasicBlockRef body = gpu_block(g, "own");
    after = gpu_block(g, "written");
    LLVMBuildCondBr(g->builder, owner, body, after);
    LLVMPositionBuilderAtEnd(g->builder, body);
  }
  // Where loads complete in order, what was loaded last is written first: then there is one wait.
  const uint32_t count = 1u << tile->layout.registers;
  for (uint32_t n = 0; n < count; n++) {
    const uint32_t r = g->machine->hold_loads ? count - 1 - n : n;
    if (!starts_piece(&p, r)) continue;
    for (unsigned i = 0; i < 1u << p.vector; i++) elements[i] = tile->regs[piece_register(&p, r, i)];
    LLVMValueRef store =
        LLVMBuildStore(g->builder, gpu_pack(g, elements, 1u << p.vector), piece_pointer(g, &p, r));
    LLVMSetAlignment(store, 1u << (p.vector + log2_bytes));
  }
  if (!owner) return;
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

void gpu_write_tile(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                    uint32_t start) {
  write_tile(g, tile, memory, log2_bytes, start, NULL);
}

/// Reads the piece that starts at register `r`.
static void read_piece(gpu *g, const passage *p, LLVMTypeRef type, uint32_t r, LLVMValueRef *regs) {
  LLVMValueRef elements[16];
  unsigned bytes = 1u << (p->vector + p->log2_bytes);
  LLVMValueRef load = LLVMBuildLoad2(g->builder, gpu_packed_type(g, bytes), piece_pointer(g, p, r), "");
  LLVMSetAlignment(load, bytes);
  gpu_unpack(g, load, type, elements, 1u << p->vector);
  for (unsigned i = 0; i < 1u << p->vector; i++) regs[piece_register(p, r, i)] = elements[i];
}

static gpu_tile read_tile(gpu *g, const layout_memory *memory, LLVMTypeRef type, const kiln_layout *layout,
                          unsigned log2_bytes) {
  gpu_tile out = gpu_tile_new(g, layout);
  passage p = open_passage(g, memory, layout, log2_bytes, g->scratch_base);
  for (uint32_t r = 0; r < 1u << layout->registers; r++)
    if (starts_piece(&p, r)) read_piece(g, &p, type, r, out.regs);
  return out;
}

// ------------------------------------------------------------------------------------ matrix loads

/// ldmatrix: 8 rows of 16 bytes a matrix. Each lane names a row; a thread gets a word of a row (plain), so
/// that elements may have any size up to that, or two neighbours of 16 bits of a column (transposed).
/// `address` is the layout of those rows: registers are the row's elements, then what is left of the
/// reader's; lanes are the row number, then up to two matrix bits.
typedef struct matrix_load {
  bool is_transposed;
  unsigned word;     ///< elements of a word, logarithm
  unsigned matrices; ///< logarithm
  unsigned wanted; ///< elements of a row that shall lie together, logarithm: as many as are read, or written
  uint32_t row[4]; ///< of its elements, as many as row_bits says
  kiln_layout address;
} matrix_load;

enum { WORD_BYTES = 2, LANES_IN_ROW = 2 }; // logarithms

static unsigned row_bits(const matrix_load *plan) { return plan->word + LANES_IN_ROW; }

/// How many of the vectors, from the first on, are registers.
static unsigned in_registers(const kiln_layout *l, const uint32_t *vectors, unsigned count) {
  unsigned found = 0;
  while (found < count && vectors[found] && layout_register_of(l, vectors[found]) >= 0) found++;
  return found;
}

/// Whether rows lie across (far) rather than along what a thread reads: where more of a row is written at
/// once, or lanes go on from it.
static bool is_across(const kiln_layout *from, const uint32_t near[4], unsigned near_count,
                      const uint32_t far[3]) {
  unsigned along = in_registers(from, near, near_count), across = in_registers(from, far, 3);
  if (across == 3 || along == near_count) return across == 3;
  if (across != along) return across > along;
  return from->lanes && far[across] && from->basis[from->registers] == far[across];
}

/// True when `to` is what a matrix load yields and `from` can write rows: whole ones, or any part of them.
typedef enum rows_written { WHOLE_ROWS, PARTS_OF_ROWS } rows_written;
static bool is_one(uint32_t basis) { return basis && !(basis & (basis - 1)); }

/// A read that turns (gpu_machine.read_turned): the four lowest lanes of the reader are neighbours of a row
/// of memory, its two lowest registers four rows. Lane l of sixteen names four neighbours, those from 4 (l %
/// 4) on of row l / 4.
static bool plan_turned_read(const kiln_layout *from, const kiln_layout *to, unsigned log2_bytes,
                             matrix_load *out) {
  enum { LANES = 6, LANES_OF_GROUP = 4, TURNED = 2 };
  const uint32_t *lanes = to->basis + to->registers;
  if (log2_bytes != 1 || to->lanes != LANES || to->registers < TURNED) return false;
  for (unsigned i = 0; i < LANES_OF_GROUP; i++)
    if (!is_one(lanes[i])) return false;
  for (unsigned i = 0; i < TURNED; i++)
    if (!is_one(to->basis[i]) || layout_register_of(from, to->basis[i]) >= 0) return false;
  *out = (matrix_load){.is_transposed = true, .matrices = TURNED, .wanted = in_registers(from, lanes, 3)};
  if (out->wanted < TURNED) return false;
  memcpy(out->row, lanes, out->wanted * sizeof *out->row);
  kiln_layout *a = &out->address;
  *a = *to;
  uint32_t *own = a->basis + a->registers;
  for (unsigned i = 0; i < TURNED; i++) {
    a->basis[i] = lanes[i];
    own[i] = lanes[TURNED + i];
    own[TURNED + i] = to->basis[i];
  }
  return true;
}

static bool plan_matrix_load(gpu *g, const kiln_layout *from, const kiln_layout *to, unsigned log2_bytes,
                             rows_written written, matrix_load *out) {
  if (g->machine->read_turned) return written == PARTS_OF_ROWS && plan_turned_read(from, to, log2_bytes, out);
  unsigned word = WORD_BYTES - log2_bytes;
  if (log2_bytes > WORD_BYTES || to->lanes != 5 || to->registers < word ||
      word + 2 > sizeof out->row / sizeof *out->row || !kl_has(&g->prelude, KL_kl_ldmatrix_x4))
    return false;
  const uint32_t *lanes = to->basis + to->registers, *far = lanes + LANES_IN_ROW;
  uint32_t near[4];
  for (unsigned i = 0; i < word; i++) near[i] = to->basis[i];
  for (unsigned i = 0; i < LANES_IN_ROW; i++) near[word + i] = lanes[i];
  bool is_transposed = word == 1 && is_across(from, near, word + LANES_IN_ROW, far);
  const uint32_t *row = is_transposed ? far : near;
  unsigned whole = word + LANES_IN_ROW; // of 16-bit elements 3, either way
  if (written == WHOLE_ROWS && in_registers(from, row, whole) < whole) return false;
  for (unsigned i = 0; i < whole; i++)
    if (!row[i]) return false;
  *out = (matrix_load){.is_transposed = is_transposed,
                       .word = word,
                       .matrices = to->registers - word < 2 ? to->registers - word : 2,
                       .wanted = whole};
  memcpy(out->row, row, row_bits(out) * sizeof *out->row);
  kiln_layout *a = &out->address;
  *a = (kiln_layout){.bits = to->bits, .lanes = to->lanes, .warps = to->warps};
  unsigned at = 0;
  for (unsigned i = 0; i < row_bits(out); i++) a->basis[at++] = out->row[i];
  for (unsigned i = word + out->matrices; i < to->registers; i++) a->basis[at++] = to->basis[i];
  a->registers = (uint8_t)at;
  for (unsigned i = 0; i < 3; i++) a->basis[at++] = is_transposed ? near[i] : far[i];
  for (unsigned i = 0; i < 2; i++) a->basis[at++] = i < out->matrices ? to->basis[word + i] : 0;
  for (unsigned i = 0; i < to->warps; i++) a->basis[at++] = to->basis[to->registers + to->lanes + i];
  return true;
}

/// One matrix load: piece `r` of the registers.
static void read_matrix_piece(gpu *g, const matrix_load *plan, const passage *p, LLVMTypeRef type, uint32_t r,
                              LLVMValueRef *regs) {
  static const kl_function functions[2][3] = {
      {KL_kl_ldmatrix_x1, KL_kl_ldmatrix_x2, KL_kl_ldmatrix_x4},
      {KL_kl_ldmatrix_x1_trans, KL_kl_ldmatrix_x2_trans, KL_kl_ldmatrix_x4_trans}};
  LLVMValueRef pointer = piece_pointer(g, p, r << row_bits(plan));
  if (g->machine->read_turned) {
    LLVMValueRef read = g->machine->read_turned(g, pointer, type);
    for (uint32_t i = 0; i < 1u << plan->matrices; i++)
      regs[r << plan->matrices | i] = LLVMBuildExtractElement(g->builder, read, gpu_i32(g, i), "");
    return;
  }
  LLVMValueRef loaded =
      kl_call(&g->prelude, g->builder, functions[plan->is_transposed][plan->matrices], &pointer, 1);
  for (uint32_t m = 0; m < 1u << plan->matrices; m++) {
    LLVMValueRef word =
        plan->matrices ? LLVMBuildExtractElement(g->builder, loaded, gpu_i32(g, m), "") : loaded;
    gpu_unpack(g, word, type, regs + (((size_t)r << plan->matrices | m) << plan->word), 1u << plan->word);
  }
}

static gpu_tile read_matrices(gpu *g, const matrix_load *plan, const layout_memory *memory, LLVMTypeRef type,
                              const kiln_layout *to) {
  gpu_tile out = gpu_tile_new(g, to);
  passage p = open_passage(g, memory, &plan->address, WORD_BYTES - plan->word, g->scratch_base);
  for (uint32_t r = 0; r < 1u << (to->registers - plan->word - plan->matrices); r++)
    read_matrix_piece(g, plan, &p, type, r, out.regs);
  return out;
}

static unsigned log2_bytes_of(gpu *g, LLVMTypeRef type) {
  return (unsigned)__builtin_ctz(gpu_bytes_of(g, type));
}

static gpu_tile through_memory(gpu *g, const gpu_tile *tile, LLVMTypeRef type, const kiln_layout *to) {
  unsigned log2_bytes = log2_bytes_of(g, type);
  matrix_load plan;
  // Other sizes are for operands: elsewhere what a thread holds is in a row more often.
  bool is_matrix = log2_bytes == 1 && plan_matrix_load(g, &tile->layout, to, log2_bytes, WHOLE_ROWS, &plan);
  layout_memory memory = is_matrix
                             ? layout_swizzle(&tile->layout, &plan.address, log2_bytes, plan.row, plan.wanted)
                             : layout_swizzle(&tile->layout, to, log2_bytes, NULL, 0);
  gpu_note_exchange(g, &memory, &tile->layout, is_matrix ? &plan.address : to, log2_bytes, is_matrix);
  gpu_scratch_begin(g, (uint64_t)1 << (tile->layout.bits + log2_bytes));
  gpu_write_tile(g, tile, &memory, log2_bytes, g->scratch_base);
  gpu_barrier(g);
  gpu_tile out =
      is_matrix ? read_matrices(g, &plan, &memory, type, to) : read_tile(g, &memory, type, to, log2_bytes);
  g->shared_dirty = true;
  return out;
}

/// The one machine bit that holds element bit `mask` and nothing else; -1 when it is spread.
static int holder_of(const kiln_layout *l, uint32_t mask) {
  int found = -1;
  for (unsigned i = 0; i < places(l); i++) {
    if (!(l->basis[i] & mask)) continue;
    if (l->basis[i] != mask || found >= 0) return -1;
    found = (int)i;
  }
  return found;
}

/// The highest element bit that is a register bit of the writer and has one holder in the reader, preferably
/// a register; 0 when there is none.
static uint32_t cut_bit(const kiln_layout *from, const kiln_layout *to) {
  uint32_t best = 0, best_register = 0;
  for (unsigned i = 0; i < from->registers; i++) {
    uint32_t mask = from->basis[i];
    if (mask & (mask - 1) || holder_of(from, mask) != (int)i || holder_of(to, mask) < 0) continue;
    if (mask > best) best = mask;
    if (holder_of(to, mask) < to->registers && mask > best_register) best_register = mask;
  }
  return best_register ? best_register : best;
}

/// The layout of one half: the element bit is gone, and its register with it; a thread bit becomes a replica.
static kiln_layout half_layout(const kiln_layout *l, uint32_t mask) {
  kiln_layout out = *l;
  int bit = holder_of(l, mask);
  out.bits--;
  if (bit < l->registers) {
    out.registers--;
    memmove(out.basis + bit, out.basis + bit + 1,
            (LAYOUT_MAX_PLACES - 1 - (unsigned)bit) * sizeof *out.basis);
    out.basis[LAYOUT_MAX_PLACES - 1] = 0;
  } else {
    out.basis[bit] = 0;
  }
  for (unsigned i = 0; i < LAYOUT_MAX_PLACES; i++) out.basis[i] = layout_squeeze(out.basis[i], mask);
  return out;
}

static uint32_t with_bit(uint32_t r, unsigned bit, uint32_t value) {
  uint32_t low = r & ((1u << bit) - 1);
  return low | value << bit | (r & ~((1u << bit) - 1)) << 1;
}

static LLVMValueRef thread_bit(gpu *g, unsigned bit) {
  LLVMValueRef v = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, 1u << bit), "");
  return LLVMBuildICmp(g->builder, LLVMIntNE, v, gpu_i32(g, 0), "");
}

/// A tile too large for shared memory goes through in halves, cut at a register bit of the writer.
static gpu_tile through_memory_in_parts(gpu *g, const gpu_tile *tile, LLVMTypeRef type,
                                        const kiln_layout *to) {
  uint64_t bytes = (uint64_t)1 << (tile->layout.bits + log2_bytes_of(g, type));
  uint32_t mask = bytes + g->scratch_base > g->machine->max_shared ? cut_bit(&tile->layout, to) : 0;
  if (!mask) return through_memory(g, tile, type, to);
  kiln_layout half_from = half_layout(&tile->layout, mask), half_to = half_layout(to, mask);
  unsigned bit_from = (unsigned)holder_of(&tile->layout, mask), bit_to = (unsigned)holder_of(to, mask);
  gpu_tile out = gpu_tile_new(g, to), parts[2];
  for (uint32_t half = 0; half < 2; half++) {
    parts[half] = gpu_tile_new(g, &half_from);
    for (uint32_t r = 0; r < 1u << half_from.registers; r++)
      parts[half].regs[r] = tile->regs[with_bit(r, bit_from, half)];
    parts[half] = through_memory_in_parts(g, &parts[half], type, &half_to);
  }
  bool is_register = bit_to < to->registers;
  LLVMValueRef is_second = is_register ? NULL : thread_bit(g, bit_to - to->registers);
  for (uint32_t r = 0; r < 1u << half_to.registers; r++) {
    if (!is_register)
      out.regs[r] = LLVMBuildSelect(g->builder, is_second, parts[1].regs[r], parts[0].regs[r], "");
    for (uint32_t half = 0; is_register && half < 2; half++)
      out.regs[with_bit(r, bit_to, half)] = parts[half].regs[r];
  }
  return out;
}

void gpu_share_owned(gpu *g, gpu_tile *tile, ir_type element) {
  *tile = through_memory_in_parts(g, tile, gpu_type(g, element), &tile->layout);
}

// ---------------------------------------------------------------------------------------- operands
// read in parts

struct gpu_staged {
  gpu_tile from, to; ///< registers of `to` are filled as they are asked for
  LLVMTypeRef type;
  bool is_matrix;
  unsigned log2_bytes;
  uint32_t start;
  LLVMValueRef slot;
  matrix_load plan;
  layout_memory memory;
  passage passage;
};

/// A writer may have less of a piece than the reader: what both hold in registers comes first, then what the
/// reader alone does, so that at least it moves whole pieces. How many vectors of elements those are.
static unsigned reader_pieces(const kiln_layout *from, const kiln_layout *to, unsigned log2_bytes,
                              uint32_t row[4]) {
  unsigned count = 0, most = 4 - log2_bytes;
  for (unsigned pass = 0; pass < 2; pass++)
    for (unsigned i = 0; i < to->registers && count < most; i++) {
      bool is_shared = false, is_simple = !(to->basis[i] & (to->basis[i] - 1));
      for (unsigned k = 0; k < from->registers; k++) is_shared |= from->basis[k] == to->basis[i];
      if (is_simple && is_shared == !pass) row[count++] = to->basis[i];
    }
  return count;
}

static layout_memory plain_memory(gpu *g, const kiln_layout *from, const kiln_layout *to,
                                  unsigned log2_bytes) {
  uint32_t row[4];
  unsigned count = g->machine->hold_loads ? reader_pieces(from, to, log2_bytes, row) : 0;
  return layout_swizzle(from, to, log2_bytes, row, count);
}

gpu_staged *gpu_stage(gpu *g, const gpu_tile *tile, ir_type element, const kiln_layout *to) {
  layout_moves moves = layout_convert(&tile->layout, to);
  gpu_staged s = {.from = *tile, .type = gpu_type(g, element)};
  s.log2_bytes = log2_bytes_of(g, s.type);
  if (moves.reach == LAYOUT_SAME_THREAD) return NULL;
  s.is_matrix = plan_matrix_load(g, &tile->layout, to, s.log2_bytes, PARTS_OF_ROWS, &s.plan);
  s.memory = s.is_matrix
                 ? layout_swizzle(&tile->layout, &s.plan.address, s.log2_bytes, s.plan.row, s.plan.wanted)
                 : plain_memory(g, &tile->layout, to, s.log2_bytes);
  s.to = gpu_tile_new(g, to);
  gpu_note_exchange(g, &s.memory, &tile->layout, s.is_matrix ? &s.plan.address : to, s.log2_bytes,
                    s.is_matrix);
  return kiln_arena_copy(g->arena, &s, sizeof s);
}

layout_memory gpu_staged_memory(gpu *g, const kiln_layout *writer, const kiln_layout *to,
                                unsigned log2_bytes) {
  matrix_load plan;
  if (plan_matrix_load(g, writer, to, log2_bytes, PARTS_OF_ROWS, &plan))
    return layout_swizzle(writer, &plan.address, log2_bytes, plan.row, plan.wanted);
  return plain_memory(g, writer, to, log2_bytes);
}

layout_memory gpu_padded_memory(gpu *g, ir_type tile, unsigned axis, unsigned pad, const gpu_slots *slots) {
  matrix_load plan;
  uint32_t row[4];
  if (plan_matrix_load(g, &slots->writer, &slots->reader, slots->log2_bytes, PARTS_OF_ROWS, &plan))
    return layout_padded_rows(tile, 1 - axis, slots->log2_bytes, 2 * pad, plan.row, plan.wanted);
  unsigned count = reader_pieces(&slots->writer, &slots->reader, slots->log2_bytes, row);
  return layout_padded_rows(tile, axis, slots->log2_bytes, pad, row, count);
}

static LLVMValueRef slot_offset(gpu *g, const gpu_place *place) {
  if (place->slots->is_by_bytes) return place->slot;
  return LLVMBuildMul(g->builder, place->slot, gpu_i32(g, place->slots->bytes), "");
}

/// A matrix load needs its rows in one piece; the slots were laid out for the first reader.
gpu_staged *gpu_stage_slot(gpu *g, const gpu_place *place, ir_type element, const kiln_layout *to) {
  const gpu_slots *slots = place->slots;
  gpu_staged s = {.from = {.layout = slots->writer},
                  .type = gpu_type(g, element),
                  .start = slots->start,
                  .memory = slots->memory};
  s.log2_bytes = log2_bytes_of(g, s.type);
  s.is_matrix = plan_matrix_load(g, &slots->writer, to, s.log2_bytes, PARTS_OF_ROWS, &s.plan);
  for (unsigned i = 0; s.is_matrix && i < row_bits(&s.plan); i++)
    s.is_matrix = layout_offset(&s.memory, s.plan.row[i]) == 1u << i;
  s.slot = slot_offset(g, place);
  s.to = gpu_tile_new(g, to);
  gpu_note_exchange(g, &s.memory, NULL, s.is_matrix ? &s.plan.address : to, s.log2_bytes, s.is_matrix);
  return kiln_arena_copy(g->arena, &s, sizeof s);
}

void gpu_write_slot(gpu *g, const gpu_place *place, const gpu_tile *tile) {
  const gpu_slots *s = place->slots;
  write_tile(g, tile, &s->memory, s->log2_bytes, s->start, slot_offset(g, place));
}

LLVMValueRef gpu_slot_pointer(gpu *g, const gpu_place *place, uint32_t r) {
  const gpu_slots *s = place->slots;
  passage p = open_passage(g, &s->memory, &s->writer, s->log2_bytes, s->start);
  p.slot = slot_offset(g, place);
  return piece_pointer(g, &p, r);
}

uint32_t gpu_staged_bytes(const gpu_staged *s) { return 1u << (s->from.layout.bits + s->log2_bytes); }

void gpu_staged_write(gpu *g, gpu_staged *s, uint32_t start) {
  s->start = g->scratch_base + start;
  gpu_write_tile(g, &s->from, &s->memory, s->log2_bytes, s->start);
}

const LLVMValueRef *gpu_staged_read(gpu *g, gpu_staged *s, uint32_t first, uint32_t count) {
  const kiln_layout *l = s->is_matrix ? &s->plan.address : &s->to.layout;
  if (!s->passage.base) {
    s->passage = open_passage(g, &s->memory, l, s->log2_bytes, s->start);
    s->passage.slot = s->slot;
  }
  for (uint32_t r = first; r < first + count; r++) {
    if (s->to.regs[r]) continue;
    if (s->is_matrix) {
      read_matrix_piece(g, &s->plan, &s->passage, s->type, r >> (s->plan.word + s->plan.matrices),
                        s->to.regs);
      continue;
    }
    read_piece(g, &s->passage, s->type, r & ~piece_register(&s->passage, 0, (1u << s->passage.vector) - 1),
               s->to.regs);
  }
  return s->to.regs + first;
}

// -------------------------------------------------------------------------------------- the choice

/// Shuffles a conversion within the warp would take, in words.
static unsigned long long shuffle_cost(gpu *g, const choice *c, const kiln_layout *to, LLVMTypeRef type) {
  return ((unsigned long long)1 << (to->registers + c->count)) * (gpu_bytes_of(g, type) == 8 ? 2 : 1);
}

gpu_tile gpu_convert(gpu *g, const gpu_tile *tile, ir_type element, const kiln_layout *to) {
  if (layout_equal(&tile->layout, to)) return *tile;
  LLVMTypeRef type = gpu_type(g, element);
  layout_moves moves = layout_convert(&tile->layout, to);
  choice c = find_choice(g, &moves, &tile->layout, to, false);
  if (moves.reach == LAYOUT_SAME_THREAD && c.count <= MAX_SELECT_BITS)
    return rename_registers(g, tile, &moves, to);
  if (moves.reach == LAYOUT_SAME_WARP && c.count <= 1 && shuffle_cost(g, &c, to, type) <= MAX_SHUFFLES) {
    gpu_note_shuffle(g, to, gpu_bytes_of(g, type));
    return exchange_lanes(g, tile, &moves, to);
  }
  return through_memory_in_parts(g, tile, type, to);
}
