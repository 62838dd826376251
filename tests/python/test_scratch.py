# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scratch memory of launches: what the caller gives is used, too little or none is not, and other things are refused. Needs NumPy."""
import os
import unittest

import support
support.with_zones()

import kiln  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

FOLDER = BUNDLE = SCRATCH = None
# 2 (x + 1) with scratch memory, where x + 1 stays; x - 1 without.
SOURCE = """kiln 1
kernel steps(x: in *f32 @size(n), y: out *f32 @size(n), n: i32) @grid(1) @config(warps = 1)
  launches {
    if n > 4 {
      scratch(4 * n)
      more(x, scratch, n)
      twice(scratch, y, n)
    }
  }
{
  let i = iota(64)
  store(y + i, load(x + i, i < n) - 1.0, i < n)
}
kernel more(x: in *f32 @size(n), y: out *f32 @size(n), n: i32) @grid(1) @config(warps = 1)
{
  let i = iota(64)
  store(y + i, load(x + i, i < n) + 1.0, i < n)
}
kernel twice(x: in *f32 @size(n), y: out *f32 @size(n), n: i32) @grid(1) @config(warps = 1)
{
  let i = iota(64)
  store(y + i, load(x + i, i < n) * 2.0, i < n)
}
"""


def setUpModule():
    global SCRATCH
    SCRATCH = os.path.join(FOLDER, "scratch.kbundle")
    with open(os.path.join(FOLDER, "scratch.kiln"), "w") as file:
        file.write(SOURCE)
    support.tool("build", os.path.join(FOLDER, "scratch.kiln"), "-t", "host", "--no-cache", "-q", "-o", SCRATCH)


@unittest.skipIf(np is None, "NumPy is not installed")
class Scratch(unittest.TestCase):
    def setUp(self):
        self.library = kiln.Library(SCRATCH)
        self.device = self.library.device("host")
        self.kernel = self.device.kernel("steps")
        self.x, self.y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        self.memory = np.zeros(4096, np.uint8)
        self.memory = self.memory[-self.memory.ctypes.data % 128:][:64]

    def tearDown(self):
        self.device.close()
        self.library.close()

    def found(self, call, *arguments, **named):
        self.y[:] = -5
        call(*arguments, **named)
        return list(self.y)

    def test_what_is_given_is_used(self):
        with_it, without = [2 * (x + 1) for x in range(8)], [x - 1 for x in range(8)]
        self.assertEqual(self.found(self.kernel, self.x, self.y, 8), without)
        self.assertEqual(self.found(self.kernel, self.x, self.y, 8, scratch=False), without)
        self.assertEqual(self.found(self.kernel, self.x, self.y, 8, scratch=self.memory), with_it)
        self.assertEqual(list(self.memory[:32].view(np.float32)), list(range(1, 9)))
        self.assertEqual(self.found(self.kernel, self.x, self.y, 8, scratch=self.memory[:31]), without)
        self.assertEqual(self.found(self.kernel, self.x, self.y, 4, scratch=self.memory)[:5], without[:4] + [-5])

    def test_where_none_is_wanted(self):
        other = self.device.kernel("twice")
        self.assertEqual(self.found(other, self.x, self.y, 8, scratch=self.memory), [2 * x for x in range(8)])
        for wrong in "a", 3, object(), self.memory[::2]:
            self.assertRaises((TypeError, ValueError), other, self.x, self.y, 8, scratch=wrong)
            self.assertRaises((TypeError, ValueError), other.prepare, self.x, self.y, 8, scratch=wrong)

    def test_of_a_prepared_launch(self):
        prepared = self.kernel.prepare(self.x, self.y, 8, scratch=self.memory)
        self.assertEqual(self.found(prepared), [2 * (x + 1) for x in range(8)])
        prepared.set("n", 4)
        self.assertEqual(self.found(prepared)[:5], [-1, 0, 1, 2, -5])
        prepared.set("n", 5)
        self.assertEqual(self.found(prepared)[:6], [2, 4, 6, 8, 10, -5])

    def test_other_things_are_refused(self):
        with self.assertRaisesRegex(TypeError, "steps: scratch: expected an array, None or False"):
            self.kernel(self.x, self.y, 8, scratch=3)
        with self.assertRaisesRegex(kiln.Error, "expected scratch memory at a multiple of 128 bytes"):
            self.kernel(self.x, self.y, 8, scratch=self.memory[4:])


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
