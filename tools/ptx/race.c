// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects data races: decides by vector clocks whether two accesses are ordered.
#include "tools/ptx/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/machine.h"

enum { MOST_FOREIGN_READERS = 64, MOST_READERS = 2048, LEAST_PURGE = 16 };

// ---------------------------------------------------------------------------------------------- stamps

// strong 1 | thread 10 | clock 15 | epoch 18 | block 20; a clock is at least 1, so no stamp is 0.
typedef struct stamp {
  uint32_t block, epoch, clock, thread;
  bool is_strong;
} stamp;

static uint64_t pack(const ptx_block *block, uint32_t thread, bool is_strong) {
  return (uint64_t)is_strong | (uint64_t)thread << 1 | (uint64_t)block->threads[thread].clock << 11 |
         (uint64_t)block->epoch << 26 | (uint64_t)block->number << 44;
}

static stamp unpack(uint64_t s) {
  return (stamp){.is_strong = s & 1,
                 .thread = s >> 1 & 0x3ff,
                 .clock = s >> 11 & 0x7fff,
                 .epoch = s >> 26 & 0x3ffff,
                 .block = (uint32_t)(s >> 44)};
}

// ----------------------------------------------------------------------------------------------- views

typedef struct view_item {
  uint32_t block, epoch; // all epochs of the block before this one are known
  uint32_t *clocks;      // owned, one a thread, of this epoch; NULL: none
  uint32_t thread_count;
} view_item;

struct ptx_view {
  uint32_t references, count;
  view_item *items; // owned, by block
  ptx_view *reads;  // counted; of what it has, only the reads are ordered. It has no such view itself
};

static void *must(void *memory) {
  KILN_ASSERT(memory);
  return memory;
}

static ptx_view *hold(ptx_view *v) {
  if (v) v->references++;
  return v;
}

static void drop(ptx_view *v) {
  if (!v || --v->references) return;
  for (uint32_t i = 0; i < v->count; i++) free(v->items[i].clocks);
  drop(v->reads);
  free(v->items);
  free(v);
}

static void replace(ptx_view **to, ptx_view *v) {
  drop(*to);
  *to = v;
}

static ptx_view *new_view(void) {
  ptx_view *v = must(calloc(1, sizeof *v));
  v->references = 1;
  return v;
}

// The item of a block in a view that nobody else holds; made when missing.
static view_item *item_of(ptx_view *v, uint32_t block, uint32_t thread_count) {
  uint32_t at = 0;
  while (at < v->count && v->items[at].block < block) at++;
  if (at < v->count && v->items[at].block == block) return &v->items[at];
  v->items = must(realloc(v->items, (v->count + 1) * sizeof *v->items));
  memmove(&v->items[at + 1], &v->items[at], (v->count - at) * sizeof *v->items);
  v->count++;
  v->items[at] = (view_item){.block = block, .thread_count = thread_count};
  return &v->items[at];
}

static const view_item *find_item(const ptx_view *v, uint32_t block) {
  for (uint32_t i = 0; v && i < v->count; i++)
    if (v->items[i].block == block) return &v->items[i];
  return NULL;
}

static void join_items(ptx_view *to, const ptx_view *from) {
  for (uint32_t i = 0; from && i < from->count; i++) {
    const view_item *f = &from->items[i];
    view_item *t = item_of(to, f->block, f->thread_count);
    if (f->epoch < t->epoch) continue;
    if (f->epoch > t->epoch) {
      free(t->clocks);
      t->clocks = NULL;
      t->epoch = f->epoch;
    }
    if (!f->clocks) continue;
    if (!t->clocks) t->clocks = must(calloc(t->thread_count, sizeof *t->clocks));
    for (uint32_t k = 0; k < t->thread_count; k++)
      if (f->clocks[k] > t->clocks[k]) t->clocks[k] = f->clocks[k];
  }
}

static ptx_view *joined(ptx_view *a, ptx_view *b);

static void join(ptx_view *to, const ptx_view *from) {
  join_items(to, from);
  if (from && from->reads) replace(&to->reads, joined(to->reads, from->reads));
}

static ptx_view *joined(ptx_view *a, ptx_view *b) {
  if (!a || a == b) return hold(b);
  if (!b) return hold(a);
  ptx_view *v = new_view();
  join(v, a);
  join(v, b);
  return v;
}

static void advance(ptx_run *run, ptx_thread *t) {
  if (++t->clock >> PTX_CLOCK_BITS)
    ptx_find(run, PTX_UNKNOWN, "more than %d releases of a thread between two barriers of its block",
             (1 << PTX_CLOCK_BITS) - 2);
}

// Puts what the thread did so far into a view, and begins its next clock.
static void release_into(ptx_run *run, ptx_block *block, uint32_t thread, ptx_view *v) {
  ptx_thread *t = &block->threads[thread];
  view_item *own = item_of(v, block->number, block->thread_count);
  if (own->epoch < block->epoch) {
    own->epoch = block->epoch;
    free(own->clocks);
    own->clocks = NULL;
  }
  if (!own->clocks) own->clocks = must(calloc(own->thread_count, sizeof *own->clocks));
  own->clocks[thread] = t->clock;
  advance(run, t);
}

// What a view and the epoch of a block know.
static bool is_known(const ptx_block *block, const ptx_view *view, uint32_t epoch, stamp s) {
  if (s.block == block->number && s.epoch < epoch) return true;
  const view_item *item = find_item(view, s.block);
  return item && (s.epoch < item->epoch ||
                  (s.epoch == item->epoch && item->clocks && item->clocks[s.thread] >= s.clock));
}

static bool is_ordered(const ptx_block *block, uint32_t thread, uint64_t before) {
  stamp s = unpack(before);
  if (s.block == block->number && s.thread == thread) return true;
  return is_known(block, block->threads[thread].known, block->epoch, s);
}

// The same of an earlier read, for what comes after it only.
static bool is_read_ordered(const ptx_block *block, uint32_t thread, uint64_t before) {
  const ptx_view *known = block->threads[thread].known;
  return is_ordered(block, thread, before) ||
         (known && known->reads && is_known(block, known->reads, 0, unpack(before)));
}

// ------------------------------------------------------------------------------------------ the readers

static uint32_t new_node(ptx_run *run) {
  uint32_t node = run->free_node;
  if (node) {
    run->free_node = run->nodes[node].next;
    return node;
  }
  if (run->node_count == run->node_capacity) {
    run->node_capacity = run->node_capacity ? 2 * run->node_capacity : 1024;
    run->nodes = must(realloc(run->nodes, run->node_capacity * sizeof *run->nodes));
    if (!run->node_count) run->node_count = 1;
  }
  return run->node_count++;
}

static void free_node(ptx_run *run, uint32_t *link) {
  uint32_t node = *link;
  *link = run->nodes[node].next;
  run->nodes[node].next = run->free_node;
  run->free_node = node;
}

static void clear_readers(ptx_run *run, ptx_shadow *s) {
  while (s->readers) free_node(run, &s->readers);
  s->reader_count = s->purge_at = 0;
}

static bool is_own(const ptx_block *block, uint32_t thread, uint64_t before) {
  stamp s = unpack(before);
  return s.block == block->number && s.epoch == block->epoch && s.thread == thread;
}

// Drops readers that are ordered before this thread; of others the newest stay, some of other blocks and more
// of this one. Each that stays is a witness against a later write.
static void purge(ptx_run *run, const ptx_block *block, uint32_t thread, ptx_shadow *s) {
  uint32_t foreign = 0, own = 0;
  for (uint32_t *link = &s->readers; *link;) {
    const ptx_reader_node *n = &run->nodes[*link];
    bool is_foreign = unpack(n->stamp).block != block->number;
    bool is_done = is_ordered(block, thread, n->stamp) && !is_own(block, thread, n->stamp);
    if (is_done || (is_foreign ? foreign == MOST_FOREIGN_READERS : own == MOST_READERS)) {
      free_node(run, link);
      continue;
    }
    *(is_foreign ? &foreign : &own) += 1;
    link = &run->nodes[*link].next;
  }
  s->reader_count = (uint16_t)(foreign + own);
}

static void keep_reader(ptx_run *run, const ptx_block *block, uint32_t thread, ptx_shadow *s) {
  if (s->reader_count >= s->purge_at) {
    purge(run, block, thread, s);
    s->purge_at = (uint16_t)(2 * s->reader_count + LEAST_PURGE);
  }
  uint32_t node = new_node(run);
  run->nodes[node] = (ptx_reader_node){s->read, s->read_line, s->read_load, s->readers};
  s->readers = node;
  s->reader_count++;
}

// -------------------------------------------------------------------------------------------- accesses

typedef struct access {
  ptx_run *run;
  ptx_block *block;
  uint32_t thread;
  ptx_region *region;
  uint64_t offset;
  bool is_strong;
} access;

// Whether an earlier access (0: none) is ordered before this one, or cannot race with it.
static bool is_fine(const access *a, uint64_t before) {
  return !before || (a->is_strong && (before & 1)) || is_ordered(a->block, a->thread, before);
}

// Whether an earlier read (0: none) is ordered before this write, or cannot race with it.
static bool is_read_fine(const access *a, uint64_t before) {
  return is_fine(a, before) || is_read_ordered(a->block, a->thread, before);
}

// Static storage.
static const char *place_of(const access *a) {
  static char text[48];
  const ptx_block *owner = a->region->owner;
  if (!owner) return "the allocation at";
  if (owner == a->block) return "shared memory";
  snprintf(text, sizeof text, "the shared memory of block %u,", owner->number);
  return text;
}

static bool has_news_of(const ptx_thread *t, uint32_t block) {
  const ptx_view *views[] = {t->known, t->known ? t->known->reads : NULL, t->inits};
  for (uint32_t k = 0; k < 3; k++)
    if (find_item(views[k], block)) return true;
  return t->cluster_waits > 0;
}

// An access of another block's shared memory: that block has to have started, and must not end before.
static void visit(const access *a) {
  ptx_block *owner = a->region->owner, *block = a->block;
  if (!owner || owner == block) return;
  if (!has_news_of(&block->threads[a->thread], owner->number))
    ptx_find(a->run, PTX_RACE,
             "%s accesses the shared memory of block %u, which may not have started: there was no "
             "barrier.cluster.wait, and no word from that block, before",
             ptx_who(block, a->thread), owner->number);
  if (owner->has_ended)
    ptx_find(a->run, PTX_OUTSIDE, "%s accesses the shared memory of block %u, which has ended",
             ptx_who(block, a->thread), owner->number);
  if (!owner->visits)
    owner->visits =
        must(calloc((size_t)owner->cluster->block_count * owner->thread_count, sizeof *owner->visits));
  owner->visits[block->rank * owner->thread_count + a->thread] =
      (ptx_visit){pack(block, a->thread, false), a->run->at};
}

static void found_write(const access *a, const ptx_shadow *s, bool is_read, uint32_t load) {
  stamp w = unpack(s->write);
  static const char form[] = "%s %s byte %llu of %s 0x%llx, which block %u, thread %u wrote at line %u with "
                             "nothing that orders the two";
  const char *who = ptx_who(a->block, a->thread);
  unsigned long long offset = a->offset, address = a->region->address;
  if (is_read)
    ptx_find_read_race(a->run, a->block->number, a->thread, load, form, who, "reads", offset, place_of(a),
                       address, w.block, w.thread, s->write_line);
  else
    ptx_find(a->run, PTX_RACE, form, who, "writes", offset, place_of(a), address, w.block, w.thread,
             s->write_line);
}

static void found_reader(const access *a, uint64_t read, uint32_t line, uint32_t load) {
  stamp r = unpack(read);
  ptx_find_read_race(a->run, r.block, r.thread, load,
                     "%s writes byte %llu of %s 0x%llx, which block %u, thread %u read at line %u with "
                     "nothing that orders the two",
                     ptx_who(a->block, a->thread), (unsigned long long)a->offset, place_of(a),
                     (unsigned long long)a->region->address, r.block, r.thread, line);
}

static void check_pending(const access *a, const ptx_shadow *s, const char *does) {
  if (s->pending)
    ptx_find(
        a->run, PTX_RACE,
        "%s %s byte %llu of shared memory, into which the asynchronous copy of line %u may still be writing",
        ptx_who(a->block, a->thread), does, (unsigned long long)a->offset, s->pending);
}

bool ptx_race_load(ptx_run *run, ptx_block *block, uint32_t thread) {
  uint32_t load = ++block->threads[thread].loads;
  return !run->read_races && ptx_raced_has(run, block->number, thread, load);
}

void ptx_race_read(ptx_run *run, ptx_block *block, uint32_t thread, ptx_region *r, uint64_t offset,
                   uint32_t size, ptx_reading how) {
  access a = {.run = run,
              .block = block,
              .thread = thread,
              .region = r,
              .is_strong = how == READ_STRONG || how == READ_PHASE};
  uint64_t mine = pack(block, thread, a.is_strong);
  uint32_t load = how == READ_COPY ? 0 : block->threads[thread].loads;
  const ptx_view *inits = how == READ_PHASE ? block->threads[thread].inits : NULL;
  visit(&a);
  for (uint32_t k = 0; k < size; k++) {
    ptx_shadow *s = ptx_region_shadow(r, a.offset = offset + k);
    check_pending(&a, s, "reads");
    if (!is_fine(&a, s->write) && !(inits && is_known(block, inits, 0, unpack(s->write))))
      found_write(&a, s, true, load);
    // An earlier load of the same thread stays known until another orders it: its value may be what matters.
    if (s->read && (s->read == mine ? s->read_load != load : !is_ordered(block, thread, s->read)))
      keep_reader(run, block, thread, s);
    s->read = mine;
    s->read_line = run->at->line;
    s->read_load = load;
  }
}

void ptx_race_write(ptx_run *run, ptx_block *block, uint32_t thread, ptx_region *r, uint64_t offset,
                    uint32_t size, bool is_strong, const uint8_t *value) {
  access a = {.run = run, .block = block, .thread = thread, .region = r, .is_strong = is_strong};
  uint64_t mine = pack(block, thread, is_strong);
  visit(&a);
  if (run->journal && !r->owner) {
    ptx_journal_keep(run->journal, r, offset);
    ptx_journal_keep(run->journal, r, offset + size - 1);
  }
  for (uint32_t k = 0; k < size; k++) {
    ptx_shadow *s = ptx_region_shadow(r, a.offset = offset + k);
    check_pending(&a, s, "writes");
    if (s->reading)
      ptx_find(
          run, PTX_RACE,
          "%s writes byte %llu of shared memory, which the asynchronous read of line %u may still be reading",
          ptx_who(block, thread), (unsigned long long)a.offset, s->reading_line);
    bool is_same = value && value[k] == r->bytes[offset + k];
    if (!is_same && !is_fine(&a, s->write)) found_write(&a, s, false, 0);
    if (!is_read_fine(&a, s->read)) found_reader(&a, s->read, s->read_line, s->read_load);
    for (uint32_t node = s->readers; node; node = run->nodes[node].next)
      if (!is_read_fine(&a, run->nodes[node].stamp))
        found_reader(&a, run->nodes[node].stamp, run->nodes[node].line, run->nodes[node].load);
    clear_readers(run, s);
    s->write = mine;
    s->write_line = run->at->line;
    s->is_async = false;
    s->read = 0;
  }
}

// ------------------------------------------------------------------------------- the asynchronous proxy

// Whether the writer, after the write, or the reader, after learning of it, has fenced the two proxies.
static bool is_fenced(const ptx_block *block, uint32_t reader, uint64_t write) {
  stamp w = unpack(write);
  const ptx_block *writer = ptx_cluster_find(block->cluster, w.block);
  const ptx_thread *by = &writer->threads[w.thread], *r = &block->threads[reader];
  if (w.epoch < by->fenced_epoch || (w.epoch == by->fenced_epoch && w.clock <= by->fenced_clock)) return true;
  return r->fenced_clock && is_known(block, r->fenced, r->fenced_epoch, w);
}

void ptx_race_proxy_fence(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_thread *t = &block->threads[thread];
  replace(&t->fenced, hold(t->known));
  t->fenced_epoch = block->epoch;
  t->fenced_clock = t->clock;
  advance(run, t);
}

void ptx_race_async_read(ptx_run *run, ptx_block *block, uint32_t thread, uint64_t offset, uint32_t size) {
  access a = {.run = run, .block = block, .thread = thread, .region = &block->shared};
  for (uint32_t k = 0; k < size; k++) {
    ptx_shadow *s = ptx_region_shadow(&block->shared, a.offset = offset + k);
    check_pending(&a, s, "reads");
    if (!is_fine(&a, s->write)) found_write(&a, s, true, 0);
    if (s->write && !s->is_async && !is_fenced(block, thread, s->write))
      ptx_find(run, PTX_RACE,
               "%s reads byte %llu of shared memory through the asynchronous proxy; line %u wrote it through "
               "the generic one, with no fence.proxy.async since",
               ptx_who(block, thread), (unsigned long long)(offset + k), s->write_line);
    if (!s->reading++) s->reading_line = run->at->line;
  }
}

void ptx_race_async_read_end(ptx_run *run, ptx_block *block, uint32_t thread, uint64_t offset,
                             uint32_t size) {
  for (uint32_t k = 0; k < size; k++) ptx_region_shadow(&block->shared, offset + k)->reading--;
  ptx_race_read(run, block, thread, &block->shared, offset, size, READ_COPY);
}

// --------------------------------------------------------------------------------------- what makes order

static bool has_thread(const uint64_t *set, uint32_t thread) { return set[thread / 64] >> thread % 64 & 1; }

static void meet_whole_block(ptx_run *run, ptx_block *block) {
  ptx_view *foreign = NULL;
  for (uint32_t t = 0; t < block->thread_count; t++) {
    ptx_view *known = block->threads[t].known;
    if (known && known != foreign) {
      ptx_view *both = joined(foreign, known);
      replace(&foreign, both);
    }
  }
  if (++block->epoch >> PTX_EPOCH_BITS)
    ptx_find(run, PTX_UNKNOWN, "more than %d barriers of a block", (1 << PTX_EPOCH_BITS) - 1);
  bool is_own = foreign && foreign->count == 1 && foreign->items[0].block == block->number && !foreign->reads;
  for (uint32_t t = 0; t < block->thread_count; t++) {
    replace(&block->threads[t].known, is_own ? NULL : hold(foreign));
    block->threads[t].clock = 1;
  }
  drop(foreign);
}

void ptx_race_meet(ptx_run *run, ptx_block *block, const uint64_t *threads) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < PTX_SET_WORDS; k++) count += (uint32_t)__builtin_popcountll(threads[k]);
  if (count == block->thread_count) {
    meet_whole_block(run, block);
    return;
  }
  ptx_view *all = new_view(), *last = NULL;
  for (uint32_t t = 0; t < block->thread_count; t++) {
    if (!has_thread(threads, t)) continue;
    if (block->threads[t].known != last) join(all, last = block->threads[t].known);
    release_into(run, block, t, all);
  }
  for (uint32_t t = 0; t < block->thread_count; t++)
    if (has_thread(threads, t)) replace(&block->threads[t].known, hold(all));
  drop(all);
}

static ptx_view *release(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_view *v = new_view();
  join(v, block->threads[thread].known);
  release_into(run, block, thread, v);
  return v;
}

void ptx_race_fence(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_thread *t = &block->threads[thread];
  replace(&t->known, joined(t->known, t->seen));
  replace(&t->released, release(run, block, thread));
}

void ptx_race_release_to(ptx_run *run, ptx_block *block, uint32_t thread, ptx_view **view) {
  ptx_view *mine = release(run, block, thread), *both = joined(*view, mine);
  drop(mine);
  replace(view, both);
}

void ptx_view_add(ptx_view **to, ptx_view *view) {
  if (view) replace(to, joined(*to, view));
}

void ptx_race_publish(ptx_run *run, ptx_block *block, uint32_t thread, ptx_order order, ptx_view **view) {
  if (order == ORDER_RELAXED) ptx_view_add(view, block->threads[thread].released);
  else ptx_race_release_to(run, block, thread, view);
}

ptx_view *ptx_view_of_reads(ptx_view *view) {
  if (!view) return NULL;
  ptx_view *of_reads = new_view();
  of_reads->reads = new_view();
  join_items(of_reads->reads, view);
  join_items(of_reads->reads, view->reads);
  return of_reads;
}

void ptx_race_init_fence(ptx_run *run, ptx_block *block, uint32_t thread) {
  replace(&block->threads[thread].inits_released, release(run, block, thread));
}

void ptx_race_block_end(ptx_run *run, ptx_block *block) {
  if (!block->visits) return;
  ptx_view *all = new_view();
  for (uint32_t t = 0; t < block->thread_count; t++)
    if (!t || block->threads[t].known != block->threads[t - 1].known) join(all, block->threads[t].known);
  for (uint32_t k = 0; k < block->cluster->block_count * block->thread_count; k++) {
    const ptx_visit *v = &block->visits[k];
    if (!v->stamp || is_known(block, all, 0, unpack(v->stamp))) continue;
    if (all->reads && is_known(block, all->reads, 0, unpack(v->stamp))) continue;
    run->at = v->at;
    ptx_find(run, PTX_OUTSIDE,
             "block %u, thread %u accesses the shared memory of block %u, which may have ended: none of its "
             "threads waited for this access",
             unpack(v->stamp).block, unpack(v->stamp).thread, block->number);
    break;
  }
  drop(all);
}

void ptx_race_acquire(ptx_block *block, uint32_t thread, ptx_view *view) {
  ptx_thread *t = &block->threads[thread];
  replace(&t->known, joined(t->known, view));
}

ptx_view *ptx_view_hold(ptx_view *view) { return hold(view); }
void ptx_view_drop(ptx_view *view) { drop(view); }

static ptx_location *location_of(ptx_run *run, uint64_t address) {
  if (2 * run->location_count >= run->location_capacity) {
    ptx_location *old = run->locations;
    uint32_t old_capacity = run->location_capacity;
    run->location_capacity = old_capacity ? 2 * old_capacity : 256;
    run->locations = must(calloc(run->location_capacity, sizeof *run->locations));
    run->location_count = 0;
    for (uint32_t k = 0; k < old_capacity; k++)
      if (old[k].address) *location_of(run, old[k].address) = old[k];
    free(old);
  }
  uint32_t at = (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 32) % run->location_capacity;
  while (run->locations[at].address && run->locations[at].address != address)
    at = (at + 1) % run->location_capacity;
  if (!run->locations[at].address) run->location_count++, run->locations[at].address = address;
  return &run->locations[at];
}

void ptx_race_atomic(ptx_run *run, ptx_block *block, uint32_t thread, uint64_t address, ptx_order order,
                     ptx_scope scope, bool reads, bool writes) {
  ptx_thread *t = &block->threads[thread];
  bool acquires = order == ORDER_ACQUIRE || order == ORDER_BOTH,
       releases = order == ORDER_RELEASE || order == ORDER_BOTH;
  ptx_location *l = location_of(run, address);
  bool is_ours = !(l->is_block_only || scope == SCOPE_CTA) || l->block == block->number;
  if (reads && l->released && is_ours) {
    replace(&t->seen, joined(t->seen, l->released));
    if (acquires) replace(&t->known, joined(t->known, l->released));
  }
  if (!writes) return;
  ptx_view *mine = releases ? release(run, block, thread) : hold(t->released);
  if (reads) {
    ptx_view *both = joined(mine, l->released);
    replace(&mine, both);
  }
  replace(&l->released, mine);
  l->block = block->number;
  l->is_block_only = scope == SCOPE_CTA;
}

void ptx_race_block_deinit(ptx_block *block) {
  for (uint32_t t = 0; block->threads && t < block->thread_count; t++) {
    drop(block->threads[t].known);
    drop(block->threads[t].released);
    drop(block->threads[t].seen);
    drop(block->threads[t].fenced);
    drop(block->threads[t].inits);
    drop(block->threads[t].inits_released);
  }
}

void ptx_race_run_deinit(ptx_run *run) {
  for (uint32_t k = 0; k < run->location_capacity; k++) drop(run->locations[k].released);
  free(run->locations);
  free(run->nodes);
}
