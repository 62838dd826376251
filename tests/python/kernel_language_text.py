# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of the kernel language as trees, and what the judge of kernel_language.py raises."""
import re

import numpy as np


class Refused(Exception):
    pass


class Undefined(Exception):
    pass


class Unsupported(Exception):
    pass


TOKEN = re.compile(r"""\s+|//[^\n]*|(?P<hex>0[xX][0-9a-fA-F]+)|(?P<real>\d+\.\d+([eE][-+]?\d+)?|\d+[eE][-+]?\d+)|(?P<int>\d+)
                    |(?P<name>[A-Za-z_]\w*)|(?P<string>"[^"\n]*")|(?P<sign>\.\.|<<|>>|<=|>=|==|!=|[-+*/%&|^~<>=()\[\]{},:.@_])""", re.X)
SCALARS = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32}
OTHER_SCALARS = {"f16", "bf16", "f64", "e4m3", "e5m2"}
WORDS = set("kiln const fn kernel type tune in out inout accum view typeof let var for step while loop break if else when return yield "
            "true false inf nan as".split())
OPERATIONS = set("""abs asm assert assume atomic barrier bitcast bits broadcast cas cast ceil cos dim div dot erf exp2 floor fma full gather hint
iota join load log2 max min mulhi npid pid poly print reduce reshape round rsqrt scan scatter select sin sort split sqrt store tanh topk trans ucast
udiv uge ugt ule ult umax umin umulhi urem ushr view view_base view_stride zeros TARGET WARP SMEM""".split())
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
