# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of instructions.py that reach other lanes or memory: exchange between lanes (DPP), loads, stores, atomics."""
import array, ctypes, struct

MASK = 0xFFFFFFFF
REGION = 1 << 14      # bytes of memory that an instruction may see
SLOT = REGION // 64   # of one lane


# ----------------------------------------------------------------------------------------------------------------- exchange
class Exchange:
    def __init__(self, text, lane_of, rows, banks, zero, inactive): self.text, self.lane_of, self.rows, self.banks, self.zero, self.inactive = text, lane_of, rows, banks, zero, inactive

    def read(self, state, lane):
        """The lane that is read; -1 for a zero; None where the result stays as it was."""
        if not self.rows >> lane // 16 & 1 or not self.banks >> lane // 4 % 4 & 1: return None
        at = self.lane_of(lane)
        if at is not None and (self.inactive or state.active(at)): return at
        return -1 if self.zero else None


def draw_exchange(r, target):
    n = r.randrange(1, 16)
    in_row = lambda lane, to: (lane & ~15) + to if 0 <= to < 16 else None
    quad = [r.randrange(4) for _ in range(4)]
    kinds = [("quad_perm:[%d,%d,%d,%d]" % tuple(quad), lambda l: l & ~3 | quad[l & 3]), ("row_shl:%d" % n, lambda l: in_row(l, l % 16 + n)),
             ("row_shr:%d" % n, lambda l: in_row(l, l % 16 - n)), ("row_ror:%d" % n, lambda l: in_row(l, (l - n) % 16)),
             ("row_mirror", lambda l: l ^ 15), ("row_half_mirror", lambda l: l ^ 7)]
    if target.is_gfx9:
        kinds += [("row_bcast:15", lambda l: l // 16 * 16 - 1 if l >= 16 else None), ("row_bcast:31", lambda l: 31 if l >= 32 else None),
                  ("row_newbcast:%d" % n, lambda l: l & ~15 | n)]
    else: kinds += [("row_share:%d" % n, lambda l: l & ~15 | n), ("row_xmask:%d" % n, lambda l: l ^ n)]
    text, lane_of = r.choice(kinds)
    rows, banks = (15 if r.random() < 0.6 else r.randrange(1, 16) for _ in range(2))
    zero, inactive = r.random() < 0.6, not target.is_gfx9 and r.random() < 0.3
    return Exchange(text + " row_mask:%#x bank_mask:%#x" % (rows, banks) + " bound_ctrl:1" * zero + " fi:1" * inactive, lane_of, rows, banks, zero, inactive)


# ------------------------------------------------------------------------------------------------------------------- memory
# Suffixes: bytes, signed, of 16-bit ones whether the other half of the register stays and which half is meant.
LOADS_9 = {"ubyte": (1, 0, 0, 0), "sbyte": (1, 1, 0, 0), "ushort": (2, 0, 0, 0), "sshort": (2, 1, 0, 0), "ubyte_d16": (1, 0, 1, 0), "ubyte_d16_hi": (1, 0, 1, 1),
           "sbyte_d16": (1, 1, 1, 0), "sbyte_d16_hi": (1, 1, 1, 1), "short_d16": (2, 0, 1, 0), "short_d16_hi": (2, 0, 1, 1),
           "dword": (4, 0, 0, 0), "dwordx2": (8, 0, 0, 0), "dwordx3": (12, 0, 0, 0), "dwordx4": (16, 0, 0, 0)}
LOADS_11 = {"u8": (1, 0, 0, 0), "i8": (1, 1, 0, 0), "u16": (2, 0, 0, 0), "i16": (2, 1, 0, 0), "d16_u8": (1, 0, 1, 0), "d16_hi_u8": (1, 0, 1, 1), "d16_i8": (1, 1, 1, 0),
            "d16_hi_i8": (1, 1, 1, 1), "d16_b16": (2, 0, 1, 0), "d16_hi_b16": (2, 0, 1, 1), "b32": (4, 0, 0, 0), "b64": (8, 0, 0, 0), "b96": (12, 0, 0, 0), "b128": (16, 0, 0, 0)}
STORES_9 = {"byte": (1, 0), "short": (2, 0), "byte_d16_hi": (1, 1), "short_d16_hi": (2, 1), "dword": (4, 0), "dwordx2": (8, 0), "dwordx3": (12, 0), "dwordx4": (16, 0)}
STORES_11 = {"b8": (1, 0), "b16": (2, 0), "d16_hi_b8": (1, 1), "d16_hi_b16": (2, 1), "b32": (4, 0), "b64": (8, 0), "b96": (12, 0), "b128": (16, 0)}
SHARED_LOADS_9 = {"u8": (1, 0, 0, 0), "i8": (1, 1, 0, 0), "u16": (2, 0, 0, 0), "i16": (2, 1, 0, 0), "u8_d16": (1, 0, 1, 0), "u8_d16_hi": (1, 0, 1, 1), "i8_d16": (1, 1, 1, 0),
                  "i8_d16_hi": (1, 1, 1, 1), "u16_d16": (2, 0, 1, 0), "u16_d16_hi": (2, 0, 1, 1), "b32": (4, 0, 0, 0), "b64": (8, 0, 0, 0), "b96": (12, 0, 0, 0), "b128": (16, 0, 0, 0)}
SHARED_STORES = {"b8": (1, 0), "b16": (2, 0), "b8_d16_hi": (1, 1), "b16_d16_hi": (2, 1), "b32": (4, 0), "b64": (8, 0), "b96": (12, 0), "b128": (16, 0)}
as_signed = lambda x, size: x - (1 << 8 * size) if x >> 8 * size - 1 else x
as_float = lambda x: struct.unpack("<f", struct.pack("<I", x))[0]
float_bits = lambda x: struct.unpack("<I", struct.pack("<f", x))[0]
# Atomics: name on gfx9, name since, size, function of the old value and the operand.
ATOMICS = [("add", "add_u32", 4, lambda a, b: a + b), ("sub", "sub_u32", 4, lambda a, b: a - b), ("smin", "min_i32", 4, lambda a, b: min(a, b, key=lambda x: as_signed(x, 4))),
           ("smax", "max_i32", 4, lambda a, b: max(a, b, key=lambda x: as_signed(x, 4))), ("umin", "min_u32", 4, min), ("umax", "max_u32", 4, max),
           ("and", "and_b32", 4, lambda a, b: a & b), ("or", "or_b32", 4, lambda a, b: a | b), ("xor", "xor_b32", 4, lambda a, b: a ^ b), ("swap", "swap_b32", 4, lambda a, b: b),
           ("add_f32", "add_f32", 4, lambda a, b: float_bits(as_float(a) + as_float(b))), ("add_x2", "add_u64", 8, lambda a, b: a + b),
           ("smax_x2", "max_i64", 8, lambda a, b: max(a, b, key=lambda x: as_signed(x, 8))), ("umin_x2", "min_u64", 8, min), ("swap_x2", "swap_b64", 8, lambda a, b: b),
           ("or_x2", "or_b64", 8, lambda a, b: a | b), ("cmpswap", "cmpswap_b32", 4, None), ("cmpswap_x2", "cmpswap_b64", 8, None)]


class Access:
    """A load, store or atomic. places(lane) are the offsets of its parts in the lane's slot; `kind`: load, store, atomic."""

    def __init__(self, space, kind, text, size, parts, data, to, address, **facts):
        self.space, self.kind, self.text, self.name, self.code, self.sources = space, kind, text, text.split()[0], None, []
        self.size, self.parts, self.data, self.to, self.address, self.facts = size, parts, data, to, address, facts


def registers(r, target, words, file="v"):
    first = r.choice((r.randrange(40, 60), r.randrange(140, 160), r.randrange(230, 240))) * 2
    if first > 250: first -= 60
    return first, "%s%d" % (file, first) if words == 1 else "%s[%d:%d]" % (file, first, first + words - 1)


def address_form(r, space, target):
    """How an address is given: texts before the data's place, base and offset registers."""
    at, base, offset = 2 * r.randrange(1, 12), 2 * r.randrange(2, 20), r.choice((0, 0, r.randrange(0, 64), r.randrange(0, 512)))
    tail = " offset:%d" % offset if offset else ""
    if space == "ds":
        offset &= 0x78
        return "v%d" % at, None, " offset:%d" % offset if offset else "", dict(at=at, offset=offset)
    if space == "buffer":
        resource, extra = 4 * r.randrange(2, 8), r.choice((None, 44 + r.randrange(20)))
        with_offset = r.random() < 0.8
        text = "%s, s[%d:%d], %s%s%s" % ("v%d" % at if with_offset else "off", resource, resource + 3, "0" if extra is None and target.arch != "rdna4" else "null" if extra is None else "s%d" % extra,
                                        " offen" * with_offset, tail)
        return text, None, "", dict(at=at, offset=offset, resource=resource, extra=extra, offen=with_offset)
    if space == "scratch":
        form = r.randrange(3)
        return (("off", "off"), ("v%d" % at, "off"), ("off", "s%d" % base))[form] + (tail, dict(at=at, base=base, offset=offset, form=form))
    if r.random() < 0.5: return "v%d" % at, "s[%d:%d]" % (base, base + 1), tail, dict(at=at, base=base, offset=offset)
    negative = r.random() < 0.3 and offset
    if negative: tail = " offset:-%d" % offset
    return "v[%d:%d]" % (at, at + 1), "off", tail, dict(at=at, offset=-offset if negative else offset)


def load_or_store(space, mnemonic, kind, facts):
    def make(r, target, name, _):
        size = facts[0]
        address, scalar, tail, form = address_form(r, space, target)
        accumulator = target.is_gfx9 and r.random() < 0.3
        data, data_text = registers(r, target, (size + 3) // 4, "a" if accumulator else "v")
        ordered = [data_text, address] if kind == "load" or space == "buffer" else [address, data_text]
        text = "%s %s" % (mnemonic, ", ".join(ordered + ([scalar] if scalar else []))) + tail
        signed, half, high = (facts[1:] if kind == "load" else (0, 0, facts[1]))
        return Access(space, kind, text, size, (0,), (data,), data, form, signed=signed, keeps=half, high=high, accumulator=accumulator)
    return make


def two_places(mnemonic, kind, size, stride):
    def make(r, target, name, _):
        at, offsets = 2 * r.randrange(1, 12), [r.randrange(2 if stride == 64 else 8) for _ in range(2)]
        if offsets[0] == offsets[1]: offsets[1] += 1
        accumulator, words = target.is_gfx9 and r.random() < 0.3, size // 4
        file = "a" if accumulator else "v"
        if kind == "load": first, texts = registers(r, target, 2 * words, file); data, texts = (first, first + words), ["v%d" % at] and [texts, "v%d" % at]
        else:
            (one, text1), (two, text2) = registers(r, target, words, file), registers(r, target, words, file)
            first, data, texts = one, (one, two), ["v%d" % at, text1, text2]
        text = "%s %s offset0:%d offset1:%d" % (mnemonic, ", ".join(texts), *offsets)
        return Access("ds", kind, text, size, tuple(o * size * stride for o in offsets), data, first, dict(at=at, offset=0), signed=0, keeps=0, high=0, accumulator=accumulator)
    return make


def atomic(space, names, size, compute):
    def make(r, target, name, _):
        is_swap, words = compute is None, size // 4
        address, scalar, tail, form = address_form(r, space, target)
        accumulator = target.is_gfx9 and r.random() < 0.3
        file = "a" if accumulator else "v"
        returns = r.random() < 0.5
        data, data_text = registers(r, target, words * (2 if is_swap else 1), file)
        to, to_text = registers(r, target, words, file)
        if space == "ds":
            mnemonic = "ds_%s%s_%s" % (names[0], "_rtn" * returns, names[1])
            texts = ([to_text] if returns else []) + [address, data_text]
        else:
            mnemonic, texts = "global_atomic_" + (names[0] if target.is_gfx9 else names[1]), ([to_text] if returns else []) + [address, data_text, scalar]
            if returns: tail += {"cdna": " sc0", "rdna3": " glc", "rdna4": " th:TH_ATOMIC_RETURN"}[target.arch]
        return Access(space, "atomic", "%s %s" % (mnemonic, ", ".join(texts)) + tail, size, (0,), (data,), to, form, compute=compute, returns=returns, accumulator=accumulator)
    return make


def makers(target):
    loads, stores = (LOADS_9, STORES_9) if target.is_gfx9 else (LOADS_11, STORES_11)
    for space in ("global", "buffer", "scratch"):
        for suffix, facts in loads.items(): yield "%s_load_%s" % (space, suffix), load_or_store(space, "%s_load_%s" % (space, suffix), "load", facts)
        for suffix, facts in stores.items(): yield "%s_store_%s" % (space, suffix), load_or_store(space, "%s_store_%s" % (space, suffix), "store", facts)
    load, store = ("read", "write") if target.is_gfx9 else ("load", "store")
    for suffix, facts in SHARED_LOADS_9.items(): yield "ds_%s_%s" % (load, suffix), load_or_store("ds", "ds_%s_%s" % (load, suffix), "load", facts)
    for suffix, facts in SHARED_STORES.items(): yield "ds_%s_%s" % (store, suffix), load_or_store("ds", "ds_%s_%s" % (store, suffix), "store", facts)
    for word, kind in ((load, "load"), (store, "store")):
        for size in (4, 8):
            for stride in (1, 64):
                mnemonic = "ds_%s2%s_b%d" % (word, "st64" if stride == 64 else "", 8 * size) if target.is_gfx9 else "ds_%s_2addr%s_b%d" % (word, "_stride64" if stride == 64 else "", 8 * size)
                yield mnemonic, two_places(mnemonic, kind, size, stride)
    for old, new, size, compute in ATOMICS: yield "global_atomic_" + old, atomic("global", (old, new), size, compute)
    for names, compute in ((("add", "u32"), ATOMICS[0][3]), (("max", "i32"), ATOMICS[3][3]), (("min", "u32"), min), (("or", "b32"), ATOMICS[7][3]), (("add", "f32"), ATOMICS[10][3])):
        yield "ds_" + "_".join(names), atomic("ds", names, 4, compute)


# ------------------------------------------------------------------------------------------------------------------ running
def set_addresses(bed, test, state, r, base):
    """Writes the address registers and gives each lane's offset from `base`; a lane of a buffer access may lie outside."""
    form, lanes, offset = test.address, state.lanes, test.address["offset"]
    whole = max(test.parts) + test.size
    step = 1 if test.space in ("global", "buffer") and test.kind != "atomic" and r.random() < 0.4 else min(test.size, 4) if test.size == 12 else test.size
    if test.space == "ds" and r.random() < 0.3 and test.kind != "atomic": step = min(step, r.choice((1, 2, 4)))
    spots = [lane * SLOT for lane in range(lanes)]
    if len(test.parts) == 2 and whole > SLOT // 2: spots = [lane * test.size for lane in range(lanes)]   # the second parts lie after all first ones
    elif whole < SLOT: spots = [s + r.randrange(0, (SLOT - whole) // step) * step for s in spots]
    shared_base = 0
    if test.space == "scratch":
        move = r.randrange(0, 64) * 4
        places = [offset + (0, move, move)[form["form"]]] * lanes
        if form["form"] == 2: state.s[form["base"]] = move
        for lane in range(lanes): state.v[form["at"] * lanes + lane] = move
        return places
    places = []
    for lane, spot in enumerate(spots):
        if test.space == "buffer":
            below = spot if form["offen"] else 0
            places.append(below + offset)
            state.v[form["at"] * lanes + lane] = below
        elif test.space == "ds":
            below = max(spot - offset, 0) // step * step
            places.append(below + offset)
            state.v[form["at"] * lanes + lane] = below
        elif "base" in form:
            places.append(spot)
            state.v[form["at"] * lanes + lane] = spot
        else:
            places.append(spot)
            whole_address = base + spot - offset
            state.v[form["at"] * lanes + lane], state.v[(form["at"] + 1) * lanes + lane] = whole_address & MASK, whole_address >> 32 & MASK
    if "base" in form and test.space == "global":
        start = base - offset
        state.s[form["base"]], state.s[form["base"] + 1] = start & MASK, start >> 32
    return places


def set_resource(bed, test, state, r, base):
    """Of a buffer access: the resource, and how many bytes it has."""
    form, records = test.address, r.choice((REGION, r.randrange(0, REGION), 1 << 31))
    at, extra = form["resource"], 0
    if form["extra"] is not None and bed.target.is_gfx9: extra = 4 * r.randrange(64)
    elif form["extra"] is not None: extra = 0
    if form["extra"] is not None: state.s[form["extra"]] = extra
    start = base - extra
    state.s[at], state.s[at + 1], state.s[at + 2] = start & MASK, start >> 32, records
    state.s[at + 3] = 0x00027000 if bed.target.is_gfx9 else 0x31027000 if bed.target.arch == "rdna3" else 0x31027000
    return records, extra


def verdict(bed, test, state, r):
    target, lanes, facts = bed.target, state.lanes, test.facts
    outside = bed.driver.Buf(size=4 * REGION, poison=0)
    home = {"ds": bed.shared.addr, "scratch": bed.private.addr}.get(test.space, outside.addr + REGION)
    size = {"ds": 1 << 16, "scratch": 1 << 16}.get(test.space, 3 * REGION)
    before = bytearray(r.randbytes(size))
    if test.kind == "atomic" and "f32" in test.name:
        for i in range(0, size, 4): before[i:i + 4] = struct.pack("<f", r.randint(-1000, 1000) / 8)
    ctypes.memmove(home, bytes(before), size)
    places = set_addresses(bed, test, state, r, home)
    records, extra = set_resource(bed, test, state, r, home) if test.space == "buffer" else (None, 0)
    if test.space == "scratch": places = [256 * lane + p for lane, p in enumerate(places)] if max(places) + test.size <= 256 else None
    if places is None: return None
    file = array.array("I", [r.getrandbits(32) for _ in range(256)] * lanes)
    if test.kind == "atomic" and "f32" in test.name:
        for lane in range(lanes):
            value = float_bits(r.randint(-1000, 1000) / 8)
            (file if facts["accumulator"] else state.v)[test.data[0] * lanes + lane] = value
    own = file if facts["accumulator"] else state.v
    after, want_v, want_file = bytearray(before), array.array("I", state.v), array.array("I", file)
    out = want_file if facts["accumulator"] else want_v
    for lane in range(lanes):
        if not state.active(lane): continue
        live = True
        if records is not None:
            if places[lane] + test.size + extra > records > places[lane]: return None   # partly inside, or inside by the scalar offset: left open
            live = places[lane] + test.size <= records
        if not one_lane(test, facts, lane, lanes, places[lane], live, own, out, before, after, r): return None
    ctypes.memmove(bed.addresses[5], file.buffer_info()[0], 4 * len(file)) if lanes == 64 else None
    s, v, moved = bed.run(test.code, state)
    if moved != len(test.code): return "the program counter moved by %d, expected %d" % (moved, len(test.code))
    got = ctypes.string_at(home, size)
    if got != bytes(after):
        at = next(i for i in range(size) if got[i] != after[i])
        return "byte %d of memory: expected %#x, found %#x" % (at, after[at], got[at])
    got_file = array.array("I", ctypes.string_at(bed.addresses[5], 4 * len(file))) if lanes == 64 else want_file
    for name, want, found in (("v", want_v, v), ("a", want_file, got_file)):
        if want != found:
            at = next(i for i in range(len(want)) if want[i] != found[i])
            return "%s%d of lane %d (%s, place %d): expected %#x, found %#x" % (name, at // lanes, at % lanes, "on" if state.active(at % lanes) else "off", places[at % lanes], want[at], found[at])
    return None


def one_lane(test, facts, lane, lanes, place, live, own, out, before, after, r):
    size, words = test.size, (test.size + 3) // 4
    register = lambda first: sum(own[(first + k) * lanes + lane] << 32 * k for k in range(words))
    for part, data in zip(test.parts, test.data):
        at = place + part
        if at < 0 or at + size > len(after): return False
        old = int.from_bytes(before[at:at + size], "little") if live else 0
        if test.kind == "store":
            if live: after[at:at + size] = (register(data) >> 16 * facts["high"] & (1 << 8 * size) - 1).to_bytes(size, "little")
            continue
        if test.kind == "atomic":
            if facts["compute"]: new = facts["compute"](old, register(data))
            else: new = register(data) if old == register(data + words) else old
            after[at:at + size] = (new & (1 << 8 * size) - 1).to_bytes(size, "little")
            if facts["returns"]:
                for k in range(words): out[(test.to + k) * lanes + lane] = old >> 32 * k & MASK
            continue
        if facts["signed"]: old = as_signed(old, size)
        if size < 4 and facts["keeps"]:
            kept = out[data * lanes + lane]
            out[data * lanes + lane] = kept & 0xFFFF | (old & 0xFFFF) << 16 if facts["high"] else kept & 0xFFFF0000 | old & 0xFFFF
        else:
            for k in range(words): out[(data + k) * lanes + lane] = old >> 32 * k & MASK
    return True
