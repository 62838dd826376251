#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sorting and the largest elements of rows on an NVIDIA GPU, through kiln_launch, beside PyTorch and Triton.

bench/gpu_sort.py BUNDLE [--libkiln FILE] [--only TYPE,...] [--rows N] [--reps N]

BUNDLE holds kernels/sort.kiln. 16,384 rows of 64 to 4,096 elements, f32, bf16, i32: values alone (peer: the better of torch.sort and tl.sort's
best of five warp counts), values with columns (torch.sort), the 8 and 64 largest with columns (torch.topk, and tl.topk, which gives values
only). Rates are GB/s of the row's bytes read and written; L2 flushed before each launch, then hot; medians. Every result is checked first.
Needs PyTorch and Triton.
"""
import argparse

import torch
import triton
import triton.language as tl

from gpu_common import I32, Kiln, geomean, measure, ratios, report

NAMES = {torch.bfloat16: "bf16", torch.float32: "f32", torch.int32: "i32"}
WARPS = (1, 2, 4, 8, 16)


@triton.jit
def sort_rows(x, y, N: tl.constexpr, ROWS: tl.constexpr):
    at = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.sort(tl.load(x + at), 1))


@triton.jit
def top_rows(x, y, N: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    v = tl.topk(tl.load(x + r[:, None] * N + tl.arange(0, N)[None, :]), K, 1)
    tl.store(y + r[:, None] * K + tl.arange(0, K)[None, :], v)


def data(dtype, rows, cols):
    if dtype is torch.int32:
        return torch.randint(-(1 << 31), (1 << 31) - 1, (rows, cols), device="cuda", dtype=dtype)
    return torch.randn(rows, cols, device="cuda").to(dtype)


def best_triton(title, launch, reps):
    """The fastest of the warp counts that compile, as a job; {} when none does."""
    jobs = {}
    for warps in WARPS:
        try:
            launch(warps)
            torch.cuda.synchronize()
            jobs["triton w%d" % warps] = lambda warps=warps: launch(warps)
        except Exception as error:  # a peer that cannot is no peer
            print("%s: Triton with %d warps: %s" % (title, warps, str(error).splitlines()[0] if str(error) else error), flush=True)
    if not jobs:
        return {}
    times = measure(jobs, max(3, reps // 4))
    name = min(times, key=times.get)
    return {name: jobs[name]}


def same(title, found, wanted):
    if not torch.equal(found, wanted):
        bad = (found != wanted).nonzero()
        print("%s: WRONG, %d elements, first at %s" % (title, len(bad), bad[:1].tolist()), flush=True)


def sorts(kiln, dtype, rows, cols, reps):
    x, name = data(dtype, rows, cols), NAMES[dtype]
    y, at = torch.empty_like(x), torch.empty(rows, cols, device="cuda", dtype=torch.int32)
    size, per = 2 * x.numel() * x.element_size(), max(1, 1024 // cols)
    wanted, places = torch.sort(x, dim=1, stable=True)
    call, call_at = kiln.kernel("sort_rows[T=%s]" % name), kiln.kernel("argsort_rows[T=%s]" % name)
    call(x, y, I32(rows), I32(cols)), torch.cuda.synchronize()
    title = "sort %s %dx%d" % (name, rows, cols)
    same(title, y, wanted)
    peers = best_triton(title, lambda warps: sort_rows[(rows // per,)](x, y, cols, per, num_warps=warps), reps)
    report(title, size, "GB/s", {"torch": lambda: torch.sort(x, 1), **peers, "kiln": lambda: call(x, y, I32(rows), I32(cols))}, reps)
    y.zero_(), call_at(x, y, at, I32(rows), I32(cols)), torch.cuda.synchronize()
    title = "argsort %s %dx%d" % (name, rows, cols)
    same(title, y, wanted), same(title + " columns", at, places.int())
    report(title, size, "GB/s", {"torch": lambda: torch.sort(x, 1), "kiln": lambda: call_at(x, y, at, I32(rows), I32(cols))}, reps)


def tops(kiln, dtype, rows, cols, k, reps):
    x, name = data(dtype, rows, cols), NAMES[dtype]
    y, at = torch.empty(rows, k, device="cuda", dtype=dtype), torch.empty(rows, k, device="cuda", dtype=torch.int32)
    per = max(1, 1024 // cols)
    wanted, places = torch.sort(x, dim=1, descending=True, stable=True)
    call = kiln.kernel("top_rows[T=%s,K=%d]" % (name, k))
    call(x, y, at, I32(rows), I32(cols)), torch.cuda.synchronize()
    title = "top %d %s %dx%d" % (k, name, rows, cols)
    same(title, y, wanted[:, :k]), same(title + " columns", at, places[:, :k].int())
    peers = best_triton(title, lambda warps: top_rows[(rows // per,)](x, y, cols, k, per, num_warps=warps), reps)
    jobs = {"torch": lambda: torch.topk(x, k, 1), **peers, "kiln": lambda: call(x, y, at, I32(rows), I32(cols))}
    report(title, x.numel() * x.element_size(), "GB/s", jobs, reps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle")
    parser.add_argument("--libkiln", default="libkiln.so.0")
    parser.add_argument("--only", default="bf16,f32,i32")
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--reps", type=int, default=20)
    o = parser.parse_args()
    kiln = Kiln(o.libkiln, o.bundle)
    print(torch.cuda.get_device_name(0), "PyTorch", torch.__version__, "Triton", triton.__version__, flush=True)
    for dtype in (d for d in NAMES if NAMES[d] in o.only.split(",")):
        for cols in (1 << i for i in range(6, 13)):
            sorts(kiln, dtype, o.rows, cols, o.reps)
            for k in 8, 64:
                tops(kiln, dtype, o.rows, cols, k, o.reps)
    print("%d cases, geomean %.3f, least %.3f" % (len(ratios), geomean(list(ratios.values())), min(ratios.values())))


if __name__ == "__main__":
    main()
