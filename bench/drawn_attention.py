#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention drawn from what the interface of `attention_general`, `attention_packed` and the gradients allows, compared with cuDNN, flash attention and PyTorch's
memory-efficient kernels on an NVIDIA GPU.

bench/drawn_attention.py BUNDLE --seed HEX [--cases N] [--only CLASS,...] [--libkiln FILE] [--old BUNDLE] [--reps N]

Classes, drawn in turn: few (1 to 16 queries), prefill (D up to 128), wide (D of 129 to 256), short (up to 512 keys), windows, packed, backward. Drawn are batch, heads,
heads that share keys, queries, keys, D of the bundle's, bf16 or f16, masks and how a tensor's axes lie in memory. HEX is the first eight digits of the measured commit.
For each case: drawn rows compared with attention in double, all others with a peer's; canaries around outputs, NaNs around inputs; the median of launches in turn with
the peers, L2 flushed before each. A case that the bundle has no kernel for is listed as failed. Needs PyTorch.
"""
import math
import re
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import drawn
from drawn import Case, log_uniform, output
from gpu_common import F32, I32, I64, Kiln

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16"}
CLASSES = ("few", "prefill", "wide", "short", "windows", "packed", "backward")
MOST_BYTES, MOST_WORK = 3 << 30, 1 << 42
TOLERANCE = 1e-2  # of the largest element of a row


def head_sizes(names):
    """Head sizes that the bundle's kernels have, by kernel and type."""
    found = {}
    for name in names:
        match = re.match(r"(attention_\w+)\[T=(\w+),D=(\d+)", name)
        if match:
            found.setdefault(match.group(1), {}).setdefault(match.group(2), set()).add(int(match.group(3)))
    return found


def draw(rng, kind, sizes):
    """What a case is; `sizes` are the head sizes of the bundle."""
    kernel = {"packed": "attention_packed", "backward": "attention_backward"}.get(kind, "attention_general")
    dtype = rng.choice((torch.bfloat16, torch.float16))
    has = sorted(sizes[kernel][NAMES[dtype]])
    D = rng.choice([d for d in has if (d > 128) == (kind == "wide")] or has)
    kv_heads, group = rng.choice((1, 2, 4, 8, 16, 32)), rng.choice((1, 1, 2, 4, 7, 8, 16))
    batch = log_uniform(rng, 1, 64)
    if kind == "few":
        rows, keys = rng.choice((1, 1, 2, 4, 8, 16, rng.randint(1, 16))), log_uniform(rng, 16, 131072)
        if rng.random() < 0.5:  # a server's: with the size of the cache drawn first
            keys = max(16, log_uniform(rng, 1 << 20, MOST_BYTES) // (4 * batch * kv_heads * D))
            keys = min(keys, 131072)
    elif kind == "short":
        keys = log_uniform(rng, 17, 512)
        rows = rng.choice((keys, log_uniform(rng, 17, 512)))
        batch = log_uniform(rng, 1, 256)
    else:
        keys = log_uniform(rng, 513, 16384)
        rows = keys if kind == "backward" or rng.random() < 0.7 else log_uniform(rng, 17, keys)
    left, right = -1, 0 if rng.random() < 0.5 else -1
    if kind == "windows":
        left, right = log_uniform(rng, 16, keys), rng.choice((0, 0, log_uniform(rng, 1, keys)))
    layout = rng.choice(("bshd", "bhsd")) if kind not in ("packed", "backward") else "bshd"
    case = dict(kind=kind, dtype=dtype, D=D, kv_heads=kv_heads, group=group, batch=batch, rows=rows, keys=keys, left=left, right=right, layout=layout)
    while bytes_of(case) > MOST_BYTES or work_of(case) > MOST_WORK:
        if case["batch"] > 1:
            case["batch"] = case["batch"] // 2
        elif case["kv_heads"] > 1:
            case["kv_heads"] //= 2
        elif case["group"] > 1:
            case["group"] //= 2
        else:
            case["keys"] //= 2
            case["rows"] = min(case["rows"], case["keys"])
    if kind == "packed":
        case["lengths"] = [max(1, int(case["keys"] * rng.uniform(0.05, 1))) for _ in range(case["batch"])]
    return case


def work_of(case):
    return 4 * case["batch"] * case["kv_heads"] * case["group"] * case["rows"] * case["keys"] * case["D"]


def bytes_of(case):
    return 2 * case["batch"] * case["D"] * case["kv_heads"] * (2 * case["keys"] + 2 * case["group"] * case["rows"])


def tensor(case, count, heads):
    """N(0, 1) between NaNs, seen as [batch, rows, heads, D] whatever lies in memory."""
    shape = (case["batch"], count, heads, case["D"]) if case["layout"] == "bshd" else (case["batch"], heads, count, case["D"])
    values = drawn.given(torch.randn(shape, device="cuda", dtype=case["dtype"]))
    return values if case["layout"] == "bshd" else values.transpose(1, 2)


def result(case, count, heads):
    shape = (case["batch"], count, heads, case["D"]) if case["layout"] == "bshd" else (case["batch"], heads, count, case["D"])
    found = output(shape, case["dtype"])
    return found, found if case["layout"] == "bshd" else found.transpose(1, 2)


def reference(q, k, v, rows, shift, left, right):
    """Rows `rows` of one head in double: q is [rows, D], k and v [keys, D]."""
    place = torch.tensor(rows, device="cuda")[:, None] + shift
    key = torch.arange(k.shape[0], device="cuda")[None, :]
    scores = q[rows].double() @ k.double().t() / math.sqrt(q.shape[1])
    if left >= 0:
        scores = scores.masked_fill(key < place - left, -math.inf)
    if right >= 0:
        scores = scores.masked_fill(key > place + right, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0) @ v.double()


def differs(found, wanted, title):
    found, wanted = found.double(), wanted.double()
    if torch.isnan(found).any():
        return "%s: %d of %d elements are NaN or were not written" % (title, torch.isnan(found).sum().item(), found.numel())
    worst = ((found - wanted).abs() / (wanted.abs().amax(-1, keepdim=True) + 1e-3)).max().item()
    return "" if worst <= TOLERANCE else "%s: differs by %.3g of its row's largest element" % (title, worst)


def near(found, wanted):
    """All rows with a peer's, whose rounding is its own."""
    worst = (found.float() - wanted.float()).abs().max().item()
    return "" if worst <= 0.03 * max(1, wanted.float().abs().max().item()) else "a row differs from the peer's by %.3g" % worst


def sdpa(q, k, v, backend, causal, gqa):
    def call():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)
    return call


def peers_of(case, q, k, v):
    """Functions that return [batch, rows, heads, D]."""
    left, right, rows, keys = case["left"], case["right"], case["rows"], case["keys"]
    causal = right == 0

    def flash():
        return torch.ops.aten._flash_attention_forward(q, k, v, None, None, rows, keys, 0.0, causal and left < 0, False, window_size_left=left if left >= 0 else None,
                                                       window_size_right=right if left >= 0 else None)[0]
    found = {"flash": flash}
    if left < 0 and (not causal or rows == keys or rows == 1):
        x, y, z = (t.transpose(1, 2) for t in (q, k, v))
        is_causal, group = causal and rows > 1, case["group"] > 1
        for name, backend in ("cudnn", SDPBackend.CUDNN_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION):
            call = sdpa(x, y, z, backend, is_causal, group)
            found[name] = lambda call=call: call().transpose(1, 2)
    return found


def forward_case(kiln, old, case, rng):
    heads = case["kv_heads"] * case["group"]
    q, k, v = tensor(case, case["rows"], heads), tensor(case, case["keys"], case["kv_heads"]), tensor(case, case["keys"], case["kv_heads"])
    o, seen = result(case, case["rows"], heads)
    lse = output((case["batch"], heads, case["rows"]), torch.float32)
    strides = [I64(s) for t in (q, k, v, seen) for s in t.stride()[:3]]
    numbers = [I32(n) for n in (case["batch"], heads, case["kv_heads"], case["rows"], case["keys"])]
    scale = F32(1 / math.sqrt(case["D"]))
    name = "attention_general[T=%s,D=%d]" % (NAMES[case["dtype"]], case["D"])
    call = lambda library: library.bind(name, q, k, v, o, lse, *numbers, *strides, I32(case["left"]), I32(case["right"]), scale)
    peers, shift = peers_of(case, q, k, v), case["keys"] - case["rows"]

    def verify():
        for _ in range(3):
            b, h = rng.randrange(case["batch"]), rng.randrange(heads)
            rows = sorted(rng.sample(range(case["rows"]), min(case["rows"], 16)))
            kv = h // case["group"]
            wanted = reference(q[b, :, h], k[b, :, kv], v[b, :, kv], rows, shift, case["left"], case["right"])
            text = differs(seen[b, rows, h], wanted, "batch %d, head %d" % (b, h))
            if text:
                return text
        for peer in peers.values():
            try:
                return near(seen, peer())
            except Exception:  # a peer that does not run is told by the table
                continue
        return ""
    size = bytes_of(case) if case["kind"] == "few" else 0
    return [o, lse], call(kiln), old and call(old), peers, size, verify


def packed_case(kiln, old, case, rng):
    lengths, heads, D = case["lengths"], case["kv_heads"] * case["group"], case["D"]
    starts = torch.tensor([0] + lengths, device="cuda").cumsum(0).int()
    total, longest, right = sum(lengths), max(lengths), case["right"]
    q, k, v = (drawn.given(torch.randn(total, h, D, device="cuda", dtype=case["dtype"])) for h in (heads, case["kv_heads"], case["kv_heads"]))
    o, lse = output((total, heads, D), case["dtype"]), output((heads, total), torch.float32)
    numbers = [I32(n) for n in (len(lengths), longest, heads, case["kv_heads"], total, total)]
    strides = [I64(s) for t in (q, k, v, o) for s in t.stride()[:2]]
    name = "attention_packed[T=%s,D=%d]" % (NAMES[case["dtype"]], D)
    call = lambda library: library.bind(name, q, k, v, o, lse, starts, starts, *numbers, *strides, I32(-1), I32(right), F32(1 / math.sqrt(D)))
    flash = lambda: torch.ops.aten._flash_attention_forward(q, k, v, starts, starts, longest, longest, 0.0, right == 0, False)[0]

    def verify():
        for _ in range(3):
            s, h = rng.randrange(len(lengths)), rng.randrange(heads)
            a, b = starts[s].item(), starts[s + 1].item()
            rows = sorted(rng.sample(range(b - a), min(b - a, 16)))
            kv = h // case["group"]
            text = differs(o[a:b][rows, h], reference(q[a:b, h], k[a:b, kv], v[a:b, kv], rows, 0, -1, right), "sequence %d, head %d" % (s, h))
            if text:
                return text
        return near(o, flash())
    return [o, lse], call(kiln), old and call(old), {"flash": flash}, 0, verify


def backward_case(kiln, old, case, rng):
    import gpu_matrix
    heads, S = case["kv_heads"] * case["group"], case["rows"]
    q, g = tensor(case, S, heads), tensor(case, S, heads)
    k, v = tensor(case, S, case["kv_heads"]), tensor(case, S, case["kv_heads"])
    lse, o = torch.empty(case["batch"], heads, S, device="cuda"), torch.empty_like(q)
    gpu_matrix.general_call(kiln, q, k, v, o, lse, -1, case["right"])()
    grads = [output(tuple(t.shape), case["dtype"]) for t in (q, k, v)]
    ways = [gpu_matrix.backward_calls(library, q, k, v, o, g, lse, grads, case["right"])[0] for library in (kiln, old) if library]
    calls = [lambda way=way: [call() for call in way.values()] for way in ways]
    x, y, z = (t.transpose(1, 2).detach().requires_grad_() for t in (q, k, v))
    causal, gqa = case["right"] == 0, case["group"] > 1

    def library(backend):
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(x, y, z, is_causal=causal, enable_gqa=gqa)
        return lambda: torch.autograd.grad(out, (x, y, z), g.transpose(1, 2), retain_graph=True)

    peers = {}
    for name, backend in ("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION):
        try:
            peers[name] = library(backend)
        except RuntimeError:
            continue

    def verify():
        b, kv = rng.randrange(case["batch"]), rng.randrange(case["kv_heads"])
        if S <= 2048:
            part = slice(kv * case["group"], (kv + 1) * case["group"])
            parts = [t.double().detach().requires_grad_() for t in (q[b:b + 1, :, part], k[b:b + 1, :, kv:kv + 1], v[b:b + 1, :, kv:kv + 1])]
            wanted = torch.autograd.grad(gpu_matrix.plain(*parts, -1, case["right"]), parts, g[b:b + 1, :, part].double())
            for which, found, want, at in zip("qkv", grads, wanted, (part, slice(kv, kv + 1), slice(kv, kv + 1))):
                found = found[b:b + 1, :, at].double()
                error = ((found - want).norm() / want.norm().clamp_min(1e-30)).item()
                if not error <= 1e-2:
                    return "d%s: error %.3g" % (which, error)
        for peer in peers.values():
            for which, found, want in zip("qkv", grads, peer()):
                want = want.transpose(1, 2).double()
                error = ((found.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
                if not error <= 2e-2:
                    return "d%s: error %.3g of the peer's" % (which, error)
            break
        return ""
    return grads, calls[0], calls[1] if old else None, peers, 0, verify


def make_case(kiln, old, case, rng):
    make = {"packed": packed_case, "backward": backward_case}.get(case["kind"], forward_case)
    outputs, ours, olds, peers, size, verify = make(kiln, old, case, rng)
    mask = "full" if (case["left"], case["right"]) == (-1, -1) else "causal" if (case["left"], case["right"]) == (-1, 0) else "%d..%d" % (case["left"], case["right"])
    title = "%-8s %-4s D%-3d %3dx%d/%d %s, %d x %d %s" % (case["kind"], NAMES[case["dtype"]], case["D"], case["batch"], case["kv_heads"] * case["group"], case["kv_heads"],
                                                         case["layout"], case["rows"], case["keys"], mask)
    groups = [case["kind"]] + (["few, 64 MB of keys and values"] if size and 4 * case["batch"] * case["kv_heads"] * case["keys"] * case["D"] >= 64 << 20 else [])
    return Case("%-66s" % title, case["kind"], ours, olds, peers, size, outputs, [], groups=groups, verify=verify)


def main():
    parser = drawn.arguments(__doc__, 30)
    parser.add_argument("--only", default=",".join(CLASSES), help="classes, with commas; --cases of each")
    options = parser.parse_args()
    rng = drawn.generator(options.seed)
    kiln, old = Kiln(options.libkiln, options.bundle), options.old and Kiln(options.libkiln, options.old)
    sizes, classes = head_sizes(kiln.names()), options.only.split(",")
    table, begun = drawn.Table(options.reps), time.time()
    for number in range(options.cases * len(classes)):
        if time.time() - begun < options.seconds:
            case = draw(rng, classes[number % len(classes)], sizes)
            try:
                table.judge(make_case(kiln, old, case, rng))
            except (RuntimeError, torch.OutOfMemoryError) as e:
                table.failures.append((str(case), str(e).split("\n")[0]))
                print("%s  FAILED: %s" % (case, e), flush=True)
            torch.cuda.empty_cache()
    return 1 if table.end(classes) else 0


if __name__ == "__main__":
    sys.exit(main())
