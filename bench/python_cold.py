#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a process of Python takes from its start to the first result of a cached kernel: python_cold.py FOLDER [RUNS]

FOLDER is what `make bench-python` leaves in build/<config>/bench/python. On the host, and where PyTorch has a GPU there beside what it imports and starts by itself: the
driver with a context, PyTorch, and a kernel of Triton's that is in its cache. Rows run in turn, RUNS of each (11) after one that is not counted, so that files are
read and caches filled; each time is printed when its process has ended.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.abspath(sys.argv[1])
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 11
KILN = """
import sys
sys.path.insert(0, sys.argv[1])
import kiln
device = kiln.Library(sys.argv[1] + "/python_launch.kbundle").device(%r)
memory = device.memory(4096, "f32")
device.kernel("arrays2")(memory, memory, 1024)
device.sync()
bytes(memory)
"""
TENSORS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, kiln
x = torch.empty(4096, device="cuda")
kiln.Library(sys.argv[1] + "/python_launch.kbundle").device("cuda:0").kernel("arrays2")(x, x, 1024)
x.cpu()
"""
DRIVER = """
import ctypes
driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
"""
TORCH = "import torch; torch.empty(4096, device='cuda').add_(1.0).cpu()"
TRITON = """
import torch, triton
import triton.language as tl
%s
@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)
x = torch.empty(4096, device="cuda")
copy[(8,)](x, x, 1024, BLOCK=128)
x.cpu()
"""
COMPILER = "import sys; sys.path.insert(0, sys.argv[1]); import kiln.triton.auto"


def has(what):
    return subprocess.run([sys.executable, "-c", what], check=False, stderr=subprocess.DEVNULL).returncode == 0


def programs(folder):
    """By title, the command of each row."""
    def written(name, text):
        path = os.path.join(folder, name + ".py")  # who compiles Python reads it from its file
        with open(path, "w") as file:
            file.write(text)
        return path
    plain, full = [sys.executable, "-S"], [sys.executable]
    rows = {"Kiln, host": [*plain, written("host", KILN % "host")]}
    if has("import torch; assert torch.cuda.is_available()"):
        rows["driver and a context alone"] = [*plain, written("driver", DRIVER)]
        rows["Kiln, cuda:0, no PyTorch (bar 0.25)"] = [*plain, written("cuda", KILN % "cuda:0")]
        rows["the same, with site-packages"] = [*full, os.path.join(folder, "cuda.py")]
        rows["PyTorch alone, one operation"] = [*full, written("of_torch", TORCH)]
        rows["Kiln with a tensor of PyTorch"] = [*full, written("tensors", TENSORS)]
        if has("import triton"):
            rows["Triton, cached kernel"] = [*full, written("of_triton", TRITON % "")]
            if has(COMPILER.replace("sys.argv[1]", repr(FOLDER)) + "; assert kiln._compiler.program()"):
                rows["kiln.triton behind it, cached kernel"] = [*full, written("behind", TRITON % COMPILER)]
    return rows


def main():
    folder = tempfile.mkdtemp(prefix="kiln-bench-")
    try:
        os.environ.update(TRITON_CACHE_DIR=os.path.join(folder, "triton"), KILN_CACHE_DIR=os.path.join(folder, "kiln"))
        rows = programs(folder)
        found = {title: [] for title in rows}
        print("rows: " + "; ".join(rows), flush=True)
        for turn in range(RUNS + 1):
            print("turn %d:" % turn, end="", flush=True)
            for title, command in rows.items():
                start = time.perf_counter()
                subprocess.run([*command, FOLDER], check=True)
                seconds = time.perf_counter() - start
                print(" %.3f" % seconds, end="", flush=True)
                if turn:
                    found[title].append(seconds)
            print()
        print("%-40s %8s %8s %8s   s, %d processes in turn" % ("start to first result", "median", "least", "most", RUNS))
        for title, times in found.items():
            print("%-40s %8.3f %8.3f %8.3f" % (title, statistics.median(times), min(times), max(times)), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
