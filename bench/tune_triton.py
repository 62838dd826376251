#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton's autotuner on the shapes of bench/tune.shapes, over spaces like those of kernels/: the best time of each shape with the L2 emptied before each
launch, and the wall time of tuning with every compile (set TRITON_CACHE_DIR to an empty folder for a cold one).

bench/tune_triton.py [SHAPES]     needs PyTorch and Triton
"""
import itertools
import re
import sys
import time

import torch
import triton
import triton.language as tl

BEGIN = time.time()
WARPS = [1, 2, 4, 8, 16]


def bench(call, quantiles=None, **ignored):
    return triton.testing.do_bench(call, warmup=3, rep=15, quantiles=quantiles)


def tuned(configs, key):
    return triton.autotune(configs=configs, key=key, do_bench=bench)


def rows_space():
    return [triton.Config({"ROWS": r}, num_warps=w) for r in (1, 2, 4, 8) for w in WARPS]


@tuned(rows_space(), ["rows", "cols"])
@triton.jit
def softmax(x, y, rows, cols, ldx, ldy, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    live = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + r[:, None].to(tl.int64) * ldx + c[None, :], live, -float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(y + r[:, None].to(tl.int64) * ldy + c[None, :], (e / tl.sum(e, 1)[:, None]).to(y.dtype.element_ty), live)


@tuned(rows_space(), ["rows", "cols"])
@triton.jit
def layer_norm(x, w, b, y, mean, rstd, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    live = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + r[:, None].to(tl.int64) * cols + c[None, :], live, 0).to(tl.float32)
    m = tl.sum(v, 1) / cols
    d = tl.where(live, v - m[:, None], 0)
    s = 1 / tl.sqrt(tl.sum(d * d, 1) / cols + eps)
    g = tl.load(w + c, c < cols, 0).to(tl.float32)
    h = tl.load(b + c, c < cols, 0).to(tl.float32)
    tl.store(y + r[:, None].to(tl.int64) * cols + c[None, :], (d * s[:, None] * g[None, :] + h[None, :]).to(y.dtype.element_ty), live)
    tl.store(mean + r, m, r < rows)
    tl.store(rstd + r, s, r < rows)


@tuned(rows_space(), ["rows", "cols"])
@triton.jit
def rms_norm(x, w, y, rstd, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    live = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + r[:, None].to(tl.int64) * cols + c[None, :], live, 0).to(tl.float32)
    s = 1 / tl.sqrt(tl.sum(v * v, 1) / cols + eps)
    g = tl.load(w + c, c < cols, 0).to(tl.float32)
    tl.store(y + r[:, None].to(tl.int64) * cols + c[None, :], (v * s[:, None] * g[None, :]).to(y.dtype.element_ty), live)
    tl.store(rstd + r, s, r < rows)


GEMM = [triton.Config({"BM": m, "BN": n, "BK": 64, "GROUP": 8}, num_warps=w, num_stages=s)
        for m, n, w, s in [(128, 256, 8, 3), (128, 256, 8, 4), (256, 128, 8, 3), (128, 128, 4, 3), (128, 128, 4, 4), (128, 128, 8, 4), (64, 256, 4, 4), (64, 128, 4, 4),
                           (64, 64, 4, 5), (128, 64, 4, 4)]]


@tuned(GEMM, ["M", "N", "K"])
@triton.jit
def gemm(a, b, c, M, N, K, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid, nm, nn = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * nn) * GROUP
    size = min(nm - first, GROUP)
    m = (first + pid % (GROUP * nn) % size) * BM + tl.arange(0, BM)
    n = (pid % (GROUP * nn) // size) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    p, q = a + (m % M)[:, None] * lda + k[None, :], b + (n % N)[None, :] * ldb + k[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(p, k[None, :] < K - at * BK, 0), tl.load(q, k[:, None] < K - at * BK, 0), acc)
        p += BK
        q += BK
    tl.store(c + m[:, None] * ldc + n[None, :], acc.to(c.dtype.element_ty), (m < M)[:, None] & (n < N)[None, :])


ATTENTION = [triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s) for m, n, w in [(64, 64, 4), (128, 64, 4), (128, 64, 8), (128, 128, 8)] for s in (2, 3)]


@tuned(ATTENTION, ["S"])
@triton.jit
def attention(q, k, v, o, lse, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(1).to(tl.int64) * S * D
    m, d, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    x = tl.load(q + at + m[:, None] * D + d[None, :], (m < S)[:, None], 0)
    most, total, acc = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        here = start + n
        y = tl.load(k + at + here[None, :] * D + d[:, None], (here < S)[None, :], 0)
        s = tl.where(m[:, None] >= here[None, :], tl.dot(x, y) * (scale * 1.4426950408889634), -float("inf"))
        above = tl.maximum(most, tl.max(s, 1))
        p, shrink = tl.exp2(s - above[:, None]), tl.exp2(most - above)
        total, acc, most = total * shrink + tl.sum(p, 1), acc * shrink[:, None], above
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v + at + here[:, None] * D + d[None, :], (here < S)[:, None], 0), acc)
    tl.store(o + at + m[:, None] * D + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty), (m < S)[:, None])
    tl.store(lse + tl.program_id(1) * S + m, (most + tl.log2(total)) * 0.6931471805599453, m < S)


@tuned([triton.Config({"ROWS": r, "BLOCK": b}, num_warps=w) for r in (1, 2, 4) for b in (512, 1024, 2048) for w in (1, 4, 8)], ["rows", "cols"])
@triton.jit
def gemv(a, x, y, rows, cols, lda, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, acc = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.zeros((ROWS, BLOCK), tl.float32)
    for at in range(0, cols, BLOCK):
        c = at + tl.arange(0, BLOCK)
        part = tl.load(a + r[:, None].to(tl.int64) * lda + c[None, :], (r < rows)[:, None] & (c < cols)[None, :], 0).to(tl.float32)
        acc += part * tl.load(x + c, c < cols, 0).to(tl.float32)[None, :]
    tl.store(y + r, tl.sum(acc, 1).to(y.dtype.element_ty), r < rows)


def some(*shape, dtype=torch.bfloat16):
    return torch.rand(*shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1).to(dtype)


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def rows_grid(n):
    return lambda meta: (triton.cdiv(n["rows"], meta["ROWS"]),)


def launch_of(kernel, n):
    """A function that launches, for the integers `n` of a line."""
    block = triton.next_power_of_2(n.get("cols", 1))
    if kernel == "softmax":
        x, y = some(n["rows"], n["cols"]), empty(n["rows"], n["cols"])
        return lambda: softmax[rows_grid(n)](x, y, n["rows"], n["cols"], n["cols"], n["cols"], BLOCK=block)
    if kernel in ("layer_norm", "rms_norm"):
        x, y, w, b = some(n["rows"], n["cols"]), empty(n["rows"], n["cols"]), some(n["cols"]), some(n["cols"])
        mean, rstd = empty(n["rows"], dtype=torch.float32), empty(n["rows"], dtype=torch.float32)
        if kernel == "rms_norm":
            return lambda: rms_norm[rows_grid(n)](x, w, y, rstd, n["rows"], n["cols"], 1e-5, BLOCK=block)
        return lambda: layer_norm[rows_grid(n)](x, w, b, y, mean, rstd, n["rows"], n["cols"], 1e-5, BLOCK=block)
    if kernel == "gemm":
        M, N, K = n["M"], n["N"], n["K"]
        a, b, c = some(M, K), some(N, K), empty(M, N)
        return lambda: gemm[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](a, b, c, M, N, K, K, K, N)
    if kernel == "attention":
        heads, S = n["heads"], n["S"]
        q, k, v, o, lse = some(heads, S, 128), some(heads, S, 128), some(heads, S, 128), empty(heads, S, 128), empty(heads, S, dtype=torch.float32)
        return lambda: attention[lambda meta: (triton.cdiv(S, meta["BM"]), heads)](q, k, v, o, lse, S, 0.0883883, D=128)
    a, x, y = some(n["rows"], n["cols"]), some(n["cols"]), empty(n["rows"])
    return lambda: gemv[rows_grid(n)](a, x, y, n["rows"], n["cols"], n["cols"])


def copy_of(kernel, n):
    """A copy that reads and writes as many bytes as the kernel, in 16 bits each; None where operations bound it."""
    if "rows" not in n:
        return None
    count = n["rows"] * n["cols"] // (2 if kernel == "gemv" else 1)
    a, b = some(count), empty(count)
    return lambda: b.copy_(a)


def read_shapes(path):
    """(kernel, {integer: value}) of each combination of each line, integers in the order of the line."""
    for line in open(path):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        choices = [(w.split("=", 1)[0], re.findall(r"\w+", w.split("=", 1)[1])) for w in words[1:] if re.fullmatch(r"\w+=(\{[\d,]+\}|\w+)", w) and not w.endswith("null")]
        for values in itertools.product(*(c[1] for c in choices)):
            n = dict(zip((c[0] for c in choices), values))
            yield words[0], {k: int(n.get(v, v)) for k, v in n.items()}


def main():
    print(torch.cuda.get_device_name(0), "PyTorch", torch.__version__, "Triton", triton.__version__, flush=True)
    for kernel, n in read_shapes(sys.argv[1] if len(sys.argv) > 1 else "bench/tune.shapes"):
        try:
            call = launch_of(kernel.split("[")[0], n)
            call()  # tunes
            us = 1000 * triton.testing.do_bench(call, warmup=3, rep=20, quantiles=[0.5])
            print(f"triton {kernel} {' '.join(f'{k}={v}' for k, v in n.items())}: {us:.2f} us", flush=True)
            copy = copy_of(kernel.split("[")[0], n)
            if copy:
                us = 1000 * triton.testing.do_bench(copy, warmup=3, rep=20, quantiles=[0.5])
                print(f"copy {kernel} {' '.join(f'{k}={v}' for k, v in n.items())}: {us:.2f} us", flush=True)
        except Exception as why:  # one shape that fails costs that shape
            print(f"triton {kernel} {n}: failed: {str(why)[:300]!r}", flush=True)
        torch.cuda.empty_cache()
    print(f"triton: {time.time() - BEGIN:.0f} s with every compile")


if __name__ == "__main__":
    main()
