# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/count-house.py counts what it says: each rule on small sources with a known answer, and the way of a reader through a traced program that is
compiled here. Answers are counted by hand."""
import collections
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "house"))
import entered  # noqa: E402
import sources  # noqa: E402

At = collections.namedtuple("At", "path name")


def definitions(**texts):
    return {d.name: d for d in sources.definitions({"x/%s.c" % n: textwrap.dedent(t) for n, t in texts.items()})}


class Rules(unittest.TestCase):
    def test_called_once(self):
        found = definitions(a="""\
            int external(int x);

            static int once(int x) {
              return x + 1;
            }

            static int twice(int x) { return x + 2; }

            static int listed(int x) { return x + 3; }

            static int tall(int x) {
              x += 1;
              x += 2;
              x += 3;
              x += 4;
              x += 5;
              x += 6;
              return x;
            }

            int external(int x) {
              int (*row)(int) = listed;
              return once(x) + twice(x) + twice(x) + listed(x) + row(x) + tall(x);
            }
            """, b="""\
            int external(int x);

            int main(void) { return external(1); }
            """)
        self.assertEqual(sorted(n for n, d in found.items() if sources.is_short_and_used_once(d)), ["external", "once"])

    def test_values(self):
        found = definitions(a="""\
            static int called(int x) { return x; }

            static int passed(int x) { return x; }

            static int in_table(int x) { return x; }

            static int (*const table[])(int) = {in_table};

            int main(void) { return called(1) + each(passed) + table[0](1); }
            """)
        self.assertEqual({n: (d.calls, d.is_value) for n, d in found.items() if n != "main"}, {"called": (1, False), "passed": (1, True), "in_table": (1, True)})

    def test_data_is_no_head_of_a_function(self):
        for data in ("static const int all[] = {1, 2};", "static const int all[] = {1,\n                          2};", "static const int all[] = {\n  1,\n};"):
            (found,) = sources.definitions({"x/a.c": data + "\n\nint after(void) {\n  return all[0];\n}\n"})
            self.assertEqual((found.name, found.is_static, found.line), ("after", False, data.count("\n") + 3))

    def test_static_functions_of_headers(self):
        texts = {"x/a.h": "static inline int shared(int x) {\n  return x;\n}\n", "x/a.c": "int a(void) { return shared(1); }\n", "x/b.c": "int b(void) { return shared(2); }\n"}
        self.assertEqual({d.name: d.calls for d in sources.definitions(texts)}, {"shared": 2, "a": 0, "b": 0})

    def test_changes_a_signature(self):
        bodies = {"plain": "return inner(x, y);", "with_constant": "return inner(x, -1);", "with_field": "inner(&s->field, s->other.x);", "with_cast": "return (int)inner((long)x, y);",
                  "computes": "return inner(x + 1, y);", "calls": "return inner(outer(x), y);", "steps": "x++; return inner(x, y);", "tests": "return x ? inner(x, y) : 0;", "adds": "return inner(x, y) + 1;"}
        found = definitions(a="".join("static int %s(int x, int y) {\n  %s\n}\n\n" % b for b in bodies.items()))
        self.assertEqual([n for n in bodies if sources.only_changes_a_signature(found[n])], ["plain", "with_constant", "with_field", "with_cast"])

    def test_circles(self):
        self.assertEqual(sources.circles({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "f"), ("f", "e"), ("g", "d")}), [("a", "b", "c"), ("e", "f")])
        self.assertEqual(sources.circles({("a", "b"), ("b", "c"), ("a", "c")}), [])

    def test_calls_of_files(self):
        texts = {"x/a.c": "int f(void) {\n  return g();\n}\n", "x/b.c": "int g(void) {\n  return 0;\n}\n", "x/c.c": "static int g(void) {\n  return f;\n}\n"}
        self.assertEqual(set(sources.file_calls(texts, sources.definitions(texts))), {("x/a.c", "x/b.c")})

    def test_heads(self):
        licence = "// SPDX-License-Identifier: X\n"
        for text, is_good in (("// Reads a file into memory.\n", True), ("// kiln verify: is every byte as it was written?\n", True), ("// The layout, as v1.2 has it: a head,\n// then rows.\n", True),
                              ("// Reads.\n", False), ("// reads a file into memory\n", False), ("", False), ("#include <stdio.h>\n// Reads a file into memory.\n", False)):
            self.assertEqual(sources.lint().has_sentence(sources.lint().head_of(licence + text)), is_good, text)

    def test_tables(self):
        rows = "[IR_ADD] = 1, [IR_SUB] = 2, [IR_MUL] = 3"
        texts = {"c/a.c": "static const int by_code[IR_OPCODE_COUNT] = {[IR_ADD] = 1};\nstatic int rows[] = {%s};\nstatic int two[] = {[IR_ADD] = 1, [IR_SUB] = 2};\n" % rows,
                 "c/b.c": "static const struct row {\n  int code;\n} list[] = {{IR_ADD, 1}, {IR_SUB, 2}, {3, IR_MUL}};\nstatic int (*const calls[IR_OPCODE_COUNT])(int, int) = {%s};\n" % rows,
                 "c/codegen/c.c": "int low[IR_OPCODE_COUNT] = {%s};\n" % rows, "c/ops.def": "OP(IR_ADD)\nOP(IR_SUB)\nOP(IR_MUL)\n", "c/d.def": "ROW(IR_ADD)\nROW(IR_SUB)\nROW(1, IR_MUL)\n",
                 "c/e.def": "ROW(IR_ADD)\n", "c/f.c": "const info ir_ops[IR_OPCODE_COUNT] = {%s};\n" % rows}
        found = [name for _, name in sources.tables_by_operation(texts, ["ADD", "SUB", "MUL"])]
        self.assertEqual(found, ["by_code", "rows", "list", "calls", "d.def"])

    def test_tables_as_switches(self):
        switch = "static int %s(int code, int x) {\n  switch (code) {\n%s\n  default: return 0;\n  }\n}\n"
        rows = {"names": "  case IR_ADD: return add;\n  case IR_SUB: return x ? sub : other;\n  case IR_MUL:\n  case IR_DIV: return mul;",
                "records": "  case IR_ADD: return (row){.f = add};\n  case IR_SUB: return (row){.f = sub};\n  case IR_MUL: return (row){.f = mul};",
                "two_rows": "  case IR_ADD: return add;\n  case IR_SUB:\n  case IR_MUL: return sub;",
                "computes": "  case IR_ADD: return add(x);\n  case IR_SUB: return sub(x);\n  case IR_MUL: return mul(x);",
                "others": "  case KIND_A: return a;\n  case KIND_B: return b;\n  case KIND_C: return c;"}
        texts = {"c/%s.c" % name: switch % (name, text) for name, text in rows.items()}
        found = [name for _, name in sources.tables_by_operation(texts, ["ADD", "SUB", "MUL", "DIV"])]
        self.assertEqual(found, ["names", "records"])


class Ways(unittest.TestCase):
    def test_stops(self):
        a, a2, b, c = At("a.c", "a"), At("a.c", "a2"), At("b.c", "b"), At("c.c", "c")
        for part, way in (([a, a2, 0, 0], ["a.c"]),
                          ([a, b, 0, b, 0, 0], ["a.c", "b.c"]),  # read once
                          ([a, b, 0, a2, 0, 0], ["a.c", "b.c", "a.c"]),
                          ([a, b, c, 0, 0, a2, 0, 0], ["a.c", "b.c", "c.c", "b.c", "a.c"]),  # up through the caller
                          ([a, b, 0, b, c, 0, 0, 0], ["a.c", "b.c", "c.c"])):
            self.assertEqual([path for path, _ in entered.way([part])], way)
        stops = entered.way([[a, b, 0, a2, 0, 0], [c, b, 0, 0]])
        self.assertEqual(stops, [("a.c", ["a"]), ("b.c", ["b"]), ("a.c", ["a2"]), ("c.c", ["c"])])
        self.assertEqual(entered.count(stops), (4, 3, 1))

    def test_traced_program(self):
        program = """\
            #include <pthread.h>
            static int leaf(int x) { return x + 1; }
            static inline int middle(int x) { return leaf(x) + leaf(x); }
            static void *other(void *x) { return x; }
            int main(void) {
              pthread_t thread;
              if (pthread_create(&thread, NULL, other, NULL) || pthread_join(thread, NULL)) return 1;
              return middle(1) + middle(2) - 10;
            }
            """
        with tempfile.TemporaryDirectory() as folder:
            source, binary, traces = (os.path.join(folder, n) for n in ("p.c", "p", "traces"))
            os.mkdir(traces)
            with open(source, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(program))
            tracer = os.path.join(folder, "t.o")
            flags = ["-std=c11", "-D_GNU_SOURCE"]
            subprocess.run(["gcc"] + flags + ["-O2", "-c", os.path.join(ROOT, "tools/house/trace_calls.c"), "-o", tracer], check=True)
            subprocess.run(["gcc"] + flags + ["-O0", "-g1", "-finstrument-functions", source, tracer, "-lpthread", "-o", binary], check=True)
            subprocess.run([binary], check=True, env={"TMPDIR": traces})
            run = entered.Run(traces, [entered.Program(binary, folder)])
            self.assertEqual(sorted((f.path, f.name) for f in run.functions()), [("p.c", n) for n in ("leaf", "main", "middle", "other")])
            parts = [[f and f.name for f in part] for part in run.parts(["middle"])]
            self.assertEqual(parts, [["middle", "leaf", 0, "leaf", 0, 0]] * 2)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
