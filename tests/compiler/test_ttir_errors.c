// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what the reader of Triton IR refuses: one message each, with the line of the text and the place in
// Python.
#include <stdio.h>
#include <stdlib.h>

#include "tests/compiler/ttir_test.h"

typedef struct refusal {
  const char *body; ///< statements on line 3 and after
  unsigned line;
  const char *text; ///< part of the message
} refusal;

static void check_refused(const char *text, unsigned line, const char *want) {
  ttir_read t = ttir_read_text(text);
  if (t.kernel) FAIL("was taken:\n%s", text);
  CHECK_INT(t.d.errors, 1);
  if (!strstr(ttir_first_error(&t), want))
    FAIL("the message is\n%s\nexpected in it\n%s", ttir_first_error(&t), want);
  if (t.d.items[0].line != line)
    FAIL("line is %u, expected %u: %s\n%s", t.d.items[0].line, line, ttir_first_error(&t), text);
  ttir_read_end(&t);
}

// What shows only when the whole kernel is built is refused as in the kernel language: a step of a loop that
// becomes 0, a store that many elements make to one place.
static void check_whole(const char *body, const char *want, unsigned line) {
  char text[2048];
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_error err;
  kiln_target target;
  snprintf(text, sizeof text,
           "module {\n  tt.func public @k(%%p: !tt.ptr<i32>, %%n: i32) {\n    %%c = arith.constant 1 : i32\n "
           "   %%z = arith.subi %%c, %%c : i32\n%s    tt.return\n  }\n}\n",
           body);
  CHECK_OK(kiln_target_parse("host", &target, &err), err);
  kiln_unit *unit = kiln_unit_open(arena, "k.ttir", text, strlen(text), NULL, &d);
  CHECK(unit != NULL);
  CHECK(!kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d));
  CHECK_INT(d.errors, 1);
  if (!strstr(d.items[0].text, want)) FAIL("the message is\n%s\nexpected in it\n%s", d.items[0].text, want);
  CHECK_INT(d.items[0].line, line);
  kiln_arena_destroy(arena);
}

TEST(ttir_errors, whole_kernels) {
  check_whole("    scf.for %i = %z to %n step %z  : i32 {\n      tt.store %p, %i : !tt.ptr<i32>\n    } "
              "loc(\"k.py\":3:4)\n",
              "step of a 'for': expected at least 1, found 0", 5);
  check_whole("    %s = arith.constant 0 : i64\n    %t = arith.constant dense<7> : tensor<16xi32>\n"
              "    %d = tt.make_tensor_descriptor %p, [%n], [%s] : <i32>, <tensor<16xi32>>\n"
              "    tt.descriptor_store %d[%z], %t : !tt.tensordesc<tensor<16xi32>>, tensor<16xi32>\n",
              "axis 0 of the view has stride 0, which repeats one place: expected a load, found 'view_store'",
              8);
}

// The place is the word that is wrong, or the operation; the mark that some editors put first has none.
TEST(ttir_errors, columns) {
  static const struct {
    const char *operation;
    unsigned column;
    const char *text;
  } rows[] = {
      {"    %0 = arith.adddi %n, %n : i32", 10, "operation 'arith.adddi' is not supported"},
      {"    %0 = arith.addi %n; %n : i32", 23, "expected ',', found ';'"},
      {"    %0 = arith.addi %n, %m : i32", 10, "%m is not defined"},
      {"    %0 = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<257xi32>", 61, "powers of two"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (unsigned marked = 0; marked < 2; marked++) {
      char text[512];
      snprintf(text, sizeof text, "%s tt.func public @k(%%n: i32) {\n%s\n    tt.return\n  }\n",
               marked ? "\xef\xbb\xbf" : "", rows[i].operation);
      ttir_read t = ttir_read_text(text);
      CHECK(!t.kernel);
      if (t.d.items[0].line != 2 || t.d.items[0].column != rows[i].column ||
          !strstr(t.d.items[0].text, rows[i].text))
        FAIL("%s\ngives  %u:%u: %s\nwanted 2:%u: %s", rows[i].operation, t.d.items[0].line,
             t.d.items[0].column, t.d.items[0].text, rows[i].column, rows[i].text);
      ttir_read_end(&t);
    }
  }
}

TEST(ttir_errors, statements) {
  static const refusal rows[] = {
      {"    %0 = tt.frobnicate %x : i32 loc(#loc1)", 3,
       "operation 'tt.frobnicate' is not supported (from soft max.py:12:8)"},
      {"    %0 = \"tt.map_elementwise\"(%x) <{pack = 1 : i32}> ({\n    ^bb0(%a: i32):\n      "
       "tt.map_elementwise.return %a : i32\n    }) : (i32) -> i32",
       3, "expected tiles of one shape"},
      {"    \"weird.op\"() : () -> ()", 3, "operation 'weird.op' is not supported"},
      {"    %0 = arith.addi %x, %nope : i32", 3, "%nope is not defined"},
      {"    %0 = arith.addi %x, %x : i64", 3, "arith.addi: the text says i64, the value is i32"},
      {"\n    %0 = arith.addi %x, %x i32", 4, "expected ':'"},
      {"    %0 = arith.addi %x : i32", 3, "expected ',', found ':'"},
      {"    %0 = arith.addf %x, %x : i32", 3, "arith.addf"},
      {"    %0 = arith.cmpi xyz, %x, %x : i32", 3, "unknown predicate 'xyz'"},
      {"    %0:2 = arith.addi %x, %x : i32", 3, "expected 1 names for its results, found 2"},
      {"    %0 = arith.constant dense<[1, 2]> : tensor<4xi32>", 3, "expected 4 elements, found 2"},
      {"    %0 = arith.constant dense<\"0x01\"> : tensor<4xi32>", 3, "found 2 digits"},
      {"    %0 = arith.constant 1.0e39 : f32", 3, "expected a number of f32, found '1.0e39'"},
      {"    %0 = arith.constant -1.0e400 : f64", 3, "expected a number of f64, found '-1.0e400'"},
      {"    %0 = arith.constant dense<7.0e4> : tensor<4xf16>", 3, "expected a number of f16, found '7.0e4'"},
      {"    %0 = arith.constant 9223372036854775808 : i32", 3,
       "expected a number of 32 bits, found '9223372036854775808'"},
      {"    %0 = arith.constant 4294967296 : i32", 3, "expected a number of 32 bits"},
      {"    %0 = arith.constant -2147483649 : i32", 3, "expected a number of 32 bits"},
      {"    %0 = arith.constant 18446744073709551616 : i64", 3, "expected a number of 64 bits"},
      {"    %0 = arith.constant dense<[1, 256]> : tensor<2xi8>", 3,
       "expected a number of 8 bits, found '256'"},
      {"    %0 = arith.constant 2 : i1", 3, "expected a number of 1 bits"},
      {"    %0 = arith.constant 1.5 : i32", 3, "expected an integer, found '1.5'"},
      {"    %0 = arith.constant 0x1FFFF : f16", 3, "expected a number of 16 bits"},
      {"    %0 = arith.constant true : i32", 3, "expected a number, found true or false"},
      {"    %0 = arith.addi %x, %x : i32\n    %0 = arith.addi %x, %x : i32", 4, "%0 is defined twice"},
      {"    %x = arith.addi %x, %x : i32", 3, "%x is defined twice"},
      {"    scf.for %i = %x to %x step %x : i32 {\n      %i = arith.addi %x, %x : i32\n    }", 4,
       "%i is defined twice"},
      {"    %v = tt.load %p {boundaryCheck = array<i32: 0>} : !tt.ptr<i32>", 3, "belongs to block pointers"},
      {"    %v = tt.advance %p, [%x] : <tensor<8xi32>>", 3, "the text says"},
      {"    %l = arith.constant 1 : i64\n    %q = tt.make_tensor_ptr %p, [%l, %l], [%l], [%x] {order = "
       "array<i32: 0>} : <tensor<8xi32>>",
       4, "expected 1 extents, strides and offsets, found 2, 1 and 1"},
      {"    %l = arith.constant 1 : i64\n    %q = tt.make_tensor_ptr %p, [%l], [%l], [%x] {order = "
       "array<i32: 0>} : <tensor<8xi32>>\n    %v = tt.load %q {boundaryCheck = array<i32: 1>} : "
       "!tt.ptr<tensor<8xi32>>",
       5, "expected axes below 1, found 1"},
      {"    %l = arith.constant 1 : i64\n    %t = arith.constant true\n    %q = tt.make_tensor_ptr %p, [%l], "
       "[%l], [%x] {order = array<i32: 0>} : <tensor<8xi32>>\n    %v = tt.load %q, %t : "
       "!tt.ptr<tensor<8xi32>>",
       6, "a block pointer has no mask"},
      {"    %0 = arith.constant dense<1> : tensor<3xi32>", 3, "powers of two"},
      {"    %0 = arith.constant dense<1> : tensor<1048576x2xi32>", 3, "2^20"},
      {"    %0 = arith.constant dense<1> : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1xi32>", 3, "12 axes"},
      {"    %0 = arith.constant 1 : i128", 3, "expected an element type"},
      {"    %0 = arith.constant 1.0 : f8E4M3FNUZ", 3, "f8E4M3FN and f8E5M2"},
      {"    %0 = arith.constant dense<1> : tensor<8xi32, #blocked>", 3, "TTGIR"},
      {"    %0 = tt.make_range {end = 5 : i32, start = 0 : i32} : tensor<8xi32>", 3, "found 0 to 5"},
      {"    %0 = tt.get_program_id w : i32", 3, "x, y or z"},
      {"    %0 = tt.load %x : i32", 3, "load"},
      {"    %0 = tt.atomic_rmw frob, relaxed, gpu, %p, %x : (!tt.ptr<i32>, i32) -> i32", 3,
       "unknown kind 'frob'"},
      {"    %0 = tt.atomic_rmw add, seq_cst, gpu, %p, %x : (!tt.ptr<i32>, i32) -> i32", 3,
       "unknown memory order 'seq_cst'"},
      {"    %0 = tt.extern_elementwise %x {libname = \"\", libpath = \"\", pure = true, symbol = "
       "\"__nv_zeta\"} : (i32) -> i32",
       3, "library function '__nv_zeta' is not known"},
      {"    tt.call @other(%x) : (i32) -> ()", 3, "@other"},
      {"    tt.call @k(%p, %x) : (!tt.ptr<i32>, i32) -> ()", 3, "recursion"},
      {"    cf.br ^bb1\n  ^bb1:\n    cf.br ^bb1", 4, "form a loop"},
      {"    cf.br ^bb9", 3, "^bb9 is not defined"},
      {"    scf.for unsigned %i = %x to %x step %x : i32 {\n    }", 3, "unsigned"},
      {"    scf.yield %x : i32\n    %0 = arith.addi %x, %x : i32", 2, ""},
      {"    scf.for %i = %x to %x step %x : i32 {", 4, "expected '}', found 'tt.return'"},
      {"    %0 = tt.load %p \xff : !tt.ptr<i32>", 3, "a byte that is no text"},
      {"    tt.elementwise_inline_asm \"x\" {constraints = \"=r,=r\", packed_element = 1 : i32, pure = "
       "false} %x : i32 -> i32, i32",
       3, "no side effects"},
      {"    %0:2 = tt.elementwise_inline_asm \"x\" {constraints = \"=r,r\", packed_element = 1 : i32, pure = "
       "true} %x : i32 -> i32, i32",
       3, "expected 2 constraints of PTX registers for them, found 1"},
      {"    %0 = tt.elementwise_inline_asm \"x\" {constraints = \"=r,r\", packed_element = 32 : i32, pure = "
       "true} %x : i32 -> i32",
       3, "of 1 to 16, found 32"},
      {"    %0 = tt.experimental_descriptor_load %p[%x, %x] : !tt.ptr<i8> -> tensor<8x8xf32>", 3,
       "the descriptor lies in memory"},
      {"    %0 = tt.reinterpret_tensor_descriptor %p : !tt.ptr<i8> to !tt.tensordesc<tensor<8x8xf32>>", 3,
       "the descriptor lies in memory"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[2048];
    snprintf(text, sizeof text,
             "module {\n  tt.func public @k(%%p: !tt.ptr<i32>, %%x: i32) {\n%s\n    tt.return\n  }\n}\n#loc1 "
             "= loc(\"a\"(#loc2))\n"
             "#loc2 = loc(callsite(#loc3 at #loc1))\n#loc3 = loc(\"soft max.py\":12:8)\n",
             rows[i].body);
    check_refused(text, rows[i].line, rows[i].text);
  }
}

// Every cast from every type to every type: it is read where MLIR's own rules for it hold, else refused.
TEST(ttir_errors, casts_between_all_types) {
  enum { I = 1, F = 2, P = 4 };
  static const struct {
    const char *name;
    int class, bits;
  } types[] = {{"i1", I, 1},    {"i8", I, 8},       {"i16", I, 16},   {"i32", I, 32},
               {"i64", I, 64},  {"f16", F, 16},     {"bf16", F, 16},  {"f32", F, 32},
               {"f64", F, 64},  {"f8E4M3FN", F, 8}, {"f8E5M2", F, 8}, {"!tt.ptr<f32>", P, 64},
               {"index", I, 64}};
  static const struct {
    const char *name;
    int from, to, widens; // -1: the result is narrower
  } casts[] = {{"arith.extf", F, F, 1},       {"arith.truncf", F, F, -1},     {"arith.extsi", I, I, 1},
               {"arith.extui", I, I, 1},      {"arith.trunci", I, I, -1},     {"arith.sitofp", I, F, 0},
               {"arith.uitofp", I, F, 0},     {"arith.fptosi", F, I, 0},      {"arith.fptoui", F, I, 0},
               {"tt.int_to_ptr", I, P, 0},    {"tt.ptr_to_int", P, I, 0},     {"tt.fp_to_fp", F, F, 0},
               {"arith.index_cast", I, I, 0}, {"arith.index_castui", I, I, 0}};
  enum { TYPES = sizeof types / sizeof *types };
  unsigned taken = 0;
  for (size_t c = 0; c < sizeof casts / sizeof *casts; c++)
    for (size_t k = 0; k < TYPES * TYPES; k++) {
      size_t from = k / TYPES, to = k % TYPES;
      char text[512];
      snprintf(
          text, sizeof text,
          "module {\n  tt.func public @k(%%p: !tt.ptr<i32>, %%x: %s) {\n    %%0 = %s %%x : %s to %s\n    "
          "tt.return\n  }\n}\n",
          types[from].name, casts[c].name, types[from].name, types[to].name);
      bool wider = types[to].bits > types[from].bits, narrower = types[to].bits < types[from].bits;
      bool valid = types[from].class == casts[c].from && types[to].class == casts[c].to &&
                   (casts[c].widens <= 0 || wider) && (casts[c].widens >= 0 || narrower);
      ttir_read t = ttir_read_text(text);
      if (valid != (t.kernel != NULL))
        FAIL("%s from %s to %s is %s: %s", casts[c].name, types[from].name, types[to].name,
             valid ? "refused" : "taken", ttir_first_error(&t));
      if (!valid) CHECK_INT(t.d.errors, 1);
      if (!valid) CHECK_INT(t.d.items[0].line, 3);
      taken += valid;
      ttir_read_end(&t);
    }
  CHECK(taken > 200);
}

// A pointer becomes i64 or another pointer; a float of 64 bits is no address.
TEST(ttir_errors, bitcasts_of_addresses) {
  static const char *const bodies[] = {"    %0 = tt.bitcast %d : f64 -> !tt.ptr<f32>",
                                       "    %0 = tt.bitcast %p : !tt.ptr<f32> -> f64",
                                       "    %0 = tt.int_to_ptr %d : f64 -> !tt.ptr<f32>"};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "module {\n  tt.func public @k(%%p: !tt.ptr<f32>, %%d: f64) {\n%s\n    tt.return\n  }\n}\n",
             bodies[i]);
    check_refused(text, 3, i == 2 ? "expected integers, found f64" : "a pointer becomes i64");
  }
}

TEST(ttir_errors, modules) {
  static const struct {
    const char *text;
    unsigned line;
    const char *want;
  } rows[] = {
      {"", 1, "expected a public tt.func"},
      {"module {\n}\n", 1, "expected a public tt.func"},
      {"module attributes {\"ttg.num-warps\" = 4 : i32} {\n}\n", 1, "TTGIR"},
      {"#blocked = #ttg.blocked<{}>\n", 1, "TTGIR"},
      {"module {\n  tt.func public @k(%x: i32) {\n", 2, "expected the end of the function"},
      {"module {\n  tt.func public @k(%x: tensor<8xi32>) {\n    tt.return\n  }\n}\n", 2, "found a tensor"},
      {"module {\n  tt.func public @k(%x: i32)\n}\n", 3, "expected '{'"},
      {"module {\n  tt.func public @k(%x: i32) {\n    tt.return %x : i32\n  }\n}\n", 3,
       "a kernel returns nothing"},
      {"hello\n", 1, "expected module, tt.func or a location alias, found 'hello'"},
      {"module {\n  tt.func public @k() {\n    tt.return\n  }\n}\n{-# external #-}\n", 6, "expected module"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    check_refused(rows[i].text, rows[i].line, rows[i].want);
}

// A builder's refusal while an operand is widened ends there: its scales are not read against what is not there.
TEST(ttir_errors, scaled_pointers) {
  check_refused("module {\n  tt.func public @k(%p: !tt.ptr<bf16>) {\n"
                "    %x = tt.splat %p : !tt.ptr<bf16> -> tensor<2x32x!tt.ptr<bf16>>\n"
                "    %y = arith.constant dense<1.0> : tensor<32x2xf16>\n"
                "    %z = arith.constant dense<1.0> : tensor<2x2xf32>\n"
                "    %s = arith.constant dense<127> : tensor<2x1xi8>\n"
                "    %d = tt.dot_scaled %x scale %s, %y, %z lhs = bf16 rhs = fp16 {fastMath = false} : "
                "tensor<2x32x!tt.ptr<bf16>>, tensor<2x1xi8> * tensor<32x2xf16> -> tensor<2x2xf32>\n"
                "    tt.return\n  }\n}\n",
                7, "cast: expected i1, integers, floats or fp8, found *bf16[2, 32]");
}

// Regions inside regions end in a message, not in the stack's end.
TEST(ttir_errors, nesting_is_bounded) {
  enum { LEVELS = 5000 };
  size_t capacity = 64 + LEVELS * 16, size = 0;
  char *text = malloc(capacity);
  size += (size_t)snprintf(text, capacity, "module {\n  tt.func public @k(%%c: i1) {\n");
  for (int i = 0; i < LEVELS; i++) size += (size_t)snprintf(text + size, capacity - size, "scf.if %%c {\n");
  ttir_read t = ttir_read_text(text);
  CHECK(!t.kernel);
  ttir_read_end(&t);
  for (int i = 0; i < LEVELS && size + 2 < capacity; i++) text[size++] = '}';
  text[size] = 0;
  t = ttir_read_text(text);
  CHECK(!t.kernel);
  CHECK(t.d.count > 0);
  ttir_read_end(&t);
  free(text);
}
