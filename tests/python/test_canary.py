# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stands around arrays (canary.py): every byte outside that changes is named, none inside is; kernels that write one element past a row, before
and after an array are seen through the package, and one that reads there; around memory that frameworks allocate stand zones (zones.c)."""
import ctypes
import os
import random
import subprocess
import sys
import unittest

import support
support.with_zones()
from canary import Array, Canary, Tensor

import kiln

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None

ROWS = """kiln 1
kernel rows(x: in *f32, y: out *f32, rows: i32, cols: i32, ldx: i32, ldy: i32, more: i32, place: i32) @grid(rows) @config(warps = 1)
{
  let c = iota(64)
  let v = load(x + pid(0) * ldx + c, c < cols + more, 0.0)
  store(y + pid(0) * ldy + c, v + reduce.add(v, 0) * 0.0, c < cols)
  store(y + place, 5.0, (pid(0) == 0) & (place < rows * ldy))
}
"""

DAMAGING = """
import ctypes, sys, unittest
sys.path.insert(0, %r)
import support
support.with_zones()

class Damaging(unittest.TestCase):
    def test_bad(self):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        ctypes.memset(libc.malloc(16) + 16, 1, 2)

    def test_good(self):
        pass

if __name__ == "__main__":
    sys.exit(support.main(__name__))
"""
FOUND = [("", True), ("outside of a block of 84 bytes 4 are written, the first is byte -4", True),
         ("outside of a block of 84 bytes 4 are written, the first is byte 84", True), ("", False)]


class Canaries(unittest.TestCase):
    def expected(self, c, at):
        """By counting elements."""
        for n in range(1, c.before // c.element + 2):
            if at < c.before and at >= c.before - n * c.element:
                return "x: element %d before the first is written" % n
        begin = c.before
        for row in range(c.rows):
            for column in range(c.columns if row + 1 == c.rows else c.pitch):
                if begin <= at < begin + c.element:
                    return "" if column < c.columns else "x: row %d, column %d is written (of %d columns in rows of %d)" % (row, column, c.columns, c.pitch)
                begin += c.element
        return "x: element %d after the last is written" % ((at - begin) // c.element + 1)

    def test_every_byte(self):
        r = random.Random(1)
        for _ in range(60):
            columns = r.randrange(6)
            c = Canary(r.choice((1, 2, 4, 8)), r.randrange(5), columns, columns + r.randrange(4), 8 * r.randrange(3), 8 * r.randrange(3), r.random() < 0.5)
            block = c.pattern()
            self.assertEqual(c.check("x", block), "")
            for at in range(c.size()):
                block[at] ^= 1
                self.assertEqual(c.check("x", block), self.expected(c, at))
                block[at] ^= 1

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_tensors(self):
        r = random.Random(2)
        for _ in range(40):
            shape = [r.randrange(1, 4) for _ in range(r.randrange(1, 4))]
            t = Tensor(torch, shape, r.choice((torch.float32, torch.bfloat16)), "cpu", 3.0, shape[-1] + r.randrange(3), r.randrange(5), r.random() < 0.5)
            self.assertEqual(t.tensor.tolist(), torch.full(shape, 3.0).tolist())
            self.assertEqual(t.check("x"), "")
            for at in r.sample(range(t.canary.size()), 60):
                t.block[at] ^= 1
                self.assertEqual(t.check("x"), self.expected(t.canary, at))
                t.block[at] ^= 1

    @unittest.skipIf(np is None, "NumPy is not installed")
    def test_kernels(self):
        source, bundle = os.path.join(FOLDER, "rows.kiln"), os.path.join(FOLDER, "rows.kbundle")
        with open(source, "w") as file:
            file.write(ROWS)
        support.tool("build", source, "-t", "host", "--no-cache", "-q", "-o", bundle)
        device = kiln.Library(bundle).device("host")
        kernel, values = device.kernel("rows"), np.arange(21, dtype=np.float32).reshape(3, 7)

        def run(more, place):
            x, y = Array(np, values, 9, 3, is_read=True), Array(np, np.zeros((3, 7), np.float32), 10, 1)
            flat = [a.block[a.canary.before:a.canary.before + a.canary.inner()].view(np.float32) for a in (x, y)]
            kernel(*flat, 3, 7, 9, 10, more, place)
            self.assertEqual(x.check("x"), "")
            return y.check("y"), np.array_equal(y.array, values)
        self.assertEqual(run(0, 1000), ("", True))
        self.assertEqual(run(0, 17), ("y: row 1, column 7 is written (of 7 columns in rows of 10), and 3 bytes more", True))
        self.assertEqual(run(0, -1), ("y: element 1 before the first is written, and 3 bytes more", True))
        self.assertEqual(run(0, 27), ("y: element 1 after the last is written, and 3 bytes more", True))
        self.assertEqual(run(1, 1000), ("", False))  # NaN beside x shows
        if support.has_zones():
            self.assertEqual(self.found_by_zones(kernel, np.zeros, lambda x: not np.isnan(x).any()), FOUND)
            if torch is not None:
                self.assertEqual(self.found_by_zones(kernel, torch.zeros, lambda x: not x.isnan().any()), FOUND)

    def found_by_zones(self, kernel, zeros, is_whole):
        """What is seen of a kernel that stays inside, writes one element before and after an array, and reads there."""
        found = []
        for more, place in ((0, 1 << 20), (0, -1), (0, 21), (1, 1 << 20)):
            x, y = zeros(21), zeros(21)
            if "float32" not in str(x.dtype):
                x, y = x.astype(np.float32), y.astype(np.float32)
            kernel(x[14:], y, 1, 7, 7, 100, more, place)
            found.append((support.damaged_zones(), bool(is_whole(y))))
        return found

    @unittest.skipUnless(support.has_zones(), "no zones around memory")
    def test_a_test_that_damages_a_zone_has_failed(self):
        path = os.path.join(FOLDER, "damaging.py")
        with open(path, "w") as file:
            file.write(DAMAGING % os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=support.plain_environment())
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 1, said)
        self.assertIn("FAIL: test_bad", said)
        self.assertIn("outside of a block of 16 bytes 2 are written, the first is byte 16", said)
        self.assertIn("1 passed, 1 failed, 0 skipped", said)

    @unittest.skipUnless(support.has_zones(), "no zones around memory")
    def test_every_byte_of_zones(self):
        """Blocks of each kind, by the function that allocated them; a byte of a zone at a time."""
        libc, r = ctypes.CDLL(None), random.Random(3)
        for name in ("malloc", "calloc", "realloc", "aligned_alloc", "memalign"):
            getattr(libc, name).restype = ctypes.c_void_p
        libc.free.argtypes = [ctypes.c_void_p]
        for _ in range(16):
            size, alignment = r.randrange(300), 1 << r.randrange(4, 12)
            make = r.choice((lambda: libc.malloc(size), lambda: libc.calloc(1, size), lambda: libc.realloc(ctypes.c_void_p(libc.malloc(7)), size + 1),
                             lambda: libc.aligned_alloc(alignment, size), lambda: libc.memalign(alignment, size)))
            memory = make()
            size = libc.malloc_usable_size(ctypes.c_void_p(memory))
            ctypes.memset(memory, 1, size)
            self.assertEqual(support.damaged_zones(), "")
            for at in (-128, -1, size, size + 127, r.randrange(-128, 0), size + r.randrange(128)):
                byte = ctypes.c_uint8.from_address(memory + at)
                byte.value ^= 1
                if r.random() < 0.3:
                    libc.free(memory)
                    memory = None
                self.assertEqual(support.damaged_zones(), "outside of a block of %d bytes 1 are written, the first is byte %d" % (size, at))
                if memory is None:
                    break
            libc.free(memory)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
