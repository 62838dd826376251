# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of NineToothed (ninetoothed.make) through Kiln on the CPU: at their first call, captured ahead of time, and by NineToothed's own build ahead of time. Skipped
where NineToothed, PyTorch or Triton is absent (pip install --no-deps ninetoothed)."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

import kiln  # noqa: E402

try:
    import torch  # noqa: F401
    import triton  # noqa: F401
    import ninetoothed  # noqa: F401
    import kiln.triton
    absent = None
except ImportError as missing:
    absent = str(missing)

PROGRAM = """
import torch
import ninetoothed
from ninetoothed import Symbol, Tensor

BLOCK = Symbol("BLOCK", constexpr=True)


def arrangement(x, y, z, BLOCK=BLOCK):
    return x.tile((BLOCK,)), y.tile((BLOCK,)), z.tile((BLOCK,))


def application(x, y, z):
    z = x + y  # noqa: F841


add = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))


def program(x, y):
    z = torch.empty_like(x)
    add(x, y, z, BLOCK=256)
    return z


def check():
    x, y = torch.randn(5000), torch.randn(5000)
    torch.testing.assert_close(program(x, y), x + y)
"""

RUN = """
import kiln.triton.auto
import program
program.check()
print({origin for origin, count in kiln.triton.monitor().launches.items() if count})
"""

CAPTURE = """
import sys, torch
import kiln.triton.auto  # NineToothed asks for a device when a kernel is made
import program
print(len(kiln.triton.capture(program.program, torch.empty(5000), torch.empty(5000), targets=["host", "sm_90a"], output=sys.argv[1]).kernels))
"""


class Programs(unittest.TestCase):
    def setUp(self):
        if absent:
            self.skipTest(absent)
        folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "program.py"), "w") as file:
            file.write(PROGRAM)

    def run_text(self, text, *arguments, **environment):
        path = os.pathsep.join([self.folder, os.path.join(support.BUILD, "python"), *sys.path])
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, env={
            **os.environ, "HOME": self.folder, "PYTHONPATH": path, "KILN_CACHE_DIR": os.path.join(self.folder, "cache"), **environment})
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode().strip()

    def test_at_the_first_call(self):
        self.assertEqual(self.run_text(RUN), "{'compiled'}")

    def test_ahead_of_time(self):
        bundle = os.path.join(self.folder, "add.kbundle")
        self.assertEqual(self.run_text(CAPTURE, bundle), "1")
        kernel, = kiln.Library(bundle).kernels
        on_gpu = kiln.Library(bundle).device("null:sm_90a").kernel(kernel)
        self.assertEqual(on_gpu.choose(*[0] * len(on_gpu.params), grid=1).target, "sm_90a")
        closed = "import kiln.triton\nkiln.triton.load(%r, miss='error')\n" % bundle
        self.assertEqual(self.run_text(closed + RUN, KILN_CACHE_DIR="/proc/none"), "{'bundle'}")


KERNELS = """
import functools, os, sys
import torch
import kiln.triton.auto
import kiln.triton
import ninetoothed
from ninetoothed import Tensor


def rows(x, y, z, BLOCK=256):
    return x.tile((BLOCK,)), y.tile((BLOCK,)), z.tile((BLOCK,))


def sum(x, y, z):
    z = x + y  # noqa: F841


def tiles(x, by, y):
    return x.tile((16, 64)), by, y.tile((16, 64))


def product(x, by, y):
    y = x * by  # noqa: F841


def vectors(kind="fp32"):
    return tuple(Tensor(1, dtype=kind) for _ in range(3))


def make_add(folder="."):
    return ninetoothed.make(rows, sum, vectors(), caller="cuda", kernel_name="add", output_dir=folder)


def make_scaled(folder="."):
    tensors = Tensor(2, dtype=ninetoothed.float16), Tensor(0, dtype=ninetoothed.float32), Tensor(2, dtype=ninetoothed.float16)
    return ninetoothed.make(tiles, product, tensors, caller="cuda", kernel_name="scaled", output_dir=folder)


def premake(BLOCK):
    return functools.partial(rows, BLOCK=BLOCK), sum, vectors()


def build(**named):
    configs = [((), {"BLOCK": block}, {"num_warps": warps, "num_stages": 1}) for block, warps in ((128, 2), (512, 4))]
    configs.append(((), {"BLOCK": 1024}, {}))
    return ninetoothed.build(premake, configs, caller="cuda", kernel_name="sums", output_dir=".", **named)


started = []
sys.addaudithook(lambda event, arguments: started.append(os.path.basename(os.fspath(arguments[0]))) if event == "subprocess.Popen" else None)


def refused(call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
    raise AssertionError("it was not refused")
"""

LAUNCHES = """
from kernels import *
add, scaled = make_add(), make_scaled()
for n in (4096, 5000, 4097, 0):
    for x in (torch.randn(n), torch.randn(2 * n)[::2], torch.randn(16 * n)[::16], torch.randn(n + 1)[1:]):
        y, z = torch.randn(n), torch.zeros(n)
        add(x, y, z)
        torch.testing.assert_close(z, x + y, rtol=0, atol=0)
for shape in ((32, 64), (33, 70), (5, 1)):
    for x in (torch.randn(shape).half(), torch.randn(shape[::-1]).half().t()):
        for by in (0.5, torch.tensor(0.5), 3):
            y = torch.zeros(shape).half()
            scaled(x, by, y)
            torch.testing.assert_close(y, x * by, rtol=0, atol=0)
print(sorted(set(started)), refused(add, 1))
found = kiln.triton.monitor()
print({origin for origin, count in found.launches.items() if count}, found.by_kiln, found.kernel_count("bundle"))
"""

MAKE = "from kernels import *\nmake_add()\nprint(sorted(set(started)), sorted(os.listdir('.')))"

NO_CODE = """
from kernels import *
import ninetoothed.aot
print(refused(make_add(), torch.randn(4), torch.randn(4), torch.zeros(4)))
"""

BUILD = """
from kernels import *
if __name__ == "__main__":
    kernel = build()
    for config in ((128, 2, 1), (512, 4, 1), (1024,)):
        x, y, z = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
        kernel(x, y, z, *config)
        torch.testing.assert_close(z, x + y, rtol=0, atol=0)
    print(refused(kernel, x, y, z, 100, 2, 1))
    print(refused(kernel, x, y))
    del started[:]
    build()(x, y, z, 128, 2, 1)
    print(started, sorted({row.name for row in kiln.triton.monitor().kernels if row.launches}))
"""

TUNED = """
from kernels import *
import triton
triton.testing.do_bench = triton.runtime.driver.active.get_benchmarker()
theirs = torch.empty
torch.empty = lambda *shape, device=None, **named: theirs(*shape, **named)  # what NineToothed measures with is on the GPU
if __name__ == "__main__":
    for again in range(2):
        x, y, z = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
        build(meta_parameters=("BLOCK",))(x, y, z)
        torch.testing.assert_close(z, x + y, rtol=0, atol=0)
    print({row.name for row in kiln.triton.monitor().kernels if row.launches} == {"sums_128_2_1", "sums_512_4_1", "sums_1024"})
"""

OTHER_VERSION = """
import ninetoothed.aot
del ninetoothed.aot._build_variant
from kernels import *
print(refused(make_add))
"""


class NineToothedTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_uint64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


class Builds(Programs):
    """ninetoothed.make and ninetoothed.build ahead of time."""
    test_at_the_first_call = test_ahead_of_time = None

    def setUp(self):
        super().setUp()
        with open(os.path.join(self.folder, "kernels.py"), "w") as file:
            file.write(KERNELS)

    def run_text(self, text, *arguments, **environment):
        """As a file: processes that `build` starts import it."""
        path = os.path.join(self.folder, "run.py")
        with open(path, "w") as file:
            file.write(text)
        return super().run_text("import os, runpy; os.chdir(%r); runpy.run_path(%r, run_name='__main__')" % (self.folder, path), *arguments, **environment)

    def test_every_variant_is_right(self):
        """Aligned or not, in rows or strided, of no element; with a number as an argument."""
        said, counts = self.run_text(LAUNCHES).splitlines()
        self.assertEqual(said, "['kiln'] TypeError: add: expected 3 arguments (%s), found 1" % said.partition("(")[2].partition(")")[0])
        self.assertRegex(counts, r"^\{'bundle'\} 34 \d+$")
        self.assertGreater(int(counts.split()[-1]), 7)

    def test_names_and_signatures(self):
        self.assertEqual(self.run_text(MAKE, KILN_TRITON_TARGETS="sm_90a,gfx942"), "['kiln'] ['.ninetoothed', 'add.cpp', 'add.h', 'add.kbundle', 'cache', 'kernels.py', 'program.py', 'run.py']")
        library = kiln.Library(os.path.join(self.folder, "add.kbundle"))
        prefix, every = "add_divisibility_", ["16_16_16_contiguity_0_0_0_size_i32_stride_i32", "16_16_16_contiguity_1_1_1_size_i32_stride_i32"]
        every += ["1_1_1_contiguity_%s" % one for one in ("0_0_0_size_i32_stride_i32", "0_0_0_size_i32_stride_i32_unaligned", "0_0_0_size_i64_stride_i64",
                                                         "1_1_1_size_i32_stride_i32", "1_1_1_size_i32_stride_i32_unaligned")]
        self.assertEqual(sorted(library.kernels), sorted(prefix + one for one in every))
        for target in ("sm_90a", "gfx942"):
            device = library.device("null:" + target)
            for name in library.kernels:
                kernel = device.kernel(name)
                self.assertEqual(kernel.choose(*[0] * len(kernel.params), grid=1).target, target)
                size = "i64" if "i64" in name else "i32"
                self.assertEqual([one.type for one in kernel.params], (["*f32", size] if "contiguity_1" in name else ["*f32", size, size]) * 3)

    def test_a_launch_without_a_gpu(self):
        said = self.run_text(NO_CODE, KILN_TRITON_TARGETS="sm_90a,gfx942")
        self.assertRegex(said, "^Refused: add: ")
        for word in ("host", "sm_90a", "gfx942"):
            self.assertIn(word, said)

    def test_from_cpp(self):
        if not shutil.which("g++") or support.is_instrumented():
            self.skipTest("g++ is not installed, or a sanitizer wants to be first")
        self.run_text(MAKE)
        library = os.path.join(self.folder, "add.so")
        done = subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I" + os.path.join(support.BUILD, "include"), "-I" + support.ROOT, "-o", library,
                               os.path.join(self.folder, "add.cpp"), support.LIBRARY, "-Wl,-rpath," + os.path.dirname(support.LIBRARY), "-ldl"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
        launch = ctypes.CDLL(library).launch_add
        for count, stride in ((4096, 1), (33, 1), (20, 16), (20, 3)):
            values = [(ctypes.c_float * (count * stride))(*range(at, at + count * stride)) for at in (0, 7, 9)]
            tensors = [NineToothedTensor(ctypes.addressof(one), (ctypes.c_uint64 * 1)(count), (ctypes.c_int64 * 1)(stride)) for one in values]
            self.assertEqual(launch(ctypes.c_void_p(None), *tensors), 0)
            self.assertEqual(values[2][::stride], [x + y for x, y in zip(values[0][::stride], values[1][::stride])])

    def test_build(self):
        """Each config is made in a process of its own; the second time nothing is compiled."""
        refused, too_few, again = self.run_text(BUILD).splitlines()
        self.assertEqual(refused, "Refused: sums: expected the values of a config, found BLOCK_ = 100, num_warps = 2, num_stages = 1")
        self.assertEqual(too_few, "TypeError: sums: expected 3 to 6 arguments (x, y, z, BLOCK_, num_warps, num_stages), found 2")
        self.assertEqual(again, "[] ['sums_1024', 'sums_128_2_1', 'sums_512_4_1']")

    def test_build_that_is_tuned(self):
        self.assertEqual(self.run_text(TUNED), "True")
        with open(os.path.join(self.folder, "sums.csv")) as file:
            self.assertEqual(len(file.read().splitlines()), 4)

    def test_from_a_bundle(self):
        bundle = os.path.join(self.folder, "app.kbundle")
        launch = "from kernels import *\nx, y, z = torch.randn(100), torch.randn(100), torch.zeros(100)\nmake_add()(x, y, z)\n"
        self.run_text("import kiln._triton_startup\n" + launch, KILN_TRITON_SAVE=bundle)
        os.unlink(os.path.join(self.folder, "add.kbundle"))
        closed = "import kiln.triton\nkiln.triton.load(%r, miss='error')\n" % bundle
        run = closed + launch + "print((z == x + y).all().item(), started, kiln.triton.monitor().launches['bundle'])"
        self.assertEqual(self.run_text(run, KILN_CACHE_DIR="/proc/none"), "True [] 1")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "add.kbundle")))
        self.assertRegex(self.run_text(closed + "from kernels import *\nprint(refused(make_scaled))", KILN_CACHE_DIR="/proc/none"), "^NotFound: kernel 'scaled': no entry of a kernel 'scaled' in ")

    def test_another_version(self):
        self.assertRegex(self.run_text(OTHER_VERSION), r"^Error: NineToothed [0-9.]+: its build ahead of time has no _build_variant, expected one as in 0.26$")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
