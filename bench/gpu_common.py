# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the GPU benches share: a bundle's kernels through kiln_launch, timing with events, ratios. Needs PyTorch, and tests/python/canary.py beside bench/."""
import ctypes as C
import math
import os
import statistics
import sys
import threading
import time
import weakref

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "python"))
from canary import Tensor  # noqa: E402


class KilnError(C.Structure):
    _fields_ = [("status", C.c_int), ("text", C.c_char * 1000)]


class KilnParam(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", C.c_char_p), ("offset", C.c_uint32), ("size", C.c_uint32), ("rank", C.c_uint8), ("pointer", C.c_uint8), ("access", C.c_uint8)]


class Kiln:
    """A bundle on device cuda:0; kernel(selection) is a function of tensors and ctypes values."""

    def __init__(self, path, bundle):
        self.lib = C.CDLL(path)
        self.library, self.device = C.c_void_p(), C.c_void_p()
        self.must("kiln_open_file", bundle.encode(), C.byref(self.library))
        self.must("kiln_device_open", self.library, b"cuda:0", C.byref(self.device))

    def must(self, name, *arguments):
        err = KilnError()
        if getattr(self.lib, name)(*arguments, C.byref(err)):
            raise RuntimeError("%s: %s" % (name, err.text.decode()))

    def names(self):
        """The kernels' names with their instances."""
        self.lib.kiln_kernel_count.restype, self.lib.kiln_kernel_name.restype = C.c_size_t, C.c_char_p
        return [self.lib.kiln_kernel_name(self.library, C.c_size_t(i)).decode() for i in range(self.lib.kiln_kernel_count(self.library))]

    def kernel(self, name):
        handle = C.c_void_p()
        self.must("kiln_kernel_get", self.device, name.encode(), None, C.byref(handle))

        def call(*values):
            boxes = [C.c_void_p(v.data_ptr()) if isinstance(v, torch.Tensor) else v for v in values]
            pointers = (C.c_void_p * len(boxes))(*[C.addressof(b) for b in boxes])
            self.must("kiln_launch", handle, C.c_void_p(torch.cuda.current_stream().cuda_stream), pointers, C.c_size_t(len(boxes)))

        return call

    def bind(self, name, *values, scratch=True):
        """A launch of these values, with the scratch memory that the kernel wants for them unless `scratch` is False."""
        handle, param, bytes_wanted = C.c_void_p(), KilnParam(), C.c_size_t()
        self.must("kiln_kernel_get", self.device, name.encode(), None, C.byref(handle))
        self.lib.kiln_block_size.restype = C.c_size_t
        block = C.create_string_buffer(self.lib.kiln_block_size(handle))
        size = C.c_size_t(len(block))
        for i, value in enumerate(values):
            box = C.c_void_p(value.data_ptr()) if isinstance(value, torch.Tensor) else value
            self.lib.kiln_param_at(handle, C.c_size_t(i), C.byref(param))
            C.memmove(C.addressof(block) + param.offset, C.addressof(box), param.size)
        if scratch:
            self.must("kiln_scratch_size", handle, block, size, C.byref(bytes_wanted))
        memory = torch.empty(bytes_wanted.value, dtype=torch.uint8, device="cuda") if bytes_wanted.value else None
        address = C.c_void_p(memory.data_ptr() if memory is not None else None)
        keep = (memory, values)  # as long as the launch

        def launch(keep=keep):
            self.must("kiln_launch_scratch", handle, C.c_void_p(torch.cuda.current_stream().cuda_stream), block, size, address, bytes_wanted)

        launch.scratch = bytes_wanted.value
        return launch

    def grid_call(self, block, grid):
        """The only kernel of the bundle with packed arguments and a grid."""
        self.lib.kiln_kernel_name.restype = C.c_char_p
        name, handle = self.lib.kiln_kernel_name(self.library, C.c_size_t(0)), C.c_void_p()
        if name is None:
            raise RuntimeError("the bundle has no kernel, or is damaged")
        self.must("kiln_kernel_get", self.device, name, None, C.byref(handle))
        grid, block = (C.c_uint32 * 3)(*grid), block + b"\0" * (-len(block) % 8)
        return lambda: self.must("kiln_launch_grid", handle, C.c_void_p(torch.cuda.current_stream().cuda_stream), grid, block, C.c_size_t(len(block)))


I32, I64, F32 = C.c_int32, C.c_int64, C.c_float
flush = None


def head_start(jobs):
    """Cycles for which the device must have work before a job is timed: a job that the host takes longer to launch than the flush lasts would be
    timed with the device idle between its first event and its kernel."""
    slowest = 0
    for job in jobs.values():
        torch.cuda.synchronize()
        begun = time.perf_counter()
        job()
        slowest = max(slowest, time.perf_counter() - begun)
    torch.cuda.synchronize()
    return int(1.5 * slowest * 2e9) if slowest > 40e-6 else 0


def measure(jobs, reps, hot=False):
    """Median seconds of each job, in turn: each after L2 was flushed, or (hot) after a run of its own."""
    global flush
    if flush is None:
        flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times = {name: [] for name in jobs}
    for job in jobs.values():
        job(), job()
    cycles = head_start(jobs)
    for _ in range(reps):
        for name, job in jobs.items():
            flush.zero_()  # also lets the host run ahead
            if hot:
                job()
            if cycles:
                torch.cuda._sleep(cycles)
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record(), job(), end.record()
            times[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in pairs) / 1e3 for name, pairs in times.items()}


def error_of(found, wanted):
    found, wanted = found.double(), wanted.double()
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()


canaries = weakref.WeakValueDictionary()  # by the memory of results


def result(shape, dtype, pitch=None):
    """A tensor of NaNs that `check` looks around; rows are `pitch` elements apart."""
    surrounded = Tensor(torch, shape, dtype, "cuda", float("nan"), pitch)
    tensor = surrounded.tensor
    del surrounded.tensor  # which keeps the other, not both each other
    tensor.surrounded = surrounded
    canaries[tensor.untyped_storage().data_ptr()] = surrounded
    return tensor


def look_around(title, found):
    surrounded = canaries.get(found.untyped_storage().data_ptr())
    text = surrounded.check("the result") if surrounded else ""
    if text:
        wrong.append(title)
        print("%s: WRONG, %s" % (title, text), flush=True)
    return not text


wrong = []
watched = []  # with `repeats`: what was checked since the last report, which is what the next job writes


def check(title, found, wanted, bound):
    e = error_of(found, wanted)
    good = e <= bound and not torch.isnan(found.double()).any()
    if repeats:
        watched.append((found, wanted, bound))
    if not good:
        wrong.append(title)
        bad = (found.double() - wanted.double()).abs() > 1e-2 * wanted.double().abs().max()
        print("%s: WRONG, error %.3g; %d of %d elements, first at %s" % (title, e, bad.sum().item(), bad.numel(), bad.nonzero()[:1].tolist()), flush=True)
    return look_around(title, found) and good


ratios = {}
repeats = 0  # instead of timing, run each job of ours so often under copies and compare


class Watchdog:
    """Ends the process where what it surrounds takes longer than `seconds`: a kernel that hangs can't be stopped otherwise."""

    def __init__(self, title, seconds=60):
        self.timer = threading.Timer(seconds, self.end, (title, seconds))
        self.timer.daemon = True

    def end(self, title, seconds):
        print("%s: HANGS, no end within %d s" % (title, seconds), flush=True)
        os._exit(3)

    def __enter__(self):
        self.timer.start()

    def __exit__(self, *_):
        self.timer.cancel()


copies = None


def copy_beside():
    """Some 2 ms of copies on a stream of their own, of the device and in both directions over the bus."""
    global copies
    if copies is None:
        near = [torch.zeros(512 << 20, dtype=torch.int8, device="cuda") for _ in range(2)]
        far = [torch.zeros(16 << 20, dtype=torch.int8, pin_memory=True) for _ in range(2)]
        copies = [torch.cuda.Stream() for _ in range(3)], near, far
    streams, near, far = copies
    pairs = (near[0], near[1]), (near[0][: 16 << 20], far[0]), (far[1], near[1][: 16 << 20])
    for stream, (to, source) in zip(streams, pairs):
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)


def repeat(title, job):
    """Runs `job` under copies; each result must be as near to the reference as the first, and how many are its very bits is printed."""
    whole = [found if found._base is None else found._base for found, _, _ in watched]  # a check may look at a part of them
    firsts, equal, outputs = [tensor.clone() for tensor in whole], 0, list(watched)
    for i in range(repeats):
        for tensor in whole:
            tensor.fill_(float("nan"))
        torch.cuda.synchronize()
        copy_beside()
        with Watchdog(title):
            job()
            torch.cuda.current_stream().synchronize()
        same = all(((tensor == first) | (first != first)).all().item() for tensor, first in zip(whole, firsts))
        equal += same
        for found, wanted, bound in () if same else outputs:
            check("%s, repetition %d" % (title, i), found, wanted, bound)
    watched.clear()
    print("%-44s %d repetitions under copies, %d bit for bit the first" % (title, repeats, equal), flush=True)


def report(title, work, unit, jobs, reps, hot=True, ours="kiln"):
    """Times the jobs, prints their rates and the ratio to the best peer; `work` is in the unit's base: operations or bytes."""
    if repeats:
        return repeat(title, jobs[ours])
    scale = {"TFLOP/s": 1e12, "GB/s": 1e9}[unit]
    times = measure(jobs, reps)
    peer = min(t for name, t in times.items() if name != ours)
    rates = ", ".join("%s %.0f" % (name, work / t / scale) for name, t in times.items())
    ratios[title] = peer / times[ours]
    text = "%-40s %s   ratio %.3f" % (title, rates, ratios[title])
    if hot:
        times = measure(jobs, max(3, reps // 2), hot=True)
        text += "   hot %.3f" % (min(t for name, t in times.items() if name != ours) / times[ours])
    print(text, flush=True)


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))
