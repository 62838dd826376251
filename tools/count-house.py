#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts what a reader of the tree has to follow; docs/architecture.md has the results under "Structure".

    make count-house                        # builds what it follows, then runs this
    tools/count-house.py --places ROW       # names the places of the rows whose text has this word

What is entered comes from traces: the programs are built without optimisation, and tools/house/trace_calls.c records each call. The product that is compiled is that
of docs/how-it-works.md. Both programs count, kiln and its worker, and a function that both enter counts once. The file of a function is where
its body is; functions of the C library, LLVM and other libraries do not count.

A *way* is what somebody reads who follows a run with the sources open. He reads each function once. Where it calls a function that he has not read, he goes
there, and afterwards returns to the caller, and further up if the next unread call is there. A *stop* is a file that he is in, until he is in another; a
*return* is a stop in a file in which he was before. So the stops are the files and the returns. A way may have several parts, read in order of execution:

- `dot`: the functions in HANDLERS, from entry to exit. They are what GPU code generation does with a product and the tiles that it reads, which on sm_90a are
  copied by tensor maps and on sm_80 by threads. Whoever renames or merges one changes the list; a name that no source has is an error.
- a launch: kiln_launch, twice on `cuda` (the interpreter of PTX stands in for the driver) and twice on `null`.

Called once: exactly one other place names the function, in all C of the product; short: at most 6 lines between the braces. Changes a signature: all it does is call
another function with names, fields and constants. Both count functions that the product entered; in parentheses, those of them that are a value where they are named
(a row of a table, a callback), which no caller can take in, and those of all sources.
A circle is a group of C files each of which reaches all others by calls of external functions by name, in all sources; calls through tables do not count.
A stage can be read back if `kiln compile` takes what it prints and makes the same PTX of it; the stages are the canonical form, every pass on sm_90a and
sm_80, and LLVM's. Lines and heads: files that git knows. tools/ptx/ is an instrument, and counts only where heads of files are counted."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "house"))
import entered  # noqa: E402
import sources  # noqa: E402

HANDLERS = ("kiln_judge_product", "roles_consume", "assign_mma", "take_sums", "assign_dot", "take_dot", "gpu_note_product", "lower_copy",
            "gpu_lower_fetch", "gpu_lower_slot_load", "gpu_lower_dot", "nvptx_lower_mma")
GEMM = "gemm[T=bf16,ACT=0,BIAS=false]"


def run(command, **variables):
    done = subprocess.run(command, env=dict(os.environ, **variables), capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(command), done.stderr.strip()[-2000:]))
    return done.stderr


class House:
    def __init__(self, build, traced, folder):
        self.build, self.traced, self.folder = build, traced, folder
        self.programs = [entered.Program("%s/bin/%s" % (traced, p)) for p in ("kiln", "kiln-codegen", "launch-twice")]
        self.product = os.path.join(folder, "product.kiln")
        page = open("docs/how-it-works.md", encoding="utf-8").read()
        with open(self.product, "w", encoding="utf-8") as file:
            file.write(re.search(r"```kiln product\.kiln\n(.*?)```", page, re.S)[1])
        self.paths = sources.product_files()
        without_comments = sources.lint().without_comments
        self.texts = {p: without_comments(open(p, encoding="utf-8").read()) for p in self.paths if p.endswith((".c", ".h", ".cpp", ".def"))}
        self.definitions = sources.definitions({p: t for p, t in self.texts.items() if not p.startswith(sources.OUTSIDE)})

    def trace(self, command, **variables):
        folder = tempfile.mkdtemp(dir=self.folder)
        run(command, TMPDIR=folder, **variables)
        result = entered.Run(folder, self.programs)
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        return result

    def compile(self, *arguments, output="out.ptx"):
        return [self.traced + "/bin/kiln", "compile", "-q", "-o", os.path.join(self.folder, output), "--emit=ptx"] + list(arguments)

    def way_of_dot(self, target):
        known = {d.name for d in self.definitions}
        for name in HANDLERS:
            if name not in known:
                sys.exit("no function is called '%s': HANDLERS of tools/count-house.py is to name what took its place" % name)
        traced = self.trace(self.compile("--no-cache", "-t", target, "-k", GEMM, "kernels/gemm.kiln"))
        return list(traced.parts(HANDLERS))

    def way_of_launch(self):
        bundle = os.path.join(self.folder, "gemm.kbundle")
        run([self.build + "/bin/kiln", "build", "-q", "--no-cache", "--emit=ptx", "-t", "sm_90a", "-k", GEMM, "-o", bundle, "kernels/gemm.kiln"])
        traced = self.trace([self.traced + "/bin/launch-twice", bundle, GEMM, "cuda", "null"], KILN_PTX_TARGET="90",
                            LD_LIBRARY_PATH=self.build + "/interpreted")
        return list(traced.parts(["kiln_launch"]))

    def product_run(self):
        return self.trace(self.compile("--no-cache", "-t", "sm_90a", self.product))

    def hit(self):
        command = self.compile("--cache-dir=" + os.path.join(self.folder, "cache"), "-t", "sm_90a", self.product)
        run(command, TMPDIR=tempfile.mkdtemp(dir=self.folder))
        return self.trace(command + ["--must-hit"])

    def stages(self):
        """(stage, whether what it prints makes the same PTX)."""
        kiln = [self.build + "/bin/kiln", "compile", "-q", "--no-cache"]
        tried, here = {}, lambda name: os.path.join(self.folder, name)
        plain = lambda name: re.sub(r"\b(kiln_)+", "kiln_", open(here(name), encoding="utf-8").read())
        for target in ("sm_90a", "sm_80"):
            ask = kiln + ["-t", target, self.product]
            passes = re.findall(r"^after (\S+)$", run(ask + ["--emit=ptx", "--print-after=all", "-o", here("whole.ptx")]), re.M)
            dumps = [("ir", "ir.kiln", ["--emit=ir"]), ("llvm", "llvm.kir", ["--until=llvm"])]
            for stage, name, how in dumps + [(p, "pass.kir", ["--until=" + p]) for p in passes]:
                run(ask + how + ["-o", here(name)])
                again = subprocess.run(kiln + ["-t", target, "--emit=ptx", "-o", here("again.ptx"), here(name)], capture_output=True)
                tried[stage] = tried.get(stage, True) and not again.returncode and plain("whole.ptx") == plain("again.ptx")
        return sorted(tried.items())


def ways(house):
    """Rows: (text, values, bars, places)."""
    for text, parts in (("the way of `dot`, `gemm[T=bf16]` on sm_90a: stops, files, returns", house.way_of_dot("sm_90a")),
                        ("the way of `dot` on sm_80", house.way_of_dot("sm_80")),
                        ("the way of `kiln_launch`, on cuda and null", house.way_of_launch())):
        stops = entered.way(parts)
        yield text, entered.count(stops), (60, 15, 30), ["%s: %s" % (path, " ".join(names) or "(return)") for path, names in stops]


def runs(house):
    product = house.product_run()
    functions, hit = product.functions(), house.hit().functions()
    yield "a bf16 product compiled to PTX enters: files, functions", (len({f.path for f in functions}), len(functions)), (100, 900), sorted(map(str, functions))
    yield "a cache hit enters: files, functions", (len({f.path for f in hit}), len(hit)), (50, 400), sorted(map(str, hit))
    yield "lines of the product's folders", (sources.line_count(house.paths),), (93000,), []
    names = {(f.path, f.name) for f in functions}
    for text, rule, bar in (("functions with at most 6 lines that one place calls", sources.is_short_and_used_once, 40),
                            ("functions that only change a signature", sources.only_changes_a_signature, 0)):
        all_of_them = [d for d in house.definitions if rule(d)]
        entered_ones = [d for d in all_of_them if (d.path, d.name) in names]
        found = ["%s:%d: %s%s" % (d.path, d.line, d.name, " (a value)" * d.is_value) for d in entered_ones]
        values = sum(d.is_value for d in entered_ones)
        yield "%s (values among them: %d; in all sources: %d)" % (text, values, len(all_of_them)), (len(found),), (bar,), found
    circles = sources.circles(sources.file_calls(house.texts, house.definitions))
    yield "circles of files that call each other (files in them: %d)" % sum(map(len, circles)), (len(circles),), (6,), [" ".join(c) for c in circles]


def texts(house):
    stages = house.stages()
    bad = [name for name, is_good in stages if not is_good]
    yield "stages of %d whose text cannot be read back and compiled on" % len(stages), (len(bad),), (0,), bad
    files = [p for p in house.paths if p.endswith(".c")]
    silent = [p for p in files if not sources.has_head(p)]
    yield "`.c` files of %d whose head does not say what they are for" % len(files), (len(silent),), (0,), silent
    rows = next(open(p, encoding="utf-8").read() for p in house.paths if p.endswith("/ops.def"))
    tables = ["%s: %s" % t for t in sources.tables_by_operation(house.texts, re.findall(r"^OP\((\w+)", rows, re.M))]
    yield "tables by operation outside `ops.def` and the lowerings", (len(tables),), (8,), tables


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release", help="the build folder whose programs it runs")
    parser.add_argument("--traced", default="build/traced", help="the build folder whose programs it follows")
    parser.add_argument("--places", metavar="WORD", help="name the places of the rows whose text has this word")
    arguments = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    with tempfile.TemporaryDirectory() as folder:
        house = House(arguments.build, arguments.traced, folder)
        for rows in (ways, runs, texts):
            for text, values, bars, places in rows(house):
                state = "ok" if all(v <= b for v, b in zip(values, bars)) else "above %s" % ", ".join(map(str, bars))
                print("%18s  %-32s %s" % (", ".join(map(str, values)), state, text), flush=True)
                if arguments.places and arguments.places in text:
                    print("".join("%20s%s\n" % ("", p) for p in places), end="")


if __name__ == "__main__":
    main()
