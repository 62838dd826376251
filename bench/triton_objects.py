#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processor time from Triton IR to a code object, and spilled registers: Kiln beside Triton, same texts, same machine.

bench/triton_objects.py CASES [--also FOLDER] [--build DIR] [--targets a,b] [--only PART] [--save FILE] [--peer FILE]

CASES holds folders with kernel.ttir and case.json. The texts are a sample of COUNT, drawn with the seed SEED from those of which Triton once made
at least LEAST_PTX bytes of PTX and that hold no PTX or CUDA library calls, which Triton takes for NVIDIA only; the sample is the same wherever the
folders are. Both compilers read the same file with the same warps and stages, caches off.

Time is processor time (user and system, all threads and child processes), so a busy machine matters little. Kiln's is that of a whole process
`kiln compile`, start included; its memo of its tools' identity is warm. Triton's is that of triton.compile in a process that was forked from one
that has compiled before: nothing of its start counts. A pair of text and target where either takes more than 100 ms is measured three times, the two compilers
in turn, and the medians judged; spills (vector and scalar registers, from the code object's own metadata) are judged everywhere.

--also names a folder of further texts, which all count (bench/triton_texts.py makes some). A code object that no device launches, as its block has
more than 1024 threads, counts as refused. --save keeps Triton's figures in a file, --peer takes them from it. Exits with 1 when a bar is not met: RATIO in time, no spill where Triton has none.
"""
import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile

SEED, COUNT, LEAST_PTX = 2026, 60, 20000
RATIO, LEAST_SECONDS, REPEAT, MOST_THREADS = 1.2, 0.1, 3, 1024
SPILLS = (b".vgpr_spill_count", b".sgpr_spill_count")


def facts_of(folder):
    with open(folder + "/case.json") as f:
        return json.load(f)


def is_portable(folder):
    with open(folder + "/kernel.ttir") as f:
        text = f.read()
    return not any(word in text for word in ("extern_elementwise", "inline_asm"))


def texts(cases):
    return sorted(e.path for e in os.scandir(cases) if os.path.exists(e.path + "/kernel.ttir"))


def sample(cases):
    pool = [f for f in texts(cases) if facts_of(f)["ptx_bytes"] >= LEAST_PTX and is_portable(f)]
    return sorted(random.Random(SEED).sample(pool, min(COUNT, len(pool))))


def spills_of(code):
    """(vector, scalar) registers spilled, from the MessagePack of an AMDGPU code object; None for others."""
    found = []
    for key in SPILLS:
        at = code.find(key)
        if at < 0:
            return None
        at += len(key)
        width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(code[at], 0)
        found.append(int.from_bytes(code[at + 1 : at + 1 + width], "big") if width else code[at])
    return tuple(found)


def threads_of(code):
    """Threads of a block of an AMDGPU code object; 0 for others."""
    key = b".max_flat_workgroup_size"
    at = code.find(key) + len(key)
    return int.from_bytes(code[at + 1 : at + 3], "big") if at >= len(key) and code[at] == 0xCD else 0


def seconds_of(whose):
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def own_seconds():
    return seconds_of(resource.RUSAGE_SELF) + seconds_of(resource.RUSAGE_CHILDREN)


class Kiln:
    def __init__(self, build, assembler):
        self.build, self.folder = build, tempfile.mkdtemp()
        self.assembler = ["--ptx-assembler=ptxas", "--assembler-path=" + assembler] if assembler else []

    def compile(self, folder, target):
        facts, out = facts_of(folder), self.folder + "/object"
        command = [self.build + "/bin/kiln", "compile", folder + "/kernel.ttir", "-t", target, "--warps=%d" % facts["num_warps"],
                   "--stages=%d" % facts["num_stages"], "--force", "--cache-dir=" + self.folder + "/cache", "-o", out]
        if target.startswith("sm_"):
            command += self.assembler
        before = seconds_of(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seconds = seconds_of(resource.RUSAGE_CHILDREN) - before
        if done.returncode:
            return {"error": done.stderr.strip().split("\n")[0]}
        with open(out, "rb") as f:
            return {"seconds": seconds, "spills": spills_of(f.read())}


class Triton:
    def __init__(self, warm_up):
        os.environ["TRITON_ALWAYS_COMPILE"] = "1"
        os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
        import triton

        self.triton, self.warm_up, self.warm = triton, warm_up, set()
        self.version = "Triton " + triton.__version__

    def ptxas(self):
        return os.path.join(os.path.dirname(self.triton.__file__), "backends/nvidia/bin/ptxas")

    def run(self, folder, target):
        from triton.backends.compiler import GPUTarget

        facts = facts_of(folder)
        if target.startswith("sm_"):
            gpu = GPUTarget("cuda", int(target[3:].rstrip("af")), 32)
        else:
            gpu = GPUTarget("hip", target, 64 if target.startswith("gfx9") else 32)
        options = {"num_warps": facts["num_warps"], "num_stages": facts["num_stages"]}
        return self.triton.compile(folder + "/kernel.ttir", target=gpu, options=options).asm

    def compile(self, folder, target):
        if target not in self.warm:
            self.warm.add(target)
            self.run(self.warm_up, target)
        out, into = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                before = own_seconds()
                asm = self.run(folder, target)
                seconds = own_seconds() - before
                code = asm.get("hsaco", b"")
                result = {"seconds": seconds, "spills": spills_of(code)}
                if threads_of(code) > MOST_THREADS:
                    result = {"error": "%d threads" % threads_of(code)}
            except BaseException as error:  # noqa: BLE001 - what the peer cannot compile is counted, not hidden
                result = {"error": str(error).split("\n")[0][:100]}
            os.write(into, json.dumps(result).encode())
            os._exit(0)
        os.close(into)
        with os.fdopen(out, "rb") as f:
            text = f.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else {"error": "crashed"}


def median_of(first, more):
    if "error" in first:
        return first
    return {"seconds": statistics.median([first["seconds"]] + [m["seconds"] for m in more]), "spills": first["spills"], "median": True}


def measure(kiln, triton, peers, folder, target):
    """Figures of both, medians in turn where one of them is slow; those of the peer from `peers` where they are there."""
    key = target + " " + os.path.basename(folder)
    peer, ours = peers.get(key), kiln.compile(folder, target)
    known = peer is not None
    if not known:
        peer = triton.compile(folder, target)
    if max(ours.get("seconds", 0), peer.get("seconds", 0)) > LEAST_SECONDS:
        more = [(kiln.compile(folder, target), {} if known or "error" in peer else triton.compile(folder, target)) for _ in range(REPEAT - 1)]
        ours = median_of(ours, [m[0] for m in more])
        if not known:
            peer = median_of(peer, [m[1] for m in more])
    peers[key] = peer
    return ours, peer


def text_of(result):
    if "error" in result:
        return "%9s %7s" % ("fails", "")
    return "%7.0fms %7s" % (1e3 * result["seconds"], "%d+%d" % tuple(result["spills"]) if result["spills"] else "-")


def judge(ours, peer):
    """What of the bars is not met, and the ratio."""
    if "error" in peer:
        return [], None
    if "error" in ours:
        return ["fails"], None
    ratio = ours["seconds"] / peer["seconds"]
    is_slow = max(ours["seconds"], peer["seconds"]) > LEAST_SECONDS and ratio > RATIO
    is_spilling = any(ours["spills"] or ()) and not any(peer["spills"] or ())
    return ["slower"] * is_slow + ["spills"] * is_spilling, ratio


def report(target, rows):
    both = [(k, t) for _, k, t in rows if "error" not in k and "error" not in t]
    heavy = [(k, t) for k, t in both if max(k["seconds"], t["seconds"]) > LEAST_SECONDS]
    print(f"{target}: {len(rows)} texts; Kiln refuses {sum('error' in k for _, k, _ in rows)}, Triton {sum('error' in t for _, _, t in rows)}")
    if not heavy:
        return
    ours, peer = (sum(p[i]["seconds"] for p in heavy) for i in (0, 1))
    ratios = [k["seconds"] / t["seconds"] for k, t in heavy]
    print(f"  {len(heavy)} over {1e3 * LEAST_SECONDS:.0f} ms: Kiln {ours:.1f} s, Triton {peer:.1f} s; ratio of sums {ours / peer:.2f}, median "
          f"{statistics.median(ratios):.2f}, largest {max(ratios):.2f}, over {RATIO}: {sum(r > RATIO for r in ratios)}")
    spilling = [[p for p in both if any(p[i]["spills"] or ())] for i in (0, 1)]
    only = sum(not any(t["spills"]) for _, t in spilling[0])
    print(f"  texts that spill: Kiln {len(spilling[0])}, Triton {len(spilling[1])}, only Kiln {only}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("--also", help="folder of further texts")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--targets", default="gfx90a,gfx942,gfx1100,gfx1201")
    parser.add_argument("--only", default="", help="texts whose name holds this")
    parser.add_argument("--save", help="file for Triton's figures")
    parser.add_argument("--peer", help="file with Triton's figures")
    options = parser.parse_args()
    peers = {}
    if options.peer and os.path.exists(options.peer):
        with open(options.peer) as f:
            peers = json.load(f)
    folders = sample(options.cases) + (texts(options.also) if options.also else [])
    folders = [f for f in folders if options.only in os.path.basename(f)]
    try:
        triton = Triton(min(filter(is_portable, texts(options.cases)), key=lambda f: os.path.getsize(f + "/kernel.ttir")))
    except ImportError:
        sys.exit("Triton is not installed: nothing to compare with")
    kiln = Kiln(options.build, triton.ptxas())
    kiln.compile(folders[0], "gfx942")  # the identity of the tools is known from here on
    print(f"{triton.version}; {len(folders)} texts, seed {SEED}; processor time")
    missed = 0
    for target in options.targets.split(","):
        rows = []
        for folder in folders:
            ours, peer = measure(kiln, triton, peers, folder, target)
            rows.append((folder, ours, peer))
            faults, ratio = judge(ours, peer)
            missed += bool(faults)
            print("%-8s %-58s kiln %s | Triton %s | %s %s" % (target, os.path.basename(folder)[-58:], text_of(ours), text_of(peer),
                                                              "%5.2f" % ratio if ratio else "     ", " ".join(faults)), flush=True)
            if options.save:
                with open(options.save, "w") as f:
                    json.dump(peers, f, indent=0, sort_keys=True)
        report(target, rows)
    print(f"{missed} pairs of text and target miss a bar")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
