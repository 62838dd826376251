// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the reader of Triton IR refuses: one message each, with the line of the text and the place in Python.
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
      {"    %0 = arith.constant dense<[1, 2]> : tensor<2xi32>", 3, "constants of several different elements"},
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
      {"    %v = tt.load %p, %x {boundaryCheck = array<i32: 0>} : !tt.ptr<i32>", 3, "block pointers"},
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

TEST(ttir_errors, a_print_is_a_warning) {
  ttir_read t = ttir_read_good("module {\n  tt.func public @k(%x: i32) {\n    tt.print \" x: \" {hex = "
                               "false, isSigned = array<i32: 1>} : %x : i32\n    "
                               "tt.return\n  }\n}\n");
  CHECK_INT(t.d.count, 1);
  CHECK_INT(t.d.items[0].severity, KILN_WARNING);
  CHECK_INT(t.d.items[0].line, 3);
  ttir_read_end(&t);
}
