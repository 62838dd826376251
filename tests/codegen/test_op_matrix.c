// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests every operation of ops.def with every element type for every kind of machine: what the compiler
// claims to support compiles, the rest is refused with a reason, and what runs on the host agrees with the
// interpreter bit for bit. docs/ops.md is its output for the quick machines.
//
// With KILN_OPS_HIP=gfx942 that machine's kernels run too, on the first HIP device, which must be one of
// these: real, or emulated as docs/emulation.md says. KILN_OPS=add narrows the run to operations of that
// name; KILN_TEST_FULL takes all machines; KILN_TEST_BLESS writes docs/ops.md anew.
#include <math.h>
#include <stdlib.h>

#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/hip_mapping.h"
#include "tests/codegen/host_mapping.h"
#include "tests/codegen/op_matrix.inc"

static const struct {
  const char *name;
  bool quick;
} machines[] = {{"x86-64-v3", true},  {"sm_90a", true},   {"gfx942", true},   {"gfx1100", true},
                {"x86-64-v2", false}, {"sm_70", false},   {"sm_75", false},   {"sm_80", false},
                {"sm_89", false},     {"gfx906", false},  {"gfx908", false},  {"gfx90a", false},
                {"gfx1030", false},   {"gfx1201", false}, {"sm_100a", false}, {"gfx950", false},
                {"gfx1010", false},   {"gfx1250", false}};
enum { MACHINES = sizeof machines / sizeof *machines, REASONS = 200, REASON = 240 };

/// What a back end refuses, though no table of the middle does. A refusal that is not here fails, and so does
/// a row that compiles.
static const struct {
  ir_opcode code;
  kiln_family family;
  const char *reason;
} stated[] = {
    {IR_ASM, KILN_FAMILY_HOST,
     "of another machine's assembly only PTX that computes registers from registers is translated"},
};

typedef struct reason_row {
  char text[REASON];
} reason_row;

/// The table as it is found.
typedef struct matrix {
  char marks[IR_OPCODE_COUNT][COLUMNS][MACHINES];
  reason_row reasons[REASONS];
  uint32_t reason_count, native, expanded, refused, compared, on_device, wrong;
  const char *device_machine; ///< whose kernels `hip` runs; NULL: none
  const hip_table *hip;
} matrix;

static const char *stated_refusal(ir_opcode code, const kiln_target *target) {
  for (size_t i = 0; i < sizeof stated / sizeof *stated; i++)
    if (stated[i].code == code && stated[i].family == target->processor->family) return stated[i].reason;
  return NULL;
}

/// Keeps a reason once, without the type that was found: the table says which.
static void add_reason(matrix *m, const char *what, ir_opcode code, const char *why) {
  char text[REASON] = "", prefix[32];
  const char *found = strstr(why, ", found ");
  int length = snprintf(prefix, sizeof prefix, "%s: ", ir_ops[code].text);
  if (!strncmp(why, prefix, (size_t)length)) why += length;
  snprintf(text, sizeof text, "%s %-11s %.*s", what, ir_ops[code].text, found ? (int)(found - why) : 200,
           why);
  for (uint32_t i = 0; i < m->reason_count; i++)
    if (!strcmp(m->reasons[i].text, text)) return;
  if (m->reason_count < REASONS) memcpy(m->reasons[m->reason_count++].text, text, sizeof text);
}

// --------------------------------------------------------------------------------- memory of a run

typedef struct world {
  uint8_t *bytes[MAX_BUFFERS];
  void *args[MAX_BUFFERS];
} world;

static uint64_t value_at(const cell_buffer *b, size_t at, uint64_t *random) {
  static const double specials[] = {0,   -0.0, INFINITY, -INFINITY, NAN,  1e-7,         -1e-40, 65504,
                                    3.5, -2.5, 0.5,      300,       -129, 2147483648.0, 1e30,   1};
  static const double plain[] = {1, 2, 0.5, -1, -2, 1, -0.5, 1};
  uint64_t r = kiln_test_random(random);
  unsigned class =
      b->element.pointer ? (unsigned)KILN_CLASS_POINTER : kiln_scalars[b->element.scalar].type_class;
  if (class == KILN_CLASS_BOOL) return r & 1;
  if (class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8)) {
    double value = b->plain ? plain[r % 8] : at < 16 ? specials[at] : (double)((int)(r % 4097) - 2048) / 64;
    return ir_float_to_bits(b->element.scalar, value, true);
  }
  return at < 4 ? (uint64_t)0 - at : r >> (at % 3 * 20);
}

static size_t bytes_of(const cell_buffer *b) {
  return b->element.pointer ? 8 : kiln_scalars[b->element.scalar].bytes;
}

static void fill(const cell *c, world *w) {
  uint64_t random = 11;
  for (uint32_t i = 0; i < c->buffer_count; i++) {
    size_t size = bytes_of(&c->buffers[i]);
    w->args[i] = w->bytes[i] = aligned_alloc(64, ELEMENTS * 2 * 8);
    CHECK(w->bytes[i] != NULL);
    for (size_t at = 0; at < ELEMENTS * 2; at++) {
      uint64_t v = value_at(&c->buffers[i], at, &random);
      memcpy(w->bytes[i] + at * size, &v, size);
    }
  }
}

static void drop(const cell *c, world *w) {
  for (uint32_t i = 0; i < c->buffer_count; i++) free(w->bytes[i]);
}

/// How much a device may round an operation otherwise, in units of the type's last place.
static double slack_of(const cell *c) {
  bool is_close = ir_has(c->code, IR_INEXACT) || c->code == IR_SQRT || c->code == IR_DIV;
  return is_close && c->target->processor->family != KILN_FAMILY_HOST ? 4 : 0;
}

static bool same(const cell_buffer *b, uint64_t x, uint64_t y, double slack) {
  if (x == y) return true;
  bool real =
      !b->element.pointer && kiln_scalars[b->element.scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  if (!real) return false;
  double v = ir_bits_to_float(b->element.scalar, x), w = ir_bits_to_float(b->element.scalar, y);
  double unit = b->element.scalar == KILN_F64   ? 0x1p-52
                : b->element.scalar == KILN_F32 ? 0x1p-23
                : b->element.scalar == KILN_F16 ? 0x1p-10
                                                : 0x1p-7;
  return (isnan(v) && isnan(w)) || (slack && fabs(v - w) <= slack * unit * fabs(v));
}

/// "" or the first difference.
static void compare(const cell *c, const world *want, const world *got, char *out, size_t size) {
  for (uint32_t i = 0; i < c->buffer_count; i++)
    for (size_t at = 0, n = bytes_of(&c->buffers[i]); at < ELEMENTS * 2; at++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, want->bytes[i] + at * n, n);
      memcpy(&y, got->bytes[i] + at * n, n);
      if (same(&c->buffers[i], x, y, slack_of(c))) continue;
      snprintf(out, size, "buffer %u element %zu: expected %#llx, found %#llx", i, at, (unsigned long long)x,
               (unsigned long long)y);
      return;
    }
}

/// Runs the object, on `hip` where that is not NULL, and the interpreter on equal memory; "" when they agree.
static void run(const hip_table *hip, const cell *built, ir_opcode code, unsigned column,
                const kiln_target *target, const kiln_artifact *artifact, char *out, size_t size) {
  static const uint32_t grid[3] = {1, 1, 1};
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  cell reference;
  world want, got;
  op_matrix_build(arena, code, column, target, &reference);
  kiln_canonicalise(reference.kernel);
  fill(built, &want);
  fill(built, &got);
  if (kiln_lower(reference.kernel, target, &err) != KILN_OK ||
      kiln_interpret(reference.kernel, want.args, grid, NULL, &err) != KILN_OK)
    snprintf(out, size, "interpreter: %.300s", err.text);
  else if (hip) {
    if (!hip_run(hip, artifact, got.bytes, built->buffer_count, ELEMENTS * 2 * 8))
      snprintf(out, size, "the device failed");
    else compare(built, &want, &got, out, size);
  } else {
    int32_t failed = mapping_run(mapping_open(&artifact->code, artifact->info.symbol), got.args, grid,
                                 artifact->info.scratch_bytes);
    if (failed) snprintf(out, size, "assert %d failed", failed);
    else compare(built, &want, &got, out, size);
  }
  drop(built, &want);
  drop(built, &got);
  kiln_arena_destroy(arena);
}

// ------------------------------------------------------------------------------------------- cells

static char compiled(matrix *m, cell *c, ir_opcode code, unsigned column, char *out, size_t size) {
  const char *refusal = stated_refusal(code, c->target);
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  char mark = c->legal == KILN_LEGAL_EXPANDED ? 'E' : 'N';
  kiln_codegen_options_init(&options);
  kiln_canonicalise(c->kernel);
  kiln_status status = kiln_codegen(c->kernel, c->target, &options, &artifact, &err);
  if (refusal) {
    if (status == KILN_OK) snprintf(out, size, "compiles, and is stated as refused");
    else if (status != KILN_STATUS_UNSUPPORTED || !strstr(err.text, refusal))
      snprintf(out, size, "expected '%s', found: %.300s", refusal, err.text);
    add_reason(m, "-", code, refusal);
    mark = '-';
  } else if (status != KILN_OK) snprintf(out, size, "%.400s", err.text);
  else if (!artifact.code.size) snprintf(out, size, "the artifact is empty");
  else if (code == IR_ASM) {
  } // the interpreter has no assembler
  else if (c->target->processor->family == KILN_FAMILY_HOST) {
    run(NULL, c, code, column, c->target, &artifact, out, size);
    m->compared++;
  } else if (m->hip && code != IR_ASM && !strcmp(c->target->processor->name, m->device_machine)) {
    run(m->hip, c, code, column, c->target, &artifact, out, size);
    m->on_device++;
  }
  kiln_artifact_deinit(&artifact);
  return mark;
}

static void check_cell(matrix *m, ir_opcode code, unsigned column, unsigned machine,
                       const kiln_target *target) {
  kiln_arena *arena = kiln_arena_create();
  cell c;
  char text[KILN_ERROR_TEXT + 64] = "", mark = '-';
  op_matrix_build(arena, code, column, target, &c);
  if (c.disagreement[0]) snprintf(text, sizeof text, "%s", c.disagreement);
  else if (c.b.error.text[0]) snprintf(text, sizeof text, "around the operation: %.300s", c.b.error.text);
  else if (c.built) mark = compiled(m, &c, code, column, text, sizeof text);
  else if (!c.refused) snprintf(text, sizeof text, "no variant was made");
  else add_reason(m, "-", code, c.reason);
  if (mark == 'E') add_reason(m, "E", code, c.how);
  if (text[0]) {
    m->wrong++;
    mark = '!';
    fprintf(stderr, "%s on %s for %s: %s\n", ir_ops[code].text, op_matrix_column_name(column),
            machines[machine].name, text);
  }
  m->native += mark == 'N';
  m->expanded += mark == 'E';
  m->refused += mark == '-';
  m->marks[code][column][machine] = mark;
  kiln_arena_destroy(arena);
}

static bool is_asked(ir_opcode code) {
  const char *only = getenv("KILN_OPS");
  return !only || !strcmp(only, ir_ops[code].text);
}

static void check_machine(matrix *m, unsigned machine) {
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse(machines[machine].name, &target, &err), err);
  for (unsigned code = 0; code < IR_TILE_COUNT; code++)
    for (unsigned column = 0; column < COLUMNS; column++)
      if (op_matrix_exists((ir_opcode)code, column) && is_asked((ir_opcode)code))
        check_cell(m, (ir_opcode)code, column, machine, &target);
}

// ------------------------------------------------------------------------------------------- table

static void print_machine(FILE *out, const matrix *m, unsigned machine) {
  fprintf(out, "\n%-12s", machines[machine].name);
  for (unsigned column = 0; column < COLUMNS; column++) fprintf(out, " %4s", op_matrix_column_name(column));
  fprintf(out, "\n");
  for (unsigned code = 0; code < IR_TILE_COUNT; code++) {
    if (!is_asked((ir_opcode)code)) continue;
    fprintf(out, "%-12s", ir_ops[code].text);
    for (unsigned column = 0; column < COLUMNS; column++)
      fprintf(out, " %4c", m->marks[code][column][machine] ? m->marks[code][column][machine] : '.');
    fprintf(out, "\n");
  }
}

static int by_text(const void *a, const void *b) {
  return strcmp(((const reason_row *)a)->text, ((const reason_row *)b)->text);
}

static void print(FILE *out, matrix *m) {
  fprintf(out, "N native, E expanded by the middle, - refused, . no such combination\n");
  for (unsigned machine = 0; machine < MACHINES; machine++)
    if ((machines[machine].quick || kiln_test_full()) && kiln_test_wants_piece(machine))
      print_machine(out, m, machine);
  qsort(m->reasons, m->reason_count, sizeof *m->reasons, by_text);
  fprintf(out, "\nhow operations are expanded (E) and why they are refused (-)\n");
  for (uint32_t i = 0; i < m->reason_count; i++) fprintf(out, "%s\n", m->reasons[i].text);
  fprintf(out, "\n%u native, %u expanded, %u refused, %u run on the host against the interpreter\n",
          m->native, m->expanded, m->refused, m->compared);
}

static const char heading[] =
    "# Operations\n\n"
    "Every operation of `compiler/ir/ops.def` on every element type, for four kinds "
    "of machine. `tests/codegen/test_op_matrix.c` makes a kernel for each\n"
    "cell, compiles it, runs it on the host against the reference interpreter, and "
    "holds this page to what it found; `make check-full` does so for\n"
    "fourteen more processors. `make bless` writes the page anew.\n\n"
    "```\n";

static void check_page(matrix *m) {
  static const char path[] = "../../docs/ops.md";
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  CHECK(out != NULL);
  fputs(heading, out);
  print(out, m);
  fputs("```\n", out);
  CHECK_INT(fclose(out), 0);
  kiln_test_golden(path, text, size);
  free(text);
}

TEST(op_matrix, what_the_tables_promise_compiles_and_agrees) {
  static matrix m;
  if (!mapping_can_run("x86-64-v3")) SKIP("the host part needs an x86-64-v3 processor");
  m.device_machine = getenv("KILN_OPS_HIP");
  m.hip = m.device_machine ? hip_open() : NULL;
  if (m.device_machine && !m.hip) FAIL("KILN_OPS_HIP is set, but there is no HIP device");
  for (unsigned machine = 0; machine < MACHINES; machine++)
    if (m.hip ? !strcmp(machines[machine].name, m.device_machine)
              : (machines[machine].quick || kiln_test_full()) && kiln_test_wants_piece(machine))
      check_machine(&m, machine);
  print(stdout, &m);
  if (m.hip) printf("%u run on the device of %s against the interpreter\n", m.on_device, m.device_machine);
  if (m.wrong) FAIL("%u cells are wrong: the lines above the tables say why", m.wrong);
  if (!kiln_test_full() && !getenv("KILN_OPS") && !m.hip) check_page(&m);
}
