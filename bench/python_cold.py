#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a process of Python takes from its start to the first result of a cached kernel: python_cold.py FOLDER [RUNS [ROW...]]

FOLDER is what `make bench-python` leaves in build/<config>/bench/python. On the host, and where PyTorch has a GPU there beside what it imports and starts by itself:
the driver with a context, the driver with everything that the same result wants of it, PyTorch, and a kernel of Triton's that is in its cache. Rows run in turn,
RUNS of each (11) after one that is not counted, so that files are read and caches filled; ROW takes only rows whose title has it. Every program tells the time when it
has its result, as the parent's clock has it; the second number of a row is when its process has ended, with what drivers and interpreters do then.
"""
import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.abspath(sys.argv[1])
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 11
WANTED = sys.argv[3:]
TOLD = "\nimport time\nprint(time.monotonic(), flush=True)\n"
KILN = """
import sys
sys.path.insert(0, sys.argv[1])
import kiln
device = kiln.Library(sys.argv[1] + "/python_launch.kbundle").device(%r)
memory = device.memory(1024, "f32")
device.kernel("ramp")(memory, 1024)
device.sync()
assert memoryview(bytes(memory)).cast("f")[1023] == 1023
"""
TENSORS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, kiln
x = torch.empty(1024, device="cuda")
kiln.Library(sys.argv[1] + "/python_launch.kbundle").device("cuda:0").kernel("ramp")(x, 1024)
assert x.cpu()[1023] == 1023
"""
CONTEXT = """
import ctypes
driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
"""
DRIVER = """
import ctypes, sys
driver, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(1024)
context, module, function, memory, to = *(ctypes.c_void_p() for _ in range(4)), (ctypes.c_float * 1024)()
with open(sys.argv[1] + "/ramp.cubin", "rb") as file:
    image = file.read()
def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, (name, status)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxPushCurrent_v2", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
call("cuModuleLoadData", ctypes.byref(module), image)
call("cuModuleGetFunction", ctypes.byref(function), module, b"kiln_ramp")
parameters = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in (memory, n)))
call("cuLaunchKernel", function, 8, 1, 1, 128, 1, 1, 0, None, parameters, None)
call("cuMemcpyDtoH_v2", to, memory, ctypes.c_size_t(4096))
assert to[1023] == 1023
"""
TORCH = "import torch; assert torch.ones(1024, device='cuda').add_(1.0).cpu()[1023] == 2"
TRITON = """
import torch, triton
import triton.language as tl
%s
@triton.jit
def ramp(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, i.to(tl.float32), i < n)
x = torch.empty(1024, device="cuda")
ramp[(8,)](x, 1024, BLOCK=128)
assert x.cpu()[1023] == 1023
"""
COMPILER = "import sys; sys.path.insert(0, sys.argv[1]); import kiln.triton.auto"


def has(what):
    return subprocess.run([sys.executable, "-c", what], check=False, stderr=subprocess.DEVNULL).returncode == 0


def programs(folder):
    """By title, the command of each row."""
    def written(name, text):
        path = os.path.join(folder, name + ".py")  # who compiles Python reads it from its file
        with open(path, "w") as file:
            file.write(text + TOLD)
        return path
    plain, full = [sys.executable, "-S"], [sys.executable]
    rows = {"the interpreter alone": [*plain, written("nothing", "")], "Kiln, host": [*plain, written("host", KILN % "host")]}
    if has("import torch; assert torch.cuda.is_available()"):
        rows["driver and a context alone"] = [*plain, written("context", CONTEXT)]
        rows["driver alone, the same result"] = [*plain, written("driver", DRIVER)]
        rows["Kiln, cuda:0, no PyTorch (bar 0.25)"] = [*plain, written("cuda", KILN % "cuda:0")]
        rows["the same, with site-packages"] = [*full, os.path.join(folder, "cuda.py")]
        rows["PyTorch alone, one operation"] = [*full, written("of_torch", TORCH)]
        rows["Kiln with a tensor of PyTorch"] = [*full, written("tensors", TENSORS)]
        if has("import triton"):
            rows["Triton, cached kernel"] = [*full, written("of_triton", TRITON % "")]
            if has(COMPILER.replace("sys.argv[1]", repr(FOLDER)) + "; assert kiln._compiler.program()"):
                rows["kiln.triton behind it, cached kernel"] = [*full, written("behind", TRITON % COMPILER)]
    return {title: command for title, command in rows.items() if not WANTED or any(part in title for part in WANTED)}


def run(command):
    """Seconds from the start of a process to its result and to its end."""
    start = time.monotonic()
    done = subprocess.run([*command, FOLDER], check=True, stdout=subprocess.PIPE)
    return float(done.stdout.split()[-1]) - start, time.monotonic() - start


def main():
    folder = tempfile.mkdtemp(prefix="kiln-bench-")
    try:
        os.environ.update(TRITON_CACHE_DIR=os.path.join(folder, "triton"), KILN_CACHE_DIR=os.path.join(folder, "kiln"))
        compileall.compile_dir(os.path.join(FOLDER, "kiln"), quiet=1)  # as an installed package is
        rows = programs(folder)
        found = {title: [] for title in rows}
        print("rows: " + "; ".join(rows), flush=True)
        for turn in range(RUNS + 1):
            print("turn %d:" % turn, end="", flush=True)
            for title, command in rows.items():
                times = run(command)
                print(" %.3f/%.3f" % times, end="", flush=True)
                if turn:
                    found[title].append(times)
            print()
        print("%-40s %8s %8s %8s %8s   s, %d processes in turn" % ("start to first result", "median", "least", "most", "to end", RUNS))
        for title, times in found.items():
            first, end = zip(*times)
            print("%-40s %8.3f %8.3f %8.3f %8.3f" % (title, statistics.median(first), min(first), max(first), statistics.median(end)), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
