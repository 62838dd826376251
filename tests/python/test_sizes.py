# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whoever hands over an array has its size compared with what the source states (@size), before the launch: buffers, NumPy, memory of ours, PyTorch's tensors
and operations, JAX. Where a framework is absent its tests are skipped."""
import os
import unittest

import support
support.with_zones()

import kiln  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

FOLDER = BUNDLE = SIZED = NORMS = None
SOURCE = """kiln 1

kernel rows(x: in *f32 @size((rows > 0) as i32 * ((rows - 1) * ldx + cols)), y: out *f32 @size(rows * cols), rows: i32, cols: i32, ldx: i32)
  @grid(rows) @config(warps = 1)
{
  let c = iota(64)
  store(y + pid(0) * cols + c, load(x + pid(0) * ldx + c, c < cols), c < cols)
}

// A number stands before a pointer, another one is not a whole one.
kernel mixed(n: i32, x: in *i8 @size(n), a: f32, y: out *i8, v: in view i8[_]) @grid(1) @config(warps = 1)
{
  let c = iota(16)
  store(y + c, load(x + c, c < n), c < n)
}
"""


def setUpModule():
    global SIZED, NORMS
    SIZED, NORMS = os.path.join(FOLDER, "sized.kbundle"), os.path.join(FOLDER, "norms.kbundle")
    with open(os.path.join(FOLDER, "sized.kiln"), "w") as file:
        file.write(SOURCE)
    support.tool("build", os.path.join(FOLDER, "sized.kiln"), "-t", "host", "--no-cache", "-q", "-o", SIZED)
    support.tool("build", "kernels/norms.kiln", "-k", "rms_norm", "-t", "host", "--no-cache", "-q", "-o", NORMS)


class Cases(unittest.TestCase):
    needs = {}

    @classmethod
    def setUpClass(cls):
        for name, module in cls.needs.items():
            if module is None:
                raise unittest.SkipTest("%s is not installed" % name)
        cls.library = kiln.Library(SIZED)
        cls.device = cls.library.device("host")
        cls.rows, cls.mixed = cls.device.kernel("rows"), cls.device.kernel("mixed")

    @classmethod
    def tearDownClass(cls):
        cls.library.close()

    def refused(self, text, call, *arguments):
        with self.assertRaises(kiln.LaunchRefused) as caught:
            call(*arguments)
        self.assertIn(text, str(caught.exception))

    def check(self, of, part):
        """`of` makes an array of so many elements, `part` the first elements of one."""
        x, y = of(36), of(12)
        for _ in range(3):  # the first launch decides, the others remember
            self.rows(x, y, 3, 4, 16)
        self.refused("'rows': x needs 36 elements, its buffer has 35: ", self.rows, of(35), y, 3, 4, 16)
        self.refused("'rows': y needs 12 elements, its buffer has 11: rows * cols (rows = 3, cols = 4)", self.rows, x, of(11), 3, 4, 16)
        self.rows(x, y, 3, 4, 16)
        for rows, cols, ldx in ((4, 4, 16), (3, 5, 16), (3, 4, 17), (2147483647, 4, 2147483647)):
            self.refused("'rows': x needs %d elements, its buffer has 36: " % ((rows - 1) * ldx + cols), self.rows, x, of(64), rows, cols, ldx)
        self.refused("'rows': y needs -12 elements, its buffer has 12: rows * cols (rows = -3, cols = 4)", self.rows, x, y, -3, 4, 16)
        self.rows(of(0), of(0), 0, 4, 16)
        if part:  # what a slice shows ends earlier than its memory
            self.rows(part(of(36), 10), y, 3, 4, 16)
            self.refused("'rows': x needs 36 elements, its buffer has 10", self.rows, of(10), y, 3, 4, 16)  # as large as the last one looked
            self.refused("'rows': x needs 36 elements, its buffer has 35", self.rows, part(of(36), 10, 1), y, 3, 4, 16)

    def check_prepared(self, of):
        prepared = self.rows.prepare(of(36), of(12), 3, 4, 16)
        prepared()
        for _ in range(2):
            self.refused("'rows': x needs 52 elements, its buffer has 36: ", prepared.set, "rows", 4)
        prepared.set("x", of(52))
        self.refused("'rows': y needs 16 elements, its buffer has 12: ", prepared.set, "rows", 4)
        prepared.set("y", of(16))
        prepared.set("rows", 4)
        self.refused("'rows': x needs 52 elements, its buffer has 51: ", prepared.set, "x", of(51))
        prepared()


class Buffers(Cases):
    def test_buffers_without_numpy(self):
        self.mixed(4, bytearray(4), 0.5, bytearray(4), bytearray(1))
        for n in (5, 6, 5):
            self.refused("'mixed': x needs %d elements, its buffer has 4: n (n = %d)" % (n, n), self.mixed, n, bytearray(4), 0.5, bytearray(9), bytearray(1))
        self.mixed(5, bytearray(5), 0.5, bytearray(5), bytearray(1))

    def test_memory_of_ours(self):
        self.check(lambda count: self.device.memory(count, "f32"), None)
        self.check_prepared(lambda count: self.device.memory(count, "f32"))

    def test_addresses_have_no_size(self):
        x, y = self.device.memory(36, "f32"), self.device.memory(12, "f32")
        self.rows(x.address, y, 3, 4, 16)
        self.refused("'rows': y needs 12 elements, its buffer has 11: ", self.rows, x.address, self.device.memory(11, "f32"), 3, 4, 16)


class Arrays(Cases):
    needs = {"numpy": np}

    def test_arrays(self):
        self.check(lambda count: np.zeros(count, "f4"), lambda array, count, first=0: array[first:first + count])
        self.check_prepared(lambda count: np.zeros(count, "f4"))

    def test_strided_arrays(self):
        y = np.zeros(12, "f4")
        whole = np.zeros((3, 16), "f4")
        self.rows(kiln.strided(whole[:, :4]), y, 3, 4, 16)
        self.rows(kiln.strided(whole[:, 12:]), y, 3, 4, 16)
        self.refused("'rows': x needs 52 elements, its buffer has 48: ", self.rows, kiln.strided(whole[:, :4]), np.zeros(16, "f4"), 4, 4, 16)
        self.refused("'rows': x needs 37 elements, its buffer has 36: ", self.rows, kiln.strided(whole[:, 12:]), np.zeros(15, "f4"), 3, 5, 16)

    def test_memory_that_is_no_array_of_numpy(self):
        memory = bytearray(144)
        self.rows(np.frombuffer(memory, "f4"), np.zeros(12, "f4"), 3, 4, 16)
        self.refused("'rows': x needs 52 elements, its buffer has 36: ", self.rows, np.frombuffer(memory, "f4")[:20], np.zeros(16, "f4"), 4, 4, 16)


class Tensors(Cases):
    needs = {"torch": torch}

    def test_tensors(self):
        self.check(torch.zeros, lambda tensor, count, first=0: tensor[first:first + count])
        self.check_prepared(torch.zeros)

    def test_strided_tensors(self):
        whole = torch.zeros(3, 16)
        self.rows(kiln.strided(whole[:, 12:]), torch.zeros(12), 3, 4, 16)
        self.refused("'rows': x needs 37 elements, its buffer has 36: ", self.rows, kiln.strided(whole[:, 12:]), torch.zeros(15), 3, 5, 16)

    def test_operations(self):
        import kiln.torch
        ops = kiln.torch.register(NORMS, namespace="test_sizes")
        x, w = torch.ones(4, 128), torch.ones(128)
        self.assertEqual(tuple(ops.rms_norm(x, w, 4, 128, 1e-5)[0].shape), (4, 128))
        for rows in (8, 4000000):
            self.refused("'rms_norm[T=f32]': x needs %d elements, its buffer has 512: rows * cols (rows = %d, cols = 128)" % (128 * rows, rows), ops.rms_norm, x, w,
                         rows, 128, 1e-5)
        self.refused("'rms_norm[T=f32]': w needs 128 elements, its buffer has 127: ", ops.rms_norm, x, w[1:].clone(), 4, 128, 1e-5)
        self.refused("'rms_norm[T=f32]': x needs 1024 elements, its buffer has 512: ", ops.rms_norm, x.requires_grad_(), w, 8, 128, 1e-5)


class OfJax(Cases):
    needs = {"numpy": np, "jax": jax}

    def test_arrays(self):
        import kiln.jax
        x, w = jnp.ones((4, 128)), jnp.ones(128)
        self.assertEqual(kiln.jax.call(NORMS, "rms_norm", x, w, 4, 128, 1e-5)[0].shape, (4, 128))
        for call in (lambda f: f, jax.jit):
            with self.assertRaises(Exception) as caught:
                jax.block_until_ready(call(lambda x, w: kiln.jax.call(NORMS, "rms_norm", x, w, 8, 128, 1e-5))(x, w))
            self.assertIn("'rms_norm[T=f32]': x needs 1024 elements, its buffer has 512: rows * cols (rows = 8, cols = 128)", str(caught.exception))


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
