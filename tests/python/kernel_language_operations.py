# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Expressions and operations of the judge of kernel_language.py."""
import numpy as np

from kernel_language_text import Refused, Undefined, Unsupported, OPERATIONS, SCALARS, LEVELS
from kernel_language_values import Value, element_of, typed, is_int, width_of, as_kind, settled, common_shape, unified, fitted, quotient, wrapped


class Returned(Exception):
    """A function ends with its values."""


class Operations:
    """Expressions and calls, over what kernel_language.Run binds."""

    # Expressions.

    def one(self, e):
        values = self.all_of(e)
        if len(values) != 1:
            raise Refused("%d values" % len(values))
        return values[0]

    def all_of(self, e):
        self.step()
        return getattr(self, "get_" + e[0])(e)

    def get_int(self, e):
        return [Value(e[0], e[1], True)]

    def get_hex(self, e):
        if e[1] >= 1 << 64:
            raise Refused("integer")
        return [Value("hex", e[1] - (1 << 64) if e[1] >> 63 else e[1], True)]

    get_real = get_int

    def get_bool(self, e):
        return [typed("i1", e[1], True)]

    def get_named(self, e):
        raise Refused("a named argument")

    def get_list(self, e):
        raise Refused("a list")

    def get_type(self, e):
        raise Refused("a type")

    def get_name(self, e):
        b = self.find(e[1])
        if b:
            return [b.value]
        item = self.items.get(e[1])
        if item and item[0] == "const":
            return [self.constant(item)]
        if e[1] in ("TARGET", "WARP", "SMEM"):
            raise Unsupported(e[1])
        raise Refused("unknown name %s" % e[1])

    def constant(self, item):
        if item[1] in self.calls:
            raise Refused("a constant of itself")
        self.calls.append(item[1])
        self.scopes.append(None)
        try:
            v = self.one(item[3])
            if not v.known:
                raise Refused("a constant that is not known")
            return as_kind(v, item[2][1]) if item[2] else v
        finally:
            self.scopes.pop()
            self.calls.pop()

    def get_unary(self, e):
        v = self.one(e[2])
        if e[1] == "-":
            if v.is_literal:
                return [self.binary("-", Value("int", 0, True), v) if v.kind != "real" else Value("real", -v.data, True)]
            if v.kind == "f32":
                self.needs_strict()
                return [Value("f32", np.float32(-0.0) - v.data, v.known)]
            return [self.binary("-", Value("int", 0, True), v)]
        if v.kind in ("int", "hex"):
            return [Value("int", ~v.data, True)]
        return [self.binary("^", v, typed("i1", True, True) if v.kind == "i1" else Value("int", -1, True))]

    def get_binary(self, e):
        left, right = self.one(e[2]), self.one(e[3])
        return [self.binary(e[1], left, right)]

    def needs_strict(self):
        if not self.strict:
            raise Unsupported("floats without @fp(strict)")

    def binary(self, op, left, right):
        if left.kind[0] == "*" or right.kind[0] == "*":
            if op in LEVELS[3]:
                raise Unsupported("a comparison of pointers")
            return self.moved(op, left, right)
        if left.is_literal and right.is_literal:
            return self.folded(op, left, right)
        if op in ("/", "%") and right.known and not right.data:
            if is_int(left.kind) or is_int(right.kind):
                raise Refused("a division by zero")
        left, right = unified(left, right)
        known = left.known and right.known
        a, b = left.data, right.data
        if op in LEVELS[3]:
            compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}[op]
            return typed("i1", compare(a, b), known)
        if left.kind == "i1":
            if op not in "&|^":
                raise Unsupported("arithmetic of i1")
            return typed("i1", {"&": a & b, "|": a | b, "^": a ^ b}[op], known)
        if left.kind == "f32":
            if op in ("&", "|", "^", "<<", ">>"):
                raise Refused("%s of floats" % op)
            if op in ("/", "%"):
                raise Unsupported("division of floats")
            self.needs_strict()
            with np.errstate(all="ignore"):
                return typed("f32", {"+": np.add, "-": np.subtract, "*": np.multiply}[op](a, b), known)
        return typed(left.kind, self.integers(op, left.kind, a, b), known)

    def integers(self, op, kind, a, b):
        width = width_of(kind)
        if op in ("/", "%"):
            if not self.dry and not np.all(b):
                raise Undefined("a division by zero")
            return wrapped(kind, quotient(a, b, op == "%"))
        x, y = a.astype(object), b.astype(object)
        if op in ("<<", ">>"):
            y = y & (width - 1) if y.shape else int(y) & (width - 1)
            return wrapped(kind, x << y if op == "<<" else x >> y)
        return wrapped(kind, {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "&": lambda: x & y, "|": lambda: x | y,
                              "^": lambda: x ^ y}[op]())

    def folded(self, op, left, right):
        a, b = left.data, right.data
        if op in LEVELS[3]:
            return typed("i1", {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[op], True)
        if "real" in (left.kind, right.kind):
            if op in ("&", "|", "^", "<<", ">>"):
                raise Refused("%s of floats" % op)
            if op in ("/", "%"):
                raise Unsupported("division of floats")
            out = {"+": lambda: float(a) + b, "-": lambda: float(a) - b, "*": lambda: float(a) * b}[op]()
            if np.isinf(out) and np.isfinite(float(a)) and np.isfinite(float(b)):
                raise Refused("a float that overflows")
            return Value("real", out, True)
        if op in ("<<", ">>") and not 0 <= b <= (62 if op == "<<" else 63):
            raise Refused("a shift count")
        if op in ("/", "%"):
            if not b:
                raise Refused("a division by zero")
            q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            out = q if op == "/" else a - q * b
        else:
            out = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "&": lambda: a & b, "|": lambda: a | b,
                   "^": lambda: a ^ b, "<<": lambda: a << b, ">>": lambda: a >> b}[op]()
        if not -(1 << 63) <= out < 1 << 63:
            raise Refused("an integer that overflows")
        hexes = left.kind == "hex", right.kind == "hex"
        is_hex = any(hexes) if op in ("&", "|", "^") else hexes[0] if op in ("<<", ">>") else all(hexes)
        return Value("hex" if is_hex and out >= 0 else "int", out, True)

    def moved(self, op, left, right):
        if op == "+" and left.kind[0] != "*":
            left, right = right, left
        if op not in ("+", "-") or left.kind[0] != "*" or right.kind[0] == "*":
            raise Refused("%s of pointers" % op)
        right = settled(self.binary("-", Value("int", 0, True), right) if op == "-" else right)
        if right.kind not in ("i32", "i64"):
            raise Refused("offset")
        shape = common_shape([left.shape, right.shape])
        return typed(left.kind, np.broadcast_to(left.data, shape) + np.broadcast_to(right.data, shape).astype(np.int64))

    def get_as(self, e):
        v, kind = self.one(e[1]), e[2]
        if kind[0] == "pointer":
            raise Refused("as of a pointer")
        return [self.cast(v, kind[1])]

    def cast(self, v, kind):
        if v.kind[0] == "*":
            raise Refused("cast of a pointer")
        if v.is_literal:
            if kind == "i1":
                raise Unsupported("a literal as i1")
            if kind == "f32":
                with np.errstate(over="ignore"):
                    return typed("f32", np.float32(v.data), True)
            return typed(kind, wrapped(kind, np.asarray(v.data, object)) if v.kind != "real" else saturated(np.asarray(v.data), kind), True)
        if v.kind == kind:
            return v
        if kind == "i1":
            raise Unsupported("as i1")
        if kind == "f32":
            return typed("f32", v.data.astype(np.float32), v.known)
        return typed(kind, saturated(v.data, kind) if v.kind == "f32" else wrapped(kind, v.data.astype(object)), v.known)

    def get_index(self, e):
        v = settled(self.one(e[1]))
        if any(i not in (":", "_") for i in e[2]) or sum(i == ":" for i in e[2]) != len(v.shape):
            raise Refused("an index")
        return [Value(v.kind, v.data[tuple(slice(None) if i == ":" else None for i in e[2])])]

    # Calls.

    def get_call(self, e):
        _, name, member, args = e
        if name in OPERATIONS:
            operation = getattr(self, "op_" + name, None)
            if not operation:
                raise Unsupported(name)
            return operation(member, args)
        item = self.items.get(name)
        if item and item[0] == "fn" and not member:
            return self.inlined(item, [self.one(a) for a in args])
        if item or self.find(name):
            raise Refused("%s is no function" % name)
        if name == "cdiv":
            raise Unsupported(name)
        raise Unsupported("function %s" % name)

    def inlined(self, item, args):
        if item[1] in self.calls:
            raise Refused("%s calls itself" % item[1])
        if len(args) != len(item[2]):
            raise Refused("arguments of %s" % item[1])
        self.calls.append(item[1])
        self.scopes += [None, {}]
        self.control.append("fn")
        depth, dry = len(self.scopes), self.dry
        results = []
        try:
            for name, v in zip(item[2], args):
                self.bind(name, v, False)
            self.statements(item[3])
        except Returned as r:
            results = r.args[0]
        finally:
            self.dry = dry
            del self.scopes[depth - 2:]
            self.control.pop()
            self.calls.pop()
        return results

    def positional(self, args, least, most, names=()):
        given = [a for a in args if a[0] != "named"]
        named = {}
        for a in args:
            if a[0] == "named":
                if a[1] not in names or a[1] in named:
                    raise Refused("argument %s" % a[1])
                named[a[1]] = a[2]
        if not least <= len(given) <= most:
            raise Refused("%d arguments" % len(given))
        return given, named

    def no_member(self, member):
        if member:
            raise Refused("a member")

    def op_select(self, member, args):
        self.no_member(member)
        given, _ = self.positional(args, 3, 3)
        c, a, b = (self.one(x) for x in given)
        if c.kind == "i1" and c.known and a.known and b.known:
            if a.is_literal and b.is_literal and "real" in (a.kind, b.kind):
                a, b = (Value("real", float(v.data), True) for v in (a, b))
            elif not (a.is_literal and b.is_literal):
                a, b = unified(a, b)
            return [a if c.data else b]
        a, b = unified(a, b)
        if c.kind != "i1":
            raise Refused("a condition")
        shape = common_shape([c.shape, a.shape]) if c.shape else a.shape
        return [typed(a.kind, np.where(np.broadcast_to(c.data, shape), np.broadcast_to(a.data, shape), np.broadcast_to(b.data, shape)))]

    def extreme(self, args, choose):
        given, _ = self.positional(args, 2, 2)
        a, b = (self.one(x) for x in given)
        if a.is_literal and b.is_literal:
            if "real" in (a.kind, b.kind):
                raise Unsupported("min and max of float literals")
            return [Value("int", int(choose(a.data, b.data)), True)]
        a, b = unified(a, b)
        if a.kind == "i1" or a.kind[0] == "*":
            raise Refused("min and max of %s" % a.kind)
        if a.kind == "f32":
            raise Unsupported("min and max of floats")
        return [typed(a.kind, choose(a.data, b.data), a.known and b.known)]

    def op_min(self, member, args):
        self.no_member(member)
        return self.extreme(args, np.minimum)

    def op_max(self, member, args):
        self.no_member(member)
        return self.extreme(args, np.maximum)

    def known_number(self, e):
        v = self.one(e)
        if not v.known or v.kind in ("real", "f32", "i1") or v.shape:
            raise Refused("a number that is known")
        return int(v.data)

    def extent(self, e):
        n = self.known_number(e)
        if n < 1 or n & (n - 1) or n > 1 << 20:
            raise Refused("an extent")
        return n

    def op_iota(self, member, args):
        self.no_member(member)
        return [typed("i32", np.arange(self.extent(self.positional(args, 1, 1)[0][0])))]

    def op_pid(self, member, args):
        self.no_member(member)
        axis = self.known_number(self.positional(args, 1, 1)[0][0])
        if not 0 <= axis <= 2:
            raise Refused("an axis")
        return [typed("i32", self.program if axis == 0 else 0)]

    def op_full(self, member, args):
        self.no_member(member)
        given, _ = self.positional(args, 2, 2)
        if given[0][0] != "index" or given[0][1][0] != "type":
            raise Unsupported("full of this")
        shape = tuple(self.extent(x) for x in given[0][2])
        return [runtime(fitted(self.one(given[1]), given[0][1][1], shape))]

    def op_reduce(self, member, args):
        given, named = self.positional(args, 1, 2, ("axis", "nan"))
        v = settled(self.one(given[0]))
        if member not in ("add", "min", "max", "and", "or", "xor") or named or len(given) != 2:
            raise Unsupported("reduce")
        if not v.shape or not is_int(v.kind):
            raise Refused("reduce of %s" % v.kind) if not v.shape else Unsupported("reduce of %s" % v.kind)
        axis = self.known_number(given[1])
        if not 0 <= axis < len(v.shape):
            raise Refused("an axis")
        combine = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
        return [typed(v.kind, wrapped(v.kind, combine[member].reduce(v.data.astype(object) if member == "add" else v.data, axis=axis)))]

    def memory_arguments(self, args, least, names, where):
        """Positional arguments, then those that may be named, each once."""
        given, named = self.positional(args, least, where["most"], names)
        for name, at in where.items():
            if name in named:
                if at < len(given):
                    raise Refused("%s is given twice" % name)
                if name not in ("mask", "other"):
                    raise Unsupported(name)
        return given, {n: given[at] if n != "most" and at < len(given) else named.get(n) for n, at in where.items() if n != "most"}

    def mask_of(self, e, shape):
        return fitted(self.one(e), "i1", shape).data if e else np.broadcast_to(np.bool_(True), shape)

    def op_load(self, member, args):
        self.no_member(member)
        given, named = self.memory_arguments(args, 1, ("mask", "other"), {"mask": 1, "other": 2, "most": 3})
        p = self.one(given[0])
        if p.kind[0] != "*":
            raise Refused("load of %s" % p.kind)
        mask = self.mask_of(named["mask"], p.shape)
        if named["other"] and not named["mask"]:
            raise Refused("other without a mask")
        kind = p.kind[1:]
        other = fitted(self.one(named["other"]), kind, p.shape).data if named["other"] else np.zeros(p.shape, element_of(kind))
        return [typed(kind, other if self.dry else self.memory.load(p.data, mask, other, self.program))]

    def op_store(self, member, args):
        self.no_member(member)
        given, named = self.memory_arguments(args, 2, ("mask",), {"mask": 2, "most": 3})
        p = self.one(given[0])
        if p.kind[0] != "*":
            raise Refused("store to %s" % p.kind)
        value = fitted(self.one(given[1]), p.kind[1:], p.shape)
        mask = self.mask_of(named["mask"], p.shape)
        if not self.dry:
            self.memory.store(p.data, value.data, mask, self.program)
        return []


def runtime(v):
    return Value(v.kind, v.data, False)


def saturated(data, kind):
    least, most = -(1 << (width_of(kind) - 1)), (1 << (width_of(kind) - 1)) - 1
    turn = np.frompyfunc(lambda x: 0 if x != x else most if x >= most else least if x <= least else int(x), 1, 1)
    return np.asarray(turn(data.astype(np.float64)), dtype=SCALARS[kind])
