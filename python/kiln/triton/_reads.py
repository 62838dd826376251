# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which names a function reads from outside of it, by its source: of a kernel by Triton's rules of scopes, of a Python function by Python's. What a name leads to
is not its business (_dependencies)."""
import ast
import dis
import functools
import linecache
import textwrap
import types
import typing

from ._compilation import parsing

_ESCAPES = {"__globals__", "__builtins__", "__subclasses__", "f_globals", "f_locals", "f_builtins"}  # attributes that lead to what no name of the source does


class Key(typing.NamedTuple):
    """In place of an attribute: a constant text that the value before it is asked for, as in x["a"], x.get("a") and "a" in x."""
    text: str


class Import(typing.NamedTuple):
    """An import statement in a function: what its local name stands for."""
    module: str
    level: int
    attribute: typing.Optional[str]


class Reads(typing.NamedTuple):
    names: tuple  # each read: a name, then attributes; a Key may be last
    imports: dict  # {local name: [Import]}
    unclear: tuple  # what the source does of which nobody can say what it reads


def shown(names):
    return ".".join(one for one in names if isinstance(one, str))


def _is_getattr(node):
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str))


def _chain(node):
    """("a", "b", "c") of a.b.c and getattr(a.b, "c"); None of anything else."""
    names = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif _is_getattr(node):
            names.append(node.args[1].value)
            node = node.args[0]
        else:
            return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


def _constant(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _stored(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}


def _bound(body):
    """The names that the statements of a Python function bind in it, those of imports apart; those that it says are global, and those of a function around it."""
    bound, others, outer, todo = set(), set(), set(), list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.Global):
            others.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        if isinstance(node, _SCOPES):
            bound.update(part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        else:
            todo.extend(ast.iter_child_nodes(node))
    return bound - others - outer, others, outer


class _Visitor(ast.NodeVisitor):
    """In a kernel a name is local from its assignment on, on every way to it; in Python wherever the function assigns it."""

    def __init__(self, is_kernel):
        self.found, self.imports, self.unclear, self.local, self._is_kernel = {}, {}, {}, set(), is_kernel

    def _branch(self, parts, *bound):
        """Visits statements that may run. What is local after them, if they do."""
        before, self.local = self.local, set(self.local)
        for part in (*bound, *parts):
            self.visit(part)
        after, self.local = self.local, before
        return after

    def _read(self, *names):
        if names[0] not in self.local:
            self.found[names] = None
        for name in names:
            if name in _ESCAPES:
                self.unclear["reads " + shown(names)] = None

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        elif self._is_kernel:
            self.local.add(node.id)

    def visit_Attribute(self, node):
        names = _chain(node)
        if names is not None:
            self._read(*names)
            return
        if node.attr in _ESCAPES:
            self.unclear["reads " + node.attr] = None
        self.visit(node.value)

    def visit_Call(self, node):
        given = node.args
        names = _chain(node) if "getattr" not in self.local else None
        if names is not None:  # of getattr(a, "b", c) the rest is c
            self._read(*names)
            given = node.args[2:]
        else:
            names, key = _chain(node.func), _constant(node.args[0]) if node.args else None
            if names is not None and key is not None:
                self._read(*names, Key(key))
            else:
                self.visit(node.func)
        for part in (*given, *node.keywords):
            self.visit(part)

    def visit_Subscript(self, node):
        names, key = _chain(node.value), _constant(node.slice)
        if names is not None and key is not None and isinstance(node.ctx, ast.Load):
            self._read(*names, Key(key))
        else:
            self.generic_visit(node)

    def visit_Compare(self, node):
        names, key = _chain(node.comparators[0]), _constant(node.left)
        if names is not None and key is not None and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            self._read(*names, Key(key))
        else:
            self.generic_visit(node)

    def visit_AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_Assign(self, node):
        for part in (node.value, *node.targets):
            self.visit(part)

    def visit_AnnAssign(self, node):
        for part in (node.value, node.target):
            if part is not None:
                self.visit(part)

    def visit_If(self, node):
        self.visit(node.test)
        one, other = self._branch(node.body), self._branch(node.orelse)
        self.local |= one & other

    def visit_For(self, node):
        self.visit(node.iter)
        self._branch(node.body, node.target)
        self._branch(node.orelse)

    def visit_While(self, node):
        self.visit(node.test)
        self._branch(node.body)
        self._branch(node.orelse)

    def visit_Try(self, node):
        for part in (node.body, *node.handlers, node.orelse, node.finalbody):
            self._branch(part if isinstance(part, list) else [part])

    def _visit_comprehension(self, node):
        before = self.local
        for one in node.generators:
            self.visit(one.iter)
            self.local = self.local | _stored(one.target)
            for test in one.ifs:
                self.visit(test)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(part)
        self.local = before

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_Import(self, node):
        for one in node.names:
            local = one.asname or one.name.partition(".")[0]
            self.imports.setdefault(local, []).append(Import(one.name, 0, None))
            if not one.asname and one.name != local:  # it binds the first of a.b.c, and loads all
                self.imports[local].append(Import(local, 0, None))

    def visit_ImportFrom(self, node):
        for one in node.names:
            self.imports.setdefault(one.asname or one.name, []).append(Import(node.module or "", node.level, one.name))

    def visit_Global(self, node):
        self.unclear["may assign the global " + ", ".join(node.names)] = None

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        if self._is_kernel:
            self.local.add(node.name)

    def function(self, node):
        """The outermost: its defaults, annotations and decorators were evaluated where it was defined."""
        before, every = self.local, node.args
        bound = {one.arg for one in (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg) if one}
        body = node.body if isinstance(node.body, list) else [node.body]
        if not self._is_kernel:
            more, others, outer = _bound(body)
            bound |= more
            self.local = self.local - others
            for name in outer - self.local:
                self.unclear["may assign %s, which is of a function around it" % name] = None
        self.local = self.local | bound
        for part in body:
            self.visit(part)
        self.local = before | ({node.name} if hasattr(node, "name") and self._is_kernel else set())

    def _visit_function(self, node):
        for part in (*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        self.function(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function


def _reads_in(node, is_kernel):
    visitor = _Visitor(is_kernel)
    visitor.function(node)
    return Reads(tuple(visitor.found), visitor.imports, tuple(visitor.unclear))


@functools.lru_cache(4096)
def of_kernel(source):
    """Of the source of a function that Triton reads."""
    with parsing:
        return _reads_in(ast.parse(source).body[0], True)


# ------------------------------------------------------------------------------- Python functions

@functools.lru_cache(64)
def _nodes_in(lines):
    """{line that its code object has: [functions that begin there]} of a file."""
    found = {}
    try:
        with parsing:
            tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            found.setdefault(first, []).append(node)
    return found


def _is_within(node, positions):
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return all(begin <= one[0] and one[1] <= end for one in positions)


def _node_of(code, lines):
    """The function in a file that became this code; None where the file does not show it, as it has changed or is none."""
    given = list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])
    fitting = [node for node in _nodes_in(lines).get(code.co_firstlineno, ()) if getattr(node, "name", "<lambda>") == code.co_name
               and [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] == given]
    if code.co_name == "<lambda>":  # several may be in one line
        positions = [((line, column), (end, end_column)) for line, end, column, end_column in code.co_positions()
                     if None not in (line, end, column, end_column) and (line, column) != (end, end_column)]
        fitting = [node for node in fitting if _is_within(node, positions)] if positions else []
        fitting.sort(key=lambda node: (node.end_lineno - node.lineno, len(ast.unparse(node))))
        return fitting[0] if fitting else None
    return fitting[0] if len(fitting) == 1 else None


def _text_of(node, lines):
    if isinstance(node, ast.Lambda):
        return ast.get_source_segment("".join(lines), node)
    return textwrap.dedent("".join(lines[min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1:node.end_lineno]))


def _codes(code):
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _of_bytes(code):
    """Of a function without a source, as one that exec() made: all names of its code, whether they are attributes or not."""
    every = list(_codes(code))
    names = {(name,): None for one in every for name in one.co_names + code.co_freevars}
    unclear = ["reads %s" % name for one in every for name in one.co_names if name in _ESCAPES]
    unclear += ["has no source and a statement %s" % each.opname for one in every for each in dis.get_instructions(one) if each.opname in ("IMPORT_NAME", "STORE_GLOBAL")]
    text = repr([(one.co_code, one.co_names, one.co_varnames, [part for part in one.co_consts if not isinstance(part, types.CodeType)]) for one in every])
    return text, Reads(tuple(names), {}, tuple(unclear))


_known = {}  # id of code: (the code, which keeps it, its answer). Equal code may be of two files


def of_code(code):
    """(the text of a Python function, its Reads)."""
    known = _known.get(id(code))
    if known is None:
        lines = tuple(linecache.getlines(code.co_filename))
        node = _node_of(code, lines) if lines else None
        found = (_text_of(node, lines), _reads_in(node, False)) if node is not None else _of_bytes(code)
        known = _known[id(code)] = code, found
    return known[1]
