#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What logs of `kiln tune -v` say together: tuned over default, whether runs agree, what a look-up of the nearest shape loses, and beside Triton.

bench/tune_report.py LOG [SECOND_LOG] [--again LOG] [--all LOG] [--triton LOG] [--cost gemm,gemm_batched]     logs of bench/tune.sh and bench/tune_triton.py
Two runs agree where they chose the same, or where their winners are within 2 % of each other when both are measured again in turn (--again; without it, in
both runs' own times). --all: a run that tried every config, in turn with what the first run chose. --cost: kernels whose configs have costs; a shape
that was not measured gets what these choose, so the default.
"""
import argparse
import math
import re

HEAD = re.compile(r"^(\S+)((?: \w+=-?\d+)*): (\S+) ([\d.]+) us(?:, the default|, [\d.]+ x the default (\S+))? \(")
ROW = re.compile(r"^  (\S+) +([\d.]+) us \[")
TRITON = re.compile(r"^triton (\S+)((?: \w+=-?\d+)*): ([\d.]+) us")
COPY = re.compile(r"^copy (\S+)((?: \w+=-?\d+)*): ([\d.]+) us")
LAUNCH_BOUND_US = 10  # shorter ones of Triton are bound by its launch where that is slower than emptying the L2


def key_of(match):
    return match[1], " ".join(sorted(match[2].split()))


def read(path):
    """{(kernel, arguments in order of name): {"best": (config, us), "default": config, "times": {config: us}}}"""
    shapes, at = {}, None
    for line in open(path):
        head, row = HEAD.match(line), ROW.match(line)
        if head:
            at = shapes[key_of(head)] = {"best": (head[3], float(head[4])), "default": head[5] or head[3], "times": {}}
        elif row and at:
            at["times"][row[1]] = float(row[2])
    return shapes


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def numbers(arguments):
    return [int(word.split("=")[1]) for word in arguments.split()]


def bins_away(a, b):
    def place(v):
        return 4 * math.log2(v) if v > 0 else 0
    return sum((place(x) - place(y)) ** 2 for x, y in zip(numbers(a), numbers(b)))


OCTAVE = 16  # squares of bins, of which an octave has four: a launch goes less far


def nearest_loss(shapes, every, by_cost):
    """Each shape by the choice of the nearest other one of its kernel nearer than an octave, else by its default; its time over that of its own choice, the
    worst first. Times are those of `every`."""
    losses = []
    for (kernel, arguments), own in shapes.items():
        times = every.get((kernel, arguments), own)["times"]
        others = [(bins_away(arguments, a), a, s["best"][0]) for (k, a), s in shapes.items() if k == kernel and a != arguments]
        near = [] if kernel.split("[")[0] in by_cost else [config for away, _, config in sorted(others) if away < OCTAVE]
        for config in near + [own["default"]]:
            if config in times and own["best"][0] in times:  # else its @require does not hold, and the next one is taken
                losses.append((times[config] / times[own["best"][0]], kernel, arguments, config))
                break
    return sorted(losses, reverse=True)


def agrees(one, two, judges):
    a, b = one["best"][0], two["best"][0]
    if a == b:
        return True
    return all(a in s["times"] and b in s["times"] and max(s["times"][a], s["times"][b]) <= 1.02 * min(s["times"][a], s["times"][b]) for s in judges)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("logs", nargs="+")
    options.add_argument("--triton")
    options.add_argument("--again")
    options.add_argument("--all")
    options.add_argument("--cost", default="gemm,gemm_batched")
    options = options.parse_args()
    first = read(options.logs[0])
    by_kernel = {}
    for (kernel, _), s in first.items():
        if s["default"] in s["times"]:
            by_kernel.setdefault(kernel.split("[")[0], []).append(s["times"][s["default"]] / s["best"][1])
    for kernel, ratios in sorted(by_kernel.items()):
        print(f"{kernel:12} {len(ratios):2} shapes, tuned over default: {geomean(ratios):.3f}")
    everything = [r for ratios in by_kernel.values() for r in ratios]
    print(f"{'all':12} {len(everything):2} shapes, tuned over default: {geomean(everything):.3f}")
    print(f"found over the best time of all configs: {geomean(min(s['times'].values()) / s['best'][1] for s in first.values() if s['times']):.3f}")
    losses = nearest_loss(first, read(options.all) if options.all else {}, options.cost.split(","))
    if losses:
        worst = losses[0]
        print(f"nearest instead of exact: geomean {geomean(l[0] for l in losses):.3f} x the time, worst {worst[0]:.3f} ({worst[1]} {worst[2]} by {worst[3]})")
    if len(options.logs) > 1:
        second = read(options.logs[1])
        both = [key for key in first if key in second]
        found = [second[key]["best"][1] / second[key]["times"][first[key]["best"][0]] for key in both if first[key]["best"][0] in second[key]["times"]]
        print(f"the first run's choices over the second's best, by the times of the second: {geomean(found):.3f} on {len(found)} shapes")
        again = read(options.again) if options.again else {}
        good = [key for key in both if agrees(first[key], second[key], [again[key]] if key in again else [first[key], second[key]])]
        same = sum(first[key]["best"][0] == second[key]["best"][0] for key in both)
        print(f"two runs agree or tie on {len(good)} of {len(both)} shapes; the same config on {same}")
        for key in both:
            if key not in good:
                times = [again[key]["times"].get(s[key]["best"][0]) for s in (first, second)] if key in again else []
                print(f"  differ: {key[0]} {key[1]}: {first[key]['best']} and {second[key]['best']}{', again ' + str(times) if times else ''}")
    if options.all:
        every = {key: s for key, s in read(options.all).items() if key in first and first[key]["best"][0] in s["times"]}
        shares = {key: min(s["times"].values()) / s["times"][first[key]["best"][0]] for key, s in every.items()}
        worst = min(shares, key=shares.get, default=None)
        print(f"found over the best of all configs, {len(shares)} shapes: {geomean(shares.values()):.3f}{f', least {shares[worst]:.3f} ({worst[0]} {worst[1]})' if worst else ''}")
    if options.triton:
        peers = {key_of(m): float(m[3]) for m in map(TRITON.match, open(options.triton)) if m}
        copies = {key_of(m): float(m[3]) for m in map(COPY.match, open(options.triton)) if m}
        ratios, memory, long, roof = {}, [], [], []
        for key, us in peers.items():
            if key not in first:
                continue
            ours = first[key]["best"][1]
            ratios.setdefault(key[0].split("[")[0], []).append(us / ours)
            if key not in copies:
                continue
            memory.append(us / ours)
            if ours >= LAUNCH_BOUND_US:
                long.append(us / ours)
                roof.append((copies[key] / ours, copies[key] / us))
        for kernel, r in sorted(ratios.items()):
            print(f"{kernel:12} {len(r):2} shapes, Triton's autotuned time over ours: {geomean(r):.3f}, {min(r):.3f} to {max(r):.3f}")
        if long:
            print(f"memory-bound {len(memory):2} shapes, Triton's autotuned time over ours: {geomean(memory):.3f}; of the {len(long)} that take {LAUNCH_BOUND_US} us or more "
                  f"{geomean(long):.3f}, {min(long):.3f} to {max(long):.3f}")
            print(f"  these {len(long)}: a copy of as many bytes by the device over ours {geomean(r[0] for r in roof):.3f}, over Triton's {geomean(r[1] for r in roof):.3f}")


if __name__ == "__main__":
    main()
