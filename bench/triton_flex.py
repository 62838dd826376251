# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention under a mask of blocks in Triton, forward and backward, for triton_matrix.py: in the form that PyTorch's flex attention has. For each block of rows a
list says which blocks of columns there are, some of which are masked inside; scores have a bias by distance. q, k and v are parts of one tensor, heads side by side."""
import triton
import triton.language as tl

BLOCK = 128  # rows and columns of a block of the mask


@triton.jit
def step_of(list_of, count, i, TILE: tl.constexpr, SIDE: tl.constexpr):
    """Rows from tile i of the blocks in the list to the next one."""
    each: tl.constexpr = SIDE // TILE
    block = i // each
    now = tl.load(list_of + block, eviction_policy="evict_last")
    then = tl.load(list_of + block + 1, mask=block + 1 < count, eviction_policy="evict_last")
    leaves = (i + 1) % each == 0
    return ((then - now) * SIDE - (each - 1) * TILE) * leaves + (1 - leaves) * TILE


@triton.jit
def scores(s, rows, columns, scale, slope, MASKED: tl.constexpr):
    s = s * scale - (rows - columns).to(tl.float32) * slope
    if MASKED:
        s = tl.where(rows >= columns, s, -float("inf"))
    return s * 1.4426950408889634


@triton.jit
def forward_blocks(x, k, v, acc, total, top, rows, list_of, count, S, row, scale, slope, D: tl.constexpr, BN: tl.constexpr, SIDE: tl.constexpr, MASKED: tl.constexpr):
    start, at = tl.load(list_of) * SIDE, 0
    columns, d = (start + tl.arange(0, BN))[None, :], tl.arange(0, D)[None, :]
    for i in range(0, tl.minimum(count * (SIDE // BN), tl.cdiv(S, BN))):
        n = (start + at + tl.arange(0, BN))[:, None] * row
        s = scores(tl.dot(x, tl.load(k + n + d).T), rows, columns, scale, slope, MASKED)
        t = tl.maximum(top, tl.max(s, 1))
        base = tl.where(t == -float("inf"), 0, t)
        fade, p = tl.math.exp2(top - base), tl.math.exp2(s - base[:, None])
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(x.dtype), tl.load(v + n + d), acc * fade[:, None])
        top = t
        step = step_of(list_of, count, i, BN, SIDE)
        columns += step
        at += step
    return acc, total, top


@triton.jit
def flex_forward(q, k, v, o, lse, partial, partials, full, fulls, scale, slope, S, D: tl.constexpr, H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                 SIDE: tl.constexpr):
    m, batch, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row: tl.constexpr = 3 * H * D
    base, lists = batch * S * row + head * D, m * BM // SIDE
    rows, d = (m * BM + tl.arange(0, BM))[:, None], tl.arange(0, D)[None, :]
    x = tl.load(q + base + rows * row + d)
    top, total, acc = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    each = tl.cdiv(S, SIDE)
    acc, total, top = forward_blocks(x, k + base, v + base, acc, total, top, rows, partial + lists * each, tl.load(partials + lists), S, row, scale, slope, D, BN, SIDE,
                                     True)
    acc, total, top = forward_blocks(x, k + base, v + base, acc, total, top, rows, full + lists * each, tl.load(fulls + lists), S, row, scale, slope, D, BN, SIDE, False)
    total = tl.where(total == 0, 1, total)
    tl.store(o + (batch * S + rows) * (H * D) + head * D + d, (acc / total[:, None]).to(o.dtype.element_ty))
    tl.store(lse + (batch * H + head) * S + m * BM + tl.arange(0, BM), top + tl.math.log2(total))


@triton.jit
def queries_blocks(dq, x, g, high, delta, k, v, rows, list_of, count, S, row, scale, slope, D: tl.constexpr, BN: tl.constexpr, SIDE: tl.constexpr,
                   MASKED: tl.constexpr):
    start, at = tl.load(list_of) * SIDE, 0
    columns, d = (start + tl.arange(0, BN))[None, :], tl.arange(0, D)[None, :]
    for i in range(0, tl.minimum(count * (SIDE // BN), tl.cdiv(S, BN))):
        n = (start + at + tl.arange(0, BN))[:, None] * row
        y = tl.load(k + n + d)
        p = tl.math.exp2(scores(tl.dot(x, y.T), rows, columns, scale, slope, MASKED) - high)
        ds = p * (tl.dot(g, tl.load(v + n + d).T) - delta)
        dq = tl.dot(ds.to(x.dtype), y, dq)
        step = step_of(list_of, count, i, BN, SIDE)
        columns += step
        at += step
    return dq


@triton.jit
def keys_blocks(dk, dv, x, y, q, g, lse, delta, columns, list_of, count, S, row, out_row, scale, slope, D: tl.constexpr, BM: tl.constexpr, SIDE: tl.constexpr,
                MASKED: tl.constexpr):
    start, at = tl.load(list_of) * SIDE, 0
    rows, d = (start + tl.arange(0, BM))[None, :], tl.arange(0, D)[None, :]
    for i in range(0, tl.minimum(count * (SIDE // BM), tl.cdiv(S, BM))):
        m = start + at + tl.arange(0, BM)
        z = tl.load(q + m[:, None] * row + d)
        high = tl.load(lse + m)
        high = tl.where(high == -float("inf"), 0.0, high)
        p = tl.math.exp2(scores(tl.dot(x, z.T), rows, columns, scale, slope, MASKED) - high[None, :])
        w = tl.load(g + m[:, None] * out_row + d)
        dv = tl.dot(p.to(w.dtype), w, dv)
        ds = p * (tl.dot(y, w.T) - tl.load(delta + m)[None, :])
        dk = tl.dot(ds.to(z.dtype), z, dk)
        step = step_of(list_of, count, i, BM, SIDE)
        rows += step
        at += step
    return dk, dv


@triton.jit
def flex_backward(q, k, v, g, dq, dk, dv, lse, delta, partial, partials, full, fulls, partial_rows, partials_rows, full_rows, fulls_rows, scale, slope, S,
                  D: tl.constexpr, H: tl.constexpr, SMALL: tl.constexpr, WIDE: tl.constexpr, SIDE: tl.constexpr):
    number, batch, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row: tl.constexpr = 3 * H * D
    out_row: tl.constexpr = H * D
    each, base, out = tl.cdiv(S, SIDE), batch * S * row + head * D, batch * S * out_row + head * D
    line, blocks, d = (batch * H + head) * S, tl.cdiv(S, WIDE), tl.arange(0, D)[None, :]
    if number >= blocks:
        m = (number - blocks) * WIDE + tl.arange(0, WIDE)
        lists, rows = (number - blocks) * WIDE // SIDE, m[:, None]
        x, w = tl.load(q + base + rows * row + d), tl.load(g + out + rows * out_row + d)
        high, low = tl.load(lse + line + m), tl.load(delta + line + m)[:, None]
        high = tl.where(high == -float("inf"), 0.0, high)[:, None]
        sums = tl.zeros([WIDE, D], tl.float32)
        sums = queries_blocks(sums, x, w, high, low, k + base, v + base, rows, partial + lists * each, tl.load(partials + lists), S, row, scale, slope, D, SMALL, SIDE, True)
        sums = queries_blocks(sums, x, w, high, low, k + base, v + base, rows, full + lists * each, tl.load(fulls + lists), S, row, scale, slope, D, SMALL, SIDE, False)
        tl.store(dq + out + rows * out_row + d, (sums * scale).to(dq.dtype.element_ty))
    else:
        lists, columns = number * WIDE // SIDE, (number * WIDE + tl.arange(0, WIDE))[:, None]
        x, y = tl.load(k + base + columns * row + d), tl.load(v + base + columns * row + d)
        keys, values = tl.zeros([WIDE, D], tl.float32), tl.zeros([WIDE, D], tl.float32)
        keys, values = keys_blocks(keys, values, x, y, q + base, g + out, lse + line, delta + line, columns, partial_rows + lists * each, tl.load(partials_rows + lists), S,
                                   row, out_row, scale, slope, D, SMALL, SIDE, True)
        keys, values = keys_blocks(keys, values, x, y, q + base, g + out, lse + line, delta + line, columns, full_rows + lists * each, tl.load(fulls_rows + lists), S,
                                   row, out_row, scale, slope, D, SMALL, SIDE, False)
        tl.store(dk + out + columns * out_row + d, (keys * scale).to(dk.dtype.element_ty))
        tl.store(dv + out + columns * out_row + d, values.to(dv.dtype.element_ty))


def lists_of(blocks):
    """The causal mask's lists: (partly masked, how many; unmasked, how many) of columns for each block of rows, then of rows for each of columns."""
    def lists(of):
        return [(row + [0] * blocks)[:blocks] for row in of], [len(row) for row in of]
    at = range(blocks)
    return (*lists([[i] for i in at]), *lists([list(range(i)) for i in at]), *lists([[i] for i in at]), *lists([list(range(i + 1, blocks)) for i in at]))
