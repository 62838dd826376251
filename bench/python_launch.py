#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a launch from Python costs, in one table: python_launch.py FOLDER [--without-exchange]

FOLDER is what `make bench-python` leaves in build/<config>/bench/python: the package, libkiln, a bundle, cubins and driver_launch.so. It and this file
are all that is needed on another machine. On the host and the null device with NumPy arrays and, where PyTorch is, its tensors; on cuda:0 beside
cuLaunchKernel called from C and Triton's launcher, in this process. Medians of rounds; on a machine with other work read `least`.
"""
import atexit
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.abspath(sys.argv[1])
sys.path.insert(0, FOLDER)
SYMBOL = "kiln_arrays%d"  # of the kernel arraysN in its cubin
COUNTS, ROUNDS, LAUNCHES, N = (2, 8, 16), 101, 200, 1024

import kiln  # noqa: E402


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def rounds(launch, *arguments, wait=lambda: None, grid=None, form=None):
    """(median, least) nanoseconds a launch, as a program writes it: launch(a, b, n), or launch[grid](a, b, n). `form` is another text of it."""
    names = ["a%d" % i for i in range(len(arguments))]
    form = form or "launch%s(%s)" % ("" if grid is None else "[grid]", ", ".join(names))
    made = {}
    exec("def loop(%s):\n    for _ in times:\n        %s\n" % (", ".join(["times", "launch", "grid", *names]), form), made)
    found, times = [], range(LAUNCHES)
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        made["loop"](times, launch, grid, *arguments)
        found.append((time.perf_counter_ns() - start) / LAUNCHES)
        wait()
    return statistics.median(found), min(found)


def row(what, figures):
    print("%-44s %s" % (what, "".join("%10.0f %7.0f" % f if f else "%18s" % "-" for f in figures)))


def head(title):
    print("\n%-44s%s" % (title, "".join("%11s %7s" % ("%d: median" % n, "least") for n in COUNTS)))


def nothing(*_):
    pass


def on_the_host(library, arrays_of, what):
    for name in ("null", "host"):
        device = library.device(name)
        kernels = [device.kernel("arrays%d" % n) for n in COUNTS]
        arrays = [arrays_of(n) for n in COUNTS]
        row("%s, %s" % (name, what), [rounds(k, *a, 128) for k, a in zip(kernels, arrays)])
        if what == "NumPy":
            row("%s, memory of Kiln" % name, [rounds(k, *[device.memory(4, "f32") for _ in a], 128) for k, a in zip(kernels, arrays)])
            row("%s, addresses" % name, [rounds(k, *[x.ctypes.data for x in a], 128) for k, a in zip(kernels, arrays)])
            row("%s, prepared" % name, [rounds(k.prepare(*a, 128, grid=(1,))) for k, a in zip(kernels, arrays)])


def written(name, text):
    """A module of a text: who compiles Python reads the source from its file."""
    folder = tempfile.mkdtemp(prefix="kiln-bench-")
    atexit.register(shutil.rmtree, folder)
    with open(os.path.join(folder, name + ".py"), "w") as file:
        file.write(text)
    sys.path.insert(0, folder)
    module = __import__(name)
    sys.path.remove(folder)
    return [getattr(module, "arrays%d" % n) for n in COUNTS]


def triton_kernels():
    """Empty kernels of as many pointers."""
    return written("bench_of_triton", "import triton\n" + "".join(
        "@triton.jit\ndef arrays%d(%s, n):\n    pass\n" % (n, ", ".join("p%d" % i for i in range(n))) for n in COUNTS))


def helion_kernels():
    """Kernels of as many tensors that write one; Helion passes on only what a kernel uses."""
    return written("bench_of_helion", "import torch, helion\nimport helion.language as hl\n" + "".join(
        "@helion.kernel(config=helion.Config(block_sizes=[128], num_warps=4), static_shapes=False)\n"
        "def arrays%d(%s, n: int):\n    for tile in hl.tile(p0.size(0)):\n        p0[tile] = 0.0\n" %
        (n, ", ".join("p%d: torch.Tensor" % i for i in range(n))) for n in COUNTS))


def on_the_gpu(library, torch, plain):
    device = library.device("cuda:0")
    kernels = [device.kernel("arrays%d" % n) for n in COUNTS]
    tensors = [[torch.empty(N, device="cuda") for _ in range(n)] for n in COUNTS]
    wait = torch.cuda.synchronize
    for k in kernels:
        k.preload()
    if not plain:
        driver = ctypes.CDLL(os.path.join(FOLDER, "driver_launch.so"))
        driver.driver_load.restype, driver.driver_load.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]
        driver.driver_why.restype = ctypes.c_char_p
        driver.driver_time.restype = ctypes.c_double
        driver.driver_time.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        figures = []
        for n, these in zip(COUNTS, tensors):
            function = driver.driver_load(os.path.join(FOLDER, "arrays%d.cubin" % n).encode(), (SYMBOL % n).encode())
            if not function:
                print("cuLaunchKernel from C: arrays%d.cubin: %s" % (n, driver.driver_why().decode()))
                figures.append(None)
                continue
            addresses = (ctypes.c_uint64 * n)(*[t.data_ptr() for t in these])
            found = []
            for _ in range(ROUNDS):
                found.append(driver.driver_time(function, n, addresses, N, torch.cuda.current_stream().cuda_stream, LAUNCHES))
                wait()
            figures.append((statistics.median(found), min(found)))
        row("cuLaunchKernel from C", figures)
    row("kernel(tensors)%s" % (", without the exchange" if plain else ""), [rounds(k, *t, N, wait=wait) for k, t in zip(kernels, tensors)])
    if plain:
        return
    row("kernel[grid](tensors)", [rounds(k, *t, N, wait=wait, grid=(N // 128,)) for k, t in zip(kernels, tensors)])
    row("kernel(addresses)", [rounds(k, *[x.data_ptr() for x in t], N, wait=wait) for k, t in zip(kernels, tensors)])
    prepared = [k.prepare(*t, N) for k, t in zip(kernels, tensors)]
    row("prepared()", [rounds(p, wait=wait) for p in prepared])
    addressed = [k.prepare(*[x.data_ptr() for x in t], N) for k, t in zip(kernels, tensors)]
    row("prepared() of addresses", [rounds(p, wait=wait) for p in addressed])

    row("prepared.set(1, tensor), prepared()", [rounds(p, t[1], wait=wait, form="launch.set(1, a0); launch()") for p, t in zip(prepared, tensors)])
    if optional("triton"):
        peers = triton_kernels()
        for k, t in zip(peers, tensors):
            k[(N // 128,)](*t, N)
        row("Triton's launcher", [rounds(k, *t, N, wait=wait, grid=(N // 128,)) for k, t in zip(peers, tensors)])
        import kiln.triton
        jitted = [kiln.triton.jit(k) for k in peers] if kiln._compiler.program() else []
        for k, t in zip(jitted, tensors):
            k[(N // 128,)](*t, N)
        if jitted:
            row("kiln.triton.jit", [rounds(k, *t, N, wait=wait, grid=(N // 128,)) for k, t in zip(jitted, tensors)])
    import kiln.torch
    operations = kiln.torch.register(library, namespace="kiln_bench")
    row("torch.ops of Kiln", [rounds(getattr(operations, "arrays%d" % n), *t, N, wait=wait) for n, t in zip(COUNTS, tensors)])
    learned = [[t[0], *[x.detach().requires_grad_() for x in t[1:]]] for t in tensors]
    row("torch.ops of Kiln, inputs require grad", [rounds(getattr(operations, "arrays%d" % n), *t, N, wait=wait) for n, t in zip(COUNTS, learned)])
    row("torch.ops of Kiln, returned", [rounds(operations.returned, tensors[0][0], N, wait=wait), None, None])
    row("torch.ops of Kiln, returned, require grad", [rounds(operations.returned, learned[0][1], N, wait=wait), None, None])
    small = [torch.ones(16, device="cuda") for _ in range(2)]
    row("torch.ops.aten.add of two tensors", [rounds(torch.ops.aten.add, *small, wait=wait), None, None])
    small = [x.requires_grad_() for x in small]
    row("torch.ops.aten.add, require grad", [rounds(torch.ops.aten.add, *small, wait=wait), None, None])
    if optional("helion"):
        try:
            row("Helion", [rounds(k, *t, N, wait=wait) for k, t in zip(helion_kernels(), tensors)])
        except Exception as error:  # whatever that raises: what follows does not need it
            print("Helion: %s: %s" % (type(error).__name__, error))


COLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
import kiln
device = kiln.Library(sys.argv[1] + "/python_launch.kbundle").device(sys.argv[2])
memory = device.memory(4096, "f32")
device.kernel("arrays2")(memory, memory, 1024)
device.sync()
bytes(memory)
"""


def cold(device):
    """Seconds of a process that imports the package, launches one kernel and reads the result."""
    found = []
    for _ in range(11):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-S", "-c", COLD, FOLDER, device], check=True)
        found.append(time.perf_counter() - start)
    print("%-44s %10.3f s, least %.3f s" % ("cold process to the first result, " + device, statistics.median(found), min(found)))


def main():
    plain = "--without-exchange" in sys.argv
    torch, numpy = optional("torch"), optional("numpy")
    if plain and torch and hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        del torch.Tensor.__dlpack_c_exchange_api__
    library = kiln.Library(os.path.join(FOLDER, "python_launch.kbundle"))
    if not plain:
        print("Python %s, kiln %s, torch %s, NumPy %s; nanoseconds a launch, a loop around nothing takes %.0f" %
              (sys.version.split()[0], kiln.version(), getattr(torch, "__version__", "absent"), getattr(numpy, "__version__", "absent"), rounds(nothing)[1]))
        head("arrays")
        if numpy:
            on_the_host(library, lambda n: [numpy.zeros(4, numpy.float32) for _ in range(n)], "NumPy")
    if torch:
        on_the_host(library, lambda n: [torch.zeros(4) for _ in range(n)], "tensors" + (", without the exchange" if plain else ""))
    if torch and torch.cuda.is_available():
        head("cuda:0, %s" % torch.cuda.get_device_name(0))
        on_the_gpu(library, torch, plain)
    elif not plain:
        print("no GPU of PyTorch's: that part is left out")
    if not plain:
        cold("host")
        if torch and torch.cuda.is_available():
            cold("cuda:0")
        if torch:
            subprocess.run([sys.executable, os.path.abspath(__file__), FOLDER, "--without-exchange"], check=True)


if __name__ == "__main__":
    main()
