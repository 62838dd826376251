// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests hooks: what they are told, that nothing is left of them after their removal, and that removal, long
// hooks, launches in hooks and forks do what the header says.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "runtime/device/device.h"
#include "tests/runtime/fixture.h"

enum { MOST_EVENTS = 64 };
typedef struct seen {
  kiln_event events[MOST_EVENTS]; // `choice` points to the one below
  kiln_choice choices[MOST_EVENTS];
  char texts[MOST_EVENTS][200];
  kiln_chosen_by by;
  unsigned count;
} seen;

static void note(void *user, const kiln_event *e) {
  seen *s = user;
  CHECK(s->count < MOST_EVENTS);
  kiln_event *to = &s->events[s->count];
  *to = *e;
  CHECK_INT(e->size, sizeof *e);
  if (e->choice) s->choices[s->count] = *e->choice, to->choice = &s->choices[s->count];
  if (e->text) snprintf(s->texts[s->count], sizeof *s->texts, "%s", e->text);
  if (e->kind == KILN_EVENT_LAUNCH) {
    kiln_reason reason = {.size = sizeof reason};
    kiln_error err;
    CHECK_OK(kiln_choose_reason(e->kernel, e->block, e->block_size, &reason, &err), err);
    s->by = reason.by;
  }
  s->count++;
}

static kiln_library *library;
static kiln_device *device;
static kiln_kernel *kernel;
static float x[200], y[200];
static void *px = x, *py = y;
static int n = 200;
static const void *const args[] = {&px, &py, &n};

static void open_on(const char *name) {
  kiln_error err;
  fixture_add_one(kiln_test_path("hook.kbundle"), "");
  fixture_open(kiln_test_path("hook.kbundle"), name, &library, &device);
  CHECK_OK(kiln_kernel_get(device, "add_one", NULL, &kernel, &err), err);
}

static void close_all(void) {
  kiln_device_close(device);
  kiln_close(library);
}

static void launch(void) {
  kiln_error err;
  CHECK_OK(kiln_launch(kernel, NULL, args, 3, &err), err);
}

static void add(kiln_hook *hook, void *user, uint32_t kinds) {
  kiln_error err;
  CHECK_OK(kiln_hook_add(hook, user, kinds, &err), err);
}

static void check_launch(const kiln_event *e, uint32_t kind, kiln_stream stream, uint32_t grid) {
  CHECK_INT(e->kind, kind);
  CHECK_TEXT(e->kernel_name, "add_one");
  CHECK_TEXT(e->device_name, device->name);
  CHECK_TEXT(e->symbol, "add_one");
  CHECK(e->device == device && e->kernel == kernel && e->stream == stream && e->function);
  CHECK_INT(e->status, KILN_OK);
  CHECK_TEXT(e->choice->config, "BLOCK=64");
  CHECK_TEXT(e->choice->variant, "");
  CHECK_TEXT(e->choice->target, "x86-64-v2");
  CHECK_INT(e->choice->grid[0], grid);
  CHECK_INT(e->choice->grid[1], 1);
  CHECK_INT(e->block_size, kiln_block_size(kernel));
}

// Each way to launch, on a device that ignores streams.
TEST(hook, every_launch_is_told_with_what_runs_and_why) {
  seen s = {.by = KILN_BY_COST};
  kiln_error err;
  kiln_prepared *prepared;
  uint8_t block[24];
  kiln_stream stream = (kiln_stream)&s;
  open_on("null");
  add(note, &s, KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED | KILN_EVENT_TIMES);
  memcpy(block, &px, 8), memcpy(block + 8, &py, 8), memcpy(block + 16, &n, 4), memset(block + 20, 0, 4);
  CHECK_OK(kiln_launch(kernel, stream, args, 3, &err), err);
  CHECK_OK(kiln_launch_packed(kernel, stream, block, sizeof block, &err), err);
  CHECK_OK(kiln_launch_grid(kernel, stream, (const uint32_t[3]){7, 1, 1}, block, sizeof block, &err), err);
  CHECK_OK(kiln_launch_scratch(kernel, stream, block, sizeof block, NULL, 0, &err), err);
  CHECK_OK(kiln_prepare(kernel, args, 3, NULL, &prepared, &err), err);
  CHECK_INT(s.count, 8);
  CHECK_OK(kiln_prepared_launch(prepared, stream, &err), err);
  CHECK_INT(s.count, 10);
  for (unsigned i = 0; i < s.count; i += 2) {
    const kiln_event *begin = &s.events[i], *end = &s.events[i + 1];
    check_launch(begin, KILN_EVENT_LAUNCH, stream, i == 4 ? 7 : 4);
    check_launch(end, KILN_EVENT_LAUNCHED, stream, i == 4 ? 7 : 4);
    CHECK(!begin->end_ns && end->begin_ns && end->begin_ns <= end->end_ns);
  }
  CHECK_INT(s.by, KILN_BY_ORDER);
  // An empty grid launches nothing.
  int none = 0;
  CHECK_OK(kiln_launch(kernel, stream, (const void *const[]){&px, &py, &none}, 3, &err), err);
  CHECK_INT(s.count, 10);
  kiln_hook_remove(note, &s);
  launch();
  CHECK_OK(kiln_prepared_launch(prepared, stream, &err), err);
  CHECK_INT(s.count, 10);
  kiln_prepared_free(prepared);
  close_all();
}

TEST(hook, a_device_has_its_own_functions_while_there_are_none) {
  seen s = {.count = 0};
  open_on("null");
  CHECK(device->kind == device->own);
  add(note, &s, KILN_EVENT_MISS);
  add(note, &s.count, KILN_EVENT_MISS);
  CHECK(device->kind == &device->hooked);
  kiln_device *later, *closed;
  kiln_error err;
  CHECK_OK(kiln_device_open(library, "null:1", &later, &err), err);
  CHECK_OK(kiln_device_open(library, "null:2", &closed, &err), err);
  CHECK(later->kind == &later->hooked);
  kiln_device_close(closed);
  kiln_hook_remove(note, &s);
  CHECK(device->kind == &device->hooked);
  kiln_hook_remove(note, &s.count);
  CHECK(device->kind == device->own && later->kind == later->own);
  CHECK_INT(kiln_sync(closed, NULL, &err), KILN_STATUS_INVALID_ARGUMENT);
  kiln_device_close(later);
  close_all();
}

TEST(hook, loads_messages_misses_and_bundles_are_told) {
  seen s = {.count = 0};
  kiln_error err;
  kiln_kernel *none;
  add(note, &s, ~0u & ~(uint32_t)(KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED));
  open_on("host:1");
  launch();
  CHECK_INT(kiln_kernel_get(device, "add_two", NULL, &none, &err), KILN_STATUS_NOT_FOUND);
  CHECK_INT(s.count, 4);
  const uint32_t kinds[] = {KILN_EVENT_OPENED, KILN_EVENT_MESSAGE, KILN_EVENT_LOADED, KILN_EVENT_MISS};
  for (unsigned i = 0; i < 4; i++) CHECK_INT(s.events[i].kind, kinds[i]);
  if (!strstr(s.texts[0], "hook.kbundle")) FAIL("%s", s.texts[0]);
  CHECK(!s.events[0].device);
  CHECK_INT(s.events[1].level, KILN_LOG_INFO);
  CHECK_TEXT(s.events[1].kernel_name, "add_one");
  if (!strstr(s.texts[1], "kernel 'add_one' on host:1")) FAIL("%s", s.texts[1]);
  CHECK_TEXT(s.events[2].device_name, "host:1");
  CHECK_TEXT(s.events[2].symbol, "add_one");
  CHECK_TEXT(s.events[2].choice->config, "BLOCK=64");
  CHECK_INT(s.events[2].choice->grid[0], 0);
  CHECK(s.events[2].code && s.events[2].code_size > 1000 && s.events[2].function);
  CHECK_TEXT(s.events[3].kernel_name, "add_two");
  if (!strstr(s.texts[3], "no kernel 'add_two' in")) FAIL("%s", s.texts[3]);
  close_all();
  CHECK_INT(s.count, 5);
  CHECK_INT(s.events[4].kind, KILN_EVENT_UNLOAD);
  CHECK(s.events[4].function == s.events[2].function);
  kiln_hook_remove(note, &s);
}

// A launch that no config allows.
TEST(hook, a_launch_without_code_is_a_miss) {
  seen s = {.count = 0};
  kiln_error err;
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  const uint8_t below[] = {P(2), C(40), KILN_EXPR_LT};
  kiln_span require = {below, sizeof below};
  kiln_interface in = ADD_ONE_INTERFACE("add_one");
  in.configs[0].require = &require, in.configs[0].require_count = 1;
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_write(&f, kiln_test_path("few.kbundle"), "");
  free(object);
  fixture_open(kiln_test_path("few.kbundle"), "host:1", &library, &device);
  CHECK_OK(kiln_kernel_get(device, "add_one", NULL, &kernel, &err), err);
  add(note, &s, KILN_EVENT_MISS | KILN_EVENT_LAUNCHED);
  CHECK_INT(kiln_launch(kernel, NULL, args, 3, &err), KILN_STATUS_NO_VARIANT);
  CHECK_INT(s.count, 1);
  CHECK_INT(s.events[0].kind, KILN_EVENT_MISS);
  CHECK_TEXT(s.events[0].kernel_name, "add_one");
  if (!strstr(s.texts[0], "BLOCK=64: needs")) FAIL("%s", s.texts[0]);
  kiln_hook_remove(note, &s);
  close_all();
}

// What the driver says of a launch is in its last event.
TEST(hook, a_failed_launch_has_its_status) {
  static const char source[] =
      HOST_KERNEL("add_one") " { (void)args, (void)id, (void)grid, (void)scratch; return 3; }\n";
  seen s = {.count = 0};
  kiln_error err;
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(source, &size);
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one")), 0, 0, KILN_FORMAT_HOST, "x86-64-v2",
               "add_one", object, size);
  fixture_write(&f, kiln_test_path("asserts.kbundle"), "");
  free(object);
  fixture_open(kiln_test_path("asserts.kbundle"), "host:1", &library, &device);
  CHECK_OK(kiln_kernel_get(device, "add_one", NULL, &kernel, &err), err);
  add(note, &s, KILN_EVENT_LAUNCHED);
  CHECK_INT(kiln_launch(kernel, NULL, args, 3, &err), KILN_STATUS_ASSERT);
  CHECK_INT(s.count, 1);
  CHECK_INT(s.events[0].status, KILN_STATUS_ASSERT);
  CHECK(!s.events[0].begin_ns && !s.events[0].end_ns); // nobody asked
  kiln_hook_remove(note, &s);
  close_all();
}

static void count(void *user, const kiln_event *e) {
  (void)e;
  atomic_fetch_add((atomic_uint *)user, 1);
}

TEST(hook, there_are_four_and_what_was_not_added_is_not_removed) {
  atomic_uint counts[5] = {0};
  kiln_error err;
  open_on("null");
  CHECK_INT(kiln_hook_add(NULL, NULL, 1, &err), KILN_STATUS_INVALID_ARGUMENT);
  for (unsigned i = 0; i < 4; i++) add(count, &counts[i], KILN_EVENT_LAUNCHED);
  CHECK_INT(kiln_hook_add(count, &counts[4], 1, &err), KILN_STATUS_LIMIT);
  CHECK_TEXT(err.text, "there are 4 hooks, the most that can be");
  kiln_hook_remove(count, &counts[4]);
  kiln_hook_remove(note, &counts[0]);
  kiln_hook_remove(NULL, NULL);
  launch();
  kiln_hook_remove(count, &counts[1]);
  kiln_hook_remove(count, &counts[1]);
  launch();
  add(count, &counts[4], KILN_EVENT_LAUNCHED | KILN_EVENT_LAUNCH);
  launch();
  const unsigned want[] = {3, 1, 3, 3, 2};
  for (unsigned i = 0; i < 5; i++) {
    CHECK_INT(counts[i], want[i]);
    kiln_hook_remove(count, &counts[i]);
  }
  close_all();
}

// ------------------------------------------------------------------------------- in hooks, and threads

typedef struct once {
  unsigned begins, ends;
} once;

static void remove_itself(void *user, const kiln_event *e) {
  once *o = user;
  if (e->kind == KILN_EVENT_LAUNCHED) o->ends++;
  else if (!o->begins++) kiln_hook_remove(remove_itself, o);
}

TEST(hook, one_that_removes_itself_sees_the_end_of_that_launch_and_no_other) {
  once o = {0};
  open_on("null");
  add(remove_itself, &o, KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED);
  launch();
  launch();
  CHECK_INT(o.begins, 1);
  CHECK_INT(o.ends, 1);
  close_all();
}

static void launch_again(void *user, const kiln_event *e) {
  (void)e;
  ++*(unsigned *)user;
  launch();
}

TEST(hook, launches_of_a_hook_are_told_to_nobody) {
  unsigned calls = 0;
  open_on("host:1");
  x[150] = 5, y[150] = 0;
  add(launch_again, &calls, KILN_EVENT_LAUNCH);
  launch();
  kiln_hook_remove(launch_again, &calls);
  CHECK_INT(calls, 1);
  CHECK(y[150] > 5.5f && y[150] < 6.5f);
  close_all();
}

static _Thread_local int depth;
typedef struct life {
  atomic_bool is_over; // the hook was removed
  atomic_uint calls, faults;
} life;

static void check_pairs(void *user, const kiln_event *e) {
  life *l = user;
  depth += e->kind == KILN_EVENT_LAUNCH ? 1 : -1;
  if (atomic_load(&l->is_over) || depth < 0 || depth > 1) atomic_fetch_add(&l->faults, 1);
  atomic_fetch_add(&l->calls, 1);
}

static atomic_bool is_enough;
static void *launch_until_enough(void *unused) {
  (void)unused;
  while (!atomic_load(&is_enough))
    if (kiln_launch(kernel, NULL, args, 3, NULL) != KILN_OK) return &is_enough;
  return depth ? &is_enough : NULL;
}

// Each launch is told wholly or not at all, and nothing after the removal.
TEST(hook, comes_and_goes_while_threads_launch) {
  enum { THREADS = 3, ROUNDS = 300 };
  static life lives[ROUNDS];
  pthread_t threads[THREADS];
  open_on("null");
  launch();
  for (unsigned i = 0; i < THREADS; i++)
    CHECK_INT(pthread_create(&threads[i], NULL, launch_until_enough, NULL), 0);
  unsigned told = 0;
  for (unsigned i = 0; i < ROUNDS; i++) {
    add(check_pairs, &lives[i], KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED);
    for (unsigned wait = 0; wait < 100000 && atomic_load(&lives[i].calls) < 20; wait++) sched_yield();
    kiln_hook_remove(check_pairs, &lives[i]);
    atomic_store(&lives[i].is_over, true);
    told += atomic_load(&lives[i].calls);
    CHECK_INT(atomic_load(&lives[i].calls) % 2, 0);
  }
  atomic_store(&is_enough, true);
  for (unsigned i = 0; i < THREADS; i++) {
    void *failure;
    pthread_join(threads[i], &failure);
    CHECK(!failure);
  }
  for (unsigned i = 0; i < ROUNDS; i++) CHECK_INT(atomic_load(&lives[i].faults), 0);
  CHECK(told > 2 * ROUNDS);
  close_all();
}

typedef struct gate {
  atomic_bool is_in, may_leave, is_removed;
  pthread_t thread; // the one that is held up
} gate;

static void wait_at(void *user, const kiln_event *e) {
  gate *g = user;
  (void)e;
  if (!pthread_equal(pthread_self(), g->thread)) return;
  atomic_store(&g->is_in, true);
  while (!atomic_load(&g->may_leave)) sched_yield();
}

static void *launch_held(void *user) {
  gate *g = user;
  g->thread = pthread_self();
  add(wait_at, g, KILN_EVENT_LAUNCH);
  launch();
  return NULL;
}

static void *remove_it(void *user) {
  gate *g = user;
  kiln_hook_remove(wait_at, g);
  atomic_store(&g->is_removed, true);
  return NULL;
}

static void in_a_child(gate *g) {
  kiln_hook_remove(wait_at, g); // the thread in the hook is the parent's
  alarm(0);
  _exit(kiln_launch(kernel, NULL, args, 3, NULL));
}

// A hook that takes long holds up its own launch and its removal; other launches and a child go on.
TEST(hook, a_long_one_holds_up_its_own_launch_and_its_removal) {
  gate g = {.may_leave = false};
  pthread_t held, removing;
  int status;
  open_on("null");
  CHECK_INT(pthread_create(&held, NULL, launch_held, &g), 0);
  while (!atomic_load(&g.is_in)) sched_yield();
  for (unsigned i = 0; i < 100; i++) launch();
  pid_t child = fork();
  if (!child) alarm(60), in_a_child(&g);
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
  CHECK_INT(pthread_create(&removing, NULL, remove_it, &g), 0);
  while (device->kind != device->own) sched_yield(); // it has begun
  for (unsigned i = 0; i < 100; i++) launch();
  CHECK(!atomic_load(&g.is_removed));
  atomic_store(&g.may_leave, true);
  pthread_join(held, NULL);
  pthread_join(removing, NULL);
  CHECK(atomic_load(&g.is_removed));
  close_all();
}

// A child that is made in a hook is still in it.
static void fork_in(void *user, const kiln_event *e) {
  if (e->kind == KILN_EVENT_LAUNCH) *(pid_t *)user = fork();
}

TEST(hook, a_child_of_a_hook_ends_its_launch) {
  pid_t child = -1;
  int status;
  open_on("null");
  add(fork_in, &child, KILN_EVENT_LAUNCH | KILN_EVENT_LAUNCHED);
  launch();
  if (!child) {
    alarm(60);
    kiln_hook_remove(fork_in, &child);
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
  kiln_hook_remove(fork_in, &child);
  close_all();
}

// ------------------------------------------------------------------------------------------- language

TEST(hook, one_that_may_throw_does_not_compile_as_cpp) {
  static const char program[] =
      "#include \"runtime/kiln.h\"\n"
      "static void hook(void *, const kiln_event *) NOEXCEPT {}\n"
      "int main() { return kiln_hook_add(hook, nullptr, KILN_EVENT_LAUNCH, nullptr); }\n";
  char *out;
  kiln_test_write(kiln_test_path("hook.cpp"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "g++ -std=c++17 -Wall -Wextra -pedantic -Werror -DNOEXCEPT=noexcept -I. -fsyntax-only %s",
                    kiln_test_path("hook.cpp")))
    FAIL("%s", out);
  free(out);
  CHECK_INT(
      kiln_test_run(&out, "g++ -std=c++17 -DNOEXCEPT= -I. -fsyntax-only %s", kiln_test_path("hook.cpp")), 1);
  if (!strstr(out, "noexcept")) FAIL("%s", out);
  free(out);
}
