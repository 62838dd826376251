# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What AMD's manuals say that instructions compute, in plain Python arithmetic. It judges the emulator and its corrections (instructions.py) and shares no code with either.

A row: name without its encoding: type of the result, types of the sources, function of their values. Floats come as Python's floats, integers as integers; a
result may be a Fraction, which is rounded once. `Near` allows a relative difference: hardware approximates these.
"""
import fractions, math, struct

Fraction = fractions.Fraction
FLOATS = {"f16": ("<e", "<H", 16, 10, -14), "f32": ("<f", "<I", 32, 23, -126), "f64": ("<d", "<Q", 64, 52, -1022)}   # formats of struct, bits, fraction bits, least exponent


def bits_of_type(kind): return int(kind[1:])


def decode(kind, bits):
    """The value of the bits of one operand."""
    size = bits_of_type(kind)
    bits &= (1 << size) - 1
    if kind[0] == "f":
        value_format, bits_format = FLOATS[kind][:2]
        return struct.unpack(value_format, struct.pack(bits_format, bits))[0]
    return bits - (1 << size) if kind[0] == "i" and bits >> size - 1 else bits


def round_fraction(kind, value):
    """The bits of the nearest float, ties to even; beyond the largest: infinity."""
    _, _, size, fraction, least = FLOATS[kind]
    sign, value = (1 << size - 1 if value < 0 else 0), abs(value)
    if not value: return sign
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2)**exponent: exponent -= 1
    exponent = max(exponent, least)
    steps = round(value / Fraction(2)**(exponent - fraction))
    infinity = (1 << size - 1) - (1 << fraction)
    return sign | min(infinity, steps + (exponent - least << fraction))


def encode(kind, value):
    if kind[0] != "f": return int(value) & (1 << bits_of_type(kind)) - 1
    if isinstance(value, Fraction): return round_fraction(kind, value)
    value_format, bits_format = FLOATS[kind][:2]
    try: return struct.unpack(bits_format, struct.pack(value_format, value))[0]
    except OverflowError: return encode(kind, math.copysign(math.inf, value))


class Near:
    def __init__(self, value, relative): self.value, self.relative = value, relative


ANY = Near(0.0, math.inf)   # what is left open


def fma(a, b, c):
    if not all(map(math.isfinite, (a, b, c))):
        if math.isinf(c) and math.isfinite(a) and math.isfinite(b): return c
        return math.nan if math.isnan(c) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact: return exact
    return math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b)) + c if not a or not b else 0.0   # what cancels is +0


def times(a, b):
    """A product that is finite where both are, as far as signs and kinds go."""
    if math.isfinite(a) and math.isfinite(b): return Fraction(a) * Fraction(b) or math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b))
    return a * b


def order(x): return x, math.copysign(1, x)


def low(a, b): return b if math.isnan(a) else a if math.isnan(b) else min(a, b, key=order)
def high(a, b): return b if math.isnan(a) else a if math.isnan(b) else max(a, b, key=order)


def middle(a, b, c):
    if any(map(math.isnan, (a, b, c))): return low(low(a, b), c)
    return sorted((a, b, c), key=order)[1]


def to_even(x):
    if not math.isfinite(x) or abs(x) >= 2.0**53: return x
    return math.copysign(float(round(x)), x)


def rounded_by(f): return lambda x: x if not math.isfinite(x) or not x else math.copysign(float(f(x)), x)


def to_integer(low_end, high_end):
    def convert(x):
        if math.isnan(x): return 0
        return max(low_end, min(high_end, int(x))) if math.isfinite(x) else low_end if x < 0 else high_end
    return convert


def scaled(x, by):
    if not math.isfinite(x) or not x: return x
    return Fraction(x) * Fraction(2)**max(-5000, min(5000, by))


def mantissa(x): return math.frexp(x)[0] if math.isfinite(x) else x
def exponent(x): return math.frexp(x)[1] if math.isfinite(x) else 0


def reciprocal(x): return x if math.isnan(x) else math.copysign(math.inf, x) if not x else 1 / x


def root(x): return x if math.isnan(x) or not x else math.nan if x < 0 else math.sqrt(x)
def logarithm(x): return x if math.isnan(x) else -math.inf if not x else math.nan if x < 0 else math.inf if math.isinf(x) else math.log2(x)


def power(x):
    if math.isnan(x): return x
    return math.inf if x > 2000 else 0.0 if x < -2000 else 2.0**x if x < 1024 else math.inf


def near(f, kind, relative=2.0**-20):
    """What hardware approximates. Whether it flushes denormals is left open."""
    least = 2.0**FLOATS[kind][4]
    def compute(x):
        if 0 < abs(x) < least * 4: return ANY
        value = f(x)
        return ANY if 0 < abs(value) < least * 4 else Near(value, relative)
    return compute


def permuted(a, b, select):
    both, out = (a << 32 | b).to_bytes(8, "little"), 0
    for i in range(4):
        s = select >> 8 * i & 255
        byte = both[s] if s < 8 else (255 if both[2 * (s - 8) + 1] >> 7 else 0) if s < 12 else 0 if s == 12 else 255
        out |= byte << 8 * i
    return out


def field(value, offset, width, is_signed):
    offset, width = offset & 31, width & 31
    taken = value >> offset & (1 << width) - 1
    return taken - (1 << width) if is_signed and width and taken >> width - 1 else taken


def reversed_bits(x): return int(format(x, "032b")[::-1], 2)


def classify(bits, mask, kind):
    size, fraction = FLOATS[kind][2:4]
    negative, rest, infinity = bits >> size - 1, bits & (1 << size - 1) - 1, (1 << size - 1) - (1 << fraction)
    if rest > infinity: return bool(mask & (2 if rest >> fraction - 1 & 1 else 1))
    place = 2 if rest == infinity else 5 if not rest else 4 if not rest >> fraction else 3
    return bool(mask >> (place if negative else 11 - place) & 1)


ROWS = {}


def row(names, to, sources, compute):
    for name in names.split(): ROWS[name] = to, sources.split(), compute


for _f in ("f16", "f32", "f64"):
    row("v_add_%s" % _f, _f, "%s %s" % (_f, _f), lambda a, b: a + b)
    row("v_mul_%s" % _f, _f, "%s %s" % (_f, _f), times)
    row("v_fma_%s" % _f, _f, "%s %s %s" % (_f, _f, _f), fma)
    for _n, _c in (("min", low), ("max", high)): row("v_%s_%s v_%s_num_%s" % (_n, _f, _n, _f), _f, "%s %s" % (_f, _f), _c)
    row("v_rndne_%s" % _f, _f, _f, to_even)
    row("v_trunc_%s" % _f, _f, _f, rounded_by(math.trunc))
    row("v_floor_%s" % _f, _f, _f, rounded_by(math.floor))
    row("v_ceil_%s" % _f, _f, _f, rounded_by(math.ceil))
    row("v_frexp_mant_%s" % _f, _f, _f, mantissa)
    row("v_frexp_exp_%s_%s" % ("i16" if _f == "f16" else "i32", _f), "i16" if _f == "f16" else "i32", _f, exponent)
    row("v_ldexp_%s" % _f, _f, "%s %s" % (_f, "i16" if _f == "f16" else "i32"), scaled)
    if _f == "f64": continue
    row("v_sub_%s" % _f, _f, "%s %s" % (_f, _f), lambda a, b: a - b)
    row("v_subrev_%s" % _f, _f, "%s %s" % (_f, _f), lambda a, b: b - a)
    for _n, _c in (("med3", middle), ("max3", lambda a, b, c: high(high(a, b), c)), ("min3", lambda a, b, c: low(low(a, b), c)),
                   ("maxmin", lambda a, b, c: low(high(a, b), c)), ("minmax", lambda a, b, c: high(low(a, b), c))):
        row("v_%s_%s v_%s_num_%s" % (_n, _f, _n, _f), _f, "%s %s %s" % (_f, _f, _f), _c)
    _e = 2.0**-9 if _f == "f16" else 2.0**-20
    row("v_rcp_%s" % _f, _f, _f, near(reciprocal, _f, _e))
    row("v_sqrt_%s" % _f, _f, _f, near(root, _f, _e))
    row("v_rsq_%s" % _f, _f, _f, near(lambda x: reciprocal(root(x)) if x > 0 else math.copysign(math.inf, x) if not x else math.nan, _f, _e))
    row("v_log_%s" % _f, _f, _f, near(logarithm, _f, _e))
    row("v_exp_%s" % _f, _f, _f, near(power, _f, _e))
row("v_rcp_iflag_f32", "f32", "f32", near(reciprocal, "f32"))
row("v_rcp_f64", "f64", "f64", near(reciprocal, "f64"))
row("v_rsq_f64", "f64", "f64", near(lambda x: reciprocal(root(x)) if x > 0 else math.copysign(math.inf, x) if not x else math.nan, "f64"))
row("v_sqrt_f64", "f64", "f64", near(root, "f64"))
row("v_cvt_f32_f16", "f32", "f16", lambda x: x)
row("v_cvt_f16_f32", "f16", "f32", lambda x: x)
row("v_cvt_f64_f32", "f64", "f32", lambda x: x)
row("v_cvt_f32_f64", "f32", "f64", lambda x: x)
for _i in ("i32", "u32"):
    for _f in ("f32", "f64"):
        row("v_cvt_%s_%s" % (_f, _i), _f, _i, lambda x: Fraction(x) or 0.0)
        row("v_cvt_%s_%s" % (_i, _f), _i, _f, to_integer(-2**31, 2**31 - 1) if _i == "i32" else to_integer(0, 2**32 - 1))
row("v_cvt_f16_i16", "f16", "i16", lambda x: Fraction(x) or 0.0)
row("v_cvt_f16_u16", "f16", "u16", lambda x: Fraction(x) or 0.0)
row("v_cvt_i16_f16", "i16", "f16", to_integer(-2**15, 2**15 - 1))
row("v_cvt_u16_f16", "u16", "f16", to_integer(0, 2**16 - 1))
for _i in range(4): row("v_cvt_f32_ubyte%d" % _i, "f32", "u32", lambda x, i=_i: float(x >> 8 * i & 255))
row("v_pack_b32_f16", "u32", "f16 f16", lambda a, b: ANY if a != a or b != b else encode("f16", a) | encode("f16", b) << 16)

for _n, _s in (("u32", 32), ("nc_u32", 32), ("u16", 16), ("nc_u16", 16)):
    _t = "u%d" % _s
    row("v_add_" + _n, _t, "%s %s" % (_t, _t), lambda a, b: a + b)
    row("v_sub_" + _n, _t, "%s %s" % (_t, _t), lambda a, b: a - b)
    row("v_subrev_" + _n, _t, "%s %s" % (_t, _t), lambda a, b: b - a)
for _s in (16, 32, 64):
    _t = "u%d" % _s
    _by = "u16" if _s == 16 else "u32"
    row("v_lshlrev_b%d" % _s, _t, "%s %s" % (_by, _t), lambda a, b, s=_s: b << (a & s - 1))
    row("v_lshrrev_b%d" % _s, _t, "%s %s" % (_by, _t), lambda a, b, s=_s: b >> (a & s - 1))
    row("v_ashrrev_i%d" % _s, "i%d" % _s, "%s i%d" % (_by, _s), lambda a, b, s=_s: b >> (a & s - 1))
    if _s == 64: continue
    row("v_and_b%d" % _s, _t, "%s %s" % (_t, _t), lambda a, b: a & b)
    row("v_or_b%d" % _s, _t, "%s %s" % (_t, _t), lambda a, b: a | b)
    row("v_xor_b%d" % _s, _t, "%s %s" % (_t, _t), lambda a, b: a ^ b)
    row("v_not_b%d" % _s, _t, _t, lambda a: ~a)
    row("v_mov_b%d" % _s, _t, _t, lambda a: a)
    row("v_mul_lo_u%d" % _s, _t, "%s %s" % (_t, _t), lambda a, b: a * b)
    for _p in "iu":
        _q = "%s%d" % (_p, _s)
        for _n, _c in (("min", min), ("max", max), ("min3", min), ("max3", max), ("med3", lambda *x: sorted(x)[1])):
            row("v_%s_%s" % (_n, _q), _q, " ".join([_q] * (3 if "3" in _n else 2)), _c)
row("v_lshrrev_b64 v_lshrrev_b64_e64", "u64", "u32 u64", lambda a, b: b >> (a & 63))
row("v_mov_b64", "u64", "u64", lambda a: a)
row("v_xnor_b32", "u32", "u32 u32", lambda a, b: ~(a ^ b))
row("v_mul_hi_u32", "u32", "u32 u32", lambda a, b: a * b >> 32)
row("v_mul_hi_i32", "i32", "i32 i32", lambda a, b: a * b >> 32)
row("v_mul_u32_u24", "u32", "u32 u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
row("v_mul_i32_i24", "i32", "u32 u32", lambda a, b: field(a, 0, 24, True) * field(b, 0, 24, True))
row("v_mad_u32_u24", "u32", "u32 u32 u32", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c)
row("v_mad_i32_i24", "i32", "u32 u32 u32", lambda a, b, c: field(a, 0, 24, True) * field(b, 0, 24, True) + c)
row("v_bfe_u32", "u32", "u32 u32 u32", lambda a, b, c: field(a, b, c, False))
row("v_bfe_i32", "i32", "i32 u32 u32", lambda a, b, c: field(a, b, c, True))
row("v_bfi_b32", "u32", "u32 u32 u32", lambda a, b, c: a & b | ~a & c)
row("v_bfrev_b32", "u32", "u32", reversed_bits)
row("v_alignbit_b32", "u32", "u32 u32 u32", lambda a, b, c: (a << 32 | b) >> (c & 31))
row("v_perm_b32", "u32", "u32 u32 u32", permuted)
row("v_add3_u32", "u32", "u32 u32 u32", lambda a, b, c: a + b + c)
row("v_lshl_add_u32", "u32", "u32 u32 u32", lambda a, b, c: (a << (b & 31)) + c)
row("v_lshl_add_u64", "u64", "u64 u32 u64", lambda a, b, c: (a << (b & 7)) + c if b & 7 < 5 else None)
row("v_add_lshl_u32", "u32", "u32 u32 u32", lambda a, b, c: (a + b & 0xFFFFFFFF) << (c & 31))
row("v_lshl_or_b32", "u32", "u32 u32 u32", lambda a, b, c: a << (b & 31) | c)
row("v_and_or_b32", "u32", "u32 u32 u32", lambda a, b, c: a & b | c)
row("v_or3_b32", "u32", "u32 u32 u32", lambda a, b, c: a | b | c)
row("v_xor3_b32", "u32", "u32 u32 u32", lambda a, b, c: a ^ b ^ c)
row("v_xad_u32", "u32", "u32 u32 u32", lambda a, b, c: (a ^ b) + c)
row("v_bcnt_u32_b32", "u32", "u32 u32", lambda a, b: a.bit_count() + b)
row("v_ffbh_u32 v_clz_i32_u32", "u32", "u32", lambda a: 32 - a.bit_length() if a else -1)
row("v_ffbl_b32 v_ctz_i32_b32", "u32", "u32", lambda a: (a & -a).bit_length() - 1)

# Comparisons: a bit per lane.
COMPARISONS = {"lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
for _t in ("f16", "f32", "f64", "i16", "u16", "i32", "u32", "i64", "u64"):
    for _n, _c in COMPARISONS.items():
        row("v_cmp_%s_%s" % (_n, _t), "bit", "%s %s" % (_t, _t), _c)
        if _t[0] == "f": row("v_cmp_%s_%s" % ({"lt": "nlt", "eq": "neq", "le": "nle", "gt": "ngt", "ge": "nge"}[_n], _t), "bit", "%s %s" % (_t, _t), lambda a, b, c=_c: not c(a, b))
    if _t[0] != "f": row("v_cmp_ne_" + _t, "bit", "%s %s" % (_t, _t), lambda a, b: a != b)
    else:
        row("v_cmp_lg_" + _t, "bit", "%s %s" % (_t, _t), lambda a, b: a < b or a > b)
        row("v_cmp_nlg_" + _t, "bit", "%s %s" % (_t, _t), lambda a, b: not (a < b or a > b))
        row("v_cmp_o_" + _t, "bit", "%s %s" % (_t, _t), lambda a, b: a == a and b == b)
        row("v_cmp_u_" + _t, "bit", "%s %s" % (_t, _t), lambda a, b: a != a or b != b)
        row("v_cmp_class_" + _t, "bit", "u%s u%d" % (_t[1:], 16 if _t == "f16" else 32), lambda a, m, t=_t: classify(a, m, t))
for _n in ("gt_i32", "le_i32", "eq_u32", "lt_f32"): ROWS["v_cmpx_" + _n] = ("exec",) + ROWS["v_cmp_" + _n][1:]

# With a mask: of VCC in the short form, of the last operand in the long one.
row("v_cndmask_b32", "f32", "f32 f32 mask", lambda a, b, m: b if m else a)
row("v_cndmask_b16", "f16", "f16 f16 mask", lambda a, b, m: b if m else a)


# Scalars: results 32 or 64 bits wide, and SCC (None: stays).
def scalar(names, to, sources, compute):
    for name in names.split(): SCALARS[name] = to, sources.split(), compute


SCALARS = {}
_M = (1 << 32) - 1
wrap = lambda x: x & _M
as_signed = lambda x: x - (1 << 32) if x >> 31 else x
overflows = lambda x: not -2**31 <= x < 2**31
scalar("s_add_u32 s_add_co_u32", "u32", "u32 u32", lambda a, b, scc: (a + b, a + b > _M))
scalar("s_sub_u32 s_sub_co_u32", "u32", "u32 u32", lambda a, b, scc: (a - b, a < b))
scalar("s_add_i32 s_add_co_i32", "u32", "i32 i32", lambda a, b, scc: (a + b, overflows(a + b)))
scalar("s_sub_i32 s_sub_co_i32", "u32", "i32 i32", lambda a, b, scc: (a - b, overflows(a - b)))
scalar("s_addc_u32 s_add_co_ci_u32", "u32", "u32 u32", lambda a, b, scc: (a + b + scc, a + b + scc > _M))
scalar("s_subb_u32 s_sub_co_ci_u32", "u32", "u32 u32", lambda a, b, scc: (a - b - scc, a < b + scc))
scalar("s_mul_i32", "u32", "u32 u32", lambda a, b, scc: (a * b, None))
scalar("s_mul_hi_u32", "u32", "u32 u32", lambda a, b, scc: (a * b >> 32, None))
scalar("s_mul_hi_i32", "u32", "i32 i32", lambda a, b, scc: (a * b >> 32, None))
scalar("s_mul_u64", "u64", "u64 u64", lambda a, b, scc: (a * b, None))
scalar("s_add_nc_u64", "u64", "u64 u64", lambda a, b, scc: (a + b, None))
scalar("s_sub_nc_u64", "u64", "u64 u64", lambda a, b, scc: (a - b, None))
for _s in (32, 64):
    _t, _full = "u%d" % _s, (1 << _s) - 1
    _two = "%s %s" % (_t, _t)
    scalar("s_and_b%d" % _s, _t, _two, lambda a, b, scc: (a & b, a & b != 0))
    scalar("s_or_b%d" % _s, _t, _two, lambda a, b, scc: (a | b, a | b != 0))
    scalar("s_xor_b%d" % _s, _t, _two, lambda a, b, scc: (a ^ b, a ^ b != 0))
    scalar("s_andn2_b%d s_and_not1_b%d" % (_s, _s), _t, _two, lambda a, b, scc: (a & ~b, a & ~b != 0))
    scalar("s_orn2_b%d s_or_not1_b%d" % (_s, _s), _t, _two, lambda a, b, scc, f=_full: ((a | ~b) & f, (a | ~b) & f != 0))
    scalar("s_not_b%d" % _s, _t, _t, lambda a, scc, f=_full: (~a & f, ~a & f != 0))
    scalar("s_mov_b%d" % _s, _t, _t, lambda a, scc: (a, None))
    scalar("s_cselect_b%d" % _s, _t, _two, lambda a, b, scc: (a if scc else b, None))
    _by = "%s u32" % _t
    scalar("s_lshl_b%d" % _s, _t, _by, lambda a, b, scc, s=_s, f=_full: (a << (b & s - 1) & f, a << (b & s - 1) & f != 0))
    scalar("s_lshr_b%d" % _s, _t, _by, lambda a, b, scc, s=_s: (a >> (b & s - 1), a >> (b & s - 1) != 0))
    scalar("s_ashr_i%d" % _s, _t, "i%d u32" % _s, lambda a, b, scc, s=_s: (a >> (b & s - 1), a >> (b & s - 1) != 0))
    scalar("s_cmp_eq_u%d" % _s, "scc", _two, lambda a, b, scc: (None, a == b))
    scalar("s_cmp_lg_u%d" % _s, "scc", _two, lambda a, b, scc: (None, a != b))
for _i in range(1, 5): scalar("s_lshl%d_add_u32" % _i, "u32", "u32 u32", lambda a, b, scc, i=_i: ((a << i) + b, (a << i) + b > _M))
scalar("s_min_i32", "u32", "i32 i32", lambda a, b, scc: (min(a, b), a < b))
scalar("s_max_i32", "u32", "i32 i32", lambda a, b, scc: (max(a, b), a >= b))
scalar("s_min_u32", "u32", "u32 u32", lambda a, b, scc: (min(a, b), a < b))
scalar("s_max_u32", "u32", "u32 u32", lambda a, b, scc: (max(a, b), a >= b))
scalar("s_abs_i32", "u32", "i32", lambda a, scc: (abs(a), a != 0))
scalar("s_brev_b32", "u32", "u32", lambda a, scc: (reversed_bits(a), None))
scalar("s_bfe_u32", "u32", "u32 u32", lambda a, b, scc: (lambda x: (x, x != 0))(a >> (b & 31) & (1 << min(b >> 16 & 127, 32)) - 1))
scalar("s_ff1_i32_b32 s_ctz_i32_b32", "u32", "u32", lambda a, scc: ((a & -a).bit_length() - 1, None))
scalar("s_flbit_i32_b32 s_clz_i32_u32", "u32", "u32", lambda a, scc: (32 - a.bit_length() if a else -1, None))
scalar("s_bcnt1_i32_b32", "u32", "u32", lambda a, scc: (a.bit_count(), a != 0))
scalar("s_sext_i32_i16", "u32", "u32", lambda a, scc: (field(a, 0, 16, True), None))
scalar("s_sext_i32_i8", "u32", "u32", lambda a, scc: (field(a, 0, 8, True), None))
for _p in "iu":
    for _n, _c in COMPARISONS.items():
        if _n != "eq": scalar("s_cmp_%s_%s32" % (_n, _p), "scc", "%s32 %s32" % (_p, _p), lambda a, b, scc, c=_c: (None, c(a, b)))
for _n, _c in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", times)):
    scalar("s_%s_f32" % _n, "f32", "f32 f32", lambda a, b, scc, c=_c: (c(a, b), None))
scalar("s_cvt_f32_i32", "f32", "i32", lambda a, scc: (Fraction(a) or 0.0, None))
scalar("s_cvt_f32_u32", "f32", "u32", lambda a, scc: (Fraction(a) or 0.0, None))
scalar("s_cvt_u32_f32", "u32", "f32", lambda a, scc: (to_integer(0, 2**32 - 1)(a), None))
scalar("s_cvt_i32_f32", "u32", "f32", lambda a, scc: (to_integer(-2**31, 2**31 - 1)(a), None))
for _n, _c in COMPARISONS.items(): scalar("s_cmp_%s_f32" % _n, "scc", "f32 f32", lambda a, b, scc, c=_c: (None, c(a, b)))
scalar("s_cmp_neq_f32", "scc", "f32 f32", lambda a, b, scc: (None, a != b))
scalar("s_cmp_u_f32", "scc", "f32 f32", lambda a, b, scc: (None, a != a or b != b))
