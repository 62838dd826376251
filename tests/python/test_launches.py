# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is launched in place of a kernel: drawn `launches` with nested conditions, values, addresses and arguments that may not fit, against an evaluator in Python.
Where a value overflows, divides by zero or does not fit, the kernel itself runs and nothing else has. KILN_TEST_SEED=FIRST,COUNT draws others."""
import os
import random
import sys
import tempfile
import unittest

import support
support.with_zones()

import kiln  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

KERNELS, LAUNCHES, ELEMENTS, ITSELF = 25, 20, 8, -77
LEAST, MOST = -2 ** 63, 2 ** 63 - 1
PARAMETERS = (("n", "i32", -2 ** 31, 2 ** 31 - 1), ("m", "i64", LEAST + 1, MOST), ("h", "i8", -128, 127), ("s", "i16", -2 ** 15, 2 ** 15 - 1))
HEAD = """kiln 1
kernel put(x: inout *i64, v: i64) @grid(1) @config(warps = 1) { store(x, v) }
kernel put_small(x: out *i64, v: i8) @grid(1) @config(warps = 1) { store(x, v as i64) }
kernel put_even(x: inout *i64, v: i64 @div(2)) @grid(1) @config(warps = 1) { store(x, v) }
kernel copy(x: out *i64, from: in *i64) @grid(1) @config(warps = 1) { store(x, load(from)) }
"""


class Overflow(Exception):
    pass


def checked(value):
    if not LEAST <= value <= MOST:
        raise Overflow
    return value


def quotient(a, b):
    if b == 0:
        raise Overflow
    return checked(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def rounded_up(a, b):
    if b == 0:
        raise Overflow
    return checked(-(-a // b))


BINARY = {
    "({} + {})": lambda a, b: checked(a + b), "({} - {})": lambda a, b: checked(a - b), "({} * {})": lambda a, b: checked(a * b), "({} / {})": quotient,
    "({} % {})": lambda a, b: checked(a - b * quotient(a, b)), "cdiv({}, {})": rounded_up, "min({}, {})": min, "max({}, {})": max,
}
COMPARED = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b}


class Drawn:
    """A kernel: its text, and `meaning(arguments)`, what its two buffers hold afterwards."""

    def __init__(self, number, seed):
        self.draw, self.name, self.lets = random.Random(seed), "k%d" % number, 0
        self.facts, described = {}, []
        for name, kind, lo, hi in PARAMETERS:
            div = 1
            text = "%s: %s" % (name, kind)
            if self.draw.random() < 0.35:
                lo, hi = self.draw.choice((0, -5, lo)), self.draw.choice((100, 127, hi))
                text += " @range(%d, %d)" % (lo, hi)
            if self.draw.random() < 0.3:
                div = self.draw.choice((2, 4, 8))
                text += " @div(%d)" % div
            self.facts[name] = lo, hi, div
            described.append(text)
        condition, (lines, self._body) = self.condition(list(self.facts), 2), self.block(list(self.facts), 2, 3)
        self._condition = condition[1]
        self.text = "kernel %s(x: inout *i64, y: inout *i64, %s) @grid(1) @config(warps = 1)\n  launches {\n    if %s {\n      scratch(64)\n%s\n    }\n  }\n{ store(x, %d) }\n" % (
            self.name, ", ".join(described), condition[0], "\n".join(lines), ITSELF)

    def number(self, names, depth):
        """(text, meaning); a literal alone is a name's neighbour, so that nothing is known at compile time."""
        if depth == 0 or self.draw.random() < 0.15:
            name = self.draw.choice(names)
            return name, lambda values: values[name]
        kind, one = self.draw.randrange(10), self.number(names, depth - 1)
        if kind == 0:
            return "(-%s)" % one[0], lambda values: checked(-one[1](values))
        if kind == 1:
            condition, other = self.condition(names, depth - 1), self.number(names, depth - 1)

            def chosen(values):
                which, a, b = condition[1](values), one[1](values), other[1](values)
                return a if which else b
            return "select(%s, %s, %s)" % (condition[0], one[0], other[0]), chosen
        form = self.draw.choice(list(BINARY))
        if kind < 5:
            constant = self.draw.choice((1, 2, 3, 7, 64, 1000, 2 ** 31 - 1, 2 ** 40))
            return form.format(one[0], constant), lambda values: BINARY[form](one[1](values), constant)
        other = self.number(names, depth - 1)

        def both(values):
            a, b = one[1](values), other[1](values)
            return BINARY[form](a, b)
        return form.format(one[0], other[0]), both

    def condition(self, names, depth):
        if depth <= 0 or self.draw.random() < 0.6:
            one, other, operator = self.number(names, max(depth - 1, 0)), self.number(names, max(depth - 1, 0)), self.draw.choice(list(COMPARED))
            constant = self.draw.choice((None, 0, 1, -3, 100))
            if constant is not None:
                other = "%d" % constant, lambda values: constant

            def compared(values):
                a, b = one[1](values), other[1](values)
                return COMPARED[operator](a, b)
            return "(%s %s %s)" % (one[0], operator, other[0]), compared
        one, other, both = self.condition(names, depth - 1), self.condition(names, depth - 1), self.draw.random() < 0.5

        def joined(values):
            a, b = one[1](values), other[1](values)
            return (a and b) if both else (a or b)
        return "(%s %s %s)" % (one[0], "&" if both else "|", other[0]), joined

    def address(self, names):
        """(text, meaning): a buffer and an element of it."""
        kind = self.draw.randrange(5)
        index = self.number(names, 1)
        inside = "min(max(%s, 0), %d)" % (index[0], ELEMENTS // 2 - 1)
        place = lambda values: min(max(index[1](values), 0), ELEMENTS // 2 - 1)  # noqa: E731
        base = self.draw.choice("xy")
        if kind == 0:
            return base, lambda values: (base, 0)
        if kind == 1:
            return "%s + %s" % (base, inside), lambda values: (base, place(values))
        if kind == 2:
            return "%s + %s + 2" % (base, inside), lambda values: (base, place(values) + 2)
        condition = self.condition(names, 1)
        which = lambda values: "x" if condition[1](values) else "y"  # noqa: E731
        if kind == 3:
            return "select(%s, x, y)" % condition[0], lambda values: (which(values), 0)

        def moved(values):
            buffer = which(values)
            return buffer, place(values) + 1
        return "select(%s, x, y) + %s + 1" % (condition[0], inside), moved

    def launch(self, names):
        kernel = self.draw.choice(("put", "put", "put_small", "put_even", "copy"))
        to = self.address(names)
        value = self.address(names) if kernel == "copy" else self.number(names, self.draw.randint(1, 3))
        if kernel == "put_small":  # what can never fit is refused by the compiler
            large, condition = value, self.condition(names, 1)

            def zero_or_large(values):
                which, number = condition[1](values), large[1](values)
                return number if which else 0
            value = "select(%s, %s, 0)" % (condition[0], large[0]), zero_or_large

        def run(values, launched):
            place, given = to[1](values), value[1](values)
            if kernel == "put_small" and not -128 <= given < 128 or kernel == "put_even" and given % 2:
                raise Overflow
            launched.append((place, given))
        return "%s(%s, %s)" % (kernel, to[0], value[0]), run

    def block(self, names, depth, indent):
        """(lines, [statement]): a statement takes the values of names and the list of launches."""
        names, lines, body = list(names), [], []
        for _ in range(self.draw.randint(0, 2)):
            value, name = self.number(names, self.draw.randint(1, 3)), "v%d" % self.lets
            self.lets += 1
            lines.append("%slet %s = %s" % ("  " * indent, name, value[0]))
            body.append(lambda values, launched, name=name, value=value: values.__setitem__(name, value[1](values)))
            names.append(name)
        if depth and self.draw.random() < 0.4:
            condition, then = self.condition(names, 2), self.block(names, depth - 1, indent + 1)
            other = self.block(names, depth - 1, indent + 1) if self.draw.random() < 0.5 else ([], [])
            lines += ["%sif %s {" % ("  " * indent, condition[0]), *then[0]]
            lines += ["%s} else {" % ("  " * indent), *other[0]] if other[0] else []
            lines.append("  " * indent + "}")
            body.append(lambda values, launched: [one(values, launched) for one in (then if condition[1](values) else other)[1]])
        else:
            for _ in range(self.draw.randint(1, 2)):
                text, run = self.launch(names)
                lines.append("  " * indent + text)
                body.append(run)
        return lines, body

    def arguments(self):
        found = {}
        for name, (lo, hi, div) in self.facts.items():
            value = self.draw.choice([one for one in (0, 1, 2, 3, 7, 8, 24, -1, -8, lo, hi, hi - 1, self.draw.randint(max(lo, -100), min(hi, 100))) if lo <= one <= hi])
            value -= value % div
            found[name] = value if value >= lo else value + div
        return found

    def meaning(self, arguments):
        buffers = {"x": list(range(ELEMENTS)), "y": list(range(100, 100 + ELEMENTS))}
        values, launched = dict(arguments), []
        try:
            if self._condition(values):
                for one in self._body:
                    one(values, launched)
        except Overflow:
            launched = []
        for (buffer, at), value in launched:
            buffers[buffer][at] = buffers[value[0]][value[1]] if isinstance(value, tuple) else value
        if not launched:
            buffers["x"][0] = ITSELF
        return buffers, len(launched)


@unittest.skipIf(numpy is None, "no NumPy")
class Launches(unittest.TestCase):
    def check(self, seed, folder):
        path = os.path.join(folder, "drawn.kiln")
        kernels = [Drawn(number, "%d.%d" % (seed, number)) for number in range(KERNELS)]
        with open(path, "w") as file:
            file.write(HEAD + "".join(one.text for one in kernels))
        support.tool("build", path, "-t", "host", "--no-cache", "-q", "-o", path + ".kbundle")
        device = kiln.Library(path + ".kbundle").device("host")
        room = numpy.zeros(512, numpy.uint8)
        scratch = room[-room.ctypes.data % 128:][:256]
        ran = 0
        for one in kernels:
            kernel = device.kernel(one.name)
            for _ in range(LAUNCHES):
                arguments = one.arguments()
                wanted, count = one.meaning(arguments)
                x, y = numpy.arange(ELEMENTS, dtype=numpy.int64), numpy.arange(100, 100 + ELEMENTS, dtype=numpy.int64)
                kernel(x, y, *arguments.values(), scratch=scratch)
                self.assertEqual((list(x), list(y)), (wanted["x"], wanted["y"]), "%s of seed %d\n%s%r" % (one.name, seed, one.text, arguments))
                ran += count
        return ran

    def test_drawn(self):
        first, count = map(int, os.environ.get("KILN_TEST_SEED", "1,2").split(","))
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            ran = sum(self.check(seed, folder) for seed in range(first, first + count))
        self.assertGreater(ran, count * KERNELS)  # launches in the kernels' places


if __name__ == "__main__":
    sys.exit(support.main(__name__))
