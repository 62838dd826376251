#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels of bench/amd_loops.py by Kiln and by Triton, from the same Triton IR, on an emulator of AMD's instructions, held against sums in double.

  tests/emulation/beside_triton.py make FOLDER [--targets=gfx942,gfx1100,gfx1200] [--kiln=FILE]      needs Triton
  KILN_AMD_EMULATOR=<tree> KILN_AMDRUN=<amdrun.py> tests/emulation/beside_triton.py run FOLDER [--workers=2] [part of a name...]

`make` compiles; `run` needs nothing besides the standard library, so that it may stand on another machine. Without the two variables it says so and
skips. Products have ragged rows, columns and reduced extents; everything runs forward with one poison in undefined registers and memory and
backward with another. What passes here is emulated; no AMD hardware has run it.
"""
import concurrent.futures, json, math, operator, os, random, re, subprocess, sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = "gfx942", "gfx1100", "gfx1200"
TOLERANCES = {"fp16": 2e-3, "bf16": 1.6e-2, "i8": 0.0}   # shares of the largest expected number: 2 units in the last place of the result's type
KINDS = {"fp16": "f16", "bf16": "bf16", "i8": "i8"}


# ------------------------------------------------------------------------------------------------------------------------ make
def make(folder, options):
    sys.path.insert(0, os.path.join(HERE, "../../bench"))
    import amd_loops, triton

    os.makedirs(folder, exist_ok=True)
    rows = []
    for name, (fn, types, constants, warps, stages) in amd_loops.kernels().items():
        for target in options.get("targets", ",".join(TARGETS)).split(","):
            base = re.sub(r"\W", "_", name) + "." + target
            text = os.path.join(folder, base + ".ttir")
            with open(text, "w") as f: f.write(amd_loops.text_of(fn, types, constants, warps, stages, target))
            subprocess.run([options.get("kiln", "build/release/bin/kiln"), "compile", text, "-q", "--no-cache", "-t", target, "--warps=%d" % warps, "--stages=%d" % stages, "-o",
                            os.path.join(folder, base + ".kiln")], check=True)
            made = triton.compile(text, target=amd_loops.hip(target), options={"num_warps": warps, "num_stages": stages})
            with open(os.path.join(folder, base + ".triton"), "wb") as f: f.write(made.asm["hsaco"])
            rows.append({"name": name, "target": target, "base": base, "kind": types[0][1:], "warps": warps, "shared": made.metadata.shared,
                         "constants": {k: v for k, v in constants.items() if isinstance(v, (int, bool))}, "peer": "Triton " + triton.__version__})
    with open(os.path.join(folder, "objects.json"), "w") as f: json.dump(rows, f, indent=1)
    print("%d pairs of objects" % len(rows))


# ------------------------------------------------------------------------------------------------------------------------- run
def numbers(kind, count, r):
    from emulate import as_stored

    return [r.randint(-128, 127) for _ in range(count)] if kind == "i8" else as_stored(KINDS[kind], [r.uniform(-1.0, 1.0) for _ in range(count)])


def product(facts, r):
    """Arguments, and what the last buffer is to hold."""
    c, kind = facts["constants"], facts["kind"]
    m, n, k = c["BM"] + 48, c["BN"] + 16, 2 * c["BK"] + 16
    a, b = numbers(kind, m * k, r), numbers(kind, k * n, r)
    columns = [b[j * k:(j + 1) * k] for j in range(n)] if c["BT"] else [b[j::n] for j in range(n)]
    want = [sum(map(operator.mul, a[i * k:(i + 1) * k], column)) for i in range(m) for column in columns]
    blocks = -(-m // c["BM"]) * -(-n // c["BN"])
    return [a, b], ["i32"] * 6, [m, n, k, k, k if c["BT"] else n, n], want, [blocks, 1, 1], 2


def attention(facts, r):
    c, kind, length, heads = facts["constants"], facts["kind"], 256, 2
    D, scale = c["D"], c["D"] ** -0.5
    q, k, v = (numbers(kind, heads * length * D, r) for _ in range(3))
    want = []
    for h in range(heads):
        row = lambda x, i: x[(h * length + i) * D:(h * length + i + 1) * D]
        keys, values = [row(k, j) for j in range(length)], [row(v, j) for j in range(length)]
        across = list(zip(*values))
        for i in range(length):
            seen = i + 1 if c["CAUSAL"] else length
            s = [scale * sum(map(operator.mul, row(q, i), key)) for key in keys[:seen]]
            top = max(s)
            p = [math.exp(x - top) for x in s]
            total = sum(p)
            want += [sum(map(operator.mul, p, column)) / total for column in across]
    return [q, k, v], ["f32", "i32", "i32", "i32"], [scale, length, D, length * D], want, [length // c["BM"], heads, 1], 3


def error_of(got, want):
    """The largest difference, as a share of the largest expected number."""
    if not all(map(math.isfinite, got)): return math.inf
    return max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))


def child(folder, number):
    import emulator as corrected
    from emulate import ROUNDS, SIZES, pack, unpack

    with open(os.path.join(folder, "objects.json")) as f: facts = json.load(f)[number]
    inputs, types, values, want, grid, place = (attention if facts["name"].startswith("attention") else product)(facts, random.Random(number))
    kind, result = KINDS[facts["kind"]], "i32" if facts["kind"] == "i8" else KINDS[facts["kind"]]
    driver, out = corrected.load(), {}
    emulator = driver.Emu(os.environ["KILN_AMD_EMULATOR"])
    for who in "kiln", "triton":
        try:
            module = driver.Module(os.path.join(folder, facts["base"] + "." + who))
            (kernel, about), = module.kernels.items()
            for emulator.order, emulator.poison in ROUNDS:
                buffers = [driver.Buf(data=pack(kind, x), readonly=True) for x in inputs]
                target = driver.Buf(size=len(want) * SIZES[result], poison=emulator.poison)
                arguments = buffers + [target] + [driver.val(t, v) for t, v in zip(types, values)]
                visible = [a for a in about[".args"] if not a[".value_kind"].startswith("hidden_")]
                arguments += [bytes(a[".size"]) for a in visible[len(arguments):]]   # Triton's two scratch pointers
                shared = max(0, facts["shared"] - module.kd(kernel)["lds"]) if who == "triton" else 0
                emulator.launch(module, kernel, grid, [about[".max_flat_workgroup_size"], 1, 1], arguments, shared)
                out[who] = max(out.get(who, 0.0), error_of(unpack(result, target.bytes()), want))
        except (driver.Trap, SystemExit) as e: out[who] = str(e)
        print(json.dumps(out), flush=True)


def measure(folder, number):
    """What each object is off by, or why it did not run."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "child", folder, str(number)], capture_output=True, text=True)
    lines = [json.loads(l) for l in done.stdout.split("\n") if l.startswith("{")]
    out = lines[-1] if lines else {}
    for who in "kiln", "triton": out.setdefault(who, "exit %d: %s" % (done.returncode, done.stderr.strip()[-300:]))
    return out


def run(folder, options, parts):
    if not os.environ.get("KILN_AMD_EMULATOR") or not os.environ.get("KILN_AMDRUN"):
        print("skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver\n0 passed, 0 failed, 1 skipped")
        return 0
    with open(os.path.join(folder, "objects.json")) as f: rows = json.load(f)
    chosen = [i for i, r in enumerate(rows) if not parts or any(p in r["name"] + "@" + r["target"] for p in parts)]
    passed = failed = peers = 0
    with concurrent.futures.ThreadPoolExecutor(int(options.get("workers", 2))) as pool:
        for i, out in zip(chosen, pool.map(lambda i: measure(folder, i), chosen)):
            allowed = TOLERANCES[rows[i]["kind"]]
            right = {who: not isinstance(x, str) and x <= allowed for who, x in out.items()}
            text = ", ".join("%s %s" % (who, x if isinstance(x, str) else "%.2g" % x) for who, x in out.items())
            print("%s %s@%s: %s" % ("ok  " if right["kiln"] else "FAIL", rows[i]["name"], rows[i]["target"], text), flush=True)
            passed, failed, peers = passed + right["kiln"], failed + (not right["kiln"]), peers + right["triton"]
    print("emulated, not run on AMD hardware; Triton's own objects right: %d of %d" % (peers, len(chosen)))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


def main(words):
    options, rest = dict(w[2:].split("=", 1) for w in words if w.startswith("--")), [w for w in words if not w.startswith("--")]
    if rest[0] == "make": return make(rest[1], options)
    if rest[0] == "child": return child(rest[1], int(rest[2]))
    return run(rest[1], options, rest[2:])


if __name__ == "__main__":
    if len(sys.argv) < 3: sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
