#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs AMDGPU code on an emulator: the kernel library against its references, kernels of cases.kiln against plain Python, generated kernels.

  KILN_BUILD=build/release KILN_AMD_EMULATOR=<tree> KILN_AMDRUN=<amdrun.py> tests/emulation/emulate.py [--cases] [--generated=N] [--workers=2] [--targets=gfx942,...] [part of a name...]

--cases: without the library. --generated: also N generated kernels, and N that read again what they wrote. KILN_AMD_EMULATOR: a work tree of an emulator of AMD's instructions. KILN_AMDRUN: its driver, the program that loads a code object and runs it there
(amdrun.py --emu TREE --hsaco FILE --grid ... --block ... --arg ...). Without them everything is skipped, and it says so. Everything runs three times: workgroups and
waves forward with one poison in undefined registers and memory, backward with another, and in an order drawn with KILN_EMULATED_SEED (1). Forward, buffers end against
pages without access; else NaNs or a pattern stand around them and are compared. What passes here is emulated; no AMD hardware has
run it. Needs nothing besides the standard library.
"""
import array, concurrent.futures, glob, itertools, math, operator, os, random, re, struct, subprocess, sys, tempfile

sys.dont_write_bytecode = True
import emulator as corrected
from around import AROUND, Buffer

BUILD = os.environ.get("KILN_BUILD", "build/release")
EMULATOR, AMDRUN = os.environ.get("KILN_AMD_EMULATOR"), os.environ.get("KILN_AMDRUN")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = ("gfx1100", "gfx942", "gfx1201")
SEED = int(os.environ.get("KILN_EMULATED_SEED", "1"))
ROUNDS = (("fwd", 0xCD, 0), ("rev", 0xFF, AROUND), ("drawn:%d" % SEED, 0xCD, AROUND))   # order of workgroups and waves, poison, bytes around buffers


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


def as_stored(kind, values):
    """The values that a buffer of `kind` holds."""
    return unpack(kind, pack(kind, values))


class In:
    def __init__(self, kind, values): self.kind, self.values = kind, as_stored(kind, values)


class Number:
    def __init__(self, kind, value): self.kind, self.value = kind, value


class Out:
    """A result. `tolerance`: relative to the larger of 1 and the magnitude; 0: exact."""

    def __init__(self, kind, expected, tolerance=0.0, start=None):
        self.kind, self.expected, self.tolerance, self.start = kind, expected, tolerance, start


# ---------------------------------------------------------------------------------------------------------------------- cases
class Case:
    def __init__(self, name, kernel, grid, args): self.name, self.kernel, self.grid, self.args = name, kernel, grid, args


def noise(r, n): return [r.uniform(-2.0, 2.0) for _ in range(n)]


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
    for kind in ("e4m3", "e5m2"):
        x = In("u8", list(range(256)))
        y = [fp8_value(kind, b) for b in range(256)]
        yield Case("from-" + kind, "from_fp8[T=%s]" % kind, (1,), [x, Out("f32", y)])
        edges = [fp8_value(kind, b) for b in range(128) if math.isfinite(fp8_value(kind, b))]
        values = edges + [(a + b) / 2 for a, b in zip(edges, edges[1:])] + [470.0, 464.0, 463.0, 480.0, 61440.0, 61439.0, 65536.0, 1e30, math.inf, math.nan, 2.0**-9,
                                                                           2.0**-10, 2.0**-17, 1e-30, 0.0]
        values += [-v for v in values] + [r.uniform(-500, 500) for _ in range(200)]
        values = (values + [0.0] * 1024)[:1024]
        stored = as_stored("f32", values)
        for saturate in (True, False):
            y = [fp8_nearest(kind, v, saturate) for v in stored]
            yield Case("to-%s%s" % (kind, "" if saturate else "-nosat"), "to_fp8%s[T=%s]" % ("" if saturate else "_nosat", kind), (1,),
                       [In("f32", values), Out("u8", y)])
    values = noise(r, 1024)
    values[:4] = [math.inf, -math.inf, math.nan, 1e-40]
    yield Case("to-bf16", "to_bf16", (1,), [In("f32", values), Out("bf16", as_stored("bf16", as_stored("f32", values)))])


def math_cases():
    r = random.Random(8)
    x = [abs(v) * 10.0**r.randint(-6, 6) + 1e-20 for v in noise(r, 1024)]
    v = as_stored("f32", x)
    relative = 1e-6
    for name, f in (("sqrt", math.sqrt), ("rsqrt", lambda t: 1 / math.sqrt(t)), ("log2", math.log2), ("divide", lambda t: 3.0 / t)):
        yield Case("math-" + name, "math_" + name, (1,), [In("f32", x), Out("f32", [f(t) for t in v], relative)])
    y = [r.uniform(-40, 40) for _ in range(1024)]
    yield Case("math-exp2", "math_exp2", (1,), [In("f32", y), Out("f32", [2.0**t for t in as_stored("f32", y)], relative)])


# Every pair of numbers from all over their range, denormals and results that are denormal among them. A quotient in double, rounded again for f32, is
# the nearest f32: two f32 whose quotient is no tie are never so near to one.
def division_cases():
    r = random.Random(13)
    for kind, fraction, least, most in (("f32", 23, -126, 127), ("f64", 52, -1022, 1023)):
        smallest = 2.0**(least - fraction)
        edges = [smallest, 3 * smallest, 63 * smallest, 2.0**least - smallest, 2.0**least, 2.0**least * 1.5, 2.0**(least + 22), 2.0**(least + 52) / 3, 2.0**-70 * 1.1,
                 1.0, 3.0, 1e9 / 7, 2.0**(most - 70), 2.0**(most - 2) * 1.7, 2.0**(most - 1) * 1.3, 2.0**most, 2.0**most * 1.9, 0.0, math.inf, math.nan]
        edges += [math.ldexp(r.uniform(1, 2), r.randint(least - fraction, most)) for _ in range(64 - len(edges))]
        edges = as_stored(kind, edges)
        pairs = [(a if r.random() < 0.5 else -a, b) for a in edges for b in edges]
        quotients = [float_quotient(a, b) for a, b in pairs]
        yield Case("divide-exactly-" + kind, "divide_exactly[T=%s]" % kind, (16,),
                   [In(kind, [a for a, _ in pairs]), In(kind, [b for _, b in pairs]), Out(kind, [nearest_stored(kind, q) for q in quotients])])


def float_quotient(a, b):
    if b: return a / b
    return math.nan if math.isnan(a) or not a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def nearest_stored(kind, value):
    try: return as_stored(kind, [value])[0]
    except OverflowError: return math.copysign(math.inf, value)


def exchange_cases():
    r = random.Random(9)
    x = [r.randint(-1000, 1000) for _ in range(64 * 64)]
    rows = [x[i * 64:(i + 1) * 64] for i in range(64)]
    for axis, lines in ((0, list(zip(*rows))), (1, rows)):
        for name, f in (("add", sum), ("max", max), ("min", min)):
            yield Case("reduce-%s-axis%d" % (name, axis), "reduce_%s[AXIS=%d]" % (name, axis), (1,), [In("i32", x), Out("i32", [f(l) for l in lines])])
    sums = [0] * 64
    for i, v in enumerate(x): sums[i % 64] += v
    yield Case("atomic-add-i32", "atomic_add[T=i32]", (4,), [In("i32", x), Out("i32", sums, start=[0] * 64)])
    yield Case("atomic-add-f32", "atomic_add[T=f32]", (4,), [In("f32", [float(v) for v in x]), Out("f32", [float(v) for v in sums], start=[0.0] * 64)])
    tops = [max(x[i::64]) for i in range(64)]
    yield Case("atomic-max-i32", "atomic_max[T=i32]", (4,), [In("i32", x), Out("i32", tops, start=[-10**6] * 64)])
    yield Case("grid", "grid_extents", (3, 2, 2), [Out("i32", [3, 2, 2, 12], start=[0, 0, 0, 0])])


# Products of small integers: exact in every type and order. What the matrix unit has not is widened to what it has.
def product_cases():
    r = random.Random(10)
    m, n, k = 64, 64, 32
    for left, right, sums in (("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f32", "f32", "f32"), ("f64", "f64", "f64"), ("i8", "i8", "i32"),
                              ("e4m3", "e4m3", "f32"), ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f32"), ("e5m2", "e5m2", "f32")):
        most = {"i8": 128}.get(left, 4)
        a, b = ([r.randint(-most, most - 1) for _ in range(count)] for count in (m * k, k * n))
        c = [sum(a[i * k + x] * b[x * n + j] for x in range(k)) for i in range(m) for j in range(n)]
        operands = [In("u8", [fp8_nearest(kind, float(v), True) for v in values]) if kind in ("e4m3", "e5m2") else In(kind, values)
                    for kind, values in ((left, a), (right, b))]
        yield Case("product-%s-%s" % (left, right), "product[T=%s,S=%s,R=%s]" % (left, right, sums), (1,), operands + [Out(sums, c)])
    yield from near_product_cases(r)
    k = 128
    for left, right in itertools.product(("e4m3", "e5m2"), repeat=2):
        a, b = ([r.randint(-4, 3) for _ in range(count)] for count in (m * k, k * n))
        c = [sum(map(operator.mul, a[i * k:(i + 1) * k], b[j::n])) for i in range(m) for j in range(n)]
        operands = [In("u8", [fp8_nearest(kind, float(v), True) for v in values]) for kind, values in ((left, a), (right, b))]
        yield Case("product-wide-%s-%s" % (left, right), "product_wide[T=%s,S=%s]" % (left, right), (1,), operands + [Out("f32", c)])
    m, n, k = 16, 16, 1024
    a, b = ([r.randint(-4, 3) for _ in range(count)] for count in (m * k, k * n))
    c = [sum(a[i * k + x] * b[x * n + j] for x in range(k)) for i in range(m) for j in range(n)]
    yield Case("product-in-parts", "product_in_parts", (1,), [In("f32", a), In("f32", b), Out("f32", c)])


def near_product_cases(r):
    m, n = 64, 64
    for kind, sums, by, k in (("f16", "f32", 0, 80), ("f16", "f32", 1, 80), ("bf16", "f32", 0, 16), ("i8", "i32", 1, 96)):
        a, b = ([r.randint(-4, 3) for _ in range(count)] for count in (m * k, k * n))
        column = lambda j: b[j::n] if by else b[j * k:(j + 1) * k]
        c = [sum(map(operator.mul, a[(m - 1 - i) * k:(m - i) * k], column(j))) for i in range(m) for j in range(n)]
        yield Case("product-near-%s-%d" % (kind, by), "product_near[T=%s,R=%s,BY=%d]" % (kind, sums, by), (1,), [In(kind, a), In(kind, b), Out(sums, c), Number("i32", k)])
    for by, k in ((0, 80), (1, 80), (0, 32), (1, 0)):
        a, b = ([r.randint(-4, 3) for _ in range(count)] for count in (m * k, k * n))
        column = lambda j: b[j::n] if by else b[j * k:(j + 1) * k]
        c = [sum(map(operator.mul, a[i * k:(i + 1) * k], column(j))) for i in range(m) for j in range(n)]
        yield Case("product-counted-%d-%d" % (by, k), "product_counted[BY=%d]" % by, (1,), [In("f16", a), In("f16", b), Out("f32", c), Number("i32", k)])
    m, n, k = 32, 128, 208
    a, b = ([r.randint(-128, 127) for _ in range(count)] for count in (m * k, k * n))
    c = [sum(map(operator.mul, a[i * k:(i + 1) * k], b[j::n])) for i in range(m) for j in range(n)]
    yield Case("product-bytes", "product_bytes", (1,), [In("i8", a), In("i8", b), Out("i32", c), Number("i32", k)])
    q, k, n = [r.randint(-2, 1) for _ in range(64 * 128)], [r.randint(-2, 1) for _ in range(96 * 128)], 3
    products = [[sum(map(operator.mul, q[i * 128:(i + 1) * 128], k[j * 128:(j + 1) * 128])) for j in range(32 * n)] for i in range(64)]
    sums = [float(sum(row)) for row in products]
    for at in range(n): sums = [old * 0.5 + max(row[32 * at:32 * (at + 1)]) for old, row in zip(sums, products)]
    yield Case("product-two-loops", "two_loops", (1,), [In("f16", q), In("f16", k), Out("f32", [v for v in sums for _ in range(128)]), Number("i32", n)])


def large_product_cases():
    r = random.Random(11)
    for kind, n, k in (("f32", 128, 128), ("f64", 64, 128), ("f64", 64, 256)):
        a, b = ([r.randint(-4, 3) for _ in range(n * k)] for _ in range(2))
        columns = [b[j::n] for j in range(n)]
        c = [sum(map(operator.mul, a[i * k:(i + 1) * k], column)) for i in range(n) for column in columns]
        yield Case("product-large-%s-%d" % (kind, k), "product_large[T=%s,N=%d,K=%d]" % (kind, n, k), (1,), [In(kind, a), In(kind, b), Out(kind, c)])


# Small integers: exact in every order.
def large_reduction_cases():
    r = random.Random(12)
    x, live = [r.randint(-4, 4) for _ in range(32768)], 30001
    yield Case("reduce-large", "reduce_large[T=f32]", (1,), [In("f32", x), In("i32", [live]), Out("f32", [sum(x[:live])])])
    v = x[:live] + [2] * (len(x) - live)
    yield Case("reduce-large-rows", "reduce_large_rows", (1,),
               [In("bf16", x), In("i32", [live]), Out("f32", [sum(t * t - 1 for t in v[i:i + 8192]) for i in range(0, len(v), 8192)])])
    x = [r.randint(-10**6, 10**6) for _ in range(1024 * 16)]
    yield Case("reduce-large-columns", "reduce_large_columns", (1,), [In("f32", x), In("i32", [777]), Out("f32", [max(x[i:777 * 16:16]) for i in range(16)])])


def reread_cases():
    r = random.Random(14)
    a, b = ([r.randint(-4, 3) for _ in range(64 * 64)] for _ in range(2))
    c = [2 * sum(map(operator.mul, a[i:i + 64], b[j::64])) for i in range(0, 64 * 64, 64) for j in range(64)]
    yield Case("reread-product", "reread_product", (1,), [In("f16", a), In("f16", b), Out("f32", c, start=[7.0] * len(c))])
    n = 3
    for kind in ("f32", "f16"):
        a, b, c = ([r.randint(-4, 3) for _ in range(count)] for count in (n * 1024, n * 4096, 4096))
        sums = [c[i * 128 + j] + sum(a[t * 1024 + i * 32 + k] * b[t * 4096 + k * 128 + j] for t in range(n) for k in range(32)) for i in range(32) for j in range(128)]
        yield Case("reread-carried-" + kind, "reread_carried[T=%s]" % kind, (1,), [In(kind, a), In(kind, b), Out("f32", sums, start=c), Number("i32", n)])


def all_cases():
    for make in (reread_cases, cast_cases, math_cases, division_cases, exchange_cases, product_cases, large_product_cases, large_reduction_cases): yield from make()


# -------------------------------------------------------------------------------------------------------------------- running
class Failure(Exception): pass


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode: raise Failure("%s: exit %d: %s" % (os.path.basename(command[0]), done.returncode, (done.stderr + done.stdout).strip()[-500:]))
    return done.stdout


def same(got, want, tolerance):
    if isinstance(want, float) and math.isnan(want): return math.isnan(got)
    if got == want: return True
    return tolerance > 0 and math.isfinite(got) and abs(got - want) <= tolerance * max(abs(want), 1e-30 if tolerance < 2e-6 else 1.0)


def compare(number, arg, order, data):
    got = unpack(arg.kind, data)
    wrong = [i for i, (g, w) in enumerate(zip(got, arg.expected)) if not same(g, w, arg.tolerance)]
    if wrong:
        i = wrong[0]
        raise Failure("%s: argument %d: %d of %d elements differ; element %d: expected %r, found %r" % (order, number, len(wrong), len(got), i, arg.expected[i], got[i]))


def argument(driver, number, arg, poison, around):
    if isinstance(arg, Number): return driver.val(arg.kind, arg.value)
    is_read, size = isinstance(arg, In), SIZES[arg.kind]
    data = arg.values if is_read else arg.start
    return Buffer(driver, "argument %d" % number, size, None if data is None else pack(arg.kind, data), 0 if is_read else len(arg.expected) * size, poison, around, is_read)


def child(name, code):
    """A process of its own for each case: an access outside of all buffers ends it."""
    case, driver = next(c for c in all_cases() if c.name == name), corrected.load()
    module, emulator = driver.Module(code), driver.Emu(EMULATOR)
    (kernel, facts), = module.kernels.items()
    try:
        for order, poison, around in ROUNDS:
            emulator.order, emulator.poison = order, poison
            args = [argument(driver, i, a, poison, around) for i, a in enumerate(case.args)]
            emulator.launch(module, kernel, (list(case.grid) + [1, 1])[:3], [facts[".max_flat_workgroup_size"], 1, 1], [getattr(a, "pointer", a) for a in args])
            for i, a in enumerate(case.args):
                if isinstance(a, Out): compare(i, a, order, args[i].bytes())
                outside = "" if isinstance(a, Number) else args[i].written_outside()
                if outside: raise Failure("%s: %s" % (order, outside))
    except (Failure, driver.Trap) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


def run_case(case, target):
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "kernel.hsaco")
        call([os.path.join(BUILD, "bin", "kiln"), "compile", "--no-cache", "-q", "-t", target, "-k", case.kernel, "-o", code, os.path.join(HERE, "cases.kiln")])
        call([sys.executable, os.path.abspath(__file__), "--child", case.name, code])


# Every job returns rows: a name, what failed or None, how many tests that was.
def attempt(case, target):
    name = "%s@%s" % (case.name, target)
    try:
        run_case(case, target)
        return [(name, None, 1)]
    except (Failure, subprocess.TimeoutExpired) as e: return [(name, str(e), 1)]


def emulated(target, order, poison, around, align, command):
    """What a program printed whose hip:0 is the emulator, and a row if it did not come to its end."""
    environment = dict(os.environ, KILN_BUILD=BUILD, KILN_EMULATED_ORDER=order, KILN_EMULATED_POISON=hex(poison), KILN_EMULATED_ALIGN=str(align), KILN_EMULATED_AROUND=str(around))
    done = subprocess.run([os.path.join(HERE, "emulated.sh"), target] + command, env=environment, capture_output=True, text=True)
    whole = re.search(r"^\d+ passed, \d+ failed, \d+ skipped$", done.stdout, re.M)
    return done.stdout, [] if whole else [("%s@%s" % (os.path.basename(command[0]), target), "exit %d: %s" % (done.returncode, done.stderr.strip()[-500:]), 1)]


def library(bundle, target, order, poison, around, part):
    text, rows = emulated(target, order, poison, around, 16, [os.path.join(BUILD, "bin", "kernel-check"), bundle, "hip:0"] + ([part] if part else []))
    return rows + [("%s@%s %s %#x" % (name, target, order, poison), reason or None, 1) for name, reason in re.findall(r"^(\w+) +(?:pass .*|fail +(.*))$", text, re.M)]


def generated(target, order, poison, around, count, kind):
    text, rows = emulated(target, order, poison, around, 64, [os.path.join(BUILD, "bin", "generated-check"), "hip:0", "1", str(count), kind])
    where = "%s %s %s %#x" % (target, kind, order, poison)
    rows += [("generated %s@%s" % (seed, where), reason, 1) for seed, reason in re.findall(r"^(seed \d+) fail: (.*)$", text, re.M)]
    return rows + [("%s generated kernels@%s" % (n, where), None, int(n)) for n in re.findall(r"^(\d+) passed", text, re.M)]


def jobs_of(targets, parts, count, bundle):
    for target in targets:
        for round in ROUNDS:
            for part in (parts or [None]) if bundle else (): yield lambda t=target, r=round, p=part: library(bundle, t, *r, p)
            for kind in ("--no-maths", "--rereads") if count else (): yield lambda t=target, r=round, k=kind: generated(t, *r, count, k)
        for case in all_cases():
            if not parts or any(p in case.name for p in parts): yield lambda c=case, t=target: attempt(c, t)


def main(words):
    parts, options = [w for w in words if not w.startswith("--")], dict(w[2:].split("=", 1) for w in words if w.startswith("--") and "=" in w)
    if not EMULATOR or not AMDRUN:
        print("skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    targets = options["targets"].split(",") if "targets" in options else TARGETS
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(int(options.get("workers", 2))) as pool:
        bundle = None if "--cases" in words else os.path.join(folder, "kernels.kbundle")
        if bundle: call([os.path.join(BUILD, "bin", "kiln"), "build", "-q", "-o", bundle, "-t", ",".join(targets)] + sorted(glob.glob(os.path.join(ROOT, "kernels", "*.kiln"))))
        for rows in pool.map(lambda job: job(), list(jobs_of(targets, parts, int(options.get("generated", 0)), bundle))):
            for name, reason, count in rows:
                print("%s %s%s" % ("FAIL" if reason else "ok  ", name, ": " + reason if reason else ""), flush=True)
                if reason: failed += count
                else: passed += count
    print("emulated, not run on AMD hardware")
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]: sys.exit(child(*sys.argv[2:4]))
    sys.exit(main(sys.argv[1:]))
