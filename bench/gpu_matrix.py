#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix kernels of a bundle on an NVIDIA GPU beside the vendor's libraries, through kiln_launch.

bench/gpu_matrix.py BUNDLE [--libkiln FILE] [--only gemm,attention,fp8,int8] [--reps N] [--seed N] [--check]

Each job is launched in turn with the peers', L2 flushed before it; medians of device time, TFLOP/s and the ratio ours / peer. Every result is checked
against the peer's in higher precision first. --check runs odd shapes instead and times nothing. Needs PyTorch.
"""
import argparse
import time
import ctypes as C
import math
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


class KilnError(C.Structure):
    _fields_ = [("status", C.c_int), ("text", C.c_char * 1000)]


class Kiln:
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


I32, I64, F32 = C.c_int32, C.c_int64, C.c_float
flush = None


def measure(jobs, reps):
    """Median seconds of each job, in turn, each after L2 was flushed."""
    global flush
    if flush is None:
        flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times = {name: [] for name in jobs}
    for job in jobs.values():
        job(), job()
    torch.cuda.synchronize()
    for _ in range(reps):
        for name, job in jobs.items():
            flush.zero_()
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record(), job(), end.record()
            times[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in pairs) / 1e3 for name, pairs in times.items()}


def error_of(found, wanted):
    found, wanted = found.double(), wanted.double()
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()


def report(title, operations, times, ours="kiln"):
    peer = min(t for name, t in times.items() if name != ours)
    rates = ", ".join("%s %.0f" % (name, operations / t / 1e12) for name, t in times.items())
    print("%-34s %s   ratio %.3f" % (title, rates, peer / times[ours]), flush=True)


def gemm_call(kiln, dtype, a, b, bias, c, M, N, K):
    kernel = kiln.kernel("gemm[T=%s,ACT=0,BIAS=false]" % ("bf16" if dtype == torch.bfloat16 else "f16"))
    return lambda: kernel(a, b, bias, c, I32(M), I32(N), I32(K), I64(a.stride(0)), I64(b.stride(0)), I64(c.stride(0)))


def check(title, found, wanted, bound):
    e = error_of(found, wanted)
    good = e <= bound and not torch.isnan(found.double()).any()
    if not good:
        bad = (found.double() - wanted.double()).abs() > 1e-2 * wanted.double().abs().max()
        print("%s: WRONG, error %.3g; %d of %d elements, first at %s" % (title, e, bad.sum().item(), bad.numel(), bad.nonzero()[:1].tolist()), flush=True)
    return good


def gemm(kiln, dtype, M, N, K, reps):
    a, b = (torch.randn(r, max(K, 8), device="cuda", dtype=dtype)[:, :K] for r in (M, N))
    bias, c = torch.zeros(N, device="cuda", dtype=dtype), torch.full((M, N), float("nan"), device="cuda", dtype=dtype)
    ours = gemm_call(kiln, dtype, a, b, bias, c, M, N, K)
    ours(), torch.cuda.synchronize()
    wanted = torch.matmul(a, b.t())
    title = "gemm %s %dx%dx%d" % (str(dtype)[6:], M, N, K)
    check(title, c, wanted, 2e-3)
    print("  %s: equal to cuBLAS: %s" % (title, torch.equal(c, wanted)))
    if reps:
        report(title, 2 * M * N * K, measure({"cublas": lambda: torch.matmul(a, b.t()), "kiln": ours}, reps))


def fp8(kiln, n, kernel, fast, reps):
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one, ones, c = torch.ones((), device="cuda"), torch.ones(n, device="cuda"), torch.full((n, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    call = kiln.kernel(kernel)
    ours = lambda: call(a, b, ones, ones, c, I32(n), I32(n), I32(n), I64(n), I64(n), I64(n))
    library = lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)
    ours(), torch.cuda.synchronize()
    wanted = a.float() @ b.float().t()
    title = "gemm fp8 %s %d" % ("fast" if fast else "exact", n)
    check(title, c, wanted, 3e-2 if fast else 3e-3)
    print("  %s: error %.2g, cuBLASLt's %.2g" % (title, error_of(c, wanted), error_of(library(), wanted)))
    report(title, 2 * n**3, measure({"cublaslt": library, "kiln": ours}, reps))


def int8(kiln, n, reps):
    a, b = (torch.randint(-128, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))
    ones, c = torch.ones(n, device="cuda"), torch.full((n, n), float("nan"), device="cuda")
    call = kiln.kernel("gemm_i8")
    ours = lambda: call(a, b, ones, ones, c, I32(n), I32(n), I32(n))
    library = lambda: torch._int_mm(a, b.t())
    ours(), torch.cuda.synchronize()
    check("gemm int8 %d" % n, c, library(), 1e-6)
    report("gemm int8 %d" % n, 2 * n**3, measure({"torch._int_mm": library, "kiln": ours}, reps))


def attention(kiln, dtype, heads, S, D, causal, reps):
    q, k, v = (torch.randn(1, heads, S, D, device="cuda", dtype=dtype) for _ in range(3))
    o, lse = torch.full_like(q, float("nan")), torch.empty(heads, S, device="cuda")
    kernel = kiln.kernel("attention[T=%s,D=%d,CAUSAL=%s]" % ("bf16" if dtype == torch.bfloat16 else "f16", D, str(causal).lower()))
    scale = 1 / math.sqrt(D)
    ours = lambda: kernel(q, k, v, o, lse, I32(heads), I32(S), F32(scale))
    ours(), torch.cuda.synchronize()
    scores = q[0, :4].double() @ k[0, :4].double().transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1), -math.inf)
    wanted = torch.softmax(scores, -1) @ v[0, :4].double()
    title = "attention %s D%d %s %dx%d" % (str(dtype)[6:], D, "causal" if causal else "full", heads, S)
    check(title, o[0, :4], wanted, 6e-3)

    def library(backend):
        def call():
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return call

    if reps:
        operations = 4 * heads * S * S * D * (0.5 if causal else 1)
        report(title, operations, measure({"cudnn": library(SDPBackend.CUDNN_ATTENTION), "kiln": ours}, reps))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle")
    parser.add_argument("--libkiln", default="libkiln.so.0")
    parser.add_argument("--only", default="gemm,attention")
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    o = parser.parse_args()
    begun = time.time()
    torch.manual_seed(o.seed)
    kiln = Kiln(o.libkiln, o.bundle)
    print(torch.cuda.get_device_name(0), "PyTorch", torch.__version__, "started in %.0f s" % (time.time() - begun), flush=True)
    only = o.only.split(",")
    if o.check:
        for dtype in (torch.bfloat16, torch.float16):
            for M, N, K in ((1, 8, 8), (64, 64, 64), (63, 72, 40), (65, 8, 72), (128, 256, 64), (129, 264, 72), (1000, 520, 200), (127, 2048, 8), (513, 1032, 1032),
                            (256, 256, 0)):
                gemm(kiln, dtype, M, N, K, 0)
        for D in (64, 128):
            for causal in (False, True):
                for S in (1, 7, 64, 127, 128, 129, 333, 1000):
                    attention(kiln, torch.bfloat16, 5, S, D, causal, 0)
        return
    if "gemm" in only:
        for dtype in (torch.bfloat16, torch.float16):
            for n in (2048, 4096, 8192):
                gemm(kiln, dtype, n, n, n, o.reps)
    if "fp8" in only:
        for n in (4096, 8192):
            fp8(kiln, n, "gemm_fp8[S=e4m3,T=e4m3,FAST=false]", False, o.reps)
            fp8(kiln, n, "gemm_fp8[S=e4m3,T=e4m3,FAST=true]", True, o.reps)
    if "int8" in only:
        for n in (4096, 8192):
            int8(kiln, n, o.reps)
    if "attention" in only:
        for D in (128, 64):
            for causal in (False, True):
                attention(kiln, torch.bfloat16, 128, 4096, D, causal, o.reps)


main()
