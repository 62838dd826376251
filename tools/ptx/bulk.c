// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bulk copies: boxes of tensors between global and shared memory by a tensor map, rows of bytes without one,
// to one block of the cluster or several; and st.async. They land late and in any order, in each block by
// itself. Stores of boxes have a granularity of 16 bytes: a row that ends inside one is a finding, as the
// rest of it is written as well.
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/handlers.h"

enum { MAGIC = 0x7874706b, GRANULE = 16 };

bool ptx_tensor_encode(void *out, uint32_t element_bytes, ptx_element_kind kind, uint32_t rank,
                       uint64_t address, const uint64_t *extents, const uint64_t *strides,
                       const uint32_t *box, uint32_t swizzle, bool is_nan_filled) {
  _Static_assert(sizeof(ptx_tensor) <= PTX_MAP_BYTES, "a tensor map holds it");
  ptx_tensor t = {MAGIC, element_bytes, rank, swizzle, is_nan_filled, kind, address};
  if (rank < 1 || rank > 5 || address % GRANULE || (uint64_t)box[0] * element_bytes % GRANULE ||
      (swizzle && box[0] * element_bytes > swizzle))
    return false;
  for (uint32_t k = 0; k < rank; k++) {
    if (!extents[k] || extents[k] > 1ull << 32 || !box[k] || box[k] > 256) return false;
    if (k && (strides[k - 1] % GRANULE || strides[k - 1] >> 40)) return false;
    t.extents[k] = extents[k];
    t.box[k] = box[k];
    if (k) t.strides[k - 1] = strides[k - 1];
  }
  memset(out, 0, PTX_MAP_BYTES);
  memcpy(out, &t, sizeof t);
  return true;
}

void ptx_bulk_deinit(ptx_block *block) {
  for (uint32_t k = 0; k < block->bulk_count; k++) {
    ptx_view_drop(block->bulks[k].before);
    free(block->bulks[k].bytes);
  }
  free(block->bulks);
  free(block->bulk_groups);
}

// Where byte `at` of a dense box lies: the swizzle exchanges 16-byte chunks within rows of 128 bytes.
static uint64_t swizzled(const ptx_tensor *t, uint64_t address) {
  uint64_t bits = t->swizzle == 128 ? 7 : t->swizzle == 64 ? 3 : t->swizzle == 32 ? 1 : 0;
  return address ^ (address >> 7 & bits) << 4;
}

// A row of the box: its place in shared memory and in the tensor, and how many of its bytes are inside. False
// past the last row.
static bool row_of(const ptx_bulk *b, uint32_t row, uint64_t *out_shared, int64_t *out_global,
                   uint64_t *out_first, uint64_t *out_inside) {
  const ptx_tensor *t = &b->tensor;
  uint64_t width = (uint64_t)t->box[0] * t->element_bytes, rest = row;
  int64_t first = b->at[0], extent = (int64_t)t->extents[0];
  bool is_inside = true;
  *out_shared = b->shared + row * width;
  *out_global = (int64_t)t->address + first * (int64_t)t->element_bytes;
  for (uint32_t k = 1; k < t->rank; k++) {
    int64_t at = b->at[k] + (int64_t)(rest % t->box[k]);
    rest /= t->box[k];
    is_inside &= at >= 0 && at < (int64_t)t->extents[k];
    *out_global += at * (int64_t)t->strides[k - 1];
  }
  if (rest) return false;
  int64_t begin = first < 0 ? -first : 0,
          end = extent - first < (int64_t)t->box[0] ? extent - first : (int64_t)t->box[0];
  *out_first = is_inside && end > begin ? (uint64_t)begin * t->element_bytes : 0;
  *out_inside = is_inside && end > begin ? (uint64_t)(end - begin) * t->element_bytes : 0;
  return true;
}

// Elements of tf32 are rounded on their way into shared memory.
static void fetch_row(const ptx_tensor *t, const uint8_t *from, uint8_t *to, uint64_t size) {
  memcpy(to, from, size);
  for (uint64_t k = 0; t->kind == PTX_ELEMENT_TF32 && k + 4 <= size; k += 4) {
    uint32_t bits;
    memcpy(&bits, to + k, 4);
    bits = (uint32_t)ptx_float_pack(PTX_TYPE_tf32, ptx_float_unpack(PTX_TYPE_f32, bits), ROUND_N, false);
    memcpy(to + k, &bits, 4);
  }
}

// Where byte `k` of a copy is read in shared memory.
static uint64_t source_of(const ptx_bulk *b, uint64_t k) {
  return b->kind == BULK_MOVE ? b->source + k : swizzled(&b->tensor, b->shared + k);
}

static void end_read(ptx_run *run, ptx_block *block, ptx_bulk *b) {
  if (b->bytes) return;
  b->bytes = malloc(2 * (size_t)b->size);
  KILN_ASSERT(b->bytes);
  for (uint32_t k = 0; k < b->size; k++) {
    uint64_t from = source_of(b, k);
    b->bytes[k] = block->shared.bytes[from];
    b->bytes[b->size + k] = block->shared.defined[from];
    ptx_race_async_read_end(run, block, b->thread, from, 1);
  }
}

// A byte of shared memory is written now.
static void arrive_at(ptx_run *run, ptx_block *block, const ptx_bulk *b, uint64_t to, bool is_async) {
  ptx_shadow *s = ptx_region_shadow(&b->to->shared, to);
  s->pending = 0;
  ptx_race_write(run, block, b->thread, &b->to->shared, to, 1, false, NULL);
  s->is_async = is_async;
  s->is_counted = true;
}

static void land_load(ptx_run *run, ptx_block *block, const ptx_bulk *b) {
  uint64_t shared, first, inside, width = (uint64_t)b->tensor.box[0] * b->tensor.element_bytes;
  int64_t global;
  uint8_t bytes[256 * 8];
  for (uint32_t row = 0; !run->is_stopped && row_of(b, row, &shared, &global, &first, &inside); row++) {
    ptx_region *r = inside ? ptx_memory_find(run->memory, (uint64_t)global + first, inside) : NULL;
    if (inside && !r) {
      ptx_find(run, PTX_OUTSIDE, "a bulk copy reads %llu bytes at %s", (unsigned long long)inside,
               ptx_memory_where(run->memory, (uint64_t)global + first));
      return;
    }
    if (r) {
      uint64_t offset = (uint64_t)global + first - r->address;
      ptx_race_read(run, block, b->thread, r, offset, (uint32_t)inside, READ_COPY);
      fetch_row(&b->tensor, r->bytes + offset, bytes + first, inside);
    }
    for (uint64_t k = 0; k < width; k++) {
      uint64_t to = swizzled(&b->tensor, shared + k), from = (uint64_t)global + k - (r ? r->address : 0);
      bool is_there = k >= first && k < first + inside;
      uint8_t fill = b->tensor.is_nan_filled ? 0xff : 0;
      arrive_at(run, block, b, to, true);
      b->to->shared.bytes[to] = is_there ? bytes[k] : fill;
      b->to->shared.defined[to] = is_there && r->defined ? r->defined[from] : 1;
    }
  }
  ptx_phase_bytes(run, block, b);
}

// The bytes of a move are its block's until now; those of a st.async are the copy's own.
static void land_move(ptx_run *run, ptx_block *block, ptx_bulk *b) {
  if (b->kind == BULK_MOVE) end_read(run, block, b);
  for (uint32_t k = 0; k < b->size && !run->is_stopped; k++) {
    arrive_at(run, block, b, b->shared + k, b->kind == BULK_MOVE);
    b->to->shared.bytes[b->shared + k] = b->bytes[k];
    b->to->shared.defined[b->shared + k] = b->bytes[b->size + k];
  }
  ptx_phase_bytes(run, block, b);
}

static void add_elements(const ptx_bulk *b, uint8_t *to, const uint8_t *from, uint64_t size) {
  static const ptx_type floats[9] = {[2] = PTX_TYPE_f16, [4] = PTX_TYPE_f32, [8] = PTX_TYPE_f64};
  uint32_t bytes = b->tensor.element_bytes;
  ptx_type type = b->tensor.kind == PTX_ELEMENT_BF16 ? PTX_TYPE_bf16 : floats[bytes];
  for (uint64_t k = 0; k + bytes <= size; k += bytes) {
    uint64_t old = 0, more = 0;
    memcpy(&old, to + k, bytes);
    memcpy(&more, from + k, bytes);
    uint64_t sum = b->tensor.kind ? ptx_float_add(type, old, more, ROUND_N) : old + more;
    memcpy(to + k, &sum, bytes);
  }
}

static void write_row(ptx_run *run, ptx_block *block, const ptx_bulk *b, uint64_t address,
                      const uint8_t *bytes, const uint8_t *defined, uint64_t size) {
  ptx_region *r = ptx_memory_find(run->memory, address, size);
  if (!r) {
    ptx_find(run, PTX_OUTSIDE, "a bulk copy writes %llu bytes at %s", (unsigned long long)size,
             ptx_memory_where(run->memory, address));
    return;
  }
  uint64_t offset = address - r->address;
  for (uint64_t k = 0; k < size; k++)
    if (!defined[k]) {
      ptx_find(run, PTX_UNDEFINED, "a bulk copy stores an undefined value of shared memory");
      break;
    }
  ptx_race_write(run, block, b->thread, r, offset, (uint32_t)size, b->kind == BULK_ADD, bytes);
  if (b->kind == BULK_ADD) add_elements(b, r->bytes + offset, bytes, size);
  else memcpy(r->bytes + offset, bytes, size);
  if (r->defined) memset(r->defined + offset, 1, size);
}

static void land_store(ptx_run *run, ptx_block *block, ptx_bulk *b) {
  uint64_t shared, first, inside;
  int64_t global;
  end_read(run, block, b);
  for (uint32_t row = 0; !run->is_stopped && row_of(b, row, &shared, &global, &first, &inside); row++) {
    if (!inside) continue;
    uint64_t at = shared - b->shared + first, after = (first + inside) % GRANULE;
    if (after) {
      ptx_find(run, PTX_OUTSIDE,
               "a bulk copy stores %llu bytes of a row; it writes whole granules of 16 bytes, so %llu bytes "
               "after the tensor's last column are overwritten",
               (unsigned long long)inside, (unsigned long long)(GRANULE - after));
      return;
    }
    write_row(run, block, b, (uint64_t)global + first, b->bytes + at, b->bytes + b->size + at, inside);
  }
}

static void land(ptx_run *run, ptx_block *block, uint32_t index) {
  ptx_bulk b = block->bulks[index];
  const ptx_instruction *at = run->at;
  block->bulks[index] = block->bulks[--block->bulk_count];
  run->at = b.by;
  ptx_moment now = ptx_race_go_to(block, b.thread, b.issued);
  if (b.kind == BULK_LOAD) land_load(run, block, &b);
  else if (b.to) land_move(run, block, &b);
  else land_store(run, block, &b);
  ptx_race_go_to(block, b.thread, now);
  run->at = at;
  ptx_view_drop(b.before);
  free(b.bytes);
}

bool ptx_bulk_land(ptx_run *run, ptx_block *block) {
  if (!block->bulk_count) return false;
  land(run, block, (uint32_t)ptx_random(run) % block->bulk_count);
  return true;
}

void ptx_bulk_wait(ptx_exec *x, uint32_t lanes, uint32_t open_groups, bool reads_only) {
  ptx_block *block = x->block;
  for (uint32_t k = 0; k < block->bulk_count;) {
    ptx_bulk *b = &block->bulks[k];
    uint32_t lane = b->thread % PTX_LANES;
    bool is_ours = !b->to && b->thread / PTX_LANES == x->warp->index && lanes >> lane & 1;
    if (!is_ours || b->group + open_groups >= block->bulk_groups[b->thread]) {
      k++;
    } else if (reads_only) {
      end_read(x->run, block, b);
      k++;
    } else {
      land(x->run, block, k);
    }
  }
}

// ------------------------------------------------------------------------------------------------- issue

static bool read_map(ptx_exec *x, uint32_t lane, uint64_t address, ptx_tensor *out) {
  ptx_place at = ptx_locate(x, lane, SPACE_GENERIC, address, PTX_MAP_BYTES, 64);
  if (!at.region) return false;
  memcpy(out, at.region->bytes + at.offset, sizeof *out);
  if (out->magic == MAGIC && out->rank == x->i->count) return true;
  ptx_find(x->run, PTX_OUTSIDE, "no tensor map of rank %u at 0x%llx", x->i->count,
           (unsigned long long)address);
  return false;
}

// Byte `k` of shared memory is pending from now on, by a copy of this instruction.
static void begin_write(ptx_exec *x, const ptx_bulk *b, uint64_t at) {
  ptx_race_write(x->run, x->block, b->thread, &b->to->shared, at, 1, false, NULL);
  ptx_region_shadow(&b->to->shared, at)->pending = x->i->line;
}

static void issue(ptx_exec *x, uint32_t lane, ptx_bulk *b) {
  ptx_block *block = x->block;
  b->thread = ptx_thread_of(x, lane);
  b->by = x->i;
  b->group = block->bulk_groups[b->thread];
  if (b->to && !ptx_phase_names(x, lane, (ptx_place){&b->to->shared, b->barrier})) return;
  if (block->bulk_count == block->bulk_capacity) {
    block->bulk_capacity = block->bulk_capacity ? 2 * block->bulk_capacity : 32;
    block->bulks = realloc(block->bulks, block->bulk_capacity * sizeof *block->bulks);
    KILN_ASSERT(block->bulks);
  }
  for (uint32_t k = 0; k < b->size && !x->run->is_stopped; k++) {
    if (b->to) begin_write(x, b, b->kind == BULK_LOAD ? swizzled(&b->tensor, b->shared + k) : b->shared + k);
    if (b->kind != BULK_LOAD && b->kind != BULK_SEND)
      ptx_race_async_read(x->run, block, b->thread, source_of(b, k), 1);
  }
  b->before = NULL;
  ptx_race_release_to(x->run, block, b->thread, &b->before);
  b->issued = ptx_race_issue(x->run, block, b->thread);
  block->bulks[block->bulk_count++] = *b;
}

void ptx_bulk_send(ptx_exec *x, uint32_t lane, ptx_place to, ptx_place barrier, const uint8_t *value,
                   const uint8_t *defined, uint32_t size) {
  ptx_bulk b = {.kind = BULK_SEND, .size = size, .shared = to.offset, .barrier = barrier.offset};
  b.to = to.region->owner;
  if (barrier.region->owner != b.to) {
    ptx_find(x->run, PTX_OUTSIDE, "%s: the destination and its mbarrier are in different blocks",
             ptx_who(x->block, ptx_thread_of(x, lane)));
    return;
  }
  b.bytes = malloc(2 * (size_t)size);
  KILN_ASSERT(b.bytes);
  memcpy(b.bytes, value, size);
  memcpy(b.bytes + size, defined, size);
  uint32_t before = x->block->bulk_count;
  issue(x, lane, &b);
  if (x->block->bulk_count == before) free(b.bytes);
}

// Issues a load to each of the blocks that a set of ranks names: at the same offsets in each.
static void issue_to_all(ptx_exec *x, uint32_t lane, ptx_bulk *b, uint64_t ranks) {
  const ptx_cluster *cluster = x->block->cluster;
  if (ranks >> cluster->block_count) {
    ptx_find(x->run, PTX_OUTSIDE, "%s copies to the ranks 0x%llx of a cluster of %u blocks",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)ranks, cluster->block_count);
    return;
  }
  for (uint32_t rank = 0; rank < cluster->block_count && !x->run->is_stopped; rank++) {
    b->to = cluster->blocks[rank];
    if (ranks >> rank & 1) issue(x, lane, b);
  }
}

void ptx_bulk_check_end(ptx_run *run, const ptx_block *block) {
  const ptx_cluster *cluster = block->cluster;
  for (uint32_t k = 0; k < cluster->block_count; k++)
    for (uint32_t n = 0; n < cluster->blocks[k]->bulk_count; n++) {
      const ptx_bulk *b = &cluster->blocks[k]->bulks[n];
      if (b->to != block) continue;
      run->at = b->by;
      ptx_find(run, PTX_OUTSIDE,
               "block %u ends while a copy into its shared memory, by block %u, thread %u, is under way",
               block->number, cluster->blocks[k]->number, b->thread);
      return;
    }
}

// ------------------------------------------------------------------------------------- forms of bulk copies

// Operands of a copy. `size` NULL: by a tensor map; `ranks` NULL: to one block.
typedef struct form {
  bool is_load; // into shared memory, with an mbarrier
  const ptx_operand *far, *shared, *size, *barrier, *ranks;
} form;

// Loads: [shared], [far], size, [barrier], ranks. Stores: [far], [shared], size.
static bool form_of(const ptx_instruction *i, form *out) {
  const ptx_operand *o = i->operands, *next = o + 2, *end = o + i->operand_count;
  bool is_tensor = ptx_has_word(i, WORD_tensor), is_load = !ptx_has_word(i, WORD_bulk_group);
  if (i->operand_count < 2 || o[0].kind != OPERAND_ADDRESS || o[1].kind != OPERAND_ADDRESS) return false;
  *out = (form){.is_load = is_load, .far = &o[is_load], .shared = &o[!is_load]};
  if (!is_tensor && next < end) out->size = next++;
  if (is_load && next < end) out->barrier = next++;
  if (i->is_multicast && next < end) out->ranks = next++;
  bool is_add = ptx_has_word(i, WORD_add), is_move = is_load && i->to_space == SPACE_SHARED;
  return next == end && (is_tensor ? out->far->count == i->count : out->size != NULL) &&
         (!is_load || (out->barrier && out->barrier->kind == OPERAND_ADDRESS)) &&
         (!i->is_multicast || (out->ranks && !is_move)) && ptx_has_word(i, WORD_reduce) == is_add &&
         !(is_add && (is_load || !is_tensor)) &&
         (is_load ? i->space >= SPACE_SHARED : i->space == SPACE_GLOBAL) &&
         (!is_load || i->to_space == SPACE_GLOBAL || (is_move && !is_tensor && i->space == SPACE_CLUSTER));
}

// Rows of 16 bytes, as if by a map.
static bool plain_rows(ptx_exec *x, uint32_t lane, uint64_t global, uint64_t size, ptx_tensor *out) {
  if (size % GRANULE || size >= 1 << 20 || global % GRANULE) {
    ptx_find(x->run, PTX_MISALIGNED, "%s copies %llu bytes at 0x%llx; both are multiples of 16, below 2^20",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)size, (unsigned long long)global);
    return false;
  }
  *out = (ptx_tensor){.magic = MAGIC, .element_bytes = 1, .rank = 2, .address = global};
  out->extents[0] = out->box[0] = out->strides[0] = GRANULE;
  out->extents[1] = out->box[1] = (uint32_t)(size / GRANULE);
  return size != 0;
}

// The end of a lane's copy in the block's own shared memory, or in that of others.
static bool locate_shared(ptx_exec *x, uint32_t lane, ptx_space space, uint64_t address, const ptx_bulk *b,
                          ptx_place *out) {
  uint32_t alignment = ptx_has_word(x->i, WORD_tensor) ? (b->tensor.swizzle == 128 ? 1024 : 128) : GRANULE;
  *out = ptx_locate(x, lane, space, address, b->size, alignment);
  return out->region != NULL;
}

typedef struct lanes {
  uint64_t far[PTX_LANES], shared[PTX_LANES], barriers[PTX_LANES], size_buffer[PTX_LANES],
      rank_buffer[PTX_LANES];
  const uint64_t *sizes, *ranks;
} lanes;

static bool describe(ptx_exec *x, uint32_t lane, const form *f, const lanes *l, ptx_bulk *b) {
  uint64_t buffer[PTX_LANES], size = f->size ? l->sizes[lane] : 0;
  if (b->kind == BULK_MOVE) {
    b->size = (uint32_t)size;
    ptx_place from;
    if (!plain_rows(x, lane, l->far[lane], size, &b->tensor)) return false;
    if (!locate_shared(x, lane, SPACE_SHARED, l->far[lane], b, &from)) return false;
    b->source = from.offset;
    return true;
  }
  if (f->size) {
    b->size = (uint32_t)size;
    return plain_rows(x, lane, l->far[lane], size, &b->tensor);
  }
  if (!read_map(x, lane, l->far[lane], &b->tensor)) return false;
  size = b->tensor.element_bytes;
  for (uint32_t k = 0; k < b->tensor.rank; k++) {
    size *= b->tensor.box[k];
    b->at[k] = (int32_t)ptx_decider(x, &f->far->items[k], buffer, "a coordinate")[lane];
  }
  b->size = (uint32_t)size;
  return true;
}

static void copy_lane(ptx_exec *x, uint32_t lane, const form *f, const lanes *l, ptx_bulk_kind kind) {
  ptx_bulk b = {.kind = kind};
  ptx_place shared, barrier;
  ptx_space space = f->is_load ? x->i->space : SPACE_SHARED;
  if (!describe(x, lane, f, l, &b) || !locate_shared(x, lane, space, l->shared[lane], &b, &shared)) return;
  b.shared = shared.offset;
  if (!f->is_load) {
    issue(x, lane, &b);
    return;
  }
  barrier = ptx_locate(x, lane, SPACE_CLUSTER, l->barriers[lane], 8, 8);
  if (!barrier.region) return;
  if (barrier.region != shared.region) {
    ptx_find(x->run, PTX_OUTSIDE, "%s: the destination and its mbarrier are in different blocks",
             ptx_who(x->block, ptx_thread_of(x, lane)));
    return;
  }
  b.to = shared.region->owner;
  b.barrier = barrier.offset;
  if (f->ranks) issue_to_all(x, lane, &b, l->ranks[lane] & 0xffff);
  else issue(x, lane, &b);
}

static void copy_bulk(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  form f;
  static lanes l;
  if (!form_of(i, &f)) {
    ptx_find(x->run, PTX_UNKNOWN, "this form of a bulk copy is not modelled");
    return;
  }
  ptx_bulk_kind kind = f.is_load                   ? (i->to_space == SPACE_SHARED ? BULK_MOVE : BULK_LOAD)
                       : ptx_has_word(i, WORD_add) ? BULK_ADD
                                                   : BULK_STORE;
  ptx_addresses(x, f.far, l.far);
  ptx_addresses(x, f.shared, l.shared);
  if (f.barrier) ptx_addresses(x, f.barrier, l.barriers);
  if (f.size) l.sizes = ptx_decider(x, f.size, l.size_buffer, "the size");
  if (f.ranks) l.ranks = ptx_decider(x, f.ranks, l.rank_buffer, "the set of ranks");
  PTX_EACH_LANE(lane, x->mask)
  if (!x->run->is_stopped) copy_lane(x, lane, &f, &l, kind);
}

void ptx_do_bulk(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  if (ptx_has_word(i, WORD_commit_group))
    PTX_EACH_LANE(lane, x->mask) x->block->bulk_groups[ptx_thread_of(x, lane)]++;
  else if (ptx_has_word(i, WORD_wait_group))
    ptx_bulk_wait(x, x->mask, (uint32_t)i->operands[0].immediate, ptx_has_word(i, WORD_read));
  else copy_bulk(x);
}
