# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the GPU benches share: a bundle's kernels through kiln_launch, timing with events, ratios. Needs PyTorch."""
import ctypes as C
import math
import statistics

import torch


class KilnError(C.Structure):
    _fields_ = [("status", C.c_int), ("text", C.c_char * 1000)]


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

    def kernel(self, name):
        handle = C.c_void_p()
        self.must("kiln_kernel_get", self.device, name.encode(), None, C.byref(handle))

        def call(*values):
            boxes = [C.c_void_p(v.data_ptr()) if isinstance(v, torch.Tensor) else v for v in values]
            pointers = (C.c_void_p * len(boxes))(*[C.addressof(b) for b in boxes])
            self.must("kiln_launch", handle, C.c_void_p(torch.cuda.current_stream().cuda_stream), pointers, C.c_size_t(len(boxes)))

        return call

    def grid_call(self, block, grid):
        """The only kernel of the bundle with packed arguments and a grid."""
        self.lib.kiln_kernel_name.restype = C.c_char_p
        name, handle = self.lib.kiln_kernel_name(self.library, C.c_size_t(0)), C.c_void_p()
        self.must("kiln_kernel_get", self.device, name, None, C.byref(handle))
        grid, block = (C.c_uint32 * 3)(*grid), block + b"\0" * (-len(block) % 8)
        return lambda: self.must("kiln_launch_grid", handle, C.c_void_p(torch.cuda.current_stream().cuda_stream), grid, block, C.c_size_t(len(block)))


I32, I64, F32 = C.c_int32, C.c_int64, C.c_float
flush = None


def measure(jobs, reps, hot=False):
    """Median seconds of each job, in turn: each after L2 was flushed, or (hot) after a run of its own."""
    global flush
    if flush is None:
        flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times = {name: [] for name in jobs}
    for job in jobs.values():
        job(), job()
    torch.cuda.synchronize()
    for _ in range(reps):
        for name, job in jobs.items():
            flush.zero_()  # also lets the host run ahead
            if hot:
                job()
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record(), job(), end.record()
            times[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in pairs) / 1e3 for name, pairs in times.items()}


def error_of(found, wanted):
    found, wanted = found.double(), wanted.double()
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()


def check(title, found, wanted, bound):
    e = error_of(found, wanted)
    good = e <= bound and not torch.isnan(found.double()).any()
    if not good:
        bad = (found.double() - wanted.double()).abs() > 1e-2 * wanted.double().abs().max()
        print("%s: WRONG, error %.3g; %d of %d elements, first at %s" % (title, e, bad.sum().item(), bad.numel(), bad.nonzero()[:1].tolist()), flush=True)
    return good


ratios = {}


def report(title, work, unit, jobs, reps, hot=True, ours="kiln"):
    """Times the jobs, prints their rates and the ratio to the best peer; `work` is in the unit's base: operations or bytes."""
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
