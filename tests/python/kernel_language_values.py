# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of the judge of kernel_language.py: scalars and tiles, their shapes and kinds."""
import numpy as np

from kernel_language_text import Refused, SCALARS


class Value:
    """`kind`: int and real literals without a type, or an element type ("i32", "*i32"); `data`: a number, or an array of the element
    (addresses for pointers, i64). `known`: a scalar known when the kernel is compiled."""

    def __init__(self, kind, data, known=False):
        self.kind, self.data, self.known = kind, data, known

    @property
    def is_literal(self):
        return self.kind in ("int", "hex", "real")

    @property
    def shape(self):
        return () if self.is_literal else self.data.shape


def element_of(kind):
    return np.int64 if kind[0] == "*" else SCALARS[kind]


def typed(kind, data, known=False):
    return Value(kind, np.asarray(data, dtype=element_of(kind)), known)


def is_int(kind):
    return kind[0] == "i" and kind not in ("int", "i1")


def width_of(kind):
    return 1 if kind == "i1" else int(kind[1:])


def as_kind(v, kind):
    """A literal in the type of what it meets; other values must have it."""
    if not v.is_literal:
        if v.kind != kind:
            raise Refused("expected %s, found %s" % (kind, v.kind))
        return v
    if is_int(kind) and v.kind != "real":
        width = width_of(kind)
        least = 0 if v.kind == "hex" else -(1 << (width - 1))
        if not (v.kind == "hex" and width == 64) and not least <= v.data <= (1 << (width if v.kind == "hex" or width == 1 else width - 1)) - 1:
            if width < 64:
                raise Refused("%s does not fit %s" % (v.data, kind))
        data = v.data & ((1 << width) - 1)
        return typed(kind, data - (1 << width) if data >> (width - 1) else data, True)
    if kind == "f32":
        with np.errstate(over="ignore"):
            data = np.float32(v.data)
        if np.isinf(data) and not np.isinf(float(v.data)):
            raise Refused("%s does not fit f32" % v.data)
        return typed(kind, data, True)
    raise Refused("expected %s, found a literal" % kind)


def settled(v):
    return as_kind(v, "f32" if v.kind == "real" else "i32") if v.is_literal else v


def common_shape(shapes):
    shapes = [s for s in shapes if s]
    if not shapes:
        return ()
    if len({len(s) for s in shapes}) > 1:
        raise Refused("ranks differ")
    out = []
    for extents in zip(*shapes):
        large = {e for e in extents if e != 1}
        if len(large) > 1:
            raise Refused("shapes differ")
        out.append(large.pop() if large else 1)
    return tuple(out)


def unified(*values):
    kinds = [v.kind for v in values if not v.is_literal]
    kind = kinds[0] if kinds else "f32" if any(v.kind == "real" for v in values) else "i32"
    values = [as_kind(v, kind) for v in values]
    shape = common_shape([v.shape for v in values])
    return [Value(v.kind, np.broadcast_to(v.data, shape), v.known) for v in values]


def fitted(v, kind, shape):
    v = as_kind(v, kind)
    if v.shape and common_shape([v.shape, shape]) != tuple(shape):
        raise Refused("shape %s for %s" % (v.shape, shape))
    if v.shape and len(v.shape) != len(shape):
        raise Refused("ranks differ")
    return Value(kind, np.broadcast_to(v.data, shape), v.known)


def quotient(a, b, remainder):
    """Truncated, of equal shapes; zero divisors give 0."""
    a, b = a.astype(object), b.astype(object)
    divide = np.frompyfunc(lambda x, y: 0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1), 2, 1)
    q = divide(a, b)
    return a - q * b if remainder else q


def wrapped(kind, data):
    width = width_of(kind)
    mask = (1 << width) - 1
    wrap = np.frompyfunc(lambda x: ((int(x) & mask) ^ (1 << (width - 1))) - (1 << (width - 1)), 1, 1)
    return np.asarray(wrap(data), dtype=SCALARS[kind])
