# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What makes an operation of a framework of a kernel: what it takes, what it allocates and returns (`@returns`), and the kernel of its derivatives
(`@backward`)."""
import ast
import itertools
import re

OUT, ACCUM = 2, 4
_OPERATORS = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b}


def is_array(param):
    return param.rank > 0 or param.depth == 1


def _can_be(param, value):
    """Whether an argument may be meant for a parameter: an array for an array, an integer or another number for what takes that."""
    is_value_array = hasattr(value, "dtype") and getattr(value, "ndim", 1) > 0
    if is_array(param) or is_value_array:
        return is_array(param) and is_value_array
    is_fraction = isinstance(value, float) or "float" in str(getattr(value, "dtype", ""))
    return param.scalar[:1] != "i" or not is_fraction


def _missing(params, arguments):
    """The parameters without which the arguments fit in order: of several such choices the one whose parameters are last; [] where there is none."""
    lacking = len(params) - len(arguments)
    if not 0 < lacking <= 4:
        return params[len(arguments):] if lacking > 0 else []
    for left in itertools.combinations(range(len(params) - 1, -1, -1), lacking):
        given = [param for i, param in enumerate(params) if i not in left]
        if all(map(_can_be, given, arguments)):
            return [params[i] for i in sorted(left)]
    return []


def check_count(title, params, arguments):
    if len(arguments) != len(params):
        missing = ", ".join("'%s' (%s)" % (param.name, param.type) for param in _missing(params, arguments))
        raise TypeError("%s: expected %d arguments (%s), found %d%s" % (title, len(params), ", ".join(param.name for param in params), len(arguments),
                                                                      missing and "; without " + missing))


def _quotient(a, b):
    """Towards zero, as launch expressions divide; extents that are not known yet are not below zero."""
    if isinstance(a, int) and isinstance(b, int) and (a < 0) != (b < 0):
        return -(-a // b)
    return a // b


_OPERATORS.update({ast.Div: _quotient, ast.Mod: lambda a, b: a - b * _quotient(a, b)})


def value_of(node, given, functions):
    """A launch expression, whose text is also one of Python's, for the arguments; `functions` are "min" and "max"."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return given[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value_of(node.operand, given, functions)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](value_of(node.left, given, functions), value_of(node.right, given, functions))
    if isinstance(node, ast.Call) and node.func.id in ("cdiv", *functions):
        values = [value_of(one, given, functions) for one in node.args]
        return -(-values[0] // values[1]) if node.func.id == "cdiv" else functions[node.func.id](*values)
    raise ValueError("an extent that cannot be computed: %s" % ast.unparse(node))


_OPCODES = {ast.Add: 2, ast.Sub: 3, ast.Mult: 4, ast.Div: 5, ast.Mod: 6, ast.USub: 7, "cdiv": 8, "min": 9, "max": 10}


def program_of(node, place):
    """A launch expression as code of kiln._core.Operation: pairs of an opcode and a value; `place` has the numbers of the arguments by name."""
    if isinstance(node, ast.Constant):
        return (0, node.value)
    if isinstance(node, ast.Name):
        return (1, place[node.id])
    if isinstance(node, ast.UnaryOp):
        return program_of(node.operand, place) + (_OPCODES[type(node.op)], 0)
    if isinstance(node, ast.BinOp):
        return program_of(node.left, place) + program_of(node.right, place) + (_OPCODES[type(node.op)], 0)
    return sum((program_of(one, place) for one in node.args), ()) + (_OPCODES[node.func.id], 0)


class Interface:
    """The parameters that an operation takes, and those that it allocates and returns, each with its extents."""

    def __init__(self, kernel):
        self.name, self.params, self.backward = kernel.name, kernel.params, kernel.backward
        by_name = {param.name: param for param in self.params}
        stated = ast.parse("(%s,)" % kernel.returns, mode="eval").body.elts if kernel.returns else []
        self.returned = {one.value.id: (by_name[one.value.id], one.slice.elts if isinstance(one.slice, ast.Tuple) else [one.slice]) for one in stated}
        self.taken = [param for param in self.params if param.name not in self.returned]
        self.arrays = [i for i, param in enumerate(self.taken) if is_array(param)]

    def shapes(self, arguments, functions):
        """{name: (parameter, shape)} of what is returned."""
        given = {param.name: value for param, value in zip(self.taken, arguments)}
        return {name: (param, [value_of(one, given, functions) for one in extents]) for name, (param, extents) in self.returned.items()}


class Gradients:
    """How the backward kernel of an operation is called: its parameters are by name the forward's, its outputs, or `dNAME`: the gradient of an output, and
    where it is returned that of an input. `taken` has (kind, number of the input or output, name) for each, `wanted` for each input that has one the
    number of its gradient, `differentiable` the outputs whose gradients are read."""

    def __init__(self, forward, backward):
        inputs, outputs = [param.name for param in forward.taken], list(forward.returned)
        self.taken = []
        for param in backward.taken:
            name = param.name
            if name in inputs:
                source = ("input", inputs.index(name), name)
            elif name in outputs:
                source = ("output", outputs.index(name), name)
            elif name[:1] == "d" and name[1:] in outputs:
                source = ("gradient", outputs.index(name[1:]), name)
            else:
                raise ValueError("@backward of '%s': '%s' of '%s' is no parameter of it, and no gradient of what it returns" %
                                 (forward.name, name, backward.name))
            self.taken.append(source)
        wrong = [name for name in backward.returned if name[:1] != "d" or name[1:] not in inputs]
        if wrong or not backward.returned or not forward.returned:
            raise ValueError("@backward of '%s': '%s' %s" % (forward.name, backward.name, "returns '%s', which is the gradient of no parameter" % wrong[0]
                                                             if wrong else "and it have to state what they return by @returns"))
        self.wanted = {inputs.index(name[1:]): i for i, name in enumerate(backward.returned)}
        self.differentiable = {at for kind, at, _ in self.taken if kind == "gradient"}


def backward_of(interface, interfaces):
    """The interface of the backward kernel that the source names: the instance of the same constants, or the only one; None where it lacks that."""
    constants = interface.name.partition("[")[2]
    return (interfaces.get("%s[%s" % (interface.backward, constants)) or interfaces.get(interface.backward)) if interface.backward else None


def operation_name(kernel):
    """What frameworks call one instance: "copy__T_bf16" of "copy[T=bf16]"."""
    base, _, constants = kernel.partition("[")
    return base + ("__" + re.sub(r"\W+", "_", constants).strip("_") if constants else "")
