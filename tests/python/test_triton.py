# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of Triton through Kiln, on the host: ahead of time and at their first call. Skipped where Triton or PyTorch is absent
(PYTHON=.../python tests/run.py names the interpreter that has them)."""
import collections
import dataclasses
import gc
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import types
import unittest

import support
support.with_zones()

import kiln  # noqa: E402

try:
    import torch
    import triton
    import triton.language as tl
    import kiln.triton
except ImportError as missing:
    triton, absent = None, str(missing)

DEVICE = os.environ.get("KILN_TEST_DEVICE", "cpu")  # "cuda": tensors are there, and kernels run there
PLACE = "host" if DEVICE == "cpu" else "cuda:0"

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
    def count_up(x, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) + 1)

    @triton.jit
    def constants(y, A: tl.constexpr, B, C: tl.constexpr = None, flag=False):
        value = A * 1.0
        if B is not None:
            value += 100
        if C is None:
            value += 1000
        if flag:
            value += 10000
        tl.store(y, value)

    @dataclasses.dataclass(frozen=True)
    class Wrapped:
        v: object

    @triton.constexpr_function
    def kind_number(one):
        while isinstance(one, (Wrapped, tl.constexpr, tuple, tl.tuple)):  # Triton 3.9 hands tuples over as its own
            one = one.v if isinstance(one, Wrapped) else one.value if isinstance(one, tl.constexpr) else one[0]
        return 3 if one is True else 2 if isinstance(one, float) else 1

    @triton.jit
    def first_of(y, A: tl.constexpr):
        tl.store(y, kind_number(A) * 1.0)

    @triton.jit
    def first_of_tuple(y, t):
        tl.store(y, kind_number(t[0]) * 1.0)

    @triton.jit
    def fields(y, t):
        tl.store(y, t.p * 10.0 + t.q)

    @triton.jit
    def fixed_fields(y, T: tl.constexpr):
        tl.store(y, T.p * 10.0 + T.q)

    settings = types.ModuleType("settings")

    GLOBAL = tl.constexpr(5)

    @triton.jit
    def by_global(y, v):
        tl.store(y, v * GLOBAL)

    @triton.jit
    def by_settings(y, v):
        tl.store(y, v * settings.factor)

    @triton.jit
    def kind_of(y, A: tl.constexpr):
        tl.store(y, 7 // A)

    @triton.jit
    def type_of(y, n):
        tl.store(y, n.to(tl.int64).to(tl.float64) + n.dtype.primitive_bitwidth / 1000.0)

    @triton.jit
    def sum_of_tuple(y, pair, FIRST: tl.constexpr):
        tl.store(y, tl.load(pair[0]) + tl.load(pair[1][0]) * pair[1][1] + FIRST)

    @triton.jit
    def tiles_by_descriptor(source, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        i, j = tl.program_id(0), tl.program_id(1)
        tile = source.load([i * ROWS, j * COLUMNS])
        rows = i * ROWS + tl.arange(0, ROWS)[:, None]
        columns = j * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        tl.store(y + rows * 64 + columns, tile * 2)

    @triton.jit
    def tiles_by_device_descriptor(x, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        source = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[ROWS, COLUMNS])
        target = tl.make_tensor_descriptor(y, shape=[rows, columns], strides=[columns, 1], block_shape=[ROWS, COLUMNS])
        at = [tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS]
        target.store(at, source.load(at) * 2)

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
        torch.set_default_device(DEVICE)
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
        kernel = kiln.Library(path).device(PLACE).kernel("add_vectors")
        x, y, z = torch.randn(1600), torch.randn(1600), torch.zeros(1600)
        kernel[triton.cdiv(1600, 128)](x, y, z, 1600)
        torch.testing.assert_close(z, x + y)
        self.assertRaisesRegex(kiln.LaunchRefused, "divisible by 16", kernel[13], x, y, z, 1599)
        self.assertEqual(library.device("null:sm_90").kernel("add_vectors").choose(0, 0, 0, 16, grid=1).target, "sm_90a")

    def test_what_is_refused(self):
        self.assertRaisesRegex(TypeError, "add_vectors: parameter 'n' has neither", kiln.triton.export, add_vectors, {"x": "*fp32", "y": "*fp32", "z": "*fp32"}, {"BLOCK": 1})
        self.assertRaisesRegex(TypeError, "add_vectors: there is no parameter 'w'", kiln.triton.export, add_vectors,
                               {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "w": "i32"}, {"BLOCK": 128})
        for kind in ("*f32", "*", "", 32):
            with self.assertRaisesRegex(TypeError, r"add_vectors: parameter 'x': .* is no type of Triton's, such as '\*fp32'"):
                kiln.triton.export(add_vectors, {"x": kind, "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 128})
        self.assertRaisesRegex(TypeError, "expected a function of @triton.jit", kiln.triton.export, len, {})


WHOLE_PROGRAM = """
import torch, triton, triton.language as tl, kiln.triton

@triton.autotune([triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 1), (1 << 18, 4), (256, 2))], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 64 == 0})
@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@triton.jit
def scale(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

def program(x, turns=2):
    total, moved = torch.zeros_like(x), torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:]
    for _ in range(turns):
        add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, total, x.numel())
    scale[(triton.cdiv(x.numel(), 128),)](total, moved, 0.5, x.numel(), BLOCK=128)
    scale[(1,)](total, moved, 0.5, 1, BLOCK=128)
    return moved
"""


TUNED_DESCRIPTOR = """
import torch, triton, triton.language as tl, kiln.triton
from triton.tools.tensor_descriptor import TensorDescriptor

def tile(arguments):
    arguments["source"].block_shape = [arguments["ROWS"], 32]

@triton.autotune([triton.Config({"ROWS": rows}, pre_hook=tile) for rows in (16, 32)], key=["columns"])
@triton.jit
def copy(source, y, columns, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    at = (row + tl.arange(0, ROWS))[:, None] * columns + tl.arange(0, 32)[None, :]
    tl.store(y + at, source.load([row, 0]))

def program(x):
    y = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(x.shape[0], meta["ROWS"]),)](TensorDescriptor.from_tensor(x, [1, 4]), y, x.shape[1])
    return y
"""


# Constants that the IR does not show.
SAME_IR = """
import torch, triton, triton.language as tl, kiln.triton

@triton.jit
def same(y, A: tl.constexpr):
    tl.store(y, 5.0)

def program():
    found = []
    for A in (1, True, 2, "text", (1, 2), tl.float16, None):
        y = torch.zeros(1)
        same[(1,)](y, A)
        found.append(y.item())
    return found
"""


class Ahead(Cases):
    """What is exported has the keys of launches: a process that may compile nothing runs from it."""

    def run_without_compiler(self, bundle, *lines):
        self.run_python("from captured import *", "kiln.triton.load(%r)" % bundle, *lines, "now = kiln.triton.monitor()",
                        "assert now.launches['bundle'] == now.by_kiln > 0, now.text()")

    def run_python(self, *lines):
        text = "\n".join(("import sys", "sys.path[:0] = %r" % [self.folder.name, os.path.join(support.BUILD, "python")], *lines))
        done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))

    def test_a_program_on_fake_tensors(self):
        bundle, names = os.path.join(self.folder.name, "captured.kbundle"), {"__name__": "captured"}
        path = os.path.join(self.folder.name, "captured.py")
        with open(path, "w") as file:
            file.write(WHOLE_PROGRAM)
        exec(compile(WHOLE_PROGRAM, path, "exec"), names)
        before, x = kiln.triton.monitor(), torch.randn(1000)
        library = kiln.triton.capture(names["program"], x, targets=["host"], output=bundle)
        self.assertEqual(kiln.triton.monitor(since=before).kernels, [])
        self.assertEqual(sorted({name.partition("[")[0] for name in library.kernels}), ["add", "scale"])
        self.assertEqual(sum(name.startswith("scale[") for name in library.kernels), 2)  # n = 1 is another
        self.run_without_compiler(bundle, "x = torch.arange(1000.)", "torch.testing.assert_close(program(x), x)")
        self.assertRaisesRegex(ValueError, "the program launched no kernel", kiln.triton.capture, lambda: None)
        with self.assertRaisesRegex(RuntimeError, "in the middle"):
            kiln.triton.capture(self.stop)
        self.assertEqual(add_vectors[(1,)].__class__, types.FunctionType)  # launches are as before

    def test_descriptors_get_the_tiles_of_a_config(self):
        bundle, names = os.path.join(self.folder.name, "tiles.kbundle"), {"__name__": "captured"}
        path = os.path.join(self.folder.name, "captured.py")
        with open(path, "w") as file:
            file.write(TUNED_DESCRIPTOR)
        exec(compile(TUNED_DESCRIPTOR, path, "exec"), names)
        self.assertEqual(len(kiln.triton.capture(names["program"], torch.randn(64, 32), targets=["host"], output=bundle).kernels), 2)
        self.run_without_compiler(bundle, "x = torch.randn(64, 32)", "torch.testing.assert_close(program(x), x)")

    def test_launches_of_the_same_ir_are_all_found(self):
        bundle, path = os.path.join(self.folder.name, "same.kbundle"), os.path.join(self.folder.name, "captured.py")
        with open(path, "w") as file:
            file.write(SAME_IR)
        self.run_python("from captured import *", "kiln.triton.enable()", "assert program() == 7 * [5.0]", "kiln.triton.save(%r)" % bundle)
        self.assertEqual(kiln.Library(bundle).kernels, ["same"])
        self.run_without_compiler(bundle, "assert program() == 7 * [5.0]")

    def stop(self):
        raise RuntimeError("in the middle")

    def test_a_program_for_a_gpu(self):
        """None is there; the tensors say that they are on one."""
        def program():
            x = torch.empty(512, 64, device="cuda", dtype=torch.float16)
            softmax_rows[(512,)](x, torch.empty_like(x), 64, BLOCK=64)
        library = kiln.triton.capture(program, targets=["sm_90a", "sm_80"])
        self.assertEqual(library.kernels, ["softmax_rows"])
        for target in ("sm_90", "sm_80"):
            self.assertEqual(library.device("null:" + target).kernel("softmax_rows").choose(0, 0, 64, grid=1).target[:5], target)

    def test_lists(self):
        bundle = os.path.join(self.folder.name, "lists.kbundle")
        aligned = {"x": "*fp32:16", "y": "*fp32:16", "factor": "fp32", "n": range(1, 1 << 33), "stride": "i32:1"}
        library = kiln.triton.export(scale, [aligned, dict(aligned, x="*bf16:16", n="i32")], [{"BLOCK": 64}, {"BLOCK": 128}], output=bundle)
        self.assertEqual(len(library.kernels), 12)  # n: 1, and i32 and i64 with and without the promise
        self.assertEqual({one.partition("[")[0] for one in library.kernels}, {"scale"})
        before = kiln.triton.monitor()
        try:
            kiln.triton.load(bundle, miss="error")
            for n, block in ((1, 64), (48, 128), (50, 64)):
                x, y = torch.randn(64), torch.zeros(64)
                scale[(1,)](x, y, 2.0, n, 1, BLOCK=block)
                torch.testing.assert_close(y[:n], 2 * x[:n])
            self.assertRaisesRegex(kiln.NotFound, "constant BLOCK: 256, there (64|128)", scale[(1,)], x, y, 2.0, 48, 1, BLOCK=256)
        finally:
            kiln.triton.load()
            kiln.triton.disable()
        self.assertEqual(kiln.triton.monitor(since=before).launches["bundle"], 3)

    def test_configs(self):
        blocks = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (64, 128) for warps in (1, 2)]
        types = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}
        self.assertEqual(len(kiln.triton.export(add_vectors, types, configs=blocks).kernels), 4)
        self.assertEqual(len(kiln.triton.export(triton.autotune(blocks[:2], key=["n"])(add_vectors), types).kernels), 2)
        worked_out = triton.heuristics({"BLOCK": lambda args: 32 * args["num_warps"]})(add_vectors)
        self.assertEqual(kiln.triton.export(worked_out, types, num_warps=4).kernels, ["add_vectors"])
        self.assertRaisesRegex(TypeError, "add_vectors: the heuristic for 'BLOCK' reads 'num_warps', which has no value", kiln.triton.export, worked_out, types)
        self.assertRaisesRegex(TypeError, r"add_vectors: parameter 'n': range\(0, 0\) has no integers", kiln.triton.export, add_vectors, dict(types, n=range(0)), {"BLOCK": 64})
        self.assertRaisesRegex(ValueError, "expected at least one signature", kiln.triton.export, add_vectors, [])


class Examples(Cases):
    def test_the_example_runs(self):
        bundle = os.path.join(self.folder.name, "example.kbundle")
        done = subprocess.run([sys.executable, os.path.join(support.ROOT, "examples", "python", "triton", "add.py"), bundle], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python")), timeout=600)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "3000 sums on cpu, 3000 from %s, 0 wrong\n" % bundle), done.stderr.decode())


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
        self.assertEqual(repr(add), "<kiln.triton.Jit add_vectors(x, y, z, n, BLOCK)>")
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
        found = softmax.warmup(x, y, 100, BLOCK=128, num_warps=4, grid=(7,))
        self.assertIsInstance(found.kernel, kiln.Kernel)
        self.assertEqual((found.metadata.num_warps, found.metadata.name, found.n_spills), (4, "softmax_rows", 0))
        self.assertIn("tt.reduce", found.asm["ttir"])
        self.assertEqual((softmax.launches, len(softmax.variants)), (3, 3))

    def test_heuristics(self):
        softmax = kiln.triton.jit(triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["columns"])})(softmax_rows))
        x, y = torch.randn(3, 50), torch.zeros(3, 50)
        softmax[(3,)](x, y, 50)
        torch.testing.assert_close(y, torch.softmax(x, 1))

    def test_what_is_refused(self):
        self.assertRaisesRegex(TypeError, "expected a function of @triton.jit", kiln.triton.jit, len)
        add = kiln.triton.jit(add_vectors)
        self.assertRaises(TypeError, add[(1,)], torch.zeros(4))
        x = torch.zeros(4)
        with self.assertRaisesRegex(TypeError, "failed to specialize argument of type: .*SimpleNamespace"):
            add[(1,)](types.SimpleNamespace(device="cpu"), x, x, 4, BLOCK=4)  # as NumPy's arrays have it
        self.assertRaisesRegex(kiln.Error, "KILN-E0013", kiln.triton.export, add_vectors, {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 128},
                               targets=["toaster"])


    def test_what_is_not_compiled_is_said_of_the_kernel_and_its_line(self):
        x, line = torch.zeros(64), add_vectors.starting_line_number
        wanted = r"^kernel 'add_vectors' \(%s:\d+\): Triton IR: error: metadata: expected num_ctas 1, found 2[^/]*\[KILN-E0012\]$" % re.escape(os.path.abspath(__file__))
        for call in (lambda: kiln.triton.jit(add_vectors)[(1,)](x, x, x, 64, BLOCK=64, num_ctas=2),
                     lambda: kiln.triton.export(add_vectors, {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 64}, num_ctas=2)):
            with self.assertRaisesRegex(kiln.triton.NotCompiled, wanted) as caught:
                call()
            found = int(str(caught.exception).partition(".py:")[2].partition(")")[0])
            self.assertTrue(line <= found <= line + 1, (line, found))
            self.assertEqual((caught.exception.number, str(pickle.loads(pickle.dumps(caught.exception)))), (12, str(caught.exception)))


class Specialised(Cases):
    """What makes a variant, against Triton's own rules."""

    def value(self, jitted, *arguments, **named):
        y = torch.zeros(1, dtype=torch.float64)
        jitted[(1,)](y, *arguments, **named)
        return y.item()

    def test_constants_defaults_none_and_truth(self):
        jitted = kiln.triton.jit(constants)
        for arguments, named, expected in (((3, 5), {}, 1103), ((3, None), {}, 1003), ((3, None, 4), {}, 3), ((3, None), {"flag": True}, 11003),
                                           ((3, None), {"flag": False}, 1003), ((3, 1), {"C": 2, "flag": True}, 10103)):
            for _ in range(2):
                self.assertEqual(self.value(jitted, *arguments, **named), expected, (arguments, named))

    def test_a_tensor_without_memory_is_named(self):
        from torch._subclasses import FakeTensorMode
        jitted = kiln.triton.jit(kind_of)
        with FakeTensorMode():
            fakes = [torch.zeros(1, dtype=torch.float64, device=device) for device in ("cpu", "meta")]
        for y in (torch.zeros(1, dtype=torch.float64, device="meta"), *fakes):
            for arguments, named in (((y, 2), {}), ((), {"y": y, "A": 2})):
                with self.assertRaisesRegex(TypeError, r"kind_of.*argument 'y'.*expected a (tensor with memory on the CPU or a GPU, found one on meta|plain tensor, found a FakeTensor)"):
                    jitted[(1,)](*arguments, **named)

    def test_constants_that_are_equal_are_not_the_same(self):
        jitted = kiln.triton.jit(kind_of)
        self.assertEqual(self.value(jitted, 2), 3)
        self.assertEqual(len(jitted.variants), 1)
        self.assertEqual(self.value(jitted, True), 7)
        self.assertEqual(self.value(jitted, 1), 7)
        self.assertEqual(len(jitted.variants), 3)

    def test_what_wraps_equal_constants_is_not_the_same(self):
        for wrap in (tl.constexpr, Wrapped, lambda one: Wrapped(Wrapped(one)), lambda one: (one, one), lambda one: (Wrapped(one),)):
            jitted = kiln.triton.jit(first_of)
            for _ in range(2):
                for one, wanted in ((1, 1), (True, 3), (1.0, 2)):
                    self.assertEqual(self.value(jitted, wrap(one)), wanted)
            self.assertEqual(len(jitted.variants), 3)
        jitted = kiln.triton.jit(first_of_tuple)
        for _ in range(2):
            for one, wanted in ((1, 1), (True, 3), (1.0, 2)):
                self.assertEqual(self.value(jitted, (tl.constexpr(one), 5)), wanted)

    def test_named_tuples_of_two_classes_are_not_the_same(self):
        P, Q = collections.namedtuple("P", "p q"), collections.namedtuple("Q", "q p")
        jitted, fixed = kiln.triton.jit(fields), kiln.triton.jit(fixed_fields)
        for one in (P, Q, P, Q):
            self.assertEqual(self.value(jitted, one(2, 3)), 23 if one is P else 32)
            self.assertEqual(self.value(fixed, one(2, 3)), 23 if one is P else 32)
        for first, wanted in ((1, 7), (True, 7), (1.0, 7)):  # which are equal
            self.assertEqual(self.value(kiln.triton.jit(fixed_fields), P(first, -3)), wanted)
        self.assertEqual(len(fixed.variants), 2)
        for first in (1, True, 1.0):
            self.value(fixed, P(first, -3))
        self.assertEqual(len(fixed.variants), 5)

    def test_what_changes_in_a_module_is_refused(self):
        settings.factor = tl.constexpr(3)
        jitted = kiln.triton.jit(by_settings)
        for _ in range(3):
            self.assertEqual(self.value(jitted, 7), 21)
        settings.factor = tl.constexpr(4)
        with self.assertRaisesRegex(RuntimeError, "settings.factor has changed since we compiled this kernel"):
            self.value(jitted, 7)
        jitted = kiln.triton.jit(by_global)
        for _ in range(3):
            self.assertEqual(self.value(jitted, 7), 35)
        try:
            GLOBAL.value = 6
            with self.assertRaisesRegex(RuntimeError, "GLOBAL has changed since we compiled this kernel"):
                self.value(jitted, 7)
        finally:
            GLOBAL.value = 5

    def test_integers_by_width_one_and_divisibility(self):
        jitted, variants = kiln.triton.jit(type_of), 0
        for n, bits, is_new in ((3, 32, True), (5, 32, False), (16, 32, True), (32, 32, False), (-(1 << 31), 32, False), ((1 << 31) - 1, 32, False), (1 << 31, 64, True),
                                ((1 << 31) + 1, 64, True), ((1 << 62) + 1, 64, False), (-(1 << 31) - 1, 64, False), (0, 32, False)):
            self.assertAlmostEqual(self.value(jitted, n), float(n) + bits / 1000, delta=abs(n) / (1 << 50) + 1e-9)
            variants += is_new
            self.assertEqual(len(jitted.variants), variants, n)
        unspecialised = kiln.triton.jit(triton.jit(type_of.fn, do_not_specialize=["n"]))
        for n in (1, 3, 16):
            self.assertAlmostEqual(self.value(unspecialised, n), n + 0.032)
        self.assertEqual(len(unspecialised.variants), 1)

    def test_globals_that_change_are_an_error(self):
        text = "import triton, triton.language as tl\nSTEP = tl.constexpr(3)\n@triton.jit\ndef stepped(y):\n    tl.store(y, STEP * 1.0)\n"
        path = os.path.join(self.folder.name, "stepped_kernel.py")
        with open(path, "w") as file:
            file.write(text)
        sys.path.insert(0, self.folder.name)
        self.addCleanup(sys.path.remove, self.folder.name)
        import stepped_kernel
        jitted = kiln.triton.jit(stepped_kernel.stepped)
        self.assertEqual(self.value(jitted), 3)
        stepped_kernel.STEP = tl.constexpr(4)
        self.assertRaisesRegex(RuntimeError, "Global variable STEP has changed", self.value, jitted)

    def test_tuples(self):
        jitted = kiln.triton.jit(sum_of_tuple)
        pair = (torch.tensor([2.0], dtype=torch.float64), (torch.tensor([3.0], dtype=torch.float64), 7))
        self.assertEqual(self.value(jitted, pair, 1), 24)
        self.assertEqual(self.value(jitted, (pair[0], (pair[1][0], 1)), 1), 6)
        self.assertEqual(len(jitted.variants), 2)

    def test_what_tensors_may_be(self):
        jitted = kiln.triton.jit(count_up)
        x = torch.zeros(2, 64)
        jitted[(1,)](x.T, BLOCK=128)  # the address counts, as with Triton
        self.assertTrue(torch.equal(x, torch.ones(2, 64)))
        parameter = torch.nn.Parameter(torch.zeros(64))
        jitted[(1,)](parameter, BLOCK=64)
        self.assertEqual((parameter.sum().item(), parameter._version), (64, 1))
        jitted[(0,)](x, BLOCK=128)
        jitted[(torch.tensor(1),)](triton.reinterpret(x.view(torch.int32), tl.int32), BLOCK=128)
        self.assertEqual(x.view(torch.int32).unique().tolist(), [0x3F800001])
        self.assertRaises(TypeError, jitted[(1,)], "text", BLOCK=64)
        self.assertRaises(KeyError, jitted[(1,)], x, BLOCK=64, num_wraps=4)


class Descriptors(Cases):
    def test_made_by_the_host(self):
        from triton.tools.tensor_descriptor import TensorDescriptor
        jitted = kiln.triton.jit(tiles_by_descriptor)
        for source in (torch.randn(48, 64), torch.randn(48, 128)[:, :64]):
            y = torch.zeros(48, 64)
            jitted[(3, 2)](TensorDescriptor.from_tensor(source, [16, 32]), y, ROWS=16, COLUMNS=32)
            torch.testing.assert_close(y, 2 * source)
        y = torch.zeros(64, 64)
        jitted[(4, 2)](TensorDescriptor.from_tensor(torch.ones(40, 64), [16, 32]), y, ROWS=16, COLUMNS=32)  # zero beyond the rows
        self.assertEqual(y.sum(), 2 * 40 * 64)
        self.assertRaisesRegex(TypeError, "pads with zero, found padding 'nan'", jitted[(3, 2)],
                               TensorDescriptor.from_tensor(torch.ones(48, 64), [16, 32], padding="nan"), y, ROWS=16, COLUMNS=32)

    def test_what_does_not_fit_is_refused(self):
        from triton.tools.tensor_descriptor import TensorDescriptor
        jitted, y = kiln.triton.jit(tiles_by_descriptor), torch.zeros(48, 64)

        def launch(**changes):
            descriptor = TensorDescriptor.from_tensor(torch.zeros(48, 128)[:, :64], [16, 32])
            vars(descriptor).update(changes)  # behind Triton's own check
            jitted[(1, 1)](descriptor, y, ROWS=16, COLUMNS=32)
        launch()
        self.assertRaisesRegex(kiln.LaunchRefused, r"stride 0 of source is promised to be divisible by 4 \(16 bytes\), but is 66 \(264 bytes\)", launch, strides=[66, 1])
        self.assertRaisesRegex(kiln.LaunchRefused, "stride 1 of source is promised to be 1, but is 2", launch, shape=[48, 32], strides=[128, 2])
        self.assertRaisesRegex(kiln.LaunchRefused, "source is promised to be aligned to 16 bytes", launch, base=torch.zeros(48 * 64 + 1)[1:].view(48, 64), strides=[64, 1])
        launch()

    def test_made_by_the_kernel(self):
        x, y = torch.randn(48, 64), torch.zeros(48, 64)
        kiln.triton.jit(tiles_by_device_descriptor)[(3, 2)](x, y, 48, 64, ROWS=16, COLUMNS=32)
        torch.testing.assert_close(y, 2 * x)


class Hooks(Cases):
    def test_around_launches(self):
        told = []
        described = kiln.triton.jit(triton.jit(count_up.fn, launch_metadata=lambda grid, metadata, arguments: {"flops": arguments["BLOCK"], "grid": grid}))
        x = torch.zeros(64)
        described.fn.add_pre_run_hook(lambda *arguments, **named: told.append(("before", named["BLOCK"])))

        def enter(metadata):
            told.append(("enter", metadata.get()["name"], metadata.get()["flops"], x[0].item()))

        def leave(metadata):
            told.append(("leave", x[0].item()))

        triton.knobs.runtime.launch_enter_hook.add(enter)
        triton.knobs.runtime.launch_exit_hook.add(leave)
        try:
            described[(1,)](x, BLOCK=64)
        finally:
            triton.knobs.runtime.launch_enter_hook.remove(enter)
            triton.knobs.runtime.launch_exit_hook.remove(leave)
        self.assertEqual(told, [("before", 64), ("enter", "count_up", 64, 0.0), ("leave", 1.0)])
        described[(1,)](x, BLOCK=64)
        self.assertEqual(told[3:], [("before", 64)])

    def test_around_compiling(self):
        told = []

        def hook(**what):
            told.append((what["fn"].name, what["compile"]["num_warps"], what["compile"]["signature"]["x"]))

        triton.knobs.runtime.jit_post_compile_hook = hook
        try:
            jitted = kiln.triton.jit(count_up)
            for _ in range(2):
                jitted[(1,)](torch.zeros(64), BLOCK=64, num_warps=2)
            triton.knobs.runtime.jit_cache_hook = lambda **_: True  # takes the compile upon itself
            self.assertIsNone(jitted[(1,)](torch.zeros(64), BLOCK=32))
        finally:
            triton.knobs.runtime.jit_post_compile_hook = triton.knobs.runtime.jit_cache_hook = None
        self.assertEqual(told, [("count_up", 2, "*fp32")])


class Tuned(Cases):
    """@triton.autotune. On the host small blocks are far slower than large ones, which is not so on a GPU."""

    def setUp(self):
        import kiln.triton._host_driver
        import kiln.triton._autotune
        kiln.triton._host_driver.activate()
        self.tuning = kiln.triton._autotune
        self.addCleanup(setattr, self.tuning, "BUDGET_S", self.tuning.BUDGET_S)
        self.addCleanup(kiln.triton.use_table)
        self.tuning.BUDGET_S = 1.0

    def tuner(self, fn=None, sizes=(32, 1024), **named):
        return kiln.triton.jit(triton.autotune([triton.Config({"BLOCK": size}) for size in sizes], key=["n"], **named)(fn or add_vectors))

    def launch(self, tuner, n=1 << 15):
        x, y, z = torch.randn(n), torch.randn(n), torch.zeros(n)
        tuner[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n)
        torch.testing.assert_close(z, x + y)

    @unittest.skipIf(DEVICE != "cpu", "the times are those of the host")
    def test_the_faster_config_wins_once_a_key(self):
        tuner = self.tuner()  # blocks of 1024 are far faster on the host
        self.launch(tuner)
        self.assertEqual(tuner.best_config.kwargs, {"BLOCK": 1024})
        done = tuner.fn.launches
        self.launch(tuner)
        self.assertEqual((tuner.fn.launches, len(tuner.cache)), (done + 1, 1))
        self.launch(tuner, 1 << 14)
        self.assertEqual(len(tuner.cache), 2)

    def test_memory_is_as_one_launch_leaves_it(self):
        x = torch.zeros(4096)
        for named in ({"restore_value": ["x"]}, {"reset_to_zero": ["x"]}):
            tuner = kiln.triton.jit(triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 256)], key=[], **named)(count_up))
            tuner[lambda meta: (4096 // meta["BLOCK"],)](x)
            self.assertTrue(torch.equal(x, torch.ones(4096)), named)
            x.zero_()

    def test_pruning_and_hooks(self):
        seen = []
        tuner = kiln.triton.jit(triton.autotune(
            [triton.Config({"BLOCK": size}, pre_hook=lambda given: seen.append(given["BLOCK"])) for size in (32, 64, 128)], key=["n"],
            prune_configs_by={"early_config_prune": lambda configs, given, **_: [c for c in configs if c.kwargs["BLOCK"] <= 64 and given["n"]]})(add_vectors))
        self.launch(tuner)
        self.assertEqual(set(seen), {32, 64})
        modelled = self.tuner(sizes=(32, 64, 1024), prune_configs_by={"perf_model": lambda BLOCK, **_: abs(BLOCK - 64), "top_k": 1})
        self.launch(modelled)
        self.assertEqual(modelled.best_config.kwargs, {"BLOCK": 64})

    def test_configs_that_do_not_compile_are_passed_over(self):
        refused = [triton.Config({"BLOCK": size}, num_ctas=2) for size in (64, 128)]  # Kiln has no clusters of Triton's
        tuner = kiln.triton.jit(triton.autotune([refused[0], triton.Config({"BLOCK": 256}), refused[1]], key=["n"])(add_vectors))
        self.launch(tuner)
        self.assertEqual(tuner.best_config.kwargs, {"BLOCK": 256})
        with self.assertRaises(triton.runtime.errors.PTXASError) as caught:
            self.launch(kiln.triton.jit(triton.autotune(refused, key=["n"])(add_vectors)))
        self.assertIn("add_vectors: no config can run", str(caught.exception))
        self.assertIn("num_ctas", str(caught.exception))

    def test_the_text_of_a_kernel_depends_on_no_other(self):
        reading, target = kiln.triton._compilation, kiln.triton._devices.READ_FOR
        options = reading.make_backend(target).parse_options({})

        def text(block, fn=add_vectors):
            signature = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "BLOCK": "constexpr"}
            return reading.triton_ir(reading.source_of(fn, signature, {(4,): block}, {}), options, target)

        def fresh(block):
            reading._contexts = reading._Contexts()
            return text(block)

        self.addCleanup(setattr, reading, "_contexts", reading._contexts)
        self.addCleanup(setattr, reading._Contexts, "MOST_KERNELS", reading._Contexts.MOST_KERNELS)
        blocks = (64, 128, 256)
        alone = list(map(fresh, blocks))
        self.assertEqual(len({found for found, _ in alone}), 3)
        for most in (64, 2):  # of one context; more than one
            reading._Contexts.MOST_KERNELS = most
            reading._contexts = reading._Contexts()
            self.assertEqual(list(map(text, blocks * 3)), alone * 3)
        with self.assertRaises(triton.compiler.errors.CompilationError):  # 65 is no power of two
            text(65)
        self.assertTrue(gc.isenabled())
        self.assertEqual(list(map(text, blocks)), alone)
        found = []
        threads = [threading.Thread(target=lambda: found.append(list(map(text, blocks)))) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(found, [alone] * 4)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor compiles one config at a time")
    def test_configs_are_compiled_beside_each_other(self):
        reading, both, texts = kiln.triton._compilation, threading.Barrier(2, timeout=300), []

        def compile_ir(text, *others):
            texts.append(text)
            if len(texts) <= 2:
                both.wait()  # that of another config is under way
            return theirs(text, *others)

        theirs, reading.compile_ir = reading.compile_ir, compile_ir
        self.addCleanup(setattr, reading, "compile_ir", theirs)
        tuner = self.tuner(sizes=(64, 128, 256))
        self.launch(tuner)
        self.assertEqual((len(texts), len(set(texts)), len(tuner.fn.variants)), (3, 3, 3))  # each once
        self.launch(tuner)
        self.assertEqual(len(texts), 3)

    @unittest.skipIf(DEVICE != "cpu", "the times are those of the host")
    def test_a_table_is_asked_first_and_filled(self):
        path = os.path.join(self.folder.name, "choices.table")
        kiln.triton.use_table(path)
        tuner = self.tuner()
        self.launch(tuner)
        with open(path) as file:
            text = file.read()
        self.assertRegex(text, r'kernel=add_vectors types="\*f32 \*f32 \*f32 i32" product=host processor=host units=0 bin.n=32768 config="?BLOCK=1024,warps=4,stages=3"? id=[0-9a-f]{16}')
        other = text.replace("BLOCK=1024,warps", "BLOCK=32,warps")
        with open(path, "w") as file:
            file.write(other)
        again = self.tuner()
        self.launch(again)  # measures nothing
        self.assertEqual((again.best_config.kwargs, again.fn.launches), ({"BLOCK": 32}, 1))
        self.launch(again, (1 << 15) + 16)  # the same bin
        self.assertEqual((again.best_config.kwargs, again.fn.launches), ({"BLOCK": 32}, 2))
        support.tool("tune", "--merge", "-o", os.path.join(self.folder.name, "merged.table"), path)

    def test_bins_are_those_of_tables(self):
        with open(os.path.join(self.folder.name, "bins"), "w") as file:
            file.write("kiln tuned 1\n")
            values = [0, 1, 7, 8, 9, 10, 13, 15, 16, 19, 20, 100, 1023, 1024, 1279, 1280, (1 << 31) - 1, (1 << 40) + 5]
            for value in values:
                file.write("kernel=k%d types=i32 product=* processor=* units=0 bin.n=%d config=x\n" % (value, self.tuning.bin_of(value)))
        support.tool("tune", "--merge", "-o", os.path.join(self.folder.name, "bins.out"), os.path.join(self.folder.name, "bins"))  # refuses what is no least number
        self.assertEqual([self.tuning.bin_of(value) for value in (-5, 9, 11, 19, 23)], [0, 8, 10, 16, 20])

    def test_intervals(self):
        self.assertEqual(self.tuning.estimate([5, 1, 3])[1:], (0, float("inf")))
        self.assertEqual(self.tuning.estimate([1, 2, 3, 4, 5, 6]), (3.5, 1, 6))
        self.assertEqual(self.tuning.estimate(range(1, 101)), (50.5, 40, 61))  # by the tables of the sign test
        close, far = (10.0, 9.0, 11.0), (20.0, 19.0, 21.0)
        self.assertEqual(self.tuning.narrowed({"a": close, "b": far, "c": (11.5, 10.5, 12.5)}), {"a", "c"})
        self.assertEqual(self.tuning.winner({"usual": (10.5, 9.5, 11.5), "other": close}, "usual"), "usual")
        self.assertEqual(self.tuning.winner({"usual": far, "other": close}, "usual"), "other")
        self.assertEqual(self.tuning.winner({"other": close}, "usual"), "other")

    def test_nothing_is_measured_in_a_capture(self):
        tuner = self.tuner()
        self.tuning._is_capturing, before = lambda: True, self.tuning._is_capturing
        self.addCleanup(setattr, self.tuning, "_is_capturing", before)
        self.launch(tuner)
        self.assertEqual((tuner.best_config.kwargs, tuner.fn.launches, tuner.cache), ({"BLOCK": 32}, 1, {}))


PROGRAM = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=[])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = (i < n) | EVEN
    tl.store(z + i, tl.load(x + i, mask=live) + tl.load(y + i, mask=live), mask=live)

x, y = torch.randn(1000), torch.randn(1000)
z = torch.zeros(1000)
add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, z, 1000)
print("wrong:", int((z != x + y).sum()))
"""


class Unmodified(Cases):
    """Kiln behind a program that knows nothing of it."""

    def run_program(self, program, **environment):
        path = os.path.join(self.folder.name, "program.py")
        with open(path, "w") as file:
            file.write(program)
        environment = {"PYTHONPATH": os.path.join(support.BUILD, "python"), **environment}
        return subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, env={**os.environ, **environment})

    def test_by_one_import(self):
        done = self.run_program("import kiln.triton.auto\n" + PROGRAM + "print(kiln.triton.launches()['triton'], kiln.triton.launches()['kiln'] > 2)\n"
                                "kiln.triton.save('%s')\n" % os.path.join(self.folder.name, "saved.kbundle"))
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "wrong: 0\n0 True\n"), done.stderr.decode())
        names = kiln.Library(os.path.join(self.folder.name, "saved.kbundle")).kernels
        self.assertEqual(len(names), 2)
        self.assertTrue(all(name.startswith("add[") for name in names), names)

    def test_one_import_follows_the_environment(self):
        """Where no kiln-triton.pth is installed."""
        bundle, program = os.path.join(self.folder.name, "one.kbundle"), "import kiln.triton.auto\n" + PROGRAM
        done = self.run_program(program, KILN_TRITON_SAVE=bundle)
        self.assertEqual((done.returncode, len(kiln.Library(bundle).kernels)), (0, 2), done.stderr.decode())
        done = self.run_program(program, KILN_TRITON_BUNDLE=bundle, KILN_TRITON_MISS="error", KILN_TRITON="report")
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "wrong: 0\n"), done.stderr.decode())
        self.assertIn("from the cache 0, compiled now 0", done.stderr.decode())
        done = self.run_program(program.replace("+ tl.load", "- tl.load"), KILN_TRITON_BUNDLE=bundle, KILN_TRITON_MISS="error")
        self.assertIn("source: ", done.stderr.decode())

    @unittest.skipIf(DEVICE != "cpu", "the program is for the CPU")
    def test_by_the_environment(self):
        site = os.path.join(self.folder.name, "site")
        os.makedirs(site, exist_ok=True)
        with open(os.path.join(site, "sitecustomize.py"), "w") as file:  # a build's folder is in PYTHONPATH, which reads no .pth
            file.write("import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python"))
        path = os.pathsep.join((site, os.path.join(support.BUILD, "python")))
        for value, returncode, text in (("report", 0, "kernels ran Kiln's code, 0 Triton's"), ("0", 1, "")):
            done = self.run_program(PROGRAM, KILN_TRITON=value, PYTHONPATH=path)
            self.assertEqual(done.returncode, returncode, done.stderr.decode())
            self.assertIn(text, done.stderr.decode())
        self.assertIn("active drivers", done.stderr.decode())  # Triton itself has no CPU

    def test_variables_that_nothing_reads_are_named(self):
        """As where no kiln-triton.pth is installed: here they are set after the interpreter has read it."""
        for text, said in (("import kiln.triton", True), ("import kiln.triton.auto", False), ("import kiln", False)):
            done = self.run_program("import os\nos.environ.update(KILN_TRITON='1', KILN_TRITON_SAVE='%s')\n%s" % (os.path.join(self.folder.name, "none.kbundle"), text))
            self.assertEqual((done.returncode, "warning: KILN_TRITON, KILN_TRITON_SAVE had no effect: " in done.stderr.decode()), (0, said), done.stderr.decode())

    def test_triton_comes_back(self):
        before = triton.JITFunction.run
        kiln.triton.enable()
        kiln.triton.enable()
        self.assertIsNot(triton.JITFunction.run, before)
        x, count = torch.zeros(64), kiln.triton.launches()["kiln"]
        try:
            count_up[(1,)](x, BLOCK=64)
            compiled = count_up.warmup(x, BLOCK=64, grid=(1,))
            compiled[(1, 1, 1)](x, 64)
        finally:
            kiln.triton.disable()
        self.assertIs(triton.JITFunction.run, before)
        self.assertEqual((x.sum().item(), kiln.triton.launches()["kiln"]), (128, count + 2))


class Saved(Cases):
    def test_what_was_launched_runs_without_triton(self):
        path = os.path.join(self.folder.name, "launched.kbundle")
        kiln.triton.jit(softmax_rows)[(4,)](torch.randn(4, 60), torch.zeros(4, 60), 60, BLOCK=64)
        kiln.triton.save(path)
        program = "import sys, kiln\nlibrary = kiln.Library(sys.argv[1])\nassert 'triton' not in sys.modules\nimport torch\ntorch.set_default_device(%r)\n" \
                  "x = torch.randn(2, 60); y = torch.zeros(2, 60)\n" \
                  "kernel = [k for k in library.kernels if k.startswith('softmax_rows')][0]\nlibrary.device(%r).kernel(kernel)[2](x, y, 60)\n" \
                  "assert torch.allclose(y, torch.softmax(x, 1))\n" % (DEVICE, PLACE)
        done = subprocess.run([sys.executable, "-c", program, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                              env=dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python")))
        self.assertEqual(done.returncode, 0, done.stdout.decode())


if __name__ == "__main__":
    sys.exit(support.main(__name__))
