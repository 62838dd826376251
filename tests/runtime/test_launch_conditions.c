// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a launch tests of its arguments and its grid: drawn kernels with every kind of condition, launched
// with drawn arguments in every way, against a judge that shares nothing with libkiln. A launch runs the code
// that the conditions choose, all of its programs once, or is refused with the condition and its numbers and
// runs nothing.
#include <stdarg.h>

#include "tests/runtime/fixture.h"

enum { CONFIGS = 2, VARIANTS = 2, CODES = CONFIGS * VARIANTS };

/// struct { i32 *ran; view f32 v; i32 n; i64 x, y; i32 z }: ran[code]++ for each program, ran[CODES] is how
/// many programs the last grid has.
typedef struct arguments {
  int32_t *ran;
  uint64_t base;
  int64_t extents[2], strides[2];
  int32_t n, pad;
  int64_t x, y;
  int32_t z, pad2;
} arguments;

/// What is drawn of a kernel. 0: without that condition.
typedef struct drawn {
  uint32_t align, rows, div;
  int64_t lo, hi; // of n, where `has_range`
  bool has_range;
  uint32_t most_x;      // config 0 requires x <= most_x
  uint32_t variant_div; // variant 0 requires y % variant_div == 0
  bool has_code[CODES];
  uint32_t most[CODES][3];
} drawn;

static uint64_t state;
static uint32_t below(uint32_t n) { return (uint32_t)(kiln_test_random(&state) % n); }

static drawn draw_kernel(void) {
  drawn d = {.align = below(2) ? 16u << below(3) : 0,
             .rows = below(2) ? 16 : 0,
             .div = below(2) ? 1u << below(4) : 0,
             .has_range = below(2),
             .lo = -(int64_t)below(20),
             .hi = below(60),
             .most_x = below(12),
             .variant_div = 2 + below(5)};
  for (int c = 0; c < CODES; c++) {
    d.has_code[c] = below(4) || c == CODES - 1;
    for (int axis = 0; axis < 3; axis++) d.most[c][axis] = below(3) ? 0 : 3 + below(10);
  }
  return d;
}

// -------------------------------------------------------------------------------------------- bundle

static uint8_t *make_object(size_t *out_size) {
  char source[2000];
  int used =
      snprintf(source, sizeof source,
               "struct a { int *ran; void *base; long extents[2], strides[2]; int n; long x, y; int z; };\n");
  for (int c = 0; c < CODES; c++)
    used += snprintf(source + used, sizeof source - (size_t)used,
                     HOST_KERNEL("k%d") " {\n  const struct a *a = args; (void)scratch; (void)id;\n"
                                        "  __atomic_fetch_add(&a->ran[%d], 1, 5);\n"
                                        "  a->ran[%d] = grid[0] * grid[1] * grid[2];\n  return 0;\n}\n",
                     c, c, CODES);
  return fixture_object(source, out_size);
}

static void add_code(fixture *f, uint32_t kernel, const drawn *d, int c, bool is_host, const void *object,
                     size_t size) {
  kiln_buffer info = {0};
  char symbol[8];
  snprintf(symbol, sizeof symbol, "k%d", c);
  kiln_code_info i = {.format = is_host ? KILN_FORMAT_HOST : KILN_FORMAT_CUBIN,
                      .target = is_host ? "x86-64-v2" : "sm_90a",
                      .symbol = symbol,
                      .block_threads = is_host ? 1 : 128,
                      .wave = is_host ? 1 : 32,
                      .producer = "test"};
  bool has_limit = false;
  for (int axis = 0; axis < 3; axis++) has_limit |= (i.most_programs[axis] = d->most[c][axis]) != 0;
  kiln_code_info_encode(&i, &info);
  // A code without a limit has the first version of the record, as all bundles of before have.
  CHECK_INT(info.bytes[0], has_limit ? 69 : 65);
  kiln_manifest_code(&f->manifest, kernel, (uint32_t)(c / VARIANTS), (uint32_t)(c % VARIANTS), i.target,
                     info.bytes, info.size, object, size);
  kiln_buffer_deinit(&info);
}

static void write_bundle(const drawn *d, const uint8_t *object, size_t size) {
  kiln_param_record params[] = {
      pointer_param("ran", KILN_I32),
      {.name = "v", .scalar = KILN_F32, .view_rank = 2, .access = 1, .rows = d->rows},
      scalar_param("n", KILN_I32),
      scalar_param("x", KILN_I64),
      scalar_param("y", KILN_I64),
      scalar_param("z", KILN_I32)};
  params[0].align = d->align;
  params[2].div = d->div;
  params[2].has_range = d->has_range, params[2].lo = d->lo, params[2].hi = d->hi;
  const uint8_t require[] = {P(3), C(d->most_x), KILN_EXPR_LE},
                condition[] = {P(4), C(d->variant_div), KILN_EXPR_REM, C(0), KILN_EXPR_EQ};
  kiln_span required = {require, sizeof require}, conditions = {condition, sizeof condition};
  kiln_config_record configs[] = {{.text = "c0",
                                   .warps = 4,
                                   .grid = {SPAN(P(3)), SPAN(P(4)), SPAN(P(5))},
                                   .require = &required,
                                   .require_count = 1},
                                  {.text = "c1", .warps = 4, .grid = {SPAN(P(3)), SPAN(P(4)), SPAN(P(5))}}};
  kiln_variant_record variants[] = {{.text = "by y", .conditions = &conditions, .condition_count = 1},
                                    {.text = ""}};
  kiln_interface in = {.name = "k",
                       .params = params,
                       .param_count = 6,
                       .config_count = CONFIGS,
                       .variant_count = VARIANTS,
                       .configs = configs,
                       .variants = variants};
  fixture f;
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  for (int c = 0; c < CODES; c++) {
    if (!d->has_code[c]) continue;
    add_code(&f, kernel, d, c, true, object, size);
    add_code(&f, kernel, d, c, false, "code", 4);
  }
  fixture_write(&f, kiln_test_path("k.kbundle"), "");
}

// --------------------------------------------------------------------------------------------- judge

typedef struct verdict {
  kiln_status status;
  int code;         // which runs
  char says[2][80]; // what the text has
  bool is_empty;
} verdict;

__attribute__((format(printf, 3, 4))) static void refuse(verdict *v, kiln_status status, const char *format,
                                                         ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(v->says[0], sizeof v->says[0], format, list);
  va_end(list);
  v->status = status;
}

static bool are_promises_kept(const drawn *d, const arguments *a, verdict *v) {
  if (d->align && (uintptr_t)a->ran % d->align)
    return refuse(v, KILN_STATUS_LAUNCH, "ran is promised to be aligned to %u bytes, but is 0x%llx", d->align,
                  (unsigned long long)(uintptr_t)a->ran),
           false;
  if (d->rows && a->strides[0] % 4)
    return refuse(v, KILN_STATUS_LAUNCH,
                  "stride 0 of v is promised to be divisible by 4 (16 bytes), but is %lld",
                  (long long)a->strides[0]),
           false;
  if (d->rows && a->strides[1] != 1)
    return refuse(v, KILN_STATUS_LAUNCH, "stride 1 of v is promised to be 1, but is %lld",
                  (long long)a->strides[1]),
           false;
  if (d->has_range && (a->n < d->lo || a->n > d->hi))
    return refuse(v, KILN_STATUS_LAUNCH, "n is promised to be in %lld..%lld, but is %d", (long long)d->lo,
                  (long long)d->hi, a->n),
           false;
  if (d->div > 1 && a->n % (int32_t)d->div)
    return refuse(v, KILN_STATUS_LAUNCH, "n is promised to be divisible by %u, but is %d", d->div, a->n),
           false;
  return true;
}

/// `grid`: the caller's, or NULL.
static verdict judge(const drawn *d, const arguments *a, const uint32_t *grid) {
  verdict v = {.code = -1};
  int64_t extents[3] = {a->x, a->y, a->z};
  if (!are_promises_kept(d, a, &v)) return v;
  for (int c = 0; c < CODES && v.code < 0; c++)
    if (d->has_code[c] && (c / VARIANTS || a->x <= d->most_x) && (c % VARIANTS || a->y % d->variant_div == 0))
      v.code = c;
  if (v.code < 0) {
    refuse(&v, KILN_STATUS_NO_VARIANT, "no config allows these arguments");
    return v;
  }
  for (int axis = 0; axis < 3; axis++) {
    int64_t extent = grid ? grid[axis] : extents[axis], most = d->most[v.code][axis];
    v.is_empty |= !extent;
    if (extent >= 0 && (!most || extent <= most)) continue;
    refuse(&v, KILN_STATUS_LAUNCH, "grid %c is %lld, ", "xyz"[axis], (long long)extent);
    if (most)
      snprintf(v.says[1], sizeof v.says[1], "its code allows 0 to %lld, beyond which", (long long)most);
    return v;
  }
  return v;
}

// ------------------------------------------------------------------------------------------- launches

typedef struct opened {
  const drawn *drawn;
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
  const char *name;
} opened;

static int32_t memory[64];

static arguments draw_arguments(void) {
  arguments a = {.ran = memory + 4 * below(5),
                 .base = 4096,
                 .extents = {3, 5},
                 .strides = {(int64_t)below(16), 1 + !below(8)},
                 .n = (int32_t)below(90) - 25,
                 .x = (int64_t)below(16) - !below(6),
                 .y = (int64_t)below(14) - !below(8),
                 .z = (int32_t)below(12)};
  if (below(4)) a.n = (int32_t)below(3) * 8, a.strides[0] = 8, a.strides[1] = 1, a.ran = memory + 16;
  return a;
}

static const void *const *pointers_of(const arguments *a) {
  static const void *pointers[6];
  const void *here[] = {&a->ran, &a->base, &a->n, &a->x, &a->y, &a->z};
  memcpy(pointers, here, sizeof pointers);
  return pointers;
}

/// Of a launch prepared with others, by setting one argument after the other; what is refused in between is
/// not what is asked.
static kiln_status launch_prepared(const opened *o, const arguments *a, const uint32_t *grid,
                                   kiln_error *err) {
  kiln_prepared *p;
  KILN_TRY(kiln_prepare(o->kernel, pointers_of(a), 6, grid, &p, err));
  arguments other = draw_arguments();
  const void *const *now = pointers_of(&other);
  for (size_t i = 0; i < 6; i++) (void)!kiln_prepared_set(p, i, now[i], NULL);
  now = pointers_of(a);
  // Back again: an order that passes exists, since before any change all was right.
  for (int round = 0; round < 6; round++)
    for (size_t i = 0; i < 6; i++) (void)!kiln_prepared_set(p, i, now[i], NULL);
  size_t size;
  kiln_status status = KILN_OK;
  if (memcmp(kiln_prepared_block(p, &size), a, sizeof *a - sizeof a->pad2)) {
    kiln_prepared_free(p);
    KILN_TRY(kiln_prepare(o->kernel, now, 6, grid, &p, err));
  }
  status = kiln_prepared_launch(p, NULL, err);
  kiln_prepared_free(p);
  return status;
}

static void check_launch(const opened *o, uint64_t seed, unsigned *refused) {
  arguments a = draw_arguments();
  uint32_t own[3] = {below(12), below(12), below(12)}, *grid = below(3) ? NULL : own;
  verdict want = judge(o->drawn, &a, grid);
  kiln_error err = {0};
  memset(memory, 0, sizeof memory);
  unsigned way = below(grid ? 2 : 4);
  kiln_status status = way == 0   ? launch_prepared(o, &a, grid, &err)
                       : way == 1 ? kiln_launch_grid(o->kernel, NULL, grid, &a, sizeof a, &err)
                       : way == 2 ? kiln_launch_packed(o->kernel, NULL, &a, sizeof a, &err)
                                  : kiln_launch(o->kernel, NULL, pointers_of(&a), 6, &err);
  if (status != want.status || !strstr(err.text, want.says[0]) || !strstr(err.text, want.says[1]))
    FAIL("seed %llu on %s, way %u: status %d, '%s'; expected %d, '%s' '%s'", (unsigned long long)seed,
         o->name, way, (int)status, err.text, (int)want.status, want.says[0], want.says[1]);
  *refused += status != KILN_OK;
  uint64_t programs = 1;
  for (int axis = 0; axis < 3; axis++)
    programs *= grid ? grid[axis] : axis == 0 ? (uint64_t)a.x : axis == 1 ? (uint64_t)a.y : (uint64_t)a.z;
  bool runs = !status && !want.is_empty && !strcmp(o->name, "host");
  for (int c = 0; c < CODES; c++) {
    int32_t expected = runs && c == want.code ? (int32_t)programs : 0;
    if (a.ran[c] != expected)
      FAIL("seed %llu, way %u: code %d ran %d programs, expected %d", (unsigned long long)seed, way, c,
           a.ran[c], expected);
  }
  kiln_choice choice;
  if (grid) return;
  status = kiln_choose(o->kernel, &a, sizeof a, &choice, &err);
  CHECK_INT(status, want.status);
  if (status == KILN_OK) {
    CHECK_TEXT(choice.config, want.code / VARIANTS ? "c1" : "c0");
    CHECK_TEXT(choice.variant, want.code % VARIANTS ? "" : "by y");
  }
}

static void run_drawn(const char *name, unsigned kernels) {
  enum { LAUNCHES = 200 };
  const char *given = getenv("KILN_TEST_SEED");
  uint64_t first = given ? strtoull(given, NULL, 10) : 1;
  size_t size;
  uint8_t *object = make_object(&size);
  unsigned refused = 0;
  for (uint64_t seed = first; seed < first + kernels; seed++) {
    state = seed;
    drawn d = draw_kernel();
    opened o = {.drawn = &d, .name = name};
    kiln_error err;
    write_bundle(&d, object, size);
    fixture_open(kiln_test_path("k.kbundle"), name, &o.library, &o.device);
    CHECK_OK(kiln_kernel_get(o.device, "k", NULL, &o.kernel, &err), err);
    CHECK_INT(kiln_block_size(o.kernel), sizeof(arguments));
    for (int i = 0; i < LAUNCHES; i++) check_launch(&o, seed, &refused);
    kiln_device_close(o.device);
    kiln_close(o.library);
  }
  printf("%s: seeds %llu to %llu, %u of %u launches refused\n", name, (unsigned long long)first,
         (unsigned long long)(first + kernels - 1), refused, kernels * LAUNCHES);
  CHECK(refused > kernels * LAUNCHES / 10 && refused < kernels * LAUNCHES * 9 / 10);
  free(object);
}

TEST(launch_conditions, drawn_on_the_host) { run_drawn("host", 40); }
TEST(launch_conditions, drawn_on_null) { run_drawn("null:sm_90a", 40); }

// ------------------------------------------------------------------------------------ limits of programs

// The k of a limit on the null device, for one axis and the next.
static opened open_limited(uint32_t most, uint32_t blocks, const char *why_ptx, uint32_t cluster) {
  opened o = {.name = "null:sm_90a"};
  fixture f;
  kiln_buffer info = {0};
  kiln_error err;
  kiln_interface in = {
      .name = "k",
      .params = (kiln_param_record[]){scalar_param("x", KILN_I64), scalar_param("y", KILN_I64)},
      .param_count = 2,
      .config_count = 1,
      .variant_count = 1,
      .configs = (kiln_config_record[]){{.text = "", .warps = 4, .grid = {SPAN(P(0)), SPAN(P(1))}}},
      .variants = (kiln_variant_record[]){{.text = ""}}};
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  kiln_code_info_encode(&(kiln_code_info){.format = why_ptx ? KILN_FORMAT_PTX : KILN_FORMAT_CUBIN,
                                          .target = "sm_90a",
                                          .symbol = "k",
                                          .block_threads = 128,
                                          .wave = 32,
                                          .producer = "test",
                                          .why_ptx = why_ptx,
                                          .cluster = cluster,
                                          .blocks = blocks,
                                          .most_programs = {most}},
                        &info);
  // Bundles of before have one of the first four versions, which know of no limit.
  CHECK_INT(info.bytes[0], most ? 69 : cluster ? 68 : blocks ? 67 : why_ptx ? 66 : 65);
  kiln_manifest_code(&f.manifest, kernel, 0, 0, "sm_90a", info.bytes, info.size, "code", 4);
  kiln_buffer_deinit(&info);
  fixture_write(&f, kiln_test_path("l.kbundle"), "");
  fixture_open(kiln_test_path("l.kbundle"), o.name, &o.library, &o.device);
  CHECK_OK(kiln_kernel_get(o.device, "k", NULL, &o.kernel, &err), err);
  return o;
}

/// Launches with x programs in every way; all agree.
static kiln_status launch_x(const opened *o, int64_t x, kiln_error *err) {
  int64_t y = 1, one = 1, block[2] = {x, y};
  const void *args[] = {&x, &y}, *few[] = {&one, &y};
  kiln_prepared *p = NULL;
  kiln_status status = kiln_launch(o->kernel, NULL, args, 2, err);
  CHECK_INT(kiln_launch_packed(o->kernel, NULL, block, sizeof block, err), status);
  CHECK_OK(kiln_prepare(o->kernel, few, 2, NULL, &p, err), *err);
  CHECK_INT(kiln_prepared_set(p, 0, &x, err), status);
  kiln_prepared_free(p);
  if (x < 0 || x > UINT32_MAX) return status;
  CHECK_INT(kiln_launch_grid(o->kernel, NULL, (uint32_t[]){(uint32_t)x, 1, 1}, block, sizeof block, err),
            status);
  return kiln_launch(o->kernel, NULL, args, 2, err);
}

// At the limit a launch goes through, beyond it the text has both numbers; without one the device's counts.
TEST(launch_conditions, the_boundary_of_each_limit) {
  static const uint32_t limits[] = {1,          2, 1 << 16, 1 << 20, 1 << 30, INT32_MAX, UINT32_MAX - 1,
                                    UINT32_MAX, 0};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    opened o = open_limited(limits[i], 0, NULL, 0);
    kiln_error err;
    char text[100];
    int64_t most = limits[i] ? limits[i] : UINT32_MAX;
    CHECK_OK(launch_x(&o, most, &err), err);
    CHECK_OK(launch_x(&o, 0, &err), err);
    const int64_t beyond[] = {most + 1, most * 2 + 5, INT64_MAX, -1, INT64_MIN};
    for (size_t j = 0; j < sizeof beyond / sizeof *beyond; j++) {
      CHECK_INT(launch_x(&o, beyond[j], &err), KILN_STATUS_LAUNCH);
      snprintf(text, sizeof text, "grid x is %lld, %s allows 0 to %lld", (long long)beyond[j],
               most < UINT32_MAX ? "its code" : o.name, (long long)most);
      if (!strstr(err.text, text)) FAIL("%s: %s", text, err.text);
    }
    kiln_device_close(o.device);
    kiln_close(o.library);
  }
}

// Codes of bundles of before have no limit but the device's; those that compute several programs a block
// count all of them.
TEST(launch_conditions, older_code_infos_have_no_limit) {
  static const struct {
    uint32_t blocks, cluster;
    const char *why_ptx;
  } rows[] = {{0, 0, NULL}, {0, 0, "no ptxas"}, {2, 0, NULL}, {1, 2, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    opened o = open_limited(0, rows[i].blocks, rows[i].why_ptx, rows[i].cluster);
    kiln_error err;
    int64_t x = 1 << 20, y = 1 << 11, less = y - 1;
    CHECK_OK(launch_x(&o, INT32_MAX, &err), err);
    CHECK_OK(kiln_launch(o.kernel, NULL, (const void *const[]){&x, &less}, 2, &err), err);
    kiln_status status = kiln_launch(o.kernel, NULL, (const void *const[]){&x, &y}, 2, &err);
    CHECK_INT(status, rows[i].blocks ? KILN_STATUS_LAUNCH : KILN_OK);
    if (status && !strstr(err.text, "a grid of 1048576 x 2048 x 1 programs; at most 2147483647 are allowed"))
      FAIL("%s", err.text);
    kiln_device_close(o.device);
    kiln_close(o.library);
  }
}

// --------------------------------------------------------------------------- conditions of tensor maps

// The base of the map is 0, divided by n <= 1000 and v.extent0 * v.stride0 < 4096.
TEST(launch_conditions, of_tensor_maps) {
  static const uint8_t map[] = {1,
                                KILN_F32,
                                2,
                                0,
                                0,
                                0,
                                1,
                                32,
                                0,
                                0,
                                0,
                                4,
                                0,
                                0,
                                0,
                                2,
                                P(2),
                                2,
                                P(3),
                                2,
                                P(4),
                                19,
                                C(0),
                                P(0),
                                C2(1000),
                                KILN_EXPR_LE,
                                P(2),
                                P(4),
                                KILN_EXPR_MUL,
                                C2(4096),
                                KILN_EXPR_LT,
                                KILN_EXPR_AND,
                                KILN_EXPR_DIV};
  opened o = {.name = "null:sm_90a"};
  fixture f;
  kiln_buffer info = {0};
  kiln_error err;
  kiln_interface in = {
      .name = "k",
      .params = (kiln_param_record[]){scalar_param("n", KILN_I32),
                                      {.name = "v", .scalar = KILN_F32, .view_rank = 2, .access = 1}},
      .param_count = 2,
      .config_count = 1,
      .variant_count = 1,
      .configs = (kiln_config_record[]){{.text = "", .warps = 4, .grid = {SPAN(C(1))}}},
      .variants = (kiln_variant_record[]){{.text = ""}}};
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  kiln_code_info_encode(&(kiln_code_info){.format = KILN_FORMAT_CUBIN,
                                          .target = "sm_90a",
                                          .symbol = "k",
                                          .block_threads = 128,
                                          .wave = 32,
                                          .producer = "test",
                                          .maps = {map, sizeof map}},
                        &info);
  kiln_manifest_code(&f.manifest, kernel, 0, 0, "sm_90a", info.bytes, info.size, "code", 4);
  kiln_buffer_deinit(&info);
  fixture_write(&f, kiln_test_path("m.kbundle"), "");
  fixture_open(kiln_test_path("m.kbundle"), o.name, &o.library, &o.device);
  CHECK_OK(kiln_kernel_get(o.device, "k", NULL, &o.kernel, &err), err);
  int right = 5, refused = 0;
  struct {
    uint64_t base;
    int64_t extents[2], strides[2];
  } v = {4096, {4, 8}, {8, 1}}, good = v;
  kiln_prepared *p;
  CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&right, &good}, 2, NULL, &p, &err), err);
  state = 1;
  for (int i = 0; i < 1000; i++) {
    int n = 990 + (int)below(20);
    v.extents[0] = 1 + below(120), v.strides[0] = 4 * (1 + below(20));
    bool holds = n <= 1000 && v.extents[0] * v.strides[0] < 4096;
    char text[120];
    snprintf(text, sizeof text, "(n = %d, v.extent0 = %lld, v.stride0 = %lld) its offsets of 32 bits wrap", n,
             (long long)v.extents[0], (long long)v.strides[0]);
    for (int again = 0; again < 2; again++) { // what was refused is not remembered as right
      kiln_status status = kiln_launch(o.kernel, NULL, (const void *const[]){&n, &v}, 2, &err);
      if (status != (holds ? KILN_OK : KILN_STATUS_LAUNCH) || (status && !strstr(err.text, text)))
        FAIL("%s: status %d, %s", text, (int)status, err.text);
      refused += status != KILN_OK;
    }
    // Of a prepared launch either argument may break it.
    bool n_holds = n <= 1000, v_holds = v.extents[0] * v.strides[0] < 4096;
    CHECK_INT(kiln_prepared_set(p, 0, &n, &err), n_holds ? KILN_OK : KILN_STATUS_LAUNCH);
    CHECK_INT(kiln_prepared_set(p, 1, &v, &err), v_holds ? KILN_OK : KILN_STATUS_LAUNCH);
    CHECK_OK(kiln_prepared_set(p, 0, &right, &err), err);
    CHECK_OK(kiln_prepared_set(p, 1, &good, &err), err);
    CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  }
  CHECK(refused > 300 && refused < 1700);
  kiln_prepared_free(p);
  kiln_device_close(o.device);
  kiln_close(o.library);
}
