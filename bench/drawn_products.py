#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of other types and forms, drawn from what their interfaces allow, compared with cuBLAS on an NVIDIA GPU: fp8 (exact sums and fast ones), int8, tf32, exact f32,
one product per expert (even and uneven rows), matrix times vector, batches.

bench/drawn_products.py BUNDLE --seed HEX [--cases N] [--only CLASS,...] [--libkiln FILE] [--old BUNDLE] [--reps N]

Extents are log-uniform from 16 to 16,384 (of a fifth of the cases M is from 1 to 64), rounded to what the kernel and the peer ask for; leading dimensions lie up to 64
elements beyond where the interface has them. HEX is the first eight digits of the measured commit. For each case: drawn rows compared with a product in double (integers:
exactly), the others with the peer's; canaries around results, NaNs around operands; the median of launches in turn with the peers, L2 flushed before each. Needs PyTorch.
"""
import math
import sys
import time

import torch

import drawn
from drawn import Case, given, given_rows, output
from gpu_common import F32, I32, I64, Kiln, error_of

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
MOST_WORK = 1 << 42


def extent(rng, unit, low=16, high=16384):
    value = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    unit = rng.choice((max(64, unit), max(8, unit), unit))
    return max(unit, (value + unit // 2) // unit * unit)


def sizes(rng, m_unit, n_unit, k_unit, least_m=1):
    """M, N and K of at most MOST_WORK operations."""
    while True:
        M = extent(rng, m_unit, 1, 64) if rng.random() < 0.2 else extent(rng, m_unit)
        N, K = extent(rng, n_unit), extent(rng, k_unit)
        if 2 * M * N * K <= MOST_WORK and M >= least_m:
            return M, N, K


def pitch(rng, columns, unit):
    beyond = rng.choice((0, 0, rng.randrange(0, 65)))
    return -(-(columns + beyond) // unit) * unit


def sampled(rng, count, most=64):
    return sorted(rng.sample(range(count), min(count, most)))


def compared(rng, ours, theirs, exact, slack=1.1, floor=1e-6):
    """A function that compares drawn rows with `exact(rows)` in double, the error at most `slack` of the peer's, and all others with the peer's."""
    def verify():
        other, rows = theirs(), sampled(rng, ours.shape[0])
        wanted = exact(rows)
        found, allowed = error_of(ours[rows], wanted), slack * error_of(other[rows], wanted) + floor
        if not found <= allowed:
            return "error %.3g, allowed %.3g" % (found, allowed)
        difference = (ours.float() - other.float()).abs().max().item()
        return "" if difference <= 0.05 * other.float().abs().max().item() + 1e-6 else "a row differs from the peer's by %.3g" % difference
    return verify


def fp8(is_fast):
    def make(rng, call):
        M, N, K = sizes(rng, 1, 16, 16)
        S = rng.choice((E4M3, E5M2))
        lda, ldb, ldc = pitch(rng, K, 16), pitch(rng, K, 16), pitch(rng, N, 8)
        a, b = (given_rows((rows, K), torch.bfloat16, ld).float() for rows, ld in ((M, lda), (N, ldb)))

        def operand(values, dtype, ld):
            block = torch.full((values.shape[0] * ld + 1024,), 255, dtype=torch.uint8, device="cuda")
            rows = block[512:512 + values.shape[0] * ld].view(dtype).view(values.shape[0], ld)[:, :K]
            return rows.copy_(values.to(dtype))
        x, y = operand(a, S, lda), operand(b, E4M3, ldb)
        sa, sb, one = given(torch.rand(M, device="cuda") + 0.5), given(torch.rand(N, device="cuda") + 0.5), torch.ones((), device="cuda")
        c = output((M, N), torch.bfloat16, pitch=ldc)
        name = "gemm_fp8[S=%s,T=e4m3,FAST=%s]" % ("e4m3" if S is E4M3 else "e5m2", str(is_fast).lower())
        scaled = lambda: torch._scaled_mm(x, y.t(), sa[:, None], sb[None, :], out_dtype=torch.bfloat16, use_fast_accum=is_fast)
        plain = lambda: torch._scaled_mm(x, y.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=is_fast)  # does less: one scale for all
        exact = lambda rows: x[rows].double() @ y.t().double() * sa[rows, None].double() * sb.double()

        def theirs():
            try:
                return scaled()
            except (RuntimeError, ValueError):
                return (plain().float() * sa[:, None] * sb).bfloat16()
        ours = call(name, x, y, sa, sb, c, I32(M), I32(N), I32(K), I64(lda), I64(ldb), I64(ldc))
        title = "%s %dx%dx%d ld %d %d %d" % ("e4m3" if S is E4M3 else "e5m2", M, N, K, lda, ldb, ldc)
        verify = compared(rng, c, theirs, exact, 1.1, 5e-3 if is_fast else 1e-3)
        return title, ours, {"cublaslt, scales of rows": scaled, "cublaslt": plain}, c, verify
    return make


def int8(rng, call):
    M, N, K = sizes(rng, 1, 8, 8, 17)
    a, b = (given(torch.randint(-128, 128, (rows, K), device="cuda", dtype=torch.int8)) for rows in (M, N))
    sa, sb, c = given(torch.rand(M, device="cuda") + 0.5), given(torch.rand(N, device="cuda") + 0.5), output((M, N), torch.float32)
    theirs = lambda: torch._int_mm(a, b.t())

    def verify():
        rows = sampled(rng, M)
        wanted = (a[rows].double() @ b.t().double()) * sa[rows, None].double() * sb.double()
        worst = ((c[rows].double() - wanted).abs() / (wanted.abs() + 1)).max().item()
        return "" if worst <= 1e-6 else "differs by %.3g" % worst
    return "%dx%dx%d" % (M, N, K), call("gemm_i8", a, b, sa, sb, c, I32(M), I32(N), I32(K)), {"torch._int_mm": theirs}, c, verify


def of_f32(is_tf32):
    def make(rng, call):
        M, N, K = sizes(rng, 1, 1, 1)
        unit = rng.choice((1, 4, 4))
        lda, ldb, ldc = pitch(rng, K, unit), pitch(rng, K, unit), pitch(rng, N, unit)
        a, b, c = given_rows((M, K), torch.float32, lda), given_rows((N, K), torch.float32, ldb), output((M, N), torch.float32, pitch=ldc)
        other = output((M, N), torch.float32, pitch=ldc)

        def theirs():
            torch.backends.cuda.matmul.allow_tf32 = is_tf32
            torch.mm(a, b.t(), out=other)
            return other
        exact = lambda rows: a[rows].double() @ b.t().double()
        numbers = I32(M), I32(N), I32(K), I64(lda), I64(ldb), I64(ldc)
        ours = call("gemm_tf32", a, b, c, *numbers) if is_tf32 else call("gemm[T=f32,ACT=0,BIAS=false]", a, b, given(torch.zeros(N, device="cuda")), c, *numbers)
        floor = 4e-4 if is_tf32 else 1e-6  # of operands with fractions of ten bits; cuBLAS computes some small products exactly
        return "%dx%dx%d ld %d %d %d" % (M, N, K, lda, ldb, ldc), ours, {"cublas": theirs}, c, compared(rng, c, theirs, exact, 1.1, floor)
    return make


def experts(is_even):
    def make(rng, call):
        dtype = torch.bfloat16
        count, N, K = drawn.log_uniform(rng, 2, 256), extent(rng, 8, 128, 16384), extent(rng, 8, 128, 16384)
        rows = drawn.log_uniform(rng, count, 65536)
        while 2 * rows * N * K > MOST_WORK or 2 * count * N * K > 8 << 30:
            N, K = max(64, N // 16 * 8), max(64, K // 16 * 8)
        if is_even:
            shares = torch.full((count,), rows // count)
        else:
            shares = torch.distributions.Multinomial(rows, torch.rand(count) ** 2 + 1e-6).sample().int()
        ends = given(shares.cumsum(0).int().cuda())
        rows = int(shares.sum())
        lda, ldc = pitch(rng, K, 8), pitch(rng, N, 8)
        a, w, c = given_rows((rows, K), dtype, lda), given(torch.randn(count, N, K, device="cuda", dtype=dtype)), output((rows, N), dtype, pitch=ldc)
        theirs = lambda: torch._grouped_mm(a, w.transpose(1, 2), offs=ends)
        ours = call("gemm_grouped[T=bf16,ACT=0]", a, w, ends, c, I32(rows), I32(count), I32(N), I32(K), I64(lda), I64(ldc))

        def verify():
            first = 0
            for e, last in enumerate(ends.tolist()):
                at = [first + r for r in sampled(rng, last - first, 2)]
                if at:
                    wanted = a[at].double() @ w[e].t().double()
                    if not error_of(c[at], wanted) <= 4e-3:
                        return "expert %d: error %.3g" % (e, error_of(c[at], wanted))
                first = last
            return ""
        return "%d experts, %d rows, %dx%d ld %d %d" % (count, rows, N, K, lda, ldc), ours, {"torch._grouped_mm": theirs}, c, verify
    return make


def gemv(rng, call):
    dtype = rng.choice(tuple(NAMES))
    rows, cols = drawn.log_uniform(rng, 16, 131072), extent(rng, 1, 16, 65536)
    while rows * cols > 1 << 30:
        rows //= 2
    lda = pitch(rng, cols, 8)
    a, x, y = given_rows((rows, cols), dtype, lda), given(torch.randn(cols, device="cuda", dtype=dtype)), output((rows,), dtype)
    theirs = lambda: torch.mv(a, x)
    exact = lambda at: a[at].double() @ x.double()
    ours = call("gemv[T=%s]" % NAMES[dtype], a, x, y, I32(rows), I32(cols), I64(lda))
    return "%s %dx%d ld %d" % (NAMES[dtype], rows, cols, lda), ours, {"cublas": theirs}, y, compared(rng, y, theirs, exact, 1.1, 2e-3)


def batched(rng, call):
    dtype = rng.choice((torch.bfloat16, torch.float16))
    batch = drawn.log_uniform(rng, 2, 256)
    M, N, K = extent(rng, 1, 1, 2048), extent(rng, 8, 16, 2048), extent(rng, 8, 16, 2048)
    while 2 * batch * M * N * K > MOST_WORK:
        batch //= 2
    a, b = given(torch.randn(batch, M, K, device="cuda", dtype=dtype)), given(torch.randn(batch, N, K, device="cuda", dtype=dtype))
    up = lambda n: -(-n // 8) * 8
    if M * K % 8:
        M = up(M)
        a = given(torch.randn(batch, M, K, device="cuda", dtype=dtype))
    c = output((batch, M, N), dtype)
    theirs = lambda: torch.bmm(a, b.transpose(1, 2))

    def verify():
        other = theirs()
        for e in sampled(rng, batch, 4):
            wanted = a[e].double() @ b[e].double().t()
            if not error_of(c[e], wanted) <= 1.1 * error_of(other[e], wanted) + 1e-6:
                return "entry %d: error %.3g" % (e, error_of(c[e], wanted))
        return "" if (c.float() - other.float()).abs().max() <= 0.05 * other.float().abs().max() else "an entry differs from the peer's"
    ours = call("gemm_batched[T=%s]" % NAMES[dtype], a, b, c, I32(M), I32(N), I32(K), I64(M * K), I64(N * K), I64(M * N), I32(batch))
    return "%s %d of %dx%dx%d" % (NAMES[dtype], batch, M, N, K), ours, {"cublas": theirs}, c, verify


CLASSES = {"fp8 exact": fp8(False), "fp8 fast": fp8(True), "int8": int8, "tf32": of_f32(True), "f32": of_f32(False), "experts even": experts(True),
           "experts uneven": experts(False), "gemv": gemv, "batched": batched}


def main():
    parser = drawn.arguments(__doc__, 40)
    parser.add_argument("--only", default=",".join(CLASSES), help="classes, with commas; --cases of each")
    options = parser.parse_args()
    rng = drawn.generator(options.seed)
    kiln, old = Kiln(options.libkiln, options.bundle), options.old and Kiln(options.libkiln, options.old)
    classes, table, begun = options.only.split(","), drawn.Table(options.reps), time.time()
    for number in range(options.cases * len(classes)):
        if time.time() - begun >= options.seconds:
            break
        kind, olds = classes[number % len(classes)], []

        def call(*arguments):
            if old:
                olds.append(old.bind(*arguments))
            return kiln.bind(*arguments)
        try:
            title, ours, peers, result, verify = CLASSES[kind](rng, call)
            table.judge(Case("%-14s %-52s" % (kind, title), kind, ours, olds[0] if olds else None, peers, 0, [result], [], groups=[kind], verify=verify))
        except (RuntimeError, torch.OutOfMemoryError) as e:
            table.failures.append((kind, str(e).split("\n")[0]))
            print("%s  FAILED: %s" % (kind, e), flush=True)
        torch.cuda.empty_cache()
    return 1 if table.end(classes) else 0


if __name__ == "__main__":
    sys.exit(main())
