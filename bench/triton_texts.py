#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton IR of a few kernels that are heavy for compilers, as folders for bench/triton_objects.py.

bench/triton_texts.py FOLDER

Each has kernel.ttir and a case.json with warps, stages and the size of Triton's PTX. The kernels are written here after what libraries compute:
the Jensen-Shannon divergence with its gradient (a row of logits in one tile), a product of bf16 by int16, and attention backward in two halves.
Needs Triton, no GPU.
"""
import json
import os
import sys
import tempfile

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax_of(x):
    high = tl.max(x, 1)
    power = tl.exp(x - high[:, None])
    total = tl.sum(power, 1)
    return power / total[:, None], x - high[:, None] - tl.log(total)[:, None]


@triton.jit
def jsd(student, teacher, loss, grad, beta, temperature, rows, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = r[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    live = (r < rows)[:, None]
    p, log_p = softmax_of(tl.load(student + at, live, other=0.0) / temperature)
    q, log_q = softmax_of(tl.load(teacher + at, live, other=0.0) / temperature)
    m = (1 - beta) * p + beta * q
    log_m = tl.log(m)
    kl = (1 - beta) * tl.sum(p * (log_p - log_m), 1) + beta * tl.sum(q * (log_q - log_m), 1)
    tl.store(loss + r, kl, r < rows)
    tl.store(grad + at, (1 - beta) / temperature * (p - m), live)


@triton.jit
def bf16_by_int16(x, w, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + k[None, :], (m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(w + k[:, None] * N + n[None, :], (k < K)[:, None] & (n < N)[None, :], other=0)
        acc = tl.dot(a, b.to(tl.bfloat16), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def attention_dk_dv(Q, K, V, dO, L, D, dK, dV, scale, length, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr):
    n, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, HEAD)
    base = tl.program_id(1) * length * HEAD
    inside = (n < length)[:, None]
    k = tl.load(K + base + n[:, None] * HEAD + d[None, :], inside, other=0.0)
    v = tl.load(V + base + n[:, None] * HEAD + d[None, :], inside, other=0.0)
    dk = tl.zeros([BN, HEAD], tl.float32)
    dv = tl.zeros([BN, HEAD], tl.float32)
    for start in range(tl.program_id(0) * BN, length, BM):
        m = start + tl.arange(0, BM)
        live = m < length
        q = tl.load(Q + base + m[:, None] * HEAD + d[None, :], live[:, None], other=0.0)
        do = tl.load(dO + base + m[:, None] * HEAD + d[None, :], live[:, None], other=0.0)
        lse = tl.load(L + tl.program_id(1) * length + m, live, other=0.0)
        delta = tl.load(D + tl.program_id(1) * length + m, live, other=0.0)
        s = tl.dot(k, tl.trans(q)) * scale
        s = tl.where((n[:, None] <= m[None, :]) & live[None, :], s, float("-inf"))
        p = tl.exp2(s - lse[None, :])
        dv = tl.dot(p.to(do.dtype), do, dv)
        ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(dK + base + n[:, None] * HEAD + d[None, :], (dk * scale).to(dK.dtype.element_ty), inside)
    tl.store(dV + base + n[:, None] * HEAD + d[None, :], dv.to(dV.dtype.element_ty), inside)


@triton.jit
def attention_dq(Q, K, V, dO, L, D, dQ, scale, length, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, HEAD)
    base = tl.program_id(1) * length * HEAD
    live = m < length
    q = tl.load(Q + base + m[:, None] * HEAD + d[None, :], live[:, None], other=0.0)
    do = tl.load(dO + base + m[:, None] * HEAD + d[None, :], live[:, None], other=0.0)
    lse = tl.load(L + tl.program_id(1) * length + m, live, other=0.0)
    delta = tl.load(D + tl.program_id(1) * length + m, live, other=0.0)
    dq = tl.zeros([BM, HEAD], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        n = start + tl.arange(0, BN)
        inside = n < length
        k = tl.load(K + base + n[:, None] * HEAD + d[None, :], inside[:, None], other=0.0)
        v = tl.load(V + base + n[:, None] * HEAD + d[None, :], inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((n[None, :] <= m[:, None]) & inside[None, :], s, float("-inf"))
        p = tl.exp2(s - lse[:, None])
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dQ + base + m[:, None] * HEAD + d[None, :], (dq * scale).to(dQ.dtype.element_ty), live[:, None])


# kernel, types of its parameters in order, constants, warps, stages
TEXTS = (
    (jsd, "*fp32 *fp32 *fp32 *fp32 fp32 fp32 i32", {"ROWS": 64, "WIDTH": 256}, 4, 2),
    (jsd, "*fp32 *fp32 *fp32 *fp32 fp32 fp32 i32", {"ROWS": 16, "WIDTH": 1024}, 4, 2),
    (bf16_by_int16, "*bf16 *i16 *bf16 i32 i32 i32", {"BM": 128, "BN": 128, "BK": 64}, 4, 2),
    (bf16_by_int16, "*bf16 *i16 *bf16 i32 i32 i32", {"BM": 128, "BN": 256, "BK": 64}, 8, 2),
    (attention_dk_dv, "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp16 *fp16 fp32 i32", {"BM": 64, "BN": 64, "HEAD": 64}, 4, 2),
    (attention_dk_dv, "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp16 *fp16 fp32 i32", {"BM": 32, "BN": 128, "HEAD": 128}, 8, 2),
    (attention_dq, "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp16 fp32 i32", {"BM": 64, "BN": 64, "HEAD": 64}, 4, 2),
    (attention_dq, "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp16 fp32 i32", {"BM": 128, "BN": 32, "HEAD": 128}, 8, 2),
)


def make(folder, function, types, constants, warps, stages):
    signature = dict(zip(function.arg_names, types.split()))
    signature.update({name: "constexpr" for name in constants})
    attributes = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.split()) if not t.startswith("fp")}
    source = ASTSource(function, signature, constants, attributes)
    asm = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages}).asm
    path = os.path.join(folder, "_".join([function.__name__] + [str(v) for v in constants.values()]))
    os.makedirs(path, exist_ok=True)
    with open(path + "/kernel.ttir", "w") as f:
        f.write(asm["ttir"])
    with open(path + "/case.json", "w") as f:
        json.dump({"num_warps": warps, "num_stages": stages, "ptx_bytes": len(asm["ptx"])}, f)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    for text in TEXTS:
        make(sys.argv[1], *text)


if __name__ == "__main__":
    main()
