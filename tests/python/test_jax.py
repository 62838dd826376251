# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in programs of JAX (kiln.jax): jit, derivatives, vmap, sharded arrays on two devices of the host, and what is refused. JAX and NumPy compute what
is expected. KILN_TEST_DEVICE=cuda runs it on a GPU."""
import os
import subprocess
import sys
import unittest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
import support
support.with_zones()
from support import ROOT, tool

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import kiln.jax
except ImportError:
    jax = None

IS_GPU = os.environ.get("KILN_TEST_DEVICE") == "cuda"
FOLDER = BUNDLE = NORMS = WRITTEN = None
EPSILON = 1e-5

if jax:
    import kiln
    jax.config.update("jax_platforms", "cuda" if IS_GPU else "cpu")

WRITES = """kiln 1

kernel sum_rows(x: in *f32, total: accum *f32, rows: i32, cols: i32) @returns(total[rows]) @grid(rows, cdiv(cols, 64)) @config(warps = 2)
{
  let c = pid(1) * 64 + iota(64)
  atomic.add(total + pid(0), reduce.add(load(x + pid(0) * cols + c, c < cols), 0))
}

kernel where_to(x: in view f32[16, 16], y: out view f32[16, 16], rows: i32, cols: i32) @returns(y[min(rows, 40), max(cols, 3) + cols / 4 - 0 * cdiv(cols, 7)])
  @grid(cdiv(rows, 16), cdiv(cols, 16)) @config(warps = 2)
{
  store(y, [pid(0) * 16, pid(1) * 16], load(x, [pid(0) * 16, pid(1) * 16]) * 2.0)
}

kernel around(x: in *f32, y: out *f32, n: i32, more: i32, place: i32) @returns(y[n]) @grid(1) @config(warps = 1)
{
  let i = iota(128)
  store(y + i, reduce.add(load(x + i, i < n + more, 0.0), 0) + i as f32, i < n)
  store(y + place, 1.0)
}
"""


def setUpModule():
    global NORMS, WRITTEN
    if jax is None:
        return
    targets = "host,sm_90a" if IS_GPU else "host"
    NORMS, WRITTEN = os.path.join(FOLDER, "norms.kbundle"), os.path.join(FOLDER, "written.kbundle")
    tool("build", "kernels/norms.kiln", "-t", targets, "-q", "-k", "rms_norm[T=f32]", "-k", "rms_norm_backward[T=f32]", "-k", "rms_norm[T=bf16]", "-o", NORMS)
    path = os.path.join(FOLDER, "written.kiln")
    with open(path, "w") as file:
        file.write(WRITES)
    tool("build", path, os.path.join(FOLDER, "test.kiln"), "-t", targets, "-q", "--no-cache", "-o", WRITTEN)


def rms_norm(x, w):
    return kiln.jax.call(NORMS, "rms_norm", x, w, *x.shape, EPSILON)[0]


def expected_rms_norm(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON) * w


def numbers(*shape, seed=1):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@unittest.skipIf(jax is None, "JAX is not installed")
class Calls(unittest.TestCase):
    def close(self, got, want, rtol=1e-5, atol=1e-5):
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=rtol, atol=atol)

    def test_eager_and_jit(self):
        x, w = numbers(37, 192), numbers(192, seed=2)
        self.close(rms_norm(x, w), expected_rms_norm(x, w))
        self.close(jax.jit(lambda x, w: rms_norm(2 * x, w) + 1)(x, w), expected_rms_norm(2 * x, w) + 1)
        self.close(rms_norm(np.asarray(x), np.asarray(w)), expected_rms_norm(x, w))

    def test_types_choose_the_instance(self):
        x, w = numbers(8, 64).astype(jnp.bfloat16), numbers(64, seed=2).astype(jnp.bfloat16)
        found = rms_norm(x, w)
        self.assertEqual(found.dtype, jnp.bfloat16)
        self.close(found.astype(jnp.float32), expected_rms_norm(x.astype(jnp.float32), w.astype(jnp.float32)), 1e-2, 1e-2)
        with self.assertRaisesRegex(TypeError, "rms_norm: expected arrays that one of its instances takes, found int32, float32, which none takes; it has rms_norm"):
            rms_norm(x.astype(jnp.int32), w.astype(jnp.float32))
        with self.assertRaisesRegex(kiln.NotFound, "no kernel 'rms_normal'|rms_normal"):
            kiln.jax.call(NORMS, "rms_normal", x)

    def test_gradients_of_a_pair(self):
        x, w, weights = numbers(9, 128), numbers(128, seed=2), numbers(9, 128, seed=3)

        def loss(norm):
            return lambda x, w: jnp.sum(jnp.sin(norm(x * 1.5, w)) * weights)
        for way in (lambda f: f, jax.jit):
            got = way(jax.grad(loss(rms_norm), argnums=(0, 1)))(x, w)
            want = jax.grad(loss(expected_rms_norm), argnums=(0, 1))(x, w)
            for one, other in zip(got, want):
                self.close(one, other, 1e-4, 1e-4)

    def test_without_a_pair_there_is_no_gradient(self):
        with self.assertRaisesRegex(NotImplementedError, "sum_rows has no derivatives: its kernel names no kernel of them"):
            jax.grad(lambda x: jnp.sum(kiln.jax.call(WRITTEN, "sum_rows", x, 4, 64)))(numbers(4, 64))

    def test_sums_begin_as_zero(self):
        x = numbers(5, 150)
        total = jax.jit(lambda x: kiln.jax.call(WRITTEN, "sum_rows", x, *x.shape))
        for _ in range(3):
            self.close(total(x), jnp.sum(x, axis=1), 1e-4, 1e-4)

    def test_what_is_written_comes_back_as_a_new_array(self):
        x, y = numbers(100), numbers(100, seed=2)
        kept = np.asarray(y).copy()
        self.close(jax.jit(lambda x, y: kiln.jax.call(WRITTEN, "saxpy", 3.0, x, y, 100))(x, y), 3 * x + y)
        self.close(kiln.jax.call(WRITTEN, "saxpy", 0.5, x, y, 100), 0.5 * x + y)
        self.close(y, kept, 0, 0)

    def test_views_and_extents(self):
        found = kiln.jax.call(WRITTEN, "where_to", numbers(20, 12), 20, 12)
        self.assertEqual(found.shape, (20, 15))
        self.close(found[:, :12], 2 * numbers(20, 12))
        with self.assertRaisesRegex(TypeError, r"argument 'x' \(view f32\): expected an array of rank 2, found shape \(20,\)"):
            kiln.jax.call(WRITTEN, "where_to", numbers(20), 20, 12)

    def test_grids_of_the_caller(self):
        self.close(kiln.jax.call(WRITTEN, "gridless", jnp.zeros(6, jnp.int32), grid=4), [10, 11, 12, 13, 0, 0])
        self.close(kiln.jax.call(WRITTEN, "gridless", jnp.zeros(6, jnp.int32), grid=(6, 1)), range(10, 16))

    def test_vmap(self):
        x, w = numbers(3, 8, 64), numbers(64, seed=2)
        self.close(jax.vmap(rms_norm, in_axes=(0, None))(x, w), jax.vmap(expected_rms_norm, in_axes=(0, None))(x, w))

    def test_numbers_are_fixed(self):
        x, w = numbers(4, 64), numbers(64)
        with self.assertRaisesRegex(TypeError, r"argument 'eps' \(f32\): expected a number, found a traced value"):
            jax.jit(lambda x, w, eps: kiln.jax.call(NORMS, "rms_norm", x, w, 4, 64, eps))(x, w, 1e-5)
        fixed = jax.jit(lambda x, w, eps: kiln.jax.call(NORMS, "rms_norm", x, w, 4, 64, eps)[0], static_argnums=2)
        self.close(fixed(x, w, 0.0), x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True)) * w)
        self.close(fixed(x, w, 1.0), x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1) * w)

    def test_a_bundle_that_is_built_again(self):
        """As by a cell of a notebook: its path means the new one, and what was compiled before keeps the former."""
        path = os.path.join(FOLDER, "again")
        for factor in (2, 3):
            with open(path + ".kiln", "w") as file:
                file.write("kiln 1\nkernel scale(x: in *f32, y: out *f32) @grid(1) @config(warps = 1) @returns(y[32]) { store(y + iota(32), load(x + iota(32)) * %d.0) }\n" % factor)
            support.tool("build", path + ".kiln", "-t", "host", "-o", path + ".kbundle")
            program = jax.jit(lambda x: kiln.jax.call(path + ".kbundle", "scale", x))
            self.close(program(jnp.ones(32)), jnp.full(32, factor))
            former = former if factor == 3 else program
        self.close(former(jnp.ones(32)), jnp.full(32, 2))

    def test_refusals(self):
        with self.assertRaisesRegex(TypeError, r"saxpy: argument 'x' \(\*f32\): expected elements of type f32, found int32"):
            kiln.jax.call(WRITTEN, "saxpy", 1.0, jnp.zeros(4, jnp.int32), numbers(4), 4)
        with self.assertRaisesRegex(TypeError, r"expected 4 arguments .a, x, y, n., found 3; without 'n' \(i32\)"):
            kiln.jax.call(WRITTEN, "saxpy", 1.0, numbers(4), numbers(4))
        with self.assertRaisesRegex(TypeError, r"expected 4 arguments .a, x, y, n., found 3; without 'a' \(f32\)"):
            kiln.jax.call(WRITTEN, "saxpy", numbers(4), numbers(4), 4)
        with self.assertRaisesRegex(TypeError, r"found 2; without 'a' \(f32\), 'n' \(i32\)"):
            kiln.jax.call(WRITTEN, "saxpy", numbers(4), numbers(4))
        with self.assertRaisesRegex(TypeError, r"expected 5 arguments .x, w, rows, cols, eps., found 4; without 'cols' \(i32\)"):
            kiln.jax.call(NORMS, "rms_norm", numbers(8, 64), numbers(64), 8, 1e-5)
        with self.assertRaisesRegex(TypeError, "found 6$"):
            kiln.jax.call(NORMS, "rms_norm", numbers(8, 64), numbers(64), 8, 64, 1e-5, 1)
        with self.assertRaisesRegex(kiln.NotFound, r"no kernel 'rms_nrom' in .*; did you mean 'rms_norm\[T="):
            kiln.jax.call(NORMS, "rms_nrom", numbers(8, 64), numbers(64), 8, 64, 1e-5)
        with self.assertRaisesRegex(TypeError, "rms_norm: expected 5 arguments .x, w, rows, cols, eps., found 3"):
            kiln.jax.call(NORMS, "rms_norm", numbers(8, 64), numbers(64), 8)  # of all instances
        with self.assertRaisesRegex(TypeError, "expected an array, found list"):
            kiln.jax.call(WRITTEN, "saxpy", 1.0, [1.0], numbers(4), 4)
        with self.assertRaisesRegex(OverflowError, "4294967296 is not a value of type i32"):
            kiln.jax.call(WRITTEN, "saxpy", 1.0, numbers(4), numbers(4), 1 << 32)

    def test_a_promise_that_is_broken_is_an_error_of_the_program(self):
        with self.assertRaisesRegex(Exception, "n.*(div|multiple|4)"):
            jax.block_until_ready(kiln.jax.call(WRITTEN, "copy[T=f64]" if jax.config.jax_enable_x64 else "copy[T=i8]", jnp.zeros(5, jnp.int8), jnp.zeros(5, jnp.int8), 5))
        self.close(rms_norm(numbers(4, 64), numbers(64)), expected_rms_norm(numbers(4, 64), numbers(64)))

    @unittest.skipUnless(support.has_zones(), "no zones around memory")
    def test_what_is_around_arrays_is_seen(self):
        """XLA's own memory has zones, before and after; what is read there is NaN."""
        def found(more, place):
            y = kiln.jax.call(WRITTEN, "around", numbers(64), 64, more, place)
            return bool(jnp.isfinite(y).all()), support.damaged_zones()
        self.assertEqual(found(0, 0), (True, ""))
        self.assertEqual(found(1, 0), (False, ""))
        for place in (-1, 64):
            is_finite, text = found(0, place)
            self.assertTrue(is_finite)
            self.assertRegex(text, "outside of a block of [0-9]+ bytes 4 are written, the first is byte %d" % (4 * place))

    def test_sharded_arrays(self):
        """XLA gathers them for a call; in shard_map each device has its part."""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        if len(jax.devices()) < 2:
            self.skipTest("one device: sharded arrays want two")
        mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
        rows = NamedSharding(mesh, PartitionSpec("rows"))
        x, w = jax.device_put(numbers(8, 64), rows), numbers(64, seed=2)
        self.close(jax.jit(rms_norm)(x, w), expected_rms_norm(numbers(8, 64), w))
        got = jax.jit(jax.grad(lambda x, w: jnp.sum(rms_norm(x, w) ** 2), argnums=1))(x, w)
        self.close(got, jax.grad(lambda x, w: jnp.sum(expected_rms_norm(x, w) ** 2), argnums=1)(numbers(8, 64), w), 1e-4, 1e-4)
        seen = []

        def part(x, w):
            seen.append(x.shape)
            return rms_norm(x, w)
        split = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(PartitionSpec("rows"), PartitionSpec()), out_specs=PartitionSpec("rows"), check_vma=False))
        self.close(split(x, w), expected_rms_norm(numbers(8, 64), w))
        self.assertIn((4, 64), seen)

    def test_the_same_call_is_made_once(self):
        bundle = kiln.jax.Bundle(WRITTEN)
        x, y = numbers(16), numbers(16)
        for a in (1.0, 2.0, 1.0, -0.0, 0.0):
            kiln.jax.call(bundle, "saxpy", a, x, y, 16)
        self.assertEqual(len(bundle._calls), 4)


@unittest.skipIf(jax is None, "JAX is not installed")
class Arrays(unittest.TestCase):
    def test_launches_read_and_do_not_write_them(self):
        """JAX shares their memory with other arrays, and no protocol that it speaks says so on every device."""
        device = kiln.Library(WRITTEN).device("cuda:0" if IS_GPU else "host")
        x, y, saxpy = numbers(300), device.memory(300, "f32"), device.kernel("saxpy")
        y.fill(0)
        saxpy(2.0, x, y, 300)
        device.sync()
        np.testing.assert_array_equal(y.numpy(), 2 * np.asarray(x))
        self.assertRaisesRegex(ValueError, r"argument 'y' \(\*f32\): the kernel writes it, but the array is JAX's", saxpy, 2.0, x, numbers(300), 300)
        error, words = (TypeError, "expected an array of the host") if IS_GPU else (ValueError, "is JAX's")
        self.assertRaisesRegex(error, words, y.copy_out, numbers(300))


@unittest.skipIf(jax is None, "JAX is not installed")
class Example(unittest.TestCase):
    def test_it_runs(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "python", "jax", "train.py"), NORMS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python"), JAX_PLATFORMS="cuda" if IS_GPU else "cpu"), timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertIn(b"50 steps", done.stdout)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
