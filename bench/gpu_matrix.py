#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix kernels of a bundle on an NVIDIA GPU beside the vendor's libraries, through kiln_launch.

bench/gpu_matrix.py BUNDLE [--libkiln FILE] [--only PART,...] [--reps N] [--seed N] [--check | --repeat N]

Parts: gemm, fp8, int8, f32 (and tf32), fused, batched, ragged, thin, attention, random; transposed (all transposes, C as input), experts (one product each, sizes on the
device), forms (attention with shared heads, windows, unequal lengths, packed sequences), backward (gradients of attention). Each job is launched in turn with the peers', L2 flushed before it, then again
with L2 as the job's own earlier run left it ("hot"); medians of device time, TFLOP/s (GB/s for thin products) and the ratio ours / peer. Every result is
checked against the peer's in higher precision first. --check runs odd shapes, and tensors of more than 2^31 elements, instead and times nothing. --repeat runs each job of ours N times beside copies on
other streams, compares every result and times nothing; a launch that does not end within a minute ends the program. Needs PyTorch.
"""
import argparse
import math
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu_common
from gpu_common import F32, I32, I64, Kiln, check, error_of, geomean, measure, ratios, report, result

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


def gemm_call(kiln, dtype, a, b, bias, c, M, N, K):
    kernel = kiln.kernel("gemm[T=%s,ACT=0,BIAS=false]" % NAMES[dtype])
    return lambda: kernel(a, b, bias, c, I32(M), I32(N), I32(K), I64(a.stride(0)), I64(b.stride(0)), I64(c.stride(0)))


def gemm(kiln, dtype, M, N, K, reps):
    a, b = (torch.randn(r, max(K, 8), device="cuda", dtype=dtype)[:, :K] for r in (M, N))
    bias, c = torch.zeros(N, device="cuda", dtype=dtype), result((M, N), dtype)
    ours = gemm_call(kiln, dtype, a, b, bias, c, M, N, K)
    ours(), torch.cuda.synchronize()
    wanted = torch.matmul(a, b.t())
    title = "gemm %s %dx%dx%d" % (str(dtype)[6:], M, N, K)
    check(title, c, wanted, 2e-3)
    print("  %s: equal to cuBLAS: %s" % (title, torch.equal(c, wanted)))
    if reps:
        report(title, 2 * M * N * K, "TFLOP/s", {"cublas": lambda: torch.matmul(a, b.t()), "kiln": ours}, reps)


def huge(kiln, M, N, K):
    """More than 2^31 elements in one of the tensors; the first and the last rows are compared."""
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    bias, c = torch.zeros(N, device="cuda", dtype=torch.bfloat16), result((M, N), torch.bfloat16)
    gemm_call(kiln, torch.bfloat16, a, b, bias, c, M, N, K)(), torch.cuda.synchronize()
    for rows in slice(0, 300), slice(M - 300, M):
        check("gemm bf16 %dx%dx%d, rows from %d" % (M, N, K, rows.start), c[rows], torch.matmul(a[rows], b.t()), 2e-3)


def fp8(kiln, n, kernel, fast, reps):
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one, ones, c = torch.ones((), device="cuda"), torch.ones(n, device="cuda"), result((n, n), torch.bfloat16)
    call = kiln.kernel(kernel)
    ours = lambda: call(a, b, ones, ones, c, I32(n), I32(n), I32(n), I64(n), I64(n), I64(n))
    library = lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)
    ours(), torch.cuda.synchronize()
    wanted = a.float() @ b.float().t()
    title = "gemm fp8 %s %d" % ("fast" if fast else "exact", n)
    check(title, c, wanted, 3e-2 if fast else 3e-3)
    print("  %s: error %.2g, cuBLASLt's %.2g" % (title, error_of(c, wanted), error_of(library(), wanted)))
    report(title, 2 * n**3, "TFLOP/s", {"cublaslt": library, "kiln": ours}, reps)


def f32(kiln, M, N, K, reps):
    """Exactly, and with operands that the unit takes as tf32, each beside the peer in the same mode."""
    a, b = (torch.randn(r, K, device="cuda") for r in (M, N))
    sizes = (I32(M), I32(N), I32(K), I64(K), I64(K), I64(N))
    wanted = a.double() @ b.double().t()
    for name, bound, kernel, operands in (("f32", 5e-6, "gemm[T=f32,ACT=0,BIAS=false]", (a, b, torch.zeros(N, device="cuda"))), ("tf32", 1e-3, "gemm_tf32", (a, b))):
        c = result((M, N), torch.float32)
        call = kiln.kernel(kernel)
        ours = lambda: call(*operands, c, *sizes)
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        ours(), torch.cuda.synchronize()
        title = "gemm %s %dx%dx%d" % (name, M, N, K)
        check(title, c, wanted, bound)
        print("  %s: error %.2g, cuBLAS' %.2g" % (title, error_of(c, wanted), error_of(torch.matmul(a, b.t()), wanted)))
        report(title, 2 * M * N * K, "TFLOP/s", {"cublas": lambda: torch.matmul(a, b.t()), "kiln": ours}, reps)
    torch.backends.cuda.matmul.allow_tf32 = False


def int8(kiln, n, reps):
    a, b = (torch.randint(-128, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))
    ones, c = torch.ones(n, device="cuda"), result((n, n), torch.float32)
    call = kiln.kernel("gemm_i8")
    ours = lambda: call(a, b, ones, ones, c, I32(n), I32(n), I32(n))
    library = lambda: torch._int_mm(a, b.t())
    ours(), torch.cuda.synchronize()
    check("gemm int8 %d" % n, c, library(), 1e-6)
    report("gemm int8 %d" % n, 2 * n**3, "TFLOP/s", {"torch._int_mm": library, "kiln": ours}, reps)


def attention(kiln, dtype, heads, S, D, causal, reps):
    q, k, v = (torch.randn(1, heads, S, D, device="cuda", dtype=dtype) for _ in range(3))
    o, lse = result(q.shape, q.dtype), torch.empty(heads, S, device="cuda")
    kernel = kiln.kernel("attention[T=%s,D=%d,CAUSAL=%s]" % (NAMES[dtype], D, str(causal).lower()))
    scale = 1 / math.sqrt(D)
    ours = lambda: kernel(q, k, v, o, lse, I32(heads), I32(S), F32(scale))
    ours(), torch.cuda.synchronize()
    scores = q[0, :4].double() @ k[0, :4].double().transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1), -math.inf)
    wanted = torch.softmax(scores, -1) @ v[0, :4].double()
    title = "attention %s D%d %s %dx%d" % (str(dtype)[6:], D, "causal" if causal else "full", heads, S)
    check(title, o[0, :4], wanted, 6e-3)

    def library(backend):
        def call():
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return call

    if reps:
        operations = 4 * heads * S * S * D * (0.5 if causal else 1)
        report(title, operations, "TFLOP/s", {"cudnn": library(SDPBackend.CUDNN_ATTENTION), "kiln": ours}, reps)


def fused(kiln, M, N, K, reps):
    """GELU(A B^T + bias) in its tanh form, which is what the peer's fused epilogue has."""
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    bias, c = torch.randn(N, device="cuda", dtype=torch.bfloat16), result((M, N), torch.bfloat16)
    kernel = kiln.kernel("gemm[T=bf16,ACT=3,BIAS=true]")
    ours = lambda: kernel(a, b, bias, c, I32(M), I32(N), I32(K), I64(K), I64(K), I64(N))
    ours(), torch.cuda.synchronize()
    title = "gemm bias gelu %dx%dx%d" % (M, N, K)
    check(title, c, F.gelu(torch.matmul(a, b.t()).float() + bias.float(), approximate="tanh"), 5e-3)
    report(title, 2 * M * N * K, "TFLOP/s", {"cublaslt": lambda: torch._addmm_activation(bias, a, b.t(), use_gelu=True), "kiln": ours}, reps)


def batched(kiln, batch, n, reps):
    a, b = (torch.randn(batch, n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = result((batch, n, n), torch.bfloat16)
    kernel = kiln.kernel("gemm_batched[T=bf16]")
    ours = lambda: kernel(a, b, c, I32(n), I32(n), I32(n), I64(n * n), I64(n * n), I64(n * n), I32(batch))
    ours(), torch.cuda.synchronize()
    title = "gemm batched %d of %d" % (batch, n)
    check(title, c, torch.bmm(a, b.transpose(1, 2)), 2e-3)
    report(title, 2 * batch * n**3, "TFLOP/s", {"cublas": lambda: torch.bmm(a, b.transpose(1, 2)), "kiln": ours}, reps)


def ragged(kiln, M, N, K, pad, reps):
    """A result of M x N in rows of N or, padded, of a multiple of eight elements; the peer writes into the same."""
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    width = -(-N // 8) * 8 if pad else N
    bias = torch.zeros(N, device="cuda", dtype=torch.bfloat16)
    c, other = (result((M, N), torch.bfloat16, width) for _ in range(2))
    ours = gemm_call(kiln, torch.bfloat16, a, b, bias, c, M, N, K)
    ours(), torch.cuda.synchronize()
    title = "gemm ragged %dx%dx%d%s" % (M, N, K, " padded rows" if pad else "")
    check(title, c, torch.matmul(a, b.t()), 2e-3)
    report(title, 2 * M * N * K, "TFLOP/s", {"cublas": lambda: torch.matmul(a, b.t(), out=other), "kiln": ours}, reps)


def thin(kiln, M, N, K, reps):
    a, b = (torch.randn(r, K, device="cuda", dtype=torch.bfloat16) for r in (M, N))
    bias, c = torch.zeros(N, device="cuda", dtype=torch.bfloat16), result((M, N), torch.bfloat16)
    ours = gemm_call(kiln, torch.bfloat16, a, b, bias, c, M, N, K)
    ours(), torch.cuda.synchronize()
    title = "gemm thin %dx%dx%d" % (M, N, K)
    check(title, c, torch.matmul(a, b.t()), 3e-3)
    report(title, 2 * (M * K + N * K + M * N), "GB/s", {"cublas": lambda: torch.matmul(a, b.t()), "kiln": ours}, reps)


def beside(title, work, ours, peers, reps):
    """Times `ours` beside those peers that run here."""
    jobs = {}
    for name, peer in peers.items():
        try:
            peer(), torch.cuda.synchronize()
            jobs[name] = peer
        except Exception as e:  # a library without this form
            print("  %s: %s does not run: %s" % (title, name, str(e).split("\n")[0][:150]), flush=True)
    if reps and (jobs or gpu_common.repeats):
        report(title, work, "TFLOP/s", {**jobs, "kiln": ours}, reps)


def transposed(kiln, M, N, K, reps):
    """op(A) op(B) in all four forms, then op(A) op(B) + C."""
    for ta in False, True:
        for tb in False, True:
            a = torch.randn((K, M) if ta else (M, K), device="cuda", dtype=torch.bfloat16)
            b = torch.randn((N, K) if tb else (K, N), device="cuda", dtype=torch.bfloat16)
            x, y = a.t() if ta else a, b.t() if tb else b
            for beta in False, True:
                c, d = torch.randn(M, N, device="cuda", dtype=torch.bfloat16), result((M, N), torch.bfloat16)
                kernel = kiln.kernel("gemm_general[T=bf16,TA=%s,TB=%s,BETA=%s]" % tuple(str(v).lower() for v in (ta, tb, beta)))
                ours = lambda: kernel(a, b, c, d, I32(M), I32(N), I32(K), I64(a.stride(0)), I64(b.stride(0)), I64(N), I64(N), F32(1 if beta else 0))
                library = (lambda: torch.addmm(c, x, y)) if beta else (lambda: torch.matmul(x, y))
                ours(), torch.cuda.synchronize()
                title = "gemm %s%s%s %dx%dx%d" % ("NT"[ta], "NT"[tb], " + C" if beta else "", M, N, K)
                check(title, d, library(), 3e-3)
                beside(title, 2 * M * N * K, ours, {"cublas": library}, reps)


def experts(kiln, count, rows, N, K, even, reps):
    sizes = torch.full((count,), rows // count) if even else torch.distributions.Multinomial(rows, torch.rand(count) ** 2).sample().int()
    ends = sizes.cumsum(0).int().cuda()
    a, w = torch.randn(rows, K, device="cuda", dtype=torch.bfloat16), torch.randn(count, N, K, device="cuda", dtype=torch.bfloat16)
    c = result((rows, N), torch.bfloat16)
    kernel = kiln.kernel("gemm_grouped[T=bf16,ACT=0]")
    ours = lambda: kernel(a, w, ends, c, I32(rows), I32(count), I32(N), I32(K), I64(K), I64(N))
    ours(), torch.cuda.synchronize()
    title = "gemm %d experts, %d rows%s, %dx%d" % (count, rows, "" if even else " (uneven)", N, K)
    wanted, first = torch.empty_like(c), 0
    for e, last in enumerate(ends.tolist()):
        wanted[first:last] = a[first:last] @ w[e].t()
        first = last
    check(title, c, wanted, 3e-3)
    dense = w[0]
    beside(title, 2 * rows * N * K, ours, {"torch._grouped_mm": lambda: torch._grouped_mm(a, w.transpose(1, 2), offs=ends),
                                           "dense cublas (one expert)": lambda: torch.matmul(a, dense.t())}, reps)


def general_call(kiln, q, k, v, o, lse, left, right):
    """Tensors are [batch, S, heads, D]."""
    kernel = kiln.kernel("attention_general[T=%s,D=%d]" % (NAMES[q.dtype], q.shape[3]))
    strides = [I64(s) for t in (q, k, v, o) for s in t.stride()[:3]]
    sizes = [I32(n) for n in (q.shape[0], q.shape[2], k.shape[2], q.shape[1], k.shape[1])]
    scale = F32(1 / math.sqrt(q.shape[3]))
    return lambda: kernel(q, k, v, o, lse, *sizes, *strides, I32(left), I32(right), scale)


def seen(rows, keys, left, right):
    place, key = torch.arange(rows, device="cuda")[:, None] + keys - rows, torch.arange(keys, device="cuda")[None, :]
    every = (place == place) & (key == key)
    return ((key >= place - left) if left >= 0 else every) & ((key <= place + right) if right >= 0 else every)


def plain(q, k, v, left, right):
    """Of [batch, S, heads, D], in double precision."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (t.double().transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(~seen(q.shape[2], k.shape[2], left, right), -math.inf)
    return (torch.softmax(scores, -1).nan_to_num(0) @ v).transpose(1, 2)


def form(kiln, dtype, batch, heads, kv_heads, rows, keys, D, left, right, reps, packed_qkv=False):
    if packed_qkv:
        q, k, v = torch.randn(batch, rows, heads + 2 * kv_heads, D, device="cuda", dtype=dtype).split([heads, kv_heads, kv_heads], 2)
    else:
        q, k, v = (torch.randn(batch, n, h, D, device="cuda", dtype=dtype) for n, h in ((rows, heads), (keys, kv_heads), (keys, kv_heads)))
    o, lse = result((batch, rows, heads, D), dtype), torch.empty(batch, heads, rows, device="cuda")
    ours = general_call(kiln, q, k, v, o, lse, left, right)
    ours(), torch.cuda.synchronize()
    group = heads // kv_heads
    title = "attention %s D%d %dx%d/%d, %d x %d%s%s" % (str(dtype)[6:], D, batch, heads, kv_heads, rows, keys, "" if (left, right) == (-1, -1)
                                                     else " causal" if (left, right) == (-1, 0) else " %d..%d" % (left, right), " packed qkv" if packed_qkv else "")
    check(title, o[:1, :, :group], plain(q[:1, :, :group], k[:1, :, :1], v[:1, :, :1], left, right), 6e-3)
    if not reps:
        return
    x, y, z = (t.transpose(1, 2) for t in (q, k, v))
    causal = (left, right) == (-1, 0)

    def library(backend):
        def call():
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(x, y, z, is_causal=causal, enable_gqa=group > 1)
        return call

    def flash():
        torch.ops.aten._flash_attention_forward(q, k, v, None, None, rows, keys, 0.0, causal, False, window_size_left=left if left >= 0 else None,
                                                window_size_right=right if right >= 0 else None)

    peers = {"flash": flash}
    if causal and rows == keys or (left, right) == (-1, -1):
        peers["cudnn"] = library(SDPBackend.CUDNN_ATTENTION)
    beside(title, 4 * batch * heads * seen(rows, keys, left, right).sum().item() * D, ours, peers, reps)


def sequences(kiln, dtype, lengths, heads, kv_heads, D, causal, reps):
    starts = torch.tensor([0] + lengths, device="cuda").cumsum(0).int()
    total, longest, right = sum(lengths), max(lengths), 0 if causal else -1
    q, k, v = (torch.randn(total, h, D, device="cuda", dtype=dtype) for h in (heads, kv_heads, kv_heads))
    o, lse = result(q.shape, q.dtype), torch.empty(heads, total, device="cuda")
    kernel, scale = kiln.kernel("attention_packed[T=%s,D=%d]" % (NAMES[dtype], D)), F32(1 / math.sqrt(D))
    numbers = [I32(n) for n in (len(lengths), longest, heads, kv_heads, total, total)]
    strides = [I64(s) for t in (q, k, v, o) for s in t.stride()[:2]]
    ours = lambda: kernel(q, k, v, o, lse, starts, starts, *numbers, *strides, I32(-1), I32(right), scale)
    ours(), torch.cuda.synchronize()
    title = "attention %s D%d packed, %d sequences of %d to %d%s" % (str(dtype)[6:], D, len(lengths), min(lengths), longest, " causal" if causal else "")
    group = heads // kv_heads
    for n in range(min(3, len(lengths))):
        a, b = starts[n].item(), starts[n + 1].item()
        check(title, o[None, a:b, :group], plain(q[None, a:b, :group], k[None, a:b, :1], v[None, a:b, :1], -1, right), 6e-3)
    wide = [t.repeat_interleave(group, 1) for t in (k, v)]  # in case the peer knows no shared heads
    flash = lambda k, v: torch.ops.aten._flash_attention_forward(q, k, v, starts, starts, longest, longest, 0.0, causal, False)
    work = sum(4 * heads * n * n * D * (0.5 if causal else 1) for n in lengths)
    beside(title, work, ours, {"flash": lambda: flash(k, v), "flash, heads repeated": lambda: flash(*wide)}, reps)


def backward_calls(kiln, q, k, v, o, g, lse, grads, right):
    """The kernels that compute all gradients at once, and those that give the same bits each time, by name."""
    (batch, S, heads, D), kv_heads = q.shape, k.shape[2]
    dq, dk, dv = grads
    delta, sums = torch.empty_like(lse), torch.empty(batch, heads, S, D, device="cuda")
    stats = torch.empty(batch, heads, 2, -(-S // 128) * 128, device="cuda")
    of = lambda part: kiln.kernel("attention_backward%s[T=%s,D=%d]" % (part, NAMES[q.dtype], D))
    begin, end, of_rows, of_keys, of_queries = map(of, ("_begin", "_end", "_rows", "_keys", "_queries"))
    strides = [I64(s) for t in (q, k, v, g) for s in t.stride()[:3]]
    of_o_g = [I64(s) for t in (o, g) for s in t.stride()[:3]]
    numbers, scale = [I32(n) for n in (batch, heads, kv_heads, S, S)], F32(1 / math.sqrt(D))
    tail, sizes = (I32(-1), I32(right), scale), (I32(batch), I32(heads), I32(S))
    all_of = kiln.bind("attention_backward[T=%s,D=%d]" % (NAMES[q.dtype], D), q, k, v, g, stats, sums, dk, dv, *numbers, *strides, *tail)
    together = {"begin": lambda: begin(o, g, lse, stats, sums, *sizes, *of_o_g),
                "all": all_of,
                "end": lambda: end(sums, dq, *sizes, scale)}
    apart = {"rows": lambda: of_rows(o, g, delta, *sizes, *of_o_g),
             "keys": lambda: of_keys(q, k, v, g, lse, delta, dk, dv, *numbers, *strides, *tail),
             "queries": lambda: of_queries(q, k, v, g, lse, delta, dq, *numbers, *strides, *tail)}
    return together, apart


def backward(kiln, dtype, batch, heads, kv_heads, S, D, causal, reps):
    q, g = (torch.randn(batch, S, heads, D, device="cuda", dtype=dtype) for _ in range(2))
    k, v = (torch.randn(batch, S, kv_heads, D, device="cuda", dtype=dtype) for _ in range(2))
    o, lse, right = torch.empty_like(q), torch.empty(batch, heads, S, device="cuda"), 0 if causal else -1
    general_call(kiln, q, k, v, o, lse, -1, right)()
    grads = [torch.empty_like(t) for t in (q, k, v)]
    ways = backward_calls(kiln, q, k, v, o, g, lse, grads, right)
    title = "backward %s D%d %s %dx%d/%d of %d" % (str(dtype)[6:], D, "causal" if causal else "full", batch, heads, kv_heads, S)
    group, found = heads // kv_heads, []
    beside_one = (lambda x: x + 1) if S == 1 else (lambda x: x)  # with one key dq and dk are zero: only rounding is left
    for way in ways:
        for t in grads:
            t.fill_(float("nan"))
        [call() for call in way.values()]
        torch.cuda.synchronize()
        found.append([t.clone() for t in grads])
    if S <= 2048:
        parts = [t[:1, :, :n].double().detach().requires_grad_() for t, n in ((q, group), (k, 1), (v, 1))]
        wanted = torch.autograd.grad(plain(*parts, -1, right), parts, g[:1, :, :group].double())
        for way, those in zip(("together", "apart"), found):
            for which, t, want, n in zip("qkv", those, wanted, (group, 1, 1)):
                check("%s %s d%s" % (title, way, which), beside_one(t[:1, :, :n]), beside_one(want), 1e-2)
    for which, t, other in zip("qkv", *found):
        check("%s d%s, together and apart" % (title, which), beside_one(t), beside_one(other), 1e-2)
    if gpu_common.repeats:  # copies were checked so far: the job writes `grads`, last by the second way
        gpu_common.watched.clear()
        for which, t, want in zip("qkv", grads, found[0]):
            check("%s d%s" % (title, which), t, want, 1e-2)
    if not reps:
        return
    x, y, z = (t.transpose(1, 2).detach().repeat_interleave(group if t is not q else 1, 1).requires_grad_() for t in (q, k, v))

    def library(backend):
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(x, y, z, is_causal=causal)
        return lambda: torch.autograd.grad(out, (x, y, z), g.transpose(1, 2), retain_graph=True)

    work = 10 * batch * heads * S * S * D * (0.5 if causal else 1)
    ours = lambda: [call() for call in ways[0].values()]
    beside(title, work, ours, {"cudnn": library(SDPBackend.CUDNN_ATTENTION), "flash": library(SDPBackend.FLASH_ATTENTION)}, reps)
    parts = measure({name: call for way in ways for name, call in way.items()}, reps)
    print("  " + ", ".join("%s %.1f us" % (name, t * 1e6) for name, t in parts.items()), flush=True)


def drawn(kiln, seed, reps):
    """30 products and 20 attentions of shapes drawn from the seed; at most 2^42 operations each."""
    draw = random.Random(seed)
    size = lambda low, high, step: round(2 ** draw.uniform(math.log2(low), math.log2(high)) / step) * step
    before = set(ratios)
    for _ in range(30):
        gemm(kiln, torch.bfloat16, size(64, 16384, 8), size(64, 16384, 8), size(64, 16384, 8), reps)
    products = [ratios[t] for t in ratios if t not in before]
    before = set(ratios)
    for _ in range(20):
        D, causal = draw.choice((64, 128)), draw.random() < 0.5
        attention(kiln, torch.bfloat16, draw.choice((1, 2, 4, 8)) * draw.choice((8, 16, 32)), size(128, 16384, 1), D, causal, reps)
    attentions = [ratios[t] for t in ratios if t not in before]
    for name, found in () if gpu_common.repeats else (("products", products), ("attentions", attentions)):
        print("seed %d: %d %s: geomean %.3f, least %.3f" % (seed, len(found), name, geomean(found), min(found)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle")
    parser.add_argument("--libkiln", default="libkiln.so.0")
    parser.add_argument("--only", default="gemm,attention")
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--repeat", type=int, default=0, metavar="N")
    o = parser.parse_args()
    gpu_common.repeats = o.repeat
    begun = time.time()
    torch.manual_seed(o.seed)
    kiln = Kiln(o.libkiln, o.bundle)
    print(torch.cuda.get_device_name(0), "PyTorch", torch.__version__, "started in %.0f s" % (time.time() - begun), flush=True)
    only = o.only.split(",")
    if o.check:
        for dtype in (torch.bfloat16, torch.float16):
            for M, N, K in ((1, 8, 8), (64, 64, 64), (63, 72, 40), (65, 8, 72), (128, 256, 64), (129, 264, 72), (1000, 520, 200), (127, 2048, 8), (513, 1032, 1032),
                            (256, 256, 0)):
                gemm(kiln, dtype, M, N, K, 0)
        for M, N, K in ((131080, 264, 16392), (131080, 16392, 72), (264, 131080, 16392)):
            huge(kiln, M, N, K)
        for D in (64, 128):
            for causal in (False, True):
                for S in (1, 7, 64, 127, 128, 129, 333, 1000):
                    attention(kiln, torch.bfloat16, 5, S, D, causal, 0)
                    backward(kiln, torch.bfloat16, 2, 4, 2, S, D, causal, 0)
        for D in (32, 64, 96, 128, 256):
            for rows, keys in ((1, 1), (1, 1000), (129, 129), (64, 640), (640, 64), (333, 1000), (1000, 1000)):
                for left, right in ((-1, -1), (-1, 0), (100, 0), (17, 200), (256, -1)):
                    form(kiln, torch.bfloat16, 2, 4, 2, rows, keys, D, left, right, 0)
        return
    if "gemm" in only:
        for dtype in (torch.bfloat16, torch.float16):
            for n in (2048, 4096, 8192):
                gemm(kiln, dtype, n, n, n, o.reps)
    if "fp8" in only:
        for n in (4096, 8192):
            fp8(kiln, n, "gemm_fp8[S=e4m3,T=e4m3,FAST=false]", False, o.reps)
            fp8(kiln, n, "gemm_fp8[S=e4m3,T=e4m3,FAST=true]", True, o.reps)
    if "int8" in only:
        for n in (4096, 8192):
            int8(kiln, n, o.reps)
    if "f32" in only:
        for M, N, K in ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (64, 4096, 4096), (4096, 1024, 8192)):
            f32(kiln, M, N, K, o.reps)
    if "fused" in only:
        fused(kiln, 4096, 14336, 4096, o.reps)
    if "batched" in only:
        batched(kiln, 64, 1024, o.reps)
    if "ragged" in only:
        for M, N in (4095, 4097), (4097, 4095):
            for pad in True, False:
                ragged(kiln, M, N, 4104, pad, o.reps)
    if "thin" in only:
        for M in 16, 64, 256:
            for N, K in (4096, 4096), (14336, 4096), (4096, 14336):
                thin(kiln, M, N, K, o.reps)
    if "transposed" in only:
        for n in (4096, 8192):
            transposed(kiln, n, n, n, o.reps)
    if "experts" in only:
        for count, rows, N, K in ((8, 16384, 14336, 4096), (64, 16384, 4096, 4096), (64, 65536, 4096, 2048), (64, 2048, 4096, 2048)):
            for even in True, False:
                experts(kiln, count, rows, N, K, even, o.reps)
    if "forms" in only:
        for causal in -1, 0:
            for D in (32, 64, 96, 128, 256):
                form(kiln, torch.bfloat16, 4, 32, 8, 4096, 4096, D, -1, causal, o.reps)
        form(kiln, torch.bfloat16, 4, 32, 32, 4096, 4096, 128, -1, 0, o.reps, packed_qkv=True)
        form(kiln, torch.float16, 4, 32, 32, 4096, 4096, 64, -1, -1, o.reps, packed_qkv=True)
        for window in (128, 1024, 4096):
            form(kiln, torch.bfloat16, 1, 32, 8, 16384, 16384, 128, window, 0, o.reps)
        form(kiln, torch.bfloat16, 1, 32, 8, 1024, 16384, 128, -1, 0, o.reps)
        form(kiln, torch.bfloat16, 16, 16, 16, 512, 512, 64, -1, -1, o.reps)
        draw = random.Random(o.seed)
        for causal in False, True:
            sequences(kiln, torch.bfloat16, [draw.randrange(64, 4096) for _ in range(16)], 32, 8, 128, causal, o.reps)
            sequences(kiln, torch.bfloat16, [draw.randrange(16, 512) for _ in range(64)], 16, 16, 64, causal, o.reps)
    if "backward" in only:
        for D in (128, 64):
            for causal in (False, True):
                backward(kiln, torch.bfloat16, 4, 32, 32, 2048, D, causal, o.reps)
                backward(kiln, torch.bfloat16, 4, 32, 8, 4096, D, causal, o.reps)
    if "attention" in only:
        for D in (128, 64):
            for causal in (False, True):
                attention(kiln, torch.bfloat16, 128, 4096, D, causal, o.reps)
    if "random" in only:
        drawn(kiln, o.seed, max(5, o.reps // 2))
    return 1 if gpu_common.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
