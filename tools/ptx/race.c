// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects data races: decides by vector clocks whether two accesses are ordered.
#include "tools/ptx/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/machine.h"
#include "tools/ptx/view.h"

enum { MOST_FOREIGN_READERS = 64, MOST_READERS = 2048, LEAST_PURGE = 16 };

static void *must(void *memory) {
  KILN_ASSERT(memory);
  return memory;
}

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

// The launch before this one as a block, whose number no other has: limits of the grid see to that.
enum { PREDECESSOR = (1 << PTX_BLOCK_BITS) - 1 };
static const uint64_t predecessor_stamp = (uint64_t)PREDECESSOR << 44 | 1 << 11;

static stamp unpack(uint64_t s) {
  return (stamp){.is_strong = s & 1,
                 .thread = s >> 1 & 0x3ff,
                 .clock = s >> 11 & 0x7fff,
                 .epoch = s >> 26 & 0x3ffff,
                 .block = (uint32_t)(s >> 44)};
}

// -------------------------------------------------------------------------------------------- releases

static void advance(ptx_run *run, ptx_thread *t) {
  if (++t->clock >> PTX_CLOCK_BITS)
    ptx_find(run, PTX_UNKNOWN, "more than %d releases of a thread between two barriers of its block",
             (1 << PTX_CLOCK_BITS) - 2);
}

// Puts what the thread did so far into a view, and begins its next clock.
static void release_into(ptx_run *run, ptx_block *block, uint32_t thread, ptx_view *v) {
  ptx_thread *t = &block->threads[thread];
  ptx_view_item *own = ptx_view_take(v, block->number, block->thread_count);
  if (own->epoch < block->epoch) {
    own->epoch = block->epoch;
    free(own->clocks);
    own->clocks = NULL;
  }
  if (!own->clocks) own->clocks = must(calloc(own->thread_count, sizeof *own->clocks));
  own->clocks[thread] = t->clock;
  advance(run, t);
}

static bool has_stamp(const ptx_view *view, stamp s) {
  const ptx_view_item *item = ptx_view_find(view, s.block);
  return item && (s.epoch < item->epoch ||
                  (s.epoch == item->epoch && item->clocks && item->clocks[s.thread] >= s.clock));
}

// What a view and the epoch of a block know.
static bool is_known(const ptx_block *block, const ptx_view *view, uint32_t epoch, stamp s) {
  return (s.block == block->number && s.epoch < epoch) || has_stamp(view, s);
}

static bool is_ordered(const ptx_block *block, uint32_t thread, uint64_t before) {
  stamp s = unpack(before);
  if (s.block == block->number && s.thread == thread) return true;
  return is_known(block, block->threads[thread].known, block->epoch, s);
}

// The same of what is over when it is known of: an earlier read, or a write by a copy whose end was waited
// for.
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

// Whether an earlier read, or write by a copy, (0: none) is ordered before this write, or cannot race with
// it.
static bool is_read_fine(const access *a, uint64_t before) {
  return is_fine(a, before) || is_read_ordered(a->block, a->thread, before);
}

// What memory an access is of; static storage.
static const char *place_of(const access *a) {
  static char text[120];
  const ptx_block *owner = a->region->owner;
  if (owner == a->block) return "shared memory";
  if (owner) snprintf(text, sizeof text, "the shared memory of block %u", owner->number);
  else if (a->region->name) snprintf(text, sizeof text, "%s", a->region->name);
  else snprintf(text, sizeof text, "the allocation at 0x%llx", (unsigned long long)a->region->address);
  return text;
}

static bool has_news_of(const ptx_thread *t, uint32_t block) {
  const ptx_view *views[] = {t->known, t->known ? t->known->reads : NULL, t->inits};
  for (uint32_t k = 0; k < 3; k++)
    if (ptx_view_find(views[k], block)) return true;
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

// Who made an earlier access; static storage.
static const char *other_of(stamp s) {
  static char text[48];
  if (s.block == PREDECESSOR) return "the kernel before this one";
  snprintf(text, sizeof text, "block %u, thread %u", s.block, s.thread);
  return text;
}

static void found_write(const access *a, const ptx_shadow *s, bool is_read, uint32_t load) {
  stamp w = unpack(s->write);
  static const char form[] = "%s %s byte %llu of %s, which %s wrote at line %u with "
                             "nothing that orders the two";
  const char *who = ptx_who(a->block, a->thread);
  unsigned long long offset = a->offset;
  if (is_read)
    ptx_find_read_race(a->run, a->block->number, a->thread, load, form, who, "reads", offset, place_of(a),
                       other_of(w), s->write_line);
  else ptx_find(a->run, PTX_RACE, form, who, "writes", offset, place_of(a), other_of(w), s->write_line);
}

static void found_reader(const access *a, uint64_t read, uint32_t line, uint32_t load) {
  stamp r = unpack(read);
  ptx_find_read_race(a->run, r.block, r.thread, load,
                     "%s writes byte %llu of %s, which %s read at line %u with "
                     "nothing that orders the two",
                     ptx_who(a->block, a->thread), (unsigned long long)a->offset, place_of(a), other_of(r),
                     line);
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
    bool is_over = s->is_counted ? is_read_fine(&a, s->write) : is_fine(&a, s->write);
    if (!is_same && !is_over) found_write(&a, s, false, 0);
    if (!is_read_fine(&a, s->read)) found_reader(&a, s->read, s->read_line, s->read_load);
    for (uint32_t node = s->readers; node; node = run->nodes[node].next)
      if (!is_read_fine(&a, run->nodes[node].stamp))
        found_reader(&a, run->nodes[node].stamp, run->nodes[node].line, run->nodes[node].load);
    clear_readers(run, s);
    s->write = mine;
    s->write_line = run->at->line;
    s->is_async = s->is_counted = false;
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
  ptx_view_replace(&t->fenced, ptx_view_hold(t->known));
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
      ptx_view *both = ptx_view_joined(foreign, known);
      ptx_view_replace(&foreign, both);
    }
  }
  if (++block->epoch >> PTX_EPOCH_BITS)
    ptx_find(run, PTX_UNKNOWN, "more than %d barriers of a block", (1 << PTX_EPOCH_BITS) - 1);
  bool is_own = foreign && foreign->count == 1 && foreign->items[0].block == block->number &&
                !foreign->reads && !foreign->waits;
  for (uint32_t t = 0; t < block->thread_count; t++) {
    ptx_view_replace(&block->threads[t].known, is_own ? NULL : ptx_view_hold(foreign));
    block->threads[t].clock = 1;
  }
  ptx_view_drop(foreign);
}

void ptx_race_meet(ptx_run *run, ptx_block *block, const uint64_t *threads) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < PTX_SET_WORDS; k++) count += (uint32_t)__builtin_popcountll(threads[k]);
  if (count == block->thread_count) {
    meet_whole_block(run, block);
    return;
  }
  ptx_view *all = ptx_view_create(), *last = NULL;
  for (uint32_t t = 0; t < block->thread_count; t++) {
    if (!has_thread(threads, t)) continue;
    if (block->threads[t].known != last) ptx_view_join(all, last = block->threads[t].known);
    release_into(run, block, t, all);
  }
  for (uint32_t t = 0; t < block->thread_count; t++)
    if (has_thread(threads, t)) ptx_view_replace(&block->threads[t].known, ptx_view_hold(all));
  ptx_view_drop(all);
}

static ptx_view *release(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_view *v = ptx_view_create();
  ptx_view_join(v, block->threads[thread].known);
  release_into(run, block, thread, v);
  return v;
}

void ptx_race_fence(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_thread *t = &block->threads[thread];
  ptx_view_replace(&t->known, ptx_view_joined(t->known, t->seen));
  ptx_view_replace(&t->released, release(run, block, thread));
}

void ptx_race_release_to(ptx_run *run, ptx_block *block, uint32_t thread, ptx_view **view) {
  ptx_view *mine = release(run, block, thread), *both = ptx_view_joined(*view, mine);
  ptx_view_drop(mine);
  ptx_view_replace(view, both);
}

ptx_moment ptx_race_issue(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_moment now = {block->epoch, block->threads[thread].clock};
  advance(run, &block->threads[thread]);
  return now;
}

ptx_moment ptx_race_go_to(ptx_block *block, uint32_t thread, ptx_moment moment) {
  ptx_moment now = {block->epoch, block->threads[thread].clock};
  block->epoch = moment.epoch;
  block->threads[thread].clock = moment.clock;
  return now;
}

void ptx_race_complete(const ptx_block *block, uint32_t thread, ptx_moment moment, const ptx_view *before,
                       ptx_view **view) {
  ptx_view *done = ptx_view_of_waits(before);
  ptx_view_item *item = ptx_view_take(done, block->number, block->thread_count);
  item->epoch = moment.epoch;
  item->clocks = must(calloc(block->thread_count, sizeof *item->clocks));
  item->clocks[thread] = moment.clock;
  ptx_view_add(view, done);
  ptx_view_drop(done);
}

void ptx_race_publish(ptx_run *run, ptx_block *block, uint32_t thread, ptx_order order, ptx_view **view) {
  if (order == ORDER_RELAXED) ptx_view_add(view, block->threads[thread].released);
  else ptx_race_release_to(run, block, thread, view);
}

void ptx_race_init_fence(ptx_run *run, ptx_block *block, uint32_t thread) {
  ptx_view_replace(&block->threads[thread].inits_released, release(run, block, thread));
}

void ptx_race_block_end(ptx_run *run, ptx_block *block) {
  if (!block->visits) return;
  ptx_view *all = ptx_view_create();
  for (uint32_t t = 0; t < block->thread_count; t++)
    if (!t || block->threads[t].known != block->threads[t - 1].known)
      ptx_view_join(all, block->threads[t].known);
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
  ptx_view_drop(all);
}

void ptx_race_acquire(ptx_block *block, uint32_t thread, ptx_view *view) {
  ptx_thread *t = &block->threads[thread];
  ptx_view_replace(&t->known, ptx_view_joined(t->known, view));
}

uint64_t ptx_race_wait(const ptx_block *block, uint32_t thread) { return pack(block, thread, false); }

uint32_t ptx_race_waiter(uint64_t wait) { return unpack(wait).thread; }

bool ptx_race_has_wait(const ptx_view *view, uint64_t wait) {
  stamp s = unpack(wait);
  return has_stamp(view, s) || (view && (has_stamp(view->reads, s) || has_stamp(view->waits, s)));
}

ptx_view *ptx_race_moment_of(ptx_run *run, ptx_block *block, uint32_t thread, uint32_t lanes) {
  ptx_view *v = ptx_view_create();
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    if (lanes >> lane & 1) release_into(run, block, thread + lane, v);
  return v;
}

void ptx_race_acquire_waits(ptx_block *block, uint32_t thread, ptx_view *view) {
  ptx_thread *t = &block->threads[thread];
  ptx_view *waits = ptx_view_of_waits(view);
  ptx_view_add(&t->known, waits);
  ptx_view_drop(waits);
}

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
    ptx_view_replace(&t->seen, ptx_view_joined(t->seen, l->released));
    if (acquires) ptx_view_replace(&t->known, ptx_view_joined(t->known, l->released));
  }
  if (!writes) return;
  ptx_view *mine = releases ? release(run, block, thread) : ptx_view_hold(t->released);
  if (reads) {
    ptx_view *both = ptx_view_joined(mine, l->released);
    ptx_view_replace(&mine, both);
  }
  ptx_view_replace(&l->released, mine);
  l->block = block->number;
  l->is_block_only = scope == SCOPE_CTA;
}

static void succeed(ptx_shadow *s, bool is_first) {
  bool was_written = is_first ? s->write != 0 : s->was_written,
       was_read = is_first ? s->read || s->readers : s->was_read;
  uint32_t line = is_first ? (s->write ? s->write_line : s->read_line) : s->before_line;
  *s = (ptx_shadow){.was_written = was_written,
                    .was_read = was_read,
                    .before_line = line,
                    .write = was_written ? predecessor_stamp : 0,
                    .read = was_read ? predecessor_stamp : 0,
                    .write_line = line,
                    .read_line = line};
}

void ptx_race_succeed(ptx_region *r, bool is_first) { ptx_region_each_shadow(r, succeed, is_first); }

void ptx_race_after_predecessor(ptx_block *block, uint32_t thread) {
  ptx_thread *t = &block->threads[thread];
  const ptx_view_item *item = ptx_view_find(t->known, PREDECESSOR);
  if (item && item->epoch) return;
  ptx_view *over = ptx_view_create();
  ptx_view_take(over, PREDECESSOR, 1)->epoch = 1;
  ptx_view_add(&t->known, over);
  ptx_view_drop(over);
}

void ptx_race_block_deinit(ptx_block *block) {
  for (uint32_t t = 0; block->threads && t < block->thread_count; t++) {
    ptx_view_drop(block->threads[t].known);
    ptx_view_drop(block->threads[t].released);
    ptx_view_drop(block->threads[t].seen);
    ptx_view_drop(block->threads[t].fenced);
    ptx_view_drop(block->threads[t].inits);
    ptx_view_drop(block->threads[t].inits_released);
  }
}

void ptx_race_run_deinit(ptx_run *run) {
  for (uint32_t k = 0; k < run->location_capacity; k++) ptx_view_drop(run->locations[k].released);
  free(run->locations);
  free(run->nodes);
}
