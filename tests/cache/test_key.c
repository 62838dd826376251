// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests keys: every field changes them, order and nothing else does not, different inputs never get the
// same encoding, and golden vectors stay. (axes A1 to A20, B2, B6, C1 to C5, C7; fault tests 25, 26, 30;
// behaviours 1, 10, 14, 16)
#include "tests/cache/common.h"

#include "cache/explain.h"

enum { NO, MAY, MUST };
enum { ONE, NAMED };
enum { TEXT, BYTES, DIGEST };

static const struct row {
  kiln_field field;
  int value, form, compile, tuned, bundle;
  const char *name, *axes;
} rows[] = {
#define FIELD(name, number, value, form, compile, tuned, bundle, axes, text) \
  {KILN_FIELD_##name, value, form, compile, tuned, bundle, #name, axes},
#include "cache/fields.def"
#undef FIELD
};
enum { ROWS = sizeof rows / sizeof *rows };

/// What a kind of key says of a row.
static int use_of(const struct row *row, kiln_key_kind kind) {
  return kind == KILN_KEY_COMPILE ? row->compile : kind == KILN_KEY_TUNED ? row->tuned : row->bundle;
}

/// Gives a row a value that depends on `variant`.
static void set(kiln_key_builder *b, const struct row *row, unsigned variant) {
  uint8_t bytes[KILN_DIGEST_SIZE];
  memset(bytes, (int)('a' + variant), sizeof bytes);
  size_t size = row->value == DIGEST ? sizeof bytes : 5;
  if (row->form == NAMED) kiln_key_add(b, row->field, "n", bytes, size);
  else kiln_key_add(b, row->field, NULL, bytes, size);
}

/// A key with every field a kind allows; row `special` gets variant 1 (or is left out when `leave`).
static kiln_status full_key(kiln_key_kind kind, int special, bool leave, bool backwards, kiln_key *out,
                            kiln_error *err) {
  kiln_key_builder b;
  kiln_key_begin(&b, kind);
  for (unsigned n = 0; n < ROWS; n++) {
    unsigned i = backwards ? ROWS - 1 - n : n;
    if (use_of(&rows[i], kind) == NO) continue;
    if ((int)i == special && leave) continue;
    set(&b, &rows[i], (int)i == special);
  }
  return kiln_key_finish(&b, out, err);
}

static int named;
static char seen[64];

static void note(void *context, const kiln_key_part *a, const kiln_key_part *b) {
  (void)context;
  snprintf(seen, sizeof seen, "%s", kiln_field_name((a ? a : b)->field));
  named++;
}

/// The matrix: each field of each kind, changed and left out. Expected and seen are printed.
static void matrix(kiln_key_kind kind) {
  kiln_key base, other;
  kiln_error err;
  CHECK_OK(full_key(kind, -1, false, false, &base, &err), err);
  CHECK_OK(full_key(kind, -1, false, true, &other, &err), err);
  CHECK(!memcmp(&base.digest, &other.digest, sizeof base.digest)); // order of giving is not in the key
  kiln_key_deinit(&other);
  for (unsigned i = 0; i < ROWS; i++) {
    int use = use_of(&rows[i], kind);
    if (use == NO) {
      kiln_key_builder b;
      kiln_key_begin(&b, kind);
      set(&b, &rows[i], 0);
      CHECK_INT(kiln_key_finish(&b, &other, &err), KILN_STATUS_INVALID_ARGUMENT);
      continue;
    }
    for (unsigned leave = 0; leave < 2; leave++) {
      kiln_status status = full_key(kind, (int)i, leave, false, &other, &err);
      if (leave && use == MUST) {
        CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT); // an incomplete key is no key
        CHECK(strstr(err.text, rows[i].name));
        continue;
      }
      CHECK_INT(status, KILN_OK);
      bool differs = memcmp(&base.digest, &other.digest, sizeof base.digest);
      named = 0;
      CHECK_INT(kiln_key_compare(base.fields, base.fields_size, other.fields, other.fields_size, note, NULL),
                1);
      printf("%-15s %-12s %-8s expected: another key, seen: %s; explained by: %s\n", rows[i].name,
             rows[i].axes, leave ? "absent" : "changed", differs ? "another key" : "the same key", seen);
      CHECK(differs);
      CHECK_INT(named, 1);
      CHECK_TEXT(seen, rows[i].name);
      kiln_key_deinit(&other);
    }
  }
  kiln_key_deinit(&base);
}

TEST(key, matrix_of_compile_keys) { matrix(KILN_KEY_COMPILE); }
TEST(key, matrix_of_tuned_keys) { matrix(KILN_KEY_TUNED); }
TEST(key, matrix_of_bundle_keys) { matrix(KILN_KEY_BUNDLE); }

TEST(key, every_axis_has_a_field) {
  for (unsigned axis = 1; axis <= 20; axis++) {
    char name[8], padded[64];
    bool found = false;
    snprintf(name, sizeof name, " A%u ", axis);
    for (unsigned i = 0; i < ROWS && !found; i++) {
      snprintf(padded, sizeof padded, " %s ", rows[i].axes);
      found = strstr(padded, name);
    }
    if (!found) FAIL("axis%shas no field", name);
  }
}

static kiln_key with(void (*more)(kiln_key_builder *)) {
  kiln_key_builder b;
  kiln_key key;
  kiln_error err;
  fill_key(&b, "ir");
  more(&b);
  if (kiln_key_finish(&b, &key, &err)) FAIL("%s", err.text);
  return key;
}

#define PAIR(name, first, second)                      \
  static void name##_a(kiln_key_builder *b) { first; } \
  static void name##_b(kiln_key_builder *b) { second; }
// Pairs that collide when names and values are joined, rounded or read as truth values.
PAIR(joined, (kiln_key_named_text(b, KILN_FIELD_OPTION, "a", "bc")),
     (kiln_key_named_text(b, KILN_FIELD_OPTION, "ab", "c")))
PAIR(sign, (kiln_key_named_text(b, KILN_FIELD_CONSTANT, "x", "1.5")),
     (kiln_key_named_text(b, KILN_FIELD_CONSTANT, "x", "-1.5")))
PAIR(empty, (kiln_key_named_text(b, KILN_FIELD_OPTION, "x", "")), ((void)b))
PAIR(two,
     (kiln_key_named_text(b, KILN_FIELD_OPTION, "a", "1"),
      kiln_key_named_text(b, KILN_FIELD_OPTION, "b", "")),
     (kiln_key_named_text(b, KILN_FIELD_OPTION, "a", ""),
      kiln_key_named_text(b, KILN_FIELD_OPTION, "b", "1")))
PAIR(field, (kiln_key_named_text(b, KILN_FIELD_CONSTANT, "x", "1")),
     (kiln_key_named_text(b, KILN_FIELD_FACT, "x", "1")))
PAIR(shape, (kiln_key_named_text(b, KILN_FIELD_SHAPE, "0", "a,a")),
     (kiln_key_named_text(b, KILN_FIELD_SHAPE, "0", "a,b")))
PAIR(nul, (kiln_key_add(b, KILN_FIELD_CONSTANT, "x", "a\0b", 3)),
     (kiln_key_add(b, KILN_FIELD_CONSTANT, "x", "a\0c", 3)))
PAIR(boolean, (kiln_key_named_text(b, KILN_FIELD_OPTION, "ceil", "0")),
     (kiln_key_named_text(b, KILN_FIELD_OPTION, "ceil", "1")))
PAIR(mode, (kiln_key_named_text(b, KILN_FIELD_FEATURE, "xnack", "on")),
     (kiln_key_named_text(b, KILN_FIELD_FEATURE, "xnack", "any")))

TEST(key, nothing_aliases) {
  static const struct {
    void (*a)(kiln_key_builder *), (*b)(kiln_key_builder *);
  } pairs[] = {{joined_a, joined_b}, {sign_a, sign_b},       {empty_a, empty_b},
               {two_a, two_b},       {field_a, field_b},     {shape_a, shape_b},
               {nul_a, nul_b},       {boolean_a, boolean_b}, {mode_a, mode_b}};
  for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    kiln_key a = with(pairs[i].a), b = with(pairs[i].b);
    if (!memcmp(&a.digest, &b.digest, sizeof a.digest)) FAIL("pair %u is one key", i);
    CHECK(kiln_key_compare(a.fields, a.fields_size, b.fields, b.fields_size, NULL, NULL) > 0);
    kiln_key_deinit(&a);
    kiln_key_deinit(&b);
  }
}

TEST(key, mistakes_are_named) {
  static const struct {
    kiln_field field;
    const char *name;
    size_t size;
    const char *says;
  } wrong[] = {{(kiln_field)99, "x", 1, "not in the table"},   {KILN_FIELD_IR, "x", 1, "no name"},
               {KILN_FIELD_OPTION, "", 1, "a name"},           {KILN_FIELD_LIBRARY, "x", 31, "32 bytes"},
               {KILN_FIELD_DEVICE, "x", 1, "does not belong"}, {KILN_FIELD_OPTION, "opt-level", 1, "twice"}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    kiln_key_builder b;
    kiln_key key;
    kiln_error err;
    uint8_t bytes[40] = {0};
    fill_key(&b, "ir");
    kiln_key_add(&b, wrong[i].field, wrong[i].name, bytes, wrong[i].size);
    CHECK_INT(kiln_key_finish(&b, &key, &err), KILN_STATUS_INVALID_ARGUMENT);
    if (!strstr(err.text, wrong[i].says)) FAIL("\"%s\" does not say \"%s\"", err.text, wrong[i].says);
    CHECK(!key.fields);
  }
}

TEST(key, golden_vectors) {
  kiln_buffer text = {0};
  static void (*const variants[])(kiln_key_builder *) = {empty_b, joined_a, joined_b, sign_a, sign_b, two_a,
                                                         two_b,   field_a,  field_b,  nul_a,  mode_a};
  for (unsigned i = 0; i < sizeof variants / sizeof *variants; i++) {
    char hex[KILN_DIGEST_HEX + 1];
    kiln_key key = with(variants[i]);
    kiln_digest_hex(&key.digest, hex);
    kiln_buffer_format(&text, "%2u %s %zu bytes\n", i, hex, key.fields_size);
    kiln_key_deinit(&key);
  }
  kiln_test_golden("cache/keys.txt", (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
}

TEST(key, damaged_encodings_are_refused) {
  kiln_key key = with(joined_a);
  uint64_t seed = 3;
  uint8_t *copy = malloc(key.fields_size);
  for (unsigned n = 0; n < 50000; n++) {
    memcpy(copy, key.fields, key.fields_size);
    copy[kiln_test_random(&seed) % key.fields_size] = (uint8_t)kiln_test_random(&seed);
    size_t size = n % 4 ? key.fields_size : kiln_test_random(&seed) % key.fields_size;
    int got = kiln_key_compare(key.fields, key.fields_size, copy, size, NULL, NULL);
    bool same = size == key.fields_size && !memcmp(copy, key.fields, size);
    CHECK(same ? got == 0 : got != 0);
  }
  free(copy);
  kiln_key_deinit(&key);
}

/// `why` names the changed field for every row, out of a store that has other entries as well.
TEST(key, the_nearest_entry_names_the_field) {
  kiln_cache *cache = open_in(kiln_test_folder());
  kiln_error err;
  kiln_key base;
  for (unsigned i = 0; i < 20; i++) {
    kiln_key other = key_number(i);
    put_size(cache, &other, 10);
    kiln_key_deinit(&other);
  }
  CHECK_OK(full_key(KILN_KEY_COMPILE, -1, false, false, &base, &err), err);
  put_size(cache, &base, 10);
  for (unsigned i = 0; i < ROWS; i++) {
    kiln_key other;
    kiln_buffer out = {0};
    char title[64];
    if (rows[i].compile == NO) continue;
    CHECK_OK(full_key(KILN_KEY_COMPILE, (int)i, false, false, &other, &err), err);
    CHECK_INT(get_size(cache, &other, 10), 0);
    kiln_cache_explain(cache, &other, 0, NULL, &out);
    kiln_buffer_u8(&out, 0);
    kiln_key_part_title(
        &(kiln_key_part){.field = rows[i].field, .name = "n", .name_size = rows[i].form == NAMED}, title,
        sizeof title);
    const char *text = (const char *)out.bytes;
    if (!strstr(text, "1 field differs") || !strstr(text, title))
      FAIL("%s is not named in:\n%s", title, text);
    kiln_buffer_deinit(&out);
    kiln_key_deinit(&other);
  }
  kiln_key_deinit(&base);
  kiln_cache_close(cache);
}
