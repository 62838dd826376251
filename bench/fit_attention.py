#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The costs by which `attention_general` chooses among its forms: where the numbers of its configs for sm_90a come from.

    bench/fit_attention.py sources FOLDER          kernels/attention.kiln with one form each, as f0.kiln ... f5.kiln
    bench/fit_attention.py time FOLDER --seed HEX [--classes few,prefill,...] [--seconds N] [--libkiln FILE] > times.jsonl
    bench/fit_attention.py fit times.jsonl...

Between the first two each source is built: `kiln build FOLDER/f0.kiln -k attention_general -t sm_90a -o FOLDER/f0.kbundle`. `time` launches all forms for drawn cases (those of
drawn_attention.py), L2 flushed, medians of 7, on an NVIDIA GPU of the Hopper family with PyTorch. `fit` wants NumPy only. It changes one number of one form at a time, and how many
columns leave room for two programs on a processor, as long as that makes the chosen form lose less beside the fastest one (mean of l + 3 l^2, l the logarithm of the ratio) over half
of the cases; the other half tells whether that holds. Cases that the kernel computes in parts are left out. A cost is start + rounds x (round + steps x (step + step_64 x columns /
64)) + elements / result: cost_of_form in kernels/attention.kiln, written again here."""
import argparse
import json
import os
import re
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST, PROCESSORS, PAIRS = 1073741568, 132, (0, 32, 64, 128, 256)
NAMES = ("START", "ROUND", "STEP", "STEP_64", "RESULT")
# The two forms with which `launches` of attention_general compares shares of the keys, with numbers of their own there.
PLAIN = dict(BM=64, BN=64, FORM=1, START=646, ROUND=95, STEP=28, STEP_64=25, RESULT=11000, PAIR=128)
FEW = dict(BM=64, BN=64, FORM=2, START=668, ROUND=32, STEP=29, STEP_64=27, RESULT=22000, PAIR=0)


def kernel_of(text):
    begin = text.index("\nkernel attention_general[")
    return begin, text.index("\n{", begin)


def forms_of(text):
    """The lines of the configs for sm_90a, and their numbers."""
    begin, end = kernel_of(text)
    lines = [line for line in re.findall(r"\n  @config\([^\n]*\)", text[begin:end]) if '"sm_90a"' in line]
    return lines, [dict({"PAIR": 0}, **{k: int(v) for k, v in re.findall(r"(\w+) = (\d+)", line)}) for line in lines]


def sources(folder):
    text = open(os.path.join(ROOT, "kernels", "attention.kiln")).read()
    begin, end = kernel_of(text)
    lines, _ = forms_of(text)
    for i, kept in enumerate(lines):
        head = text[begin:end]
        for line in lines:
            head = head if line == kept else head.replace(line, "", 1)
        with open(os.path.join(folder, "f%d.kiln" % i), "w") as f:
            f.write(text[:begin] + head + text[end:])


def measure_forms(options):
    import torch
    import drawn
    import drawn_attention as attention
    from gpu_common import F32, I32, I64, Kiln, measure
    count = len(forms_of(open(os.path.join(ROOT, "kernels", "attention.kiln")).read())[0])
    forms = [Kiln(options.libkiln, os.path.join(options.folder, "f%d.kbundle" % i)) for i in range(count)]
    rng, sizes, classes, begun, number = drawn.generator(options.seed), attention.head_sizes(forms[0].names()), options.classes.split(","), time.time(), 0
    while time.time() - begun < options.seconds:
        case = attention.draw(rng, classes[number % len(classes)], sizes)
        number += 1
        if attention.work_of(case) > 1 << 40:
            continue
        heads = case["kv_heads"] * case["group"]
        q, k, v = (attention.tensor(case, n, h) for n, h in ((case["rows"], heads), (case["keys"], case["kv_heads"]), (case["keys"], case["kv_heads"])))
        _, o = attention.result(case, case["rows"], heads)
        lse = torch.empty(case["batch"], heads, case["rows"], device="cuda")
        values = (q, k, v, o, lse, *(I32(n) for n in (case["batch"], heads, case["kv_heads"], case["rows"], case["keys"])),
                  *(I64(s) for t in (q, k, v, o) for s in t.stride()[:3]), I32(case["left"]), I32(case["right"]), F32(case["D"] ** -0.5))
        name = "attention_general[T=%s,D=%d]" % (attention.NAMES[case["dtype"]], case["D"])
        times = measure({str(i): form.bind(name, *values, scratch=False) for i, form in enumerate(forms)}, 7)
        print(json.dumps(dict({n: case[n] for n in ("kind", "D", "kv_heads", "group", "batch", "rows", "keys", "left", "right")}, t=times)), flush=True)


def up(a, b):
    return -(-a // b)


def columns(row):
    return 128 if row["D"] == 96 else row["D"]


def features(form, pair, row):
    """What the five numbers of a form are multiplied by."""
    group, heads, left, right = row["group"] if form["FORM"] == 2 else 1, row["kv_heads"] * row["group"], row["left"], row["right"]
    rounds = up(up(row["rows"] * group, form["BM"]) * (heads // group) * row["batch"], PROCESSORS * (1 + (columns(row) <= pair)))
    before = MOST if left < 0 else min(left, MOST)
    place = row["keys"] - row["rows"] // 2 - 1
    if form["FORM"] == 2:
        seen = min(row["keys"], row["rows"] + before)
    elif left < 0 and right < 0:
        seen = row["keys"]
    else:
        seen = min(row["keys"], place + min(MOST if right < 0 else right, row["keys"]) + 1) - max(0, place - before)
        seen = min(row["keys"], max(seen, 1) + form["BM"] // 2)
    steps = up(seen, form["BN"])
    return 1, rounds, rounds * steps, rounds * steps * columns(row) / 64, row["batch"] * heads * row["rows"] * columns(row)


def cost(form, row):
    return sum(x * form[n] if n != "RESULT" else x / form[n] for x, n in zip(features(form, form["PAIR"], row), NAMES))


def goes_in_parts(row):
    """As `launches` of attention_general has it."""
    w, lines = columns(row), row["batch"] * row["kv_heads"] * row["group"] * row["rows"]
    blocks = up(row["rows"] * row["group"], 64) * row["kv_heads"] * row["batch"]
    span = up(up(row["keys"], max(1, min(PROCESSORS * (1 + (w <= 128)) // max(1, blocks), up(row["keys"], 128)))), 64) * 64
    parts = up(row["keys"], span)
    in_parts = 974 + up(blocks * parts, PROCESSORS) * (81 + span // 64 * (13 + 15 * w // 64)) + row["batch"] * row["kv_heads"] * row["keys"] * w // 11000 + lines * w // 1160
    return row["left"] < 0 and parts > 1 and in_parts < min(cost(PLAIN, row), cost(FEW, row)) and lines * parts * row["D"] < MOST


def fit(paths):
    import numpy as np
    _, forms = forms_of(open(os.path.join(ROOT, "kernels", "attention.kiln")).read())
    rows = [json.loads(line) for path in paths for line in open(path)]
    rows = [row for row in rows if not goes_in_parts(row)]
    count, every, rng = len(forms), np.arange(len(rows)), np.random.default_rng(1)
    is_used = np.array([[form["BN"] == 64 or row["D"] < 256 for row in rows] for form in forms])
    times = np.where(is_used, [[row["t"][str(i)] for row in rows] for i in range(count)], np.inf)
    by_pair = np.array([[[features(form, pair, row) for row in rows] for form in forms] for pair in PAIRS])
    pairs = [PAIRS.index(form["PAIR"]) for form in forms]
    numbers = np.array([[form[n] if n != "RESULT" else 1 / form[n] for n in NAMES] for form in forms], float)
    is_chosen_by = rng.random(len(rows)) < 0.5

    def ratios(numbers, pairs):
        costs = np.einsum("ijk,ik->ij", np.stack([by_pair[p, i] for i, p in enumerate(pairs)]), numbers)
        return times[np.where(is_used, costs, np.inf).argmin(0), every] / times.min(0)

    def loss(numbers, pairs):
        l = np.log(ratios(numbers, pairs)[is_chosen_by])
        return (l + 3 * l * l).mean()

    def tell(title):
        for half, which in ("chosen by", is_chosen_by), ("others", ~is_chosen_by):
            r = ratios(numbers, pairs)[which]
            print("%s, %s: %d cases, %.4f of the fastest form's time, tenth worst percentile %.3f, most %.3f" % (title, half, len(r), np.exp(np.log(r).mean()), np.quantile(r, 0.9), r.max()))

    tell("before")
    best, step = loss(numbers, pairs), 0.3
    while step >= 0.008:
        has_changed = False
        tries = [(i, None, k, f) for i in range(count) for k in range(5) for f in (1 + step, 1 / (1 + step))]
        tries += [(i, p, k, f) for i in range(count) for p in range(len(PAIRS)) for k in ([1, 2, 3], [2, 3]) for f in (1, 0.5, 0.6, 0.77, 1.3, 1.7, 2)] if step > 0.02 else []
        for which in rng.permutation(len(tries)):
            i, pair, k, factor = tries[which]
            new, new_pairs = numbers.copy(), list(pairs)
            new[i, k] = new[i, k] * factor + (5 * (factor > 1) * (new[i, k] == 0) if pair is None else 0)
            new_pairs[i] = pairs[i] if pair is None else pair
            found = loss(new, new_pairs)
            if found < best - 1e-7:
                numbers, pairs, best, has_changed = new, new_pairs, found, True
        step = step if has_changed else step / 1.7
    numbers = np.concatenate([np.round(numbers[:, :4]), 1 / np.round(1 / numbers[:, 4:], -2)], 1)
    tell("after")
    for i, form in enumerate(forms):
        print("BM = %d, BN = %d, FORM = %d: " % (form["BM"], form["BN"], form["FORM"]) + ", ".join("%s = %d" % (n, round(x if n != "RESULT" else 1 / x)) for n, x in zip(NAMES, numbers[i])) + ", PAIR = %d" % PAIRS[pairs[i]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sources", "time", "fit"))
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--seed", help="the measured commit")
    parser.add_argument("--classes", default="few,prefill,wide,short,windows")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--libkiln", default="build/release/lib/libkiln.so.0")
    options = parser.parse_args()
    options.folder = options.paths[0]
    {"sources": lambda: sources(options.folder), "time": lambda: measure_forms(options), "fit": lambda: fit(options.paths)}[options.what]()


if __name__ == "__main__":
    sys.exit(main())
