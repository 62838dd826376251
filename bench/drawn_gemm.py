#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of bf16 and f16 drawn from everything that the interface of `gemm` and `gemm_general` allows, compared with cuBLAS on an NVIDIA GPU.

bench/drawn_gemm.py BUNDLE --seed HEX [--cases N] [--libkiln FILE] [--old BUNDLE] [--reps N] [--no-scratch] [--only others]

Extents are log-uniform from 16 to 16,384 (of a fifth of the cases M is from 1 to 64), each rounded to a multiple of 64, 8 or 1; the four layouts and both
types are equally likely; leading dimensions lie up to 64 elements beyond the extent, of as many classes of alignment. HEX is the first eight digits of the
measured commit. For each case: results compared with a product in double on drawn rows, the error at most 1.1 of cuBLAS's; canaries before, after and between
the rows of C, NaNs around A and B; the median of launches in turn with cuBLAS (torch.mm with the same C), L2 flushed before each. Printed: geometric mean,
tenth percentile and least ratio of every class, the ten worst of each, and apart the cases in which cuBLAS takes less than 5 us. --old: the kernels of another
bundle are timed in turn with the others. Needs PyTorch.
"""
import math
import sys
import time

import torch

import drawn
from gpu_common import F32, I32, I64, Kiln, error_of

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
ALIGNED, OTHERS = "rows of 16 bytes", "others"


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


def call_of(kiln, case, a, b, c, bias, scratch=True):
    M, N, K = I32(case["M"]), I32(case["N"]), I32(case["K"])
    lda, ldb, ldc = I64(case["lda"]), I64(case["ldb"]), I64(case["ldc"])
    if not case["TA"] and case["TB"]:
        return kiln.bind("gemm[T=%s,ACT=0,BIAS=false]" % case["type"], a, b, bias, c, M, N, K, lda, ldb, ldc, scratch=scratch)
    text = "gemm_general[T=%s,TA=%s,TB=%s,BETA=" % (case["type"], str(case["TA"]).lower(), str(case["TB"]).lower())
    values = (a, b, bias, c, M, N, K, lda, ldb, ldc, ldc, F32(0))
    try:
        return kiln.bind(text + "false]", *values, scratch=scratch)
    except RuntimeError:  # an older bundle
        return kiln.bind(text + "true]", *values, scratch=scratch)


def groups_of(case):
    is_aligned = all(case[n] % 8 == 0 for n in ("lda", "ldb", "ldc"))
    yield ALIGNED if is_aligned else OTHERS
    if is_aligned:
        yield "%s, %s%s" % (ALIGNED, "NT"[case["TA"]], "NT"[case["TB"]])
    elif min(case["M"], case["N"]) >= 1000 and 2 * case["M"] * case["N"] * case["K"] > 1 << 33:
        yield "others, min(M, N) >= 1000, > 2^33"


def make_case(kiln, old, case, rng, scratch):
    dtype, M, N, K = TYPES[case["type"]], case["M"], case["N"], case["K"]
    a = drawn.given_rows((K, M) if case["TA"] else (M, K), dtype, case["lda"])
    b = drawn.given_rows((N, K) if case["TB"] else (K, N), dtype, case["ldb"])
    x, y = a.t() if case["TA"] else a, b.t() if case["TB"] else b
    bias = torch.zeros(16, device="cuda", dtype=dtype)
    theirs, ours = (drawn.output((M, N), dtype, pitch=case["ldc"]) for _ in range(2))
    others = drawn.output((M, N), dtype, pitch=case["ldc"]) if old else None
    peer = lambda: torch.mm(x, y, out=theirs)

    def verify():
        """Drawn rows with a product in double, the others with cuBLAS's."""
        peer()
        rows = sorted(rng.sample(range(M), min(M, 64)))
        wanted = x[rows].double() @ y.double()
        found, allowed = error_of(ours[rows], wanted), 1.1 * error_of(theirs[rows], wanted) + 1e-6
        if not found <= allowed:
            return "error %.3g, allowed %.3g" % (found, allowed)
        difference = (ours.float() - theirs.float()).abs().max().item()
        return "" if difference <= 0.05 * theirs.float().abs().max().item() else "a row differs from cuBLAS's by %.3g" % difference
    title = "%s %s%s %dx%dx%d ld %d %d %d" % (case["type"], "NT"[case["TA"]], "NT"[case["TB"]], M, N, K, case["lda"], case["ldb"], case["ldc"])
    kernel = "gemm" if not case["TA"] and case["TB"] else "gemm_general"
    return drawn.Case("%-60s" % title, kernel, call_of(kiln, case, a, b, ours, bias, scratch), old and call_of(old, case, a, b, others, bias, scratch), {"cublas": peer}, 0, [ours], [],
                      groups=list(groups_of(case)), verify=verify)


def main():
    parser = drawn.arguments(__doc__, 200)
    parser.add_argument("--no-scratch", action="store_true", help="launch without scratch memory")
    parser.add_argument("--only", default="", help="classes whose name has this part")
    options = parser.parse_args()
    rng = drawn.generator(options.seed)
    kiln, old = Kiln(options.libkiln, options.bundle), options.old and Kiln(options.libkiln, options.old)
    table, begun = drawn.Table(options.reps), time.time()
    for _ in range(options.cases):
        case = draw(rng)
        if time.time() - begun < options.seconds and any(options.only in group for group in groups_of(case)):
            table.judge(make_case(kiln, old, case, rng, not options.no_scratch))
    return 1 if table.end((ALIGNED, OTHERS)) else 0


if __name__ == "__main__":
    sys.exit(main())
