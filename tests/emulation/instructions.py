#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single instructions on the emulator against plain arithmetic (manual.py): the test of the test bed.

  KILN_AMD_EMULATOR=<tree> KILN_AMDRUN=<amdrun.py> tests/emulation/instructions.py [--seed=1] [--forms=2] [--targets=gfx942,...] [--seconds=N] [part of a name...]

For each instruction and encoding (short, long, exchange between lanes, part of a word) forms are drawn: operands in registers, constants and literals,
modifiers, overlapping registers, lanes switched off, denormals of f32 kept or not in operands and in results. LLVM's assembler makes the bytes and rejects what the target does not have. Each runs once on drawn
registers; every register of the wave is then compared, those that should not change among them. A refused instruction is a failure here. --forms: how many per
encoding. --seconds: stop after these, with the instructions in drawn order. A seed draws the same forms again.
"""
import array, ctypes, fractions, math, os, random, re, struct, subprocess, sys, time

sys.dont_write_bytecode = True
import memory_forms, packed_forms
from drawn_operands import (EXEC, INLINE_FLOATS, KEPT, MASK, NULL, SCC, SELECTS, VCC, Source, Target, Test, constant_bits, draw_bits, draw_select, is_signalling, source, vector,
                            without_denormals)
from manual import ANY, FLOATS, ROWS, SCALARS, Near, bits_of_type, decode, encode, fma

ASSEMBLER = os.environ.get("KILN_LLVM_MC", "llvm-mc-22")
TARGETS = ("gfx942", "gfx1100", "gfx1201")


# -------------------------------------------------------------------------------------------------------------------- state
class State:
    """The registers and the mode of a wave before an instruction."""

    denormals = KEPT

    def __init__(self, r, target):
        self.lanes = target.lanes
        self.v = array.array("I", [r.getrandbits(32) for _ in range(256)] * target.lanes)
        self.s = array.array("I", [r.getrandbits(32) for _ in range(104)])
        self.exec = r.choice((r.getrandbits(64), r.getrandbits(64), (1 << 64) - 1, 1 << r.randrange(64), 1)) & (1 << self.lanes) - 1 or 1
        self.vcc, self.scc = r.getrandbits(self.lanes), r.randrange(2)

    def fill(self, r, sources, moderate=False):
        for x in sources:
            if x.file == "c": continue
            drawn = [encode(x.kind, r.choice((-1, 1)) * 2.0**r.uniform(-9, 9)) for _ in range(self.lanes)] if moderate else [draw_bits(r, x.kind if x.kind != "mask" else "u64") for _ in range(self.lanes if x.file == "v" else 1)]
            for k in range((bits_of_type(x.kind) + 31) // 32 if x.kind != "mask" else 2):
                for lane, bits in enumerate(drawn):
                    at = (x.number + k) * self.lanes + lane
                    if x.file == "s":
                        if x.number + k >= 104: continue
                        keep = ~(0xFFFF << 16 * x.half) & MASK if x.kind[1:] == "16" else 0
                        self.s[x.number + k] = self.s[x.number + k] & keep | (bits >> 32 * k & MASK) << 16 * x.half
                    elif bits_of_type(x.kind) == 16: self.v[at] = self.v[at] & ~(0xFFFF << 16 * x.half) & MASK | bits << 16 * x.half
                    else: self.v[at] = bits >> 32 * k & MASK

    def mask(self, at): return self.vcc if at == VCC else self.s[at] | (self.s[at + 1] << 32 if self.lanes == 64 else 0)
    def active(self, lane): return self.exec >> lane & 1


# ------------------------------------------------------------------------------------------------------------------ drawing
def result_words(to, bits, old, half, is_gfx9, keeps_other=True):
    """Registers that hold a result: 16 bits fill the lower half, on gfx9 with zeros above, elsewhere the other half stays."""
    size = bits_of_type(to)
    if size == 16: return [(old & ~(0xFFFF << 16 * half) & MASK | bits << 16 * half) if keeps_other or half else bits]
    return [bits >> 32 * k & MASK for k in range(size // 32)]


def vector_test(r, target, name, encoding):
    to, kinds, compute = ROWS[name]
    short, sdwa, dpp = encoding != "e64", encoding == "sdwa", encoding == "dpp"
    used, scalars, sources = [], [], []
    plain = [k for k in kinds if k != "mask"]
    for i, kind in enumerate(plain):
        must = dpp and i == 0 or short and i == 1 and not (sdwa and r.random() < 0.3) or sdwa and i == 0 and r.random() < 0.7
        x = vector(r, target, kind, used, short) if must else source(r, target, kind, used, scalars, short)
        if sdwa and x.file == "c" and x.name.startswith("0x"): return None
        if (encoding == "e64" or dpp or sdwa) and kind[0] == "f" and x.file != "c":
            x.negative, x.magnitude = int(r.random() < 0.35), int(r.random() < 0.35)
        if sdwa: x.select = draw_select(r, kind, x.file == "c")
        sources.append(x)
    mask = None
    if "mask" in kinds:
        mask = VCC if short or r.random() < 0.3 else 2 * r.randrange(20, 40)
        if mask != VCC: sources.append(Source("mask", "s", mask, target.mask_text(mask)))
    tail = ""
    opcode = name + ("_e64" if encoding == "e64" else "_e32" if encoding == "e32" else "_" + encoding)
    if to in ("bit", "exec"): return compare_test(r, target, opcode, to, sources, compute, encoding)
    destination = vector(r, target, to, used, short)
    for x in sources + [destination]: x.is_moved = "cndmask" in name
    operands = [destination.name] + [x.text() for x in sources]
    if mask == VCC: operands.append(target.vcc)
    place = None
    if sdwa:
        place = r.choice(list(SELECTS)), r.choice(("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"))
        tail += " dst_sel:%s dst_unused:%s" % place + "".join(" src%d_sel:%s" % (i, x.select[0] if x.select else "DWORD") for i, x in enumerate(sources))
    exchange = memory_forms.draw_exchange(r, target) if dpp else None
    if exchange: tail += " " + exchange.text
    real = [x for x in sources if x.kind != "mask"]

    def expect(state):
        out = []
        for lane in range(state.lanes):
            if not state.active(lane): continue
            first = None
            if exchange:
                found = exchange.read(state, lane)
                if found is None: continue      # stays
                first = 0 if found < 0 else real[0].bits(state, found)
            values = [x.value(state, lane, first if i == 0 and exchange else None) for i, x in enumerate(real)]
            if mask: values.append(state.mask(mask) >> lane & 1)
            value = compute(*values)
            if value is None: return None
            if any(is_signalling(x.kind, first if i == 0 and exchange else x.bits(state, lane)) for i, x in enumerate(real)): value = ANY
            out.append((destination, lane, to, value, place))
        return out

    return Test(opcode, "%s %s%s" % (opcode, ", ".join(operands), tail), sources, expect)


def compare_test(r, target, opcode, to, sources, compute, encoding):
    at = VCC if encoding != "e64" or r.random() < 0.2 else 2 * r.randrange(20, 40)
    if encoding in ("dpp", "sdwa"): return None
    first = "" if to == "exec" and not target.is_gfx9 else target.mask_text(at) + ", "
    if to == "exec" and target.is_gfx9: return None

    def expect(state):
        bits = sum(1 << lane for lane in range(state.lanes) if state.active(lane) and compute(*[x.value(state, lane) for x in sources]))
        return [("mask", EXEC if to == "exec" else at, bits)]

    return Test(opcode, "%s %s%s" % (opcode, first, ", ".join(x.text() for x in sources)), sources, expect)


def division_test(r, target, name, _):
    """Steps of a precise division of numbers in the middle of the range, where they scale nothing: the forms of operands are what is tested. Extreme numbers:
    divide-exactly of emulate.py."""
    kind, step, scalars = name[-3:], name[6:-4], []
    sources = [vector(r, target, kind, []) if i == r.randrange(3) else source(r, target, kind, [], scalars) for i in range(3)]
    for x in sources:
        if x.file == "c": continue
        x.negative, x.magnitude = int(r.random() < 0.4), int(step != "scale" and r.random() < 0.4)
    if step == "scale": sources[0] = sources[r.randrange(1, 3)]
    size = bits_of_type(kind)
    top = 1 << size - 1
    to, at = vector(r, target, kind, []), 2 * r.randrange(20, 40)
    if not target.is_gfx9 and r.random() < 0.3: at = None   # `null`: the condition is not kept

    def expect(state):
        out, lanes = [], [lane for lane in range(state.lanes) if state.active(lane)]
        for lane in lanes:
            values = [x.value(state, lane) for x in sources]
            if not all(2.0**-20 < abs(v) < 2.0**20 for v in values): return None
            if step == "scale": value = values[0]
            elif step == "fmas": value = fma(*values) if not state.vcc >> lane & 1 else ANY
            else: value = math.copysign(abs(values[0]), values[1]) * (-1 if values[2] < 0 else 1)
            out.append((to, lane, kind, value, None))
        return out + ([("mask", at, 0)] if step == "scale" and at is not None else [])

    operands = [to.name] + (["null" if at is None else target.mask_text(at)] if step == "scale" else []) + [x.text() for x in sources]
    test = Test(name, "%s %s" % (name, ", ".join(operands)), sources, expect)
    test.moderate = at is not None   # where something is scaled, null has to stay 0
    return test


def scalar_source(r, kind, literals):
    what = r.random()
    size = bits_of_type(kind)
    if what < 0.6:
        number = 2 * r.randrange(2, 20)
        return Source(kind, "s", number, "s[%d:%d]" % (number, number + 1) if size == 64 else "s%d" % number)
    if what < 0.85 or literals or size == 64:
        text = r.choice(list(INLINE_FLOATS)) if kind[0] == "f" and r.random() < 0.7 else str(r.randint(-16, 64))
        return Source(kind, "c", constant_bits(kind, text), text)
    literals.append(1)
    bits = draw_bits(r, kind) & MASK
    return Source(kind, "c", bits, "0x%x" % bits)


def scalar_test(r, target, name, _):
    to, kinds, compute = SCALARS[name]
    literals = []
    sources = [scalar_source(r, k, literals) for k in kinds]
    at = 2 * r.randrange(2, 45)
    operands = [] if to == "scc" else ["s[%d:%d]" % (at, at + 1) if bits_of_type(to) == 64 else "s%d" % at]

    def expect(state):
        result, condition = compute(*[x.value(state, 0) for x in sources], state.scc)
        out = [] if condition is None else [("scc", int(condition))]
        if result is not None:
            bits = without_denormals(to, encode(to, result), state.denormals & 2)
            if to == "f32" and bits & 0x7FFFFFFF > 0x7F800000: return out + [("nan", at)]
            out += [("s", at + k, bits >> 32 * k & MASK) for k in range(bits_of_type(to) // 32)]
        return out

    return Test(name, "%s %s" % (name, ", ".join(operands + [x.text() for x in sources])), sources, expect)


# ------------------------------------------------------------------------------------------------------------------ running
def assemble(target, tests):
    """Gives tests their bytes; those that the assembler rejects are left out."""
    while True:
        text = ".text\n" + "".join(t.text + "\n" for t in tests)
        done = subprocess.run([ASSEMBLER, "-triple=amdgcn-amd-amdhsa", "-mcpu=" + target.name, "-show-encoding"], input=text, capture_output=True, text=True)
        wrong = {int(n) - 2 for n in re.findall(r"^<stdin>:(\d+):\d+: error", done.stderr, re.M)}
        if not wrong: break
        tests = [t for i, t in enumerate(tests) if i not in wrong]
    codes = re.findall(r"encoding: \[([0-9a-fx,]+)\]", done.stdout)
    if len(codes) != len(tests): raise SystemExit("%s printed %d encodings of %d instructions" % (ASSEMBLER, len(codes), len(tests)))
    for t, code in zip(tests, codes): t.code = bytes(int(b, 16) for b in code.split(","))
    return tests


class Bed:
    """A wave on the emulator, which takes single instructions."""

    def __init__(self, driver, target):
        self.driver, self.target = driver, target
        self.emu = driver.Emu(os.environ["KILN_AMD_EMULATOR"])
        self.emu.gfx, self.emu.cache = target.name, {}
        self.emu.facts = None, {"code0": 0, "code1": 1 << 64, "code": 0}, None, None, target.arch, 0, 0, target.lanes
        self.wave_state = self.emu.emu.WaveState(target.lanes, target.lanes)
        self.shared = driver.Buf(size=1 << 16, poison=0)
        self.private = driver.Buf(size=1 << 16, poison=0)
        self.wave_state._write_sgpr(259, 256)
        st = self.wave_state
        self.addresses = [st.sgpr_buf._buf.va_addr, st.vgpr_buf._buf.va_addr, 0, self.shared.addr, self.private.addr, st.accvgpr_buf._buf.va_addr]

    def run(self, code, state):
        """The registers afterwards, and where the program counter stands from the instruction's begin."""
        import modes, scheduler
        kept, s, v = self.driver.Buf(data=code + struct.pack("<I", 0xBF800000) * 8), self.wave_state._sgpr_mv, self.wave_state._vgpr_mv
        for i, x in enumerate(state.s): s[i] = x
        v[:] = memoryview(state.v)
        wide = self.target.lanes == 64
        for at, bits in ((VCC, state.vcc), (EXEC, state.exec)):
            s[at] = bits & MASK
            if wide: s[at + 1] = bits >> 32
        self.emu.flushes, s[modes.MODE_SLOT] = state.denormals != KEPT, state.denormals
        s[SCC], s[256], s[257] = state.scc, kept.addr & MASK, kept.addr >> 32
        if self.target.arch != "cdna": s[NULL] = 0
        wave = scheduler.Wave(0, self.wave_state, self.addresses)
        self.emu.cache.clear()
        call, arguments, _, _ = self.emu.bind(wave, kept.addr, self.target.arch)
        if call is None: raise self.driver.Trap("trap")
        call(*arguments)
        return s.tolist(), array.array("I", v.tobytes()), (s[256] | s[257] << 32) - kept.addr


def same_bits(to, want, got, keeps_denormals):
    """Whether a result is right; every NaN equals every other."""
    relative = 0.0
    if want is ANY: return True
    if isinstance(want, Near): want, relative = want.value, want.relative
    bits = without_denormals(to, encode(to, want), keeps_denormals)
    if bits == got: return True
    if to[0] != "f": return False
    wanted, found = decode(to, bits), decode(to, got)
    if math.isnan(wanted): return math.isnan(found)
    if not relative or not math.isfinite(wanted) or not math.isfinite(found): return False
    return abs(wanted - found) <= relative * max(abs(wanted), 2.0**FLOATS[to][4])


def placed(to, bits, old, place, half, target):
    if place:
        shift, width = SELECTS[place[0]]
        part, kept = (bits & (1 << width) - 1) << shift, (1 << width) - 1 << shift
        if place[1] == "UNUSED_PRESERVE": return [old & ~kept | part]
        if place[1] == "UNUSED_SEXT" and bits >> width - 1 & 1: part |= MASK & ~((1 << shift + width) - 1)
        return [part]
    return result_words(to, bits, old, half, target.is_gfx9, keeps_other=not target.is_gfx9)


def found_bits(to, words, place, half):
    whole = sum(w << 32 * k for k, w in enumerate(words))
    if place: return whole >> SELECTS[place[0]][0] & (1 << SELECTS[place[0]][1]) - 1
    return whole >> 16 * half & (1 << bits_of_type(to)) - 1


def verdict(bed, test, state):
    """None, or what is wrong."""
    target, wanted = bed.target, test.expect(state)
    s, v, moved = bed.run(test.code, state)   # also where the result is left open: it must not be refused
    if not target.is_gfx9 and s[NULL]: return "null reads as %#x afterwards" % s[NULL]
    if wanted is None: return None
    if moved != len(test.code): return "the program counter moved by %d, expected %d" % (moved, len(test.code))
    want_v, want_s = array.array("I", state.v), list(state.s) + [state.vcc & MASK, state.vcc >> 32, state.exec & MASK, state.exec >> 32, state.scc]
    got_s = s[:104] + [s[VCC], s[VCC + 1] if target.lanes == 64 else 0, s[EXEC], s[EXEC + 1] if target.lanes == 64 else 0, s[SCC]]
    for entry in wanted:
        if entry[0] == "scc": want_s[108] = entry[1]
        elif entry[0] == "s": want_s[entry[1]] = entry[2]
        elif entry[0] == "nan":
            if s[entry[1]] & 0x7FFFFFFF <= 0x7F800000: return "s%d: expected NaN, found %#x" % (entry[1], s[entry[1]])
            want_s[entry[1]] = s[entry[1]]
        elif entry[0] == "v": want_v[entry[1] * target.lanes + entry[2]] = entry[3]
        elif entry[0] == "mask":
            at = {VCC: 104, EXEC: 106}.get(entry[1], entry[1])
            want_s[at] = entry[2] & MASK
            if target.lanes == 64: want_s[at + 1] = entry[2] >> 32
        else:
            to_register, lane, to, value, place = entry
            count, exact = (bits_of_type(to) + 31) // 32, value.value if isinstance(value, Near) else value
            at = [(to_register.number + k) * target.lanes + lane for k in range(count)]
            keeps = to_register.is_moved or state.denormals & 2
            old, bits = want_v[at[0]], without_denormals(to, encode(to, exact), keeps)
            got = found_bits(to, [v[a] for a in at], place, to_register.half)
            if same_bits(to, value, got, keeps) or place and (exact != exact or isinstance(value, Near)): bits = got
            if re.search("v_(pk_|dual_)?m(in|ax|ed3)", test.name) and isinstance(exact, float) and not exact and not got & (1 << bits_of_type(to) - 1) - 1: bits = got   # of minima and maxima the sign of 0 is left open
            for a, word in zip(at, placed(to, bits, old, place, to_register.half, target)): want_v[a] = word
    for i, (want, got) in enumerate(zip(want_s, got_s)):
        if want != got: return "scalar %s: expected %#x, found %#x" % (i if i < 104 else ("vcc", "vcc_hi", "exec", "exec_hi", "scc")[i - 104], want, got)
    if want_v == v: return None
    at = next(i for i in range(len(v)) if want_v[i] != v[i])
    register, lane = divmod(at, target.lanes)
    sources = ", ".join("%s = %#x" % (x.name, x.bits(state, lane)) for x in test.sources if x.kind != "mask")
    return "v%d of lane %d (%s): %s; expected %#x, found %#x" % (register, lane, "on" if state.active(lane) else "off", sources, want_v[at], v[at])


def forms(r, target, parts, count):
    """Tests in a drawn order, as the assembler takes them."""
    makers = [(name, encoding, vector_test) for name in ROWS for encoding in ("e32", "e64", "dpp") + (("sdwa",) if target.is_gfx9 else ())]
    makers += [(name, "", scalar_test) for name in SCALARS]
    makers += [("v_div_%s_%s" % (step, kind), "", division_test) for step in ("scale", "fmas", "fixup") for kind in ("f32", "f64")]
    makers += [(name, "", maker) for name, maker in [*memory_forms.makers(target), *packed_forms.makers(target)]]
    makers = [m for m in makers if not parts or any(p in m[0] for p in parts)]
    tests = []
    for name, encoding, make in makers:
        drawn = [make(r, target, name, encoding) for _ in range(3 * count if make is not division_test else 12 * count)]
        tests += [(name + encoding, t) for t in drawn if t]
    accepted, kept = set(map(id, assemble(target, [t for _, t in tests]))), {}
    for key, t in tests:
        if id(t) in accepted and len(kept.setdefault(key, [])) < (count if "v_div" not in key else 4 * count): kept[key].append(t)
    out = [t for group in kept.values() for t in group]
    r.shuffle(out)
    return out


def check(driver, target, seed, count, parts, until):
    """How many forms ran, and failures as pairs of text and reason."""
    r, bed, ran, failures = random.Random("%s %s" % (seed, target.name)), Bed(driver, target), 0, []
    for test in forms(r, target, parts, count):
        if time.monotonic() > until: break
        state = State(r, target)
        state.fill(r, test.sources, getattr(test, "moderate", False))
        state.denormals = r.choice((0, 1, 2, KEPT, KEPT, KEPT))
        if any(x.file == "c" and without_denormals(x.kind, x.number, False) != x.number for x in test.sources): state.denormals = KEPT   # such constants are refused
        try: reason = memory_forms.verdict(bed, test, state, r) if isinstance(test, memory_forms.Access) else verdict(bed, test, state)
        except (driver.Trap, RuntimeError, AssertionError, SystemExit) as e: reason = "refused: %s" % str(e)[:300]
        ran += 1
        if reason: failures.append((test.text, reason))
    return ran, failures


def main(words):
    parts, options = [w for w in words if not w.startswith("--")], dict(w[2:].split("=", 1) for w in words if w.startswith("--"))
    if not os.environ.get("KILN_AMD_EMULATOR") or not os.environ.get("KILN_AMDRUN"):
        print("skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver\n0 passed, 0 failed, 1 skipped")
        return 0
    import emulator
    driver, seed, passed, failed = emulator.load(), options.get("seed") or str(random.SystemRandom().randrange(10**9)), 0, 0
    targets = [Target(t) for t in options.get("targets", ",".join(TARGETS)).split(",")]
    print("seed %s" % seed, flush=True)
    begin, seconds = time.monotonic(), float(options.get("seconds", 10**9))
    for i, target in enumerate(targets):
        ran, failures = check(driver, target, seed, int(options.get("forms", 2)), parts, begin + seconds * (i + 1) / len(targets))
        for text, reason in failures: print("FAIL %s %s: %s" % (target.name, text, reason), flush=True)
        print("%s: %d forms, %d failed" % (target.name, ran, len(failures)), flush=True)
        passed, failed = passed + ran - len(failures), failed + len(failures)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
