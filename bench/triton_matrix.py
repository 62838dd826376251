#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same Triton IR compiled by Kiln and by Triton: matrix products (also through descriptors of the host), transposition, attention, softmax, layer norm,
the forms of triton_forms.py, and attention under a mask of blocks (triton_flex.py).

bench/triton_matrix.py FOLDER --export [--kiln build/release/bin/kiln] [--only TEXT]   writes the IR and a bundle of each kernel; needs Triton, no GPU
bench/triton_matrix.py FOLDER [--libkiln FILE] [--only TEXT] [--reps N]   runs both on cuda:0; needs PyTorch and Triton

Both take the same grid and arguments; Kiln's code is launched by kiln_launch_grid. Medians, L2 flushed before each launch, then hot. Results are compared
with PyTorch's first.
"""
import argparse
import json
import os
import random
import struct
import subprocess

import triton
import triton.language as tl

from triton_flex import BLOCK as SIDE, flex_backward, flex_forward, lists_of
from triton_forms import (
    gradients_of_keys, gradients_of_queries, list_of_products, persistent_descriptors, persistent_flat, persistent_loops, scaled_product)
from triton_products import gemm
from triton_rows import layer_norm_row, softmax_row


@triton.jit
def matmul_of_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * columns
    first = pid // width * GROUP
    height = min(rows - first, GROUP)
    m, n = (first + pid % width % height) * BM, pid % width // height * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def transpose_of_descriptors(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    y.store([j, i], x.load([i, j]).T)


@triton.jit
def attention(q, k, v, o, scale, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    start, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * S * D
    dk = tl.make_tensor_descriptor(k + base, [S, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v + base, [S, D], [D, 1], [BN, D])
    dq = tl.make_tensor_descriptor(q + base, [S, D], [D, 1], [BM, D])
    do = tl.make_tensor_descriptor(o + base, [S, D], [D, 1], [BM, D])
    rows = start * BM + tl.arange(0, BM)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    x = dq.load([start * BM, 0])
    unit = scale * 1.4426950408889634
    plain = start * BM if CAUSAL else S
    for n in tl.range(0, plain, BN):
        s = tl.dot(x, dk.load([n, 0]).T)
        t = tl.maximum(top, tl.max(s, 1) * unit)
        p = tl.math.exp2(s * unit - t[:, None])
        fade = tl.math.exp2(top - t)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * fade[:, None])
        top = t
    if CAUSAL:
        for n in tl.range(start * BM, (start + 1) * BM, BN):
            s = tl.dot(x, dk.load([n, 0]).T)
            s = s * unit + tl.where(rows[:, None] >= n + tl.arange(0, BN)[None, :], 0, -1.0e6)
            t = tl.maximum(top, tl.max(s, 1))
            p = tl.math.exp2(s - t[:, None])
            fade = tl.math.exp2(top - t)
            total = total * fade + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * fade[:, None])
            top = t
    do.store([start * BM, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    softmax_row(x + row, y + row, cols, BLOCK)


@triton.jit
def layer_norm(x, w, b, y, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    layer_norm_row(x + row, w, b, y + row, cols, eps, BLOCK)


def flex_shapes(seed=0):
    """The shape of the model of torch_models.py, and drawn ones: batch, heads, rows, size of a head."""
    drawn = random.Random(seed)
    return [(4, 8, 1024, 64)] + [(drawn.choice((1, 2, 4, 8)), drawn.choice((4, 8, 16, 32)), SIDE * drawn.randrange(2, 25), drawn.choice((64, 128))) for _ in range(7)]


BLOCKS = 132  # of persistent kernels: an H100's SMs


def cases():
    """name -> (kernel, signature in order, constants, warps, stages, what it is of)"""
    out = {}
    pointers = lambda t, n: ["*" + t] * n
    for size in 2048, 4096, 8192:
        for BM, BN, warps, stages in (128, 256, 8, 3), (128, 128, 8, 4), (128, 256, 8, 4):
            out["gemm %d %dx%d s%d" % (size, BM, BN, stages)] = (
                gemm, pointers("fp16", 3) + ["i32"] * 6, dict(BM=BM, BN=BN, BK=64, GROUP=8, BT=False, SUM=tl.float32), warps, stages, ("gemm", size))
    for short, t, BK, slots in ("f16", "fp16", 64, 3), ("f32", "fp32", 32, 2):  # Triton stages the whole result: with three slots that of f32 has no room
        tile = lambda rows, columns: "tensordesc<%s[%d, %d]>" % (t, rows, columns)
        for size in 2048, 4096, 8192:
            for BM, BN, warps, stages in (128, 128, 4, 4), (128, 256, 8, slots), (128, 128, 8, 4):
                out["host descriptors %s %d %dx%d w%d s%d" % (short, size, BM, BN, warps, stages)] = (
                    matmul_of_descriptors, [tile(BM, BK), tile(BN, BK), tile(BM, BN)] + ["i32"] * 3, dict(BM=BM, BN=BN, BK=BK, GROUP=8), warps, stages,
                    ("descriptors", t, size))
        out["host descriptors %s transpose 8192" % short] = (
            transpose_of_descriptors, [tile(64, 64), tile(64, 64)], dict(ROWS=64, COLUMNS=64), 4, 3, ("transpose", t, 8192))
    for D in 64, 128:
        for causal in False, True:
            for BM, BN, warps, stages in (128, 128, 8, 2), (128, 64, 8, 3), (128, 128, 4, 3), (128, 64, 4, 3), (64, 128, 4, 2):
                if causal and BN > BM:
                    continue
                out["attention D%d %s %dx%d w%d s%d" % (D, "causal" if causal else "full", BM, BN, warps, stages)] = (
                    attention, pointers("fp16", 4) + ["fp32", "i32"], dict(D=D, BM=BM, BN=BN, CAUSAL=causal), warps, stages, ("attention", D, causal))
    for size in 2048, 4096, 8192:
        for BM, BN, warps, stages in (128, 128, 4, 3), (128, 128, 8, 4), (128, 256, 8, 3), (128, 256, 8, 4):
            for kind, fn in ("loops", persistent_loops), ("flat", persistent_flat), ("descriptors", persistent_descriptors):
                out["persistent %s %d %dx%d w%d s%d" % (kind, size, BM, BN, warps, stages)] = (
                    fn, pointers("fp16", 3) + ["i32"] * 6, dict(BM=BM, BN=BN, BK=64, GROUP=8, BLOCKS=BLOCKS), warps, stages, ("persistent", size, kind))
    for size in 1024, 4096:
        for BM, BN, BK, warps, stages in (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 256, 64, 8, 3):
            out["list of products %d %dx%d w%d s%d" % (size, BM, BN, warps, stages)] = (
                list_of_products, ["*i64", "*i32", "i32"], dict(BM=BM, BN=BN, BK=BK, BLOCKS=BLOCKS), warps, stages, ("list", size))
    for D in 64, 128:
        for causal in False, True:
            kind = "D%d %s" % (D, "causal" if causal else "full")
            for BM, BN, warps, stages in (32, 128, 4, 3), (64, 128, 8, 2), (64, 128, 4, 2):
                out["gradients of keys %s %dx%d w%d s%d" % (kind, BM, BN, warps, stages)] = (
                    gradients_of_keys, pointers("fp16", 6) + pointers("fp32", 2) + ["fp32", "i32"], dict(D=D, BM=BM, BN=BN, CAUSAL=causal), warps, stages,
                    ("gradients", D, causal, "keys"))
            for BM, BN, warps, stages in (128, 32, 4, 3), (128, 64, 8, 2), (128, 64, 4, 2):
                out["gradients of queries %s %dx%d w%d s%d" % (kind, BM, BN, warps, stages)] = (
                    gradients_of_queries, pointers("fp16", 5) + pointers("fp32", 2) + ["i32"], dict(D=D, BM=BM, BN=BN, CAUSAL=causal), warps, stages,
                    ("gradients", D, causal, "queries"))
    for B, H, S, D in flex_shapes():
        name = "%dx%dx%d D%d" % (B, H, S, D)
        BN, warps = (128, 4) if D == 64 else (64, 8)  # what PyTorch chooses on an H100
        out["flex forward " + name] = (flex_forward, pointers("bf16", 4) + ["*fp32"] + pointers("i32", 4) + ["fp32", "fp32", "i32"],
                                       dict(D=D, H=H, BM=128, BN=BN, SIDE=SIDE), warps, 3, ("flex", B, H, S, D, "forward"))
        out["flex backward " + name] = (flex_backward, pointers("bf16", 7) + pointers("fp32", 2) + pointers("i32", 8) + ["fp32", "fp32", "i32"],
                                        dict(D=D, H=H, SMALL=64, WIDE=128, SIDE=SIDE), 8, 3, ("flex", B, H, S, D, "backward"))
    for BM, BN, warps, stages in (128, 128, 4, 3), (128, 128, 8, 3):
        out["scaled 4096 %dx%d w%d" % (BM, BN, warps)] = (
            scaled_product, ["*fp8e4nv", "*u8", "*fp8e4nv", "*u8", "*fp32"] + ["i32"] * 3, dict(BM=BM, BN=BN, BK=128), warps, stages, ("scaled", 4096))
    out["softmax f32 4096x16384 w32"] = (softmax, pointers("fp32", 2) + ["i32"], dict(BLOCK=16384), 32, 3, ("softmax", "float32", 4096, 16384))
    out["softmax bf16 8192x8192 w16"] = (softmax, pointers("bf16", 2) + ["i32"], dict(BLOCK=8192), 16, 3, ("softmax", "bfloat16", 8192, 8192))
    out["layer norm f32 8192x4096 w8"] = (layer_norm, pointers("fp32", 4) + ["i32", "fp32"], dict(BLOCK=4096), 8, 3, ("layer_norm", "float32", 8192, 4096))
    return out


def export(folder, kiln, only):
    """The integers of all cases are multiples of 16 and addresses aligned, which both compilers are told."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    os.makedirs(folder, exist_ok=True)
    for number, (name, (fn, types, constants, warps, stages, _)) in enumerate(cases().items()):
        if only not in name:
            continue
        names = fn.arg_names
        signature = {n: types[i] if i < len(types) else "constexpr" for i, n in enumerate(names)}
        facts = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types) if t[0] in "*i"}
        source = ASTSource(fn, signature, {(names.index(n),): v for n, v in constants.items()}, facts)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})
        path = "%s/%d.ttir" % (folder, number)
        with open(path, "w") as f:
            f.write(made.asm["ttir"])
        subprocess.run([kiln, "build", path, "--target", "sm_90a", "--warps=%d" % warps, "--stages=%d" % stages, "-q", "-o", path[:-4] + "kbundle"], check=True)
        print(name, "exported", flush=True)


def packed(values, types):
    """The argument block: of a descriptor the view, then the extents and strides that Triton appends."""
    block = b""

    def put(code, *its):
        nonlocal block
        size = struct.calcsize(code)
        block += b"\0" * (-len(block) % size) + b"".join(struct.pack("<" + code, one) for one in its)

    for value, t in zip(values, types):
        if t.startswith("tensordesc"):
            put("Q", value.base.data_ptr())
            put("q", *value.shape, *value.strides)
            put("i", *value.shape)
            put("q", *value.strides)
        else:
            put("Q" if t[0] == "*" else "f" if t[0] == "f" else "i", value.data_ptr() if t[0] == "*" else value)
    return block


def described(tensors, types):
    """Descriptors of tensors with the tiles of their types: tensordesc<fp16[128, 64]>."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return [TensorDescriptor.from_tensor(tensor, json.loads(t[t.index("["):-1])) for tensor, t in zip(tensors, types)]


def run(folder, libkiln, only, reps):
    import torch
    import torch.nn.functional as F

    from gpu_common import Kiln, check, report

    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    for number, (name, (fn, types, constants, warps, stages, of)) in enumerate(cases().items()):
        if only not in name:
            continue
        torch.manual_seed(0)
        if of[0] == "gemm":
            n = of[1]
            a, b, c = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(3))
            arguments, grid = [a, b, c] + [n] * 6, (n // constants["BM"] * (n // constants["BN"]), 1, 1)
            result, wanted, work, unit = c, a @ b, 2 * n**3, "TFLOP/s"
        elif of[0] == "persistent":
            n = of[1]
            a, b, c = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(3))
            arguments, grid = [a, b, c] + [n] * 6, (min(BLOCKS, n // constants["BM"] * (n // constants["BN"])), 1, 1)
            result, wanted, work, unit = c, a @ (b.T if of[2] == "descriptors" else b), 2 * n**3, "TFLOP/s"
        elif of[0] == "list":
            n, count = of[1], 16
            lists = [[torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(count)] for _ in range(2)]
            result = torch.empty(count, n, n, device="cuda", dtype=torch.float16)
            addresses = torch.tensor([[x.data_ptr(), y.data_ptr(), z.data_ptr()] for x, y, z in zip(*lists, result)], device="cuda")
            extents = torch.full((count, 3), n, device="cuda", dtype=torch.int32)
            arguments, grid = [addresses, extents, count], (BLOCKS, 1, 1)
            wanted, work, unit = torch.stack([x @ y for x, y in zip(*lists)]), 2 * count * n**3, "TFLOP/s"
        elif of[0] == "gradients":
            D, causal, heads, S = of[1], of[2], 64, 2048
            q, k, v, g = (torch.randn(1, heads, S, D, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(4))
            scale = D**-0.5
            with torch.no_grad():
                s = (q.float() @ k.float().mT) * scale
                if causal:
                    s = s.masked_fill(torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1), -float("inf"))
                lse, o = torch.logsumexp(s, -1), torch.softmax(s, -1) @ v.float()
                delta, lse, scaled = (o * g.float()).sum(-1), lse * 1.4426950408889634, (k * (scale * 1.4426950408889634)).contiguous()
            F.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(g)
            q, v, g, dq, dk, dv = (x.detach() for x in (q, v, g, q.grad, k.grad, v.grad))
            if of[3] == "keys":
                both = torch.empty(2, *q.shape, device="cuda", dtype=torch.float16)
                arguments, grid = [q, scaled, v, g, both[0], both[1], lse, delta, scale, S], (S // constants["BN"], heads, 1)
                result, wanted, products = both, torch.stack([dk, dv]), 4
            else:
                result, wanted, products = torch.empty_like(q), dq, 3
                arguments, grid = [q, scaled, v, g, result, lse, delta, S], (S // constants["BM"], heads, 1)
            work, unit = products * 2 * heads * S * S * D * (0.5 if causal else 1), "TFLOP/s"
        elif of[0] == "flex":
            B, H, S, D = of[1:5]
            qkv = torch.randn(B, S, 3, H, D, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            g, o = torch.randn(B, S, H, D, device="cuda", dtype=torch.bfloat16), torch.empty(B, S, H, D, device="cuda", dtype=torch.bfloat16)
            at, slope = torch.arange(S, device="cuda"), 0.05
            ahead = at[:, None] - at
            bias = torch.where(ahead >= 0, -slope * ahead, float("-inf"))
            want, lse, wide = [], [], []
            for one in range(B):  # scores of a batch at a time
                x = qkv.detach()[one].float().requires_grad_()
                a, b, c = (x[:, i].transpose(0, 1) for i in range(3))
                s = a @ b.mT * D**-0.5 + bias
                r = torch.softmax(s, -1) @ c
                r.backward(g[one].float().transpose(0, 1))
                want.append(r.detach().transpose(0, 1)), lse.append(torch.logsumexp(s.detach(), -1) * 1.4426950408889634), wide.append(x.grad)
            want, lse, wide = torch.stack(want), torch.stack(lse), torch.stack(wide)
            delta = (want * g.float()).sum(-1).transpose(1, 2).contiguous()
            q, k, v = (qkv.detach()[:, :, i] for i in range(3))
            lists = [torch.tensor(one, device="cuda", dtype=torch.int32) for one in lists_of(S // SIDE)]
            work, unit = (2 if of[5] == "forward" else 5) * 2 * B * H * S * S * D / 2, "TFLOP/s"
            if of[5] == "forward":
                arguments, grid = [q, k, v, o, torch.empty_like(lse), *lists[:4], D**-0.5, slope, S], (S // constants["BM"], B, H)
                result, wanted = o, want
            else:
                result = torch.empty(3, *o.shape, device="cuda", dtype=torch.bfloat16)
                arguments, grid = [q, k, v, g, *result, lse, delta, *lists, D**-0.5, slope, S], (2 * (S // constants["WIDE"]), B, H)
                wanted = wide.permute(2, 0, 1, 3, 4)
        elif of[0] == "scaled":
            n = of[1]
            a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
            sa, sb = (torch.randint(124, 131, (n, n // 32), device="cuda", dtype=torch.uint8) for _ in range(2))
            result = torch.empty(n, n, device="cuda")
            whole = lambda x, s: (x.float().view(n, -1, 32) * torch.exp2(s.float() - 127)[..., None]).view(n, n)
            arguments, grid = [a, sa, b, sb, result, n, n, n], (n // constants["BM"], n // constants["BN"], 1)
            wanted, work, unit = whole(a, sa) @ whole(b, sb).T, 2 * n**3, "TFLOP/s"
        elif of[0] == "descriptors":
            dtype, n = {"fp16": torch.float16, "fp32": torch.float32}[of[1]], of[2]
            a, b, c = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(3))
            arguments, grid = described([a, b, c], types) + [n] * 3, (n // constants["BM"] * (n // constants["BN"]), 1, 1)
            result, wanted, work, unit = c, a @ b.T, 2 * n**3, "TFLOP/s"
        elif of[0] == "transpose":
            dtype, n = {"fp16": torch.float16, "fp32": torch.float32}[of[1]], of[2]
            x, y = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
            arguments, grid = described([x, y], types), (n // constants["ROWS"], n // constants["COLUMNS"], 1)
            result, wanted, work, unit = y, x.T, 2 * x.numel() * x.element_size(), "GB/s"
        elif of[0] == "attention":
            D, causal, heads, S = of[1], of[2], 128, 4096
            q, k, v = (torch.randn(heads, S, D, device="cuda", dtype=torch.float16) for _ in range(3))
            o = torch.empty_like(q)
            arguments, grid = [q, k, v, o, D**-0.5, S], (S // constants["BM"], heads, 1)
            result, wanted = o, F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]
            work, unit = 4 * heads * S * S * D * (0.5 if causal else 1), "TFLOP/s"
        else:
            dtype, rows, cols = getattr(torch, of[1]), of[2], of[3]
            x, w, b, y = torch.randn(rows, cols, device="cuda", dtype=dtype), *(torch.randn(cols, device="cuda", dtype=dtype) for _ in range(2)), None
            y = torch.empty_like(x)
            arguments, grid = ([x, y, cols] if of[0] == "softmax" else [x, w, b, y, cols, 1e-5]), (rows, 1, 1)
            result, wanted = y, torch.softmax(x, 1) if of[0] == "softmax" else F.layer_norm(x, (cols,), w, b, 1e-5)
            work, unit = 2 * x.numel() * x.element_size(), "GB/s"
        kiln = Kiln(libkiln, "%s/%d.kbundle" % (folder, number))
        ours = kiln.grid_call(packed(arguments, types), grid)
        theirs = lambda: fn[grid](*arguments, **constants, num_warps=warps, num_stages=stages)
        for who, job in ("triton", theirs), ("kiln", ours):
            result.fill_(float("nan"))
            job(), torch.cuda.synchronize()
            check("%s by %s" % (name, who), result, wanted, 1e-2 if of[0] == "flex" else 5e-3)
        report(name, work, unit, {"triton": theirs, "kiln": ours}, reps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--libkiln", default="libkiln.so.0")
    parser.add_argument("--only", default="")
    parser.add_argument("--reps", type=int, default=11)
    o = parser.parse_args()
    if o.export:
        export(o.folder, o.kiln, o.only)
    else:
        run(o.folder, o.libkiln, o.only, o.reps)


if __name__ == "__main__":
    main()
