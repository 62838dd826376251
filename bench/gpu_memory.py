#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory-bound kernels of a bundle on an NVIDIA GPU, through kiln_launch, beside PyTorch and the same kernels written in Triton.

bench/gpu_memory.py BUNDLE [--libkiln FILE] [--only PART,...] [--reps N]

Parts: rows (softmax, layer norm, RMS norm, add + RMS norm; the peer is Triton's best of five warp counts), gemv (PyTorch), decode (paged attention
beside a device copy), split (the same for few sequences, each cut into pieces). GB/s of the bytes that must move, L2 flushed before each launch, then hot; medians; ratio
ours / peer. Every result is checked first. Needs PyTorch and Triton.
"""
import argparse
import multiprocessing

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from gpu_common import F32, I32, I64, Kiln, check, geomean, measure, ratios, report, result
from triton_rows import layer_norm_row, softmax_row

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.int32: "i32"}


@triton.jit
def softmax_rows(x, y, cols, ldx, ldy, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    softmax_row(x + row * ldx, y + row * ldy, cols, BLOCK)


@triton.jit
def layer_norm_rows(x, w, b, y, mean, rstd, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    mu, r = layer_norm_row(x + row * cols, w, b, y + row * cols, cols, eps, BLOCK)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)


@triton.jit
def rms_norm_rows(x, w, y, rstd, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    live = c < cols
    v = tl.load(x + row * cols + c, live, 0.0).to(tl.float32)
    r = 1 / tl.sqrt(tl.sum(v * v, 0) / cols + eps)
    tl.store(y + row * cols + c, v * r * tl.load(w + c, live).to(tl.float32), live)
    tl.store(rstd + row, r)


@triton.jit
def add_rms_norm_rows(x, res, w, y, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    live = c < cols
    h = tl.load(x + row * cols + c, live, 0.0).to(tl.float32) + tl.load(res + row * cols + c, live, 0.0).to(tl.float32)
    tl.store(res + row * cols + c, h, live)
    r = 1 / tl.sqrt(tl.sum(h * h, 0) / cols + eps)
    tl.store(y + row * cols + c, h * r * tl.load(w + c, live).to(tl.float32), live)


def row_kernels(dtype, rows, cols):
    """name -> (Kiln's kernel, its arguments, Triton's kernel, its arguments, bytes, result, what the result must be)"""
    x, res = (torch.randn(rows, cols, device="cuda", dtype=dtype) for _ in range(2))
    w, b = (torch.randn(cols, device="cuda", dtype=dtype) for _ in range(2))
    y = result(x.shape, dtype)
    mean, rstd = (torch.empty(rows, device="cuda") for _ in range(2))
    size, eps = x.numel() * x.element_size(), 1e-5
    wide = lambda t: t[:64].float()
    norm = lambda v: v * torch.rsqrt((v * v).mean(1, keepdim=True) + eps) * w.float()
    n, e = (I32(rows), I32(cols)), F32(eps)
    return {
        "softmax": ((x, y, *n, *(I32(cols),) * 2), softmax_rows, (x, y, cols, cols, cols), 2 * size, lambda: torch.softmax(wide(x), 1)),
        "layer_norm": ((x, w, b, y, mean, rstd, *n, e), layer_norm_rows, (x, w, b, y, mean, rstd, cols, eps), 2 * size,
                       lambda: F.layer_norm(wide(x), (cols,), w.float(), b.float(), eps)),
        "rms_norm": ((x, w, y, rstd, *n, e), rms_norm_rows, (x, w, y, rstd, cols, eps), 2 * size, lambda: norm(wide(x))),
        # the sum grows with every launch, by values around 0: checked before, timed after
        "add_rmsnorm": ((x, res, w, y, *n, e), add_rms_norm_rows, (x, res, w, y, cols, eps), 4 * size, lambda: norm(wide(x) + wide(res))),
    }, y


def rows_of(cols):
    return max(4096, (1 << 25) // cols)


SIZES = [1 << i for i in range(8, 16)]
WARPS = (2, 4, 8, 16, 32)


def compile_peer(job):
    """Fills Triton's cache; in a process of its own."""
    dtype, cols = job
    t, f = dtype, torch.float32
    for w in WARPS:
        options = dict(grid=(1,), BLOCK=cols, num_warps=w)
        softmax_rows.warmup(t, t, cols, cols, cols, **options)
        layer_norm_rows.warmup(t, t, t, t, f, f, cols, 1e-5, **options)
        rms_norm_rows.warmup(t, t, t, f, cols, 1e-5, **options)
        add_rms_norm_rows.warmup(t, t, t, t, cols, 1e-5, **options)


def compile_peers():
    with multiprocessing.get_context("spawn").Pool(16) as pool:
        pool.map(compile_peer, [(dtype, cols) for cols in SIZES for dtype in (torch.float32, torch.bfloat16)], 1)


def rows_part(kiln, reps):
    compile_peers()
    found = []
    for dtype in torch.float32, torch.bfloat16:
        for cols in SIZES:
            kernels, y = row_kernels(dtype, rows_of(cols), cols)
            for name, (arguments, peer, peer_arguments, size, wanted) in kernels.items():
                call = kiln.kernel("%s[T=%s]" % (name, NAMES[dtype]))
                expected = wanted()
                y.fill_(float("nan"))
                call(*arguments), torch.cuda.synchronize()
                title = "%s %s %dx%d" % (name, NAMES[dtype], rows_of(cols), cols)
                check(title, y[:64], expected, 1e-5 if dtype is torch.float32 else 4e-3)
                jobs = {"triton w%d" % w: lambda w=w: peer[(rows_of(cols),)](*peer_arguments, BLOCK=cols, num_warps=w) for w in WARPS}
                times = measure(jobs, max(3, reps // 4))
                best = min(times, key=times.get)
                report(title, size, "GB/s", {best: jobs[best], "kiln": lambda: call(*arguments)}, reps)
                found.append(ratios[title])
    print("rows: %d cases, geomean %.3f, least %.3f" % (len(found), geomean(found), min(found)))


def gemv_part(kiln, reps):
    for rows, cols in (4096, 4096), (14336, 4096), (32768, 8192):
        a, x = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16), torch.randn(cols, device="cuda", dtype=torch.bfloat16)
        y = result((rows,), torch.bfloat16)
        call = kiln.kernel("gemv[T=bf16]")
        ours = lambda: call(a, x, y, I32(rows), I32(cols), I64(cols))
        ours(), torch.cuda.synchronize()
        check("gemv %dx%d" % (rows, cols), y, a.float() @ x.float(), 4e-3)
        report("gemv bf16 %dx%d" % (rows, cols), 2 * rows * cols, "GB/s", {"torch": lambda: torch.mv(a, x), "kiln": ours}, reps)


def decode_part(kiln, reps):
    """One query for each of 64 sequences of 8,192 keys, 32 heads on 8 of keys and values; bytes of keys and values, beside a copy of as many bytes."""
    sequences, length, heads, kv_heads, D, page = 64, 8192, 32, 8, 128, 16
    pages = sequences * length // page
    k, v = (torch.randn(pages, page, kv_heads, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    table = torch.randperm(pages, device="cuda").int().view(sequences, length // page)
    lengths = torch.full((sequences,), length, device="cuda", dtype=torch.int32)
    q = torch.randn(sequences, heads, D, device="cuda", dtype=torch.bfloat16)
    o = result(q.shape, q.dtype)
    call = kiln.kernel("paged_attention[T=bf16,D=128,PAGE=16]")
    ours = lambda: call(q, k, v, table, lengths, o, I32(sequences), I32(heads), I32(kv_heads), I32(length // page), F32(D**-0.5))
    ours(), torch.cuda.synchronize()
    keys, values = (t[table[3].long()].reshape(length, kv_heads, D).float().repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    wanted = torch.einsum("hl,lhd->hd", torch.softmax(torch.einsum("hd,lhd->hl", q[3].float(), keys) * D**-0.5, 1), values)
    check("decode", o[3], wanted, 6e-3)
    size = 2 * k.numel() * 2
    source, target = (torch.empty(size // 2, dtype=torch.int8, device="cuda") for _ in range(2))
    report("paged decode %dx%d" % (sequences, length), size, "GB/s", {"copy": lambda: target.copy_(source), "kiln": ours}, reps)


def split_part(kiln, reps):
    """Few sequences, each cut into parts: at most four programs a processor."""
    heads, kv_heads, D, page, processors = 32, 8, 128, 16, torch.cuda.get_device_properties(0).multi_processor_count
    for sequences, length in (1, 8192), (1, 131072), (2, 32768), (4, 8192), (8, 8192), (8, 65536):
        pages = sequences * length // page
        k, v = (torch.randn(pages, page, kv_heads, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        table = torch.randperm(pages, device="cuda").int().view(sequences, length // page)
        lengths = torch.full((sequences,), length, device="cuda", dtype=torch.int32)
        q = torch.randn(sequences, heads, D, device="cuda", dtype=torch.bfloat16)
        o, size = result(q.shape, q.dtype), 2 * k.numel() * 2
        keys, values = (t[table[0].long()].reshape(length, kv_heads, D).float().repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        wanted = torch.einsum("hl,lhd->hd", torch.softmax(torch.einsum("hd,lhd->hl", q[0].float(), keys) * D**-0.5, 1), values)
        source, target = (torch.empty(size // 2, dtype=torch.int8, device="cuda") for _ in range(2))
        whole = kiln.kernel("paged_attention[T=bf16,D=128,PAGE=16]")
        parts_of, join = kiln.kernel("paged_attention_parts[T=bf16,D=128,PAGE=16]"), kiln.kernel("paged_attention_join[T=bf16,D=128]")
        numbers = (I32(sequences), I32(heads), I32(kv_heads), I32(length // page))
        jobs = {"copy": lambda: target.copy_(source)}
        keys, values = (t[table.long()].reshape(sequences, length, kv_heads, D).transpose(1, 2).contiguous() for t in (k, v))
        jobs["torch, contiguous"] = lambda: F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)
        jobs["one piece"] = lambda: whole(q, k, v, table, lengths, o, *numbers, F32(D**-0.5))
        for each in 1, 2, 4, 8:
            parts = min(length // 64, max(1, each * processors // (sequences * kv_heads)))
            pieces, sums = torch.empty(sequences, heads, parts, D, device="cuda"), torch.empty(sequences, heads, parts, device="cuda")

            def ours(parts=parts, pieces=pieces, sums=sums):
                parts_of(q, k, v, table, lengths, pieces, sums, *numbers, I32(parts), F32(D**-0.5))
                join(pieces, sums, o, I32(sequences), I32(heads), I32(parts))

            o.fill_(float("nan"))
            ours(), torch.cuda.synchronize()
            check("split decode", o[0], wanted, 6e-3)
            jobs["kiln" if each == 4 else "%d parts" % parts] = ours
        title = "split decode %dx%d" % (sequences, length)
        times = measure(jobs, reps)
        ratios[title] = times["copy"] / times["kiln"]
        print("%-30s GB/s: %s   ratio to copy %.3f" % (title, ", ".join("%s %.0f" % (n, size / t / 1e9) for n, t in times.items()), ratios[title]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle")
    parser.add_argument("--libkiln", default="libkiln.so.0")
    parser.add_argument("--only", default="rows,gemv,decode")
    parser.add_argument("--reps", type=int, default=20)
    o = parser.parse_args()
    kiln = Kiln(o.libkiln, o.bundle)
    print(torch.cuda.get_device_name(0), "PyTorch", torch.__version__, "Triton", triton.__version__, flush=True)
    parts = {"rows": rows_part, "gemv": gemv_part, "decode": decode_part, "split": split_part}
    for part in o.only.split(","):
        parts[part](kiln, o.reps)


if __name__ == "__main__":
    main()
