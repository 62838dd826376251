#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ten models (bench/ten_models.py) under torch.compile, forward and backward, by Kiln and by Triton: who launched what, how near the results are, what compiling takes.

bench/torch_models.py PACKAGE FOLDER [--models NAMES] [--only PARTS] [--runs N] [--seconds N] [--limit N] [--steps N] [--device cpu]
bench/torch_models.py --dry-run FOLDER [--models NAMES]      makes small models on the CPU and runs them without torch.compile
bench/torch_models.py --sum FILE... [--kernels]              the tables of several runs; --kernels: and the time of each kernel, with the configs that were chosen

PACKAGE is the folder that has Kiln's Python package `kiln`, with the program kiln in ../bin of it or in PATH. FOLDER gets caches, bundles and models.jsonl, to which
a line of JSON is added for each model as soon as it is done; a model whose line is there is not run again, unless the time of --seconds was over in it. Models run in
the order in which --models names them. Each part is a process of its own with caches of its own:

    kiln     Kiln compiles, with empty caches; KILN_TRITON_SAVE writes a bundle
    bundle   starts from this bundle with miss="error", no cache of Kiln's, empty caches of PyTorch's
    triton   Triton compiles, with empty caches; nothing of Kiln is in the process
    warm     Triton with the caches of the part before

Launches are counted by Kiln's monitor, at the driver by the library that calls it (bench/launches.c, compiled here with cc), and by name in PyTorch's profiler.
Results are gradients and losses, compared with the model in f32. CPU time in compiling is that of the worker processes and of what they start, and of the process
itself while it compiles, finds or loads kernels. With --runs `bundle` and `warm` run so often, in turn; the one with the median first step is kept, and the first
steps of all. With --device cpu the first two parts run small models on the CPU.
"""
import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import bytecode

BENCH = os.path.dirname(os.path.abspath(__file__))
PARTS = ("kiln", "bundle", "triton", "warm")
NAMES = ("llama", "qwen", "bert", "gpt2", "mamba", "resnet", "convnext", "vit", "gemm", "flex")
OURS = {"libkiln.so.0", "_core.abi3.so"}
VENDORS = ("libcublas", "libcudnn")  # whose own kernels PyTorch calls; some of their launches go by the driver


def say(text=""):
    print(text, flush=True)


# ------------------------------------------------------------------------------------ running

class Machine:
    def __init__(self, options):
        self.options, self.folder, self.end = options, os.path.abspath(options.folder), time.monotonic() + options.seconds
        self.package = os.path.abspath(options.package) if options.package else None
        os.makedirs(self.folder, exist_ok=True)
        self.counter = self._counter() if options.device == "cuda" and not options.dry_run else None
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "TORCHINDUCTOR_", "TRITON_", "PYTHONPATH", "LD_PRELOAD"))}
        self.environment = bytecode.found_in(self.environment, self.folder)

    def _counter(self):
        path = os.path.join(self.folder, "launches.so")
        done = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-fPIC", "-shared", "-o", path, os.path.join(BENCH, "launches.c"), "-ldl"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit("launches.c: %s" % done.stdout.decode(errors="replace"))
        return path

    def _of(self, who, name):
        """The environment of a part, with folders that are empty but for those of `warm`."""
        place = os.path.join(self.folder, name, "triton" if who == "warm" else who)
        if who != "warm":
            shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place, exist_ok=True)
        bundle = os.path.join(self.folder, name, "model.kbundle")
        found = {"PYTHONPATH": BENCH, "TORCHINDUCTOR_CACHE_DIR": os.path.join(place, "inductor"), "TRITON_CACHE_DIR": os.path.join(place, "cache")}
        if self.counter:
            found["LD_PRELOAD"] = self.counter
        if who in ("kiln", "bundle"):
            found["PYTHONPATH"] = os.pathsep.join((self.package, BENCH))
        if who == "kiln":
            if os.path.exists(bundle):
                os.unlink(bundle)
            found.update(KILN_TRITON="1", KILN_TRITON_SAVE=bundle, KILN_CACHE_DIR=os.path.join(place, "kiln"))
        if who == "bundle":
            found.update(KILN_TRITON_BUNDLE=bundle, KILN_TRITON_MISS="error", KILN_CACHE_DIR="/proc/none")
        return found

    def run(self, who, name):
        """What the process of a part printed, or {"error": ...}."""
        environment = {**self.environment, **self._of(who, name)}
        compiles = os.path.join(self.folder, name, "compiles." + who)
        if os.path.exists(compiles):
            os.unlink(compiles)
        wishes = {"who": who, "model": name, "device": self.options.device, "small": self.options.device == "cpu", "steps": self.options.steps, "counter": self.counter,
                  "compiles": compiles}
        errors = os.path.join(self.folder, name, who + ".errors")
        with open(errors, "wb") as file:
            process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", "import model_process; model_process.main()", json.dumps(wishes)], stdout=subprocess.PIPE, stderr=file,
                                       env=environment, start_new_session=True)
        begin = time.monotonic()
        try:
            output, _ = process.communicate(timeout=max(1.0, min(self.options.limit, self.end - begin)))
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            if time.monotonic() < self.end:
                return {"error": "not done after %.0f s" % self.options.limit}
            return {"error": "the time of --seconds was over", "is_late": True}
        if process.returncode:
            with open(errors, errors="replace") as file:
                return {"error": "exit %d: %s" % (process.returncode, file.read()[-1500:])}
        return dict(json.loads(output.decode().splitlines()[-1]), process=time.monotonic() - begin)

    def run_again(self, who, name, before):
        """Runs a part once more; the row with the median first step of those that there are now."""
        rows = before.pop("rows", [before]) + [self.run(who, name)]
        rows = [row for row in rows if "error" not in row] or rows
        rows.sort(key=lambda row: row.get("first", 0.0))
        return dict(rows[(len(rows) - 1) // 2], rows=rows)


def read_once(options, environment):
    """Files that a part would wait for the disk for are read, so that the first part is like the others."""
    script = "import torch, triton, os; print(os.path.dirname(triton.__file__)); print(os.path.dirname(torch.__file__)); torch.zeros(1, device=%r)" % options.device
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    if done.returncode:
        sys.exit("PyTorch on %s: %s" % (options.device, done.stderr.decode(errors="replace")[-1500:]))
    for folder in done.stdout.decode().splitlines() + [options.package, os.path.join(options.package, "..", "bin")]:
        for place, _, files in os.walk(folder):
            for name in files:
                if name.endswith(".so") or name in ("ptxas", "ptxas-blackwell", "kiln", "kiln-codegen", "libkiln.so.0"):
                    with open(os.path.join(place, name), "rb") as file:
                        while file.read(1 << 24):
                            pass


# ------------------------------------------------------------------------------------ judging

def total(launches, is_wanted):
    return sum(count for name, count in (launches or {}).items() if is_wanted(name))


def checks(parts):
    """{what is to hold: whether it does} of the parts of a model that there are."""
    found = {}
    for who in ("kiln", "bundle"):
        part = parts.get(who)
        if part is None:
            continue
        if "error" in part:
            found["%s: runs" % who] = False
            continue
        launches, driver = part["monitor"], part["launched"]
        by_kiln = sum(launches[origin] for origin in ("bundle", "cache", "compiled"))
        found["%s: Kiln launched, Triton did not (monitor)" % who] = by_kiln > 0 and launches["triton"] == 0
        if driver is not None:
            is_other = lambda name: name not in OURS and not name.startswith(VENDORS)
            found["%s: nobody but Kiln and NVIDIA's libraries launched (driver)" % who] = total(driver, is_other) == 0
            found["%s: driver and monitor count the same" % who] = total(driver, OURS.__contains__) == by_kiln
        if part["profile"] is not None:
            found["%s: no kernel of Triton's (profiler)" % who] = part["profile"]["triton"]["count"] == 0 < part["profile"]["kiln"]["count"]
        if who == "bundle":
            found["bundle: compiled nothing"] = launches["compiled"] == launches["cache"] == 0
            found["bundle: no launch without code"] = launches["missing"] == 0
            found["bundle: no compiler was started"] = not {"kiln", "kiln-codegen", "ptxas", "cc", "gcc", "clang"} & set(part["programs"])
        theirs = parts.get("triton", {}).get("apart")
        for number, row in enumerate(part["apart"]):
            most = max(row["eager_from_f32"], theirs[number]["from_f32"] if theirs else 0.0)
            found["%s: as near to f32 as Triton or eager, shape %d" % (who, number)] = row["from_f32"] <= 1.25 * most + 1e-6
    theirs = parts.get("triton")
    if theirs is not None:
        found["triton: runs"] = "error" not in theirs
        if "error" not in theirs and theirs["launched"] is not None:
            found["triton: the count at the driver sees its launches"] = total(
                theirs["launched"], lambda name: name not in OURS and not name.startswith(VENDORS)) > 0
    return found


def geomean(values):
    values = [value for value in values if value]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def ratio(a, b):
    return a / b if a is not None and b else None


def text_of(value, form="%.2f"):
    return "-" if value is None else form % value


def table(titles, rows):
    widths = [max(len(str(row[i])) for row in (titles, *rows)) for i in range(len(titles))]
    for row in (titles, *rows):
        say("  ".join(str(one).ljust(width) if i == 0 else str(one).rjust(width) for i, (one, width) in enumerate(zip(row, widths))))
    say()


def by_kernel(part):
    """{Triton's name of a kernel: (launches a step, microseconds a step)}"""
    found = {}
    for name, (count, us) in part["profile"]["kernels"].items():
        name = name[len("kiln_"):] if name.startswith("kiln_") else name
        before = found.get(name, (0, 0.0))
        found[name] = before[0] + count, before[1] + us
    return found


def kernels(lines):
    """Prints where the time of a step goes, kernel by kernel, with the configs that were chosen: the largest differences first."""
    for line in lines:
        parts = {who: part for who, part in line["parts"].items() if part.get("profile") and "kernels" in part["profile"]}
        if "kiln" not in parts or "triton" not in parts:
            continue
        ours, theirs = by_kernel(parts["kiln"]), by_kernel(parts["triton"])
        names = sorted({*ours, *theirs}, key=lambda name: theirs.get(name, (0, 0.0))[1] - ours.get(name, (0, 0.0))[1])
        say(line["model"])
        table(["kernel: us a step", "launches", "kiln", "triton", "difference", "config: kiln", "triton"], [
            [name, "%.0f/%.0f" % (ours.get(name, (0, 0))[0], theirs.get(name, (0, 0))[0]), *("%.1f" % some.get(name, (0, 0.0))[1] for some in (ours, theirs)),
             "%+.1f" % (ours.get(name, (0, 0.0))[1] - theirs.get(name, (0, 0.0))[1]), *(parts[who]["configs"].get(name, "-") for who in ("kiln", "triton"))] for name in names])


def device_us(part):
    return None if not part.get("profile") else sum(part["profile"][kind]["us"] for kind in ("kiln", "triton"))


def summary(lines):
    """Prints the tables; whether every check holds."""
    of = {line["model"]: {who: part for who, part in line["parts"].items() if "error" not in part} for line in lines}
    some = next((part for parts in of.values() for part in parts.values() if "versions" in part), None)
    if some is None:
        for line in lines:
            say("%-9s %s" % (line["model"], line["parts"]))
        return all(all(line["checks"].values()) for line in lines)
    say("%s, %s; gradients in relative distance from the model in f32 (worst of its shapes)\n" % (some["device"], some["versions"]))

    def value(parts, who, *path):
        found = parts.get(who)
        for key in path:
            found = None if found is None else found.get(key)
        return found

    def far(parts, who, key):
        rows = value(parts, who, "apart")
        return None if rows is None else max(row[key] for row in rows)

    rows = []
    for name, parts in of.items():
        driver = {who: value(parts, who, "launched_by_step") for who in PARTS}
        rows.append([name, *("-" if driver[who] is None else "%d/%d" % (total(driver[who], OURS.__contains__), sum(driver[who].values())) for who in ("kiln", "bundle", "triton")),
                     *(text_of(far(parts, who, "from_f32"), "%.2g") for who in ("kiln", "triton")), text_of(far(parts, "kiln", "eager_from_f32"), "%.2g"),
                     *(text_of(far(parts, who, "from_eager"), "%.2g") for who in ("kiln", "triton"))])
    table(["launches a step, Kiln's/all", "kiln", "bundle", "triton", "far: kiln", "triton", "eager", "from eager: kiln", "triton"], rows)

    rows, sums = [], {}
    for name, parts in of.items():
        cpu = {who: value(parts, who, "compiling", "cpu") for who in PARTS}
        first = {who: value(parts, who, "first") for who in PARTS}
        if cpu["kiln"] is not None and cpu["triton"] is not None:
            for key, measured in (("cpu", cpu), ("first", first)):
                for who in ("kiln", "triton"):
                    sums[key, who] = sums.get((key, who), 0.0) + measured[who]
        rows.append([name, *(text_of(cpu[who]) for who in PARTS), text_of(ratio(cpu["kiln"], cpu["triton"])), *(text_of(first[who]) for who in PARTS),
                     *(text_of(ratio(first[a], first[b])) for a, b in (("kiln", "triton"), ("bundle", "warm"), ("triton", "bundle")))])
    if sums:
        rows.append(["sum", *(text_of(sums.get(("cpu", who))) for who in PARTS), text_of(ratio(sums["cpu", "kiln"], sums["cpu", "triton"])),
                     *(text_of(sums.get(("first", who))) for who in PARTS), text_of(ratio(sums["first", "kiln"], sums["first", "triton"])), "", ""])
    table(["CPU s compiling; s to first step", *PARTS, "kiln/triton", *PARTS, "kiln/triton", "bundle/warm", "triton/bundle"], rows)

    rows, ratios = [], {"step": [], "gpu": []}
    for name, parts in of.items():
        step = {who: value(parts, who, "step") for who in PARTS}
        gpu = {who: device_us(parts.get(who, {})) for who in PARTS}
        by_step, by_gpu = ratio(step["kiln"], step["triton"]), ratio(gpu["kiln"], gpu["triton"])
        ratios["step"].append(by_step)
        ratios["gpu"].append(by_gpu)
        rows.append([name, *(text_of(step[who] and 1e3 * step[who], "%.3f") for who in PARTS), text_of(by_step, "%.3f"), *(text_of(gpu[who], "%.0f") for who in ("kiln", "triton")),
                     text_of(by_gpu, "%.3f")])
    rows.append(["geometric mean", *[""] * 4, text_of(geomean(ratios["step"]), "%.3f"), "", "", text_of(geomean(ratios["gpu"]), "%.3f")])
    table(["ms a step; us in these kernels", *PARTS, "kiln/triton", "kiln", "triton", "kiln/triton"], rows)

    rows = [[name, *("%s+%s+%s" % tuple(text_of(value(parts, who, key), "%.1f") for key in ("imports", "driver", "first")) for who in PARTS)] for name, parts in of.items()]
    table(["s: imports + driver + first step", *PARTS], rows)
    for line in lines:
        for who, part in line["parts"].items():
            if "error" in part:
                say("%s, %s: %s" % (line["model"], who, part["error"]))
        for what, good in line["checks"].items():
            if not good:
                say("%s: does NOT hold: %s" % (line["model"], what))
    return all(all(line["checks"].values()) for line in lines)


def read(paths):
    lines = {}
    for path in paths:
        with open(path) as file:
            for line in map(json.loads, file):
                lines[line["model"]] = line
    return [lines[name] for name in NAMES if name in lines]


# ------------------------------------------------------------------------------------ the command

def chosen(text, every, what):
    names = text.split(",") if text else list(every)
    for name in names:
        if name not in every:
            sys.exit("%s: expected some of %s, found '%s'" % (what, ",".join(every), name))
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PACKAGE FOLDER")
    parser.add_argument("--models", default="", help="some of " + ",".join(NAMES))
    parser.add_argument("--only", default="", help="some of " + ",".join(PARTS))
    parser.add_argument("--runs", type=int, default=1, help="of the parts that compile nothing")
    parser.add_argument("--seconds", type=float, default=86400, help="after which a part that runs is ended, and no other begun")
    parser.add_argument("--limit", type=float, default=86400, metavar="N", help="seconds after which one part is ended, and the next begun")
    parser.add_argument("--steps", type=int, default=30, help="that are timed")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--sum", action="store_true", help="the paths are files of lines")
    parser.add_argument("--kernels", action="store_true", help="with --sum: the time of each kernel too")
    options = parser.parse_args()
    if options.sum:
        good = summary(read(options.paths))
        if options.kernels:
            kernels(read(options.paths))
        return 0 if good else 1
    wanted = 1 if options.dry_run else 2
    if len(options.paths) != wanted:
        parser.error("expected %s, found %d paths" % ("FOLDER" if wanted == 1 else "PACKAGE and FOLDER", len(options.paths)))
    options.package, options.folder = ([None] + options.paths)[-2:]
    if options.dry_run:
        options.device = "cpu"
    elif not os.path.exists(os.path.join(options.package, "kiln", "__init__.py")):
        sys.exit("%s: has no package kiln" % options.package)
    models, parts = chosen(options.models, NAMES, "--models"), chosen(options.only, PARTS, "--only")
    if options.dry_run:
        parts = ["eager"]
    elif options.device == "cpu":
        parts = [who for who in parts if who in ("kiln", "bundle")]
    machine = Machine(options)
    path = os.path.join(machine.folder, "models.jsonl")
    done = {line["model"] for line in read([path]) if not any(part.get("is_late") for part in line["parts"].values())} if os.path.exists(path) else set()
    if not options.dry_run:
        read_once(options, machine.environment)
    for name in models:
        if name in done:
            continue
        if time.monotonic() > machine.end:
            say("%s: not begun, the time of --seconds was over" % name)
            continue
        os.makedirs(os.path.join(machine.folder, name), exist_ok=True)
        found = {}
        for who in parts:
            found[who] = machine.run(who, name)
            part = found[who]
            say("%-9s %-7s %s" % (name, who, part.get("error") or ("losses %s" % part["losses"] if who == "eager" else "%.1f s, first step %.2f s, compiling %.2f s of CPU" % (
                part["process"], part["first"], part["compiling"]["cpu"]))))
            if part.get("is_late"):
                break
        for who in [who for _ in range(options.runs - 1) for who in ("bundle", "warm") if who in found and "error" not in found[who]]:
            if time.monotonic() < machine.end:
                found[who] = machine.run_again(who, name, found[who])
        for part in found.values():
            part["firsts"] = [row.get("first") for row in part.pop("rows", [part])]
        holds = {"eager: losses and gradients are numbers": "error" not in found["eager"] and found["eager"]["gradients"]} if options.dry_run else checks(found)
        with open(path, "a") as file:
            file.write(json.dumps({"model": name, "parts": found, "checks": holds}, sort_keys=True) + "\n")
    say()
    good = os.path.exists(path) and summary(read([path]))
    say("checks: %s" % ("all hold" if good else "NOT all hold"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
