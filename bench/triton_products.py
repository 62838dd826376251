# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A matrix product of ragged extents in Triton, for amd_loops.py and triton_matrix.py: C = A B, of B^T with BT, sums of type SUM."""
import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BT: tl.constexpr, SUM: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * columns
    first = pid // width * GROUP
    height = min(rows - first, GROUP)
    pm, pn = first + pid % width % height, pid % width // height
    tl.assume(pm >= 0)
    tl.assume(pn >= 0)
    m, n, k = (pm * BM + tl.arange(0, BM)) % M, (pn * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    pa = a + m[:, None] * lda + k[None, :]
    pb = b + n[None, :] * ldb + k[:, None] if BT else b + k[:, None] * ldb + n[None, :]
    acc = tl.zeros((BM, BN), dtype=SUM)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=SUM)
        pa += BK
        pb += BK if BT else BK * ldb
    r, s = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    tl.store(c + r[:, None] * ldc + s[None, :], acc.to(c.dtype.element_ty), mask=(r[:, None] < M) & (s[None, :] < N))
