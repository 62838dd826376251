# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of Helion from a bundle on the CPU: the modules that Helion wrote, its guards, and the rows of its ahead-of-time tables. Skipped where Helion, PyTorch or Triton
is absent (pip install --no-deps helion filecheck psutil rich typing-extensions; scikit-learn)."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

import kiln  # noqa: F401

try:
    import torch  # noqa: F401
    import triton  # noqa: F401
    import helion  # noqa: F401
    absent = None
except ImportError as missing:
    absent = str(missing)

PROGRAM = """
import os, sys, types
import torch
import helion
import helion.autotuner.aot_cache as aot
import helion.experimental
import helion.language as hl
aot.get_hardware_info = lambda *_: types.SimpleNamespace(device_kind="cuda", hardware_id="none", get_compatible_compute_ids=lambda: ["sm90"])  # it asks for a GPU

SCALE = float(os.environ.get("SCALE", "3"))
CONFIG = helion.Config(block_sizes=[128], num_warps=4)


def helper(v):
    return v * SCALE


@helion.kernel(config=CONFIG, static_shapes=False)
def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = helper(x[tile]) + y[tile]
    return out


@helion.kernel(config=helion.Config(block_sizes=[16], num_warps=4), static_shapes=False)
def sums(x: torch.Tensor) -> torch.Tensor:
    columns = hl.specialize(x.size(1))
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(-1) / columns
    return out


@helion.experimental.aot_kernel(static_shapes=False)
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out


rows, columns = map(int, sys.argv[1:3])
torch.manual_seed(1)
x, y, z = torch.randn(rows), torch.randn(rows), torch.randn(rows, columns)
for found, wanted in ((scaled(x, y), x * SCALE + y), (sums(z), z.mean(1)), (doubled(x), 2 * x)):
    torch.testing.assert_close(found, wanted)
print("traced", [kernel.name for kernel in (scaled, sums, doubled) if kernel._bound_kernels])
"""

TABLE = """
import torch


def key_doubled(*args) -> int:
    if args[0].shape[0] <= 500:
        return 0
    else:
        return 1


def autotune_doubled(*args) -> dict:
    _C = [
        {"block_sizes": [64], "num_warps": 2},
        {"block_sizes": [256], "num_warps": 4},
    ]
    return _C[key_doubled(*args)]
"""


class Bundles(unittest.TestCase):
    def setUp(self):
        if absent:
            self.skipTest(absent)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("program.py", PROGRAM)
        self.write("_helion_aot_program_cuda_sm90.py", TABLE)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def run_program(self, *arguments, words=(), path=sys.path, **environment):
        path = os.pathsep.join([os.path.join(support.BUILD, "python"), *path])
        program = os.path.join(self.folder, "program.py")
        text = "import kiln._triton_startup, runpy, sys\nsys.argv = [%r, *sys.argv[1:]]\nrunpy.run_path(%r, run_name='__main__')" % (program, program)
        done = subprocess.run([sys.executable, *words, "-W", "ignore", "-c", text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, env={
            **os.environ, "PYTHONPATH": path, "KILN_TRITON": "report", "KILN_CACHE_DIR": os.path.join(self.folder, "cache"),
            "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(dir=self.folder), **environment})
        errors = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 0, errors)
        return done.stdout.decode().strip(), errors

    def test_modules_guards_and_tables(self):
        bundle = os.path.join(self.folder, "app.kbundle")
        self.assertEqual(self.run_program("1000", "24", KILN_TRITON_SAVE=bundle)[0], "traced ['scaled', 'sums', 'doubled']")
        closed = {"KILN_TRITON_BUNDLE": bundle, "KILN_TRITON_MISS": "error", "KILN_CACHE_DIR": "/proc/none"}

        printed, report = self.run_program("1000", "24", **closed)
        self.assertEqual(printed, "traced []")
        self.assertIn("from bundles 3, from the cache 0, compiled now 0", report)

        # Other sizes: no guard of the first and the last differs, and the table's other row has code. What is specialized is traced for its new size.
        printed, report = self.run_program("77", "40", **{**closed, "KILN_TRITON_MISS": "compile", "KILN_CACHE_DIR": os.path.join(self.folder, "cache")})
        self.assertEqual(printed, "traced ['sums']")
        self.assertIn("from bundles 2, from the cache 0, compiled now 1", report)

        # A number that a function of the kernel's refers to.
        self.assertEqual(self.run_program("1000", "24", SCALE="4", **{**closed, "KILN_TRITON_MISS": "compile"})[0], "traced ['scaled']")

        # Another table: its rows are not those that the modules were written for.
        self.write("_helion_aot_program_cuda_sm90.py", TABLE.replace("[64]", "[32]"))
        self.assertEqual(self.run_program("1000", "24", **{**closed, "KILN_TRITON_MISS": "compile"})[0], "traced ['doubled']")

    def test_a_checkout_has_no_version(self):
        """Helion without the metadata of an installation: its sources stand for the version."""
        packages, bundle = os.path.join(self.folder, "packages"), os.path.join(self.folder, "app.kbundle")
        os.mkdir(packages)
        for place in [one for one in sys.path if one.endswith("-packages")]:
            for name in set(os.listdir(place)) - {"helion"} - set(os.listdir(packages)):
                if not name.startswith("helion-"):
                    os.symlink(os.path.join(place, name), os.path.join(packages, name))
        shutil.copytree(os.path.dirname(helion.__file__), os.path.join(packages, "helion"))
        there = {"words": ["-S"], "path": [packages, *[one for one in sys.path if not one.endswith("-packages")]]}
        self.assertEqual(self.run_program("1000", "24", KILN_TRITON_SAVE=bundle, **there)[0], "traced ['scaled', 'sums', 'doubled']")
        closed = {"KILN_TRITON_BUNDLE": bundle, "KILN_TRITON_MISS": "compile"}
        self.assertEqual(self.run_program("1000", "24", **closed, **there)[0], "traced []")
        with open(os.path.join(packages, "helion", "_utils.py"), "a") as file:
            file.write("# another checkout\n")
        self.assertEqual(self.run_program("1000", "24", **closed, **there)[0], "traced ['scaled', 'sums', 'doubled']")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
