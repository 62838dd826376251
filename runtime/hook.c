// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls the hooks of the process without a lock, so that a launch waits for nobody. A thread uses a hook from
// the first event of a launch to its last: who removes the hook waits for that, and its place is given to no
// other one meanwhile.
#include "runtime/hook.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "runtime/launch.h"

enum { PLACES = 4 };
typedef struct place { // written by one who counts as its only user, while it is free
  kiln_hook *hook;
  void *user;
  uint32_t kinds;
  _Atomic uint32_t users; // threads
} place;
static place places[PLACES];
_Atomic uint32_t kiln_hook_places;

static _Thread_local uint32_t in_use; // the places that this thread uses; what is above them does not count

// ------------------------------------------------------------------------------------------- registry

// Whoever has events has opened a library, which watches forks.
void kiln_hook_in_child(void) {
  for (unsigned i = 0; i < PLACES; i++) atomic_store(&places[i].users, in_use >> i & 1);
}

// The place of a hook; NULL hook: a free place. The caller gives up its use.
static place *find(kiln_hook *hook, const void *user) {
  for (unsigned i = 0; i < PLACES; i++) {
    place *p = &places[i];
    uint32_t users = atomic_fetch_add(&p->users, 1);
    if (atomic_load(&kiln_hook_places) >> i & 1 ? p->hook == hook && p->user == user : !hook && !users)
      return p;
    atomic_fetch_sub(&p->users, 1);
  }
  return NULL;
}

kiln_status kiln_hook_add(kiln_hook *hook, void *user, uint32_t kinds, kiln_error *err) {
  KILN_NEED(hook, "hook");
  place *p = find(NULL, NULL);
  if (!p) return kiln_fail(err, KILN_STATUS_LIMIT, "there are %d hooks, the most that can be", PLACES);
  p->hook = hook;
  p->user = user;
  p->kinds = kinds;
  atomic_fetch_or(&kiln_hook_places, 1u << (p - places));
  atomic_fetch_sub(&p->users, 1);
  kiln_devices_choose_table();
  return KILN_OK;
}

void kiln_hook_remove(kiln_hook *hook, void *user) {
  place *p = hook ? find(hook, user) : NULL;
  if (!p) return;
  atomic_fetch_and(&kiln_hook_places, ~(1u << (p - places)));
  atomic_fetch_sub(&p->users, 1);
  kiln_devices_choose_table();
  while (!in_use && atomic_load(&p->users)) sched_yield();
}

// --------------------------------------------------------------------------------------------- events

// Takes the places of those that want one of `kinds` into use. Returns them, with all kinds that they want
// above; 0: nobody does, or this thread is inside of a hook.
static uint32_t begin(uint32_t kinds) {
  uint32_t turn = 0;
  if (in_use) return 0;
  for (unsigned i = 0; i < PLACES; i++) {
    place *p = &places[i];
    if (!(atomic_load(&kiln_hook_places) >> i & 1)) continue;
    atomic_fetch_add(&p->users, 1);
    if (atomic_load(&kiln_hook_places) >> i & 1 && p->kinds & kinds) turn |= 1u << i | p->kinds << PLACES;
    else atomic_fetch_sub(&p->users, 1);
  }
  return in_use = turn;
}

static void tell(uint32_t turn, const kiln_event *e) {
  for (unsigned i = 0; i < PLACES; i++)
    if (turn >> i & 1 && places[i].kinds & e->kind) places[i].hook(places[i].user, e);
}

static void end(uint32_t turn) {
  for (unsigned i = 0; i < PLACES; i++)
    if (turn >> i & 1) atomic_fetch_sub(&places[i].users, 1);
  in_use = 0;
}

static void tell_once(const kiln_event *e) {
  uint32_t turn = begin(e->kind);
  if (turn) tell(turn, e), end(turn);
}

static void fill(kiln_event *e, const kiln_device *d, uint32_t kind) {
  memset(e, 0, sizeof *e);
  e->size = sizeof *e;
  e->kind = kind;
  e->device = (kiln_device *)d;
  e->device_name = d ? d->name : NULL;
}

void kiln_hook_tell(const kiln_device *d, const char *kernel, uint32_t kind, int level, const char *text,
                    const void *function) {
  kiln_event e;
  fill(&e, d, kind);
  e.kernel_name = kernel;
  e.level = level;
  e.text = text;
  e.function = function;
  tell_once(&e);
}

// --------------------------------------------------------------------------------- a device's functions

static __attribute__((noinline)) void fill_code(kiln_event *e, kiln_choice *choice, const kiln_device *d,
                                                const kiln_code *code, const uint32_t *grid, uint32_t kind) {
  fill(e, d, kind);
  kiln_choice_of(code, grid, choice);
  e->kernel = code->kernel;
  e->kernel_name = code->kernel->interface.name;
  e->symbol = code->info.symbol;
  e->choice = choice;
}

static uint64_t now(uint32_t turn) {
  struct timespec at = {0};
  if (turn & KILN_EVENT_TIMES << PLACES) clock_gettime(CLOCK_MONOTONIC, &at);
  return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  kiln_event e;
  kiln_choice choice;
  uint32_t turn = begin(KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED);
  if (!turn) return d->own->launch(d, call, err);
  fill_code(&e, &choice, d, call->code, call->grid, KILN_EVENT_LAUNCH);
  e.stream = call->stream;
  e.block = call->block;
  e.block_size = e.kernel->interface.block_bytes;
  e.function = call->function;
  tell(turn, &e);
  e.begin_ns = now(turn);
  e.status = d->own->launch(d, call, err);
  e.end_ns = now(turn);
  e.kind = KILN_EVENT_LAUNCHED;
  tell(turn, &e);
  end(turn);
  return e.status;
}

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                        kiln_error *err) {
  static const uint32_t no_grid[3];
  kiln_event e;
  kiln_choice choice;
  fill_code(&e, &choice, d, code, no_grid, KILN_EVENT_LOADED);
  e.status = d->own->load(d, code, bytes, out, err);
  e.function = out->function;
  e.code = bytes->bytes;
  e.code_size = bytes->size;
  tell_once(&e);
  return e.status;
}

static void unload(kiln_device *d, kiln_module *module) {
  kiln_hook_tell(d, NULL, KILN_EVENT_UNLOAD, 0, NULL, module->function);
  d->own->unload(d, module);
}

void kiln_hook_wrap(kiln_device *d) {
  d->hooked = *d->own;
  d->hooked.launch = launch;
  d->hooked.load = load;
  d->hooked.unload = unload;
}
