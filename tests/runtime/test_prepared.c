// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests prepared launches: on every device the same result as a launch; what is decided again when an
// argument changes; what is refused; tensor maps, which the null device writes out in plain. (issue:
// "Prepared launches hold encoded tensor maps")
#include "runtime/device/device.h"
#include "runtime/launch.h"
#include "runtime/tensor_map.h"
#include "tests/runtime/fixture.h"

typedef struct opened {
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
} opened;

static void close_all(opened *o) {
  kiln_device_close(o->device);
  kiln_close(o->library);
}

static opened open_add_one(const char *device) {
  opened o;
  kiln_error err;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), device, &o.library, &o.device);
  CHECK_OK(kiln_kernel_get(o.device, "add_one", NULL, &o.kernel, &err), err);
  return o;
}

TEST(prepared, runs_what_was_prepared_and_what_was_set) {
  opened o = open_add_one("host");
  kiln_prepared *p;
  kiln_error err;
  float x[300], y[300] = {0}, z[300] = {0};
  void *px = x, *py = y, *pz = z;
  int n = 100, all = 300;
  for (int i = 0; i < 300; i++) x[i] = (float)i;
  CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&px, &py, &n}, 3, NULL, &p, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  for (int i = 0; i < 300; i++) CHECK(y[i] == (i < 100 ? x[i] + 1 : 0));
  CHECK_OK(kiln_prepared_set(p, 1, &pz, &err), err);  // nothing depends on it
  CHECK_OK(kiln_prepared_set(p, 2, &all, &err), err); // the grid does
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  for (int i = 0; i < 300; i++) CHECK(z[i] == x[i] + 1);
  n = 0;
  CHECK_OK(kiln_prepared_set(p, 2, &n, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err); // an empty grid launches nothing
  kiln_prepared_free(p);
  kiln_prepared_free(NULL);
  close_all(&o);
}

TEST(prepared, takes_the_callers_grid) {
  opened o = open_add_one("host:2");
  kiln_prepared *p;
  kiln_error err;
  float x[300] = {0}, y[300] = {0};
  void *px = x, *py = y;
  int n = 300;
  CHECK_OK(
      kiln_prepare(o.kernel, (const void *const[]){&px, &py, &n}, 3, (const uint32_t[3]){2, 1, 1}, &p, &err),
      err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  for (int i = 0; i < 300; i++) CHECK(y[i] == (i < 128 ? 1 : 0));
  kiln_prepared_free(p);
  CHECK_INT(kiln_prepare(o.kernel, (const void *const[]){&px, &py}, 2, NULL, &p, &err),
            KILN_STATUS_INVALID_ARGUMENT);
  CHECK(p == NULL);
  close_all(&o);
}

// A library with the kernel "k" for sm_90a, one code a variant.
static opened open_interface(kiln_interface *in, const char *device, kiln_span maps) {
  fixture f;
  opened o;
  kiln_error err;
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, in);
  for (uint32_t v = 0; v < in->variant_count; v++) {
    kiln_buffer info = {0};
    kiln_code_info_encode(&(kiln_code_info){.format = KILN_FORMAT_CUBIN,
                                            .target = "sm_90a",
                                            .symbol = "k",
                                            .block_threads = 128,
                                            .wave = 32,
                                            .producer = "test"},
                          &info);
    if (maps.size)
      kiln_manifest_mapped(&f.manifest, kernel, 0, v, "sm_90a", info.bytes, info.size,
                           v ? "generic" : "by 16!!", 7, maps.bytes, maps.size);
    else
      kiln_manifest_code(&f.manifest, kernel, 0, v, "sm_90a", info.bytes, info.size,
                         v ? "generic" : "by 16!!", 7);
    kiln_buffer_deinit(&info);
  }
  fixture_write(&f, kiln_test_path("k.kbundle"), "");
  fixture_open(kiln_test_path("k.kbundle"), device, &o.library, &o.device);
  kiln_status status = kiln_kernel_get(o.device, "k", NULL, &o.kernel, &err);
  if (status != KILN_OK) o.kernel = NULL;
  return o;
}

// p: *f32 @align(16), n: i32 @div(4), free: i64; two variants by n % 16. `maps` may be empty.
static opened open_kernel(const char *device, kiln_span maps) {
  static const uint8_t by_16[] = {P(1), C(16), KILN_EXPR_REM, C(0), KILN_EXPR_EQ};
  kiln_param_record params[] = {pointer_param("p", KILN_F32), scalar_param("n", KILN_I32),
                                scalar_param("free", KILN_I64)};
  params[0].align = 16;
  params[1].div = 4;
  kiln_interface in = {
      .name = "k",
      .params = params,
      .param_count = 3,
      .config_count = 1,
      .variant_count = 2,
      .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(P(1), C(16), KILN_EXPR_CDIV)}}},
      .variants = (kiln_variant_record[]){
          {.text = "n % 16 == 0", .conditions = (kiln_span[]){{by_16, sizeof by_16}}, .condition_count = 1},
          {.text = ""}}};
  return open_interface(&in, device, maps);
}

TEST(prepared, a_refused_change_changes_nothing) {
  opened o = open_kernel("null:sm_90a", (kiln_span){0});
  kiln_prepared *p;
  kiln_error err;
  size_t size;
  uint8_t before[64];
  uint64_t address = 0x1000, crooked = 0x1008, free_value = 5;
  int n = 32, odd = 33, negative = -16;
  CHECK(o.kernel != NULL);
  CHECK_INT(kiln_prepare(o.kernel, (const void *const[]){&crooked, &n, &free_value}, 3, NULL, &p, &err),
            KILN_STATUS_LAUNCH);
  CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&address, &n, &free_value}, 3, NULL, &p, &err), err);
  const uint8_t *block = kiln_prepared_block(p, &size);
  CHECK_INT(size, 24);
  memcpy(before, block, size);
  CHECK_INT(kiln_prepared_set(p, 0, &crooked, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "p is promised to be aligned to 16"));
  CHECK_INT(kiln_prepared_set(p, 1, &odd, &err), KILN_STATUS_LAUNCH);
  CHECK_INT(kiln_prepared_set(p, 3, &n, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK(!memcmp(before, block, size));
  CHECK_INT(kiln_prepared_set(p, 1, &negative, &err), KILN_STATUS_LAUNCH); // a grid of -1
  CHECK(!memcmp(before, block, size));
  kiln_prepared_free(p);
  close_all(&o);
}

// base x + 4 * n, rank 2: extents {n, 7}, stride {4 * n}; 128-byte swizzle, NaN outside, box {32, 4}.
#define MAP(param)                                                                                           \
  KILN_F32, 2, 3, 0, 1, (param), 32, 0, 0, 0, 4, 0, 0, 0, 2, P(1), 2, C(7), 5, P(1), C(4), KILN_EXPR_MUL, 5, \
      P(1), C(4), KILN_EXPR_MUL

typedef struct plain_map {
  uint8_t element, rank, swizzle, interleave, fill, zeros[3];
  uint64_t address, extents[5], strides[4];
  uint32_t box[5];
} plain_map;

TEST(prepared, holds_encoded_tensor_maps) {
  opened o = open_kernel("null:sm_90a", SPAN(2, MAP(0), MAP(0)));
  kiln_prepared *p;
  kiln_error err;
  size_t size;
  plain_map map;
  uint64_t address = 0x10000, other = 0x20000, free_value = 5;
  int n = 64, zero = 0, more = 100;
  CHECK(o.kernel != NULL);
  CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&address, &n, &free_value}, 3, NULL, &p, &err), err);
  const uint8_t *block = kiln_prepared_block(p, &size);
  CHECK_INT(size, 64 + 2 * KILN_MAP_BYTES);
  CHECK_INT((uintptr_t)block % 64, 0);
  for (int i = 0; i < 2; i++) {
    memcpy(&map, block + 64 + i * KILN_MAP_BYTES, sizeof map);
    CHECK(map.element == KILN_F32 && map.rank == 2 && map.swizzle == 3 && map.interleave == 0 &&
          map.fill == 1);
    CHECK_INT(map.address, 0x10000 + 256);
    CHECK(map.extents[0] == 64 && map.extents[1] == 7 && map.extents[2] == 0 && map.strides[0] == 256);
    CHECK(map.box[0] == 32 && map.box[1] == 4);
  }
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_OK(kiln_prepared_set(p, 0, &other, &err), err);
  CHECK_OK(kiln_prepared_set(p, 1, &more, &err), err);
  memcpy(&map, block + 64, sizeof map);
  CHECK(map.address == 0x20000 + 400 && map.extents[0] == 100 && map.strides[0] == 400);
  CHECK_OK(kiln_prepared_set(p, 1, &zero, &err),
           err); // a tensor without elements, and no program that reads it
  memcpy(&map, block + 64, sizeof map);
  CHECK(map.extents[0] && map.extents[0] * sizeof(float) % 16 == 0 && map.strides[0] % 16 == 0);
  CHECK_OK(kiln_prepared_set(p, 1, &more, &err), err);
  memcpy(&map, block + 64, sizeof map);
  CHECK(map.address == 0x20000 + 400 && map.extents[0] == 100);
  CHECK_OK(kiln_launch(o.kernel, NULL, (const void *const[]){&address, &n, &free_value}, 3, &err),
           err); // encodes by itself
  kiln_prepared_free(p);
  close_all(&o);
}

// A device that counts encodings and keeps what the last launch was given.
static struct {
  kiln_device_kind kind;
  const kiln_device_kind *behind;
  unsigned encoded;
  bool fails;
  const opened *again; // launched once more from within the next launch
  size_t size;
  _Alignas(64) uint8_t block[KILN_MOST_BLOCK];
} watched;

static kiln_status watch_encode(kiln_device *d, const kiln_tensor_map_values *v, void *out, kiln_error *err) {
  if (watched.fails) return kiln_fail(err, KILN_STATUS_DRIVER, "no map is encoded now");
  watched.encoded++;
  return watched.behind->encode_map(d, v, out, err);
}

static unsigned encodings(const opened *o, uint64_t address, int n);

static kiln_status watch_launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  const opened *again = watched.again;
  watched.again = NULL;
  if (again) CHECK_INT(encodings(again, 0x30000, 64), 2); // the one outside holds what it passes
  watched.size = call->size;
  memcpy(watched.block, call->block, call->size);
  return watched.behind->launch(d, call, err);
}

static void watch(kiln_device *d) {
  watched.behind = d->kind;
  watched.kind = *d->kind;
  watched.kind.encode_map = watch_encode;
  watched.kind.launch = watch_launch;
  watched.encoded = 0;
  d->kind = &watched.kind;
}

/// Launches; encodings it took. What the device was given must be these arguments and their maps.
static unsigned encodings(const opened *o, uint64_t address, int n) {
  kiln_error err;
  plain_map map;
  uint64_t free_value = 5;
  unsigned before = watched.encoded;
  CHECK_OK(kiln_launch(o->kernel, NULL, (const void *const[]){&address, &n, &free_value}, 3, &err), err);
  CHECK_INT(watched.size, 64 + 2 * KILN_MAP_BYTES);
  CHECK(!memcmp(watched.block, &address, 8) && !memcmp(watched.block + 8, &n, 4));
  for (int i = 0; i < 2; i++) {
    memcpy(&map, watched.block + 64 + i * KILN_MAP_BYTES, sizeof map);
    CHECK(map.address == address + 4 * (uint64_t)n && map.extents[0] == (uint64_t)n);
  }
  return watched.encoded - before;
}

TEST(prepared, the_same_arguments_again_encode_no_map) {
  for (int round = 0; round < 2; round++) { // a library opened anew shares nothing with the one before
    opened o = open_kernel("null:sm_90a", SPAN(2, MAP(0), MAP(0)));
    CHECK(o.kernel != NULL);
    watch(o.device);
    CHECK_INT(encodings(&o, 0x10000, 64), 2);
    CHECK_INT(encodings(&o, 0x10000, 64), 0);
    CHECK_INT(encodings(&o, 0x20000, 64), 2);
    CHECK_INT(encodings(&o, 0x20000, 100), 2); // the other variant, another code
    CHECK_INT(encodings(&o, 0x20000, 64), 0);
    CHECK_INT(encodings(&o, 0x20000, 100), 0);
    watched.again = &o;
    CHECK_INT(encodings(&o, 0x20000, 64), 2); // those of the launch inside
    CHECK_INT(encodings(&o, 0x20000, 64), 0);
    o.device->kind = watched.behind;
    close_all(&o);
  }
}

// p, q: *f32, n, m: i32, free: i64. Three maps: of p by n, of q by m, of q by n; a code by n % 16, another.
static opened open_three(void) {
  static const uint8_t by_16[] = {P(2), C(16), KILN_EXPR_REM, C(0), KILN_EXPR_EQ};
#define BY(base, columns)                                                                             \
  KILN_F32, 2, 3, 0, 1, (base), 32, 0, 0, 0, 4, 0, 0, 0, 2, P(columns), 2, C(7), 5, P(columns), C(4), \
      KILN_EXPR_MUL, 2, C(32)
  kiln_param_record params[] = {pointer_param("p", KILN_F32), pointer_param("q", KILN_F32),
                                scalar_param("n", KILN_I32), scalar_param("m", KILN_I32),
                                scalar_param("free", KILN_I64)};
  kiln_interface in = {
      .name = "k",
      .params = params,
      .param_count = 5,
      .config_count = 1,
      .variant_count = 2,
      .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
      .variants = (kiln_variant_record[]){
          {.text = "n % 16 == 0", .conditions = (kiln_span[]){{by_16, sizeof by_16}}, .condition_count = 1},
          {.text = ""}}};
  return open_interface(&in, "null:sm_90a", SPAN(3, BY(0, 2), BY(1, 3), BY(1, 2)));
#undef BY
}

typedef struct three {
  uint64_t p, q;
  int n, m;
  int64_t free;
} three;

static bool is_map_of(const uint8_t *bytes, uint64_t base, int columns) {
  plain_map map;
  memcpy(&map, bytes, sizeof map);
  return map.address == base + 32 && map.extents[0] == (uint64_t)columns && map.extents[1] == 7 &&
         map.strides[0] == 4 * (uint64_t)columns;
}

static bool are_maps_of(const uint8_t *block, const three *x) {
  const uint8_t *maps = block + 64;
  return is_map_of(maps, x->p, x->n) && is_map_of(maps + KILN_MAP_BYTES, x->q, x->m) &&
         is_map_of(maps + 2 * KILN_MAP_BYTES, x->q, x->n);
}

/// Maps that are not the same for both.
static unsigned maps_between(const three *a, const three *b) {
  bool p = a->p != b->p, q = a->q != b->q, n = a->n != b->n, m = a->m != b->m;
  return (p || n) + (q || m) + (q || n);
}

static unsigned any(unsigned below) {
  static uint64_t state = 11;
  return (unsigned)(kiln_test_random(&state) % below);
}

static three changed(three x) {
  switch (any(6)) {
  case 0: x.p = 0x10000 + 0x100 * any(4); break;
  case 1: x.q = 0x10000 + 0x100 * any(4); break;
  case 2: x.n = 16 + 8 * (int)any(3); break;
  case 3: x.m = 16 + 8 * (int)any(3); break;
  case 4: x.free++; break;
  default: break;
  }
  return any(2) ? x : changed(x);
}

TEST(prepared, only_maps_that_changed_are_encoded) {
  enum { ROUNDS = 3000, NONE = 3 };
  opened o = open_three();
  kiln_error err;
  three x = {0x10000, 0x20000, 16, 16, 0}, last[2] = {{0}};
  bool is_known[2] = {false};
  CHECK(o.kernel != NULL);
  watch(o.device);
  for (int round = 0; round < ROUNDS; round++) {
    unsigned before = watched.encoded, code = x.n % 16 != 0;
    const void *const args[] = {&x.p, &x.q, &x.n, &x.m, &x.free};
    CHECK_OK(kiln_launch(o.kernel, NULL, args, 5, &err), err);
    CHECK_INT(watched.size, 64 + 3 * KILN_MAP_BYTES);
    CHECK(are_maps_of(watched.block, &x));
    CHECK_INT(watched.encoded - before, is_known[code] ? maps_between(&last[code], &x) : NONE);
    last[code] = x;
    is_known[code] = true;
    x = changed(x);
  }
  o.device->kind = watched.behind;
  close_all(&o);
}

TEST(prepared, what_is_set_encodes_only_maps_that_changed) {
  enum { ROUNDS = 3000, PARAMS = 5 };
  opened o = open_three();
  kiln_prepared *p;
  kiln_error err;
  size_t size;
  three x = {0x10000, 0x20000, 16, 16, 0};
  const void *args[PARAMS] = {&x.p, &x.q, &x.n, &x.m, &x.free};
  CHECK(o.kernel != NULL);
  watch(o.device);
  CHECK_OK(kiln_prepare(o.kernel, args, PARAMS, NULL, &p, &err), err);
  CHECK_INT(watched.encoded, 3);
  const uint8_t *block = kiln_prepared_block(p, &size);
  bool has_failed = false;
  for (int round = 0; round < ROUNDS; round++) {
    three next = changed(x);
    const void *const values[PARAMS] = {&next.p, &next.q, &next.n, &next.m, &next.free};
    for (unsigned i = 0; i < PARAMS; i++) { // one after another, each with what is set already
      three was = x;
      unsigned before = watched.encoded;
      memcpy((void *)args[i], values[i], i == 2 || i == 3 ? 4 : 8);
      watched.fails = any(8) == 0;
      kiln_status status = kiln_prepared_set(p, i, values[i], &err);
      bool is_same = (was.n % 16 != 0) == (x.n % 16 != 0);
      unsigned wanted = is_same && !has_failed ? maps_between(&was, &x) : 3;
      has_failed = status != KILN_OK; // the next encodes all
      if (!has_failed) CHECK_INT(watched.encoded - before, wanted);
      else CHECK(wanted && watched.fails);
      if (has_failed) x = was;
      watched.fails = false;
      CHECK(are_maps_of(block, &x));
    }
  }
  kiln_prepared_free(p);
  o.device->kind = watched.behind;
  close_all(&o);
}

// scale: f32, v: view f32 of rank 2, first: i32 are words 0, 1 to 5 and 6.
static opened open_view_kernel(kiln_span maps) {
  kiln_param_record params[] = {scalar_param("scale", KILN_F32), pointer_param("v", KILN_F32),
                                scalar_param("first", KILN_I32)};
  params[1].view_rank = 2;
  params[1].pointer = 0;
  kiln_interface in = {.name = "k",
                       .params = params,
                       .param_count = 3,
                       .config_count = 1,
                       .variant_count = 1,
                       .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
                       .variants = (kiln_variant_record[]){{.text = ""}}};
  return open_interface(&in, "null:sm_90a", maps);
}

// Extents and strides of a view are words after its base: a map of the view, from column `first` on.
#define VIEW_MAP(base, row_stride)                                                                    \
  1, KILN_F32, 2, 3, 0, 0, (base), 32, 0, 0, 0, 4, 0, 0, 0, 2, P(3), 2, P(2), 5, P(row_stride), C(4), \
      KILN_EXPR_MUL, 5, P(6), C(4), KILN_EXPR_MUL

TEST(prepared, tensor_maps_read_the_words_of_views) {
  opened o = open_view_kernel(SPAN(VIEW_MAP(1, 4)));
  kiln_prepared *p;
  kiln_error err;
  size_t size;
  plain_map map;
  float scale = 2;
  int first = 16;
  struct {
    uint64_t base, extents[2], strides[2];
  } view = {0x10000, {7, 100}, {128, 1}};
  CHECK(o.kernel != NULL);
  CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&scale, &view, &first}, 3, NULL, &p, &err), err);
  const uint8_t *block = kiln_prepared_block(p, &size);
  memcpy(&map, block + 64, sizeof map);
  CHECK(map.address == 0x10000 + 64 && map.extents[0] == 100 && map.extents[1] == 7 && map.strides[0] == 512);
  view.extents[0] = 9, view.strides[0] = 256;
  CHECK_OK(kiln_prepared_set(p, 1, &view, &err), err);
  memcpy(&map, block + 64, sizeof map);
  CHECK(map.extents[0] == 100 && map.extents[1] == 9 && map.strides[0] == 1024);
  view.extents[0] = (uint64_t)1 << 33; // indices end at 2^31; the engine takes no more
  CHECK_OK(kiln_prepared_set(p, 1, &view, &err), err);
  memcpy(&map, block + 64, sizeof map);
  CHECK_INT(map.extents[1], (int64_t)1 << 31);
  kiln_prepared_free(p);
  close_all(&o);
}

TEST(prepared, tensor_maps_of_words_that_are_none_are_refused) {
  const kiln_span damaged[] = {
      SPAN(VIEW_MAP(2, 4)), // an extent as base
      SPAN(VIEW_MAP(6, 4)), // a number as base
      SPAN(VIEW_MAP(7, 4)), // no word
      SPAN(VIEW_MAP(1, 7)), // no word
      SPAN(VIEW_MAP(1, 0)), // a float
  };
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    opened o = open_view_kernel(damaged[i]);
    if (o.kernel) FAIL("record %zu is taken", i);
    close_all(&o);
  }
}

TEST(prepared, damaged_tensor_maps_are_refused) {
  static const uint8_t whole[] = {1, MAP(0)};
  uint8_t bytes[sizeof whole + 1];
  for (size_t size = 1; size < sizeof whole; size++) {
    opened o = open_kernel("null:sm_90a", (kiln_span){whole, size});
    if (o.kernel) FAIL("a record cut to %zu of %zu bytes is taken", size, sizeof whole);
    close_all(&o);
  }
  static const struct {
    size_t at;
    uint8_t value;
  } changes[] = {{0, 17}, {1, 77}, {2, 0}, {2, 6}, {3, 4}, {4, 3}, {5, 2}, {6, 1}, {6, 3}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    memcpy(bytes, whole, sizeof whole);
    bytes[changes[i].at] = changes[i].value;
    opened o = open_kernel("null:sm_90a", (kiln_span){bytes, sizeof whole});
    if (o.kernel) FAIL("byte %zu with value %u is taken", changes[i].at, changes[i].value);
    close_all(&o);
  }
}

// Tensor maps of a real driver, where one is.
TEST(prepared, cuda_encodes_tensor_maps) {
  opened o = open_kernel("cuda:0", SPAN(1, MAP(0)));
  kiln_error err;
  _Alignas(64) uint8_t block[64 + KILN_MAP_BYTES] = {0};
  void *memory;
  int n = 64;
  if (!o.kernel) SKIP("cuda:0 takes no code for sm_90a");
  CHECK_OK(kiln_alloc(o.device, 1 << 20, &memory, &err), err);
  memcpy(block, &memory, 8);
  memcpy(block + 8, &n, 4);
  kiln_kernel *k = o.kernel;
  uint8_t zeros[KILN_MAP_BYTES] = {0};
  kiln_map_sizes known[1];
  CHECK_OK(k->codes[0].encode_maps(k, &k->codes[0], NULL, known, block, &err), err);
  CHECK(memcmp(block + 64, zeros, sizeof zeros));
  kiln_free(o.device, memory);
  close_all(&o);
}

// A program's thread 0 has the copy engine fetch 16 columns x 8 rows by the tensor map after the arguments;
// all then write the tile out.
static const char tile_ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry tile(.param .u64 x, .param .u64 y, .param .u32 n, .param .align 64 .b8 map[128])\n{\n"
    ".reg .b64 %y,%m,%o,%state; .reg .b32 %t,%c,%at,%bar,%column,%row,%i; .reg .f32 %f; .reg .pred %p;\n"
    ".shared .align 128 .b8 bytes[512]; .shared .align 8 .b64 full;\n"
    "mov.u32 %t,%tid.x; mov.u32 %c,%ctaid.x; mov.u32 %at,bytes; mov.u32 %bar,full;\n"
    "setp.ne.u32 %p,%t,0; @%p bra $asked;\n"
    "mbarrier.init.shared.b64 [%bar],1; fence.proxy.async;\n"
    "mbarrier.arrive.expect_tx.shared.b64 %state,[%bar],512;\n"
    "mov.b64 %m,map; cvta.param.u64 %m,%m; shl.b32 %column,%c,4; mov.u32 %row,0;\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%at],[%m,{%column,%row}],[%bar];\n"
    "$asked: bar.sync 0;\n"
    "$wait: mbarrier.try_wait.parity.shared.b64 %p,[%bar],0; @!%p bra $wait;\n"
    "shl.b32 %i,%t,2; add.u32 %at,%at,%i; ld.shared.f32 %f,[%at]; mad.lo.u32 %i,%c,128,%t;\n"
    "ld.param.u64 %y,[y]; cvta.to.global.u64 %y,%y; mul.wide.u32 %o,%i,4; add.u64 %y,%y,%o; st.global.f32 "
    "[%y],%f; ret;\n}\n";

enum { TILE_ROWS = 7, TILE_COLUMNS = 40, TILES = 3, TILE = 128 };

// x is 7 rows of n floats; what a tile has outside of it is zero.
static opened open_tile(const char *device) {
  static const uint8_t map[] = {
      1,    KILN_F32,      2, 0,   0, 0, 0, 16, 0, 0, 0, 8, 0, 0, 0, 2, P(2), 2, C(TILE_ROWS), 5, P(2),
      C(4), KILN_EXPR_MUL, 2, C(0)};
  kiln_param_record params[] = {pointer_param("x", KILN_F32), pointer_param("y", KILN_F32),
                                scalar_param("n", KILN_I32)};
  kiln_interface in = {.name = "tile",
                       .params = params,
                       .param_count = 3,
                       .config_count = 1,
                       .variant_count = 1,
                       .configs =
                           (kiln_config_record[]){{.text = "", .grid = {SPAN(P(2), C(16), KILN_EXPR_CDIV)}}},
                       .variants = (kiln_variant_record[]){{.text = ""}}};
  fixture f;
  opened o;
  kiln_error err;
  kiln_buffer info = {0};
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  kiln_code_info_encode(&(kiln_code_info){.format = KILN_FORMAT_PTX,
                                          .target = "sm_90",
                                          .symbol = "tile",
                                          .block_threads = TILE,
                                          .wave = 32,
                                          .producer = "test"},
                        &info);
  kiln_manifest_mapped(&f.manifest, kernel, 0, 0, "sm_90", info.bytes, info.size, tile_ptx, strlen(tile_ptx),
                       map, sizeof map);
  kiln_buffer_deinit(&info);
  fixture_write(&f, kiln_test_path("t.kbundle"), "");
  fixture_open(kiln_test_path("t.kbundle"), device, &o.library, &o.device);
  if (kiln_kernel_get(o.device, "tile", NULL, &o.kernel, &err) != KILN_OK) o.kernel = NULL;
  return o;
}

static void check_tiles(const opened *o, const void *from, const float *x) {
  float y[TILES * TILE];
  kiln_error err;
  CHECK_OK(kiln_sync(o->device, NULL, &err), err);
  CHECK_OK(kiln_copy_out(o->device, y, from, sizeof y, &err), err);
  for (int i = 0; i < TILES * TILE; i++) {
    int column = i / TILE * 16 + i % 16, row = i % TILE / 16;
    float expected = column < TILE_COLUMNS && row < TILE_ROWS ? x[row * TILE_COLUMNS + column] : 0;
    if (y[i] != expected)
      FAIL("row %d, column %d: expected %f, found %f", row, column, (double)expected, (double)y[i]);
  }
}

TEST(prepared, cuda_copies_tiles_by_tensor_maps) {
  opened o = open_tile("cuda:0");
  float x[2][TILE_ROWS * TILE_COLUMNS];
  void *dx[2], *dy;
  int n = TILE_COLUMNS;
  kiln_prepared *p;
  kiln_error err;
  if (!o.kernel) SKIP("cuda:0 takes no code for sm_90");
  CHECK_OK(kiln_alloc(o.device, sizeof(float) * TILES * TILE, &dy, &err), err);
  for (int a = 0; a < 2; a++) {
    for (int i = 0; i < TILE_ROWS * TILE_COLUMNS; i++) x[a][i] = (float)(1000 * a + i + 1);
    CHECK_OK(kiln_alloc(o.device, sizeof x[a], &dx[a], &err), err);
    CHECK_OK(kiln_copy_in(o.device, dx[a], x[a], sizeof x[a], &err), err);
  }
  CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&dx[0], &dy, &n}, 3, NULL, &p, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  check_tiles(&o, dy, x[0]);
  CHECK_OK(kiln_prepared_set(p, 0, &dx[1], &err), err); // encoded anew
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  check_tiles(&o, dy, x[1]);
  CHECK_OK(kiln_launch(o.kernel, NULL, (const void *const[]){&dx[0], &dy, &n}, 3, &err),
           err); // a plain launch encodes by itself
  check_tiles(&o, dy, x[0]);
  kiln_prepared_free(p);
  for (int a = 0; a < 2; a++) kiln_free(o.device, dx[a]);
  kiln_free(o.device, dy);
  close_all(&o);
}
