# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`kiln run` on the host finds every access outside of a buffer, to the byte: reads and writes, before and after it, of every element type, with and without a
promised alignment, whatever the size; and it accuses nobody who stays inside. Drawn; KILN_TEST_SEED=N[,COUNT] chooses."""
import os
import random
import subprocess
import sys
import unittest

import support

SEED, COUNT = (list(map(int, os.environ["KILN_TEST_SEED"].split(","))) + [150])[:2] if os.environ.get("KILN_TEST_SEED") else (random.SystemRandom().randrange(1 << 31), 150)
TYPES = ("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
KERNEL = """
kernel %(name)s[T: type = f32](x: in *T%(align)s, y: out *T%(align)s, n: i32, from: i32, to: i32, put: i32, wide: i32) @grid(cdiv(wide, 32)) @config(warps = 1) %(instances)s
{
  let i = pid(0) * 32 + iota(32)
  store(y + (i + to), load(x + (i + from), i < n), i < put)
}
"""
SUM = """
kernel sums(x: in *f32 @align(64), y: out *f32, n: i32) @grid(1) @config(warps = 1)
{
  let i = iota(64)
  store(y, reduce.add(load(x + i, i < n, 0.0), 0))
}
kernel added(x: in *f32 @align(64), y: accum *f32, n: i32) @grid(8) @config(warps = 1)
{
  let i = iota(64)
  atomic.add(y, reduce.add(load(x + i, i < n, 0.0), 0))
}
"""
NAMES = {"plain": "", "aligned": " @align(16)", "strict": " @align(128)"}


class Bounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print("seed %d, %d draws" % (SEED, COUNT))
        source = os.path.join(FOLDER, "bounds.kiln")
        cls.bundle = os.path.join(FOLDER, "bounds.kbundle")
        instances = " ".join("@instance(T = %s)" % one for one in TYPES)
        with open(source, "w") as file:
            file.write("kiln 1\n" + "".join(KERNEL % {"name": name, "align": align, "instances": instances} for name, align in NAMES.items()) + SUM)
        support.tool("build", source, "-t", "host", "--no-cache", "-q", "-o", cls.bundle)

    def launch(self, kernel, **arguments):
        words = [word for name, value in arguments.items() for word in ("-a", "%s=%s" % (name, value))]
        done = subprocess.run([os.path.join(support.BUILD, "bin", "kiln"), "run", self.bundle, kernel, "-d", "host:2", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=support.plain_environment())
        return done.returncode, done.stdout.decode()

    def test_drawn_accesses(self):
        draw = random.Random(SEED)
        for _ in range(COUNT):
            kind, name = draw.choice(TYPES), draw.choice(sorted(NAMES))
            n = draw.choice((1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, draw.randrange(1, 2000)))
            size_x, size_y, start, to, put, why = n, n, 0, 0, n, None
            what = draw.choice(("inside", "inside", "inside with room", "read behind", "read before", "write behind", "write before", "read far behind", "write far before"))
            far = draw.choice((1, 2, 3, 64, 4096, 1 << 20))
            if what == "inside with room":
                size_x, size_y, start, to = n + far % 65, n + far % 65, draw.randrange(far % 65 + 1), draw.randrange(far % 65 + 1)
            elif what == "read behind":
                size_x, why = n - 1, "x"
            elif what == "read before":
                start, size_x, why = -1, n + far, "x"
            elif what == "write behind":
                size_y, why = n - 1, "y"
            elif what == "write before":
                to, size_y, why = -1, n + far, "y"
            elif what == "read far behind":
                start, why = far, "x"
            elif what == "write far before":
                to, why = -far, "y"
            arguments = {"x": "random:%d:%d" % (size_x, draw.randrange(1000)), "y": "fill:%d:77" % size_y, "n": n, "from": start, "to": to, "put": put, "wide": n}
            code, said = self.launch("%s[T=%s]" % (name, kind), **arguments)
            told = (SEED, what, kind, name, arguments, said)
            self.assertEqual(code, int(why is not None), told)
            if why:
                self.assertIn("argument '%s' (*%s) has %d elements, and the kernel %s" % (why, kind, {"x": size_x, "y": size_y}[why], "read" if why == "x" else "wrote"), said, told)

    def test_masked_lanes_touch_nothing(self):
        """A program is 32 wide: lanes that are off may lie outside, at both ends."""
        draw = random.Random(SEED + 1)
        for _ in range(COUNT // 3):
            kind, n = draw.choice(TYPES), draw.randrange(0, 70)
            code, said = self.launch("plain[T=%s]" % kind, x="ones:%d" % n, y="zeros:%d" % n, n=n, **{"from": 0, "to": 0}, put=n, wide=96)
            self.assertEqual(code, 0, (SEED, kind, n, said))

    def test_reads_of_a_gap_are_found_by_what_is_stored(self):
        for kernel in ("sums", "added"):
            for n in (1, 15, 16, 17, 63):
                self.assertEqual(self.launch(kernel, x="random:%d" % n, y="zeros:1", n=n)[0], 0)
                code, said = self.launch(kernel, x="random:%d" % n, y="zeros:1", n=n + 1)
                self.assertEqual(code, 1, said)
                self.assertIn("argument 'x' (*f32) has %d elements, and the kernel read " % n, said)

    def test_a_kernel_without_a_grid_is_a_warning(self):
        source, bundle = (os.path.join(FOLDER, "gridless." + ending) for ending in ("kiln", "kbundle"))
        with open(source, "w") as file:
            file.write("kiln 1\nkernel none(y: out *i32) @config(warps = 1) { store(y + pid(0), 1) }\nkernel one(y: out *i32) @grid(1) @config(warps = 1) { store(y + pid(0), 1) }\n"
                       "kernel some(y: out *i32, n: i32) @grid(n) @config(warps = 1) { store(y + pid(0), 1) }\n")
        support.tool("build", source, "-t", "host", "--no-cache", "-q", "-o", bundle)
        self.bundle = bundle
        text = "kiln: warning: kernel 'none' states no @grid: one program runs"
        self.assertEqual(self.launch("none", y="zeros:4"), (0, text + " (--grid=X,Y,Z)\n"))
        for kernel, more in (("one", {}), ("some", {"n": 1})):
            self.assertEqual(self.launch(kernel, y="zeros:4", **more), (0, ""))
        done = subprocess.run([os.path.join(support.BUILD, "bin", "kiln"), "run", bundle, "none", "-a", "y=zeros:4", "--grid=2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=support.plain_environment())
        self.assertEqual((done.returncode, done.stdout), (0, b""))


if __name__ == "__main__":
    sys.exit(support.main(__name__))
