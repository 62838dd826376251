// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the memory that an address means, and runs loads and stores.
#include <string.h>

#include "tools/ptx/handlers.h"

enum { NOT_MEMORY = 2 }; // in `defined` of shared memory: a gap between variables

void ptx_shared_gaps(const ptx_module *module, ptx_block *block, uint32_t dynamic_offset) {
  memset(block->shared.defined, NOT_MEMORY, block->shared.size);
  memset(block->shared.defined + dynamic_offset, 0, block->shared.size - dynamic_offset);
  for (uint32_t k = 0; k < module->variable_count; k++) {
    const ptx_variable *v = &module->variables[k];
    if (v->space == SPACE_SHARED && !v->is_dynamic) memset(block->shared.defined + v->address, 0, v->size);
  }
}

static const char *const space_names[] = {
    [SPACE_GENERIC] = "generic", [SPACE_GLOBAL] = "global",   [SPACE_SHARED] = "shared",
    [SPACE_LOCAL] = "local",     [SPACE_PARAM] = "parameter", [SPACE_CONST] = "constant",
    [SPACE_CLUSTER] = "shared"};

static ptx_place outside(ptx_exec *x, uint32_t lane, ptx_space space, uint64_t address, uint32_t size) {
  const char *who = ptx_who(x->block, ptx_thread_of(x, lane));
  if (space == SPACE_GLOBAL || space == SPACE_CONST)
    ptx_find(x->run, PTX_OUTSIDE, "%s accesses %u bytes at %s", who, size,
             ptx_memory_where(x->run->memory, address));
  else
    ptx_find(x->run, PTX_OUTSIDE, "%s accesses %u bytes at 0x%llx of %s memory, where nothing is", who, size,
             (unsigned long long)address, space_names[space]);
  return (ptx_place){0};
}

static bool is_inside(const ptx_region *r, uint64_t offset, uint32_t size) {
  if (offset > r->size || size > r->size - offset) return false;
  return !r->defined || (r->defined[offset] != NOT_MEMORY && r->defined[offset + size - 1] != NOT_MEMORY);
}

// `address` becomes an offset.
static ptx_region *region_of(ptx_exec *x, uint32_t lane, ptx_space space, uint64_t *address) {
  ptx_block *block;
  switch (space) {
  case SPACE_SHARED:
  case SPACE_CLUSTER:
    block = ptx_cluster_reach(x, space, *address, address);
    return block ? &block->shared : NULL;
  case SPACE_LOCAL: return x->block->locals ? &x->block->locals[ptx_thread_of(x, lane)] : NULL;
  case SPACE_PARAM: return &x->run->parameters;
  default: return NULL;
  }
}

static ptx_space generic_space(uint64_t address) {
  switch (address >> PTX_WINDOW_SHIFT) {
  case 1: return SPACE_CLUSTER;
  case 2: return SPACE_LOCAL;
  case 3: return SPACE_PARAM;
  default: return SPACE_GLOBAL;
  }
}

ptx_place ptx_locate(ptx_exec *x, uint32_t lane, ptx_space space, uint64_t address, uint32_t size,
                     uint32_t alignment) {
  if (address % alignment) {
    ptx_find(x->run, PTX_MISALIGNED, "%s accesses %u bytes at 0x%llx, which is no multiple of %u",
             ptx_who(x->block, ptx_thread_of(x, lane)), size, (unsigned long long)address, alignment);
    return (ptx_place){0};
  }
  if (space == SPACE_GENERIC) {
    space = generic_space(address);
    address -= ptx_window(space);
  }
  if (space == SPACE_GLOBAL || space == SPACE_CONST) {
    ptx_region *r = ptx_memory_find(x->run->memory, address, size);
    return r ? (ptx_place){r, address - r->address} : outside(x, lane, space, address, size);
  }
  uint64_t offset = address;
  ptx_region *r = region_of(x, lane, space, &offset);
  return r && is_inside(r, offset, size) ? (ptx_place){r, offset} : outside(x, lane, space, address, size);
}

/// Memory that one thread can see only, or that nobody writes.
static bool is_private(const ptx_exec *x, const ptx_region *r) {
  return r == &x->run->parameters ||
         (x->block->locals && r >= x->block->locals && r < x->block->locals + x->block->thread_count);
}

static bool is_strong(const ptx_instruction *i) { return i->order >= ORDER_RELAXED || i->is_volatile; }

/// `inside`: bytes from there on that are memory; others are undefined.
static void read_value(ptx_exec *x, uint32_t lane, const ptx_operand *to, ptx_place at, uint32_t inside,
                       bool is_raced) {
  const ptx_instruction *i = x->i;
  uint32_t size = ptx_bits(i->types[0]) / 8;
  uint64_t value = 0;
  uint8_t defined = is_raced ? 0 : 0xff;
  memcpy(&value, at.region->bytes + at.offset, inside < size ? inside : size);
  for (uint32_t k = 0; k < size; k++)
    if (k >= inside || (at.region->defined && !at.region->defined[at.offset + k]))
      defined &= (uint8_t) ~(1u << k);
  if (ptx_types[i->types[0]].kind == PTX_CLASS_SIGNED) {
    value = (uint64_t)((int64_t)(value << (64 - 8 * size)) >> (64 - 8 * size));
    if (defined != 0xff) defined = 0;
  }
  ptx_write_parts(x, to, lane, value, defined);
}

/// How much of an aligned vector of global memory lies in an allocation, which begins at a multiple of more. Memory is protected
/// in larger pieces, so a vector may be read of which a part is wanted; what lies beyond the end is undefined.
static uint32_t inside_of(ptx_exec *x, ptx_space space, uint64_t address, uint32_t size) {
  if (space == SPACE_GENERIC) space = generic_space(address);
  const ptx_region *r = space == SPACE_GLOBAL ? ptx_memory_find(x->run->memory, address, 1) : NULL;
  const uint64_t rest = r ? r->size - (address - r->address) : size;
  return rest < size ? (uint32_t)rest : size;
}

void ptx_do_ld(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  const ptx_operand *to = &i->operands[0];
  uint32_t size = ptx_bits(i->types[0]) / 8, count = i->vector ? i->vector : 1;
  uint64_t addresses[PTX_LANES];
  ptx_addresses(x, &i->operands[1], addresses);
  ptx_space space = i->operands[1].space ? i->operands[1].space : i->space;
  PTX_EACH_LANE(lane, x->mask) {
    const uint32_t inside = count > 1 ? inside_of(x, space, addresses[lane], size * count) : size;
    ptx_place at = ptx_locate(x, lane, space, addresses[lane], inside, size * count);
    if (!at.region) return;
    bool is_raced = false;
    if (!is_private(x, at.region)) {
      is_raced = ptx_race_load(x->run, x->block, ptx_thread_of(x, lane));
      ptx_race_read(x->run, x->block, ptx_thread_of(x, lane), at.region, at.offset, inside,
                    is_strong(i) ? READ_STRONG : READ_WEAK);
      if (is_strong(i))
        ptx_race_atomic(x->run, x->block, ptx_thread_of(x, lane), ptx_location_of(at), i->order, i->scope,
                        true, false);
    }
    for (uint32_t k = 0; k < count; k++)
      read_value(x, lane, to->kind == OPERAND_VECTOR ? &to->items[k] : to,
                 (ptx_place){at.region, at.offset + (uint64_t)k * size},
                 inside > k * size ? inside - k * size : 0, is_raced);
  }
}

// An undefined byte may lie in shared and local memory; in global memory others would read it.
static void write_defined(ptx_exec *x, uint32_t lane, ptx_place at, uint32_t size, uint8_t defined) {
  bool may_be_undefined = at.region->owner || is_private(x, at.region);
  if (!may_be_undefined && (defined & ptx_mask_bits(size)) != ptx_mask_bits(size))
    ptx_find(x->run, PTX_UNDEFINED, "%s stores an undefined value",
             ptx_who(x->block, ptx_thread_of(x, lane)));
  for (uint32_t k = 0; at.region->defined && k < size; k++)
    at.region->defined[at.offset + k] = !may_be_undefined || defined >> k & 1;
}

// st.async [a], value, [barrier]
static void send(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  const ptx_operand *from = &i->operands[1];
  uint32_t size = ptx_bits(i->types[0]) / 8, count = i->vector ? i->vector : 1, ignored = ~0u;
  uint64_t addresses[PTX_LANES], barriers[PTX_LANES], buffer[PTX_LANES];
  if (i->operand_count != 3 || i->operands[2].kind != OPERAND_ADDRESS || size < 4 || size * count > 16) {
    ptx_find(x->run, PTX_UNKNOWN, "this form of st.async is not modelled");
    return;
  }
  ptx_addresses(x, &i->operands[0], addresses);
  ptx_addresses(x, &i->operands[2], barriers);
  PTX_EACH_LANE(lane, x->mask) {
    uint8_t value[16], defined[16];
    ptx_place at = ptx_locate(x, lane, SPACE_CLUSTER, addresses[lane], size * count, size * count),
              barrier = {0};
    if (at.region) barrier = ptx_locate(x, lane, SPACE_CLUSTER, barriers[lane], 8, 8);
    if (!barrier.region) return;
    for (uint32_t k = 0; k < count; k++) {
      const ptx_operand *o = from->kind == OPERAND_VECTOR ? &from->items[k] : from;
      memcpy(value + (size_t)k * size, &ptx_source(x, o, buffer, &ignored)[lane], size);
      for (uint32_t byte = 0; byte < size; byte++)
        defined[k * size + byte] = ptx_defined_bytes(x, o, lane) >> byte & 1;
    }
    ptx_bulk_send(x, lane, at, barrier, value, defined, size * count);
  }
}

// Lane by lane: what one writes is there when the next is checked.
void ptx_do_st(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  if (i->words[0] == WORD_async) {
    send(x);
    return;
  }
  if (i->word_count || i->operand_count != 2) {
    ptx_find(x->run, PTX_UNKNOWN, "this form of a store is not modelled");
    return;
  }
  const ptx_operand *from = &i->operands[1];
  uint32_t size = ptx_bits(i->types[0]) / 8, count = i->vector ? i->vector : 1, ignored = ~0u;
  uint64_t addresses[PTX_LANES], buffers[8][PTX_LANES];
  const uint64_t *v[8];
  ptx_addresses(x, &i->operands[0], addresses);
  ptx_space space = i->operands[0].space ? i->operands[0].space : i->space;
  for (uint32_t k = 0; k < count; k++)
    v[k] = ptx_source(x, from->kind == OPERAND_VECTOR ? &from->items[k] : from, buffers[k], &ignored);
  PTX_EACH_LANE(lane, x->mask) {
    uint8_t value[64];
    ptx_place at = ptx_locate(x, lane, space, addresses[lane], size * count, size * count);
    if (!at.region) return;
    for (uint32_t k = 0; k < count; k++) memcpy(value + (size_t)k * size, &v[k][lane], size);
    if (!is_private(x, at.region)) {
      ptx_race_write(x->run, x->block, ptx_thread_of(x, lane), at.region, at.offset, size * count,
                     is_strong(i), value);
      if (is_strong(i))
        ptx_race_atomic(x->run, x->block, ptx_thread_of(x, lane), ptx_location_of(at), i->order, i->scope,
                        false, true);
    }
    memcpy(at.region->bytes + at.offset, value, (size_t)size * count);
    for (uint32_t k = 0; k < count; k++)
      write_defined(x, lane, (ptx_place){at.region, at.offset + (uint64_t)k * size}, size,
                    ptx_defined_bytes(x, from->kind == OPERAND_VECTOR ? &from->items[k] : from, lane));
  }
}

// Between generic addresses and those of a space; global and constant ones are the same in both.
void ptx_do_cvta(ptx_exec *x) {
  uint64_t buffer[PTX_LANES];
  uint32_t defined = ~0u;
  uint64_t window = ptx_window(x->i->space);
  const uint64_t *v = ptx_source(x, &x->i->operands[1], buffer, &defined);
  PTX_EACH_LANE(lane, x->mask)
  ptx_write(x, &x->i->operands[0], lane, x->i->is_to ? v[lane] - window : v[lane] + window,
            defined >> lane & 1);
}

// What a thread may not touch is not touched; these move nothing that results depend on.
void ptx_do_nothing(ptx_exec *x) { (void)x; }
