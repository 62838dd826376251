# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a kernel's Triton IR depends on beside its source: the values of the names that its source reads, and those that the functions it calls read. Triton's key of a
function has its constexpr globals and no more: no type by another name, no constant of another module, no default of a helper, nothing that a
@triton.constexpr_function reads. A key of a bundle has all of them, each as a fact with a name (docs/python.md)."""
import ast
import enum
import functools
import hashlib
import inspect
import sys
import textwrap
import types

from triton import language as tl
from triton.runtime.jit import JITCallable

_LIBRARIES = ("triton", "torch", "numpy", "math", "builtins", "kiln")  # whose functions and classes are what their names say
_STANDARD = getattr(sys, "stdlib_module_names", frozenset())


# ------------------------------------------------------------------------------------------- names

class _Reads(ast.NodeVisitor):
    """The names, with the attributes after them, that a function reads from outside. In a kernel a name is local from its assignment on, on every way to it; in
    Python wherever it is assigned."""

    def __init__(self, tree, is_kernel):
        self.found, self.local, self._is_kernel = {}, set(), is_kernel
        self.visit(tree)

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

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        else:
            self.local.add(node.id)

    def visit_Attribute(self, node):
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            self._read(node.id, *reversed(names))
        else:
            self.visit(node)

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
        for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
            self._branch(part)

    def _visit_comprehension(self, node):
        inner = [part for one in node.generators for part in (one.iter, one.target, *one.ifs)]
        self._branch(inner + ([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def _visit_function(self, node):
        """Its defaults, annotations and decorators were evaluated where it was defined."""
        before = set(self.local)
        every = node.args
        self.local |= {one.arg for one in (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg) if one}
        body = node.body if isinstance(node.body, list) else [node.body]
        if not self._is_kernel:
            self.local |= {part.id for one in body for part in ast.walk(one) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
        for part in body:
            self.visit(part)
        self.local = before | ({node.name} if hasattr(node, "name") else set())

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function


@functools.lru_cache(4096)
def _reads_of(source, is_kernel):
    return tuple(_Reads(ast.parse(source), is_kernel).found)


# ------------------------------------------------------------------------------------------ values

def _is_of_library(value):
    module = (getattr(value, "__module__", None) or "").split(".")[0]
    return module in _LIBRARIES or module in _STANDARD


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _state_of(value):
    """{attribute: value} of an object; None where it does not show what it has."""
    slots = [vars(kind)["__slots__"] for kind in type(value).__mro__ if "__slots__" in vars(kind)]
    names = [name for one in slots for name in ((one,) if isinstance(one, str) else one)]
    if not names and not hasattr(value, "__dict__"):
        return None
    found = {name: getattr(value, name) for name in names if hasattr(value, name) and name not in ("__dict__", "__weakref__")}
    return {**found, **getattr(value, "__dict__", {})}


def is_named(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


class _Texts:
    """Values as text: what is equal but not the same has another one. `facts`: what functions in them read."""

    def __init__(self):
        self.facts, self.watched, self._seen = {}, [], {}

    def of(self, value):
        if value is None or isinstance(value, (str, bytes)) or value.__class__ in (bool, int, float, complex, type(...)):
            return repr(value)
        if isinstance(value, tl.dtype):
            return str(value)
        if isinstance(value, tl.constexpr):
            return "constexpr(%s)" % self.of(value.value)
        if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            return "%s%s %s" % (value.dtype, list(value.shape), _digest(value.tobytes().hex()))
        if isinstance(value, enum.Enum):
            return "%s.%s" % (type(value).__qualname__, value.name)
        if isinstance(value, JITCallable):
            self.function(value)
            return "%s %s" % (value.__name__, value.cache_key)
        if isinstance(value, types.ModuleType):
            return "module " + value.__name__
        if id(value) in self._seen:
            return "an object met before"
        self._seen[id(value)] = value  # which keeps it, and so its id
        try:
            return self._compound(value)
        finally:
            del self._seen[id(value)]

    def _compound(self, value):
        kind = type(value)
        if is_named(value):
            return "%s(%s)" % (kind.__qualname__, ", ".join("%s=%s" % (name, self.of(one)) for name, one in zip(value._fields, value)))
        if isinstance(value, (tuple, list, set, frozenset)):
            inner = list(map(self.of, value))
            text = "(%s)" % ", ".join(inner if isinstance(value, (tuple, list)) else sorted(inner))
            return text if kind in (tuple, list) else kind.__qualname__ + text
        if isinstance(value, dict):
            return "%s{%s}" % (kind.__qualname__, ", ".join("%s: %s" % (self.of(key), self.of(one)) for key, one in value.items()))
        if isinstance(value, functools.partial):
            return "partial(%s, %s, %s)" % (self.of(value.func), self.of(value.args), self.of(value.keywords))
        if isinstance(value, types.MethodType):
            return "%s of %s" % (self.of(value.__func__), self.of(value.__self__))
        if isinstance(value, types.FunctionType):
            return value.__qualname__ if _is_of_library(value) else "%s %s" % (value.__qualname__, self._python(value))
        if isinstance(value, type):
            return value.__qualname__ if _is_of_library(value) else "%s %s" % (value.__qualname__, self._class(value))
        state = _state_of(value) if not _is_of_library(kind) else None
        if state is None:
            return repr(value)
        return "%s(%s)" % (self.of(kind), ", ".join("%s=%s" % (name, self.of(one)) for name, one in sorted(state.items())))

    def _class(self, kind):
        inner = [self.of(base) for base in kind.__bases__ if base is not object]
        for name, value in sorted(vars(kind).items()):
            if not (name.startswith("__") and name.endswith("__")) or isinstance(value, types.FunctionType):
                value = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
                value = value.fget if isinstance(value, property) else value
                inner.append("%s=%s" % (name, self.of(value) if not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)) else "slot"))
        return _digest("\n".join(inner))

    def _python(self, function):
        """A digest of a Python function's source. What it reads becomes facts."""
        try:
            source = textwrap.dedent(inspect.getsource(function.__code__))  # of a decorator's wrapper its own
            reads = _reads_of(source, False)
        except (OSError, SyntaxError):  # typed in, or a lambda inside of something
            code = function.__code__
            source, reads = "%r %r" % (code.co_code, [one for one in code.co_consts if not isinstance(one, types.CodeType)]), tuple((name,) for name in code.co_names)
        self._follow(function, function.__qualname__ + ": ", reads)
        self._defaults(function.__qualname__, inspect.signature(function).parameters)
        return _digest(source)

    def _note(self, name, text):
        """Two functions of one name may read two things of one name."""
        known = self.facts.get(name)
        self.facts[name] = text if known in (None, text) else "%s; %s" % (known, text)

    # ----------------------------------------------------------------------------------- functions

    def _defaults(self, name, parameters):
        for one in parameters.values():
            if one.default is not inspect.Parameter.empty:
                self._note("default of %s(%s)" % (name, one.name), self.of(one.default))

    def kernel(self, fn):
        """What a kernel reads; its own defaults come with the arguments."""
        self._seen[id(fn)] = fn
        self._follow(fn.fn, "", _reads_of(fn.src, True))

    def function(self, fn):
        """What a function that a kernel calls reads, the first time."""
        if id(fn) in self._seen or _is_of_library(fn.fn):
            return
        self._seen[id(fn)] = fn
        is_kernel = type(fn).__name__ != "ConstexprFunction"
        self._follow(fn.fn, fn.__name__ + ": ", _reads_of(fn.src, is_kernel))
        self._defaults(fn.__name__, fn.signature.parameters)

    def _follow(self, function, prefix, reads):
        nonlocals = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                nonlocals[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                pass
        for names in reads:
            for scope in (function.__globals__, nonlocals):
                if names[0] in scope:
                    self._resolve(scope, names, prefix)

    def _resolve(self, scope, names, prefix):
        """Follows attributes through modules, classes and objects to the value that is read."""
        value, depth = scope[names[0]], 1
        while depth < len(names):
            if isinstance(value, types.ModuleType):
                if value.__name__.split(".")[0] in _LIBRARIES:
                    return
                if names[depth] in vars(value):
                    self.watched.append((vars(value), names[depth], vars(value)[names[depth]], ".".join(names[:depth + 1])))
            elif isinstance(value, (JITCallable, tl.constexpr, tl.dtype)) or not (isinstance(value, type) or hasattr(value, "__dict__") or is_named(value)):
                break
            try:
                inner = getattr(value, names[depth])
            except Exception:  # which Triton will report, or some code of a property
                break
            if isinstance(inner, types.MethodType) and inner.__self__ is value:
                break  # the object is what counts
            value, depth = inner, depth + 1
        if isinstance(value, types.ModuleType) or getattr(value, "__triton_builtin__", False):
            return
        if isinstance(value, JITCallable) and _is_of_library(value.fn):
            return
        if isinstance(value, JITCallable):  # Triton's key has the source that it had at first
            self.function(value)
            self._note(prefix + ".".join(names[:depth]), value.cache_key[:16])
        else:
            self._note(prefix + ".".join(names[:depth]), self.of(value))


def text_of(value):
    """A constant as text."""
    texts = _Texts()
    text = texts.of(value)
    return text if not texts.facts else "%s %s" % (text, _digest(repr(sorted(texts.facts.items()))))


def of(fn):
    """Of a @triton.jit function: {name as the source has it: text of its value}, and what it reads of modules, [(dict, name, value, name as the source has it)]."""
    texts = _Texts()
    texts.kernel(fn)
    return texts.facts, texts.watched
