# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kiln.torch.library: the operations of a bundle as a shared library, used by programs that do not have this package: called, by a reloaded torch.export, and
by what AOTInductor compiled (KILN_TEST_FULL=1; it wants a compiler of C++ and takes a minute of it). PyTorch's own operations say what is expected."""
import os
import shutil
import subprocess
import sys
import unittest

import support
support.with_zones()

try:
    import torch
    import kiln.torch
except ImportError:
    torch = None

FOLDER = BUNDLE = None
FULL = bool(os.environ.get("KILN_TEST_FULL"))
DEVICE = os.environ.get("KILN_TEST_DEVICE", "cpu")  # "cuda": what was exported and compiled runs there
TARGETS = "host" if DEVICE == "cpu" else "host,sm_90a"

CALLS = """
import sys
import torch
torch.ops.load_library(sys.argv[1])
ops = torch.ops.app
torch.manual_seed(1)
x, w = torch.randn(37, 192), torch.randn(192)
y, rstd = ops.rms_norm(x, w, 37, 192, 1e-5)
torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (192,), w, 1e-5))
torch.testing.assert_close(rstd, torch.rsqrt(x.square().mean(1) + 1e-5))
b, _ = ops.rms_norm(x.bfloat16(), w.bfloat16(), 37, 192, 1e-5)
torch.testing.assert_close(b, torch.nn.functional.rms_norm(x.bfloat16().float(), (192,), w.bfloat16().float(), 1e-5).bfloat16(), rtol=1e-2, atol=1e-2)
g = torch.randn(37, 192)
dx, dw = ops.rms_norm_backward(g, x, w, rstd, 37, 192)
leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
torch.nn.functional.rms_norm(leaves[0], (192,), leaves[1], 1e-5).backward(g)
torch.testing.assert_close(dx, leaves[0].grad, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(dw, leaves[1].grad, rtol=1e-4, atol=1e-4)
s, t = torch.randn(100), torch.randn(100)
want = 0.5 * s + t
assert ops.saxpy(0.5, s, t, 100) is None
torch.testing.assert_close(t, want)
v = torch.zeros(16, 32)
ops.twice(x[:16, :64:2], v, 16, 32)
torch.testing.assert_close(v, 2 * x[:16, :64:2])
numbers = torch.zeros(6, dtype=torch.float64)
ops.scalars(True, -7, 1 << 40, 0.1, 0.1, 0.1, numbers)
torch.testing.assert_close(numbers, torch.tensor([1, -7, 1 << 40, torch.tensor(0.1).half().item(), torch.tensor(0.1).bfloat16().item(), 0.1], dtype=torch.float64))
def refused(text, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError("expected: " + text)
refused("argument 'x' (*f32): expected a contiguous tensor", ops.saxpy, 1.0, torch.zeros(8)[::2], torch.zeros(4), 4)
refused("expected tensors of other types", ops.saxpy, 1.0, torch.zeros(4, dtype=torch.int32), torch.zeros(4), 4)
refused("argument 'x' (view f32): expected a tensor of rank 2, found 1", ops.twice, torch.zeros(4), v, 4, 1)
refused("argument 'y' (view f32): the kernel writes it, but several of its elements are one place in memory", ops.twice, v, torch.zeros(1, 32).expand(16, 32), 16, 32)
refused("the grid is the kernel's own here", ops.saxpy, 1.0, s, t, 100, grid=[1])
refused("n is promised to be divisible by 4, but is 5", ops.copy, torch.zeros(5, dtype=torch.int8), torch.zeros(5, dtype=torch.int8), 5)
assert not any(name.partition(".")[0] == "kiln" for name in sys.modules)
"""

EXPORTED = """
import sys
import torch
torch.ops.load_library(sys.argv[1])
torch.manual_seed(1)
device = sys.argv[3]
x = torch.randn(37, 192, device=device)
w = torch.arange(192.0, device=device) / 192
want = torch.nn.functional.rms_norm(2 * x, (192,), w, 1e-5) + 1
model = torch._inductor.aoti_load_package(sys.argv[2]) if "compiled" in sys.argv[2] else torch.export.load(sys.argv[2]).module()
torch.testing.assert_close(model(x), want)
assert not any(name.partition(".")[0] == "kiln" for name in sys.modules)
"""


if torch is not None:
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.arange(192.0) / 192)

        def forward(self, x):
            return torch.ops.app.rms_norm(x * 2, self.w, *x.shape, 1e-5)[0] + 1


@unittest.skipIf(torch is None, "torch is not installed")
@unittest.skipIf(shutil.which("cc") is None, "a compiler of C (cc) is not installed")
class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bundle, cls.library = os.path.join(FOLDER, "all.kbundle"), os.path.join(FOLDER, "libapp.so")
        norms = [word for name in ("rms_norm[T=f32]", "rms_norm[T=bf16]", "rms_norm_backward[T=f32]") for word in ("-k", name)]
        own = [word for name in ("saxpy", "copy", "twice", "scalars", "gridless") for word in ("-k", name)]
        support.tool("build", "kernels/norms.kiln", os.path.join(FOLDER, "test.kiln"), "-t", TARGETS, "-q", *norms, *own, "-o", cls.bundle)
        kiln.torch.library(cls.bundle, "app", cls.library)
        kiln.torch.register(cls.bundle, namespace="app")

    def run_program(self, text, *words):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", text, self.library, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_calls(self):
        self.run_program(CALLS)

    def test_a_reloaded_export(self):
        path = os.path.join(FOLDER, "exported.pt2")
        torch.export.save(torch.export.export(Model().to(DEVICE), (torch.randn(37, 192, device=DEVICE),)), path)
        self.run_program(EXPORTED, path, DEVICE)

    @unittest.skipUnless(FULL and shutil.which("g++"), "what AOTInductor compiles is for KILN_TEST_FULL=1 and a compiler of C++")
    def test_what_aotinductor_compiled(self):
        path = os.path.join(FOLDER, "compiled.pt2")
        torch._inductor.aoti_compile_and_package(torch.export.export(Model().to(DEVICE), (torch.randn(37, 192, device=DEVICE),)), package_path=path)
        self.run_program(EXPORTED, path, DEVICE)

    def test_what_cannot_be_compiled_is_an_error(self):
        with self.assertRaisesRegex(OSError, "exit 1"):
            kiln.torch.library(self.bundle, "app", os.path.join(FOLDER, "no.so"), compiler="false")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
