#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs recorded cases of Triton IR, compiled for AMDGPU, on an emulator and holds the memory against the recording.

  KILN_BUILD=build/release KILN_AMD_EMULATOR=<tree> KILN_AMDRUN=<amdrun.py> tests/emulation/cases.py CASES [--count=40] [--workers=2] [--targets=gfx1100,gfx942] [part of a name...]

CASES: a folder with one folder a case (kernel.ttir, case.json, in*.bin, out*.bin; those that `kiln check-case` takes). For the two variables see
emulate.py; without them everything is skipped, and it says so. --count cases are chosen, evenly over the collections and over the kernels of
each; parts of names choose all eligible cases of those names instead. Workgroups and waves run forward and, where that was quick, backward with
another poison in undefined registers and memory: both results must fit the recording. Every buffer stands against pages without access, and
buffers that were not to change are compared too.
What passes here is emulated; no AMD hardware has run it. Needs nothing besides the standard library.
"""
import concurrent.futures, json, math, os, re, signal, struct, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
import emulator as corrected
from emulate import AMDRUN, BUILD, EMULATOR, fp8_value

MOST_WARPS, MOST_BYTES, MOST_SECONDS = 128, 1 << 20, 150   # what the emulator does in seconds: warps of the whole grid, bytes of all buffers
QUICK_SECONDS = 8.0                                        # a run not longer than this is repeated with workgroups backward

# Shares of the larger of a value and the buffer's mean size, as `kiln check-case` has them; all else must be equal.
TOLERANCES = {"f64": 1e-9, "f32": 1e-3, "f16": 5e-3, "bf16": 3e-2, "e4m3": 0.13, "e5m2": 0.26}
COARSE_F32 = 1e-2   # f32 results of products of operands of less than 32 bits
ELEMENTS = {"torch.float64": "f64", "torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float8_e4m3fn": "e4m3",
            "torch.float8_e5m2": "e5m2", "*fp64": "f64", "*fp32": "f32", "*fp16": "f16", "*bf16": "bf16", "*fp8e4nv": "e4m3", "*fp8e5": "e5m2"}
SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "byte": 1}
NUMBERS = {"fp64": "<d", "fp32": "<f", "f32": "<f", "fp16": "<e"}   # by_value arguments that are floats; the others are integers


class Failure(Exception): pass


# ------------------------------------------------------------------------------------------------------------------------ case
class Case:
    def __init__(self, folder):
        self.folder, self.name = folder, os.path.basename(folder)
        with open(os.path.join(folder, "case.json")) as f: self.facts = json.load(f)
        with open(os.path.join(folder, "kernel.ttir")) as f: self.text = f.read()
        self.collection, _, rest = self.name.partition("__")
        self.kernel = rest.rpartition("__")[0]
        self.grid = (list(self.facts["grid"]) + [1, 1])[:3]
        self.buffers = self.facts["buffers"]
        self.args = [a for a in self.facts["args"] if a.get("sig") != "constexpr"]

    def warps(self): return math.prod(self.grid) * self.facts["num_warps"]

    def unfit(self):
        """Why the case is none for the emulator, or None."""
        if not self.facts.get("golden") or not any(b["changed"] for b in self.buffers): return "nothing recorded that changes"
        if not 0 < self.warps() <= MOST_WARPS: return "%d warps, at most %d" % (self.warps(), MOST_WARPS)
        if sum(b["bytes"] for b in self.buffers) > MOST_BYTES: return "more than %d bytes of buffers" % MOST_BYTES
        if "int_to_ptr" in self.text: return "addresses in memory"
        if "elementwise_inline_asm" in self.text: return "instructions of one vendor as text"
        if "scf.while" in self.text and "tt.atomic" in self.text: return "may wait for another workgroup"
        if any(a.get("sig", "").startswith("tensordesc") for a in self.args): return "host descriptors"
        return None

    def element(self, index):
        for a in self.args:
            if a.get("buffer") == index: return ELEMENTS.get(a.get("dtype", a.get("sig")), "byte")
        return "byte"

    def coarse(self): return bool(re.search(r"tt\.dot .*(tf32|xf16|xbf16|xf8)", self.text))

    def memory(self, prefix, index):
        with open(os.path.join(self.folder, "%s%d.bin" % (prefix, index)), "rb") as f: return f.read()


def evenly(items, count):
    return [items[i * len(items) // count] for i in range(count)] if count < len(items) else items


def spread(cases, count):
    """`count` cases: as many of each collection as there are, at most an equal part; another kernel before a kernel's second case."""
    collections = {}
    for c in cases: collections.setdefault(c.collection, []).append(c)
    chosen, left = [], len(collections)
    for group in sorted(collections.values(), key=lambda g: (len(g), g[0].name)):
        first = {}
        for c in group: first.setdefault(c.kernel, c)
        distinct = list(first.values())
        share = min(len(group), (count - len(chosen)) // left)
        others = [c for c in group if c not in distinct]
        chosen += evenly(distinct, share) if share <= len(distinct) else distinct + evenly(others, share - len(distinct))
        left -= 1
    return chosen


# ----------------------------------------------------------------------------------------------------------------- comparing
def decode(kind, data):
    if kind == "byte": return list(data)
    if kind in ("e4m3", "e5m2"): return [fp8_value(kind, b) for b in data]
    if kind == "bf16": return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack("<%d%s" % (len(data) // SIZES[kind], {"f64": "d", "f32": "f", "f16": "e"}[kind]), data))


def close(share, got, want, usual):
    if math.isnan(want) or math.isnan(got): return math.isnan(want) and math.isnan(got)
    if math.isinf(want) or math.isinf(got): return want == got
    return abs(got - want) <= share * max(abs(want), usual)


def compare(case, index, got, order):
    changed, kind = case.buffers[index]["changed"], case.element(index)
    want = case.memory("out" if changed else "in", index)
    if got == want: return
    if len(want) % SIZES[kind]: kind = "byte"
    x, y = decode(kind, got), decode(kind, want)
    finite = [abs(v) for v in y if math.isfinite(v)]
    usual = sum(finite) / len(finite) if finite and kind != "byte" else 0
    share = COARSE_F32 if kind == "f32" and case.coarse() else TOLERANCES.get(kind, 0)
    wrong = [i for i in range(len(y)) if not close(share, x[i], y[i], usual)]
    if wrong:
        i = wrong[0]
        raise Failure("%s: buffer %d %s%s %d of %d: expected %.9g, found %.9g; %d differ" %
                      (order, index, "" if changed else "was not to change: ", kind, i, len(y), y[i], x[i], len(wrong)))


# ------------------------------------------------------------------------------------------------------------------- running
def argument(case, arg, bytes_wanted, buffers):
    if "buffer" in arg and arg["buffer"] is not None: return struct.pack("<Q", buffers[arg["buffer"]].addr + arg.get("offset_bytes", 0))
    value = arg.get("value")
    if arg["sig"].startswith("*") or value is None: return bytes(8)
    if arg["sig"] in NUMBERS: return struct.pack(NUMBERS[arg["sig"]], float(value))
    if arg["sig"] == "bf16": return struct.pack("<f", float(value))[2:]
    number = int(value == "True") if value in ("True", "False") else int(value)
    return (number % (1 << 8 * bytes_wanted)).to_bytes(bytes_wanted, "little")


def run_once(amdrun, emulator, module, case, order, poison):
    name, = module.kernels
    facts = module.kernels[name]
    sizes = [a[".size"] for a in facts[".args"] if not a[".value_kind"].startswith("hidden_")]
    if len(sizes) != len(case.args): raise Failure("the kernel takes %d arguments, the case has %d" % (len(sizes), len(case.args)))
    buffers = [amdrun.Buf(data=case.memory("in", i)) for i in range(len(case.buffers))]
    emulator.order, emulator.poison = order, poison
    args = [argument(case, a, size, buffers) for a, size in zip(case.args, sizes)]
    emulator.launch(module, name, case.grid, [facts[".max_flat_workgroup_size"], 1, 1], args)
    for i, b in enumerate(buffers):
        if b.dirty() is not None: raise Failure("%s: buffer %d of %d bytes: written at byte %d" % (order, i, b.size, b.dirty()))
        compare(case, i, b.bytes(), order)


def child(folder, code):
    """A process of its own for each run: an access outside of all buffers ends it."""
    amdrun = corrected.load()
    case, module, emulator = Case(folder), amdrun.Module(code), amdrun.Emu(EMULATOR)
    begin = time.monotonic()
    try:
        run_once(amdrun, emulator, module, case, "fwd", 0xCD)
        if time.monotonic() - begin < QUICK_SECONDS:
            run_once(amdrun, emulator, module, case, "rev", 0xFF)
            print("both orders")
    except (Failure, amdrun.Trap) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    if done.returncode == -signal.SIGSEGV: raise Failure("an access outside of all buffers")
    if done.returncode: raise Failure(((done.stderr + done.stdout).strip() or "exit %d" % done.returncode)[-400:].replace("\n", " | "))
    return done.stdout.strip()


def attempt(job):
    case, target = job
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "kernel.hsaco")
        try:
            call([os.path.join(BUILD, "bin", "kiln"), "compile", "--no-cache", "-q", "-t", target, "--emit=hsaco", "-o", code, os.path.join(case.folder, "kernel.ttir")])
            return call([sys.executable, os.path.abspath(__file__), "--child", case.folder, code]), None
        except Failure as e: return "", str(e)
        except subprocess.TimeoutExpired: return "", "not done after %d seconds" % MOST_SECONDS


def main(words):
    options = dict(w[2:].split("=", 1) for w in words if w.startswith("--") and "=" in w)
    words = [w for w in words if not w.startswith("--")]
    if not words: sys.exit("usage: cases.py CASES [--count=40] [--workers=2] [--targets=gfx1100,gfx942] [part of a name...]")
    folders = sorted(os.path.join(words[0], d) for d in os.listdir(words[0]))
    cases = [Case(d) for d in folders if os.path.exists(os.path.join(d, "case.json"))]
    fit = [c for c in cases if c.unfit() is None]
    chosen = [c for c in fit if any(w in c.name for w in words[1:])] if words[1:] else spread(fit, int(options.get("count", 40)))
    jobs = [(c, t) for c in chosen for t in options.get("targets", "gfx1100,gfx942").split(",")]
    print("%d of %d cases chosen, %d fit for the emulator" % (len(chosen), len(cases), len(fit)), flush=True)
    if not EMULATOR or not AMDRUN:
        print("skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver")
        print("0 passed, 0 failed, %d skipped" % len(jobs))
        return 0
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(options.get("workers", 2))) as pool:
        for (case, target), (note, reason) in zip(jobs, pool.map(attempt, jobs)):
            print("%s %s@%s%s" % ("FAIL" if reason else "ok  ", case.name, target, ": " + (reason or note) if reason or note else ""), flush=True)
            failed += reason is not None
    print("emulated, not run on AMD hardware")
    print("%d passed, %d failed, 0 skipped" % (len(jobs) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]: sys.exit(child(sys.argv[2], sys.argv[3]))
    sys.exit(main(sys.argv[1:]))
