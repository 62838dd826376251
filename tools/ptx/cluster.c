// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Thread block clusters: the barrier of all their threads, and addresses of each other's shared memory.
//
// A shared::cluster address has the rank of the block plus one above the offset, so that it is never an
// offset itself; an offset alone is the block's own, as the manual has shared::cta inside shared::cluster.
#include "tools/ptx/handlers.h"

ptx_block *ptx_cluster_find(const ptx_cluster *cluster, uint32_t block) {
  for (uint32_t k = 0; k < cluster->block_count; k++)
    if (cluster->blocks[k]->number == block) return cluster->blocks[k];
  return NULL;
}

ptx_block *ptx_cluster_reach(const ptx_exec *x, ptx_space space, uint64_t address, uint64_t *out_offset) {
  uint64_t rank = address >> PTX_RANK_SHIFT;
  const ptx_cluster *cluster = x->block->cluster;
  *out_offset = address & ((1u << PTX_RANK_SHIFT) - 1);
  if (!rank) return x->block;
  if (rank > cluster->block_count) return NULL;
  ptx_block *block = cluster->blocks[rank - 1];
  return block == x->block || space == SPACE_CLUSTER ? block : NULL;
}

void ptx_cluster_deinit(ptx_cluster *c) {
  ptx_view_drop(c->arriving);
  ptx_view_drop(c->completed);
  ptx_view_drop(c->arriving_inits);
  ptx_view_drop(c->completed_inits);
}

// --------------------------------------------------------------------------------------------- the barrier

static bool has_arrived(const ptx_cluster *c, const ptx_warp *w) {
  PTX_EACH_LANE(lane, w->live)
  if (w->block->threads[w->index * PTX_LANES + lane].cluster_arrivals <= c->phase) return false;
  return true;
}

void ptx_cluster_check(ptx_cluster *c) {
  if (!c->has_arrivals) return;
  for (uint32_t b = 0; b < c->block_count; b++)
    for (uint32_t w = 0; w < c->blocks[b]->warp_count; w++)
      if (!has_arrived(c, &c->blocks[b]->warps[w])) return;
  ptx_view_drop(c->completed);
  ptx_view_drop(c->completed_inits);
  c->completed = c->arriving;
  c->completed_inits = c->arriving_inits;
  c->arriving = c->arriving_inits = NULL;
  c->has_arrivals = false;
  c->phase++;
  for (uint32_t b = 0; b < c->block_count; b++) ptx_wake(c->blocks[b]);
}

static void arrive(ptx_exec *x) {
  ptx_cluster *c = x->block->cluster;
  PTX_EACH_LANE(lane, x->mask) {
    uint32_t thread = ptx_thread_of(x, lane);
    ptx_thread *t = &x->block->threads[thread];
    if (t->cluster_arrivals > t->cluster_waits) {
      ptx_find(x->run, PTX_BARRIER,
               "%s arrives again at the barrier of its cluster, without a wait in between",
               ptx_who(x->block, thread));
      return;
    }
    ptx_race_publish(x->run, x->block, thread, x->i->order, &c->arriving);
    ptx_view_add(&c->arriving_inits, t->inits_released);
    t->cluster_arrivals++;
  }
  c->has_arrivals = true;
  ptx_cluster_check(c);
}

static void wait(ptx_exec *x) {
  const ptx_cluster *c = x->block->cluster;
  uint32_t waiting = 0;
  PTX_EACH_LANE(lane, x->mask) {
    uint32_t thread = ptx_thread_of(x, lane);
    ptx_thread *t = &x->block->threads[thread];
    if (t->cluster_arrivals == t->cluster_waits) {
      ptx_find(x->run, PTX_BARRIER, "%s waits at the barrier of its cluster, where it has not arrived",
               ptx_who(x->block, thread));
      return;
    }
    if (t->cluster_waits == c->phase) {
      waiting |= 1u << lane;
      continue;
    }
    t->cluster_waits++;
    ptx_race_acquire(x->block, thread, c->completed);
    ptx_view_add(&t->inits, c->completed_inits);
  }
  if (!waiting) return;
  x->mask = waiting;
  ptx_sleep(x);
}

void ptx_cluster_barrier(ptx_exec *x) {
  if (ptx_has_word(x->i, WORD_arrive)) arrive(x);
  else wait(x);
}

// --------------------------------------------------------------------------------------------- addresses

// mapa d, a, rank: the address that `a` has in the block of that rank.
void ptx_do_mapa(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t ab[PTX_LANES], rb[PTX_LANES];
  uint32_t defined = ~0u;
  uint64_t window = x->i->space ? 0 : ptx_window(SPACE_CLUSTER);
  const uint64_t *a = ptx_source(x, &o[1], ab, &defined), *rank = ptx_decider(x, &o[2], rb, "the rank");
  PTX_EACH_LANE(lane, x->mask) {
    if (rank[lane] >= x->block->cluster->block_count) {
      ptx_find(x->run, PTX_OUTSIDE, "%s wants rank %llu of a cluster of %u blocks",
               ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)rank[lane],
               x->block->cluster->block_count);
      return;
    }
    if (defined >> lane & 1 && (a[lane] ^ window) >> PTX_RANK_SHIFT > PTX_CLUSTER) {
      ptx_find(x->run, PTX_OUTSIDE, "%s maps 0x%llx, which is no address of shared memory",
               ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)a[lane]);
      return;
    }
    uint64_t offset = a[lane] & ((1u << PTX_RANK_SHIFT) - 1);
    ptx_write(x, &o[0], lane, window | (rank[lane] + 1) << PTX_RANK_SHIFT | offset, defined >> lane & 1);
  }
}

// getctarank d, a: the rank of the block whose shared memory `a` is in.
void ptx_do_getctarank(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t buffer[PTX_LANES], offset;
  uint64_t window = x->i->space ? 0 : ptx_window(SPACE_CLUSTER);
  const uint64_t *a = ptx_decider(x, &o[1], buffer, "the address");
  PTX_EACH_LANE(lane, x->mask) {
    const ptx_block *block = ptx_cluster_reach(x, SPACE_CLUSTER, a[lane] ^ window, &offset);
    if (!block) {
      ptx_find(x->run, PTX_OUTSIDE, "0x%llx is no address of shared memory", (unsigned long long)a[lane]);
      return;
    }
    ptx_write(x, &o[0], lane, block->rank, true);
  }
}
