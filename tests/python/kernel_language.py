# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel language read and run a second time, from the text alone: a judge that shares nothing with the compiler.

It knows scalars and tiles of integers and f32, pointers, functions, all control flow and loads and stores; docs/ir.md is what it
follows. `run` either computes what memory holds afterwards or raises:

  Refused      the program is wrong: the compiler must not take it either
  Undefined    the language gives this run no meaning (a division by zero, two lanes storing to one place, out of bounds)
  Unsupported  this judge does not know

A side of a branch that is not taken, and the body of a loop, are run once more "dry", without effect, for the errors in them and for
the types of what they yield.
"""
import re

import numpy as np


class Refused(Exception):
    pass


class Undefined(Exception):
    pass


class Unsupported(Exception):
    pass


# ------------------------------------------------------------------------------------------------------------ text to tree

TOKEN = re.compile(r"""\s+|//[^\n]*|(?P<hex>0[xX][0-9a-fA-F]+)|(?P<real>\d+\.\d+([eE][-+]?\d+)?|\d+[eE][-+]?\d+)|(?P<int>\d+)
                    |(?P<name>[A-Za-z_]\w*)|(?P<string>"[^"\n]*")|(?P<sign>\.\.|<<|>>|<=|>=|==|!=|[-+*/%&|^~<>=()\[\]{},:.@_])""", re.X)
SCALARS = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32}
OTHER_SCALARS = {"f16", "bf16", "f64", "e4m3", "e5m2"}
WORDS = set("kiln const fn kernel type tune in out inout accum view typeof let var for step while loop break if else when return yield "
            "true false inf nan as".split())
LEVELS = [["|"], ["^"], ["&"], ["<", "<=", ">", ">=", "==", "!="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]


def tokens_of(text):
    out, at = [], 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise Refused("character %r" % text[at])
        at = m.end()
        if m.lastgroup:
            kind = next(k for k in ("hex", "real", "int", "name", "string", "sign") if m.group(k) is not None)
            if kind in ("hex", "real", "int") and at < len(text) and re.match(r"\w", text[at]):
                raise Refused("end of the number")
            word = m.group(kind)
            out.append(("word" if word in WORDS else "scalar" if word in SCALARS or word in OTHER_SCALARS else
                        "sign" if word == "_" else kind, word))
    out.append(("end", ""))
    return out


class Parser:
    def __init__(self, text):
        self.tokens, self.at = tokens_of(text), 0

    def peek(self, ahead=0):
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def is_next(self, *texts):
        kind, text = self.peek()
        return kind in ("word", "sign") and text in texts

    def accept(self, text):
        if self.is_next(text):
            self.at += 1
            return True
        return False

    def expect(self, text):
        if not self.accept(text):
            raise Refused("expected %s, found %s" % (text, self.peek()[1]))

    def name(self):
        if self.peek()[0] != "name":
            raise Refused("expected a name, found %s" % self.peek()[1])
        return self.next()[1]

    def module(self):
        items = {}
        self.expect("kiln")
        if self.next() != ("int", "1"):
            raise Refused("version")
        while self.peek()[0] != "end":
            item = self.item()
            if item[1] in items or item[1] in OPERATIONS:
                raise Refused("%s is defined already" % item[1])
            items[item[1]] = item
        return items

    def item(self):
        if self.accept("const"):
            name = self.name()
            kind = self.type() if self.accept(":") else None
            self.expect("=")
            return ("const", name, kind, self.expr())
        if self.accept("fn"):
            name = self.name()
            return ("fn", name, self.many("(", self.fn_param, ")"), self.block())
        self.expect("kernel")
        name = self.name()
        if self.is_next("["):
            raise Unsupported("compile-time parameters")
        return ("kernel", name, self.many("(", self.param, ")"), self.attributes(), self.block())

    def many(self, first, one, last):
        self.expect(first)
        out = []
        if not self.accept(last):
            out.append(one())
            while self.accept(","):
                out.append(one())
            self.expect(last)
        return out

    def fn_param(self):
        name = self.name()
        if self.is_next(":"):
            raise Unsupported("types of parameters of functions")
        return name

    def param(self):
        name = self.name()
        self.expect(":")
        mode = self.next()[1] if self.is_next("in", "out", "inout", "accum") else None
        kind = self.type()
        if self.is_next("@"):
            raise Unsupported("attributes of parameters")
        if mode and kind[0] != "pointer":
            raise Refused("a mode without a pointer")
        return (name, mode or "inout", kind)

    def attributes(self):
        out = []
        while self.accept("@"):
            out.append((self.name(), self.many("(", self.arg, ")") if self.is_next("(") else []))
        return out

    def type(self):
        if self.accept("*"):
            return ("pointer", self.type())
        kind, text = self.peek()
        if kind == "scalar":
            self.next()
            if text in OTHER_SCALARS:
                raise Unsupported(text)
            if self.is_next("["):
                raise Refused("a shape")
            return ("scalar", text)
        raise Unsupported("type %s" % text) if kind in ("name", "word") else Refused("type %s" % text)

    def block(self):
        self.expect("{")
        out = []
        while not self.accept("}"):
            out.append(self.statement())
            if out[-1][0] in ("return", "yield") and not self.is_next("}"):
                raise Refused("%s is last in its block" % out[-1][0])
        return out

    def exprs(self):
        out = [self.expr()]
        while self.accept(","):
            out.append(self.expr())
        return out

    def names(self):
        out = [self.name()]
        while self.accept(","):
            out.append(self.name())
        return out

    def choice(self, word):
        self.expect(word)
        condition, yes, no = self.expr(), self.block(), None
        if self.accept("else"):
            no = [self.choice(word)] if self.is_next(word) else self.block()
        return (word, condition, yes, no)

    def statement(self):
        if self.is_next("let", "var"):
            word, names = self.next()[1], self.names()
            self.expect("=")
            if self.is_next("if"):
                return (word, names, self.choice("if"), None)
            return (word, names, None, self.exprs())
        if self.accept("for"):
            name = self.name()
            self.expect("in")
            lo = self.expr()
            self.expect("..")
            hi = self.expr()
            step = self.expr() if self.accept("step") else None
            self.no_attributes()
            return ("for", name, lo, hi, step, self.block())
        if self.accept("while"):
            condition = self.expr()
            self.no_attributes()
            return ("while", condition, self.block())
        if self.accept("loop"):
            heads = None
            if self.peek()[0] == "name":
                names = self.names()
                self.expect("=")
                heads = (names, self.exprs())
            self.no_attributes()
            return ("loop", heads, self.block())
        if self.accept("break"):
            passed = None
            if self.peek()[0] == "name":
                names = self.names()
                self.expect("=")
                passed = (names, self.exprs())
            self.expect("if")
            return ("break", passed, self.expr())
        if self.is_next("if", "when"):
            return self.choice(self.peek()[1])
        if self.is_next("return", "yield"):
            return (self.next()[1], [] if self.is_next("}") else self.exprs())
        if self.peek()[0] != "name":
            raise Refused("expected a statement, found %s" % self.peek()[1])
        if self.peek(1) in (("sign", ","), ("sign", "=")):
            names = self.names()
            self.expect("=")
            return ("assign", names, self.exprs())
        call = self.expr()
        if call[0] != "call":
            raise Refused("an expression whose value is not used")
        return ("call", call)

    def no_attributes(self):
        if self.is_next("@"):
            raise Unsupported("attributes of loops")

    def arg(self):
        if self.peek()[0] in ("name", "word") and self.peek(1) == ("sign", "=") and self.peek()[1] not in ("if",):
            name = self.next()[1]
            self.next()
            return ("named", name, self.expr())
        return self.expr()

    def expr(self, level=0):
        if level == len(LEVELS):
            return self.unary()
        left = self.expr(level + 1)
        while self.is_next(*LEVELS[level]):
            op = self.next()[1]
            left = ("binary", op, left, self.expr(level + 1))
            if level == 3 and self.is_next(*LEVELS[3]):
                raise Refused("comparisons do not chain")
        return left

    def unary(self):
        if self.is_next("-", "~"):
            return ("unary", self.next()[1], self.unary())
        out = self.primary()
        while True:
            if self.accept("as"):
                out = ("as", out, self.type())
            elif self.is_next("["):
                out = ("index", out, self.many("[", self.item_of_index, "]"))
            else:
                return out

    def item_of_index(self):
        if self.is_next(":", "_"):
            return self.next()[1]
        return self.expr()

    def primary(self):
        kind, text = self.next()
        if kind == "int":
            if int(text) >= 1 << 63:
                raise Refused("integer")
            return ("int", int(text))
        if kind == "hex":
            return ("hex", int(text, 16))
        if kind == "real":
            if np.isinf(float(text)):
                raise Refused("number")
            return ("real", float(text))
        if text in ("true", "false"):
            return ("bool", text == "true")
        if text in ("inf", "nan") and kind == "word":
            return ("real", float(text))
        if kind == "scalar":
            if text in OTHER_SCALARS:
                raise Unsupported(text)
            return ("type", text)
        if text == "(" and kind == "sign":
            out = self.expr()
            self.expect(")")
            return out
        if text == "[" and kind == "sign":
            self.at -= 1
            return ("list", self.many("[", self.item_of_index, "]"))
        if kind == "string" or text in ("view", "typeof", "*"):
            raise Unsupported(text)
        if kind != "name":
            raise Refused("expected an expression, found %s" % text)
        member = None
        if self.accept("."):
            member = self.name()
            if not self.is_next("("):
                raise Refused("expected (")
        if self.is_next("("):
            return ("call", text, member, self.many("(", self.arg, ")"))
        return ("name", text)


# ------------------------------------------------------------------------------------------------------------ values


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
        if not (v.kind == "hex" and width == 64) and not least <= v.data <= (1 << width) - 1:
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


# ------------------------------------------------------------------------------------------------------------ running

OPERATIONS = set("""abs asm assert assume atomic barrier bitcast bits broadcast cas cast ceil cos dim div dot erf exp2 floor fma full hint
iota join load log2 max min mulhi npid pid poly reduce reshape round rsqrt scan select sin sort split sqrt store tanh topk trans ucast
udiv uge ugt ule ult umax umin umulhi urem ushr view zeros TARGET WARP SMEM""".split())
CONTROL = ("kernel", "side", "value", "loop", "fn")
STEPS = 20000


class Returned(Exception):
    pass


class Yielded(Exception):
    pass


class Binding:
    def __init__(self, value, is_var):
        self.value, self.is_var = value, is_var


class Run:
    def __init__(self, items, kernel, arguments, program, memory):
        self.items, self.program, self.memory = items, program, memory
        self.scopes, self.control, self.dry, self.steps, self.calls = [{}], ["kernel"], 0, 0, []
        self.likes, self.checked, self.strict = [None], set(), any(n == "fp" and ("name", "strict") in a for n, a in kernel[3])
        for (name, _, kind), value in zip(kernel[2], arguments):
            self.bind(name, value, False)
        self.kernel = kernel

    # Names.

    def bind(self, name, value, is_var):
        if name in self.scopes[-1]:
            raise Refused("%s is bound already" % name)
        self.scopes[-1][name] = Binding(value, is_var)

    def find(self, name):
        for scope in reversed(self.scopes):
            if scope is None:
                return None
            if name in scope:
                return scope[name]
        return None

    # Statements. `rest` tells whether anything follows in the same block.

    def block(self, statements):
        self.scopes.append({})
        try:
            self.statements(statements)
        finally:
            self.scopes.pop()

    def statements(self, statements, outer_rest=False):
        for i, s in enumerate(statements):
            self.step()
            getattr(self, "do_" + s[0])(s, outer_rest or i + 1 < len(statements))

    def step(self):
        self.steps += 1
        if self.steps > STEPS:
            raise Unsupported("too many steps")

    def values_of(self, s):
        if s[2]:
            return self.value_if(s[2])
        return [v for e in s[3] for v in self.all_of(e)]

    def do_let(self, s, rest):
        values = self.values_of(s)
        if len(values) != len(s[1]):
            raise Refused("%d values for %d names" % (len(values), len(s[1])))
        for name, v in zip(s[1], values):
            self.bind(name, v if s[0] == "let" else runtime(settled(v)), s[0] == "var")

    do_var = do_let

    def do_assign(self, s, rest):
        values = [v for e in s[2] for v in self.all_of(e)]
        if len(values) != len(s[1]) or len(set(s[1])) != len(s[1]):
            raise Refused("values for names")
        for name, v in zip(s[1], values):
            b = self.find(name)
            if not b or not b.is_var:
                raise Refused("%s is no variable" % name)
            b.value = runtime(fitted(v, b.value.kind, b.value.shape))

    def do_call(self, s, rest):
        self.all_of(s[1])

    def truth(self, e):
        v = self.one(e)
        if v.kind != "i1" or v.shape:
            raise Refused("a condition")
        return v

    def dry_run(self, what):
        """For errors, without effect. What ends the block ends it here."""
        saved = [(b, b.value) for scope in self.scopes if scope for b in scope.values()]
        depth = len(self.scopes)
        self.dry += 1
        try:
            return what()
        except Returned:
            return None
        finally:
            self.dry -= 1
            del self.scopes[depth:]
            for b, value in saved:
                b.value = value

    def dry_once(self, key, what):
        """Types do not change from trip to trip: once for each node and stack of calls is enough."""
        key = (key, tuple(self.calls))
        if key not in self.checked:
            self.checked.add(key)
            self.dry_run(what)

    def within(self, control, what):
        self.control.append(control)
        try:
            what()
        finally:
            self.control.pop()

    def may_end(self, node, word):
        return any(s[0] == word or s[0] in ("if", "when") and (self.may_end(s[2], word) or self.may_end(s[3] or [], word)) for s in node)

    def do_if(self, s, rest):
        if self.control[-1] == "value" and not rest and self.may_end([s], "yield"):
            raise Yielded(self.value_if(s, self.likes[-1]))
        taken = bool(self.truth(s[1]).data)
        for is_taken, side in ((taken, s[2]), (not taken, s[3])):
            def run(side=side):
                self.within("side", lambda: self.block(side or []))
            if self.dry:
                self.dry_run(run)
            elif not is_taken:
                self.dry_once((id(s), is_taken, side is s[2]), run)
        if not self.dry:
            self.within("side", lambda: self.block((s[2] if taken else s[3]) or []))

    def value_side(self, side):
        """Values of a side in its own scope, not yet of a settled type."""
        out = []

        def run():
            try:
                self.block(side or [])
            except Yielded as y:
                out.append(y.args[0])
        self.within("value", run)
        return out[0] if out else []

    def value_if(self, s, like=None):
        taken = bool(self.truth(s[1]).data)
        sides = []
        for i, side in enumerate((s[2], s[3])):
            model = like if like is not None else sides[0] if i else None
            self.likes.append(model)
            is_taken = (i == 0) == taken and not self.dry
            values = (self.value_side(side) if is_taken else self.dry_run(lambda: self.value_side(side))) or []
            self.likes.pop()
            sides.append([runtime(settled(v) if model is None or j >= len(model) else fitted(v, model[j].kind, model[j].shape))
                          for j, v in enumerate(values)])
        if len(sides[0]) != len(sides[1]):
            raise Refused("both sides yield as many")
        return sides[0] if taken else sides[1]

    def do_yield(self, s, rest):
        if self.control[-1] != "value":
            raise Refused("yield")
        raise Yielded([v for e in s[1] for v in self.all_of(e)])

    def do_when(self, s, rest):
        v = self.one(s[1])
        if v.kind != "i1" or not v.known or v.shape:
            raise Refused("when")
        self.statements((s[2] if v.data else s[3]) or [], rest)

    def do_return(self, s, rest):
        base = len(self.control) - 1 - self.control[::-1].index("fn") if "fn" in self.control else 0
        inner = self.control[base + 1:]
        if self.calls:
            if inner:
                raise Refused("return in a branch of a function")
            raise Returned([v for e in s[1] for v in self.all_of(e)])
        if s[1] or "loop" in inner or "value" in inner:
            raise Refused("return")
        raise Returned([])

    # Loops.

    def body(self, statements, name=None, value=None):
        def run():
            self.scopes.append({})
            try:
                if name:
                    self.bind(name, value, False)
                self.block(statements) if name else self.statements(statements)
            finally:
                self.scopes.pop()
        self.within("loop", run)

    def do_for(self, s, rest):
        lo, hi, step = (self.one(e) if e else Value("int", 1, True) for e in s[2:5])
        if step.known and step.data <= 0:
            raise Refused("step")
        lo, hi, step = unified(lo, hi, step)
        if lo.shape or lo.kind not in ("i32", "i64"):
            raise Refused("bounds")
        self.dry_once(id(s), lambda: self.body(s[5], s[1], runtime(lo)))
        if self.dry:
            return
        if step.data <= 0:
            raise Undefined("step")
        i = int(lo.data)
        while i < int(hi.data):
            self.step()
            self.body(s[5], s[1], typed(lo.kind, i))
            i += int(step.data)

    def do_while(self, s, rest):
        self.truth(s[1])
        self.dry_once(id(s), lambda: self.body(s[2]))
        while not self.dry and self.truth(s[1]).data:
            self.step()
            self.body(s[2])

    def do_loop(self, s, rest):
        """The one `break if` stands directly in the block, a `when` being no block of its own."""
        def flat(statements):
            for x in statements:
                if x[0] == "when" and any(y[0] == "break" for y in x[2] + (x[3] or [])):
                    raise Unsupported("a break in a when")
                yield x
        statements = list(flat(s[2]))
        breaks = [x for x in statements if x[0] == "break"]
        if len(breaks) != 1:
            raise Refused("one break in a loop")
        heads = [runtime(settled(self.one(e))) for e in s[1][1]] if s[1] else []
        names = s[1][0] if s[1] else []
        if len(heads) != len(names):
            raise Refused("heads")
        passed = []

        def trip():
            """True when the loop goes on."""
            del passed[:]
            at = statements.index(breaks[0])
            self.statements(statements[:at])
            values = [runtime(settled(self.one(e))) for e in breaks[0][1][1]] if breaks[0][1] else []
            ends = bool(self.truth(breaks[0][2]).data)
            bound = breaks[0][1][0] if breaks[0][1] else []
            if len(values) != len(bound):
                raise Refused("values of break")
            passed.extend(zip(bound, values))
            if ends and not self.dry:
                return False
            for name, v in passed:
                self.bind(name, v, False)
            self.statements(statements[at + 1:])
            return True

        self.scopes.append({})
        self.control.append("loop")
        try:
            for name, v in zip(names, heads):
                self.bind(name, v, True)
            head_scope = self.scopes[-1]

            def once():
                # Heads and what the block binds are of one scope, made anew at each trip.
                self.scopes[-1] = dict(head_scope)
                return trip()
            self.dry_run(once)
            self.scopes[-1] = head_scope
            while not self.dry:
                self.step()
                if not once():
                    break
            after = list(passed)
        finally:
            self.control.pop()
            self.scopes.pop()
        for name, v in after:
            self.bind(name, v, False)

    def do_break(self, s, rest):
        raise Refused("break if")

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
        return Value("hex" if left.kind == right.kind == "hex" and out >= 0 else "int", out, True)

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


SPACE = 1 << 32


class Memory:
    """Buffers at addresses SPACE apart, with who has written what."""

    def __init__(self, buffers):
        self.buffers = buffers  # (mode, array)
        self.written, self.read = {}, set()

    def address(self, i):
        return typed("*" + next(k for k, t in SCALARS.items() if t == self.buffers[i][1].dtype.type), (i + 1) * SPACE)

    def place(self, address):
        i, at = divmod(int(address), SPACE)
        if not 1 <= i <= len(self.buffers) or at >= len(self.buffers[i - 1][1]):
            raise Undefined("out of bounds")
        return i - 1, at

    def load(self, addresses, mask, other, program):
        out = np.array(other, copy=True)
        for index in np.ndindex(addresses.shape):
            if not mask[index]:
                continue
            i, at = self.place(addresses[index])
            if self.buffers[i][0] == "out":
                raise Refused("a load through 'out'")
            self.read.add((i, at))
            if (i, at) in self.written:
                raise Undefined("a load of what was stored")
            out[index] = self.buffers[i][1][at]
        return out

    def store(self, addresses, values, mask, program):
        seen = set()
        for index in np.ndindex(addresses.shape):
            if not mask[index]:
                continue
            i, at = self.place(addresses[index])
            if self.buffers[i][0] == "in":
                raise Refused("a store through 'in'")
            if (i, at) in self.read or (i, at) in seen or self.written.get((i, at), program) != program:
                raise Undefined("a place that others touch too")
            seen.add((i, at))
            self.written[i, at] = program
            self.buffers[i][1][at] = values[index]


def run(text, scalars, buffers):
    """Runs the one kernel of the text. `scalars` and `buffers` (NumPy arrays, changed in place) are taken by name."""
    items = Parser(text).module()
    kernels = [i for i in items.values() if i[0] == "kernel"]
    if len(kernels) != 1:
        raise Unsupported("one kernel")
    kernel = kernels[0]
    for name, _ in kernel[3]:
        if name not in ("grid", "fp", "config"):
            raise Unsupported("@" + name)
    if len({p[0] for p in kernel[2]}) != len(kernel[2]):
        raise Refused("parameters")
    pointers = [p for p in kernel[2] if p[2][0] == "pointer"]
    for name, _, kind in kernel[2]:
        if name not in (buffers if kind[0] == "pointer" else scalars):
            raise Unsupported("argument %s" % name)
        if kind[0] == "pointer" and (kind[1][0] != "scalar" or SCALARS[kind[1][1]] != buffers[name].dtype.type):
            raise Unsupported("type of %s" % name)
    memory = Memory([(p[1], buffers[p[0]]) for p in pointers])
    grid = next((a for n, a in kernel[3] if n == "grid"), [("int", 1)])
    if len(grid) != 1 or grid[0][0] != "int" or not 1 <= grid[0][1] <= 64:
        raise Unsupported("grid")
    for program in range(grid[0][1]):
        arguments = [memory.address(pointers.index(p)) if p[2][0] == "pointer" else typed(p[2][1], scalars[p[0]]) for p in kernel[2]]
        state = Run(items, kernel, arguments, program, memory)
        try:
            state.block(kernel[4])
        except Returned:
            pass
