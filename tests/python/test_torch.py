# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of PyTorch as arguments, on the host: what is taken, by which way, what is refused, what autograd is told. Skipped where PyTorch is absent
(PYTHON=.../python tests/run.py names the interpreter that has it)."""
import copy
import gc
import os
import random
import subprocess
import sys
import threading
import unittest

import support
support.with_zones()

import kiln  # noqa: E402
from canary import Tensor  # noqa: E402

try:
    import torch
    from torch._subclasses import FakeTensorMode
except ImportError:
    torch = None

WAY = os.environ.get("KILN_TEST_TORCH_WAY", "")  # how tensors are to be read; see OtherWays


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if torch is None:
            raise unittest.SkipTest("torch is not installed")
        cls.library = kiln.Library(BUNDLE)
        cls.device = cls.library.device("host")
        cls.saxpy = cls.device.kernel("saxpy")
        cls.twice = cls.device.kernel("twice")

    @classmethod
    def tearDownClass(cls):
        cls.library.close()

    def refuse(self, error, text, *arguments, kernel=None):
        with self.assertRaises(error) as caught:
            (kernel or self.saxpy)(*arguments)
        self.assertIn(text, str(caught.exception))


class Taken(Cases):
    def test_saxpy_agrees(self):
        x, y = torch.randn(1000), torch.randn(1000)
        want = 0.3 * x + y
        self.saxpy(0.3, x, y, 1000)
        torch.testing.assert_close(y, want)

    def test_every_type_is_carried(self):
        for name, types in (("i8", "int8 uint8"), ("i64", "int64 uint64"), ("f16", "float16"), ("bf16", "bfloat16 int16 uint16"), ("f64", "float64")):
            for dtype in types.split():
                x = torch.arange(96).to(getattr(torch, dtype))
                y = torch.zeros(96, dtype=getattr(torch, dtype))
                self.device.kernel("copy[T=%s]" % name)(x, y, 96)
                self.assertTrue(torch.equal(x.view(torch.uint8), y.view(torch.uint8)), dtype)
        for dtype in ("float64", "float16", "bfloat16", "int32", "complex64"):
            self.refuse(TypeError, "saxpy: argument 'x' (*f32): expected elements of type f32, found", 1, torch.ones(4, dtype=getattr(torch, dtype)), 0, 4)

    def test_views_and_strides(self):
        base = torch.arange(40 * 50, dtype=torch.float32).reshape(40, 50)
        for x in (base, base.T, base[3:30, 5:45:2], base[1:2, 3:4]):
            y = torch.zeros(*x.shape)
            self.twice(x, y, *x.shape)
            self.assertTrue(torch.equal(y, 2 * x))
        self.refuse(ValueError, "found shape (50,) with strides (8,) in bytes where (4,) is contiguous", 1, base.flatten()[:100:2], torch.zeros(50), 50)
        y = torch.zeros(4)
        self.saxpy(1, kiln.strided(base[2:, 5:]), y, 4)
        self.assertTrue(torch.equal(y, base[2, 5:9]))
        self.refuse(ValueError, "expected an array of rank 2, found shape (3,)", torch.zeros(3), base, 1, 1, kernel=self.twice)

    def test_elements_that_share_memory_are_not_written(self):
        """As PyTorch's own operations; these are asked too."""
        import kiln.torch
        x, operation = torch.ones(4, 6), kiln.torch.register(BUNDLE, namespace="kiln_shared").twice
        for y in (torch.zeros(1, 6).expand(4, 6), torch.zeros(4, 1).expand(4, 6), torch.zeros(()).expand(4, 6)):
            self.assertRaisesRegex(RuntimeError, "more than one element of the written-to tensor refers to a single memory location", y.copy_, x)
            for call in (self.twice, operation, operation.default):
                with self.assertRaisesRegex(ValueError, "the kernel writes it, but several of its elements are one place in memory: found shape .*; pass a copy"):
                    call(x, y, 4, 6)
            self.assertFalse(y.any())
            self.twice(y, x, 4, 6)  # it is read
        self.assertRaisesRegex(ValueError, "one place in memory", self.twice, x, torch.zeros(20).as_strided((4, 6), (3, 1)), 4, 6)
        for y in (torch.zeros(1, 1).expand(1, 6)[:, :1], torch.zeros(1, 6).expand(4, 6)[:0], torch.zeros(24).as_strided((4, 6), (1, 4)), torch.zeros(7, 4)[::2, ::3]):
            self.twice(torch.ones(y.shape), y, *y.shape)
            self.assertTrue((y == 2).all())

    def test_parameters_and_plain_subclasses(self):
        class Mine(torch.Tensor):
            pass

        for make in (torch.nn.Parameter, lambda t: t.as_subclass(Mine)):
            y = make(torch.ones(4))
            version = y._version
            with torch.no_grad():
                self.saxpy(1, make(torch.ones(4)).detach(), y.detach() if type(y) is Mine else y, 4)
            self.assertEqual(y.sum().item(), 8)
            self.assertEqual(y._version, version + 1)

    def test_they_are_given_back(self):
        x, y = torch.ones(64), torch.zeros(64)
        before = sys.getrefcount(x), sys.getrefcount(y)
        for _ in range(100):
            self.saxpy(1, x, y, 64)
        prepared = self.saxpy.prepare(1, x, y, 64)
        prepared()
        prepared.set("y", torch.zeros(64))
        del prepared
        gc.collect()
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(y)), before)


class Surroundings(Cases):
    """Rows with drawn gaps at drawn places: nothing outside of what a kernel writes changes, and NaN around what it reads does not show (canary.py)."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import kiln.torch
        cls.bundle = os.path.join(FOLDER, "softmax.kbundle")
        support.tool("build", "kernels/softmax.kiln", "-t", "host", "-q", "-k", "softmax[T=f32]", "-k", "softmax[T=bf16]", "-o", cls.bundle)
        cls.ops = kiln.torch.register(BUNDLE, cls.bundle, namespace="kiln_surrounded")

    def setUp(self):
        self.random = random.Random(int(os.environ.get("KILN_TEST_SEED", "1")))

    def drawn(self, shape, dtype=None, is_read=False, shift=None):
        dtype = dtype or torch.float32
        shift = self.random.randrange(16) if shift is None else shift
        drawn = Tensor(torch, shape, dtype, "cpu", 0, shape[-1] + self.random.choice((0, 1, 7, 8, self.random.randrange(65))), shift, is_read)
        if is_read:
            drawn.tensor.copy_(torch.randn(shape))
        return drawn

    def whole(self, **drawn):
        for name, one in drawn.items():
            self.assertEqual(one.check(name), "")

    def test_views(self):
        for call in (self.twice, self.ops.twice):
            for _ in range(40):
                shape = self.random.randrange(1, 40), self.random.randrange(1, 60)
                x, y = self.drawn(shape, is_read=True), self.drawn(shape)
                call(x.tensor, y.tensor, *shape)
                self.assertTrue(torch.equal(y.tensor, 2 * x.tensor))
                self.whole(x=x, y=y)

    def test_pointers(self):
        for call in (self.saxpy, self.ops.saxpy):
            for _ in range(40):
                n = self.random.randrange(1, 200)
                x, y = self.drawn((n,), is_read=True), self.drawn((n,))
                call(2.0, x.tensor, y.tensor, n)
                self.assertTrue(torch.equal(y.tensor, 2 * x.tensor))
                self.whole(x=x, y=y)

    def test_rows_of_the_library(self):
        library = kiln.Library(self.bundle).device("host")
        for name, dtype in (("softmax[T=f32]", torch.float32), ("softmax[T=bf16]", torch.bfloat16)):
            kernel = library.kernel(name)
            prepared = kernel.prepare(torch.zeros(1, 1, dtype=dtype), torch.zeros(1, 1, dtype=dtype), 1, 1, 1, 1)

            def again(x, y, rows, cols, ldx, ldy):
                for parameter, value in (("rows", 0), ("x", x), ("y", y), ("cols", cols), ("ldx", ldx), ("ldy", ldy), ("rows", rows)):
                    prepared.set(parameter, value)
                prepared()
            for call in (kernel, self.ops.softmax, again):
                for _ in range(20):
                    rows, cols = self.random.randrange(1, 20), self.random.choice((self.random.randrange(1, 40), self.random.randrange(1, 3000)))
                    x, y = self.drawn((rows, cols), dtype, True, 0), self.drawn((rows, cols), dtype, False, 0)
                    call(*((x.flat, y.flat) if call is self.ops.softmax else (kiln.strided(x.tensor), kiln.strided(y.tensor))), rows, cols, x.canary.pitch, y.canary.pitch)
                    torch.testing.assert_close(y.tensor, torch.softmax(x.tensor, 1), rtol=2e-2 if dtype is torch.bfloat16 else 1e-5, atol=1e-6)
                    self.whole(x=x, y=y)


class Refused(Cases):
    def test_negative_and_conjugate_tensors(self):
        z = torch.complex(torch.randn(64), torch.randn(64))
        for x in (z.conj().imag, z.conj().imag[::2], z.conj().imag[:1], z.conj().imag.reshape(8, 8), z.reshape(8, 8).conj().imag.T, z.conj().imag[0],
                  torch._neg_view(torch.randn(64)), z.conj().imag.as_strided((32,), (1,))):  # contiguous
            self.assertTrue(x.is_neg())
            self.refuse(ValueError, "the tensor is negative", 1, kiln.strided(x), torch.zeros(64), 1)
            y = torch.zeros(64)
            self.saxpy(1, x.resolve_neg().contiguous(), y, x.numel())
            self.assertTrue(torch.equal(y[:x.numel()], x.resolve_neg().flatten()))
        self.refuse(TypeError, "found c64", 1, z.conj(), torch.zeros(64), 1)
        y = torch.zeros(64)
        self.refuse(ValueError, "the tensor is negative", 1, torch._neg_view(torch.ones(64)), y, 64)
        self.refuse(ValueError, "the tensor is negative", 1, torch.ones(64), torch._neg_view(y), 64)
        self.saxpy(1, kiln.strided(z.imag), y, 1)  # not negative
        self.assertEqual(y[0], z.imag[0])

    def test_what_has_no_memory(self):
        from torch._subclasses import FakeTensorMode
        with FakeTensorMode():
            fake = torch.ones(4)
        self.refuse(TypeError, "'x' (*f32): expected a plain tensor, found a FakeTensor", 1, fake, torch.zeros(4), 4)
        one = torch.ones(4)
        for x, found in ((torch.ones(4, device="meta"), "torch.float32, torch.strided, on meta"), (one.to_sparse(), "torch.sparse_coo"),
                         (torch.ones(4, 4).to_sparse_csr(), "torch.sparse_csr"), (torch.ones(4, 4).to_sparse_csc(), "torch.sparse_csc"),
                         (torch.ones(4, 4).to_sparse_bsr((2, 2)), "torch.sparse_bsr"), (one.to_mkldnn(), "torch._mkldnn"),
                         (torch.quantize_per_tensor(one, 1.0, 0, torch.qint8), "(torch.qint8|expected elements of type f32)"), (torch.quantize_per_tensor(one, 1.0, 0, torch.quint8), "(torch.quint8|expected elements of type f32)"),
                         (torch._to_functional_tensor(one), "no memory"), (torch._efficientzerotensor(4), "no memory"), (one.to(torch.complex64), "found c64"),
                         (torch.nested.nested_tensor([torch.ones(3), one]), "found one of torch.float32")):
            for arguments, name in (((x, one), "x"), ((one, x), "y")):
                with self.assertRaisesRegex((TypeError, ValueError), r"^saxpy: argument '%s' \(\*f32\): .{0,150}%s.{0,150}$" % (name, found)):
                    self.saxpy(1, *arguments, 4)
        self.saxpy(1, torch.ones(0), torch.ones(0), 0)  # empty ones need none

        def inside(x):
            with self.assertRaisesRegex(TypeError, "'x'.*expected a dense tensor with memory"):
                self.saxpy(1, x, torch.zeros(4), 4)
            return x.sum()

        torch.func.vmap(inside)(torch.ones(3, 4))
        torch.func.grad(inside)(torch.ones(4))

    def test_autograd_is_told(self):
        x, y = torch.ones(4), torch.ones(4, requires_grad=True)
        self.refuse(ValueError, "'y' (*f32): the kernel writes it, but the tensor requires grad", 1, x, y, 4)
        self.saxpy(1, y, x, 4)  # only read
        with torch.no_grad():
            self.saxpy(1, x, y, 4)
        self.assertEqual(y._version, 1)
        self.assertEqual(x._version, 1)
        w = torch.ones(4, requires_grad=True)
        product = w * x
        self.saxpy(1, torch.ones(4), x, 4)  # x was saved
        self.assertRaisesRegex(RuntimeError, "modified by an inplace operation", product.sum().backward)
        with torch.inference_mode():
            z = torch.zeros(4)
            self.saxpy(1, torch.ones(4), z, 4)
            self.assertEqual(z.sum(), 4)


    def test_versions_of_views(self):
        kernel = self.device.kernel("twice")
        y = torch.zeros(16, 16)
        for version in range(1, 5):
            kernel(torch.ones(16, 16), y, 16, 16)
            self.assertEqual(y._version, version)
        view = y[:8]
        kernel(torch.ones(8, 16), view, 8, 16)
        self.assertEqual((y._version, view._version), (5, 5))  # they share it

    def test_prepared_launches_tell_autograd(self):
        x, y, z = torch.ones(4), torch.zeros(4), torch.zeros(4)
        prepared = self.saxpy.prepare(1, x, y, 4)
        prepared()
        prepared()
        self.assertEqual((x._version, y._version), (0, 2))
        prepared.set("y", z)
        prepared()
        self.assertEqual((y._version, z._version), (2, 1))
        self.assertRaisesRegex(ValueError, "requires grad", prepared.set, "y", torch.ones(4, requires_grad=True))
        self.assertRaisesRegex(kiln.LaunchRefused, "promised|aligned", self.device.kernel("copy[T=i8]").prepare(torch.zeros(8, dtype=torch.int8),
                               torch.zeros(8, dtype=torch.int8), 8).set, "n", 3)
        prepared()
        self.assertEqual(z._version, 2)


class Operations(Cases):
    """kiln.torch.register."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import kiln.torch
        cls.ops = kiln.torch.register(BUNDLE, namespace="kiln_test")

    def test_schemas_are_those_of_the_interface(self):
        for name, schema in (("saxpy", "(float a, Tensor x, Tensor(a!) y, SymInt n, *, SymInt[]? grid=None) -> ()"),
                             ("twice", "(Tensor x, Tensor(a!) y, SymInt rows, SymInt cols, *, SymInt[]? grid=None) -> ()"),
                             ("copy__T_bf16", "(Tensor x, Tensor(a!) y, SymInt n, *, SymInt[]? grid=None) -> ()"),
                             ("scalars", "(bool b, SymInt s, SymInt l, float h, float g, float d, Tensor(a!) y, *, SymInt[]? grid=None) -> ()")):
            self.assertEqual(str(getattr(self.ops, name).default._schema), "kiln_test::%s%s" % (name, schema))

    def test_they_launch(self):
        x, y = torch.arange(100.0), torch.ones(100)
        self.assertIsNone(torch.ops.kiln_test.saxpy(2, x, y, 100))
        self.assertTrue(torch.equal(y, 2 * x + 1))
        z = torch.zeros(6, dtype=torch.int32)
        self.ops.gridless(z, grid=[6])
        self.assertEqual(z.tolist(), [10, 11, 12, 13, 14, 15])
        self.assertEqual(z._version, 1)

    def test_types_choose_the_instance(self):
        for dtype in (torch.int8, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64):
            x, y = torch.arange(96).to(dtype), torch.zeros(96, dtype=dtype)
            for _ in range(2):
                self.ops.copy(x, y, 96)
            self.assertTrue(torch.equal(x, y))
        with self.assertRaises(TypeError) as caught:
            self.ops.copy(torch.zeros(4), torch.zeros(4), 4)
        self.assertIn("kiln_test::copy: expected tensors that one of its kernels takes, found x: torch.float32, y: torch.float32, which none takes",
                      str(caught.exception))
        self.assertRaisesRegex(TypeError, "argument 'x'.*expected elements of type bf16, found f32", self.ops.copy__T_bf16, torch.zeros(4), torch.zeros(4), 4)

    def test_opcheck_passes_for_all(self):
        vectors = {torch.float32: "saxpy", torch.float16: "copy__T_f16", torch.bfloat16: "copy__T_bf16", torch.float64: "copy__T_f64", torch.int8: "copy__T_i8",
                   torch.int64: "copy__T_i64"}
        arguments = {name: (torch.ones(96, dtype=dtype), torch.zeros(96, dtype=dtype), 96) for dtype, name in vectors.items()}
        arguments["saxpy"] = (0.5,) + arguments["saxpy"]
        arguments["copy"] = arguments["copy__T_f16"]
        arguments["twice"] = (torch.ones(20, 30).T, torch.zeros(30, 20), 30, 20)
        arguments["scalars"] = (True, 1, 2, 3.0, 4.0, 5.0, torch.zeros(6, dtype=torch.float64))
        arguments["fill3"] = (torch.zeros(4, 4, 4),)
        arguments["gridless"] = (torch.zeros(1, dtype=torch.int32),)
        self.assertEqual(set(arguments), set(dir(self.ops)) & set(arguments) | {kiln.torch.operation_name(name) for name in self.library.kernels} | {"copy"})
        for name, these in arguments.items():
            with self.subTest(name):
                torch.library.opcheck(getattr(self.ops, name).default, these)

    def test_one_graph(self):
        ops = torch.ops.kiln_test

        def function(x, y):
            z = torch.zeros_like(x)
            ops.saxpy(2.0, x, z, x.numel())
            ops.saxpy(1.0, z.sin(), y, y.numel())
            return z + y

        x, y = torch.randn(64), torch.randn(64)
        want = y.clone()
        want = 2 * x + (want + (2 * x).sin())
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for size in (64, 32, 48):
            torch.testing.assert_close(compiled(x[:size], y[:size].clone()), want[:size])

        class Model(torch.nn.Module):
            def forward(self, x, y):
                return function(x, y.clone())

        program = torch.export.export(Model(), (x, y))
        torch.testing.assert_close(program.module()(x, y), want)
        path = os.path.join(FOLDER, "program.pt2")
        torch.export.save(program, path)
        torch.testing.assert_close(torch.export.load(path).module()(x, y), want)

    def test_registering_twice_replaces(self):
        """As a cell of a notebook does that is run again: other kernels, other code; a bundle that cannot be opened changes nothing."""
        import kiln.torch
        path = os.path.join(FOLDER, "twice")
        for factor in (2, 3):
            with open(path + ".kiln", "w") as file:
                file.write("kiln 1\nkernel scale(x: in *f32, y: out *f32) @grid(1) @config(warps = 1) @returns(y[32]) @backward(back%d) "
                           "{ store(y + iota(32), load(x + iota(32)) * %d.0) }\nkernel back%d(dy: in *f32, dx: out *f32) @grid(1) @config(warps = 1) "
                           "@returns(dx[32]) { store(dx + iota(32), load(dy + iota(32)) * %d.0) }\n" % (factor, factor, factor, factor))
            support.tool("build", path + ".kiln", "-t", "host", "-o", path + ".kbundle")
            ops = kiln.torch.register(path + ".kbundle", namespace="kiln_twice")
            x = torch.ones(32, requires_grad=True)
            for scale in (ops.scale, torch.ops.kiln_twice.scale, torch.ops.kiln_twice.scale.default, torch.compile(lambda x: torch.ops.kiln_twice.scale(x), backend="eager")):
                found = scale(x)
                torch.testing.assert_close(found, torch.full((32,), float(factor)))
                self.assertEqual(torch.autograd.grad(found.sum(), x)[0].tolist(), [factor] * 32)
            torch.compiler.reset()
        self.assertFalse(hasattr(ops, "back2"))
        self.assertRaises(kiln.NotFound, kiln.torch.register, path + ".none", namespace="kiln_twice")
        self.assertRaises(kiln.NotFound, kiln.torch.register, path + ".kbundle", namespace="kiln_twice", kernels=["scael"])
        torch.testing.assert_close(torch.ops.kiln_twice.scale(x), torch.full((32,), 3.0))

    def test_gradients_of_what_is_only_read_are_as_of_pytorchs_own_operations(self):
        """Of an operation that returns nothing: the tensor that it writes takes no part in the graph, and what it reads gets no gradient from it."""
        @torch.library.custom_op("kiln_own::copy", mutates_args={"y"})
        def own(x: torch.Tensor, y: torch.Tensor) -> None:
            y.copy_(x)
        for call in (own, lambda x, y: self.ops.saxpy(1.0, x, y, 4), lambda x, y: self.ops.saxpy.default(1.0, x, y, 4), lambda x, y: self.saxpy(1.0, x, y, 4)):
            x, y = torch.ones(4, requires_grad=True), torch.zeros(4)
            call(x, y)
            (x.sum() + y.sum()).backward()
            self.assertEqual((y.requires_grad, y.tolist(), x.grad.tolist()), (False, [1] * 4, [1] * 4))

    def test_what_is_refused(self):
        import kiln.torch
        self.assertRaisesRegex(ValueError, "expected a name", kiln.torch.register, BUNDLE, namespace="a b")
        self.assertRaisesRegex(ValueError, "expected a name", kiln.torch.register, BUNDLE, namespace=None)
        self.assertRaisesRegex(TypeError, "kernels: expected a list of names, found the text 'saxpy'", kiln.torch.register, BUNDLE, namespace="kiln_other", kernels="saxpy")
        self.assertRaisesRegex(TypeError, "saxpy: argument 'x': expected a tensor, found None", self.ops.saxpy, 1, None, torch.ones(4), 4)
        self.assertRaisesRegex(kiln.NotFound, "nothing", kiln.torch.register, BUNDLE, namespace="kiln_other", kernels=["nothing"])
        self.assertRaisesRegex(ValueError, "requires grad", self.ops.saxpy, 1, torch.ones(4), torch.ones(4, requires_grad=True), 4)
        self.assertRaisesRegex(Exception, "kiln_test::saxpy", self.ops.saxpy, 1, torch.ones(4, device="meta"), torch.ones(4), "x")
        only = kiln.torch.register(kiln.Library(BUNDLE), namespace="kiln_only", kernels=["twice"])
        self.assertTrue(hasattr(only, "twice"))
        self.assertFalse(hasattr(only, "saxpy"))


DERIVED = """kiln 1

kernel scaled[T: type = f32](x: in *T, s: in *T, y: out *T, rows: i32, cols: i32) @grid(cdiv(rows * cols, 64)) @config(warps = 2)
  @instance(T = f32) @instance(T = f64) @returns(y[rows, cols]) @backward(scaled_backward)
{
  let i = pid(0) * 64 + iota(64)
  let live = i < rows * cols
  store(y + i, load(x + i, live) * load(s + i % cols, live), live)
}

kernel scaled_backward[T: type = f32](dy: in *T, x: in *T, s: in *T, dx: out *T, ds: accum *T, rows: i32, cols: i32)
  @grid(cdiv(rows * cols, 64)) @config(warps = 2) @instance(T = f32) @instance(T = f64) @returns(dx[rows, cols], ds[cols])
{
  let i = pid(0) * 64 + iota(64)
  let live = i < rows * cols
  let g = load(dy + i, live)
  store(dx + i, g * load(s + i % cols, live), live)
  atomic.add(ds + i % cols, g * load(x + i, live), live)
}

kernel halves(x: in *f32, y: out *f32, z: out *i32, seen: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 2)
  @returns(z[cdiv(n, 64), 2 * 1], y[max(n / 2, 1)])
{
  let i = pid(0) * 64 + iota(64)
  store(y + i / 2, load(x + i, (i < n) & (i % 2 == 0)), (i < n / 2 * 2) & (i % 2 == 0))
  store(z + pid(0) * 2 + iota(2), full(i32[2], 7))
  store(seen, 1.0)
}

kernel weighted(a: f32, x: in *f32, b: f32, s: in *f32, n: i32, y: out *f32) @grid(cdiv(n, 64)) @config(warps = 2)
  @returns(y[n]) @backward(weighted_backward)
{
  let i = pid(0) * 64 + iota(64)
  store(y + i, a * load(x + i, i < n) * load(s + i, i < n) + b, i < n)
}

kernel weighted_backward(ds: out *f32, a: f32, x: in *f32, dy: in *f32, s: in *f32, n: i32, dx: out *f32) @grid(cdiv(n, 64)) @config(warps = 2)
  @returns(ds[n], dx[n])
{
  let i = pid(0) * 64 + iota(64)
  store(ds + i, a * load(dy + i, i < n) * load(x + i, i < n), i < n)
  store(dx + i, a * load(dy + i, i < n) * load(s + i, i < n), i < n)
}

kernel plain(x: in *f32, y: out *f32, n: i32) @grid(1) @config(warps = 1) @backward(nothing) @returns(y[n]) { store(y, load(x)) }
"""


class Returned(Cases):
    """Outputs that operations allocate, and derivatives: what the source states."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import kiln.torch
        path = os.path.join(FOLDER, "derived.kiln")
        with open(path, "w") as file:
            file.write(DERIVED)
        cls.bundle = os.path.join(FOLDER, "derived.kbundle")
        support.tool("build", path, "-t", "host", "--no-cache", "-q", "-o", cls.bundle)
        cls.ops = kiln.torch.register(cls.bundle, namespace="kiln_returned")

    def test_kernels_say_what_the_source_states(self):
        device = kiln.Library(self.bundle).device("host")
        self.assertEqual((device.kernel("scaled[T=f64]").returns, device.kernel("scaled[T=f64]").backward), ("y[rows, cols]", "scaled_backward"))
        self.assertEqual((device.kernel("scaled_backward[T=f32]").returns, device.kernel("scaled_backward[T=f32]").backward), ("dx[rows, cols], ds[cols]", None))
        self.assertEqual((self.saxpy.returns, self.saxpy.backward), (None, None))

    def test_schemas_and_shapes(self):
        self.assertEqual(str(self.ops.halves.default._schema), "kiln_returned::halves(Tensor x, Tensor(a!) seen, SymInt n, *, SymInt[]? grid=None) -> (Tensor z, Tensor y)")
        for n in (1, 64, 65, 130):
            seen = torch.zeros(1)
            z, y = self.ops.halves(torch.arange(float(n)), seen, n)
            self.assertEqual((z.shape, z.dtype, y.shape, seen.item()), ((-(-n // 64), 2), torch.int32, (max(n // 2, 1),), 1))
            self.assertTrue(bool((z == 7).all()))
            if n > 1:
                self.assertTrue(torch.equal(y, torch.arange(float(n))[:n // 2 * 2:2]))

    def test_derivatives_are_those_of_the_formula(self):
        for dtype in (torch.float64, torch.float32):
            x, s = torch.randn(5, 7, dtype=dtype, requires_grad=True), torch.randn(7, dtype=dtype, requires_grad=True)
            for call in (self.ops.scaled, self.ops.scaled__T_f64 if dtype == torch.float64 else self.ops.scaled__T_f32):
                torch.testing.assert_close(call(x, s, 5, 7), x * s)
                for cut in (lambda y: y.sum(), lambda y: (y * y).sum(), lambda y: y.T[2:].sum()):
                    found = torch.autograd.grad(cut(call(x, s, 5, 7)), (x, s))
                    expected = torch.autograd.grad(cut(x * s), (x, s))
                    torch.testing.assert_close(found, expected)
        x, s = torch.randn(5, 7, dtype=torch.float64, requires_grad=True), torch.randn(7, dtype=torch.float64, requires_grad=True)
        torch.autograd.gradcheck(lambda x, s: self.ops.scaled(x, s, 5, 7), (x, s))
        s.requires_grad_(False)
        self.ops.scaled(x, s, 5, 7).sum().backward()
        self.assertIsNone(s.grad)

    def test_opcheck(self):
        x, s = torch.randn(5, 7), torch.randn(7)
        torch.library.opcheck(self.ops.scaled.default, (x.clone().requires_grad_(), s.clone().requires_grad_(), 5, 7))
        torch.library.opcheck(self.ops.scaled__T_f32.default, (x.clone().requires_grad_(), s, 5, 7))
        torch.library.opcheck(self.ops.scaled_backward.default, (x, x, s, 5, 7))
        torch.library.opcheck(self.ops.halves.default, (torch.arange(65.0), torch.zeros(1), 65))

    def test_what_is_recorded_and_what_modes_see(self):
        from torch.utils._python_dispatch import TorchDispatchMode
        seen = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                seen.append(str(function))
                return function(*arguments, **(named or {}))

        x, s = torch.randn(5, 7, requires_grad=True), torch.randn(7)
        self.ops.scaled(x, s, 5, 7)
        y = self.ops.scaled(x, s, 5, 7)
        if kiln._core._reads_handles():
            self.assertEqual(y.grad_fn.name(), "RecordedBackward")  # the common case is the extension's
        with Mode():
            torch.testing.assert_close(self.ops.scaled(x, s, 5, 7), x * s)
        self.assertIn("kiln_returned.scaled.default", seen)
        with torch.no_grad():
            self.assertFalse(self.ops.scaled(x, s, 5, 7).requires_grad)
        with torch.inference_mode():
            self.assertTrue(self.ops.scaled(x, s, 5, 7).is_inference())
        for device, default in ((torch.device("meta"), torch.float32), (torch.device("cpu"), torch.float64)):
            before = torch.get_default_dtype()
            torch.set_default_dtype(default)
            with device:
                found = self.ops.scaled(x, s, 5, 7)
            torch.set_default_dtype(before)
            self.assertEqual((found.device.type, found.dtype), ("cpu", torch.float32))

    def check_weighted(self, which, call, seed):
        """Gradients of those of x and s that `which` says, beside the formula's."""
        make = torch.Generator().manual_seed(seed)
        x, s, dy = (torch.randn(70, generator=make) for _ in range(3))
        x.requires_grad_("x" in which), s.requires_grad_("s" in which)
        with torch.enable_grad():
            y = call(2.0, x, 0.5, s, 70)
        torch.testing.assert_close(y, 2 * x * s + 0.5)
        self.assertEqual((y.requires_grad, y.is_leaf), (bool(which), not which))
        if which:
            y.backward(dy)
        for name, found, want in (("x", x.grad, 2 * dy * s), ("s", s.grad, 2 * dy * x)):
            self.assertEqual(found is not None, name in which)
            if name in which:
                torch.testing.assert_close(found, want.detach())

    def test_numbers_between_tensors_that_require_grad(self):
        for seed, which in enumerate(("", "x", "s", "xs")):
            self.check_weighted(which, self.ops.weighted, seed)
            self.check_weighted(which, self.ops.weighted.default, seed)

    def test_numbers_are_what_the_schema_takes(self):
        """Also where the call is recorded, which needs the shapes of outputs before the dispatcher has seen the numbers."""
        s = torch.randn(4)
        for x in (torch.randn(1, 4), torch.randn(1, 4, requires_grad=True)):
            for call in (self.ops.scaled, self.ops.scaled.default):
                for rows in (1.0, "1", 1 << 70, None):
                    self.assertRaisesRegex(RuntimeError, "Expected a value of type 'int' for argument 'rows'", call, x, s, rows, 4)
                self.assertTrue(torch.equal(call(x, s, True, 4), x * s))

    def test_signs_of_negative_tensors(self):
        x, s = torch.randn(3, 4), torch.randn(4)
        for call in (self.ops.scaled, self.ops.scaled.default):
            for requires_grad in (False, True):
                self.assertTrue(torch.equal(call(torch._neg_view(x.clone().requires_grad_(requires_grad)), s, 3, 4), -x * s))

    def test_recording_within_recording(self):
        """What the collector runs while a call is recorded may record calls of its own, and other threads do so meanwhile. PyTorch's own way records nothing
        of what runs below its autograd."""
        if not kiln._core._reads_handles():
            return
        inside, failed = [], []

        def collected(phase, _):
            if phase == "start" and not inside:
                inside.append(True)
                try:
                    self.check_weighted("xs", self.ops.weighted, 5)
                    counts.append(True)
                except Exception as error:  # the collector would swallow it
                    failed.append(error)
                inside.clear()

        def work(seed):
            try:
                for i in range(50):
                    self.check_weighted(("x", "s", "xs")[i % 3], self.ops.weighted, seed + i)
            except Exception as error:
                failed.append(error)

        counts, before = [], (gc.get_threshold(), sys.getswitchinterval())
        gc.callbacks.append(collected)
        gc.set_threshold(3, 1_000_000)
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        finally:
            gc.callbacks.remove(collected)
            gc.set_threshold(*before[0])
            sys.setswitchinterval(before[1])
        self.assertEqual(failed, [])
        self.assertGreater(len(counts), 50)

    def test_nobody_else_calls_what_is_recorded(self):
        if not kiln._core._reads_handles():
            return
        x, s = torch.randn(5, 7, requires_grad=True), torch.randn(7)
        function = self.ops.scaled(x, s, 5, 7).grad_fn._forward_cls
        with self.assertRaisesRegex(TypeError, "an operation calls this"):
            function.apply(x, s)
        self.assertEqual(function.__name__, "Recorded")

    def test_calls_without_the_dispatcher(self):
        """torch.ops.NAMESPACE.NAME launches at once where nothing but its tensors has a say, and is PyTorch's own in all else."""
        x, s, packet = torch.randn(5, 7), torch.randn(7), self.ops.scaled
        is_plain = kiln._core.thread_is_plain
        self.assertIsInstance(packet, torch._ops.OpOverloadPacket)
        self.assertEqual((str(packet), packet.overloads(), copy.deepcopy(packet) is packet), ("kiln_returned.scaled", ["default"], True))
        self.assertEqual(isinstance(type(packet).__dict__.get("__call__"), kiln._core.Direct), kiln._core._reads_handles())
        states, want = [], x * s

        def ask(x=x, s=s):
            states.append(is_plain())
            return packet(x, s, 5, 7)

        torch.testing.assert_close(ask(), want)
        with torch.no_grad():
            torch.testing.assert_close(ask(), want)
        with torch.inference_mode():
            self.assertTrue(ask().is_inference())
        self.assertEqual(states, [kiln._core._reads_handles()] * 3)
        states.clear()
        with torch.profiler.profile() as profile:
            ask()
        self.assertIn("kiln_returned::scaled", {event.key for event in profile.key_averages()})
        called = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, arguments=(), named=None):
                called.append(function)
                return function(*arguments, **(named or {}))

        with Mode():
            ask()
        self.assertIn(packet, called)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(ask(), want)
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(ask(), want)
        with FakeTensorMode() as fake:
            self.assertEqual(ask(fake.from_tensor(x), fake.from_tensor(s)).shape, (5, 7))
        traced = torch.jit.trace(lambda x: ask(x) + 1, x, check_trace=False)
        self.assertIn("kiln_returned::scaled", str(traced.graph))
        many = torch.randn(2, 5, 7)
        torch.testing.assert_close(torch.func.vmap(ask)(many), many * s)
        with self.assertRaisesRegex(RuntimeError, "setup_context|transform"):
            torch.func.grad(lambda x: ask(x).sum())(x)
        self.assertEqual(states, [False] * 8)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask()))
        thread.start()
        thread.join()
        torch.testing.assert_close(answers[0], want)
        self.assertEqual(states.pop(), kiln._core._reads_handles())
        self.assertTrue(self.ops.scaled(x.requires_grad_(), s, 5, 7).requires_grad)
        with self.assertRaisesRegex(RuntimeError, "scaled"):
            packet(x, s, 5)
        with self.assertRaisesRegex(RuntimeError, "scaled"):
            packet(x, s, 5, 7, rows=3)
        torch.testing.assert_close(packet(x=x, s=s, rows=5, cols=7), want)
        torch.testing.assert_close(packet(x, s, 5, 7, grid=[1]), want)

    def test_extents_are_those_of_python(self):
        """The extension computes the extents; kiln._operations says what they are."""
        from kiln._operations import program_of, value_of
        import ast
        import random
        draw = random.Random(11)

        def expression(depth):
            kind = draw.choice(("name", "number") if not depth else ("name", "number", "+", "-", "*", "/", "%", "neg", "cdiv", "min", "max", "+", "/"))
            if kind in ("name", "number"):
                return draw.choice("ab") if kind == "name" else str(draw.randrange(0, 9))
            if kind == "neg":
                return "(-%s)" % expression(depth - 1)
            left, right = expression(depth - 1), expression(depth - 1)
            return "%s(%s, %s)" % (kind, left, right) if kind.isalpha() else "(%s %s %s)" % (left, kind, right)

        def refuse(*_):
            raise LookupError
        x = torch.zeros(4)
        self.saxpy(1, x, x.clone(), 4)  # so that handles are read
        compared = 0
        for _ in range(400):
            node = ast.parse(expression(3), mode="eval").body
            operation = kiln._core.Operation(refuse, lambda *_: len, torch.empty_strided, 3, (0,), (0,),
                                             (("f32", torch.float32, False, (program_of(node, {"a": 1, "b": 2}),)),))
            for a, b in ((5, 3), (0, 7), (12, 1)):
                try:
                    expected = value_of(node, {"a": a, "b": b}, {"min": min, "max": max})
                except ZeroDivisionError:
                    expected = -1
                # `len` stands for the kernel: what is returned is allocated, whatever that says.
                if expected < 0 or not kiln._core._reads_handles():
                    self.assertRaises(LookupError, operation, x, a, b)
                else:
                    self.assertEqual(operation(x, a, b).shape, (expected,), ast.unparse(node))
                    compared += 1
        self.assertTrue(compared > 300 or not kiln._core._reads_handles())

    def test_one_graph_exported_and_loaded(self):
        ops = self.ops

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.s = torch.nn.Parameter(torch.randn(7))

            def forward(self, x):
                return ops.scaled(x.sin(), self.s, x.shape[0], x.shape[1]).cos()

        model, x = Model(), torch.randn(5, 7)
        expected = (x.sin() * model.s).cos()
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), expected)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
        for rows in (5, 9):
            its = torch.randn(rows, 7)
            compiled(its).sum().backward()
            found, model.s.grad = model.s.grad, None
            torch.testing.assert_close(found, torch.autograd.grad((its.sin() * model.s).cos().sum(), model.s)[0])
        program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=64)}})
        path = os.path.join(FOLDER, "returned.pt2")
        torch.export.save(program, path)
        its = torch.randn(11, 7)
        torch.testing.assert_close(torch.export.load(path).module()(its), (its.sin() * model.s).cos())

    def test_norms_of_the_library(self):
        import kiln.torch
        bundle = os.path.join(FOLDER, "norms_returned.kbundle")
        support.tool("build", "kernels/norms.kiln", "-t", "host", "--no-cache", "-q", "-o", bundle)
        ops = kiln.torch.register(bundle, namespace="kiln_norms")
        x, w, b = torch.randn(6, 48, requires_grad=True), torch.randn(48, requires_grad=True), torch.randn(48, requires_grad=True)
        y, rstd = ops.rms_norm(x, w, 6, 48, 1e-5)
        reference = torch.nn.functional.rms_norm(x, (48,), w, 1e-5)
        torch.testing.assert_close(y, reference)
        self.assertFalse(rstd.requires_grad)  # nothing is known of its derivative
        torch.testing.assert_close(torch.autograd.grad((y * y).sum(), (x, w)), torch.autograd.grad((reference * reference).sum(), (x, w)))
        y, _, _ = ops.layer_norm(x, w, b, 6, 48, 1e-5)
        reference = torch.nn.functional.layer_norm(x, (48,), w, b, 1e-5)
        torch.testing.assert_close(y, reference)
        torch.testing.assert_close(torch.autograd.grad((y * y).sum(), (x, w, b)), torch.autograd.grad((reference * reference).sum(), (x, w, b)), rtol=1e-4, atol=1e-4)
        torch.library.opcheck(ops.rms_norm.default, (x, w, 6, 48, 1e-5))

    def test_what_is_refused(self):
        import kiln.torch
        for attribute, text in (("@returns(y)", "'@returns': expected a parameter and its extents, as in y[rows, cols]"),
                                ("@returns(w[n])", "'@returns': there is no parameter 'w'"),
                                ("@returns(x[n])", "'@returns': expected a parameter that is out or accum, which 'x' is not"),
                                ("@returns(n[n])", "'@returns': expected a parameter that is out or accum, which 'n' is not"),
                                ("@returns(y[n], y[n])", "'@returns': 'y' is there already"),
                                ("@returns(v[n])", "'@returns': 'v' has 2 axes, found 1 extents"),
                                ("@returns(y[n < 2])", "@returns: expected integers"),
                                ("@returns(y[m])", "m"),
                                ("@backward(3)", "'@backward': expected the name of a kernel")):
            path = os.path.join(FOLDER, "refused.kiln")
            with open(path, "w") as file:
                file.write("kiln 1\nkernel k(x: in *f32, y: out *f32, v: out view f32[4, 4], n: i32) @grid(1) @config(warps = 1)\n  %s\n{ store(y, load(x)) store(v, [0, 0], full(f32[4, 4], 0.0)) }\n" % attribute)
            with self.assertRaises(AssertionError) as caught:
                support.tool("build", path, "-t", "host", "--no-cache", "-q", "-o", os.path.join(FOLDER, "refused.kbundle"))
            self.assertIn(text, str(caught.exception))
            self.assertRegex(str(caught.exception), r"refused\.kiln:3:\d+: error")
        wrong = DERIVED.replace("kernel scaled_backward[T: type = f32](dy:", "kernel scaled_backward[T: type = f32](grad:").replace("load(dy + i, live)", "load(grad + i, live)")
        path = os.path.join(FOLDER, "wrong.kiln")
        with open(path, "w") as file:
            file.write(wrong)
        support.tool("build", path, "-t", "host", "--no-cache", "-q", "-o", path + ".kbundle")
        self.assertRaisesRegex(ValueError, "@backward of 'scaled.*': 'grad' of 'scaled_backward.*' is no parameter of it", kiln.torch.register, path + ".kbundle",
                               namespace="kiln_wrong")
        # Its backward kernel is in no bundle.
        self.assertRaisesRegex(NotImplementedError, "kiln_returned::plain has no derivatives", self.ops.plain(torch.ones(4, requires_grad=True), 4).sum().backward)


class OnAGpu(Cases):
    """What is allocated there, which goes another way than on the host."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not torch.cuda.is_available() or torch.version.hip:
            raise unittest.SkipTest("no GPU of NVIDIA's")
        import kiln.torch
        path, (major, minor) = os.path.join(FOLDER, "on_a_gpu.kiln"), torch.cuda.get_device_capability()
        with open(path, "w") as file:
            file.write(DERIVED)
        bundle = os.path.join(FOLDER, "on_a_gpu.kbundle")
        support.tool("build", path, "-t", "sm_%d%d%s" % (major, minor, "a" if major >= 9 else ""), "--no-cache", "-q", "-o", bundle)
        cls.ops = kiln.torch.register(bundle, namespace="kiln_on_a_gpu")

    def check(self, device, rows, dtype=None):
        x, s = (torch.randn(*shape, device=device, dtype=dtype, requires_grad=True) for shape in ((rows, 7), (7,)))
        y, want = self.ops.scaled(x, s, rows, 7), x * s
        self.assertEqual(*[(one.device, one.dtype, one.shape, one.stride(), one.requires_grad, one.is_leaf) for one in (y, want)])
        torch.testing.assert_close(y, want)
        torch.testing.assert_close(*[torch.autograd.grad((one * one).sum(), (x, s)) for one in (y, want)])

    def test_outputs_and_derivatives(self):
        for device in range(torch.cuda.device_count()):
            for rows in (5, 5, 9, 1, 5):
                for dtype in (torch.float32, torch.float64):
                    self.check("cuda:%d" % device, rows, dtype)
        with torch.cuda.device(torch.cuda.device_count() - 1):
            self.check("cuda:0", 5)
        with torch.cuda.stream(torch.cuda.Stream()):
            self.check("cuda:0", 5)
        with torch.inference_mode():
            x, s = torch.randn(5, 7, device="cuda"), torch.randn(7, device="cuda")
            self.assertTrue(self.ops.scaled(x, s, 5, 7).is_inference())

    def test_memory_that_is_not_there(self):
        x, s = torch.randn(5, 7, device="cuda"), torch.randn(7, device="cuda")
        for _ in range(2):
            torch.testing.assert_close(self.ops.scaled(x, s, 5, 7), x * s)
            with self.assertRaises(torch.OutOfMemoryError):
                self.ops.scaled(x, s, 1 << 20, 1 << 22)


class Examples(Cases):
    def test_a_model_trains_as_eager_does(self):
        bundle = os.path.join(FOLDER, "norms.kbundle")
        support.tool("build", "kernels/norms.kiln", "-t", "host", "--no-cache", "-q", "-o", bundle)
        done = subprocess.run([sys.executable, os.path.join(support.ROOT, "examples", "python", "pytorch", "train.py"), bundle], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python")), timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
        self.assertIn("50 steps on cpu: loss ", done.stdout.decode())


class OtherWays(Cases):
    """Tensors are read by their handles where that is proved, else by the exchange, else by their attributes: the other tests again, in processes of each."""

    def again(self, way, *classes):
        return subprocess.run([sys.executable, os.path.abspath(__file__), *classes], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, KILN_TEST_TORCH_WAY=way), timeout=600)

    def test_everything_holds_by_attributes(self):
        if WAY in ("attributes", "identity"):
            self.assertFalse(hasattr(torch.Tensor, "__dlpack_c_exchange_api__"))
        if not WAY:
            done = self.again("attributes")
            self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))

    def test_everything_holds_by_what_a_tensor_is_known_by(self):
        """As in versions without the exchange: a handle is made of `_cdata`."""
        if not WAY:
            done = self.again("identity")
            self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))

    def test_everything_holds_by_the_exchange(self):
        if not WAY:
            for way in ("no proof", "another tensor"):
                done = self.again(way, "Taken", "Refused")
                self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))

    def test_the_way_is_the_one_expected(self):
        self.saxpy(1, torch.ones(4), torch.ones(4), 4)
        self.assertEqual(kiln._core._reads_handles(), WAY in ("", "identity"))

    def test_handles_are_proved_in_any_mode(self):
        """The first tensor that a process launches with may be one of inference, under a mode, with another default type."""
        if WAY or not kiln._core._reads_handles():
            return
        for mode in ("torch.inference_mode()", "torch.no_grad()", "FakeTensorMode()", "Mode()", "torch.device('meta')"):
            text = ("import sys\nsys.path.insert(0, %r)\nimport kiln, torch\nfrom torch._subclasses import FakeTensorMode\n"
                    "class Mode(torch.utils._python_dispatch.TorchDispatchMode):\n  def __torch_dispatch__(self, *_): raise AssertionError\n"
                    "torch.set_default_dtype(torch.float64)\nx = torch.ones(4, dtype=torch.float32)\nsaxpy = kiln.Library(%r).device('host').kernel('saxpy')\n"
                    "with %s: saxpy(2, x, x, 4)\nassert kiln._core._reads_handles() and x.tolist() == [3] * 4 and x._version == 1" %
                    (os.path.join(support.BUILD, "python"), BUNDLE, mode))
            command = [sys.executable, "-W", "ignore:Failed to initialize NumPy", "-c", text]  # which need not be installed
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
            self.assertEqual((done.returncode, done.stdout.decode(errors="replace")), (0, ""), mode)


if __name__ == "__main__":
    if torch is not None and WAY in ("attributes", "identity") and hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        del torch.Tensor.__dlpack_c_exchange_api__
    if torch is not None and WAY in ("attributes", "no proof", "another tensor"):
        import kiln._tensor_probe
        another = torch.ones(2, 3)
        kiln._tensor_probe.tensors = None if WAY != "another tensor" else lambda: (another, torch.nn.Parameter(another))
    if sys.argv[1:]:  # of these classes and of OtherWays alone
        for name in [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Cases) and name not in ("OtherWays", *sys.argv[1:])]:
            del globals()[name]
    sys.exit(support.main(__name__))
