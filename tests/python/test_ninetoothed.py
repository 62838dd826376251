# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of NineToothed (ninetoothed.make) through Kiln on the CPU: at their first call, and captured ahead of time. Skipped where NineToothed, PyTorch or Triton is
absent (pip install --no-deps ninetoothed)."""
import os
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


if __name__ == "__main__":
    sys.exit(support.main(__name__))
