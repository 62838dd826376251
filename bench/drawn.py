# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the benches of drawn cases share: a seed of the measured commit, sizes drawn on a logarithmic scale, arrays with canaries (outputs) or NaNs
(inputs) around them, a case that is checked, timed next to its peers and entered, and the table at the end. Needs PyTorch."""
import argparse
import math
import random

import torch

from gpu_common import geomean, measure
from canary import AROUND, Tensor

SHORT = 5e-6  # seconds: cases whose best peer takes less are summed up apart


def generator(seed):
    """The generator of a commit: of the first eight hex digits of its name."""
    number = int(seed[:8], 16)
    torch.manual_seed(number)
    print("seed %08x" % number)
    return random.Random(number)


def arguments(text, cases, reps=7):
    """What the benches of products and attention take; they add to it."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--seed", required=True, help="the measured commit")
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--libkiln", default="build/release/lib/libkiln.so.0")
    parser.add_argument("--old", help="a bundle to time next to it")
    parser.add_argument("--reps", type=int, default=reps)
    parser.add_argument("--seconds", type=float, default=240, help="stop drawing after so many")
    return parser


def log_uniform(draw, low, high):
    return min(high, int(math.exp(draw.uniform(math.log(low), math.log(high + 1)))))


def output(shape, dtype, value=None, pitch=None):
    """A tensor between canaries, full of NaNs (integers: of 85), its rows `pitch` elements apart, with canaries between; `around(tensor)` looks at them."""
    if value is None:
        value = float("nan") if dtype.is_floating_point else 85
    surrounded = Tensor(torch, shape, dtype, "cuda", value, pitch)
    tensor = surrounded.tensor
    del surrounded.tensor  # which keeps the other, not both each other
    tensor.surrounded = surrounded
    return tensor


def given(values):
    """A copy of an input between bytes of 0xff, which are NaNs, or -1."""
    block = torch.full((2 * AROUND + values.numel() * values.element_size(),), 255, dtype=torch.uint8, device="cuda")
    copy = block[AROUND:AROUND + values.numel() * values.element_size()].view(values.dtype).view(values.shape)
    return copy.copy_(values)


def given_rows(shape, dtype, pitch):
    """Rows of N(0, 1) that are `pitch` elements apart, NaNs before, after and between them."""
    rows, columns = shape
    block = torch.full((2 * AROUND + rows * pitch * dtype.itemsize,), 255, dtype=torch.uint8, device="cuda")
    matrix = block[AROUND:AROUND + rows * pitch * dtype.itemsize].view(dtype).view(rows, pitch)[:, :columns]
    return matrix.normal_()


def around(tensors):
    """What was written around these outputs, "" for nothing."""
    return "; ".join(text for text in (t.surrounded.check("output %d" % i) for i, t in enumerate(tensors)) if text)


def wrong(found, wanted, bound, floor=0):
    """Why `found` isn't `wanted` (f64), "" if it is: |difference| <= bound * (|wanted| + the largest |wanted| of its row + floor)."""
    found, wanted = found.double(), wanted.double()
    if torch.isnan(found).any():
        return "%d of %d elements are NaN or were not written" % (torch.isnan(found).sum().item(), found.numel())
    scale = wanted.abs()
    room = scale + (scale.amax(-1, keepdim=True) if scale.dim() > 1 else scale.max()) + floor
    excess = (found - wanted).abs() / (room * bound).clamp_min(1e-30)
    worst = excess.max().item()
    return "" if worst <= 1 else "%d of %d elements are wrong, the worst by %.3g times of what is allowed" % ((excess > 1).sum().item(), excess.numel(), worst)


class Case:
    """title, kernel; ours, old: functions that launch (old: of another bundle, or None); peers: name to function; bytes: that must move, 0: not compared with a copy;
    outputs: tensors of `output`; checks: (tensor or function of one, function of the f64 reference, bound and perhaps floor of `wrong`); verify: a further check, "" if all is
    right; reset: what has to happen before the result of a launch counts; groups: names of lines of the table that count the case."""

    def __init__(self, title, kernel, ours, old, peers, size, outputs, checks, reset=lambda: None, groups=(), verify=lambda: ""):
        self.title, self.kernel, self.ours, self.old, self.peers, self.bytes = title, kernel, ours, old, peers, size
        self.outputs, self.checks, self.reset, self.groups, self.verify = outputs, checks, reset, groups, verify


class Table:
    """Judges cases one after the other and prints the table."""

    def __init__(self, reps):
        self.reps, self.rows, self.failures, self.old_failures, self.peer_failures = reps, [], [], [], []

    def judge(self, case):
        case.reset()
        try:
            case.ours()
            torch.cuda.synchronize()
        except RuntimeError as e:
            return self.fail(case, str(e))
        for found, reference, *limits in case.checks:
            text = wrong(found() if callable(found) else found, reference(), *limits)
            if text:
                return self.fail(case, text)
        text = around(case.outputs) or case.verify()
        if text:
            return self.fail(case, text)
        jobs = dict(self.running(case))
        if case.bytes:
            source, target = (torch.empty(max(1, case.bytes // 2), dtype=torch.int8, device="cuda") for _ in range(2))
            jobs["copy"] = lambda: target.copy_(source)
        times = measure(jobs, self.reps)
        ours, copy, old = times["kiln"], times.get("copy", 0), times.get("old")
        peers = {name: t for name, t in times.items() if name not in ("kiln", "copy", "old")}
        if not peers:
            return self.fail(case, "no peer runs")
        best = min(peers, key=peers.get)
        row = dict(case=case.title, kernel=case.kernel, bytes=case.bytes, ours=ours, peer=peers[best], name=best, ratio=peers[best] / ours, copy=copy / ours, old=old,
                   groups=case.groups)
        self.rows.append(row)
        print(self.words(row) + ("; old %.1f us (%.2f of now)" % (old * 1e6, old / ours) if old else ""), flush=True)

    @staticmethod
    def words(row):
        of_copy = "; of copy %.3f" % row["copy"] if row["copy"] else ""
        return "%s  %8.1f us, %s %.1f: %.3f%s" % (row["case"], row["ours"] * 1e6, row["name"], row["peer"] * 1e6, row["ratio"], of_copy)

    def running(self, case):
        """The jobs that run: a peer or the old bundle may refuse a case."""
        yield "kiln", case.ours
        for name, job in list(case.peers.items()) + ([("old", case.old)] if case.old else []):
            try:
                job()
                torch.cuda.synchronize()
            except Exception as e:  # compilers of peers raise anything
                (self.old_failures if name == "old" else self.peer_failures).append((case.title, "%s: %s" % (name, str(e).split("\n")[0][:200])))
                continue
            yield name, job

    def fail(self, case, text):
        self.failures.append((case.title, text))
        print("%s  FAILED: %s" % (case.title, text), flush=True)

    def line(self, title, rows):
        if not rows:
            return
        ratios = sorted(r["ratio"] for r in rows)
        text = "%-34s %3d cases: geomean %.3f, tenth percentile %.3f, least %.3f" % (title, len(rows), geomean(ratios), ratios[len(ratios) // 10], ratios[0])
        olds = sorted(r["peer"] / r["old"] for r in rows if r["old"])
        print(text + ("; old %d cases: %.3f, %.3f, %.3f" % (len(olds), geomean(olds), olds[len(olds) // 10], olds[0]) if olds else ""))

    def worst(self, title, rows):
        print("\nten worst%s:" % title)
        for r in sorted(rows, key=lambda r: r["ratio"])[:10]:
            print("  " + self.words(r))

    def end(self, separate=()):
        """Prints the table, with the ten worst of all or of each of the groups `separate`; the number of failed cases."""
        print("\n%s, PyTorch %s; ratios: best peer's time / ours" % (torch.cuda.get_device_name(0), torch.__version__))
        long = [r for r in self.rows if r["peer"] >= SHORT]
        large = [r for r in long if r["bytes"] >= 64 << 20]
        self.line("all of at least 5 us", long)
        for group in sorted({g for r in self.rows for g in r["groups"]}):
            self.line("  " + group, [r for r in long if group in r["groups"]])
        self.line("the peer takes less than 5 us", [r for r in self.rows if r["peer"] < SHORT])
        for kernel in sorted({r["kernel"] for r in self.rows}):
            self.line("  " + kernel, [r for r in self.rows if r["kernel"] == kernel])
        if large:
            good = [r for r in large if r["copy"] >= 0.92 or r["ratio"] >= 1]
            print("64 MB and more: %d of %d have 0.92 of the copy's bandwidth or the best peer's time" % (len(good), len(large)))
        for group in separate:
            self.worst(", " + group, [r for r in long if group in r["groups"]])
        if not separate:
            self.worst("", long)
        for title, rows in ("failed", self.failures), ("refused or failed in the old bundle", self.old_failures), ("of peers", self.peer_failures):
            print("\n%s: %d" % (title, len(rows)))
            for case, text in rows:
                print("  %s: %s" % (case, text))
        return len(self.failures)
