# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One row of the row-wise kernels in Triton; gpu_memory.py and triton_matrix.py make kernels of them. Pointers are those of the row."""
import triton
import triton.language as tl


@triton.jit
def softmax_row(x, y, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    live = c < cols
    v = tl.load(x + c, live, -float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + c, e / tl.sum(e, 0), live)


@triton.jit
def layer_norm_row(x, w, b, y, cols, eps, BLOCK: tl.constexpr):
    """Mean and reciprocal of the deviation."""
    c = tl.arange(0, BLOCK)
    live = c < cols
    v = tl.load(x + c, live, 0.0).to(tl.float32)
    mu = tl.sum(v, 0) / cols
    d = tl.where(live, v - mu, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, 0) / cols + eps)
    tl.store(y + c, d * r * tl.load(w + c, live).to(tl.float32) + tl.load(b + c, live).to(tl.float32), live)
    return mu, r
