# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What test_triton_versions.py runs with each version of Triton, in an environment that has its wheel and nothing else: kiln.triton needs no PyTorch. Whatever has
`data_ptr` and `dtype` is a tensor to Triton; Array is that, over bytes of its own. KILN_TEST_SEED chooses what is drawn."""
import array
import contextlib
import inspect
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import types
import unittest
import warnings

import support

import triton
import triton.language as tl
import triton.testing
from triton import knobs
from triton.runtime import Autotuner, JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

import kiln  # noqa: E402
import kiln.triton

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
SEED = int(os.environ.get("KILN_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
TYPES = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "int16": "h", "int8": "b"}


class Array:
    """Elements in memory of its own, aligned to 16 bytes or, `misaligned`, not."""

    def __init__(self, values, dtype="float32", misaligned=False):
        self.dtype, self.count = dtype, len(values)
        self.memory = array.array(TYPES[dtype], [0] * (len(values) + 32))
        size = self.memory.itemsize
        address = self.memory.buffer_info()[0]
        self.first = (-address % 16) // size + (1 if misaligned else 0)
        self.address = address + self.first * size
        self.set(values)

    def set(self, values):
        self.memory[self.first:self.first + self.count] = array.array(self.memory.typecode, values)

    def data_ptr(self):
        return self.address

    def list(self):
        return self.memory[self.first:self.first + self.count].tolist()


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def count_up(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def product(a, b, c, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j), input_precision="ieee"))


@triton.jit
def dotted(a, b, c, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j)))


@triton.jit
def running(x, y, n, BLOCK: tl.constexpr):
    total = 0.0
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        part = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, total + tl.cumsum(part, 0), mask=i < n)
        total += tl.sum(part, 0)
    tl.store(y + n, tl.max(tl.load(x + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n, other=-float("inf")), 0))


@triton.jit
def width_of(y, n):
    tl.store(y, n.to(tl.int64))
    tl.store(y + 1, tl.zeros((1, ), tl.int64).sum(0) + n.dtype.primitive_bitwidth)


@triton.jit
def annotated(y, a: tl.int8, b: tl.uint8, c: tl.int16, d: tl.uint16, e: tl.int32, f: tl.uint32, g: tl.int64, h: tl.uint64):
    tl.store(y, a.to(tl.int64))
    tl.store(y + 1, b.to(tl.int64))
    tl.store(y + 2, c.to(tl.int64))
    tl.store(y + 3, d.to(tl.int64))
    tl.store(y + 4, e.to(tl.int64))
    tl.store(y + 5, f.to(tl.int64))
    tl.store(y + 6, g.to(tl.int64))
    tl.store(y + 7, h.to(tl.int64))


@triton.jit
def prints(x):
    tl.device_print("value:", tl.load(x))
    print("again", tl.load(x))
    tl.store(x, 5.0)


@triton.jit
def of_tuple(y, pair):
    tl.store(y, tl.load(pair[0]) * pair[1])


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        cls.folder = tempfile.TemporaryDirectory(prefix="kiln-triton-alone-")
        os.environ["KILN_CACHE_DIR"] = os.path.join(cls.folder.name, "cache")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


class Inside(Cases):
    """What Kiln uses of Triton's inside has the parameters that it counts on."""

    def parameters(self, function):
        return " ".join(inspect.signature(function).parameters)

    def test_what_differs_is_in_the_table(self):
        from kiln.triton import _versions
        self.assertEqual(_versions.TABLE[VERSION], _versions.HERE)
        self.assertEqual("target" in self.parameters(JITFunction._call_hook).split(), _versions.HERE.hook_has_target)
        self.assertEqual("round_f32_to_tf32" in self.parameters(TensorDescriptor).split(), _versions.HERE.descriptor_rounds)
        self.assertEqual(hasattr(knobs.autotuning, "listener"), _versions.HERE.tuner_has_listener)

    def test_what_does_not_differ(self):
        from triton.backends import Backend
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, CompiledKernel, make_backend
        from triton.runtime import driver
        from triton.runtime.jit import create_function_from_signature
        backend = make_backend(GPUTarget("cuda", 90, 32))
        for function, parameters in (
                (create_function_from_signature, "sig kparams backend"), (JITFunction._pack_args, "self backend kwargs bound_args specialization options"),
                (ASTSource, "fn signature constexprs attrs"), (ASTSource.make_ir, "self target options codegen_fns module_map context"),
                (backend.make_ttir, "mod metadata opt capability"), (backend.parse_options, "opts"), (backend.get_codegen_implementation, "options"),
                (Backend, "compiler driver"), (GPUTarget, "backend arch warp_size"), (Autotuner.prune_configs, "self kwargs"),
                (Autotuner._bench, "self args config meta"), (driver.set_active, "driver")):
            self.assertEqual(self.parameters(function), parameters, function)
        self.assertEqual([hook for hook in self.parameters(JITFunction._call_hook).split() if hook != "target"],
                         "self hook key signature device constants options configs is_warmup".split())
        self.assertIsInstance(CompiledKernel.run, property)
        self.assertEqual({"_default", "_active"} - set(vars(driver)), set())
        for name in ("_src", "hash", "used_global_vals", "pre_run_hooks", "params", "arg_names", "debug", "launch_metadata"):
            self.assertTrue(hasattr(add, name), name)
        binder = create_function_from_signature(add.signature, add.params, backend)
        x = Array([0] * 4)
        bound, kinds, options = binder(x, x, x, 5, BLOCK=16)
        self.assertEqual((list(bound), kinds, options), (["x", "y", "z", "n", "BLOCK"], [("*fp32", "D")] * 3 + [("i32", ""), ("constexpr", 16)], {}))


class Launches(Cases):
    def test_export(self):
        library = kiln.triton.export(add, {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 128}, targets=["sm_90a", "gfx942", "host"],
                                     divisible=["n"], num_warps=8)
        device = library.device("host")
        x, y, z = (device.memory(160, "f32") for _ in range(3))
        x.copy_in(array.array("f", range(160)))
        y.copy_in(array.array("f", [1] * 160))
        device.kernel("add")[2](x, y, z, 160)
        self.assertEqual(array.array("f", bytes(z)).tolist(), [i + 1.0 for i in range(160)])
        self.assertRaisesRegex(kiln.LaunchRefused, "divisible by 16", device.kernel("add")[2], x, y, z, 159)

    def test_an_export_as_for_amd(self):
        """Triton's front end reads as for AMD, whose backend has functions of its own."""
        target = triton.backends.compiler.GPUTarget("hip", "gfx942", 64)
        library = kiln.triton.export(add, dict.fromkeys("xyz", "*fp32:16") | {"n": "i32"}, {"BLOCK": 128}, targets=["gfx942"], read_for=target, num_warps=2)
        self.assertEqual(library.device("null:gfx942").kernel("add").choose(0, 0, 0, 16, grid=1).target, "gfx942")

    def test_drawn_launches(self):
        draw, jitted = random.Random(SEED), kiln.triton.jit(add)
        for _ in range(20):
            n, block, dtype = draw.randrange(1, 300), draw.choice((16, 64, 128)), draw.choice(sorted(TYPES))
            x, y = ([draw.randrange(-50, 50) for _ in range(n)] for _ in range(2))
            z = Array([77] * (n + 8), dtype, draw.random() < 0.5)
            jitted[(-(-n // block),)](Array(x, dtype, draw.random() < 0.5), Array(y, dtype), z, n, BLOCK=block, num_warps=draw.choice((1, 4)))
            self.assertEqual(z.list(), [a + b for a, b in zip(x, y)] + [77] * 8, (SEED, n, block, dtype))
        self.assertEqual(jitted.launches, 20)

    def test_products_loops_and_reductions(self):
        a, b, c = [i % 7 - 3 for i in range(256)], [i % 5 - 2 for i in range(256)], Array([0] * 256)
        kiln.triton.jit(product)[(1,)](Array(a), Array(b), c, N=16)
        self.assertEqual(c.list(), [sum(a[16 * i + k] * b[16 * k + j] for k in range(16)) for i in range(16) for j in range(16)])
        x, y = [i % 11 - 4 for i in range(100)], Array([0] * 101)
        kiln.triton.jit(running)[(1,)](Array(x), y, 100, BLOCK=32)
        self.assertEqual(y.list(), list(itertools.accumulate(x)) + [max(x[:32])])

    def test_integers_are_typed_by_triton(self):
        jitted, y = kiln.triton.jit(width_of), Array([0, 0], "int64")
        for n, bits in ((3, 32), (-(1 << 31), 32), ((1 << 31) - 1, 32), (1 << 31, 64), (-(1 << 31) - 1, 64), ((1 << 63) - 1, 64), (-(1 << 63), 64)):
            for _ in range(2):
                jitted[(1,)](y, n)
                self.assertEqual(y.list(), [n, bits])
        unsigned = (1 << 64) - 1  # Triton's u64
        jitted[(1,)](y, unsigned)
        self.assertEqual(y.list(), [-1, 64])
        for n in (1 << 64, -(1 << 63) - 1):
            self.assertRaises((OverflowError, TypeError, ValueError), jitted[(1,)], y, n)

    def test_annotated_integers_at_the_ends_of_their_ranges(self):
        draw, jitted, y = random.Random(SEED), kiln.triton.jit(annotated), Array([0] * 8, "int64")
        ranges = [(0, (1 << bits) - 1) if unsigned else (-1 << bits - 1, (1 << bits - 1) - 1) for bits in (8, 16, 32, 64) for unsigned in (False, True)]
        for _ in range(40):
            values = [draw.choice((least, least + 1, most - 1, most, draw.randint(least, most))) for least, most in ranges]
            jitted[(1,)](y, *values)
            self.assertEqual(y.list(), values[:7] + [values[7] - (values[7] >> 63 << 64)], (SEED, values))
            at = draw.randrange(8)
            values[at] = ranges[at][0] - draw.randint(1, 5) if draw.random() < 0.5 else ranges[at][1] + draw.randint(1, 5)
            before = y.list()
            with self.assertRaises(OverflowError, msg=(SEED, values)):
                jitted[(1,)](y, *values)
            self.assertEqual(y.list(), before)

    def test_what_is_not_plain(self):
        y = Array([0] * 2)
        kiln.triton.jit(of_tuple)[(1,)](y, (Array([3.0]), 5))
        self.assertEqual(y.list()[0], 15)
        jitted = kiln.triton.jit(count_up)
        self.assertRaises(KeyError, jitted[(1,)], y, BLOCK=2, num_wraps=4)
        self.assertRaises(TypeError, jitted[(1,)], "text", BLOCK=2)
        found = jitted.warmup(y, BLOCK=2, grid=(1,))
        self.assertEqual((found.metadata.num_warps, jitted.launches, y.list()), (4, 0, [15, 0]))
        if kiln.triton._versions.HERE.descriptor_rounds:
            descriptor = types_of_descriptor(round_f32_to_tf32=True)
            self.assertRaisesRegex(TypeError, "argument 'x': .* rounds f32 to tf32", kiln.triton._launcher._refuse_descriptor, "x", "tensordesc<fp32[2, 2]>", descriptor)
        self.assertRaisesRegex(TypeError, "argument 'x': .*tensordesc_im2col", kiln.triton._launcher._refuse_descriptor, "x", "tensordesc_im2col<fp32[2, 2]>", None)

    def test_hooks(self):
        told, x = [], Array([0] * 16)

        def compiling(**what):
            told.append((what["fn"].name, what["compile"]["num_warps"], what["compile"]["signature"]["x"], what["compile"]["device"]))
        entering = lambda metadata: told.append((metadata.get()["name"], x.list()[0]))  # noqa: E731
        knobs.runtime.jit_post_compile_hook = compiling
        knobs.runtime.launch_enter_hook.add(entering)
        try:
            jitted = kiln.triton.jit(count_up)
            for _ in range(2):
                jitted[(1,)](x, BLOCK=16, num_warps=2)
            knobs.runtime.jit_cache_hook = lambda **_: True
            self.assertIsNone(jitted[(1,)](x, BLOCK=8))
        finally:
            knobs.runtime.jit_post_compile_hook = knobs.runtime.jit_cache_hook = None
            knobs.runtime.launch_enter_hook.remove(entering)
        self.assertEqual(told, [("count_up", 2, "*fp32", "host"), ("count_up", 0.0), ("count_up", 1.0)])

    def test_tuners(self):
        told, x = [], Array([0] * 64)
        if kiln.triton._versions.HERE.tuner_has_listener:
            knobs.autotuning.listener = lambda **what: told.append((what["fn"], what["cache_hit"], len(what["configs_timings"]) > 0))
        kiln.triton.enable()
        try:
            tuner = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=[])(count_up)
            tuner[lambda meta: (64 // meta["BLOCK"],)](x)
            self.assertEqual(triton.testing.do_bench.__name__, "do_bench")
            self.assertGreater(triton.runtime.driver.active.get_benchmarker()(lambda: None, quantiles=(0.5,))[0], 0)
        finally:
            kiln.triton.disable()
            if told:
                knobs.autotuning.listener = None
        self.assertEqual(len(set(x.list())), 1)
        self.assertEqual(told, [(count_up, False, True)] if kiln.triton._versions.HERE.tuner_has_listener else [])


def types_of_descriptor(**fields):
    return type("Descriptor", (), {"padding": "zero", "round_f32_to_tf32": False, **fields})()


# Each makes ready for, or is, the import of Triton in a program that knows nothing of Kiln.
PROBES = {
    "find_spec": "importlib.util.find_spec('triton')", "find_spec of a part": "importlib.util.find_spec('triton.language')",
    "metadata": "importlib.metadata.version('triton')", "pkgutil": "list(pkgutil.iter_modules())", "path finder": "importlib.machinery.PathFinder.find_spec('triton')",
    "invalidate": "importlib.invalidate_caches()", "import": "import triton", "reload": "import triton; importlib.reload(triton)",
    "threads": "run([threading.Thread(target=__import__, args=(name,)) for name in ('triton', 'triton', 'kiln.triton', 'triton')])",
    "kiln first": "import kiln.triton", "another finder": "sys.meta_path.insert(0, type('F', (), {'find_spec': lambda *_: None}))",
    "executed": "spec = importlib.util.find_spec('triton'); spec.loader.get_source('triton'); importlib.util.module_from_spec(spec)",
    "resources": "import importlib.resources; importlib.resources.files('triton')",
}
PROGRAM = """
import ctypes, importlib, importlib.machinery, importlib.metadata, importlib.util, multiprocessing, os, pkgutil, sys, threading

def run(threads):
    for one in threads: one.start()
    for one in threads: one.join()

if __name__ == "__main__":
%s
import triton, triton.language as tl
import triton.runtime

class Array:
    dtype = "float32"
    memory = (ctypes.c_float * 64)()
    def data_ptr(self): return ctypes.addressof(self.memory)

@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)

def launch(count):
    for _ in range(count): fill[(1,)](Array(), BLOCK=16)

if __name__ == "__main__":
%s
"""
WAYS = {  # to launch COUNT times; the reports of this process and of others
    "one after another": ("launch(COUNT)", 1, 0),
    "with a hook": ("f = lambda *_, **__: None; fill.add_pre_run_hook(f); launch(COUNT); fill.pre_run_hooks.clear()", 1, 0),
    "by what was compiled": ("c = fill.warmup(Array(), BLOCK=16, grid=(1,)); [c[(1, 1, 1)](Array()) for _ in range(COUNT)]", 1, 0),
    "in threads": ("run([threading.Thread(target=launch, args=(COUNT,)) for _ in range(3)])", 3, 0),
    "in a fork": ("p = multiprocessing.get_context('fork').Process(target=launch, args=(COUNT,)); p.start(); p.join()", 0, 1),
    "in a new process": ("p = multiprocessing.get_context('spawn').Process(target=launch, args=(COUNT,)); p.start(); p.join()", 0, 1),
    "in a bare fork": ("sys.stdout.flush(); p = os.fork()\n    if not p: launch(COUNT); sys.exit()\n    os.waitpid(p, 0)", 0, 1),
}


class Behind(Cases):
    """KILN_TRITON, whatever a program does before it imports Triton, and what its report says."""

    def run_program(self, text, **environment):
        path, site = (os.path.join(self.folder.name, name) for name in ("program.py", "site"))
        os.makedirs(site, exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        with open(os.path.join(site, "sitecustomize.py"), "w") as file:  # a build's folder is in PYTHONPATH, which reads no .pth
            file.write("import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python"))
        environment = {"KILN_TRITON": "report", "PYTHONPATH": os.pathsep.join((site, os.path.join(support.BUILD, "python"))), "PYTHONWARNINGS": "ignore", **environment}
        done = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, cwd=self.folder.name, env={**os.environ, **environment})
        said = done.stderr.decode()
        return done.returncode, sorted(line for line in said.splitlines() if line.startswith("kiln:")), said

    def test_drawn_programs(self):
        draw = random.Random(SEED)
        for _ in range(5):
            probes = [draw.choice(sorted(PROBES)) for _ in range(draw.randrange(1, 6))]
            ways = [(draw.choice(sorted(WAYS)), draw.randrange(1, 200)) for _ in range(draw.randrange(1, 4))]
            text = PROGRAM % ("\n".join("    " + PROBES[one] for one in probes), "\n".join("    " + WAYS[way][0].replace("COUNT", str(count)) for way, count in ways))
            own = sum(WAYS[way][1] * count for way, count in ways)
            counts = [own] + [count for way, count in ways if WAYS[way][2]]
            expected = sorted("kiln: %d launch%s of %s ran Kiln's code, 0 Triton's" % (count, "" if count == 1 else "es", "1 kernel" if count else "0 kernels") for count in counts)
            reports = os.path.join(self.folder.name, "reports")
            code, found, said = self.run_program(text, KILN_TRITON_REPORT=reports)
            self.assertEqual((code, [line for line in found if " ran Kiln's code" in line]), (0, expected), (SEED, probes, ways, said))
            with open(reports) as file:
                lines = [json.loads(line) for line in file]
            os.unlink(reports)
            self.assertEqual(sorted(sum(line["launches"].values()) for line in lines), sorted(counts), (SEED, probes, ways))
            for line in lines:
                self.assertEqual((line["detached"], line["misses"]), (None, []))
                for origin, count in line["launches"].items():
                    self.assertEqual(count, sum(one["launches"] for one in line["kernels"] if one["origin"] == origin))

    def test_it_is_said_where_kiln_is_not_behind(self):
        for text, why in (("pass", "Triton was not imported"),
                          ("import kiln.triton; kiln.triton.disable()", r"kiln.triton.disable\(\) was called"),
                          ("import importlib.machinery, sys\nsys.meta_path.insert(0, importlib.machinery.PathFinder)\nimport triton", "its import was not seen; another finder"),
                          ("import triton, sys\nfor name in [n for n in sys.modules if n.partition('.')[0] == 'triton' and not n.startswith('triton._C')]: del sys.modules[name]\nimport triton",
                           "Triton was imported a second time"),
                          ("import triton\ndef run(*_, **__): pass\ntriton.JITFunction.run = run", "JITFunction.run was replaced by __main__.run")):
            code, found, said = self.run_program(text)
            self.assertEqual((code, len(found)), (0, 1), said)
            self.assertRegex(found[0], "^kiln: not attached to Triton: " + why)
        self.assertEqual(self.run_program("pass", KILN_TRITON="1")[1:], ([], ""))

    def test_files_are_of_the_folder_at_the_start(self):
        code, _, said = self.run_program("import os; os.mkdir('away'); os.chdir('away')", KILN_TRITON_REPORT="relative.json")
        self.assertEqual((code, os.listdir(os.path.join(self.folder.name, "away"))), (0, []), said)
        with open(os.path.join(self.folder.name, "relative.json")) as file:
            self.assertEqual(json.loads(file.read())["detached"], "Triton was not imported")

    def test_tritons_drivers_compile_nothing_until_they_are_asked(self):
        """Triton's own classes, without the compiler of C and the driver that they want."""
        from triton.backends.amd import driver as amd
        from triton.backends.nvidia import driver as nvidia
        for driver, name in ((nvidia, "CudaUtils"), (amd, "HIPUtils")):
            made, theirs = [], getattr(driver, name)

            class Module:
                def __init__(self, *_, **__):
                    made.append(1)

                def __getattr__(self, name):
                    return name
            for function in ("compile_module_from_src", "compile_module_from_file", "library_dirs", "_get_path_to_hip_runtime_dylib"):
                if hasattr(driver, function):
                    self.addCleanup(setattr, driver, function, getattr(driver, function))
                    setattr(driver, function, Module if function.startswith("compile") else lambda: "")
            self.addCleanup(lambda theirs=theirs: hasattr(theirs, "instance") and delattr(theirs, "instance"))
            kiln.triton.enable()
            try:
                utils = getattr(driver, name)()
                self.assertEqual(made, [])
                self.assertEqual((utils.get_device_properties, utils.load_binary, made), ("get_device_properties", "load_binary", [1]))
                self.assertIs(type(getattr(driver, name)()), theirs)
            finally:
                kiln.triton.disable()
            self.assertIs(getattr(driver, name), theirs)

    def test_other_versions_are_refused_by_name(self):
        stub = os.path.join(self.folder.name, "stub")
        os.makedirs(os.path.join(stub, "triton"), exist_ok=True)
        for version in ("3.5.1", "3.10.0", "4.0.0+git1234", "2.1", "unknown"):
            with open(os.path.join(stub, "triton", "__init__.py"), "w") as file:
                file.write("__version__ = %r\n" % version)
            text = "import sys\nsys.path.insert(0, %r)\nimport triton\nprint(triton.__version__)\ntry: import kiln.triton\nexcept ImportError as error: print(error, file=sys.stderr)" % stub
            code, found, said = self.run_program(text)
            refusal = "Triton %s is not supported, 3.6 to 3.9 are" % version
            self.assertEqual((code, found, said.count(refusal)), (0, ["kiln: not attached to Triton: " + refusal] * 2, 3), said)


class Prints(Cases):
    def test_a_program_prints_once(self):
        """However many warps it has, and as Triton writes the lines."""
        text = "import sys; sys.path.insert(0, %r); import kiln.triton; import triton_alone as t; x = t.Array([1]); kiln.triton.jit(t.prints)[(1,)](x, num_warps=8); print(x.list())"
        environment = dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python"))
        done = subprocess.run([sys.executable, "-c", text % os.path.dirname(os.path.abspath(__file__))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, env=environment)
        self.assertEqual((done.returncode, "warning: kernel" in done.stderr.decode()), (0, False), done.stderr.decode())
        self.assertEqual(done.stdout.decode().splitlines(), ["pid (0, 0, 0) idx () value: 1.000000", "pid (0, 0, 0) idx () again: 1.000000", "[5.0]"])


class Warnings(Cases):
    """What is left out is said, whatever the filters of Python's warnings are, once a process."""

    def said(self, do):
        found = io.StringIO()
        with contextlib.redirect_stderr(found):
            do()
        return found.getvalue()

    def test_options(self):
        jitted, x = kiln.triton.jit(count_up), Array([0] * 16)
        self.assertIn("kernel 'count_up': launch_cooperative_grid is left out", self.said(lambda: jitted[(1,)](x, BLOCK=16, launch_cooperative_grid=True)))
        self.assertEqual(self.said(lambda: jitted[(1,)](x, BLOCK=16)), "")
        self.assertEqual(x.list(), [2.0] * 16)

    def test_options_of_the_front_end_reach_it(self):
        a, b, c = Array([1 + i * 2.0 ** -20 for i in range(256)]), Array([1] * 256), Array([0] * 256)
        texts = [kiln.triton.jit(dotted).warmup(a, b, c, N=16, allowed_dot_input_precisions=kinds, grid=(1,)).asm["ttir"]
                 for kinds in (("ieee",), ("ieee", "tf32"))]
        self.assertEqual(["inputPrecision = tf32" in text for text in texts], [False, True])


@triton.jit
def helper(v):
    return v * 3


@triton.jit
def shipped(x, y, n, factor, OFFSET: tl.constexpr = 2, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, helper(tl.load(x + i, mask=i < n)) * factor + OFFSET, mask=i < n)


class Monitored(Cases):
    """Who compiled what was launched."""

    def test_origins_names_and_differences(self):
        x, before, told = Array([0] * 16), kiln.triton.monitor(), []
        stop = kiln.triton.watch(told.append)
        jitted = kiln.triton.jit(triton.jit(count_up.fn))
        for _ in range(3):
            jitted[(1,)](x, BLOCK=16, num_warps=1)
        between = kiln.triton.monitor()
        again = kiln.triton.jit(triton.jit(count_up.fn))
        again[(1,)](x, BLOCK=16, num_warps=1)
        stop()
        now = kiln.triton.monitor(since=before)
        self.assertEqual(now.launches, {"bundle": 0, "cache": 1, "compiled": 3, "triton": 0, "missing": 0})
        self.assertEqual([(one.name, one.origin, one.target, one.launches, one.reason) for one in now.kernels],
                         [("count_up", "compiled", "host", 3, ""), ("count_up", "cache", "host", 1, "")])
        self.assertTrue(all(one.seconds > 0 and len(one.identity) == 16 for one in now.kernels))
        self.assertEqual(kiln.triton.monitor(since=between).launches["cache"], 1)
        self.assertEqual([(one.origin, one.launches) for one in told], [("compiled", 0), ("cache", 0)])
        self.assertEqual((now.by_kiln, now.misses), (4, []))
        self.assertIn("4 launches of 1 kernel ran Kiln's code, 0 Triton's\n  launches of code from bundles 0, from the cache 1, compiled now 3 (1 kernel)\n", now.text())
        found = json.loads(now.json())
        self.assertEqual((found["process"], found["launches"]["compiled"], found["kernels"][0]["name"]), (os.getpid(), 3, "count_up"))

    def test_threads(self):
        before, arrays = kiln.triton.monitor(), [Array([0] * 16) for _ in range(4)]
        jitted, watched = kiln.triton.jit(count_up), threading.Event()

        def launch(x):
            for _ in range(250):
                jitted[(1,)](x, BLOCK=16)
        threads = [threading.Thread(target=launch, args=(x,)) for x in arrays]
        watching = threading.Thread(target=lambda: [kiln.triton.monitor().text() for _ in range(20)] and watched.set())
        for one in (*threads, watching):
            one.start()
        for one in (*threads, watching):
            one.join()
        self.assertTrue(watched.is_set())
        self.assertEqual(kiln.triton.monitor(since=before).by_kiln, 1000)


class Shipped(Cases):
    """Launches that take their code from a bundle."""

    def setUp(self):
        self.addCleanup(kiln.triton.load)
        self.addCleanup(kiln.triton.disable)
        self.x, self.y = Array(range(64)), Array([0] * 64)

    def launch(self, jitted=None, n=64, factor=2.0, **named):
        (jitted or shipped)[(4,)](self.x, self.y, n, factor, **named)
        return self.y.list()

    def made(self, name="app.kbundle", **named):
        """A bundle with one variant."""
        path, jitted = os.path.join(self.folder.name, name), kiln.triton.jit(triton.jit(shipped.fn))
        self.launch(jitted, **named)
        one, = jitted.variants.values()
        kiln.triton._bundles.save([(one.name, one.text, one.facts, [one.keys])], ["host"], path)
        return path

    def closed(self):
        """Fails where IR is built or something is compiled."""
        reading = kiln.triton._compilation
        for name in ("triton_ir", "compile_ir"):
            self.addCleanup(setattr, reading, name, getattr(reading, name))
            setattr(reading, name, lambda *_, **__: self.fail("something was compiled"))

    def test_code_is_found_by_key(self):
        path, before = self.made(), kiln.triton.monitor()
        self.closed()
        kiln.triton.load(path)
        self.y.set([0] * 64)
        for fn in (shipped, kiln.triton.jit(triton.jit(shipped.fn))):
            for _ in range(2):
                self.assertEqual(self.launch(fn), [i * 6.0 + 2 for i in range(64)])
        now = kiln.triton.monitor(since=before)
        self.assertEqual({origin: count for origin, count in now.launches.items() if count}, {"bundle": 4})
        self.assertEqual(now.misses, [])

    def test_a_miss_names_what_differs(self):
        path = self.made()
        kiln.triton.load(path)
        self.launch()
        for named, fields in (({"OFFSET": 3}, ["constant OFFSET: 3, there 2"]), ({"n": 63}, ["promise of n: none, there tt.divisibility 16"]),
                              ({"n": 1 << 40}, ["type of n: i64, there i32"]), ({"num_warps": 8}, ["option num_warps: 8, there 4"]),
                              ({"factor": 2}, ["type of factor: i32, there fp32"]), ({"maxnreg": 64, "OFFSET": True}, ["constant OFFSET: True, there 2", "option maxnreg: 64, there None"])):
            before = kiln.triton.monitor()
            with self.assertRaises(kiln.NotFound) as caught:
                self.launch(**named)
            said = str(caught.exception)
            self.assertRegex(said, r"^kernel 'shipped': no entry of its key in %s; nearest entry [0-9a-f]{32}, %d field" % (re.escape(path), len(fields)))
            self.assertEqual([line.strip() for line in said.splitlines()[1:]], fields)
            self.assertEqual(kiln.triton.monitor(since=before).launches["missing"], 1)
        with self.assertRaisesRegex(kiln.NotFound, "kernel 'count_up': no entry of a kernel 'count_up' in " + re.escape(path)):
            count_up[(1,)](self.x, BLOCK=16)

    def test_the_source_is_part_of_the_key(self):
        """A function that the kernel calls has changed, and is named."""
        path = self.made()
        kiln.triton.load(path)
        theirs = helper._src
        try:
            helper._unsafe_update_src(theirs.replace("* 3", "* 4"))
            shipped._unsafe_update_src(shipped._src)
            with self.assertRaisesRegex(kiln.NotFound, r"2 fields differ:\n  source: \w{64}, there \w{64}\n  value of helper: \w+, there \w+"):
                self.launch()
        finally:
            helper._unsafe_update_src(theirs)
            shipped._unsafe_update_src(shipped._src)
        self.launch()

    def test_other_policies(self):
        path, before = self.made(), kiln.triton.monitor()
        kiln.triton.load(path, miss="compile")
        self.assertEqual(self.launch(OFFSET=5), [i * 6.0 + 5 for i in range(64)])
        self.launch()
        now = kiln.triton.monitor(since=before)
        self.assertEqual((now.launches["bundle"], now.launches["compiled"] + now.launches["cache"], len(now.misses)), (1, 1, 1))
        self.assertIn("constant OFFSET: 5, there 2", now.misses[0].reason)
        kiln.triton.load(path, miss="triton")
        with self.assertRaises(Exception) as caught:  # Triton has no CPU
            self.launch(OFFSET=6)
        self.assertNotIsInstance(caught.exception, kiln.Error)
        self.assertRaisesRegex(ValueError, "miss: expected 'error', 'compile', 'triton', found 'ignore'", kiln.triton.load, path, miss="ignore")

    def test_bundles_that_cannot_be_used(self):
        path = self.made()
        source, plain = os.path.join(self.folder.name, "plain.kiln"), os.path.join(self.folder.name, "plain.kbundle")
        with open(source, "w") as file:
            file.write("kiln 1\nkernel one(x: out *f32 @align(4)) @grid(1) { store(x, 1.0) }\n")
        kiln.compile(source, output=plain)
        self.assertRaisesRegex(kiln.Error, "plain.kbundle: has no kernels of Triton that are found by key", kiln.triton.load, plain)
        self.assertRaises(kiln.NotFound, kiln.triton.load, path + ".none")
        with open(path, "rb") as file:
            whole = file.read()
        index = kiln.triton._index
        for cut in (0, 20, 200, len(whole) // 2):
            broken = os.path.join(self.folder.name, "broken")
            with open(broken, "wb") as file:
                file.write(whole[:cut])
            self.assertRaises(kiln.Error, index.read, broken)
        at = whole.index(b"constant BLOCK")
        with open(broken, "wb") as file:
            file.write(whole[:at] + b"C" + whole[at + 1:])
        self.assertRaisesRegex(kiln.Error, "its index is damaged", index.read, broken)

    def test_what_kiln_refuses_is_known_to_a_bundle(self):
        """A tuner that passes a config over does so where nothing is compiled, too."""
        path = os.path.join(self.folder.name, "tuned.kbundle")

        def tuner():
            return kiln.triton.jit(triton.autotune([triton.Config({"BLOCK": 16}, num_ctas=2), triton.Config({"BLOCK": 32})], key=[])(triton.jit(shipped.fn)))
        self.launch(tuner())
        found, _ = kiln.triton._found()
        kiln.triton._bundles.save([one for one in found if one[0] == "shipped"], ["host"], path)
        self.closed()
        kiln.triton.load(path)
        self.y.set([0] * 64)
        there = tuner()
        self.launch(there)
        self.assertEqual((self.y.list(), there.best_config.kwargs), ([i * 6.0 + 2 for i in range(64)], {"BLOCK": 32}))

    def test_signed(self):
        path, keys = self.made("signed.kbundle"), [os.path.join(self.folder.name, name) for name in ("good", "other")]
        for key in keys:
            support.tool("cache", "keygen", key)
        support.tool("sign", path, "--key=" + keys[0])
        self.closed()
        self.assertRaises(kiln.Untrusted, kiln.triton.load, path, trust=[keys[1] + ".pub"])
        kiln.triton.load(path, trust=[keys[0] + ".pub"])
        self.launch()

    def test_processes_save_into_one_bundle(self):
        path = os.path.join(self.folder.name, "joined.kbundle")
        program = PROGRAM % ("    pass", "    fill[(1,)](Array(), BLOCK=int(sys.argv[1]))\n    run([threading.Thread(target=launch, args=(2,)) for _ in range(2)])")
        path_of_program, site = os.path.join(self.folder.name, "saving.py"), os.path.join(self.folder.name, "saving")
        os.makedirs(site, exist_ok=True)
        with open(path_of_program, "w") as file:
            file.write(program)
        with open(os.path.join(site, "sitecustomize.py"), "w") as file:
            file.write("import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python"))
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join((site, os.path.join(support.BUILD, "python"))))
        started = [subprocess.Popen([sys.executable, path_of_program, str(block)], env=dict(environment, KILN_TRITON_SAVE=path), stderr=subprocess.PIPE) for block in (16, 32, 64)]
        for one in started:
            said = one.communicate(timeout=300)[1].decode()
            self.assertEqual(one.returncode, 0, said)
        self.assertEqual({facts["constant BLOCK"] for _, facts in kiln.triton._index.read(path)[0].values()}, {"16", "32", "64"})
        self.assertTrue(all(name.startswith("fill[") for name in kiln.Library(path).kernels))
        closed = dict(environment, KILN_TRITON_BUNDLE=path, KILN_CACHE_DIR="/proc/none", KILN_TRITON="report")
        for block, code in ((32, 0), (8, 1)):
            done = subprocess.run([sys.executable, path_of_program, str(block)], env=closed, stderr=subprocess.PIPE, timeout=300)
            said = done.stderr.decode()
            self.assertEqual(done.returncode, code, said)
            self.assertIn("constant BLOCK: 8, there" if code else "kiln:   launches of code from bundles 5, from the cache 0, compiled now 0", said)
        done = subprocess.run([sys.executable, path_of_program, "16"], env=dict(closed, KILN_TRITON_BUNDLE=path + ".none"), stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("joined.kbundle.none", done.stderr.decode())


class Threads(Cases):
    def test_counts_of_threads_add_up(self):
        jitted, before = kiln.triton.jit(count_up), kiln.triton.launches()
        arrays = [Array([0] * 16) for _ in range(6)]

        def launch(x):
            for _ in range(200):
                jitted[(1,)](x, BLOCK=16)
        threads = [threading.Thread(target=launch, args=(x,)) for x in arrays]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual([x.list() for x in arrays], [[200.0] * 16] * 6)
        self.assertEqual(jitted.launches, 1200)
        self.assertEqual(kiln.triton.launches()["kiln"] - before["kiln"], 1200)


if __name__ == "__main__":
    print("seed %d, Triton %s" % (SEED, triton.__version__))
    sys.exit(support.main(__name__))
