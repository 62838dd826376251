#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tiles products of fp8, i8 and tf32 and products per expert have, and the costs by which one is chosen: where the configs for sm_90a and their numbers come from.

    bench/fit_products.py sources FOLDER                  for each class CLASS.kiln: the kernel of kernels/gemm.kiln once for each candidate
    bench/fit_products.py time FOLDER --seed HEX --out FOLDER [--shard I/N] [--seconds N] [--classes tf32,...] [--now BUNDLE] [--libkiln FILE]
    bench/fit_products.py fit TIMES... [--classes tf32,...] [--most N]

Between the first two each source is built: `kiln build FOLDER/tf32.kiln -t sm_90a -o FOLDER/tf32.kbundle`. `time` launches all candidates, the kernel of BUNDLE and the vendor's
for drawn shapes (those of drawn_products.py, more of short sums and of few rows for each expert), L2 flushed, medians of 5, on an NVIDIA GPU of the Hopper family with PyTorch; each
shard has shapes of its own and writes times-I.jsonl. Every fourth case the results are compared with the vendor's.

`fit` wants NumPy only. Of the shapes one half is fitted to, the other tells whether that holds. Each candidate gets five numbers (START, END, STEP, OUT, IN) that come nearest to its
times; candidates are added to the choice, the one first that helps most, up to --most; then the numbers are changed one at a time as long as the choice gets better (mean of u +
4 max(0, u)^2, u the logarithm of the time beside the vendor's). A cost is START + rounds x (steps x STEP / 100 + END), in 10 ns, joined with the elements stored / OUT + those read / IN:
their sum (form 0), or the longer and three tenths of the shorter (form 1)."""
import argparse
import json
import os
import random
import re
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}  # that an H200 runs at a time, by their blocks
NUMBERS = ("START", "END", "STEP", "OUT", "IN")

# rows x columns x step of K of the unit's tile, slots; bN: N blocks of a cluster have a program; /N: N blocks share a sum; t: turned; wN: warps
CANDIDATES = {
    "tf32": """128x256x32 s4, 256x256x32 s4 b2, 256x128x32 s4, 256x128x32 s5 b2, 256x128x32 s5 b2 /2, 128x128x32 s6, 128x128x32 s3, 128x128x32 s2 w4, 128x128x32 s4 /4, 128x64x64 s4,
        128x64x32 s3 w4, 64x128x32 s2, 64x128x32 s3, 64x256x32 s2, 64x64x64 s6, 64x64x64 s2, 64x64x32 s3, 64x64x32 s6 /4, 64x64x64 s3 /4, 64x32x64 s6, 64x32x64 s2, 64x32x32 s3,
        64x32x64 s4 /8, 64x16x128 s4, 64x16x64 s4, 64x16x64 s4 /8, 128x32x64 s3 w4""",
    "i8": """128x128x128 s4, 128x128x64 s3, 128x256x128 s3 b2, 256x128x128 s5 b2, 256x128x128 s5 b2 /2, 256x64x128 s4, 128x64x128 s4, 128x64x128 s3 w4, 64x128x128 s3, 64x128x64 s3, 128x128x128 s4 /4,
        64x64x128 s8, 64x64x128 s3, 64x64x64 s2, 64x64x128 s6 /4, 128x32x128 s3 w4, 64x32x256 s6, 64x32x256 s3, 64x32x128 s4 /8, 64x16x256 s6, 64x16x256 s3, 64x16x128 s4, 64x16x128 s4 /8""",
    "fp8": """128x256x128 s4 g16, 256x256x128 s4 b2, 256x256x128 s5 b4, 256x256x128 s4 b2 t, 256x128x128 s4, 256x128x128 s5 b2, 256x128x128 s5 b2 /2, 256x128x128 s5 b2 t, 512x128x128 s5 b4,
        512x128x128 s5 b4 t, 128x256x128 s4 t, 128x256x128 s4 b2, 128x128x128 s6, 128x128x128 s4, 128x128x128 s5 t, 128x128x128 s4 /4, 128x64x128 s6, 128x64x128 s6 t, 256x64x128 s4,
        64x128x128 s3, 64x128x128 s3 t, 64x64x128 s8, 64x64x128 s3, 64x64x64 s2, 64x64x128 s4 t, 64x64x128 s6 /4, 64x32x128 s8, 64x32x128 s4, 64x32x128 s8 t, 64x32x128 s8 /8,
        64x32x128 s8 /2 t, 64x16x128 s4, 64x16x128 s8 t, 64x16x128 s8 /8, 16x32x256 s3, 128x192x128 s5, 256x192x128 s4 b2, 256x160x128 s5 b2, 512x160x128 s5 b4, 512x192x128 s4 b4 t,
        256x192x128 s4 b2 t, 256x160x128 s5 b2 /2 t, 128x192x128 s5 t, 128x160x128 s5 t, 128x112x128 s6 t, 128x96x128 s6 t, 64x112x128 s3 t, 64x96x128 s6 /3, 64x80x128 s8 t, 64x80x128 s4 t,
        64x48x128 s8 t""",
    "fast": """512x176x128 s3 b2, 512x160x128 s3 b2, 512x160x128 s5 b4, 512x128x128 s6 b4 /2, 512x96x128 s6 b4, 256x256x128 s4 b2, 256x256x128 s5 b4 /2, 256x224x128 s4 b2,
        256x192x128 s4 b2, 256x192x128 s4 b2 /2, 256x192x128 s5 b2 /4, 256x176x128 s5 b2, 256x160x128 s5 b2, 256x128x128 s5 b2, 256x96x128 s5 b2 /2,
        256x96x128 s6 b2 /3, 128x256x128 s4, 128x192x128 s4, 128x192x128 s5 /4, 128x144x128 s5, 128x128x128 s4 /8, 128x96x128 s6, 128x96x128 s6 /6, 128x64x256 s4,
        64x160x128 s5, 64x112x128 s8, 64x96x256 s4, 64x96x256 s4 /3, 64x64x256 s6 /4, 64x32x512 s4, 64x32x256 s4 /8, 64x16x512 s4 /8, 512x192x128 s4 b4 t,
        512x192x128 s4 b4 /2 t, 512x176x128 s3 b2 t, 512x128x128 s6 b4 t, 512x128x128 s5 b4 /2 t, 256x256x128 s6 b4 t, 256x208x128 s4 b2 t, 256x192x128 s5 b2 /3 t,
        256x176x128 s5 b2 t, 256x160x128 s3 t, 256x160x128 s5 b2 /2 t, 256x128x128 s3 t, 256x96x128 s6 b2 /2 t, 128x256x128 s3 t, 128x176x128 s5 t, 128x160x128 s5 t,
        128x160x128 s5 /5 t, 128x128x128 s8 b2 t, 128x112x128 s6 t, 128x96x128 s5 /2 t, 128x80x128 s7 /5 t, 64x80x128 s8 t, 64x80x256 s5 t, 64x80x256 s5 /5 t,
        64x64x256 s5 t, 64x48x128 s8 t, 64x32x256 s6 t, 64x32x256 s6 /2 t, 64x16x256 s6 t, 64x16x512 s4 /2 t, 64x128x128 s3, 64x128x128 s3 t, 64x64x128 s3,
        64x64x128 s3 t, 128x128x128 s4, 128x64x128 s3 w4, 128x64x128 s3 w4 t, 64x32x128 s4, 64x256x128 s3""",
    "grouped": """128x256x64 s3, 128x192x64 s4, 128x128x64 s5, 128x128x64 s2 w4, 64x256x64 s4, 64x128x64 s3, 64x64x64 s8, 64x64x64 s4, 128x256x64 s3 t, 128x208x64 s4 t, 128x160x64 s4 t,
        128x128x64 s5 t, 128x112x64 s5 t, 128x96x64 s6 t, 128x80x64 s6 t, 128x64x64 s7 t, 128x48x64 s7 t, 128x32x64 s8 t, 128x16x64 s8 t, 64x96x64 s4 t, 64x64x64 s4 t, 64x48x64 s5 t,
        64x32x128 s4 t, 64x16x128 s4 t, 256x128x64 s3 t, 256x96x64 s3 t, 256x64x64 s4 t""",
}
KERNELS = {"tf32": "gemm_tf32", "i8": "gemm_i8", "fp8": "gemm_fp8", "fast": "gemm_fp8", "grouped": "gemm_grouped"}
INSTANCES = {"tf32": "", "i8": "", "fp8": "[S=e4m3,T=e4m3,FAST=false]", "fast": "[S=e4m3,T=e4m3,FAST=true]", "grouped": "[T=bf16,ACT=0]"}
# What the shapes keep to, so that there is one code for each candidate.
KEPT = {"tf32": ("lda: i64, ldb: i64, ldc: i64", "lda: i64 @div(4), ldb: i64 @div(4), ldc: i64 @div(4)"), "i8": ("M: i32, N: i32, K: i32", "M: i32, N: i32 @div(4), K: i32 @div(16)"),
        "grouped": ("N: i32, K: i32", "N: i32 @div(8), K: i32 @div(8)")}


class Candidate:
    def __init__(self, text, is_by_lines=False):
        words = text.split()
        self.text, (self.BM, self.BN, self.BK) = text, (int(n) for n in words[0].split("x"))
        number = lambda letter, other: next((int(w[1:]) for w in words[1:] if w[0] == letter and len(w) > 1), other)
        self.stages, self.blocks, self.split, self.group = number("s", 3), number("b", 1), number("/", 1), number("g", 8)
        self.is_turned, self.is_by_lines = "t" in words, is_by_lines
        self.warps = number("w", 4 if self.BM <= 64 else 8 * self.blocks)
        self.rows, self.columns = (self.BN, self.BM) if self.is_turned else (self.BM, self.BN)

    def config(self, numbers=""):
        step = "LINES = %d" % (self.BK // 128) if self.is_by_lines else "BK = %d" % self.BK
        parts = ["BM = %d" % self.BM, "BN = %d" % self.BN, step]
        parts += ["%s = %d" % (name, n) for name, n in (("BLOCKS", self.blocks), ("SPLIT", self.split), ("TURNED", int(self.is_turned))) if n != (name != "TURNED")]
        parts += ["GROUP = %d" % self.group] if self.group != 8 else []
        return "  @config(%s%s, warps = %d, stages = %d, targets = \"sm_90a\")" % (", ".join(parts), numbers, self.warps, self.stages)


def source_text():
    return open(os.path.join(ROOT, "kernels", "gemm.kiln")).read()


def candidates(kind):
    return [Candidate(" ".join(text.split()), kind == "fast") for text in CANDIDATES[kind].split(",")]


def sources(folder):
    text = source_text()
    kernels = list(re.finditer(r"\nkernel (\w+)\[.*?\n}\n", text, re.S))
    functions = text[:kernels[0].start()]
    for this, after in zip(kernels, kernels[1:] + [None]):
        functions += "\n" + text[this.end():after.start() if after else len(text)]
    for kind, name in KERNELS.items():
        kernel = next(k.group(0) for k in kernels if k.group(1) == name)
        head, body = kernel[:kernel.index("\n{\n")], kernel[kernel.index("\n{\n"):]
        head = head[:head.index("\n  launches {")] if "\n  launches {" in head else head
        for clause in r"\n  @config\([^\n]*\)", r"\n  @require\(.*?\)(?=\n  @|$)", r"\n  @cost\([^\n]*\)", r" @variant\([^)]*\)", r"\n  @variant\([^\n]*\)", r" @key\([^)]*\)", r"\n?  ?@instance\([^)]*\)":
            head = re.sub(clause, "", head, flags=re.S)
        if kind in KEPT:
            assert head.count(KEPT[kind][0]) == 1, "%s: expected the parameters %s once" % (name, KEPT[kind][0])
            head = head.replace(*KEPT[kind])
        instance = "\n  @instance(%s)" % INSTANCES[kind][1:-1].replace(",", ", ") if INSTANCES[kind] else ""
        with open(os.path.join(folder, kind + ".kiln"), "w") as f:
            f.write(functions)
            for i, candidate in enumerate(candidates(kind)):
                own = head.replace("kernel %s[" % name, "kernel %s_%d[" % (name, i))
                f.write(own.replace("\n  @grid", instance + "\n  @grid") + "\n" + candidate.config() + body)
        print("%s.kiln: %d candidates" % (kind, len(candidates(kind))))


# ------------------------------------------------------------------------------------------------ times

def shape(rng, kind, products):
    """M, N, K as in drawn_products.py; two in five are large results of short sums."""
    units = {"tf32": (1, 4, 4), "i8": (1, 8, 16)}.get(kind, (1, 16, 16))
    while True:
        if rng.random() < 0.4:
            M, N, K = products.extent(rng, units[0], 256), products.extent(rng, units[1], 256), products.extent(rng, units[2], 16, 512)
        else:
            M, N, K = products.sizes(rng, *units)
        if 2 * M * N * K <= 1 << 40 and M * N <= 1 << 28 and (kind != "i8" or M > 16):
            return M, N, K


def drawn_product(rng, kind, torch, products):
    """The case's numbers, the arguments of the kernel, its result and the vendor's functions."""
    from gpu_common import I32, I64
    M, N, K = shape(rng, kind, products)
    row = dict(M=M, N=N, K=K)
    if kind == "tf32":
        lda, ldb, ldc = (products.pitch(rng, n, 4) for n in (K, K, N))
        a, b, c = (torch.randn(rows, ld, device="cuda")[:, :n] for rows, ld, n in ((M, lda, K), (N, ldb, K), (M, ldc, N)))
        other = torch.empty(M, N, device="cuda")
        torch.backends.cuda.matmul.allow_tf32 = True
        return row, (a, b, c, I32(M), I32(N), I32(K), I64(lda), I64(ldb), I64(ldc)), c, {"mm": lambda: torch.mm(a, b.t(), out=other)}, lambda x: x
    sa, sb = torch.rand(M, device="cuda") + 0.5, torch.rand(N, device="cuda") + 0.5
    if kind == "i8":
        a, b = (torch.randint(-128, 128, (rows, K), device="cuda", dtype=torch.int8) for rows in (M, N))
        c = torch.empty(M, N, device="cuda")
        return row, (a, b, sa, sb, c, I32(M), I32(N), I32(K)), c, {"int_mm": lambda: torch._int_mm(a, b.t())}, lambda x: x * sa[:, None] * sb
    lda, ldb, ldc = products.pitch(rng, K, 16), products.pitch(rng, K, 16), products.pitch(rng, N, 8)
    a, b = (torch.randn(rows, ld, device="cuda").to(torch.float8_e4m3fn)[:, :K] for rows, ld in ((M, lda), (N, ldb)))
    c, one = torch.empty(M, ldc, device="cuda", dtype=torch.bfloat16)[:, :N], torch.ones((), device="cuda")
    multiply = lambda *scales: torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=kind == "fast")
    peers = {"plain": lambda: multiply(one, one), "rows": lambda: multiply(sa[:, None], sb[None, :])}
    return row, (a, b, sa, sb, c, I32(M), I32(N), I32(K), I64(lda), I64(ldb), I64(ldc)), c, peers, lambda x: x.float() * sa[:, None] * sb


def drawn_experts(rng, torch, products):
    import drawn
    from gpu_common import I32, I64
    while True:
        experts, N, K = drawn.log_uniform(rng, 2, 256), products.extent(rng, 8, 128, 16384), products.extent(rng, 8, 128, 16384)
        rows = drawn.log_uniform(rng, experts, 65536) if rng.random() < 0.5 else min(65536, experts * drawn.log_uniform(rng, 8, 1024))
        if 2 * rows * N * K <= 1 << 40 and experts * N * K <= 1 << 31 and rows * max(N, K) <= 1 << 29:
            break
    is_even = rng.random() < 0.5
    if is_even:
        shares = torch.full((experts,), rows // experts)
    else:
        shares = torch.distributions.Multinomial(rows, torch.rand(experts) ** 2 + 1e-6).sample().int()
    ends, rows = shares.cumsum(0).int().cuda(), int(shares.sum())
    lda, ldc = products.pitch(rng, K, 8), products.pitch(rng, N, 8)
    a, w, c = (torch.randn(*size, device="cuda", dtype=torch.bfloat16) for size in ((rows, lda), (experts, N, K), (rows, ldc)))
    a, c = a[:, :K], c[:, :N]
    return (dict(experts=experts, M=rows, N=N, K=K, even=int(is_even)), (a, w, ends, c, I32(rows), I32(experts), I32(N), I32(K), I64(lda), I64(ldc)), c,
            {"grouped_mm": lambda: torch._grouped_mm(a, w.transpose(1, 2), offs=ends)}, lambda x: x)


def measure_candidates(options):
    import torch
    import drawn
    import drawn_products as products
    from gpu_common import Kiln, Watchdog, error_of, measure
    classes, (shard, shards) = options.classes.split(","), (int(n) for n in options.shard.split("/"))
    bundles = {kind: Kiln(options.libkiln, os.path.join(options.folder, kind + ".kbundle")) for kind in classes}
    now = options.now and Kiln(options.libkiln, options.now)
    drawn.generator(options.seed)
    rng, begun, number = random.Random(int(options.seed[:8], 16) * shards + shard), time.time(), 0
    torch.manual_seed(rng.randrange(1 << 30))
    with open(os.path.join(options.out, "times-%d.jsonl" % shard), "w") as f:
        while time.time() - begun < options.seconds:
            kind, number = classes[number % len(classes)], number + 1
            name, instance = KERNELS[kind], INSTANCES[kind]
            try:
                row, values, result, peers, finish = drawn_experts(rng, torch, products) if kind == "grouped" else drawn_product(rng, kind, torch, products)
                jobs, wanted = {}, None
                for i in [str(i) for i in range(len(candidates(kind)))] + (["now"] if now else []):
                    try:
                        jobs[i] = now.bind(name + instance, *values) if i == "now" else bundles[kind].bind("%s_%s%s" % (name, i, instance), *values, scratch=False)
                        jobs[i]()
                    except RuntimeError as e:  # refused
                        jobs.pop(i, None)
                        print("%s %s %s: %s" % (kind, row, i, e), flush=True)
                for title, peer in peers.items():
                    try:
                        found = peer()
                    except (RuntimeError, ValueError):  # it refuses the case
                        continue
                    jobs[title] = peer
                    wanted = finish(found).float() if number // len(classes) % 4 == 0 and title != "rows" else wanted
                    del found
                wrong = []
                for i, job in jobs.items() if wanted is not None else ():
                    if i not in peers:
                        result.fill_(float("nan"))
                        with Watchdog("%s %s %s" % (kind, i, row)):
                            job()
                            wrong += [i] if not error_of(result, wanted) <= 2e-2 else []
                if wrong:
                    print("WRONG: %s %s: %s" % (kind, row, ", ".join(candidates(kind)[int(i)].text if i != "now" else i for i in wrong)), flush=True)
                del wanted
                with Watchdog("%s %s" % (kind, row)):
                    times = measure(jobs, 5 if row["M"] * row["N"] * row["K"] < 1 << 37 else 3)
            except (RuntimeError, torch.OutOfMemoryError) as e:
                print("%s FAILED: %s" % (kind, e), flush=True)
                torch.cuda.empty_cache()
                continue
            found = [times[title] for title in peers if title in times]
            row.update({"kind": kind, "peer": round(min(found) * 1e6, 2) if found else None, "t": [round(times.get(str(i), 1) * 1e6, 2) for i in range(len(candidates(kind)))]})
            if "now" in jobs:
                row.update({"now": round(times["now"] * 1e6, 2), "scratch": jobs["now"].scratch})
            f.write(json.dumps(row, separators=(",", ":")) + "\n")
            f.flush()
            del jobs, values, result, peers, finish
    print("shard %s: %d cases in %.0f s" % (options.shard, number, time.time() - begun))


# ------------------------------------------------------------------------------------------------- fit

def up(a, b):
    return -(-a // b)


class Model:
    """Costs of the candidates of a class for rows of times, in units of 10 ns."""

    def __init__(self, np, kind, rows, form, is_even=1):
        self.np, self.form, self.all = np, form, candidates(kind)
        M, N, K, E = (np.array([row.get(n, 1) for row in rows], float) for n in ("M", "N", "K", "experts"))
        self.stored, self.read = M * N, (M + N * E) * K
        self.steps = np.array([up(K, c.BK * c.split) for c in self.all])
        # Of the rows of an expert the last tile is full in part: as if all had as many, or by half in the mean.
        tiles = [(E * up(M / E, c.rows) if is_even else np.maximum(E, (M + E * c.rows / 2) // c.rows)) * up(N, c.columns) for c in self.all]
        self.rounds = np.array([[up(t, CLUSTERS[c.blocks * c.split] * each) for each in (1, 2, 3, 4)] for t, c in zip(tiles, self.all)])

    def cost(self, i, numbers, each):
        start, end, step, out, into = numbers
        rounds = self.rounds[i, each]
        work, memory = rounds * (self.steps[i] * step / 100 + end), self.stored / out + self.read / into
        return start + (work + memory if self.form == 0 else self.np.maximum(work, memory) + 0.3 * self.np.minimum(work, memory))

    def near(self, i, times, which):
        """The numbers whose costs are nearest to the times."""
        np, best = self.np, None
        for each in range(4):
            numbers, step = [600.0, 50.0, 3000.0, 8000.0, 20000.0], 1.0
            error = lambda numbers: (np.log(self.cost(i, numbers, each)[which] / times[which]) ** 2).mean()
            least = error(numbers)
            while step > 0.01:
                has_changed = False
                for k in range(5):
                    for factor in 1 + step, 1 / (1 + step):
                        new = list(numbers)
                        new[k] = min(max(new[k] * factor, 1), 200000)
                        found = error(new)
                        if found < least - 1e-9:
                            numbers, least, has_changed = new, found, True
                step = step if has_changed else step / 1.6
            if best is None or least < best[0] - 1e-4:
                best = least, numbers, each
        return best

    def costs(self, chosen, numbers, each):
        return self.np.array([self.cost(i, n, e) for i, n, e in zip(chosen, numbers, each)])


def tell(np, title, ratios):
    if len(ratios):
        print("  %-44s %4d cases: geomean %.3f, tenth percentile %.3f, least %.3f" % (title, len(ratios), np.exp(np.log(ratios).mean()), np.quantile(ratios, 0.1), ratios.min()))


def choose(np, model, times, peer, which, near, most):
    """Candidates, the one first that helps most, as the costs choose among them."""
    def loss(costs, chosen):
        u = np.log(times[np.array(chosen)[costs.argmin(0)], np.arange(times.shape[1])] / peer)[which]
        return (u + 4 * np.maximum(0, u) ** 2).mean()
    every = model.costs(range(len(near)), [n[1] for n in near], [n[2] for n in near])
    chosen, least = [], np.inf
    while len(chosen) < most:
        found, i = min((loss(every[chosen + [i]], chosen + [i]), i) for i in range(len(near)) if i not in chosen)
        if found > least - 0.0005:
            break
        chosen, least = chosen + [i], found
        for out in list(chosen):  # one that the others have replaced
            rest = [i for i in chosen if i != out]
            if rest and loss(every[rest], rest) <= least + 0.0002:
                chosen, least = rest, loss(every[rest], rest)
    numbers, each, costs, step = [list(near[i][1]) for i in chosen], [near[i][2] for i in chosen], every[chosen], 0.4
    while step > 0.01:
        has_changed = False
        for place, i in enumerate(chosen):
            for k in range(5):
                for factor in 1 + step, 1 / (1 + step):
                    new, trial = list(numbers[place]), costs.copy()
                    new[k] *= factor
                    trial[place] = model.cost(i, new, each[place])
                    found = loss(trial, chosen)
                    if found < least - 1e-6:
                        numbers[place], costs, least, has_changed = new, trial, found, True
        step = step if has_changed else step / 1.6
    return chosen, [[max(1, round(n)) for n in them] for them in numbers], each, least


def fit_class(np, kind, rows, most):
    rows = [row for row in rows if row["peer"]]
    if len(rows) < 8:
        return print("%s: %d cases, too few" % (kind, len(rows)))
    every, all_tiles = np.arange(len(rows)), candidates(kind)
    times, peer = np.array([row["t"] for row in rows]).T * 100, np.array([row["peer"] for row in rows]) * 100
    which = np.random.default_rng(1).random(len(rows)) < 0.5
    halves = (("fitted to", which), ("others", ~which))
    print("%s: %d cases, %d candidates; ratios: the vendor's time / ours" % (kind, len(rows), len(all_tiles)))
    if all("now" in row for row in rows):
        now, is_whole = np.array([row["now"] for row in rows]) * 100, np.array([not row["scratch"] for row in rows])
        tell(np, "now", peer / now)
        if not is_whole.all():
            tell(np, "now, those with scratch memory", (peer / now)[~is_whole])
            tell(np, "the fastest candidate of these", (peer / times.min(0))[~is_whole])
    tell(np, "the fastest candidate of each", peer / times.min(0))
    best = None
    for form in 0, 1:
        for is_even in ((1, 0) if kind == "grouped" else (1,)):
            model = Model(np, kind, rows, form, is_even)
            near = [model.near(i, times[i], which) for i in range(len(all_tiles))]
            found = choose(np, model, times, peer, which, near, most)
            print("  form %d%s: error of costs %.3f; loss %.4f" % (form, "" if kind != "grouped" else ", even" if is_even else ", uneven", np.sqrt(np.mean([n[0] for n in near])), found[3]))
            if best is None or found[3] < best[0]:
                best = found[3], model, found, is_even
    _, model, (chosen, numbers, each, _), is_even = best
    costs = model.costs(chosen, numbers, each)
    picks = costs.argmin(0)
    taken = times[np.array(chosen)[picks], every]
    for half, which in halves:
        tell(np, half + ": what is chosen", (peer / taken)[which])
        tell(np, half + ": the fastest of the chosen", (peer / times[chosen].min(0))[which])
    for name in "even", "experts":
        if name in rows[0] and name == "even":
            for value in 1, 0:
                tell(np, "rows of experts " + ("even" if value else "uneven"), (peer / taken)[[row["even"] == value for row in rows]])
    print("  form %d%s, EACH: programs that a processor runs at a time" % (model.form, "" if kind != "grouped" else ", tiles as if rows were " + ("even" if is_even else "uneven")))
    order = sorted(range(len(chosen)), key=lambda p: -all_tiles[chosen[p]].BM * all_tiles[chosen[p]].BN)
    for p in order:
        named = "".join(", %s = %d" % pair for pair in list(zip(NUMBERS, numbers[p])) + [("EACH", each[p] + 1)])
        print("%s  // taken for %d" % (all_tiles[chosen[p]].config(named), (picks == p).sum()))
    print("  ten worst:")
    for at in np.argsort(peer / taken)[:10]:
        row = rows[at]
        print("    %s: %.3f with %s, the fastest %s %.3f%s" % ("x".join(str(row[n]) for n in ("experts", "M", "N", "K") if n in row), peer[at] / taken[at], all_tiles[chosen[picks[at]]].text,
              all_tiles[times[:, at].argmin()].text, (peer / times.min(0))[at], ", now %.3f" % (row["peer"] / row["now"]) if "now" in row else ""))


def fit(options):
    import numpy as np
    rows = [json.loads(line) for path in options.paths for line in open(path)]
    limits = {"tf32": 10, "i8": 8, "fp8": 12, "fast": 20, "grouped": 8}
    for kind in options.classes.split(","):
        fit_class(np, kind, [row for row in rows if row["kind"] == kind], options.most or limits[kind])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sources", "time", "fit"))
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--seed", help="the measured commit")
    parser.add_argument("--out", default=".", help="where `time` writes")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--classes", default=",".join(KERNELS))
    parser.add_argument("--now", help="a bundle of the kernels to time beside the candidates, with scratch memory")
    parser.add_argument("--most", type=int, default=0, help="configs of a class")
    parser.add_argument("--libkiln", default="build/release/lib/libkiln.so.0")
    options = parser.parse_args()
    options.folder = options.paths[0]
    {"sources": lambda: sources(options.folder), "time": lambda: measure_candidates(options), "fit": lambda: fit(options)}[options.what]()


if __name__ == "__main__":
    sys.exit(main())
