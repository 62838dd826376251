// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the kernel library in the GPU form on its simulator (machine_sim.h): every kernel, config and
// variant that takes the form, with drawn shapes and schedules; one instance per kernel unless all are
// requested.
#include <dirent.h>

#include "base/expr.h"
#include "tests/compiler/machine_case.inc"

enum { ELEMENTS = 1 << 18, MOST_DRAWS = 100 };

static int64_t rounded(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

enum { HEADS = 2, ROW = 256, WINDOW = 40, SEQUENCES = 2, EXPERTS = 2 };

/// The value of a scalar parameter for one drawn shape. A kernel that takes the form and has a parameter of
/// another name needs a row.
static int64_t value_of(const char *name, const int64_t shape[3]) {
  const int64_t m = shape[0], n = shape[1], k = shape[2], has_window = m % 2;
  const struct {
    const char *name;
    int64_t value;
  } known[] = {
      {"M", m},
      {"N", n},
      {"K", k},
      {"lda", rounded(k > m ? k : m, 16)},
      {"ldb", rounded(k > n ? k : n, 16)},
      {"ldc", rounded(n, 8)},
      {"ldd", rounded(n, 8)},
      {"stride_a", rounded(m * k, 8)},
      {"stride_b", rounded(n * k, 8)},
      {"stride_c", rounded(m * n, 8)},
      {"batch", 2},
      {"parts", 3},
      {"heads", HEADS},
      {"S", m},
      {"kv_heads", 1},
      {"rows", m},
      {"keys", n},
      {"q_head", ROW},
      {"q_row", HEADS * ROW},
      {"q_batch", m * HEADS * ROW},
      {"o_head", ROW},
      {"o_row", HEADS * ROW},
      {"o_batch", m * HEADS * ROW},
      {"g_head", m * ROW},
      {"g_row", ROW},
      {"g_batch", m * HEADS * ROW},
      {"k_head", ROW},
      {"k_row", ROW},
      {"k_batch", n * ROW},
      {"v_head", ROW},
      {"v_row", ROW},
      {"v_batch", n * ROW},
      {"left", has_window ? WINDOW : -1},
      {"right", m % 3 ? 0 : -1},
      {"sequences", SEQUENCES},
      {"longest", m},
      {"experts", EXPERTS},
      {"a_rows", m},
      {"a_columns", k},
      {"b_rows", n},
      {"b_columns", k},
      {"span", 256},
      {"count", 3},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) return known[i].value;
  FAIL("no value is known for a parameter called '%s'", name);
  return 0;
}

static bool holds(kiln_span x, const int64_t *values) {
  int64_t value;
  return kiln_expr_eval(x.bytes, x.size, values, &value) && value;
}

/// Draws a call that config and variant are for; false: none was found.
static bool draw_call(const kiln_interface *f, sim_case *c, uint64_t *random) {
  const kiln_config_record *config = &f->configs[c->config];
  const kiln_variant_record *variant = &f->variants[c->variant];
  CHECK(f->param_count <= MOST_ARGUMENTS);
  for (unsigned draws = 0; draws < MOST_DRAWS; draws++) {
    const int64_t most[3] = {150, kiln_test_full() ? 300 : 150, 300};
    int64_t shape[3], values[MOST_ARGUMENTS] = {0};
    bool fits = true;
    for (unsigned i = 0; i < 3; i++)
      shape[i] = 1 + (int64_t)((kiln_test_random(random) >> 20) % (uint64_t)most[i]);
    if (draws % 2) shape[1] = rounded(shape[1], 8), shape[2] = rounded(shape[2], 16);
    for (uint32_t i = 0; i < f->param_count; i++) {
      bool pointer = f->params[i].pointer, real = f->params[i].scalar == KILN_F32;
      c->arguments[i] = pointer ? ELEMENTS : 0.125;
      if (pointer || real) continue;
      c->step = shape[0] / EXPERTS;
      values[i] = value_of(f->params[i].name, shape);
      c->arguments[i] = (double)values[i];
    }
    for (uint32_t i = 0; i < config->require_count; i++) fits &= holds(config->require[i], values);
    for (uint32_t i = 0; i < variant->condition_count; i++) fits &= holds(variant->conditions[i], values);
    for (unsigned i = 0; i < 3; i++) {
      int64_t extent = 1;
      if (config->grid[i].size)
        CHECK(kiln_expr_eval(config->grid[i].bytes, config->grid[i].size, values, &extent));
      c->grid[i] = (uint32_t)extent;
    }
    if (fits) return true;
  }
  return false;
}

/// False: the config and variant do not take the form.
static bool check_one(const kiln_interface *f, sim_case *c, uint64_t random) {
  char name[NAME];
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = form(arena, c);
  if (kernel) {
    if (!draw_call(f, c, &random)) FAIL("%s %s: no call was drawn", f->name, f->configs[c->config].text);
    snprintf(name, sizeof name, "%s %s %s, grid %u x %u x %u", f->name, f->configs[c->config].text,
             f->variants[c->variant].text, c->grid[0], c->grid[1], c->grid[2]);
    c->name = name;
    check_form(c, arena, kernel, random);
  }
  kiln_arena_destroy(arena);
  return kernel != NULL;
}

/// Returns how many configs and variants took the form. `number` counts all of them.
static unsigned check_instance(const char *text, kiln_unit *unit, size_t instance, uint64_t *number) {
  const kiln_interface *f = kiln_unit_interface(unit, instance);
  kiln_target target = target_of(&(sim_case){NULL});
  unsigned taken = 0;
  for (uint32_t config = 0; config < f->config_count; config++) {
    if (!kiln_unit_has_config(unit, instance, config, &target)) continue;
    for (uint32_t variant = 0; variant < f->variant_count; variant++, ++*number) {
      if (!kiln_unit_has_variant(unit, instance, config, variant)) continue; // no call comes to it
      sim_case c = {.text = text,
                    .unit = unit,
                    .instance = instance,
                    .config = config,
                    .variant = variant,
                    .schedules = kiln_test_full() ? 10 : 1,
                    .sparse = 4};
      if (kiln_test_wants_piece(*number)) taken += check_one(f, &c, 20 + *number);
    }
  }
  return taken;
}

/// Which configs are for large products is a matter of speed: here they take all.
static char *without_limits(const char *path) {
  static const char limit[] = "const ENOUGH = ";
  char *text = kiln_test_read(path, NULL), *at = text ? strstr(text, limit) : NULL;
  if (!text) FAIL("%s cannot be read", path);
  for (at = at ? at + strlen(limit) : NULL; at && *at >= '0' && *at <= '9'; at++) *at = '0';
  return text;
}

static unsigned check_file(const char *path, uint64_t *number) {
  char *text = without_limits(path);
  kiln_diagnostics d;
  kiln_arena *arena = kiln_arena_create();
  kiln_unit *unit = open_unit(arena, text, &d);
  unsigned taken = 0;
  const char *last = ""; // the kernel whose first instance in the form was checked
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++) {
    const char *name = kiln_unit_interface(unit, i)->name;
    size_t length = strcspn(name, "[");
    if (!kiln_test_full() && strlen(last) > length && !strncmp(last, name, length + 1)) continue;
    unsigned more = check_instance(text, unit, i, number);
    if (more) last = name;
    taken += more;
  }
  kiln_arena_destroy(arena);
  free(text);
  return taken;
}

static int is_source(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && !strcmp(dot, ".kiln");
}

TEST(gpu_library, every_kernel) {
  char path[512];
  unsigned taken = 0;
  uint64_t number = 0;
  struct dirent **entries;
  int count = scandir("kernels", &entries, is_source, alphasort);
  CHECK(count > 0);
  for (int i = 0; i < count; free(entries[i++])) {
    snprintf(path, sizeof path, "kernels/%s", entries[i]->d_name);
    taken += check_file(path, &number);
  }
  free(entries);
  printf("%u configs and variants of the library took the GPU form\n", taken);
  const bool is_piece = getenv("KILN_TEST_PART") != NULL;
  CHECK(taken >= (is_piece ? 1 : kiln_test_full() ? 60 : 15));
}
