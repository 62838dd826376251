#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tuned choices give in launches of libkiln: each shape of bench/tune.shapes by a bundle with choices and by one of `kiln build --no-tuned`, in turn.

bench/tune_ablation.py LIBKILN TUNED.kbundle DEFAULT.kbundle [SHAPES [REPS]]     needs PyTorch
"""
import sys

import torch

import gpu_common as G
from tune_triton import empty, read_shapes, some
from gpu_common import F32, I32, I64


def arguments_of(kernel, n):
    """Of kernels/, in order of the parameters."""
    if kernel == "gemm":
        M, N, K = n["M"], n["N"], n["K"]
        return [some(M, K), some(N, K), some(N), empty(M, N), I32(M), I32(N), I32(K), I64(K), I64(K), I64(N)]
    if kernel == "attention":
        heads, S = n["heads"], n["S"]
        tensors = [some(heads, S, 128), some(heads, S, 128), some(heads, S, 128), empty(heads, S, 128), empty(heads, S, dtype=torch.float32)]
        return tensors + [I32(heads), I32(S), F32(0.0883883)]
    rows, cols = n["rows"], n["cols"]
    x, y, w, b = some(rows, cols), empty(rows, cols), some(cols), some(cols)
    mean, rstd = empty(rows, dtype=torch.float32), empty(rows, dtype=torch.float32)
    sizes = [I32(rows), I32(cols)]
    return {
        "softmax": [x, y] + sizes + [I32(cols), I32(cols)],
        "layer_norm": [x, w, b, y, mean, rstd] + sizes + [F32(1e-5)],
        "rms_norm": [x, w, y, rstd] + sizes + [F32(1e-5)],
        "gemv": [x, w, empty(rows)] + sizes + [I64(cols)],
    }[kernel]


def main():
    path, tuned, default = sys.argv[1:4]
    # Twice each, since where a code happens to lie is worth 0.3 us.
    bundles = [("tuned", G.Kiln(path, tuned)), ("default", G.Kiln(path, default)), ("default", G.Kiln(path, default)), ("tuned", G.Kiln(path, tuned))]
    reps = int(sys.argv[5]) if len(sys.argv) > 5 else 30
    by_kernel = {}
    for kernel, n in read_shapes(sys.argv[4] if len(sys.argv) > 4 else "bench/tune.shapes"):
        plain = kernel.split("[")[0]
        values = arguments_of(plain, n)
        jobs = {(name, i): lambda call=bundle.kernel(kernel): call(*values) for i, (name, bundle) in enumerate(bundles)}
        both = G.measure(jobs, reps)
        times = {name: sum(t for (n, _), t in both.items() if n == name) / 2 for name in ("tuned", "default")}
        ratio = times["default"] / times["tuned"]
        by_kernel.setdefault(plain, []).append(ratio)
        print("%s %s: tuned %.2f us, default %.2f us, %.3f" % (kernel, " ".join("%s=%d" % i for i in n.items()), times["tuned"] * 1e6, times["default"] * 1e6, ratio), flush=True)
        torch.cuda.empty_cache()
    for kernel, ratios in by_kernel.items():
        print("%-12s %2d shapes, default over tuned: %.3f, %.3f to %.3f" % (kernel, len(ratios), G.geomean(ratios), min(ratios), max(ratios)))
    print("%-12s %2d shapes, default over tuned: %.3f" % ("all", sum(map(len, by_kernel.values())), G.geomean(sum(by_kernel.values(), []))))


if __name__ == "__main__":
    main()
