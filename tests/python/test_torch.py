# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of PyTorch as arguments, on the host: what is taken, by which way, what is refused, what autograd is told. Skipped where PyTorch is absent
(PYTHON=.../python tests/run.sh names the interpreter that has it)."""
import gc
import os
import subprocess
import sys
import unittest

import support

import kiln  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


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


class Refused(Cases):
    def test_negative_and_conjugate_tensors(self):
        z = torch.complex(torch.randn(64), torch.randn(64))
        for x in (z.conj().imag, z.conj().imag[::2], z.conj().imag[:1], z.conj().imag.reshape(8, 8), z.reshape(8, 8).conj().imag.T, z.conj().imag[0]):
            self.assertTrue(x.is_neg())
            self.refuse(ValueError, "the tensor is negative", 1, kiln.strided(x), torch.zeros(64), 1)
            y = torch.zeros(64)
            self.saxpy(1, x.resolve_neg().contiguous(), y, x.numel())
            self.assertTrue(torch.equal(y[:x.numel()], x.resolve_neg().flatten()))
        self.refuse(TypeError, "found c64", 1, z.conj(), torch.zeros(64), 1)
        y = torch.zeros(64)
        self.saxpy(1, kiln.strided(z.imag), y, 1)  # not negative
        self.assertEqual(y[0], z.imag[0])

    def test_what_has_no_memory(self):
        from torch._subclasses import FakeTensorMode
        with FakeTensorMode():
            fake = torch.ones(4)
        self.refuse(TypeError, "'x' (*f32): expected a plain tensor, found a FakeTensor", 1, fake, torch.zeros(4), 4)
        for x in (torch.ones(4, device="meta"), torch.ones(4).to_sparse(), torch._to_functional_tensor(torch.ones(4)), torch._efficientzerotensor(4)):
            with self.assertRaisesRegex((RuntimeError, TypeError, ValueError), r"^saxpy: argument 'x' \(\*f32\): .{10,90}$"):
                self.saxpy(1, x, torch.zeros(4), 4)
        self.saxpy(1, torch.ones(0), torch.ones(0), 0)  # empty ones need none

        def inside(x):
            with self.assertRaisesRegex(RuntimeError, "'x'"):
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

    def test_what_is_refused(self):
        import kiln.torch
        self.assertRaisesRegex(ValueError, "registered already", kiln.torch.register, BUNDLE, namespace="kiln_test")
        self.assertRaisesRegex(ValueError, "expected a name", kiln.torch.register, BUNDLE, namespace="a b")
        self.assertRaisesRegex(kiln.NotFound, "nothing", kiln.torch.register, BUNDLE, namespace="kiln_other", kernels=["nothing"])
        self.assertRaisesRegex(ValueError, "requires grad", self.ops.saxpy, 1, torch.ones(4), torch.ones(4, requires_grad=True), 4)
        self.assertRaisesRegex(Exception, "kiln_test::saxpy", self.ops.saxpy, 1, torch.ones(4, device="meta"), torch.ones(4), "x")
        only = kiln.torch.register(kiln.Library(BUNDLE), namespace="kiln_only", kernels=["twice"])
        self.assertTrue(hasattr(only, "twice"))
        self.assertFalse(hasattr(only, "saxpy"))


class Examples(Cases):
    def test_a_model_trains_as_eager_does(self):
        bundle = os.path.join(FOLDER, "norms.kbundle")
        support.tool("build", "kernels/norms.kiln", "-t", "host", "--no-cache", "-q", "-o", bundle)
        done = subprocess.run([sys.executable, os.path.join(support.ROOT, "examples", "python", "pytorch.py"), bundle], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python")), timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
        self.assertIn("50 steps on cpu: loss ", done.stdout.decode())


class WithoutExchange(Cases):
    def test_everything_holds_by_attributes(self):
        """The other tests again, in a process whose PyTorch has no exchange."""
        if os.environ.get("KILN_TEST_PLAIN_TORCH"):
            self.assertFalse(hasattr(torch.Tensor, "__dlpack_c_exchange_api__"))
            return
        done = subprocess.run([sys.executable, os.path.abspath(__file__)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, KILN_TEST_PLAIN_TORCH="1"), timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))


if __name__ == "__main__":
    if torch is not None and os.environ.get("KILN_TEST_PLAIN_TORCH") and hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        del torch.Tensor.__dlpack_c_exchange_api__
    sys.exit(support.main(__name__))
