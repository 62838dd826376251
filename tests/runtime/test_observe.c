// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests libkiln-observe: counters, lines of the log, ranges as stub libraries of the vendors record them, the map of
// `perf`, the list of gdb (and gdb itself, where it is installed); linked, preloaded and attached.
#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/kiln_observe.h"
#include "tests/runtime/fixture.h"

static kiln_library *library;
static kiln_device *device;
static kiln_kernel *kernel;
static float x[200], y[200];
static void *px = x, *py = y;
static int n = 200;
static const void *const args[] = {&px, &py, &n};

static void open_named(const char *name, const char *on) {
  fixture f;
  size_t size;
  kiln_error err;
  kiln_interface in = ADD_ONE_INTERFACE(name);
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  uint32_t number = fixture_kernel(&f, &in);
  fixture_code(&f, number, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_write(&f, kiln_test_path("o.kbundle"), "");
  free(object);
  fixture_open(kiln_test_path("o.kbundle"), on, &library, &device);
  CHECK_OK(kiln_kernel_get(device, name, NULL, &kernel, &err), err);
}

static void close_all(void) {
  kiln_device_close(device);
  kiln_close(library);
}

static void launch(void) {
  kiln_error err;
  CHECK_OK(kiln_launch(kernel, NULL, args, 3, &err), err);
}

static void start(const char *what, const char *log, const char *file) {
  kiln_error err;
  CHECK_OK(kiln_observe_start(what, log, file, &err), err);
}

static void refused(const char *what, const char *log, const char *file, kiln_status status,
                    const char *text) {
  kiln_error err;
  CHECK_INT(kiln_observe_start(what, log, file, &err), status);
  if (!strstr(err.text, text)) FAIL("expected '%s' in '%s'", text, err.text);
}

// ----------------------------------------------------------------------------------- counters, words

TEST(observe, counts_by_kernel_and_device) {
  kiln_counter c;
  kiln_kernel *none;
  start("counters", NULL, NULL);
  open_named("add_one", "host:2");
  launch();
  launch();
  CHECK_INT(kiln_kernel_get(device, "add\n\"two\"", NULL, &none, NULL), KILN_STATUS_NOT_FOUND);
  close_all();
  kiln_observe_stop();
  open_named("add_one", "host:2");
  launch(); // not counted any more
  close_all();
  CHECK_INT(kiln_observe_counter_at(0, &c), KILN_OK);
  CHECK_TEXT(c.device, "host:2");
  CHECK_TEXT(c.kernel, "add_one");
  CHECK_INT(c.launches, 2);
  CHECK_INT(c.loads, 1);
  CHECK(!c.failures && !c.load_failures && !c.misses && c.fallbacks <= 1);
  CHECK_INT(kiln_observe_counter_at(1, &c), KILN_OK);
  CHECK_INT(c.misses, 1);
  CHECK_INT(kiln_observe_counter_at(2, &c), KILN_STATUS_NOT_FOUND);
  CHECK_INT(kiln_observe_counter_at(0, NULL), KILN_STATUS_INVALID_ARGUMENT);
  char page[4000], part[100];
  size_t size = kiln_observe_prometheus(page, sizeof page);
  CHECK_INT(size, strlen(page));
  CHECK(strstr(
      page,
      "# TYPE kiln_launches_total counter\nkiln_launches_total{device=\"host:2\",kernel=\"add_one\"} 2\n"));
  CHECK(strstr(page, "\nkiln_misses_total{device=\"host:2\",kernel=\"add\\n\\\"two\\\"\"} 1\n"));
  CHECK_INT(kiln_observe_prometheus(part, sizeof part), size);
  CHECK_INT(strlen(part), sizeof part - 1);
  CHECK(!strncmp(part, page, sizeof part - 1));
  CHECK_INT(kiln_observe_prometheus(NULL, 0), size);
}

TEST(observe, other_words_and_a_second_start_are_refused) {
  refused("counters,launches", NULL, NULL, KILN_STATUS_INVALID_ARGUMENT, "found 'launches'");
  refused(NULL, "debug", NULL, KILN_STATUS_INVALID_ARGUMENT, "found 'debug'");
  refused(NULL, "all", "/nowhere/log", KILN_STATUS_NOT_FOUND, "cannot add to /nowhere/log");
  start(" counters , counters", "", NULL);
  refused("counters", NULL, NULL, KILN_STATUS_INVALID_ARGUMENT, "already");
  kiln_observe_stop();
  kiln_observe_stop();
  CHECK_INT(kiln_observe_attach(NULL, NULL), KILN_STATUS_INVALID_ARGUMENT);
  kiln_error err;
  CHECK_INT(kiln_observe_attach(dlopen(NULL, RTLD_LAZY), &err), KILN_STATUS_UNSUPPORTED);
}

// ------------------------------------------------------------------------------------------------ log

static char *log_besides(const char *what, const char *categories, const char *name, const char *on) {
  kiln_kernel *none;
  const char *path = kiln_test_path("log");
  unlink(path);
  start(what, categories, path);
  open_named(name, on);
  launch();
  CHECK_INT(kiln_kernel_get(device, "two", NULL, &none, NULL), KILN_STATUS_NOT_FOUND);
  close_all();
  kiln_observe_stop();
  return kiln_test_read(path, NULL);
}

static char *log_of(const char *categories, const char *name, const char *on) {
  return log_besides(NULL, categories, name, on);
}

static unsigned lines_of(const char *text) {
  unsigned lines = 0;
  for (; *text; text++) lines += *text == '\n';
  return lines;
}

static void check_has(const char *text, const char *part) {
  if (!strstr(text, part)) FAIL("expected '%s' in\n%s", part, text);
}

TEST(observe, a_log_has_a_line_for_each_event) {
  char *log = log_of("all", "add_one", "host:1");
  CHECK_INT(lines_of(log), 6);
  unsigned year, pid;
  CHECK_INT(sscanf(log, "kiln %u-%*u-%*uT%*u:%*u:%*u.%*uZ %u/", &year, &pid), 2);
  CHECK(year > 2000 && pid == (unsigned)getpid());
  check_has(log, " open bundle=\"");
  check_has(log, " choose device=host:1 kernel=\"add_one\" text=\"kernel 'add_one' on host:1");
  check_has(log, " load device=host:1 kernel=\"add_one\" config=\"BLOCK=64\" target=x86-64-v2 rank=");
  check_has(log, " launch device=host:1 kernel=\"add_one\" config=\"BLOCK=64\" target=x86-64-v2 rank=");
  check_has(log, " grid=4,1,1 stream=(nil) ns=");
  check_has(log,
            " by=order why=\"nothing was tuned for kernel and device: by order, or least cost\" status=OK\n");
  check_has(log, " miss device=host:1 kernel=\"two\" text=\"no kernel 'two' in ");
  check_has(log, " unload device=host:1\n");
  struct stat s;
  CHECK_INT(stat(kiln_test_path("log"), &s), 0);
  CHECK_INT(s.st_mode & 0777, 0600);
  free(log);
}

TEST(observe, a_log_has_the_categories_that_were_asked_for) {
  static const struct {
    const char *categories, *has;
    unsigned lines;
  } rows[] = {{"open", " open ", 1},          {"load", " load ", 2},    {"choose", " choose ", 1},
              {"miss", " miss ", 1},          {"warning", " miss ", 1}, {"launch,miss", " launch ", 2},
              {"launch, load", " unload ", 3}};
  static const char *const besides[] = {NULL, "counters", "gdb", "counters,gdb"};
  enum { ROWS = sizeof rows / sizeof *rows, BESIDES = sizeof besides / sizeof *besides };
  for (size_t i = 0; i < ROWS * BESIDES; i++) {
    const char *categories = rows[i / BESIDES].categories, *what = besides[i % BESIDES];
    char *log = log_besides(what, categories, "add_one", "host:1");
    check_has(log, rows[i / BESIDES].has);
    if (lines_of(log) != rows[i / BESIDES].lines)
      FAIL("%s besides %s: expected %u lines\n%s", categories, what ? what : "nothing",
           rows[i / BESIDES].lines, log);
    free(log);
  }
}

// A name from a bundle must not make lines of its own, or drive a terminal.
TEST(observe, names_cannot_write_lines) {
  char *log = log_of("launch", "k\nkiln 2026 launch \033[31m\"red\\", "host:1");
  CHECK_INT(lines_of(log), 1);
  CHECK(!strchr(log, '\033'));
  check_has(log, " kernel=\"k\\x0akiln 2026 launch \\x1b[31m\\\"red\\");
  free(log);
}

TEST(observe, a_log_is_added_to_no_link_and_no_file_of_others) {
  char link_path[512];
  snprintf(link_path, sizeof link_path, "%s/link", kiln_test_folder());
  kiln_test_write(kiln_test_path("victim"), "kept\n", 5);
  CHECK_INT(symlink(kiln_test_path("victim"), link_path), 0);
  refused(NULL, "all", link_path, KILN_STATUS_DENIED, "it is a link");
  CHECK_INT(unlink(link_path), 0);
  CHECK_INT(link(kiln_test_path("victim"), link_path), 0);
  refused(NULL, "all", link_path, KILN_STATUS_DENIED, "expected a file of one name");
  CHECK_INT(unlink(link_path), 0);
  CHECK_INT(chmod(kiln_test_path("victim"), 0666), 0);
  refused(NULL, "all", kiln_test_path("victim"), KILN_STATUS_DENIED, "others cannot write");
  refused(NULL, "all", kiln_test_folder(), KILN_STATUS_IO, "cannot add to");
  CHECK_INT(mkfifo(link_path, 0600), 0);
  kiln_error err;
  CHECK(kiln_observe_start(NULL, "all", link_path, &err) != KILN_OK);
  CHECK_INT(chmod(kiln_test_path("victim"), 0600), 0);
  start(NULL, "open", kiln_test_path("victim"));
  open_named("add_one", "null");
  close_all();
  kiln_observe_stop();
  char *text = kiln_test_read(kiln_test_path("victim"), NULL);
  CHECK(!strncmp(text, "kept\nkiln ", 10));
  free(text);
}

// --------------------------------------------------------------------------------------------- ranges

// Libraries as the vendors' are seen from here. They record what they are called with.
static const char recorder[] =
    "#include <string.h>\n#include <stdint.h>\n#include <stddef.h>\n"
    "static char text[1000];\n"
    "const char *recorded(void) { return text; }\n"
    "static int push(const char *t) { strcat(text, t); strcat(text, \"(\"); return 0; }\n"
    "static int pop(void) { strcat(text, \")\"); return 0; }\n";
static const char nvtx_tool[] =
    "typedef void (*function)(void);\n"
    "struct callbacks { size_t size; int (*get)(int module, function ***table, unsigned *size); };\n"
    "int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {\n"
    "  const struct callbacks *c = get(1); function **table; unsigned size;\n"
    "  if (get(2) || !c || c->size < sizeof *c) return 0;\n"
    "  if (!c->get(5, &table, &size) || size <= 15 || !table[15] || c->get(0, &table, &size) || c->get(7, "
    "&table, &size)) return 0;\n"
    "  if (!c->get(1, &table, &size) || size <= 15) return 0;\n"
    "  *table[9] = (function)push, *table[11] = (function)pop;\n"
    "  return 1;\n}\n";
static const char roctx[] = "int roctxRangePushA(const char *t) { return push(t); }\n"
                            "int roctxRangePop(void) { return pop(); }\n";

static void *stub(const char *name, const char *body, int flags) {
  char *out, source[3000], path[512];
  snprintf(source, sizeof source, "%s%s", recorder, body);
  kiln_test_write(kiln_test_path("stub.c"), source, strlen(source));
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), name);
  if (kiln_test_run(&out, "gcc -shared -fPIC -w -o %s %s/stub.c", path, kiln_test_folder())) FAIL("%s", out);
  free(out);
  void *handle = dlopen(path, RTLD_NOW | flags);
  if (!handle) FAIL("%s", dlerror());
  return handle;
}

static const char *recorded(void *handle) {
  const char *(*get)(void);
  *(void **)&get = dlsym(handle, "recorded");
  return get();
}

TEST(observe, a_tool_of_nvtx_gets_a_range_for_each_launch) {
  void *tool = stub("tool.so", nvtx_tool, RTLD_LOCAL);
  char path[512];
  snprintf(path, sizeof path, "%s/tool.so", kiln_test_folder());
  setenv("NVTX_INJECTION64_PATH", path, 1);
  start("nvtx", NULL, NULL);
  open_named("add_one", "host:1");
  launch();
  launch();
  kiln_observe_stop();
  launch();
  CHECK_TEXT(recorded(tool), "add_one BLOCK=64()add_one BLOCK=64()");
  close_all();
  setenv("NVTX_INJECTION64_PATH", "/nowhere.so", 1);
  refused("nvtx", NULL, NULL, KILN_STATUS_TOOL, "NVTX_INJECTION64_PATH: /nowhere.so");
  stub("none.so", "", RTLD_LOCAL);
  snprintf(path, sizeof path, "%s/none.so", kiln_test_folder());
  setenv("NVTX_INJECTION64_PATH", path, 1);
  refused("nvtx", NULL, NULL, KILN_STATUS_TOOL, "has no InitializeInjectionNvtx2");
  unsetenv("NVTX_INJECTION64_PATH");
}

TEST(observe, rocprofiler_gets_a_range_for_each_launch) {
  kiln_error err;
  if (kiln_observe_start("roctx", NULL, NULL, &err) == KILN_OK) SKIP("rocTX is installed");
  CHECK_TEXT(err.text, "roctx: there is no librocprofiler-sdk-roctx.so.1 and no libroctx64.so.4");
  void *there = stub("libroctx.so", roctx, RTLD_GLOBAL);
  start("roctx", NULL, NULL);
  open_named("add_one", "null");
  launch();
  kiln_observe_stop();
  CHECK_TEXT(recorded(there), "add_one BLOCK=64()");
  close_all();
}

// -------------------------------------------------------------------------------------- perf and gdb

static const void *loaded_at;
static void note_load(void *user, const kiln_event *e) {
  (void)user;
  loaded_at = e->function;
}

static void map_path(char out[64]) { snprintf(out, 64, "/tmp/perf-%d.map", (int)getpid()); }

static void check_map(const char *line) {
  unsigned long long begin, size;
  int name = 0;
  CHECK_INT(sscanf(line, "%llx %llx %n", &begin, &size, &name), 2);
  uint64_t at = (uintptr_t)loaded_at;
  if (at < begin || at >= begin + size) FAIL("%p is not in '%s'", loaded_at, line);
  CHECK_TEXT(line + name, "kiln add_one BLOCK=64\n");
}

TEST(observe, host_kernels_are_in_the_map_of_perf) {
  char path[64];
  kiln_error err;
  map_path(path);
  unlink(path);
  CHECK_INT(symlink(kiln_test_path("elsewhere"), path), 0);
  char said[512];
  snprintf(said, sizeof said, "%s/said", kiln_test_folder());
  fflush(stderr);
  int before = dup(2);
  CHECK(freopen(said, "w", stderr));
  start("perf", NULL, NULL);
  open_named("add_one", "host:1");
  launch();
  close_all();
  kiln_observe_stop();
  fflush(stderr);
  dup2(before, 2);
  char *text = kiln_test_read(said, NULL);
  check_has(text, "libkiln-observe: cannot add to /tmp/perf-");
  check_has(text, "it is a link\n");
  free(text);
  CHECK(access(kiln_test_path("elsewhere"), F_OK) != 0);
  CHECK_INT(unlink(path), 0);
  CHECK_OK(kiln_hook_add(note_load, NULL, KILN_EVENT_LOADED, &err), err);
  start("perf", NULL, NULL);
  open_named("add_one", "null"); // runs nothing, so it has no code
  launch();
  close_all();
  open_named("add_one", "host:1");
  launch();
  close_all();
  kiln_observe_stop();
  kiln_hook_remove(note_load, NULL);
  char *map = kiln_test_read(path, NULL);
  CHECK_INT(lines_of(map), 1);
  check_map(map);
  free(map);
  CHECK_INT(unlink(path), 0);
}

// A child writes a file of its own.
TEST(observe, a_child_has_a_map_of_its_own) {
  char path[64];
  int status;
  start("perf", NULL, NULL);
  open_named("add_one", "host:1");
  pid_t child = fork();
  if (!child) {
    alarm(60);
    launch();
    map_path(path);
    char *map = kiln_test_read(path, NULL);
    bool is_one = map && lines_of(map) == 1;
    unlink(path);
    _exit(is_one ? 0 : 1);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
  kiln_observe_stop();
  close_all();
  map_path(path);
  CHECK(access(path, F_OK) != 0); // nothing was loaded here
}

typedef struct jit_entry {
  struct jit_entry *next, *previous;
  const char *object;
  uint64_t size;
} jit_entry;
extern struct {
  uint32_t version, action;
  jit_entry *relevant, *first;
} __jit_debug_descriptor;

static void check_object(const jit_entry *entry, const void *function) {
  const Elf64_Ehdr *head = (const void *)entry->object;
  const Elf64_Shdr *sections = (const void *)(entry->object + head->e_shoff);
  CHECK(entry->size > head->e_shoff + head->e_shnum * sizeof *sections);
  for (unsigned i = 0; i < head->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(entry->object + sections[i].sh_offset) + 1;
    const Elf64_Shdr *text = &sections[s->st_shndx], *strings = &sections[sections[i].sh_link];
    CHECK_TEXT(entry->object + strings->sh_offset + s->st_name, "add_one BLOCK=64");
    CHECK((uintptr_t)function >= text->sh_addr && (uintptr_t)function < text->sh_addr + text->sh_size);
    return;
  }
  FAIL("no symbols");
}

TEST(observe, host_kernels_are_in_the_list_of_gdb) {
  kiln_error err;
  CHECK_OK(kiln_hook_add(note_load, NULL, KILN_EVENT_LOADED, &err), err);
  start("gdb", NULL, NULL);
  CHECK_INT(__jit_debug_descriptor.version, 1);
  open_named("add_one", "host:1");
  launch();
  jit_entry *first = __jit_debug_descriptor.first;
  CHECK(first && !first->next && !first->previous);
  check_object(first, loaded_at);
  kiln_device *second;
  kiln_kernel *again;
  CHECK_OK(kiln_device_open(library, "host:2", &second, &err), err);
  CHECK_OK(kiln_kernel_get(second, "add_one", NULL, &again, &err), err);
  CHECK_OK(kiln_preload(again, &err), err);
  jit_entry *newer = __jit_debug_descriptor.first;
  CHECK(newer != first && newer->next == first && first->previous == newer);
  check_object(newer, loaded_at);
  close_all();
  CHECK(__jit_debug_descriptor.first == newer && !newer->next);
  kiln_observe_stop();
  CHECK(!__jit_debug_descriptor.first && !__jit_debug_descriptor.action);
  kiln_device_close(second);
  kiln_hook_remove(note_load, NULL);
}

// ----------------------------------------------------------------------------- programs, as users have them

// Launches once, or as often as is said; "null": with a pointer that leads nowhere.
// ./app BUNDLE [TIMES [FOLDER]]: with a folder it goes there, and a child of a fork launches once more.
static const char program[] =
    "#include <kiln/kiln.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include "
    "<unistd.h>\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *l; kiln_device *d; kiln_kernel *k; kiln_error e; long times = argc > 2 ? atol(argv[2]) "
    ": 1;\n"
    "  static float x[64]; void *p = times ? x : NULL; int n = 64; const void *args[] = {&p, &p, &n};\n"
    "  if (kiln_open_file(argv[1], &l, &e) || kiln_device_open(l, \"host:1\", &d, &e) || kiln_kernel_get(d, "
    "\"add_one\", NULL, &k, &e)) return puts(e.text), 1;\n"
    "  do if (kiln_launch(k, NULL, args, 3, &e)) return puts(e.text), 1; while (--times > 0);\n"
    "  if (argc > 3 && chdir(argv[3])) return 1;\n"
    "  if (argc > 3 && !fork()) return kiln_launch(k, NULL, args, 3, &e);\n"
    "  if (argc > 3) wait(NULL);\n"
    "  kiln_device_close(d); kiln_close(l);\n"
    "  return puts(\"done\"), 0;\n}\n";

// Runs `command` in the test's folder with the program and its bundle there.
static char *run_program(const char *command) {
  char *out;
  const char *build = kiln_test_build_path();
  if (KILN_TEST_SANITIZED) SKIP("an instrumented library needs an instrumented program");
  if (kiln_test_run(NULL, "test -e %s/lib/libkiln-observe.so.0", build))
    SKIP("libkiln-observe.so.0 is not built");
  fixture_add_one(kiln_test_path("o.kbundle"), "");
  kiln_test_write(kiln_test_path("app.c"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "R=$PWD; L=%s/lib; cd %s && gcc -I$L/../include -I$R -o app app.c -L$L -lkiln && export "
                    "LD_LIBRARY_PATH=$L L && %s",
                    build, kiln_test_folder(), command))
    FAIL("%s", out);
  return out;
}

TEST(observe, a_program_that_knows_nothing_of_it_is_observed_by_ld_preload) {
  char *out = run_program(
      "KILN_LOG=load,launch KILN_COUNTERS_FILE=c.prom LD_PRELOAD=$L/libkiln-observe.so.0 ./app o.kbundle "
      "2>&1 && cat c.prom");
  check_has(out, " load device=host:1 kernel=\"add_one\"");
  check_has(out, " launch device=host:1 kernel=\"add_one\"");
  check_has(out, "done\n");
  check_has(out, "kiln_launches_total{device=\"host:1\",kernel=\"add_one\"} 1\n");
  free(out);
  // Silent unless asked; what is not known is said and the program runs.
  out = run_program("LD_PRELOAD=$L/libkiln-observe.so.0 ./app o.kbundle 2>&1; KILN_OBSERVE=all "
                    "LD_PRELOAD=$L/libkiln-observe.so.0 ./app o.kbundle 2>&1");
  CHECK_TEXT(out,
             "done\nlibkiln-observe: what to observe: expected counters, nvtx, roctx, perf or gdb, found "
             "'all'\ndone\n");
  free(out);
}

// Whoever else has the environment and the library: who started the program, and its children.
TEST(observe, counters_of_other_processes_are_not_overwritten) {
  char *out = run_program(
      "mkdir away; export LD_PRELOAD=$L/libkiln-observe.so.0; export KILN_COUNTERS_FILE=c.prom; "
      "timeout 60 bash -c './app o.kbundle 2; exit 0'; bash -c 'exit 0'; grep -h launches_total{ c.prom; "
      "KILN_COUNTERS_FILE=away.prom KILN_LOG=launch KILN_LOG_FILE=away.log ./app o.kbundle 3 away; "
      "KILN_COUNTERS_FILE=own-%p.prom ./app o.kbundle 4 away; unset LD_PRELOAD; "
      "grep -o 'launches_total{.*} .*' away.prom* own-*.prom | sed 's/{.*}//; s/[0-9]\\{2,\\}/PID/' | "
      "LC_ALL=C sort; "
      "grep -c ' launch ' away.log; ls away");
  CHECK_TEXT(out, "done\nkiln_launches_total{device=\"host:1\",kernel=\"add_one\"} 2\ndone\ndone\n"
                  "away.prom.PID:launches_total 1\naway.prom:launches_total 3\n"
                  "own-PID.prom:launches_total 1\nown-PID.prom:launches_total 4\n4\n");
  free(out);
}

// As Python does: both libraries are opened with names of their own.
TEST(observe, a_library_that_was_opened_apart_is_attached) {
  static const char loader[] = "#include <kiln/kiln_observe.h>\n#include <dlfcn.h>\n#include <stdio.h>\n"
                               "int main(void) {\n"
                               "  void *kiln = dlopen(\"libkiln.so.0\", RTLD_NOW), *observe = "
                               "dlopen(\"libkiln-observe.so.0\", RTLD_NOW);\n"
                               "  kiln_error e; kiln_library *l; kiln_counter c;\n"
                               "  __typeof__(kiln_observe_attach) *attach; __typeof__(kiln_observe_start) "
                               "*start; __typeof__(kiln_open_file) *open;\n"
                               "  *(void **)&attach = dlsym(observe, \"kiln_observe_attach\"); *(void "
                               "**)&start = dlsym(observe, \"kiln_observe_start\");\n"
                               "  *(void **)&open = dlsym(kiln, \"kiln_open_file\");\n"
                               "  if (attach(kiln, &e) || attach(kiln, &e) || start(NULL, \"open\", NULL, "
                               "&e) || open(\"o.kbundle\", &l, &e)) return puts(e.text), 1;\n"
                               "  return 0;\n}\n";
  kiln_test_write(kiln_test_path("loader.c"), loader, sizeof loader - 1);
  char *out = run_program(
      "mkdir -p include && ln -sfn $R/runtime include/kiln && gcc -Iinclude -I$R -o loader loader.c -ldl && "
      "./loader 2>&1");
  CHECK_INT(lines_of(out), 1);
  check_has(out, " open bundle=\"");
  free(out);
}

// A kernel that fails is named in gdb's list of frames.
TEST(observe, gdb_names_the_kernel_that_fails) {
  if (kiln_test_run(NULL, "gdb -batch -ex quit")) SKIP("gdb is not installed");
  char *out = run_program(
      "KILN_OBSERVE=gdb LD_PRELOAD=$L/libkiln-observe.so.0 gdb -nx -batch -ex 'set startup-with-shell off' "
      "-ex run -ex 'frame 0' --args ./app o.kbundle null 2>&1 || true");
  if (strstr(out, "ptrace: Operation not permitted") || strstr(out, "Could not trace"))
    SKIP("gdb may not trace here");
  check_has(out, "received signal SIGSEGV");
  check_has(out, "in add_one BLOCK=64");
  free(out);
}

TEST(observe, perf_names_the_kernel_that_takes_the_time) {
  if (kiln_test_run(NULL, "cd %s && perf record -q -e cpu-clock -o p true", kiln_test_folder()))
    SKIP("perf cannot record here");
  char *out =
      run_program("perf record -q -e cpu-clock -o p env KILN_OBSERVE=perf LD_PRELOAD=$L/libkiln-observe.so.0 "
                  "./app o.kbundle 3000000 && perf report -i p --stdio 2>/dev/null; for pid in $(perf script "
                  "-i p -F pid 2>/dev/null | sort -u); do rm -f /tmp/perf-$pid.map; done");
  check_has(out, "kiln add_one BLOCK=64");
  free(out);
}
