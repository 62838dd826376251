#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels of kernels/ and of cases.kiln for AMDGPU on an emulator and holds the numbers against plain Python.

  KILN_BUILD=build/release KILN_AMD_EMULATOR=<tree> KILN_AMDRUN=<amdrun.py> tests/emulation/emulate.py [part of a case name...]

KILN_AMD_EMULATOR: a work tree of an emulator of AMD's instructions. KILN_AMDRUN: the program that loads a code object and runs it there
(amdrun.py --emu TREE --hsaco FILE --grid ... --block ... --arg ...). Without them everything is skipped, and it says so. What passes here is
emulated; no AMD hardware has run it. Needs nothing besides the standard library.
"""
import array, concurrent.futures, math, os, random, struct, subprocess, sys, tempfile

BUILD = os.environ.get("KILN_BUILD", "build/release")
EMULATOR, AMDRUN = os.environ.get("KILN_AMD_EMULATOR"), os.environ.get("KILN_AMDRUN")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = ("gfx1100", "gfx942") + (("gfx1200",) if os.environ.get("KILN_TEST_FULL") else ())


# Where the emulator is at fault, not the code; found by tracing. Skipped, and counted so.
EMULATOR_FAULTS = {
    ("attention-f16", "gfx942"): "v_cvt_f16_f32 to v210 writes the upper half of v82, as on gfx11",
}


# ------------------------------------------------------------------------------------------------------------ number formats
def bf16_bits(v):
    if math.isnan(v): return 0x7FC0
    bits = struct.unpack("<I", struct.pack("<f", v))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def pack(kind, values):
    if kind == "bf16": return array.array("H", [bf16_bits(v) for v in values]).tobytes()
    return struct.pack("<%d%s" % (len(values), CODES[kind]), *values)


def unpack(kind, data):
    if kind == "bf16": return [struct.unpack("<f", struct.pack("<I", b << 16))[0] for b in array.array("H", data)]
    return list(struct.unpack("<%d%s" % (len(data) // SIZES[kind], CODES[kind]), data))


CODES = {"f32": "f", "f64": "d", "f16": "e", "i8": "b", "u8": "B", "i32": "i", "u32": "I", "i64": "q"}
SIZES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8}
EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7, "f64": 2.0**-52}


def as_stored(kind, values):
    """The values that a buffer of `kind` holds."""
    return unpack(kind, pack(kind, values))


class In:
    def __init__(self, kind, values): self.kind, self.values = kind, as_stored(kind, values)


class Out:
    """A result. `tolerance`: relative to the larger of 1 and the magnitude; 0: exact."""

    def __init__(self, kind, expected, tolerance=0.0, start=None):
        self.kind, self.expected, self.tolerance, self.start = kind, expected, tolerance, start


class Value:
    def __init__(self, kind, value): self.kind, self.value = kind, value


def i32(v): return Value("i32", v)
def i64(v): return Value("i64", v)
def f32(v): return Value("f32", v)


# ---------------------------------------------------------------------------------------------------------------------- cases
class Case:
    def __init__(self, name, source, kernel, grid, args, targets=TARGETS, config=0, extra=()):
        self.name, self.source, self.kernel, self.grid, self.args = name, source, kernel, grid, args
        self.targets, self.config, self.extra = targets, config, extra


def cdiv(a, b): return -(-a // b)
def noise(r, n): return [r.uniform(-2.0, 2.0) for _ in range(n)]
def small(r, n): return [float(r.randint(-4, 4)) for _ in range(n)]


def library(name): return os.path.join(ROOT, "kernels", name + ".kiln")


def elementwise_cases():
    r = random.Random(1)
    for kind in ("f32", "f16", "bf16"):
        n = 2500
        x, y = In(kind, noise(r, n)), In(kind, noise(r, n))
        z = as_stored(kind, [as_stored("f32", [a + b])[0] for a, b in zip(x.values, y.values)])
        yield Case("add-" + kind, library("elementwise"), "add[T=%s]" % kind, (cdiv(n, 1024),), [x, y, Out(kind, z), i32(n)])
    n = 3000
    x = In("i8", [r.randint(-128, 127) for _ in range(n)])
    yield Case("copy-i8", library("elementwise"), "copy[T=i8]", (cdiv(n, 1024),), [x, Out("i8", x.values), i32(n)])
    x = In("f32", noise(r, n))
    z = [0.5 * v * (1 + math.erf(v * math.sqrt(0.5))) for v in x.values]
    yield Case("gelu", library("elementwise"), "gelu[T=f32]", (cdiv(n, 1024),), [x, Out("f32", z, 1e-5), i32(n)])


def softmax_row(row):
    top = max(row)
    e = [math.exp(v - top) for v in row]
    return [v / sum(e) for v in e]


def row_cases():
    r = random.Random(2)
    rows, cols = 3, 777
    for kind in ("f32", "bf16"):
        x = In(kind, noise(r, rows * cols))
        y = sum((softmax_row(x.values[i * cols:(i + 1) * cols]) for i in range(rows)), [])
        yield Case("softmax-" + kind, library("softmax"), "softmax[T=%s]" % kind, (rows,),
                   [x, Out(kind, y, 4 * EPSILON[kind]), i32(rows), i32(cols), i32(cols), i32(cols)])
    x, w, b = In("f32", noise(r, rows * cols)), In("f32", noise(r, cols)), In("f32", noise(r, cols))
    y, means, rstds = [], [], []
    for i in range(rows):
        row = x.values[i * cols:(i + 1) * cols]
        mean = sum(row) / cols
        rstd = 1 / math.sqrt(sum((v - mean)**2 for v in row) / cols + 1e-5)
        means.append(mean), rstds.append(rstd)
        y += [(v - mean) * rstd * s + t for v, s, t in zip(row, w.values, b.values)]
    yield Case("layer-norm", library("norms"), "layer_norm[T=f32]", (rows,),
               [x, w, b, Out("f32", y, 1e-5), Out("f32", means, 1e-5), Out("f32", rstds, 1e-5), i32(rows), i32(cols), f32(1e-5)])


def search_cases():
    r = random.Random(3)
    rows, cols = 3, 700
    x = In("f32", [float(r.randint(-50, 50)) for _ in range(rows * cols)])
    lines = [x.values[i * cols:(i + 1) * cols] for i in range(rows)]
    yield Case("argmax", library("search"), "argmax[T=f32]", (rows,),
               [x, Out("f32", [max(l) for l in lines]), Out("i32", [l.index(max(l)) for l in lines]), i32(rows), i32(cols)])
    for kind in ("f32", "i32"):
        y = In(kind, [v if kind == "f32" else int(v) for v in x.values])
        sums = []
        for i in range(rows):
            total = 0
            for v in y.values[i * cols:(i + 1) * cols]: total += v; sums.append(total)
        yield Case("cumsum-" + kind, library("search"), "cumsum[T=%s]" % kind, (rows,), [y, Out(kind, sums), i32(rows), i32(cols)])
    n, count = 3000, 37
    x = In("i32", [r.randint(-3, count + 3) for _ in range(n)])
    bins = [x.values.count(i) for i in range(count)]
    yield Case("histogram", library("search"), "histogram", (cdiv(n, 1024),), [x, Out("i32", bins, start=[0] * count), i32(n), i32(count)])
    k = 5
    x = In("f32", [float(r.randint(-50, 50)) for _ in range(2 * 300)])
    values, indices = [], []
    for i in range(2):
        row = x.values[i * 300:(i + 1) * 300]
        order = sorted(range(300), key=lambda j: (-row[j], j))[:k]
        values += [row[j] for j in order]; indices += order
    yield Case("top-k", library("search"), "top_k[T=f32]", (2,), [x, Out("f32", values), Out("i32", indices), i32(2), i32(300), i32(k)])


def transpose_cases():
    r = random.Random(4)
    for kind in ("f32", "f16"):
        rows, cols = 70, 90
        x = In(kind, small(r, rows * cols))
        y = [x.values[i * cols + j] for j in range(cols) for i in range(rows)]
        yield Case("transpose-" + kind, library("transpose"), "transpose[T=%s]" % kind, (cdiv(cols, 64), cdiv(rows, 64)),
                   [x, Out(kind, y), i32(rows), i32(cols)])


def product(a, b, m, n, k):
    """a[m, k] times b[n, k] transposed."""
    return [sum(map(lambda x, y: x * y, a[i * k:(i + 1) * k], b[j * k:(j + 1) * k])) for i in range(m) for j in range(n)]


def gemm_cases():
    r = random.Random(5)
    m, n, k = 72, 80, 96
    for kind in ("f16", "bf16", "f32"):
        a, b, bias = In(kind, small(r, m * k)), In(kind, small(r, n * k)), In(kind, small(r, n))
        c = [v + bias.values[i % n] for i, v in enumerate(product(a.values, b.values, m, n, k))]
        yield Case("gemm-" + kind, library("gemm"), "gemm[T=%s,ACT=0]" % kind, (cdiv(m, 64) * cdiv(n, 64),),
                   [a, b, bias, Out(kind, as_stored(kind, c)), i32(m), i32(n), i32(k), i64(k), i64(k), i64(n)])
    a, b = In("f16", small(r, m * k)), In("f16", small(r, n * k))
    c = product(a.values, b.values, m, n, k)
    yield Case("gemm-split-k", library("gemm"), "gemm_split_k[T=f16]", (cdiv(m, 64), cdiv(n, 64), 3),
               [a, b, Out("f32", c, start=[0.0] * (m * n)), i32(m), i32(n), i32(k), i32(3)])


def attention_cases():
    r = random.Random(6)
    heads, s, d = 1, 80, 64
    scale = 1 / math.sqrt(d)
    for kind in ("f16", "bf16"):
        q, k, v = (In(kind, [r.uniform(-1, 1) for _ in range(heads * s * d)]) for _ in range(3))
        o, lse = [], []
        for i in range(s):
            dots = [scale * sum(q.values[i * d + x] * k.values[j * d + x] for x in range(d)) for j in range(i + 1)]
            p = softmax_row(dots)
            lse.append(max(dots) + math.log(sum(math.exp(t - max(dots)) for t in dots)))
            o += [sum(p[j] * v.values[j * d + x] for j in range(i + 1)) for x in range(d)]
        yield Case("attention-" + kind, library("attention"), "attention[T=%s,D=64,CAUSAL=true]" % kind, (cdiv(s, 64), heads),
                   [q, k, v, Out(kind, o, 2 * EPSILON[kind]), Out("f32", lse, 2e-3), i32(heads), i32(s), f32(scale)])


# fp8 by its definition, from all its patterns.
def fp8_value(kind, b):
    exponent_bits, mantissa_bits = (4, 3) if kind == "e4m3" else (5, 2)
    bias = (1 << exponent_bits - 1) - 1
    sign = -1.0 if b & 128 else 1.0
    e, m = b >> mantissa_bits & (1 << exponent_bits) - 1, b & (1 << mantissa_bits) - 1
    if kind == "e4m3" and b & 127 == 127: return math.nan
    if kind == "e5m2" and e == 31: return math.nan if m else sign * math.inf
    return sign * (m + (1 << mantissa_bits if e else 0)) * 2.0**(max(e, 1) - bias - mantissa_bits)


def fp8_nearest(kind, v, saturate):
    if math.isnan(v): return 0x7F if kind == "e4m3" else 0x7E
    finite = [b for b in range(128) if not math.isnan(fp8_value(kind, b)) and not math.isinf(fp8_value(kind, b))]
    size = min(abs(v), 2 * fp8_value(kind, finite[-1]))
    best = min(finite, key=lambda b: (abs(fp8_value(kind, b) - size), b & 1))
    step = fp8_value(kind, finite[-1]) - fp8_value(kind, finite[-2])
    over = abs(v) > fp8_value(kind, finite[-1]) + step / 2 or (abs(v) == fp8_value(kind, finite[-1]) + step / 2 and kind == "e5m2")
    if over and not saturate: best = 0x7F if kind == "e4m3" else 0x7C
    return best | (128 if math.copysign(1, v) < 0 else 0)


def cast_cases():
    r = random.Random(7)
    source = os.path.join(HERE, "cases.kiln")
    for kind in ("e4m3", "e5m2"):
        x = In("u8", list(range(256)))
        y = [fp8_value(kind, b) for b in range(256)]
        yield Case("from-" + kind, source, "from_fp8[T=%s]" % kind, (1,), [x, Out("f32", y)])
        edges = [fp8_value(kind, b) for b in range(128) if math.isfinite(fp8_value(kind, b))]
        values = edges + [(a + b) / 2 for a, b in zip(edges, edges[1:])] + [470.0, 464.0, 463.0, 480.0, 61440.0, 61439.0, 65536.0, 1e30, math.inf, math.nan, 2.0**-9,
                                                                           2.0**-10, 2.0**-17, 1e-30, 0.0]
        values += [-v for v in values] + [r.uniform(-500, 500) for _ in range(200)]
        values = (values + [0.0] * 1024)[:1024]
        stored = as_stored("f32", values)
        for saturate in (True, False):
            y = [fp8_nearest(kind, v, saturate) for v in stored]
            yield Case("to-%s%s" % (kind, "" if saturate else "-nosat"), source, "to_fp8%s[T=%s]" % ("" if saturate else "_nosat", kind), (1,),
                       [In("f32", values), Out("u8", y)])
    values = noise(r, 1024)
    values[:4] = [math.inf, -math.inf, math.nan, 1e-40]
    yield Case("to-bf16", source, "to_bf16", (1,), [In("f32", values), Out("bf16", as_stored("bf16", as_stored("f32", values)))])


def math_cases():
    r = random.Random(8)
    source = os.path.join(HERE, "cases.kiln")
    x = [abs(v) * 10.0**r.randint(-6, 6) + 1e-20 for v in noise(r, 1024)]
    v = as_stored("f32", x)
    relative = 1e-6
    for name, f in (("sqrt", math.sqrt), ("rsqrt", lambda t: 1 / math.sqrt(t)), ("log2", math.log2), ("divide", lambda t: 3.0 / t)):
        yield Case("math-" + name, source, "math_" + name, (1,), [In("f32", x), Out("f32", [f(t) for t in v], relative)])
    y = [r.uniform(-40, 40) for _ in range(1024)]
    yield Case("math-exp2", source, "math_exp2", (1,), [In("f32", y), Out("f32", [2.0**t for t in as_stored("f32", y)], relative)])


def exchange_cases():
    r = random.Random(9)
    source = os.path.join(HERE, "cases.kiln")
    x = [r.randint(-1000, 1000) for _ in range(64 * 64)]
    rows = [x[i * 64:(i + 1) * 64] for i in range(64)]
    for axis, lines in ((0, list(zip(*rows))), (1, rows)):
        for name, f in (("add", sum), ("max", max), ("min", min)):
            yield Case("reduce-%s-axis%d" % (name, axis), source, "reduce_%s[AXIS=%d]" % (name, axis), (1,), [In("i32", x), Out("i32", [f(l) for l in lines])])
    sums = [0] * 64
    for i, v in enumerate(x): sums[i % 64] += v
    yield Case("atomic-add-i32", source, "atomic_add[T=i32]", (4,), [In("i32", x), Out("i32", sums, start=[0] * 64)])
    yield Case("atomic-add-f32", source, "atomic_add[T=f32]", (4,), [In("f32", [float(v) for v in x]), Out("f32", [float(v) for v in sums], start=[0.0] * 64)])
    tops = [max(x[i::64]) for i in range(64)]
    yield Case("atomic-max-i32", source, "atomic_max[T=i32]", (4,), [In("i32", x), Out("i32", tops, start=[-10**6] * 64)])
    yield Case("grid", source, "grid_extents", (3, 2, 2), [Out("i32", [3, 2, 2, 12], start=[0, 0, 0, 0])])


def all_cases():
    for make in (elementwise_cases, row_cases, search_cases, transpose_cases, gemm_cases, attention_cases, cast_cases, math_cases, exchange_cases):
        yield from make()


# -------------------------------------------------------------------------------------------------------------------- running
class Failure(Exception): pass


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode: raise Failure("%s: exit %d: %s" % (os.path.basename(command[0]), done.returncode, (done.stderr + done.stdout).strip()[-500:]))
    return done.stdout


def block_threads(info):
    """Threads a block, which `kiln compile --time` does not say: from the code object's own metadata."""
    for line in info.splitlines():
        if ".max_flat_workgroup_size:" in line: return int(line.split(":")[1])
    raise Failure("the code object does not say how many threads a block has")


def argument(arg, path):
    if isinstance(arg, Value): return "%s:%r" % (arg.kind, arg.value)
    if isinstance(arg, In):
        with open(path, "wb") as f: f.write(pack(arg.kind, arg.values))
        return "in:" + path
    if arg.start is None: return "out:%d:%s" % (len(arg.expected) * SIZES[arg.kind], path)
    with open(path, "wb") as f: f.write(pack(arg.kind, arg.start))
    return "io:" + path


def same(got, want, tolerance):
    if isinstance(want, float) and math.isnan(want): return math.isnan(got)
    if got == want: return True
    return tolerance > 0 and math.isfinite(got) and abs(got - want) <= tolerance * max(abs(want), 1e-30 if tolerance < 2e-6 else 1.0)


def compare(number, arg, path):
    with open(path, "rb") as f: got = unpack(arg.kind, f.read())
    if len(got) != len(arg.expected): raise Failure("argument %d: expected %d elements, found %d" % (number, len(arg.expected), len(got)))
    wrong = [i for i, (g, w) in enumerate(zip(got, arg.expected)) if not same(g, w, arg.tolerance)]
    if wrong:
        i = wrong[0]
        raise Failure("argument %d: %d of %d elements differ; element %d: expected %r, found %r" % (number, len(wrong), len(got), i, arg.expected[i], got[i]))


def run_case(case, target):
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "kernel.hsaco")
        call([os.path.join(BUILD, "bin", "kiln"), "compile", "--no-cache", "-q", "-t", target, "-k", case.kernel, "--config", str(case.config), "-o", code, case.source])
        threads = block_threads(call(["llvm-readelf-19", "--notes", code]))
        paths = [os.path.join(folder, "%d" % i) for i in range(len(case.args))]
        command = [sys.executable, AMDRUN, "--emu", EMULATOR, "--hsaco", code, "--grid", ",".join(map(str, case.grid)), "--block", str(threads), *case.extra]
        for arg, path in zip(case.args, paths): command += ["--arg", argument(arg, path)]
        call(command)
        for i, (arg, path) in enumerate(zip(case.args, paths)):
            if isinstance(arg, Out): compare(i, arg, path)


def attempt(job):
    case, target = job
    try:
        run_case(case, target)
        return case.name, target, None
    except (Failure, subprocess.TimeoutExpired) as e:
        return case.name, target, str(e)


def main(parts):
    jobs = [(c, t) for c in all_cases() for t in c.targets if not parts or any(p in c.name + "@" + t for p in parts)]
    if not EMULATOR or not AMDRUN:
        print("skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver")
        print("0 passed, 0 failed, %d skipped" % len(jobs))
        return 0
    skipped = [(c, t) for c, t in jobs if (c.name, t) in EMULATOR_FAULTS]
    for c, t in skipped: print("skip %s@%s: the emulator: %s" % (c.name, t, EMULATOR_FAULTS[c.name, t]))
    jobs = [job for job in jobs if job not in skipped]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, target, reason in pool.map(attempt, jobs):
            print("%s %s@%s%s" % ("FAIL" if reason else "ok  ", name, target, ": " + reason if reason else ""), flush=True)
            failed += reason is not None
    print("emulated, not run on AMD hardware")
    print("%d passed, %d failed, %d skipped" % (len(jobs) - failed, failed, len(skipped)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
