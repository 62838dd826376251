# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs of the kernel language as text, and changes of them. A program is defined: its loads are in bounds, its stores are of
places of their own, its loops end."""
import random
import re

INPUTS = {"x": "i32", "w": "i32", "y": "f32", "z": "i64"}
OUTPUTS = {"o": "i32", "q": "f32", "r": "i64"}
INPUT_COUNT, PROGRAM_COUNT, PROGRAMS = 1024, 512, 2
SCALARS = {"n": "i32", "m": "i64", "f": "f32"}
KINDS = ("i32", "i32", "i32", "i64", "f32", "i8")
SHAPES = ((), (), (), (16,), (16,), (4, 8))


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.indent, self.names, self.count, self.places = [], 1, [], 0, dict.fromkeys(OUTPUTS, 0)
        self.functions, self.loops, self.size = [], 0, 0

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def pick(self, items):
        return items[self.random.randrange(len(items))]

    def fresh(self):
        self.count += 1
        return "v%d" % self.count

    def put(self, line):
        self.size += 1
        self.lines.append("  " * self.indent + line)

    # Expressions.

    def literal(self, kind):
        if kind == "i1":
            return self.pick(("true", "false"))
        if kind == "f32":
            return "%.3f" % self.random.uniform(0, 8)
        return str(self.random.randrange(120)) if self.chance(80) else hex(self.random.randrange(120))

    def names_of(self, kind, shape):
        return [n for n, k, s, _ in self.names if k == kind and (s == shape or s == ())]

    def typed_literal(self, kind, shape):
        if shape:
            return "full(%s[%s], %s)" % (kind, ", ".join(map(str, shape)), self.literal(kind))
        return self.literal(kind) if kind == "i1" else "(%s as %s)" % (self.literal(kind), kind)

    def leaf(self, kind, shape):
        exact = [n for n, k, s, _ in self.names if k == kind and s == shape]
        if exact and self.chance(85):
            return self.pick(exact)
        if kind == "i32" and shape == (16,) and self.chance(50):
            return "iota(16)"
        if kind == "i32" and shape == (4, 8) and self.chance(50):
            return "(iota(4)[:, _] * 8 + iota(8)[_, :])"
        if kind == "i32" and shape == () and self.chance(30):
            return "pid(0)"
        return self.typed_literal(kind, shape)

    def right(self, kind, shape, depth):
        """A second operand: what meets a value of the kind and shape."""
        if kind != "i1" and self.chance(25):
            return self.literal(kind)
        return self.expr(kind, shape if self.chance(70) else (), depth)

    def expr(self, kind, shape, depth=3):
        if depth <= 0 or self.chance(15):
            return self.leaf(kind, shape)
        ways = [self.arithmetic] * 4 + [self.choice, self.cast]
        if kind in INPUTS.values():
            ways += [self.load] * 2
        if kind == "i32" and shape == ():
            ways += [self.reduction]
        if kind == "i1":
            ways = [self.comparison] * 4 + [self.logic, self.choice]
        if self.functions and kind in ("i32", "i64"):
            ways += [self.call]
        return self.pick(ways)(kind, shape, depth - 1)

    def arithmetic(self, kind, shape, depth):
        left = self.expr(kind, shape, depth)
        if kind == "f32":
            return "(%s %s %s)" % (left, self.pick("+-*"), self.right(kind, shape, depth))
        way = self.random.randrange(10)
        if way < 6:
            return "(%s %s %s)" % (left, self.pick("+-*&|^"), self.right(kind, shape, depth))
        if way == 6:
            return "(%s %s %d)" % (left, self.pick("/%"), self.random.randrange(1, 50))
        if way == 7:
            return "(%s %s %s)" % (left, self.pick(("<<", ">>")), self.right(kind, shape, depth))
        if way == 8:
            return "%s%s" % (self.pick("-~"), self.atom(left))
        return "%s(%s, %s)" % (self.pick(("min", "max")), left, self.right(kind, shape, depth))

    @staticmethod
    def atom(text):
        return text if re.fullmatch(r"\w+|\(.*\)", text) and not text[0].isdigit() else "(%s)" % text

    def choice(self, kind, shape, depth):
        condition = self.expr("i1", shape if self.chance(50) else (), depth)
        return "select(%s, %s, %s)" % (condition, self.expr(kind, shape, depth), self.right(kind, shape, depth))

    def cast(self, kind, shape, depth):
        source = self.pick([k for k in ("i32", "i64", "f32", "i8", "i1") if k != kind and (k, kind) != ("i1", "i8")])
        return "(%s as %s)" % (self.atom(self.expr(source, shape, depth)), kind)

    def index(self, shape, depth):
        return "(%s & %d)" % (self.atom(self.expr("i32", shape, depth)), INPUT_COUNT // 2 - 1)

    def load(self, kind, shape, depth):
        arrays = [n for n, k in INPUTS.items() if k == kind]
        array = self.pick(arrays)
        if len(arrays) > 1 and self.chance(25):
            array = "select(%s, %s)" % (self.expr("i1", (), depth), ", ".join(arrays))
        pointers = self.names_of("*" + kind, ())
        if pointers and shape == () and self.chance(60):
            return "load(%s)" % self.pick(pointers)
        where = "%s + %s" % (array, self.index(shape, depth))
        if self.chance(50):
            return "load(%s)" % where
        mask = self.expr("i1", shape if self.chance(70) else (), depth)
        other = self.right(kind, shape, depth)
        return "load(%s)" % ", ".join([where] + self.pick(([mask], [mask, other], ["mask = " + mask, "other = " + other], [mask, "other = " + other])))

    def reduction(self, kind, shape, depth):
        return "reduce.%s(%s, 0)" % (self.pick(("add", "min", "max", "xor")), self.expr("i32", (16,), depth))

    def comparison(self, kind, shape, depth):
        of = self.pick(("i32", "i32", "i64", "f32"))
        return "(%s %s %s)" % (self.expr(of, shape, depth), self.pick(("<", "<=", ">", ">=", "==", "!=")), self.right(of, shape, depth))

    def logic(self, kind, shape, depth):
        left = self.expr("i1", shape, depth)
        return "(~%s)" % self.atom(left) if self.chance(30) else "(%s %s %s)" % (left, self.pick("&|^"), self.right("i1", shape, depth))

    def call(self, kind, shape, depth):
        name = self.pick(self.functions)
        return "%s(%s, %s)" % (name, self.expr(kind, shape, depth), self.expr(kind, shape, depth))

    # Statements.

    def block(self, count, ends=None):
        names, self.indent = list(self.names), self.indent + 1
        for _ in range(count):
            self.statement()
        if ends:
            ends()
        self.names, self.indent = names, self.indent - 1

    def bind(self, name, kind, shape, is_var):
        self.names.append((name, kind, shape, is_var))

    def statement(self):
        deep = self.indent > 4 or self.size > 60
        ways = [self.let] * 3 + [self.var, self.store] + [self.assign] * 3
        if not deep:
            ways += [self.branch, self.value_branch, self.value_branch, self.for_loop, self.while_loop, self.break_loop, self.when, self.pointer]
            if not self.loops and self.kernel_level:
                ways += [self.early_return]
        self.pick(ways)()

    def let(self):
        name, kind, shape = self.fresh(), self.pick(KINDS), self.pick(SHAPES)
        self.put("let %s = %s" % (name, self.expr(kind, shape)))
        self.bind(name, kind, shape, False)

    def var(self):
        name, kind, shape = self.fresh(), self.pick(KINDS), self.pick(SHAPES)
        self.put("var %s = %s" % (name, self.expr(kind, shape)))
        self.bind(name, kind, shape, True)

    def variables(self):
        return [v for v in self.names if v[3] and v[1][0] != "*"]

    def assign(self):
        variables = self.variables()
        if not variables:
            return self.var()
        chosen = {v[0]: v for v in (self.pick(variables) for _ in range(self.pick((1, 1, 2))))}
        self.put("%s = %s" % (", ".join(chosen), ", ".join(self.expr(k, s) for _, k, s, _ in chosen.values())))

    def pointer(self):
        array = self.pick(list(INPUTS))
        name = self.fresh()
        self.put("var %s = %s + %s" % (name, array, self.index((), 1)))
        self.bind(name, "*" + INPUTS[array], (), True)

    def store(self):
        array = self.pick(list(OUTPUTS))
        kind, shape = OUTPUTS[array], self.pick(SHAPES)
        count = 1 if not shape else 16 if len(shape) == 1 else 32
        if self.places[array] + count > PROGRAM_COUNT:
            return
        lanes = {(): "", (16,): " + iota(16)", (4, 8): " + iota(4)[:, _] * 8 + iota(8)[_, :]"}[shape]
        where = "%s + (pid(0) * %d + %d)%s" % (array, PROGRAM_COUNT, self.places[array], lanes)
        self.places[array] += count
        mask = ", %s%s" % (self.pick(("", "mask = ")), self.expr("i1", shape, 2)) if self.chance(30) else ""
        self.put("store(%s, %s%s)" % (where, self.expr(kind, shape), mask))

    def branch(self):
        self.put("if %s {" % self.expr("i1", ()))
        self.block(self.random.randrange(1, 4))
        while self.chance(30):
            self.put("} else if %s {" % self.expr("i1", ()))
            self.block(self.random.randrange(1, 3))
        if self.chance(50):
            self.put("} else {")
            self.block(self.random.randrange(1, 3))
        self.put("}")

    def value_side(self, types):
        def ends():
            way = self.random.randrange(10)
            if way < 7 or self.indent > 5:
                self.put("yield " + ", ".join(self.expr(k, s) for k, s in types))
            elif way == 7:
                self.put("when %s {" % self.pick(("A > 3", "B == 7", "true")))
                self.value_side(types)
                self.put("} else {")
                self.value_side(types)
                self.put("}")
            else:
                self.chain("if", types)
        level, self.kernel_level = self.kernel_level, False
        self.block(self.random.randrange(3), ends)
        self.kernel_level = level

    def chain(self, start, types):
        self.put("%s %s {" % (start, self.expr("i1", ())))
        self.value_side(types)
        while self.chance(35):
            self.put("} else if %s {" % self.expr("i1", ()))
            self.value_side(types)
        self.put("} else {")
        self.value_side(types)
        self.put("}")

    def value_branch(self):
        types = [(self.pick(KINDS), self.pick(SHAPES)) for _ in range(self.pick((1, 1, 2, 3)))]
        names = [self.fresh() for _ in types]
        word = self.pick(("let", "var"))
        self.chain("%s %s = if" % (word, ", ".join(names)), types)
        for name, (kind, shape) in zip(names, types):
            self.bind(name, kind, shape, word == "var")

    def loop_block(self, ends=None):
        def last():
            for name, kind, _, _ in [v for v in self.names if v[1][0] == "*" and v[3]]:
                if self.chance(50):
                    self.put("%s = %s + %d" % (name, name, self.random.randrange(1, 3)))
            if ends:
                ends()
        self.loops += 1
        self.block(self.random.randrange(1, 4), last)
        self.loops -= 1

    def for_loop(self):
        name = self.fresh()
        lo, step = self.random.randrange(5), self.random.randrange(1, 4)
        self.put("for %s in %d .. %d + (n & 3)%s {" % (name, lo, lo + self.random.randrange(6), " step %d" % step if self.chance(40) else ""))
        self.names.append((name, "i32", (), False))
        self.loop_block()
        self.names.remove((name, "i32", (), False))
        self.put("}")

    def while_loop(self):
        name = self.fresh()
        self.put("var %s = %d" % (name, self.random.randrange(1, 6)))
        self.put("while %s > 0 {" % name)
        self.loop_block(lambda: self.put("%s = %s - 1" % (name, name)))
        self.put("}")
        self.bind(name, "i32", (), False)

    def break_loop(self):
        name, passed, kind = self.fresh(), self.fresh(), self.pick(("i32", "i64", "f32"))
        self.put("loop %s = 0 {" % name)
        self.names.append((name, "i32", (), False))
        before, self.indent, self.loops = list(self.names), self.indent + 1, self.loops + 1
        for _ in range(self.random.randrange(3)):
            self.statement()
        self.put("break %s = %s if (%s >= %d) | %s" % (passed, self.expr(kind, ()), name, self.random.randrange(1, 5), self.expr("i1", (), 2)))
        self.bind(passed, kind, (), False)
        for _ in range(self.random.randrange(3)):
            self.statement()
        self.put("%s = %s + 1" % (name, name))
        self.indent, self.loops = self.indent - 1, self.loops - 1
        self.put("}")
        self.names = [n for n in before if n[0] != name]
        self.bind(passed, kind, (), False)

    def when(self):
        names = list(self.names)
        self.put("when %s {" % self.pick(("A > 3", "B == 7", "A * 2 <= B", "true", "select(B > A, false, true)")))
        self.indent += 1
        for _ in range(self.random.randrange(1, 4)):
            self.statement()
        self.names, self.indent = list(names), self.indent - 1
        if self.chance(50):
            self.put("} else {")
            self.indent += 1
            for _ in range(self.random.randrange(1, 3)):
                self.statement()
            self.names, self.indent = list(names), self.indent - 1
        self.put("}")

    def early_return(self):
        def ends():
            if self.chance(70):
                self.put("return")
        self.put("if %s {" % self.expr("i1", ()))
        self.block(self.random.randrange(3), ends)
        if self.chance(30):
            self.put("} else {")
            self.block(self.random.randrange(3), ends)
        self.put("}")

    def function(self):
        name = "f%d" % len(self.functions)
        self.lines.append("fn %s(a, b) {" % name)
        self.lines.append("  let c = (a %s b) %s %s" % (self.pick("+-*"), self.pick("^&|"), self.literal("i32")))
        if self.chance(50):
            self.lines.append("  when %s { return %s }" % (self.pick(("A > 3", "B > 9")), self.pick(("c - b", "max(a, c)"))))
        if self.chance(50):
            self.lines.append("  let d, e = if %s { yield A, b } else { yield 3, c }" % self.pick(("A > B", "B > 4")))
            self.lines.append("  return (c + e) * d as typed")
            self.lines[-2:] = ["  return select(c > b, c, a) + %s" % self.literal("i32")]
        else:
            self.lines.append("  return c %s %s" % (self.pick("+-"), self.pick("ab")))
        self.lines.append("}")
        self.functions.append(name)

    def program(self):
        self.lines = ["kiln 1", "const A = %d" % self.random.randrange(1, 10), "const B: i64 = A + %d" % self.random.randrange(5)]
        for _ in range(self.random.randrange(3)):
            self.function()
        params = ["%s: in *%s" % p for p in INPUTS.items()] + ["%s: %s *%s" % (n, self.pick(("out", "inout")), k) for n, k in OUTPUTS.items()]
        params += ["%s: %s" % p for p in SCALARS.items()]
        self.lines.append("kernel NAME(%s)" % ", ".join(params))
        self.lines.append("  @grid(%d) @fp(strict) @config(warps = 1)" % PROGRAMS)
        self.lines.append("{")
        self.names = [(n, k, (), False) for n, k in SCALARS.items()]
        self.kernel_level, self.indent = True, 1
        for _ in range(self.random.randrange(6, 16)):
            self.statement()
        for name, kind, shape, _ in self.names:
            if kind in OUTPUTS.values() and self.chance(60):
                self.keep(name, kind, shape)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def keep(self, name, kind, shape):
        array = next(n for n, k in OUTPUTS.items() if k == kind)
        count = 1 if not shape else 16 if len(shape) == 1 else 32
        if self.places[array] + count > PROGRAM_COUNT:
            return
        lanes = {(): "", (16,): " + iota(16)", (4, 8): " + iota(4)[:, _] * 8 + iota(8)[_, :]"}[shape]
        self.put("store(%s + (pid(0) * %d + %d)%s, %s)" % (array, PROGRAM_COUNT, self.places[array], lanes, name))
        self.places[array] += count


def program(seed):
    return Generator(seed).program()


PIECE = re.compile(r"\s+|\w+|\.\.|<<|>>|<=|>=|==|!=|.", re.S)
SIGNS = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="]
WORDS = ["let", "var", "if", "when", "else", "return", "yield", "for", "while", "loop", "break", "in", "out", "inout", "as", "step", "i32", "i64",
         "f32", "i1", "true", "false", "mask", "other", "load", "store", "select", "iota", "0", "1", "-1", "3", "255", "99999999999", "1.5", "1.0e39"]


def changed(text, seed):
    """The text with one or two small changes: what a slip of the hand does, and what a liar tries."""
    r = random.Random(seed)
    body = text.index("kernel NAME") + len("kernel NAME")
    pieces = PIECE.findall(text[body:])
    for _ in range(r.choice((1, 1, 1, 2))):
        solid = [i for i, p in enumerate(pieces) if not p.isspace()]
        i, j = r.choice(solid), r.choice(solid)
        way = r.choice((0, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 7, 7, 7, 7))
        if way == 0:
            del pieces[i]
        elif way == 1:
            pieces.insert(i, pieces[i] + " ")
        elif way == 2:
            pieces[i], pieces[j] = pieces[j], pieces[i]
        elif way == 3:
            signs = [k for k in solid if pieces[k] in SIGNS]
            pieces[r.choice(signs)] = r.choice(SIGNS)
        elif way == 4:
            words = [p for p in pieces if re.match(r"v\d+$|[xwyzoqrnmf]$", p)]
            names = [k for k in solid if re.match(r"v\d+$|[xwyzoqrnmf]$", pieces[k])]
            if names:
                pieces[r.choice(names)] = r.choice(words)
        elif way == 5:
            lines = "".join(pieces).split("\n")
            a, b = r.randrange(len(lines)), r.randrange(len(lines))
            if r.random() < 0.5:
                lines[a], lines[b] = lines[b], lines[a]
            else:
                lines.insert(a, lines[b])
            pieces = PIECE.findall("\n".join(lines))
        elif way == 6:
            pieces[i] = r.choice(WORDS + SIGNS)
        else:
            numbers = [k for k in solid if re.match(r"\d+$", pieces[k])]
            if numbers:
                pieces[r.choice(numbers)] = r.choice(["0", "1", "7", "200", "40000", "3000000000", "0xffffffff"])
    return text[:body] + "".join(pieces)
