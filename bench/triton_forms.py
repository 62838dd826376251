# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix kernels in Triton whose loads and loops do not have the simplest shape, for triton_matrix.py: persistent products (one loop of loops, one flat loop,
descriptors of the device), a list of products, both passes of attention's gradients, and products of blocks with scales."""
import triton
import triton.language as tl


@triton.jit
def tile_of(number, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * columns
    first = number // width * GROUP
    height = min(rows - first, GROUP)
    return first + number % width % height, number % width // height


@triton.jit
def persistent_loops(a, b, c, M, N, K, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BLOCKS: tl.constexpr):
    k = tl.arange(0, BK)
    for number in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), BLOCKS):
        pm, pn = tile_of(number, M, N, BM, BN, GROUP)
        m, n = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
        inner_m = tl.max_contiguous(tl.multiple_of(tl.where(m < M, m, 0), BM), BM)
        inner_n = tl.max_contiguous(tl.multiple_of(tl.where(n < N, n, 0), BN), BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(0, tl.cdiv(K, BK)):
            at = i * BK + k
            x = tl.load(a + inner_m[:, None] * lda + at[None, :], mask=at[None, :] < K, other=0.0)
            y = tl.load(b + at[:, None] * ldb + inner_n[None, :], mask=at[:, None] < K, other=0.0)
            acc = tl.dot(x, y, acc)
        tl.store(c + m[:, None] * ldc + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def persistent_flat(a, b, c, M, N, K, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BLOCKS: tl.constexpr):
    steps, number, step = tl.cdiv(K, BK), tl.program_id(0) - BLOCKS, -1
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    mine = tiles // BLOCKS + (tl.program_id(0) < tiles % BLOCKS).to(tl.int32)
    k = tl.arange(0, BK)
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, steps * mine):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            number += BLOCKS
            pm, pn = tile_of(number, M, N, BM, BN, GROUP)
            m, n = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
        at = step * BK + k
        x = tl.load(a + m[:, None] * lda + at[None, :], mask=(m[:, None] < M) & (at[None, :] < K), other=0.0)
        y = tl.load(b + at[:, None] * ldb + n[None, :], mask=(at[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        if step == steps - 1:
            tl.store(c + m[:, None] * ldc + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
            acc = tl.zeros((BM, BN), dtype=tl.float32)


@triton.jit
def persistent_descriptors(a, b, c, M, N, K, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BLOCKS: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [lda, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [ldb, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [ldc, 1], [BM, BN])
    for number in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), BLOCKS):
        pm, pn = tile_of(number, M, N, BM, BN, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(da.load([pm * BM, k]), db.load([pn * BN, k]).T, acc)
        dc.store([pm * BM, pn * BN], acc.to(tl.float16))


@triton.jit
def list_of_products(addresses, extents, COUNT, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr):
    """addresses: of A, B and C of each; extents: M, N, K of each, whose rows follow one another."""
    number, before = tl.program_id(0), 0
    for i in range(COUNT):
        M, N, K = tl.load(extents + 3 * i), tl.load(extents + 3 * i + 1), tl.load(extents + 3 * i + 2)
        columns = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * columns
        while number >= before and number < before + tiles:
            a = tl.multiple_of(tl.load(addresses + 3 * i).to(tl.pointer_type(tl.float16)), 16)
            b = tl.multiple_of(tl.load(addresses + 3 * i + 1).to(tl.pointer_type(tl.float16)), 16)
            c = tl.load(addresses + 3 * i + 2).to(tl.pointer_type(tl.float16))
            m, n = (number - before) // columns * BM + tl.arange(0, BM), (number - before) % columns * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            pa, pb = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(0, tl.cdiv(K, BK)):
                tl.multiple_of(pa, [16, 16])
                tl.multiple_of(pb, [16, 16])
                acc = tl.dot(tl.load(pa), tl.load(pb), acc)
                pa += BK
                pb += BK * N
            tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))
            number += BLOCKS
        before += tiles


@triton.jit
def gradients_of_keys(q, k, v, g, dk, dv, lse, delta, scale, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """A program has BN keys; lse is of base 2, k is scaled by log2 e times `scale`."""
    head = tl.program_id(1).to(tl.int64) * S
    n, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    here = head * D + n[:, None] * D + d[None, :]
    x, y = tl.load(k + here), tl.load(v + here)
    to_k, to_v = tl.zeros([BN, D], dtype=tl.float32), tl.zeros([BN, D], dtype=tl.float32)
    for at in range(tl.program_id(0) * BN if CAUSAL else 0, S, BM):
        m = at + tl.arange(0, BM)
        qt = tl.load(q + head * D + m[None, :] * D + d[:, None])
        top = tl.load(lse + head + m)
        p = tl.math.exp2(tl.dot(x, qt) - top[None, :])
        if CAUSAL:
            p = tl.where(m[None, :] >= n[:, None], p, 0.0)
        gm = tl.load(g + head * D + m[:, None] * D + d[None, :])
        to_v += tl.dot(p.to(tl.float16), gm)
        less = tl.load(delta + head + m)
        s = p * (tl.dot(y, tl.trans(gm)).to(tl.float32) - less[None, :])
        to_k += tl.dot(s.to(tl.float16), tl.trans(qt))
    tl.store(dv + here, to_v.to(tl.float16))
    tl.store(dk + here, (to_k * scale).to(tl.float16))


@triton.jit
def gradients_of_queries(q, k, v, g, dq, lse, delta, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """A program has BM queries."""
    head = tl.program_id(1).to(tl.int64) * S
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    here = head * D + m[:, None] * D + d[None, :]
    x, gm, top, less = tl.load(q + here), tl.load(g + here), tl.load(lse + head + m), tl.load(delta + head + m)
    out = tl.zeros([BM, D], dtype=tl.float32)
    for at in range(0, (tl.program_id(0) + 1) * BM if CAUSAL else S, BN):
        n = at + tl.arange(0, BN)
        there = head * D + n[None, :] * D + d[:, None]
        kt, vt = tl.load(k + there), tl.load(v + there)
        p = tl.math.exp2(tl.dot(x, kt) - top[:, None])
        if CAUSAL:
            p = tl.where(m[:, None] >= n[None, :], p, 0.0)
        s = p * (tl.dot(gm, vt).to(tl.float32) - less[:, None])
        out += tl.dot(s.to(tl.float16), tl.trans(kt))
    tl.store(dq + here, (out * 0.6931471824645996).to(tl.float16))


@triton.jit
def scaled_product(a, scales_a, b, scales_b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """e4m3 with a scale (e8m0) for each 32 elements of a row of A and of B^T."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    j = tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(a + m[:, None] * K + i * BK + k[None, :])
        y = tl.load(b + n[None, :] * K + i * BK + k[:, None])
        sx = tl.load(scales_a + m[:, None] * (K // 32) + i * (BK // 32) + j[None, :])
        sy = tl.load(scales_b + n[:, None] * (K // 32) + i * (BK // 32) + j[None, :])
        acc = tl.dot_scaled(x, sx, "e4m3", y, sy, "e4m3", acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)
