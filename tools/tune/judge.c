// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides what the buffers of a kernel must hold after a launch (from the interpreter, a recording or the
// first config) and compares them.
#include "tools/tune/judge.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/expr.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/canonical.h"
#include "tools/common/cli.h"
#include "tools/common/key_file.h"
#include "tools/case/recording.h"

enum { MOST_VALUES = 512, MOST_BLOCK = 4096 };

static case_element element_of(const run_value *v) {
  static const case_element elements[KILN_SCALAR_COUNT] = {
      [KILN_F64] = CASE_F64,   [KILN_F32] = CASE_F32,   [KILN_F16] = CASE_F16,
      [KILN_BF16] = CASE_BF16, [KILN_E4M3] = CASE_E4M3, [KILN_E5M2] = CASE_E5M2};
  return elements[v->scalar];
}

kiln_status tune_judge_compare(const tune_judge *judge, const tune_subject *s, kiln_error *err) {
  for (size_t i = 0; i < s->count; i++) {
    const run_value *v = &s->values[i];
    if (tune_subject_is_judged(s, i))
      KILN_TRY(case_compare(v->param.name, element_of(v), judge->coarse, s->want + s->at[i],
                            s->got + s->at[i], v->size, err));
  }
  return KILN_OK;
}

void tune_judge_accept(tune_judge *judge, tune_subject *s) {
  judge->by = "first";
  for (size_t i = 0; i < s->count; i++)
    if (tune_subject_is_judged(s, i)) memcpy(s->want + s->at[i], s->got + s->at[i], s->values[i].size);
}

// ------------------------------------------------------------------------------------- interpreter

// The arguments as the interpreter takes them: buffers in `want`.
typedef struct packed {
  _Alignas(16) uint8_t block[MOST_BLOCK];
  int64_t numbers[MOST_VALUES]; // for launch expressions
  kiln_memory_range ranges[MOST_VALUES];
} packed;

static bool pack(const tune_subject *s, packed *out) {
  if (s->count > MOST_VALUES || s->interface->block_bytes > MOST_BLOCK) return false;
  for (size_t i = 0; i < s->count; i++) {
    const run_value *v = &s->values[i];
    uint8_t *at = out->block + v->param.offset;
    memcpy(at, v->packed, v->param.size);
    if (v->bytes) kiln_put64(at, (uint64_t)(uintptr_t)(s->want + s->at[i]));
    out->ranges[i] = (kiln_memory_range){s->want + s->at[i], v->size};
    bool is_address = v->param.pointer || v->param.rank;
    if (is_address || kiln_scalars[v->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL))
      out->numbers[i] = kiln_read_integer(at, is_address ? 8 : (uint8_t)v->param.size, v->scalar != KILN_I1);
  }
  return true;
}

static bool may_run(const kiln_config_record *config, const packed *p) {
  int64_t value;
  for (uint32_t i = 0; i < config->require_count; i++)
    if (!kiln_expr_eval(config->require[i].bytes, config->require[i].size, p->numbers, &value) || !value)
      return false;
  return true;
}

int64_t tune_cost_of(const tune_subject *s, uint32_t config) {
  static packed p;
  const kiln_span *cost = &s->interface->configs[config].cost;
  int64_t value;
  memset(&p, 0, sizeof p);
  if (!cost->size || !pack(s, &p) || !kiln_expr_eval(cost->bytes, cost->size, p.numbers, &value))
    return INT64_MAX;
  return value;
}

static bool grid_of(const kiln_config_record *config, const packed *p, uint32_t out[3]) {
  bool states_one = false;
  for (unsigned axis = 0; axis < 3; axis++) {
    int64_t extent = 1;
    const kiln_span *e = &config->grid[axis];
    states_one |= e->size != 0;
    if (e->size &&
        (!kiln_expr_eval(e->bytes, e->size, p->numbers, &extent) || extent < 0 || extent > UINT32_MAX))
      return false;
    out[axis] = (uint32_t)extent;
  }
  return states_one;
}

// The kernel of line "CONFIG HEX"; NULL when it is damaged.
static ir_kernel *decode(kiln_arena *arena, const char *hex, size_t digits) {
  kiln_error unseen;
  ir_kernel *kernel = NULL;
  char *copy = kiln_arena_text(arena, hex, digits);
  uint8_t *bytes = kiln_arena_alloc(arena, digits / 2 + 1);
  if (digits % 2 || !key_file_hex(copy, bytes, digits / 2)) return NULL;
  return kiln_canonical_decode(arena, bytes, digits / 2, "reference", &kernel, &unseen) == KILN_OK ? kernel
                                                                                                   : NULL;
}

// The bundle's note for the interpreter about a kernel; NULL: none.
static const char *reference_of(const tune_subject *s, const bundle_view *view) {
  char key[5000];
  snprintf(key, sizeof key, "reference %.4096s", s->interface->name);
  for (uint32_t i = 0; i < view->note_count; i++)
    if (!strcmp(view->notes[i].key, key)) return view->notes[i].value;
  return NULL;
}

// The first config of the note that may run, which is launched without a table: another config with other
// results is wrong.
static ir_kernel *find_kernel(kiln_arena *arena, const tune_subject *s, const bundle_view *view,
                              const packed *p, uint32_t out_grid[3]) {
  const char *note = reference_of(s, view);
  ir_kernel *found = NULL;
  while (note && *note && !found) {
    char *space;
    unsigned long config = strtoul(note, &space, 10);
    size_t length = strcspn(note, "\n");
    bool fits =
        *space == ' ' && config < s->interface->config_count && may_run(&s->interface->configs[config], p);
    uint32_t grid[3];
    if (fits && grid_of(&s->interface->configs[config], p, grid)) {
      ir_kernel *kernel = decode(arena, space + 1, length - (size_t)(space + 1 - note));
      if (kernel) found = kernel, memcpy(out_grid, grid, sizeof grid);
    }
    note += length + (note[length] == '\n');
  }
  return found;
}

static void look_for_loops(ir_op *op, void *context) { *(bool *)context |= ir_is_loop(op); }

bool tune_judge_is_straight(const tune_subject *s, const bundle_view *view) {
  const char *note = reference_of(s, view), *space = note ? strchr(note, ' ') : NULL;
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = space ? decode(arena, space + 1, strcspn(space + 1, "\n")) : NULL;
  bool has_loop = !kernel;
  if (kernel) ir_walk(kernel->body, look_for_loops, &has_loop);
  kiln_arena_destroy(arena);
  return !has_loop;
}

static void look_at(ir_op *op, void *context) {
  if (op->code == IR_DOT && ir_type_class(op->operands[0]->type) != KILN_CLASS_INT)
    *(bool *)context |= ir_type_bits(op->operands[0]->type) < 32 || op->attrs.precision == IR_PREC_TF32;
}

// Waits for a child; false when it has to be ended first.
static bool wait_child(pid_t pid, unsigned limit_ms, int *out_status) {
  uint64_t end = cli_now_ns() + (uint64_t)limit_ms * 1000000u;
  for (useconds_t pause = 200;; pause = pause < 20000 ? pause * 2 : pause) {
    pid_t got = waitpid(pid, out_status, WNOHANG);
    if (got == pid) return true;
    if (cli_now_ns() >= end) break;
    usleep(pause);
  }
  kill(pid, SIGKILL);
  while (waitpid(pid, out_status, 0) < 0 && errno == EINTR) {
  }
  return false;
}

static kiln_status interpret(const tune_subject *s, ir_kernel *kernel, const packed *p,
                             const uint32_t grid[3], unsigned limit_ms, kiln_error *err) {
  int status;
  kiln_error *said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (said == MAP_FAILED) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    kiln_interpret_options options = {.ranges = p->ranges, .range_count = s->count};
    for (size_t i = 0; i < s->count; i++)
      if (s->values[i].bytes) tune_subject_contents(s, i, s->want + s->at[i]);
    _exit(kiln_interpret(kernel, p->block, grid, &options, said) == KILN_OK ? 0 : 1);
  }
  kiln_status result = KILN_OK;
  if (pid < 0) result = kiln_fail(err, kiln_status_of_errno(errno), "fork: %s", strerror(errno));
  else if (!wait_child(pid, limit_ms, &status))
    result =
        kiln_fail(err, KILN_STATUS_TIMEOUT, "the reference interpreter took longer than %u ms", limit_ms);
  else if (WIFSIGNALED(status))
    result =
        kiln_fail(err, KILN_STATUS_TOOL, "the reference interpreter died: %s", strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status))
    result = kiln_fail(err, said->status, "the reference interpreter: %s", said->text);
  munmap(said, sizeof *said);
  return result;
}

kiln_status tune_judge_interpret(tune_judge *judge, tune_subject *s, const bundle_view *view,
                                 unsigned limit_ms, kiln_error *err) {
  static packed p;
  uint32_t grid[3];
  memset(&p, 0, sizeof p);
  judge->by = "interpreter";
  judge->coarse = false;
  if (!pack(s, &p))
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%zu arguments are too many to interpret", s->count);
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = find_kernel(arena, s, view, &p, grid);
  kiln_status status;
  if (kernel) {
    ir_walk(kernel->body, look_at, &judge->coarse);
    status = limit_ms ? interpret(s, kernel, &p, grid, limit_ms, err)
                      : kiln_fail(err, KILN_STATUS_TIMEOUT, "the reference interpreter is not to be run");
  } else {
    status =
        kiln_fail(err, KILN_STATUS_NOT_FOUND, "the bundle has no kernel to interpret for these arguments");
  }
  kiln_arena_destroy(arena);
  return status;
}

void tune_judge_recorded(tune_judge *judge, tune_subject *s, const bundle_view *view) {
  kiln_arena *arena = kiln_arena_create();
  const char *note = reference_of(s, view), *space = note ? strchr(note, ' ') : NULL;
  ir_kernel *kernel = space ? decode(arena, space + 1, strcspn(space + 1, "\n")) : NULL;
  *judge = (tune_judge){.by = "case"};
  if (kernel) ir_walk(kernel->body, look_at, &judge->coarse);
  kiln_arena_destroy(arena);
  for (size_t i = 0; i < s->count; i++)
    if (s->values[i].bytes) memcpy(s->want + s->at[i], s->after[i], s->values[i].size);
}
