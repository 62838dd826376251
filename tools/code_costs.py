# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a piece of code costs a GPU: registers, spilled bytes, shared memory, instructions. For same-code.py --costs.

PTX is assembled by ptxas; where that is not installed, or does not know the processor, there is no answer. AMD's objects say
it in their metadata. Instructions are all of the kernel, padding too.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile

NAMES = ("registers", "spilled", "shared", "instructions")
SASS_BYTES = 16  # of an instruction, from sm_70 on


def output_of(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode("utf-8", "replace") if not done.returncode else ""


def tool(name, version):
    return shutil.which("%s-%s" % (name, version)) or shutil.which(name)


def of_ptx(path, target, version):
    if not shutil.which("ptxas"):
        return None
    said = output_of("ptxas", "-v", "-arch=" + target, path, "-o", path + ".cubin")
    found = re.search(r"Used (\d+) registers", said)
    if not found:
        return None
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    shared = re.search(r"(\d+) bytes smem", said)
    sections = output_of(tool("llvm-readelf", version), "-SW", path + ".cubin")
    text = re.search(r"\.text\.\S+\s+PROGBITS\s+\S+\s+\S+\s+([0-9a-f]+)", sections)
    return (int(found[1]), int(spilled[1]) + int(spilled[2]) if spilled else 0, int(shared[1]) if shared else 0,
            int(text[1], 16) // SASS_BYTES if text else 0)


def of_hsaco(path, target, version):
    notes = output_of(tool("llvm-readelf", version), "--notes", path)
    number = lambda name: sum(map(int, re.findall(r"\.%s:\s+(\d+)" % name, notes)))
    code = output_of(tool("llvm-objdump", version), "-d", "--no-show-raw-insn", "--no-leading-addr", path)
    instructions = sum(line.startswith("\t") for line in code.splitlines())
    return (number("vgpr_count"), number("private_segment_fixed_size"), number("group_segment_fixed_size"), instructions) if notes else None


def costs(stage, target, code, version):
    """In the order of NAMES; None: unknown."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "code")
        with open(path, "wb") as f:
            f.write(code)
        return of_ptx(path, target, version) if stage == "ptx" else of_hsaco(path, target, version)


def compare(pairs, version, jobs):
    """Prints what changed. `pairs`: (name, stage, target, code before, code now)."""
    sums, worse = [[0, 0] for _ in NAMES], [0] * len(NAMES)
    better, unknown = [0] * len(NAMES), 0

    def both(pair):
        return [costs(pair[1], pair[2], code, version) for code in pair[3:]]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for pair, (before, now) in zip(pairs, pool.map(both, pairs)):
            if not before or not now:
                unknown += 1
                continue
            for i in range(len(NAMES)):
                sums[i][0] += before[i]
                sums[i][1] += now[i]
                worse[i] += now[i] > before[i]
                better[i] += now[i] < before[i]
            if before != now:
                print("costs: %s: %s" % (pair[0], ", ".join("%s %d -> %d" % (n, a, b) for n, a, b in zip(NAMES, before, now) if a != b)))
    for i, name in enumerate(NAMES):
        print("costs of what differs: %s %d -> %d, more in %d, less in %d" % (name, *sums[i], worse[i], better[i]))
    print("costs: %d differ, %d of them unknown" % (len(pairs), unknown))
