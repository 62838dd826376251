#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix kernels of a bundle on an NVIDIA GPU beside the vendor's libraries, through kiln_launch.

bench/gpu_matrix.py BUNDLE [--libkiln FILE] [--only PART,...] [--reps N] [--seed N] [--check]

Parts: gemm, fp8, int8, fused, batched, ragged, thin, attention, random. Each job is launched in turn with the peers', L2 flushed before it, then again
with L2 as the job's own earlier run left it ("hot"); medians of device time, TFLOP/s (GB/s for thin products) and the ratio ours / peer. Every result is
checked against the peer's in higher precision first. --check runs odd shapes instead and times nothing. Needs PyTorch.
"""
import argparse
import math
import random
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_common import F32, I32, I64, Kiln, check, error_of, geomean, ratios, report

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


def gemm_call(kiln, dtype, a, b, bias, c, M, N, K):
    kernel = kiln.kernel("gemm[T=%s,ACT=0,BIAS=false]" % NAMES[dtype])
    return lambda: kernel(a, b, bias, c, I32(M), I32(N), I32(K), I64(a.stride(0)), I64(b.stride(0)), I64(c.stride(0)))


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
        report(title, 2 * M * N * K, "TFLOP/s", {"cublas": lambda: torch.matmul(a, b.t()), "kiln": ours}, reps)


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
    report(title, 2 * n**3, "TFLOP/s", {"cublaslt": library, "kiln": ours}, reps)


def int8(kiln, n, reps):
    a, b = (torch.randint(-128, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))
    ones, c = torch.ones(n, device="cuda"), torch.full((n, n), float("nan"), device="cuda")
    call = kiln.kernel("gemm_i8")
    ours = lambda: call(a, b, ones, ones, c, I32(n), I32(n), I32(n))
    library = lambda: torch._int_mm(a, b.t())
    ours(), torch.cuda.synchronize()
    check("gemm int8 %d" % n, c, library(), 1e-6)
    report("gemm int8 %d" % n, 2 * n**3, "TFLOP/s", {"torch._int_mm": library, "kiln": ours}, reps)


def attention(kiln, dtype, heads, S, D, causal, reps):
    q, k, v = (torch.randn(1, heads, S, D, device="cuda", dtype=dtype) for _ in range(3))
    o, lse = torch.full_like(q, float("nan")), torch.empty(heads, S, device="cuda")
    kernel = kiln.kernel("attention[T=%s,D=%d,CAUSAL=%s]" % (NAMES[dtype], D, str(causal).lower()))
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
        report(title, operations, "TFLOP/s", {"cudnn": library(SDPBackend.CUDNN_ATTENTION), "kiln": ours}, reps)


def fused(kiln, M, N, K, reps):
    """GELU(A B^T + bias) in its tanh form, which is what the peer's fused epilogue has."""
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    bias, c = torch.randn(N, device="cuda", dtype=torch.bfloat16), torch.full((M, N), float("nan"), device="cuda", dtype=torch.bfloat16)
    kernel = kiln.kernel("gemm[T=bf16,ACT=3,BIAS=true]")
    ours = lambda: kernel(a, b, bias, c, I32(M), I32(N), I32(K), I64(K), I64(K), I64(N))
    ours(), torch.cuda.synchronize()
    title = "gemm bias gelu %dx%dx%d" % (M, N, K)
    check(title, c, F.gelu(torch.matmul(a, b.t()).float() + bias.float(), approximate="tanh"), 5e-3)
    report(title, 2 * M * N * K, "TFLOP/s", {"cublaslt": lambda: torch._addmm_activation(bias, a, b.t(), use_gelu=True), "kiln": ours}, reps)


def batched(kiln, batch, n, reps):
    a, b = (torch.randn(batch, n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.full((batch, n, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    kernel = kiln.kernel("gemm_batched[T=bf16]")
    ours = lambda: kernel(a, b, c, I32(n), I32(n), I32(n), I64(n * n), I64(n * n), I64(n * n), I32(batch))
    ours(), torch.cuda.synchronize()
    title = "gemm batched %d of %d" % (batch, n)
    check(title, c, torch.bmm(a, b.transpose(1, 2)), 2e-3)
    report(title, 2 * batch * n**3, "TFLOP/s", {"cublas": lambda: torch.bmm(a, b.transpose(1, 2)), "kiln": ours}, reps)


def ragged(kiln, M, N, K, pad, reps):
    """A result of M x N in rows of N or, padded, of a multiple of eight elements; the peer writes into the same."""
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    width = -(-N // 8) * 8 if pad else N
    bias = torch.zeros(N, device="cuda", dtype=torch.bfloat16)
    c, other = (torch.full((M, width), float("nan"), device="cuda", dtype=torch.bfloat16)[:, :N] for _ in range(2))
    ours = gemm_call(kiln, torch.bfloat16, a, b, bias, c, M, N, K)
    ours(), torch.cuda.synchronize()
    title = "gemm ragged %dx%dx%d%s" % (M, N, K, " padded rows" if pad else "")
    check(title, c, torch.matmul(a, b.t()), 2e-3)
    report(title, 2 * M * N * K, "TFLOP/s", {"cublas": lambda: torch.matmul(a, b.t(), out=other), "kiln": ours}, reps)


def thin(kiln, M, N, K, reps):
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    bias, c = torch.zeros(N, device="cuda", dtype=torch.bfloat16), torch.full((M, N), float("nan"), device="cuda", dtype=torch.bfloat16)
    ours = gemm_call(kiln, torch.bfloat16, a, b, bias, c, M, N, K)
    ours(), torch.cuda.synchronize()
    title = "gemm thin %dx%dx%d" % (M, N, K)
    check(title, c, torch.matmul(a, b.t()), 3e-3)
    report(title, 2 * (M * K + N * K + M * N), "GB/s", {"cublas": lambda: torch.matmul(a, b.t()), "kiln": ours}, reps)


def drawn(kiln, seed, reps):
    """30 products and 20 attentions of shapes drawn from the seed; at most 2^42 operations each."""
    draw = random.Random(seed)
    size = lambda low, high, step: round(2 ** draw.uniform(math.log2(low), math.log2(high)) / step) * step
    before = set(ratios)
    for _ in range(30):
        gemm(kiln, torch.bfloat16, size(64, 16384, 8), size(64, 16384, 8), size(64, 16384, 8), reps)
    products = [ratios[t] for t in ratios if t not in before]
    before = set(ratios)
    for _ in range(20):
        D, causal = draw.choice((64, 128)), draw.random() < 0.5
        attention(kiln, torch.bfloat16, draw.choice((1, 2, 4, 8)) * draw.choice((8, 16, 32)), size(128, 16384, 1), D, causal, reps)
    attentions = [ratios[t] for t in ratios if t not in before]
    for name, found in ("products", products), ("attentions", attentions):
        print("seed %d: %d %s: geomean %.3f, least %.3f" % (seed, len(found), name, geomean(found), min(found)), flush=True)


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
    if "fused" in only:
        fused(kiln, 4096, 14336, 4096, o.reps)
    if "batched" in only:
        batched(kiln, 64, 1024, o.reps)
    if "ragged" in only:
        for M, N in (4095, 4097), (4097, 4095):
            for pad in True, False:
                ragged(kiln, M, N, 4104, pad, o.reps)
    if "thin" in only:
        for M in 16, 64, 256:
            for N, K in (4096, 4096), (14336, 4096), (4096, 14336):
                thin(kiln, M, N, K, o.reps)
    if "attention" in only:
        for D in (128, 64):
            for causal in (False, True):
                attention(kiln, torch.bfloat16, 128, 4096, D, causal, o.reps)
    if "random" in only:
        drawn(kiln, o.seed, max(5, o.reps // 2))


main()
