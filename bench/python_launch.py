#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a launch from Python costs, in one table: python_launch.py FOLDER

FOLDER is what `make bench-python` leaves in build/<config>/bench/python: the package, libkiln, a bundle, cubins and driver_launch.so. It and this file
are all that is needed on another machine. On the host and the null device with NumPy arrays and, where PyTorch is, its tensors; on cuda:0 beside
cuLaunchKernel called from C and Triton's launcher, in this process. Rows are timed in turn, a round of each: medians of the rounds, the least, and where
a row has another beside it the median of what they differ by (+) or of their ratios (x), with its bar. A PyTorch without DLPack's exchange, and one whose
tensors are read by their attributes alone, are measured in processes of their own.
"""
import atexit
import ctypes
import functools
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


def nothing(*_):
    pass


def timer(launch, *arguments, grid=None, form=None):
    """A function that gives the nanoseconds a launch, as a program writes it: launch(a, b, n), or launch[grid](a, b, n). `form` is another text of it."""
    names = ["a%d" % i for i in range(len(arguments))]
    form = form or "launch%s(%s)" % ("" if grid is None else "[grid]", ", ".join(names))
    made, times = {}, range(LAUNCHES)
    exec("def loop(%s):\n    for _ in times:\n        %s\n" % (", ".join(["times", "launch", "grid", *names]), form), made)
    loop = made["loop"]

    def time_one_round():
        start = time.perf_counter_ns()
        loop(times, launch, grid, *arguments)
        return (time.perf_counter_ns() - start) / LAUNCHES
    return time_one_round


class Table:
    """Rows of launches that are timed in turn, a round of each, so that what else the machine does meets all of them alike. A row may have another beside it:
    then the median of what they differ by, or of their ratios, round by round, is printed with the bar that it has."""

    def __init__(self, title, wait=nothing):
        self.title, self.wait, self.rows = title, wait, {}

    def add(self, title, timers, over=None, of=None, bars=None):
        """`timers` as many as columns or fewer; `over` and `of` are titles of the rows to subtract or to divide by."""
        self.rows[title] = (timers, over, of, bars)
        for one in timers:  # what compiles or loads at its first launch does so here
            one()
            self.wait()

    def measure(self):
        found = {(title, at): [] for title, (timers, *_) in self.rows.items() for at in range(len(timers))}
        order = list(found)
        for turn in range(ROUNDS):
            for i in range(len(order)):
                title, at = order[(i + turn) % len(order)]
                found[title, at].append(self.rows[title][0][at]())
                self.wait()
        return found

    def print(self):
        print("\n%-44s%s" % (self.title, "".join("%10s %7s %15s" % ("%d: median" % n, "least", "beside, bar") for n in COUNTS)))
        found = self.measure()
        for title, (timers, over, of, bars) in self.rows.items():
            line = "%-44s" % title
            for at in range(len(timers)):
                mine, beside, bar = found[title, at], found.get((over or of, at)), "" if bars is None else " (%s)" % bars[at]
                text = "" if beside is None else "%+.0f" % statistics.median(a - b for a, b in zip(mine, beside)) if over else \
                    "x%.3f" % statistics.median(a / b for a, b in zip(mine, beside))
                line += "%10.0f %7.0f %15s" % (statistics.median(mine), min(mine), text + bar)
            print(line.rstrip(), flush=True)


def on_the_host(library, numpy, torch, plain):
    table = Table("arrays")
    for name in ("null", "host"):
        device = library.device(name)
        kernels = [device.kernel("arrays%d" % n) for n in COUNTS]
        if numpy and not plain:
            arrays = [[numpy.zeros(4, numpy.float32) for _ in range(n)] for n in COUNTS]
            table.add("%s, NumPy" % name, [timer(k, *a, 128) for k, a in zip(kernels, arrays)], bars=(1500, "-", "-") if name == "host" else None)
            table.add("%s, memory of Kiln" % name, [timer(k, *[device.memory(4, "f32") for _ in a], 128) for k, a in zip(kernels, arrays)])
            table.add("%s, addresses" % name, [timer(k, *[x.ctypes.data for x in a], 128) for k, a in zip(kernels, arrays)])
            table.add("%s, prepared" % name, [timer(k.prepare(*a, 128, grid=(1,))) for k, a in zip(kernels, arrays)])
        if torch:
            table.add("%s, tensors%s" % (name, plain),
                      [timer(k, *[torch.zeros(4) for _ in range(n)], 128) for k, n in zip(kernels, COUNTS)])
    table.print()


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


DRIVER, TRITON, ADD, ADD_GRAD = "cuLaunchKernel from C", "Triton's launcher", "torch.ops.aten.add of two tensors", "torch.ops.aten.add, require grad"


def driver_timers(torch, tensors):
    """cuLaunchKernel called from C with the same parameters."""
    driver = ctypes.CDLL(os.path.join(FOLDER, "driver_launch.so"))
    driver.driver_load.restype, driver.driver_load.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]
    driver.driver_why.restype = ctypes.c_char_p
    driver.driver_time.restype = ctypes.c_double
    driver.driver_time.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    stream, timers = torch.cuda.current_stream().cuda_stream, []
    for n, these in zip(COUNTS, tensors):
        function = driver.driver_load(os.path.join(FOLDER, "arrays%d.cubin" % n).encode(), (SYMBOL % n).encode())
        if not function:
            raise SystemExit("cuLaunchKernel from C: arrays%d.cubin: %s" % (n, driver.driver_why().decode()))
        addresses = (ctypes.c_uint64 * n)(*[t.data_ptr() for t in these])
        timers.append(functools.partial(driver.driver_time, function, n, addresses, N, stream, LAUNCHES))
    return timers


def add_peers(table, tensors):
    grid = (N // 128,)
    if optional("triton"):
        peers = triton_kernels()
        table.add(TRITON, [timer(k, *t, N, grid=grid) for k, t in zip(peers, tensors)], over=DRIVER)
        import kiln.triton
        if kiln._compiler.program():
            table.add("kiln.triton.jit", [timer(kiln.triton.jit(k), *t, N, grid=grid) for k, t in zip(peers, tensors)], over=DRIVER)
    if optional("helion"):
        try:
            table.add("Helion", [timer(k, *t, N) for k, t in zip(helion_kernels(), tensors)], over=DRIVER)
        except Exception as error:  # whatever that raises: what follows does not need it
            print("Helion: %s: %s" % (type(error).__name__, error))


def add_operations(table, library, torch, tensors):
    import kiln.torch
    operations = kiln.torch.register(library, namespace="kiln_bench")
    small = [torch.ones(16, device="cuda") for _ in range(2)]
    table.add(ADD, [timer(torch.ops.aten.add, *small)] * len(COUNTS))
    table.add(ADD_GRAD, [timer(torch.ops.aten.add, *[x.clone().requires_grad_() for x in small])] * len(COUNTS))
    learned = [[t[0], *[x.detach().requires_grad_() for x in t[1:]]] for t in tensors]
    table.add("torch.ops of Kiln", [timer(getattr(operations, "arrays%d" % n), *t, N) for n, t in zip(COUNTS, tensors)], of=ADD, bars=(1.0, "-", "-"))
    table.add("torch.ops of Kiln, inputs require grad", [timer(getattr(operations, "arrays%d" % n), *t, N) for n, t in zip(COUNTS, learned)], of=ADD_GRAD,
              bars=(1.0, "-", "-"))
    table.add("torch.ops of Kiln, returned", [timer(operations.returned, tensors[0][0], N)], of=ADD, bars=(1.0,))
    table.add("torch.ops of Kiln, returned, require grad", [timer(operations.returned, learned[0][1], N)], of=ADD_GRAD, bars=(1.0,))


def on_the_gpu(library, torch, plain):
    device = library.device("cuda:0")
    kernels = [device.kernel("arrays%d" % n) for n in COUNTS]
    tensors = [[torch.empty(N, device="cuda") for _ in range(n)] for n in COUNTS]
    for k in kernels:
        k.preload()
    table = Table("cuda:0, %s" % torch.cuda.get_device_name(0), torch.cuda.synchronize)
    table.add(DRIVER, driver_timers(torch, tensors))
    table.add("kernel(tensors)" + plain, [timer(k, *t, N) for k, t in zip(kernels, tensors)], over=DRIVER,
              bars=(1300, 3700, 6900) if plain else (600, 1200, 2000))
    if not plain:
        table.add("kernel[grid](tensors)", [timer(k, *t, N, grid=(N // 128,)) for k, t in zip(kernels, tensors)], over=DRIVER)
        table.add("kernel(addresses)", [timer(k, *[x.data_ptr() for x in t], N) for k, t in zip(kernels, tensors)], over=DRIVER)
        prepared = [k.prepare(*t, N) for k, t in zip(kernels, tensors)]
        table.add("prepared()", [timer(p) for p in prepared], over=DRIVER, bars=(300, 300, 300))
        table.add("prepared() of addresses", [timer(k.prepare(*[x.data_ptr() for x in t], N)) for k, t in zip(kernels, tensors)], over=DRIVER, bars=(300, 300, 300))
        table.add("prepared.set(1, tensor), prepared()", [timer(p, t[1], form="launch.set(1, a0); launch()") for p, t in zip(prepared, tensors)], over=DRIVER)
        add_peers(table, tensors)
        add_operations(table, library, torch, tensors)
    table.print()


WAYS = {"--without-exchange": ", without the exchange", "--by-attributes": ", by attributes"}


def take_away(way):
    """What PyTorch has for reading tensors."""
    if hasattr(optional("torch").Tensor, "__dlpack_c_exchange_api__"):
        del optional("torch").Tensor.__dlpack_c_exchange_api__
    if way == "--by-attributes":
        import kiln._tensor_probe
        kiln._tensor_probe.tensors = None  # so that nothing can be proved


def main():
    way = next((one for one in WAYS if one in sys.argv), None)
    plain = WAYS.get(way, "")
    torch, numpy = optional("torch"), optional("numpy")
    if way:
        take_away(way)
    library = kiln.Library(os.path.join(FOLDER, "python_launch.kbundle"))
    if not plain:
        print("Python %s, kiln %s, torch %s, NumPy %s; nanoseconds a launch, %d rounds in turn; a loop around nothing takes %.0f" %
              (sys.version.split()[0], kiln.version(), getattr(torch, "__version__", "absent"), getattr(numpy, "__version__", "absent"), ROUNDS, timer(nothing)()))
    on_the_host(library, numpy, torch, plain)
    if torch and torch.cuda.is_available():
        on_the_gpu(library, torch, plain)
    elif not plain:
        print("no GPU of PyTorch's: that part is left out")
    if not plain:
        for one in WAYS if torch else ():
            subprocess.run([sys.executable, os.path.abspath(__file__), FOLDER, one], check=True)


if __name__ == "__main__":
    main()
