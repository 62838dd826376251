# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of Triton through Kiln, on the host: ahead of time and at their first call. Skipped where Triton or PyTorch is absent
(PYTHON=.../python tests/run.sh names the interpreter that has them)."""
import os
import subprocess
import sys
import tempfile
import unittest

import support

import kiln  # noqa: E402

try:
    import torch
    import triton
    import triton.language as tl
    import kiln.triton
except ImportError as missing:
    triton, absent = None, str(missing)

if triton is not None:
    @triton.jit
    def add_vectors(x, y, z, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

    @triton.jit
    def scale(x, y, factor, n, stride, OFFSET: tl.constexpr = 0, BLOCK: tl.constexpr = 64):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i * stride, mask=i < n) * factor + OFFSET, mask=i < n)

    @triton.jit
    def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
        at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
        live = tl.arange(0, BLOCK) < columns
        row = tl.load(x + at, mask=live, other=-float("inf"))
        e = tl.exp(row - tl.max(row, axis=0))
        tl.store(y + at, e / tl.sum(e, axis=0), mask=live)


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if triton is None:
            raise unittest.SkipTest(absent)
        cls.folder = tempfile.TemporaryDirectory(prefix="kiln-triton-")
        os.environ["KILN_CACHE_DIR"] = os.path.join(cls.folder.name, "cache")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


class Export(Cases):
    def test_a_bundle_ahead_of_time(self):
        path = os.path.join(self.folder.name, "add.kbundle")
        library = kiln.triton.export(add_vectors, {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 128}, targets=["host", "sm_90a"],
                                     output=path, divisible=["n"], num_warps=8)
        self.assertEqual(library.kernels, ["add_vectors"])
        kernel = kiln.Library(path).device("host").kernel("add_vectors")
        x, y, z = torch.randn(1600), torch.randn(1600), torch.zeros(1600)
        kernel[triton.cdiv(1600, 128)](x, y, z, 1600)
        torch.testing.assert_close(z, x + y)
        self.assertRaisesRegex(kiln.LaunchRefused, "divisible by 16", kernel[13], x, y, z, 1599)
        self.assertEqual(library.device("null:sm_90").kernel("add_vectors").choose(0, 0, 0, 16, grid=1).target, "sm_90a")

    def test_what_is_refused(self):
        self.assertRaisesRegex(TypeError, "add_vectors: parameter 'n' has neither", kiln.triton.export, add_vectors, {"x": "*fp32", "y": "*fp32", "z": "*fp32"}, {"BLOCK": 1})
        self.assertRaisesRegex(TypeError, "add_vectors: there is no parameter 'w'", kiln.triton.export, add_vectors,
                               {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "w": "i32"}, {"BLOCK": 128})
        self.assertRaisesRegex(TypeError, "expected a function of @triton.jit", kiln.triton.export, len, {})


class Examples(Cases):
    def test_the_example_runs(self):
        bundle = os.path.join(self.folder.name, "example.kbundle")
        done = subprocess.run([sys.executable, os.path.join(support.ROOT, "examples", "python", "triton_add.py"), bundle], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python")), timeout=600)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "3000 sums on cpu, 3000 from %s, 0 wrong\n" % bundle))


class AtTheFirstCall(Cases):
    def test_calls_have_the_form_of_triton(self):
        add = kiln.triton.jit(add_vectors)
        x, y, z = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
        for grid in ((8,), lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)):
            z.zero_()
            add[grid](x, y, z, 1000, BLOCK=128)
            torch.testing.assert_close(z, x + y)
        self.assertEqual((add.launches, len(add.variants)), (2, 1))
        self.assertEqual(add.__name__, "add_vectors")
        self.assertRaisesRegex(TypeError, "launched with a grid", add, x)

    def test_variants_are_those_that_triton_tells_apart(self):
        scaled, count = kiln.triton.jit(scale), 0
        x = torch.arange(256.0)
        for n, stride, offset, dtype, factor in ((64, 1, 0, torch.float32, 2.0), (65, 1, 0, torch.float32, 2.0), (64, 2, 0, torch.float32, 2.0), (64, 3, 0, torch.float32, 2.0),
                                                 (64, 1, 5, torch.float32, 2.0), (64, 1, 0, torch.float64, 2.0), (64, 1, 0, torch.float32, 2)):
            y = torch.zeros(n, dtype=dtype)
            for _ in range(2):
                scaled[(2,)](x.to(dtype), y, factor, n, stride, OFFSET=offset)
            torch.testing.assert_close(y, x.to(dtype)[:n * stride:stride] * factor + offset)
            count += 1
            expected = count - (1 if count >= 4 else 0)  # a stride of 3 is a stride of 2: neither one nor divisible
            self.assertEqual(len(scaled.variants), expected)
        misaligned = torch.zeros(65)[1:]
        scaled[(1,)](x, misaligned, 2.0, 64, 1)
        self.assertEqual(len(scaled.variants), expected + 1)
        torch.testing.assert_close(misaligned, 2 * x[:64])

    def test_options_and_reductions(self):
        softmax = kiln.triton.jit(softmax_rows)
        x = torch.randn(7, 100)
        for warps in (1, 4, 8):
            y = torch.zeros_like(x)
            softmax[(7,)](x, y, 100, BLOCK=128, num_warps=warps)
            torch.testing.assert_close(y, torch.softmax(x, 1))
        self.assertEqual(len(softmax.variants), 3)
        self.assertIsInstance(softmax.run(x, y, 100, BLOCK=128, num_warps=4, grid=(7,), warmup=True), kiln.Kernel)
        self.assertEqual((softmax.launches, len(softmax.variants)), (3, 3))

    def test_heuristics(self):
        softmax = kiln.triton.jit(triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["columns"])})(softmax_rows))
        x, y = torch.randn(3, 50), torch.zeros(3, 50)
        softmax[(3,)](x, y, 50)
        torch.testing.assert_close(y, torch.softmax(x, 1))

    def test_what_is_refused(self):
        tuned = triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])(add_vectors)
        self.assertRaisesRegex(TypeError, "@triton.autotune, which Kiln does not tune yet", kiln.triton.jit, tuned)
        self.assertRaisesRegex(TypeError, "expected a function of @triton.jit", kiln.triton.jit, len)
        add = kiln.triton.jit(add_vectors)
        self.assertRaises(TypeError, add[(1,)], torch.zeros(4))
        self.assertRaisesRegex(kiln.Error, "KILN-E0013", kiln.triton.export, add_vectors, {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 128},
                               targets=["toaster"])


if __name__ == "__main__":
    sys.exit(support.main(__name__))
