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
import numpy as np

from kernel_language_operations import Operations, Returned, runtime
from kernel_language_text import Refused, Undefined, Unsupported, Parser, SCALARS
from kernel_language_values import Value, typed, settled, unified, fitted

CONTROL = ("kernel", "side", "value", "loop", "fn")
STEPS = 20000


class Yielded(Exception):
    pass


class Binding:
    def __init__(self, value, is_var):
        self.value, self.is_var = value, is_var


class Run(Operations):
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
