# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs of the kernel language, and changes of them, compiled for the host and compared with an evaluator of the text
(kernel_language.py) that shares nothing with the compiler. A program that is generated must compile and agree; one that was changed
is refused with its place or agrees. KILN_TEST_FULL=1 runs many more; KILN_TEST_SEED=N[,COUNT] chooses them."""
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

FULL = bool(os.environ.get("KILN_TEST_FULL"))

import support  # noqa: E402
from canary import Array  # noqa: E402
from support import BUILD

import kiln  # noqa: E402

try:
    import numpy as np
    import kernel_language as language
    import kernel_programs as programs
except ImportError:
    np = None

MESSAGE = re.compile(r"^(.*?\.kiln)(?::(\d+):(\d+))?: error: (.*)$", re.M)


def arguments(seed):
    """Scalars and buffers by name."""
    rng = np.random.default_rng(seed)
    kinds = {"i32": np.int32, "i64": np.int64, "f32": np.float32}
    buffers = {}
    for name, kind in programs.INPUTS.items():
        numbers = rng.uniform(-4, 4, programs.INPUT_COUNT) if kind == "f32" else rng.integers(-100, 100, programs.INPUT_COUNT)
        buffers[name] = numbers.astype(kinds[kind])
    for name, kind in programs.OUTPUTS.items():
        buffers[name] = np.full(programs.PROGRAM_COUNT * programs.PROGRAMS, 77, kinds[kind])
    scalars = {"n": np.int32(rng.integers(-5, 50)), "m": np.int64(rng.integers(-5, 50)), "f": np.float32(rng.uniform(-3, 3))}
    return scalars, buffers


def judged(text, seed):
    """What memory should hold afterwards, or which exception says why there is no answer."""
    scalars, buffers = arguments(seed)
    try:
        language.run(text, scalars, buffers)
    except (language.Refused, language.Undefined, language.Unsupported) as e:
        return e
    except RecursionError:
        return language.Unsupported("deep")
    return buffers


class Batch:
    """Programs built by one command, each a file and a kernel of its own."""

    def __init__(self, folder, texts):
        self.folder, self.texts, self.errors = folder, texts, {}
        names = []
        for i, text in enumerate(texts):
            names.append(os.path.join(folder, "k%d.kiln" % i))
            with open(names[-1], "w") as file:
                file.write(text.replace("NAME", "k%d" % i, 1))
        self.bundle = os.path.join(folder, "all.kbundle")
        self.output, left = "", list(range(len(texts)))
        while left and not os.path.exists(self.bundle):  # a source that cannot be opened stops the build: the next one goes without it
            self.build([names[i] for i in left])
            if self.status == 0 or not any(i in self.errors for i in left):
                break
            left = [i for i in left if i not in self.errors]

    def build(self, names):
        command = [os.path.join(BUILD, "bin", "kiln"), "build", "-q", "--keep-going", "--no-cache", "--optimise=1", "-j", "2", "-t", "host",
                   "-o", self.bundle] + names
        result = subprocess.run(command, capture_output=True, timeout=600, encoding="utf-8", errors="replace")
        self.status, self.output = result.returncode, self.output + result.stderr
        for m in MESSAGE.finditer(result.stderr):
            which = re.search(r"k(\d+)\.kiln$", m[1])
            if which and "[KILN-E0012]" not in m[4]:
                self.errors.setdefault(int(which[1]), []).append((int(m[2] or 0), int(m[3] or 0), m[4]))

    def kernels(self):
        if not os.path.exists(self.bundle):
            return None, []
        library = kiln.Library(self.bundle)
        return library, set(library.kernels)


def differing(want, got):
    for name in programs.OUTPUTS:
        a, b = want[name], got[name]
        same = (a == b) | ((a != a) & (b != b))
        if not same.all():
            at = int(np.argmin(same))
            return "%s[%d]: expected %s, found %s" % (name, at, a[at], b[at])
    for name in programs.INPUTS:
        if not np.array_equal(want[name], got[name]):
            return "%s has changed" % name
    return None


@unittest.skipIf(np is None, "NumPy is not installed")
class Programs(unittest.TestCase):
    def check(self, texts, seeds, must_compile):
        """Counts of how the programs went."""
        counts = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            batch = Batch(folder, texts)
            self.assertIn(batch.status, (0, 1), batch.output[-3000:])
            library, there = batch.kernels()
            device = library.device("host") if library else None
            for i, (text, seed) in enumerate(zip(texts, seeds)):
                told = "seed %d\n%s" % (seed, text)
                compiled = "k%d" % i in there
                if not compiled:
                    counts["refused"] += 1
                    errors = batch.errors.get(i, [])
                    self.assertTrue(errors, "no message for\n%s\n%s" % (told, batch.output[-3000:]))
                    self.assertTrue(all(line and column for line, column, _ in errors), "a message without a place: %s\n%s" % (errors, told))
                    self.assertFalse(must_compile, "%s\n%s" % (errors, told))
                    continue
                want = judged(text, seed)
                if isinstance(want, Exception):
                    self.assertNotIsInstance(want, language.Refused, "compiled, though: %s\n%s" % (want, told))
                    counts["%s: %s" % (type(want).__name__, want)] += 1
                    continue
                scalars, plain = arguments(seed)
                around = {name: Array(np, values, shift=seed % 5, is_read=name in programs.INPUTS) for name, values in plain.items()}
                got = {name: a.array for name, a in around.items()}
                kernel = device.kernel("k%d" % i)
                heads = re.search(r"\bkernel NAME\(([^)]*)\)", text)[1]
                kernel(*[got[n] if n in got else scalars[n] for n in re.findall(r"(\w+)\s*:", heads)])
                difference = differing(want, got)
                self.assertIsNone(difference, "%s\n%s" % (difference, told))
                for name, a in around.items():
                    self.assertEqual(a.check(name), "", told)
                counts["agreed"] += 1
            if library:
                device.close()
                library.close()
        return counts

    def sweep(self, first, count, seconds, make, must_compile):
        """Batches until `count` programs are done or the time is over; what was done."""
        total, start, batch = collections.Counter(), time.monotonic(), 20
        chosen = os.environ.get("KILN_TEST_SEED")
        if chosen:
            first, count = (int(n) for n in (chosen + ",1").split(",")[:2])
        for at in range(first, first + count, batch):
            seeds = range(at, min(at + batch, first + count))
            total += self.check([make(s) for s in seeds], seeds, must_compile)
            if not chosen and time.monotonic() - start > seconds:
                break
        print("%s: %s" % (self.id().split(".")[-1], ", ".join("%d %s" % (n, what) for what, n in total.most_common(8))), file=sys.stderr)
        return total

    def test_generated_programs_agree(self):
        total = self.sweep(1, 2000 if FULL else 80, 600 if FULL else 15, programs.program, True)
        self.assertGreater(total["agreed"], sum(total.values()) * 0.8)

    def test_changed_programs_are_refused_or_agree(self):
        total = self.sweep(10000, 10000 if FULL else 240, 900 if FULL else 15, lambda s: programs.changed(programs.program(s // 4), s), False)
        self.assertGreater(total["agreed"], 0)
        self.assertGreater(total["refused"], 0)


class Evaluator(unittest.TestCase):
    """The judge itself, where the language says plainly what holds."""

    def value(self, body, n=0, kind="int32", head="o: out *i32, n: i32"):
        o = np.full(8, 77, kind)
        language.run("kiln 1\nkernel k(%s) @fp(strict) {\n%s\n}\n" % (head, body), {"n": np.int32(n)}, {"o": o})
        return o[0]

    @unittest.skipIf(np is None, "NumPy is not installed")
    def test_meaning(self):
        chain = "let t = if n > 3 { yield 10 } else if n > 1 { yield 20 } else { yield 30 } store(o, t)"
        self.assertEqual([self.value(chain, n) for n in (4, 2, 0)], [10, 20, 30])
        self.assertEqual(self.value("var s = 0 for i in 0 .. n { let t = if i > 1 { s = s + i yield 1 } else { yield 2 } s = s + t } store(o, s)", 4), 11)
        self.assertEqual(self.value("store(o, 1) when true { if n == 1 { return } } store(o, 2)", 1), 1)
        self.assertEqual(self.value("store(o, -7 / 2 * 100 + -7 % 3)"), -301)
        self.assertEqual(self.value("store(o, (n + 2147483647) + 1)"), -2147483648)
        self.assertEqual(self.value("store(o, (n + 1) << 33)"), 2)
        self.assertEqual(self.value("store(o, (3.0e9 as f32) as i32)"), 2147483647)

    @unittest.skipIf(np is None, "NumPy is not installed")
    def test_refusals(self):
        for body in ("let t = if n > 3 { yield 1 } store(o, t)", "let t = if n > 3 { yield 1 } else { yield 1.5 } store(o, t)", "yield 1", "store(o, 1.5)",
                     "store(o, m)", "let a = 1 let a = 2", "a = 1", "let t = if n > 3 { return } else { yield 1 }", "for i in 0 .. n { return }",
                     "store(o, n / 0)", "if n { }", "store(o, load(o, n > 1, mask = n > 2))", "let p = 1 + ", "store(o, 3000000000 * 3000000000)"):
            with self.assertRaises(language.Refused, msg=body):
                self.value(body)


class Bench(unittest.TestCase):
    def test_it_asks_for_the_symbols_that_cubins_have(self):
        """bench/python_launch.py compares with cuLaunchKernel of the same code, which it finds by its symbol."""
        with open(os.path.join(support.ROOT, "bench", "python_launch.py")) as file:
            symbol = re.search(r'^SYMBOL = "(.*?)"', file.read(), re.M).group(1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "arrays.ptx")
            for count in (2, 8, 16):
                support.tool("compile", "-q", "--no-cache", "-t", "sm_90a", "--emit=ptx", "-k", "arrays%d" % count, "bench/python_launch.kiln", "-o", path)
                with open(path) as file:
                    self.assertIn(".entry " + symbol % count + "(", file.read())


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    failed = len(program.result.failures) + len(program.result.errors)
    skipped = len(program.result.skipped)
    print("%d passed, %d failed, %d skipped" % (program.result.testsRun - failed - skipped, failed, skipped))
    sys.exit(1 if failed else 0)
