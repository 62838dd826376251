#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions of the inner loops with matrix instructions on AMD processors: the same Triton IR by Kiln and by Triton.

bench/amd_loops.py [--kiln FILE] [--targets a,b] [--drawn SEED [--count N]] [--only TEXT] [--objdump FILE] [--keep FOLDER] [--cases FOLDER] [--classes] [--peer FILE]

No GPU is needed: both make code objects, which are disassembled. A hot loop is an innermost loop that holds matrix instructions; what counts is the
instructions of all hot loops of a kernel, as they stand, per floating-point operation of their matrix instructions. Shown per 8192 operations (one 16x16x16
product by one wave): Kiln's, Triton's, and Kiln's divided by Triton's; below, the geometric mean of each target and of all. Several waves may multiply the same
part of a small tile, which makes operations that nobody needs: `step` is, of a product, Kiln's instructions divided by Triton's where each one's loop loads one
step of the tile, however many operations it takes. `!` marks what must not be: spills, scratch in the kernel, a product without matrix instructions, shared
memory read or written in pieces of less than 16 bytes only.

The kernels are below; --drawn draws N others (20) from the whole space of tiles, types, layouts, warps and stages: three products to one attention. Integers are multiples of 16, pointers aligned and within 2 GiB, which both compilers are told as Triton tells them on AMD.
--cases adds recorded kernels (folders with kernel.ttir and case.json) that hold tt.dot.
--classes prints the instructions of a loop by class. --peer keeps Triton's figures in a file, and takes them from it.
"""
import argparse
import collections
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

import triton
import triton.language as tl

from triton_products import gemm

TARGETS = "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"
UNIT = 8192


@triton.jit
def attention(q, k, v, o, scale, S, row, head, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    start, base = tl.program_id(0), tl.program_id(1) * head
    rows, d, columns = start * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    x = tl.load(q + base + rows[:, None] * row + d[None, :])
    pk = k + base + columns[None, :] * row + d[:, None]
    pv = v + base + columns[:, None] * row + d[None, :]
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    unit = scale * 1.4426950408889634
    for n in tl.range(0, start * BM if CAUSAL else S, BN):
        s = tl.dot(x, tl.load(pk))
        t = tl.maximum(top, tl.max(s, 1) * unit)
        p = tl.math.exp2(s * unit - t[:, None])
        fade = tl.math.exp2(top - t)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(pv), acc * fade[:, None])
        top = t
        pk += BN * row
        pv += BN * row
    if CAUSAL:
        for n in tl.range(start * BM, (start + 1) * BM, BN):
            s = tl.dot(x, tl.load(pk))
            s = s * unit + tl.where(rows[:, None] >= n + columns[None, :], 0, -1.0e6)
            t = tl.maximum(top, tl.max(s, 1))
            p = tl.math.exp2(s - t[:, None])
            fade = tl.math.exp2(top - t)
            total = total * fade + tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype.element_ty), tl.load(pv), acc * fade[:, None])
            top = t
            pk += BN * row
            pv += BN * row
    tl.store(o + base + rows[:, None] * row + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


def kernels():
    """name -> (function, types of the arguments, constants, warps, stages)"""
    out = {}
    for kind, sum_type, shapes in (
        ("fp16", tl.float32, ((128, 128, 64, 4), (128, 128, 32, 8), (256, 128, 64, 8), (64, 64, 32, 4))),
        ("bf16", tl.float32, ((128, 128, 64, 4), (128, 64, 64, 4))),
        ("i8", tl.int32, ((128, 128, 64, 4),)),
    ):
        for BM, BN, BK, warps in shapes:
            for BT in (True, False) if kind != "i8" else (True,):
                types = ["*" + kind] * 2 + ["*i32" if kind == "i8" else "*" + kind] + ["i32"] * 6
                constants = dict(BM=BM, BN=BN, BK=BK, GROUP=8, BT=BT, SUM=sum_type)
                out["gemm %s %s %dx%dx%d w%d" % (kind, "NT" if BT else "NN", BM, BN, BK, warps)] = (gemm, types, constants, warps, 2)
    for kind, D, causal in ("fp16", 64, False), ("fp16", 64, True), ("fp16", 128, False), ("bf16", 128, True):
        constants = dict(D=D, BM=128, BN=64 if D == 64 else 32, CAUSAL=causal)
        out["attention %s D%d %s w4" % (kind, D, "causal" if causal else "full")] = (attention, ["*" + kind] * 4 + ["fp32"] + ["i32"] * 3, constants, 4, 2)
    return out


def drawn(seed, count):
    """The same for tiles that are drawn; a sum has at most 128 registers a lane in waves of 64, and both operands of a step fit 64 KB twice."""
    r, out = random.Random(seed), {}
    while len(out) < count:
        warps, stages = r.choice((2, 4, 8)), r.choice((1, 2, 2, 3))
        if r.random() < 0.25:
            kind, D, BM, BN, causal = r.choice(("fp16", "bf16")), r.choice((32, 64, 128)), r.choice((64, 128)), r.choice((32, 64)), r.random() < 0.5
            if warps > 2 and BM * max(D, BN) <= 128 * 64 * warps:
                out["attention %s D%d %dx%d %s w%d s%d" % (kind, D, BM, BN, "causal" if causal else "full", warps, stages)] = (
                    attention, ["*" + kind] * 4 + ["fp32"] + ["i32"] * 3, dict(D=D, BM=BM, BN=BN, CAUSAL=causal), warps, stages)
            continue
        kind, BM, BN, BK, BT = r.choice(("fp16", "bf16", "i8")), 32 << r.randrange(4), 32 << r.randrange(4), 32 << r.randrange(3), r.random() < 0.5
        if BM * BN > 128 * 64 * warps or BM * BN < 16 * 16 * warps or (BM + BN) * BK * (1 if kind == "i8" else 2) > 32768:
            continue
        types = ["*" + kind] * 2 + ["*i32" if kind == "i8" else "*" + kind] + ["i32"] * 6
        out["gemm %s %s %dx%dx%d w%d s%d" % (kind, "NT" if BT else "NN", BM, BN, BK, warps, stages)] = (
            gemm, types, dict(BM=BM, BN=BN, BK=BK, GROUP=8, BT=BT, SUM=tl.int32 if kind == "i8" else tl.float32), warps, stages)
    return out


# ------------------------------------------------------------------------------------------------------------------------------------------ disassembly


def shape_of(name):
    found = re.match(r"v_s?w?mf?ma\w*?_(\d+)x(\d+)x(\d+)", name)
    return 2 * math.prod(map(int, found.groups())) if found else 0


def class_of(name):
    if shape_of(name):
        return "matrix"
    for prefix, what in (("ds_", None), ("buffer_", None), ("global_", None), ("flat_", "flat"), ("scratch_", "scratch"), ("v_accvgpr", "accvgpr"),
                         ("s_wait", "wait"), ("s_barrier", "barrier"), ("s_nop", "wait"), ("s_delay", "wait"), ("v_", "vector"), ("s_", "scalar")):
        if name.startswith(prefix):
            break
    else:
        return "other"
    if what:
        return what
    width = re.search(r"(b8|b16|b32|b64|b96|b128|dwordx?\d?|ubyte|ushort|short|u8|u16)\w*$", name)
    bits = {"dword": "32", "dwordx2": "64", "dwordx3": "96", "dwordx4": "128", "ubyte": "8", "u8": "8", "ushort": "16", "short": "16", "u16": "16"}
    number = bits.get(width.group(1), width.group(1)[1:]) if width else "?"
    if "2addr" in name or "read2" in name or "write2" in name:
        number = "2x" + number
    if prefix == "ds_":
        return "%s %s" % ("lds write" if "write" in name or "store" in name else "lds read" if "read" in name or "load" in name else "lds other", number)
    return "%s %s" % ("store" if "store" in name else "load" if "load" in name else "memory other", number)


class Loop:
    def __init__(self, lines):
        self.names = [name for _, name, _ in lines]
        self.operations = sum(map(shape_of, self.names))
        self.classes = collections.Counter(map(class_of, self.names))

    def facts(self):
        return {"count": len(self.names), "operations": self.operations, "classes": dict(self.classes)}


def disassemble(objdump, code):
    """Instructions of the code object's kernels: (address, name, target of a branch or None)"""
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    out, start = [], 0
    for line in text.split("\n"):
        head = re.match(r"([0-9a-f]+) <", line)
        if head:
            start = int(head.group(1), 16)
            continue
        found = re.match(r"\s+(\S+).*// ([0-9A-F]+):", line)
        if not found:
            continue
        target = re.search(r"<[^>]*?(?:\+0x([0-9a-f]+))?>\s*$", line) if found.group(1).startswith(("s_cbranch", "s_branch")) else None
        out.append((int(found.group(2), 16), found.group(1), start + int(target.group(1) or "0", 16) if target else None))
    return out


def hot_loops(instructions):
    """Innermost loops with matrix instructions: from the target of a backward branch to the last branch to it."""
    index = {address: i for i, (address, _, _) in enumerate(instructions)}
    spans = {}
    for i, (address, _, target) in enumerate(instructions):
        if target is not None and target <= address and target in index:
            spans[index[target]] = i
    inner = [(a, b) for a, b in spans.items() if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans.items())]
    loops = [Loop(instructions[a : b + 1]) for a, b in sorted(inner)]
    return [l for l in loops if l.operations]


def metadata(code, key):
    at = code.find(key)
    if at < 0:
        return 0
    at += len(key)
    width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(code[at], 0)
    return int.from_bytes(code[at + 1 : at + 1 + width], "big") if width else code[at]


def look(objdump, path):
    with open(path, "rb") as f:
        code = f.read()
    loops = hot_loops(disassemble(objdump, path))
    return {"loops": [l.facts() for l in loops],
            "spills": metadata(code, b".vgpr_spill_count") + metadata(code, b".sgpr_spill_count"), "scratch": metadata(code, b".private_segment_fixed_size")}


# -------------------------------------------------------------------------------------------------------------------------------------------- compilers


def hip(target):
    from triton.backends.compiler import GPUTarget

    return GPUTarget("hip", target, 64 if target.startswith("gfx9") else 32)


def text_of(fn, types, constants, warps, stages, target):
    from triton.compiler import ASTSource

    names = fn.arg_names
    signature = {n: types[i] if i < len(types) else "constexpr" for i, n in enumerate(names)}
    facts = {(i,): [["tt.divisibility", 16]] + ([["tt.pointer_range", 32]] if t[0] == "*" else []) for i, t in enumerate(types) if t[0] in "*i"}
    source = ASTSource(fn, signature, {(names.index(n),): v for n, v in constants.items()}, facts)
    return triton.compile(source, target=hip(target), options={"num_warps": warps, "num_stages": stages}).asm["ttir"]


def by_triton(o, text, warps, stages, target, out):
    try:
        made = triton.compile(text, target=hip(target), options={"num_warps": warps, "num_stages": stages})
    except Exception as error:  # whatever a compiler raises
        return {"error": str(error).strip().split("\n")[0][:100] or type(error).__name__}
    with open(out, "wb") as f:
        f.write(made.asm["hsaco"])
    return look(o.objdump, out)


def by_kiln(o, source, options, target, out):
    command = [o.kiln, "compile", source, "-t", target, "--force", "-o", out] + options
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return {"error": done.stderr.strip().split("\n")[0][:100]} if done.returncode else look(o.objdump, out)


# ---------------------------------------------------------------------------------------------------------------------------------------------- figures


def density(found):
    """Instructions per UNIT operations."""
    operations = sum(l["operations"] for l in found["loops"])
    return UNIT * sum(l["count"] for l in found["loops"]) / operations if operations else None


def instructions_of_step(found, what, lanes):
    """Of the hot loop of a product; None: it does not load one step of the tile once."""
    constants, warps = what[2], what[3]
    if "BK" not in constants or len(found["loops"]) != 1:
        return None
    element = 1 if what[1][0] == "*i8" else 2
    loaded = sum(int(k.split()[1]) // 8 * n for k, n in found["loops"][0]["classes"].items() if k.startswith("load "))
    return found["loops"][0]["count"] if loaded * lanes * warps == (constants["BM"] + constants["BN"]) * constants["BK"] * element else None


def marks(found):
    out = ["%d spills" % found["spills"]] * bool(found["spills"]) + ["%d bytes of scratch" % found["scratch"]] * bool(found["scratch"])
    if not found["loops"]:
        out.append("no matrix instructions")
    for i, l in enumerate(found["loops"]):
        shared = [k for k in l["classes"] if k.startswith(("lds read", "lds write"))]
        if shared and not any(k.endswith(" 128") or k.endswith("2x64") for k in shared):
            out.append("loop %d: no 16-byte access" % i)
    return out


def classes_text(found):
    for l in found["loops"]:
        yield "%d for %d: %s" % (l["count"], l["operations"], ", ".join("%d %s" % (n, k) for k, n in sorted(l["classes"].items(), key=lambda x: -x[1])))


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def show(o, name, target, what, ours, theirs):
    """Ratios of instructions per operation and of a step."""
    found = [x for x in (ours, theirs) if x and "error" not in x]
    a, b = (density(x) if x and "error" not in x else None for x in (ours, theirs))
    steps = [instructions_of_step(x, what, 64 if target.startswith("gfx9") else 32) for x in found] if what else []
    ratio = a / b if a and b else None
    step = steps[0] / steps[1] if len(steps) == 2 and all(steps) else None
    number = lambda x: "%8.2f" % x if x else "       -"
    note = ours["error"] if "error" in ours else "; ".join("! " + m for m in marks(ours))
    print("%-42s %-8s %s %s %s %s  %s" % (name, target, number(a), number(b), *("%6.2f" % x if x else "     -" for x in (ratio, step)), note), flush=True)
    for who, x in (("kiln", ours), ("triton", theirs)):
        for line in classes_text(x) if o.classes and x and "error" not in x else ():
            print("    %-6s %s" % (who, line))
    return ratio, step


def recorded(folder):
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        path = entry.path + "/kernel.ttir"
        if not os.path.exists(path):
            continue
        with open(path) as f:
            text = f.read()
        if "tt.dot " in text and "inline_asm" not in text and "extern_elementwise" not in text:
            with open(entry.path + "/case.json") as f:
                facts = json.load(f)
            yield entry.name[:42], path, facts["num_warps"], facts["num_stages"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--objdump", default="llvm-objdump-22")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--drawn", metavar="SEED")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    parser.add_argument("--cases")
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--peer")
    o = parser.parse_args()
    folder = o.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    peers = json.load(open(o.peer)) if o.peer and os.path.exists(o.peer) else {}
    ratios, steps, failed = collections.defaultdict(list), collections.defaultdict(list), False
    targets = o.targets.split(",")
    rows = [(name, None, what[3], what[4], what) for name, what in (drawn(o.drawn, o.count) if o.drawn else kernels()).items()]
    rows += [(name, path, warps, stages, None) for name, path, warps, stages in (recorded(o.cases) if o.cases else ())]
    print("%-42s %-8s %8s %8s %6s %6s" % ("", "", "Kiln", "Triton", "ratio", "step"))
    for name, path, warps, stages, what in rows:
        if o.only not in name:
            continue
        base = folder + "/" + re.sub(r"\W", "_", name)
        for target in targets:
            text, key = path or "%s.%s.ttir" % (base, target), "%s %s" % (name, target)
            if what and not os.path.exists(text):
                with open(text, "w") as f:
                    f.write(text_of(*what, target))
            if key not in peers:
                peers[key] = by_triton(o, text, warps, stages, target, "%s.%s.triton" % (base, target))
            ours = by_kiln(o, text, ["--warps=%d" % warps, "--stages=%d" % stages], target, "%s.%s.kiln" % (base, target))
            ratio, step = show(o, name, target, what, ours, peers[key])
            failed |= "error" in ours or bool(marks(ours) and not marks(peers[key]))
            if ratio:
                ratios[target].append(ratio)
            if step:
                steps[target].append(step)
    for target, all_of in list(ratios.items()):
        print("%-42s %-8s %24.3f  of %d%s" % ("geometric mean", target, mean(all_of), len(all_of),
                                              "; steps %.3f of %d" % (mean(steps[target]), len(steps[target])) if steps[target] else ""))
    total = mean([r for all_of in ratios.values() for r in all_of])
    print("%-42s %-8s %24.3f" % ("geometric mean", "all", total))
    if o.peer:
        with open(o.peer, "w") as f:
            json.dump(peers, f)
    sys.exit(failed or total > 1)


if __name__ == "__main__":
    main()
