#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of bf16 and f16 drawn from everything that the interface of `gemm` and `gemm_general` allows, compared with cuBLAS on an NVIDIA GPU.

bench/drawn_gemm.py BUNDLE --seed HEX [--cases N] [--libkiln FILE] [--old BUNDLE] [--save FILE] [--reps N]

Extents are log-uniform from 16 to 16,384 (of a fifth of the cases M is from 1 to 64), each rounded to a multiple of 64, 8 or 1; the four layouts and both
types are equally likely; leading dimensions lie up to 64 elements beyond the extent, of as many classes of alignment. HEX is the first eight digits of the
measured commit. For each case: results compared with a product in double on drawn rows, the error at most 1.1 of cuBLAS's; canaries before, after and between
the rows of C, NaNs around A and B; the median of launches in turn with cuBLAS (torch.mm with the same C), L2 flushed before each. Printed: geometric mean,
tenth percentile and least ratio of every class, the ten worst of each, and apart the cases in which cuBLAS takes less than 5 us. --old: the kernels of another
bundle are timed in turn with the others. Needs PyTorch.
"""
import argparse
import json
import math
import os
import random
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpu_common import F32, I32, I64, Kiln, geomean, look_around, measure, result, wrong  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "python"))
from canary import Tensor  # noqa: E402

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16"}
SHORT = 5e-6  # seconds of the peer


def draw(rng):
    def extent(low, high):
        value = round(math.exp(rng.uniform(math.log(low), math.log(high))))
        unit = rng.choice((64, 8, 1))
        return max(unit, (value + unit // 2) // unit * unit)
    M = extent(1, 64) if rng.random() < 0.2 else extent(16, 16384)
    N, K = extent(16, 16384), extent(16, 16384)
    TA, TB = rng.random() < 0.5, rng.random() < 0.5

    def pitch(columns):
        beyond = rng.choice((0, 0, rng.randrange(0, 65)))
        unit = rng.choice((64, 8, 1))
        return (columns + beyond + unit - 1) // unit * unit if beyond else columns
    lda, ldb, ldc = pitch(M if TA else K), pitch(K if TB else N), pitch(N)
    return dict(M=M, N=N, K=K, TA=TA, TB=TB, lda=lda, ldb=ldb, ldc=ldc, type=rng.choice(("bf16", "f16")))


def input_of(rows, columns, pitch, dtype):
    surrounded = Tensor(torch, (rows, columns), dtype, "cuda", float("nan"), pitch)
    surrounded.tensor.normal_()
    return surrounded


def call_of(kiln, case, a, b, c, bias):
    M, N, K = I32(case["M"]), I32(case["N"]), I32(case["K"])
    lda, ldb, ldc = I64(case["lda"]), I64(case["ldb"]), I64(case["ldc"])
    if not case["TA"] and case["TB"]:
        kernel = kiln.kernel("gemm[T=%s,ACT=0,BIAS=false]" % case["type"])
        return lambda: kernel(a, b, bias, c, M, N, K, lda, ldb, ldc)
    text = "gemm_general[T=%s,TA=%s,TB=%s,BETA=" % (case["type"], str(case["TA"]).lower(), str(case["TB"]).lower())
    try:
        kernel = kiln.kernel(text + "false]")
    except RuntimeError:  # an older bundle
        kernel = kiln.kernel(text + "true]")
    return lambda: kernel(a, b, bias, c, M, N, K, lda, ldb, ldc, ldc, F32(0))


def run_case(kilns, case, options, rng):
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case["type"]]
    M, N, K = case["M"], case["N"], case["K"]
    title = "%s %s%s %dx%dx%d ld %d %d %d" % (case["type"], "NT"[case["TA"]], "NT"[case["TB"]], M, N, K, case["lda"], case["ldb"], case["ldc"])
    A = input_of(*((K, M) if case["TA"] else (M, K)), case["lda"], dtype)
    B = input_of(*((N, K) if case["TB"] else (K, N)), case["ldb"], dtype)
    a, b = A.tensor, B.tensor
    x, y = a.t() if case["TA"] else a, b.t() if case["TB"] else b
    bias = torch.zeros(16, device="cuda", dtype=dtype)
    theirs = result((M, N), dtype, case["ldc"])
    jobs = {"cublas": lambda: torch.mm(x, y, out=theirs)}
    outputs = {}
    for name, kiln in kilns.items():
        outputs[name] = result((M, N), dtype, case["ldc"])
        jobs[name] = call_of(kiln, case, a, b, outputs[name], bias)
    for job in jobs.values():
        job()
    torch.cuda.synchronize()
    rows = sorted(rng.sample(range(M), min(M, 64)))
    wanted = x[rows].double() @ y.double()

    def error(found):
        return ((found[rows].double() - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()
    peer = error(theirs)
    for name, output in outputs.items():
        if not error(output) <= 1.1 * peer + 1e-6:
            wrong.append(title)
            print("%s: WRONG, %s has error %.3g, cuBLAS %.3g" % (title, name, error(output), peer), flush=True)
        if not look_around(title, output) or not (((output.float() - theirs.float()).abs().max() <= 0.05 * theirs.float().abs().max()).item()):
            wrong.append(title)
            print("%s: WRONG in some row (%s)" % (title, name), flush=True)
    times = measure(jobs, options.reps)
    return dict(case, title=title, times=times)


def aligned(case):
    return all(case[n] % 8 == 0 for n in ("lda", "ldb", "ldc"))


def table(title, cases, name):
    ratios = sorted((c["times"]["cublas"] / c["times"][name], c["title"]) for c in cases)
    if not ratios:
        return
    values = [r for r, _ in ratios]
    print("%-34s n %3d  geomean %.3f  tenth percentile %.3f  least %.3f" % (title, len(values), geomean(values), values[len(values) // 10], values[0]))
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--libkiln", default="build/release/lib/libkiln.so.0")
    parser.add_argument("--old")
    parser.add_argument("--save")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=240, help="stop drawing after so many")
    options = parser.parse_args()
    rng = random.Random(int(options.seed, 16))
    torch.manual_seed(int(options.seed, 16) & 0x7fffffff)
    kilns = {"kiln": Kiln(options.libkiln, options.bundle)}
    if options.old:
        kilns["old"] = Kiln(options.libkiln, options.old)
    begun, cases = time.time(), []
    while len(cases) < options.cases and time.time() - begun < options.seconds:
        case = draw(rng)
        try:
            cases.append(run_case(kilns, case, options, rng))
        except RuntimeError as e:
            wrong.append(str(case))
            print("%s: FAILED, %s" % (case, str(e)[:300]), flush=True)
    print("%s, seed %s, %d cases, %d wrong" % (torch.cuda.get_device_name(0), options.seed, len(cases), len(wrong)))
    for name in kilns:
        print("== %s / cuBLAS" % name)
        long = [c for c in cases if c["times"]["cublas"] >= SHORT]
        classes = [("rows of 16 bytes, " + "NT"[ta] + "NT"[tb], [c for c in long if aligned(c) and c["TA"] == ta and c["TB"] == tb])
                   for ta in (False, True) for tb in (False, True)]
        classes += [("rows of 16 bytes", [c for c in long if aligned(c)]), ("others", [c for c in long if not aligned(c)]),
                    ("others, min(M, N) >= 1000, > 2^33", [c for c in long if not aligned(c) and min(c["M"], c["N"]) >= 1000 and 2 * c["M"] * c["N"] * c["K"] > 1 << 33]),
                    ("cuBLAS below 5 us", [c for c in cases if c["times"]["cublas"] < SHORT]), ("all", long)]
        for title, members in classes:
            ratios = table(title, members, name)
            if ratios and title in ("rows of 16 bytes", "others"):
                for ratio, text in ratios[:10]:
                    print("      %.3f %s" % (ratio, text))
    if options.save:
        json.dump(cases, open(options.save, "w"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
