// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests tables of tuned choices: what is read, what is refused and where, which lines mean the same thing,
// and that the order of merging does not matter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "cache/cache.h"
#include "tests/harness.h"
#include "tuner/table.h"

#define HEAD "kiln tuned 1\n"
#define LINE                                                                                       \
  "kernel=\"softmax[T=f32]\" types=\"*f32 *f32 i32 i32\" product=\"NVIDIA H200\" processor=sm_90 " \
  "units=132 bin.cols=1024 bin.rows=4096 aligned.cols=yes stride.v.0=other config=\"BLOCK=1024,warps=4\""

static kiln_tuner_table read_table(const char *text) {
  kiln_tuner_table t;
  kiln_error err;
  kiln_tuner_table_init(&t);
  CHECK_OK(kiln_tuner_table_read(&t, "t", text, strlen(text), NULL, &err), err);
  return t;
}

// malloc'ed.
static char *text_of(const kiln_tuner_table *t) {
  kiln_buffer b = {0};
  kiln_tuner_table_write(t, &b);
  kiln_buffer_u8(&b, 0);
  return (char *)b.bytes;
}

// ------------------------------------------------------------------------------------------ reading

TEST(tuned_table, what_is_written_reads_back) {
  kiln_tuner_table a =
      read_table(HEAD LINE " ns=1200 default=x default_ns=1500 spread=4 samples=21 judge=first "
                           "date=2026-01-02T03:04:05Z toolchain=0011\n");
  char *text = text_of(&a);
  kiln_tuner_table b = read_table(text);
  char *again = text_of(&b);
  CHECK_INT(a.count, 1);
  CHECK_TEXT(again, text);
  CHECK_TEXT(b.rows[0].entry->texts[KILN_TUNED_CONFIG], "BLOCK=1024,warps=4");
  CHECK_INT(b.rows[0].entry->numbers[KILN_TUNED_DEFAULT_NS], 1500);
  CHECK_INT(b.rows[0].entry->axis_count, 4);
  free(text), free(again);
  kiln_tuner_table_deinit(&a), kiln_tuner_table_deinit(&b);
}

TEST(tuned_table, quotes_and_backslashes) {
  kiln_tuner_table t =
      read_table(HEAD "kernel=\"a \\\"b\\\\\" types=\"\" product=c\\d processor=p units=0 config=x\n");
  CHECK_TEXT(t.rows[0].entry->texts[KILN_TUNED_KERNEL], "a \"b\\");
  CHECK_TEXT(t.rows[0].entry->texts[KILN_TUNED_PRODUCT], "c\\d");
  char *text = text_of(&t);
  kiln_tuner_table b = read_table(text);
  CHECK_TEXT(b.rows[0].entry->texts[KILN_TUNED_KERNEL], "a \"b\\");
  CHECK_TEXT(b.rows[0].entry->texts[KILN_TUNED_TYPES], "");
  free(text);
  kiln_tuner_table_deinit(&t), kiln_tuner_table_deinit(&b);
}

#define REST "types=i32 product=p processor=q units=1 config=c"
TEST(tuned_table, what_is_wrong_is_named_with_its_place) {
  static const struct {
    const char *text, *says;
  } wrong[] = {
      {"", "t:1:1: expected 'kiln tuned 2'"},
      {"kiln tuned", "t:1:1: expected 'kiln tuned 2'"},
      {"kiln tuned x\n", "t:1:12: expected the version of the format, found 'x'"},
      {"kiln tuned 3\n", "t:1:12: the table has version 3, this program reads up to 2"},
      {"kiln tuned 0\n", "t:1:12: the table has version 0, this program reads up to 2"},
      {HEAD "\n# a comment\n" LINE " wraps=4\n", "t:4:189: unknown field 'wraps'"},
      {HEAD "kernel=k konfig=x " REST "\n", "t:2:10: unknown field 'konfig'; did you mean 'config'?"},
      {HEAD "kernel=k " REST " config=d\n", "'config' is there already"},
      {HEAD "types=i32 product=p processor=q units=1 config=c\n", "t:2:1: the field 'kernel' is missing"},
      {HEAD "kernel=k " REST " bin.n=1000\n",
       "t:2:65: 1000 is not the least number of its bin, which is written 896"},
      {HEAD "kernel=k " REST " bin.n=-1\n", "expected the least number of a bin, found '-1'"},
      {HEAD "kernel=k " REST " bin.=1\n", "expected the name of a parameter after 'bin.'"},
      {HEAD "kernel=k " REST " bin.n=1 bin.n=2\n", "'bin.n' is there already"},
      {HEAD "kernel=k " REST " aligned.n=maybe\n", "expected no, yes, found 'maybe'"},
      {HEAD "kernel=k " REST " stride.a.0=2\n", "expected 0, 1 or other, found '2'"},
      {HEAD "kernel=k " REST " ns=12.5\n", "'ns': expected a number, found '12.5'"},
      {HEAD "kernel=k " REST " ns=99999999999999999999\n", "'ns': expected a number"},
      {HEAD "kernel=\"k " REST "\n", "t:2:8: the quote is not closed in this line"},
      {HEAD "kernel=\"k\"" REST "\n", "expected a space after the quote"},
      {HEAD "kernel=k\"x\" " REST "\n", "a quote inside a word that began without one"},
      {HEAD "kernel=\"\\n\" " REST "\n", "expected \\\" or \\\\, found '\\n'"},
      {HEAD "kernel=a\tb " REST "\n", "a character that cannot be printed"},
      {HEAD "kernel= " REST "\n", "t:2:8: expected a value"},
      {HEAD "kernel " REST "\n", "t:2:1: expected NAME=VALUE, found 'kernel'"},
      {HEAD "=x " REST "\n", "t:2:1: expected NAME=VALUE"},
      {HEAD "kernel=k " REST " id=0123456789abcdef\n",
       "t:2:1: the id 0123456789abcdef is another identity's"},
  };
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    kiln_tuner_table t;
    kiln_error err = {0};
    kiln_tuned_place place = {0};
    kiln_tuner_table_init(&t);
    kiln_status status = kiln_tuner_table_read(&t, "t", wrong[i].text, strlen(wrong[i].text), &place, &err);
    if (status != KILN_STATUS_SOURCE && status != KILN_STATUS_VERSION) FAIL("text %u is taken", i);
    if (!strstr(err.text, wrong[i].says))
      FAIL("text %u: \"%s\" does not say \"%s\"", i, err.text, wrong[i].says);
    CHECK(place.line && place.column);
    kiln_tuner_table_deinit(&t);
  }
}

TEST(tuned_table, too_many_axes) {
  kiln_buffer text = {0};
  kiln_error err;
  kiln_tuner_table t;
  kiln_buffer_format(&text, HEAD "kernel=k " REST);
  for (int i = 0; i <= KILN_TUNED_MOST_AXES; i++) kiln_buffer_format(&text, " bin.n%d=1", i);
  kiln_tuner_table_init(&t);
  CHECK_INT(kiln_tuner_table_read(&t, "t", (char *)text.bytes, text.size, NULL, &err), KILN_STATUS_SOURCE);
  CHECK(strstr(err.text, "more than 32 axes"));
  kiln_tuner_table_deinit(&t);
  kiln_buffer_deinit(&text);
}

// -------------------------------------------------------------------------------------------- bins

// Four an octave: every value is at or above the least of its bin, below that of the next, and by less than a
// quarter above it.
TEST(tuned_bins, every_value_is_in_the_bin_that_is_written) {
  uint64_t state = 7;
  int64_t last = -1;
  for (unsigned b = 0; b < KILN_TUNED_MOST_BINS; b++) {
    int64_t least = kiln_tuned_bin_least((uint8_t)b);
    CHECK(least > last);
    CHECK_INT(kiln_tuned_bin(least), b);
    if (b) CHECK_INT(kiln_tuned_bin(least - 1), b - 1);
    last = least;
  }
  CHECK_INT(kiln_tuned_bin(INT64_MAX), KILN_TUNED_MOST_BINS - 1);
  CHECK_INT(kiln_tuned_bin(INT64_MIN), 0);
  for (int i = 0; i < 100000; i++) {
    int64_t v = (int64_t)(kiln_test_random(&state) >> (1 + kiln_test_random(&state) % 60));
    int64_t least = kiln_tuned_bin_least(kiln_tuned_bin(v));
    CHECK(least <= v && v - least <= least / 4);
  }
}

// ---------------------------------------------------------------------------------------- identity

static void id_of(const char *line, char out[KILN_TUNER_ID + 1]) {
  char text[1000];
  snprintf(text, sizeof text, HEAD "%s\n", line);
  kiln_tuner_table t = read_table(text);
  CHECK_INT(t.count, 1);
  strcpy(out, t.rows[0].entry->texts[KILN_TUNED_ID]);
  kiln_tuner_table_deinit(&t);
}

TEST(tuned_identity, axes_separate_and_order_does_not) {
  static const char *const other[] = {
      "kernel=l types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 aligned.n=yes stride.v.0=1 config=c",
      "kernel=k types=\"*f16 i32\" product=p processor=q units=1 bin.n=8 aligned.n=yes stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=P processor=q units=1 bin.n=8 aligned.n=yes stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=Q units=1 bin.n=8 aligned.n=yes stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=2 bin.n=8 aligned.n=yes stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=10 aligned.n=yes stride.v.0=1 "
      "config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.m=8 aligned.n=yes stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 aligned.n=no stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 stride.v.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 aligned.n=yes stride.v.0=other "
      "config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 aligned.n=yes stride.w.0=1 config=c",
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 aligned.n=yes stride.v.1=1 "
      "config=c"};
  char base[KILN_TUNER_ID + 1], id[KILN_TUNER_ID + 1];
  id_of(
      "kernel=k types=\"*f32 i32\" product=p processor=q units=1 bin.n=8 aligned.n=yes stride.v.0=1 config=c",
      base);
  id_of("config=z stride.v.0=1 ns=4 units=1 aligned.n=yes processor=q bin.n=8 types=\"*f32 i32\" product=p "
        "kernel=k",
        id);
  CHECK_TEXT(id, base); // the order of names, the choice and its history are not in it
  for (unsigned i = 0; i < sizeof other / sizeof *other; i++) {
    id_of(other[i], id);
    if (!strcmp(id, base)) FAIL("line %u has the same identity:\n%s", i, other[i]);
  }
}

TEST(tuned_identity, is_no_key_of_a_compile) {
  kiln_tuner_table t = read_table(HEAD LINE "\n");
  kiln_key key;
  kiln_error err;
  kiln_key_walk walk;
  CHECK_OK(kiln_tuner_key(t.rows[0].entry, &key, &err), err);
  CHECK_OK(kiln_key_walk_begin(&walk, key.fields, key.fields_size), err);
  CHECK_INT(walk.kind, KILN_KEY_TUNED);
  kiln_key_deinit(&key);
  kiln_tuner_table_deinit(&t);
}

// ----------------------------------------------------------------------------------------- merging

// A random table over few identities, with times and dates that collide.
static kiln_tuner_table random_table(uint64_t *state) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, HEAD);
  unsigned count = (unsigned)(kiln_test_random(state) % 12);
  for (unsigned i = 0; i < count; i++) {
    kiln_buffer_format(&text, "kernel=k " REST "%u bin.n=%u", (unsigned)(kiln_test_random(state) % 3),
                       (unsigned)(kiln_test_random(state) % 4));
    if (kiln_test_random(state) % 4)
      kiln_buffer_format(&text, " ns=%u", (unsigned)(kiln_test_random(state) % 3));
    if (kiln_test_random(state) % 4)
      kiln_buffer_format(&text, " date=2026-01-0%uT00:00:00Z", (unsigned)(1 + kiln_test_random(state) % 3));
    kiln_buffer_u8(&text, '\n');
  }
  kiln_buffer_u8(&text, 0);
  kiln_tuner_table t = read_table((char *)text.bytes);
  kiln_buffer_deinit(&text);
  return t;
}

// The tables in that order, as text; malloc'ed.
static char *merged(kiln_tuner_table *const *tables, unsigned count) {
  kiln_tuner_table sum;
  kiln_error err;
  kiln_tuner_table_init(&sum);
  for (unsigned i = 0; i < count; i++) {
    for (uint32_t r = 0; r < tables[i]->count; r++)
      CHECK_OK(kiln_tuner_table_add(&sum, tables[i]->rows[r].entry, &err), err);
    kiln_tuner_table_settle(&sum);
  }
  char *text = text_of(&sum);
  kiln_tuner_table_deinit(&sum);
  return text;
}

TEST(tuned_merge, is_commutative_associative_and_idempotent) {
  uint64_t state = 20260101;
  for (int round = 0; round < 300; round++) {
    kiln_tuner_table a = random_table(&state), b = random_table(&state), c = random_table(&state);
    char *abc = merged((kiln_tuner_table *[]){&a, &b, &c}, 3),
         *cba = merged((kiln_tuner_table *[]){&c, &b, &a}, 3);
    char *ab = merged((kiln_tuner_table *[]){&a, &b}, 2), *bc = merged((kiln_tuner_table *[]){&b, &c}, 2);
    kiln_tuner_table left = read_table(ab), right = read_table(bc);
    char *ab_c = merged((kiln_tuner_table *[]){&left, &c}, 2),
         *a_bc = merged((kiln_tuner_table *[]){&a, &right}, 2);
    char *twice = merged((kiln_tuner_table *[]){&a, &b, &c, &b, &a}, 5);
    CHECK_TEXT(cba, abc);
    CHECK_TEXT(ab_c, abc);
    CHECK_TEXT(a_bc, abc);
    CHECK_TEXT(twice, abc);
    free(abc), free(cba), free(ab), free(bc), free(ab_c), free(a_bc), free(twice);
    kiln_tuner_table *all[] = {&a, &b, &c, &left, &right};
    for (unsigned i = 0; i < 5; i++) kiln_tuner_table_deinit(all[i]);
  }
}

TEST(tuned_merge, the_later_measurement_wins) {
  kiln_tuner_table t = read_table(HEAD "kernel=k " REST "1 ns=5 date=2026-01-01T00:00:00Z\n"
                                       "kernel=k " REST "2 ns=9 date=2026-01-02T00:00:00Z\n"
                                       "kernel=k " REST "3\n");
  CHECK_INT(t.count, 1);
  CHECK_TEXT(t.rows[0].entry->texts[KILN_TUNED_CONFIG], "c2");
  kiln_tuner_table_deinit(&t);
}

// -------------------------------------------------------------------------------------------- files

static void add_bin(const char *path, unsigned bin) {
  char text[300];
  kiln_error err;
  snprintf(text, sizeof text, HEAD "kernel=k " REST " bin.n=%lld\n",
           (long long)kiln_tuned_bin_least((uint8_t)bin));
  kiln_tuner_table t = read_table(text);
  CHECK_OK(kiln_tuner_table_update(path, &t, &err), err);
  kiln_tuner_table_deinit(&t);
}

static kiln_tuner_table load(const char *path) {
  char *text = kiln_test_read(path, NULL);
  CHECK(text);
  kiln_tuner_table t = read_table(text);
  free(text);
  return t;
}

TEST(tuned_file, two_tuners_on_one_table_lose_nothing) {
  enum { WRITERS = 4, EACH = 25 };
  char path[500];
  snprintf(path, sizeof path, "%s/t.table", kiln_test_folder());
  for (unsigned w = 0; w < WRITERS; w++) {
    if (fork()) continue;
    for (unsigned i = 0; i < EACH; i++) add_bin(path, w * EACH + i);
    _exit(0);
  }
  for (unsigned w = 0, status; w < WRITERS; w++) {
    CHECK(wait((int *)&status) > 0);
    CHECK_INT(status, 0);
  }
  kiln_tuner_table t = load(path);
  CHECK_INT(t.count, WRITERS * EACH);
  kiln_tuner_table_deinit(&t);
}

// Killed after a random time, again and again: what is there reads whole, and never loses a choice.
TEST(tuned_file, killed_at_any_point_the_table_is_whole) {
  char path[500];
  uint64_t state = 3;
  uint32_t least = 1;
  snprintf(path, sizeof path, "%s/t.table", kiln_test_folder());
  add_bin(path, 0);
  for (int round = 0; round < 60; round++) {
    pid_t pid = fork();
    if (!pid)
      for (unsigned i = 0;; i = (i + 1) % KILN_TUNED_MOST_BINS) add_bin(path, i);
    usleep((useconds_t)(kiln_test_random(&state) % 5000));
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    kiln_tuner_table t = load(path);
    CHECK(t.count >= least);
    least = t.count;
    kiln_tuner_table_deinit(&t);
  }
  CHECK(least > 1);
}

TEST(tuned_file, a_file_that_is_no_table_stays) {
  char path[500];
  kiln_error err;
  snprintf(path, sizeof path, "%s/t.table", kiln_test_folder());
  kiln_test_write(path, "precious\n", 9);
  kiln_tuner_table t = read_table(HEAD LINE "\n");
  CHECK_INT(kiln_tuner_table_update(path, &t, &err), KILN_STATUS_SOURCE);
  CHECK(strstr(err.text, "t.table:1:1: expected 'kiln tuned 2'"));
  char *text = kiln_test_read(path, NULL);
  CHECK_TEXT(text, "precious\n");
  free(text);
  kiln_tuner_table_deinit(&t);
}
