# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a kernel's Triton IR depends on beside its source: the values of the names that its source reads, and those that the functions it calls read. Triton's key of a
function has its constexpr globals and no more: no type by another name, no constant of another module, no default of a helper, nothing that a
@triton.constexpr_function reads. A key of a bundle has all of them, each as a fact with a name (docs/python.md). A value that cannot be written as a fact, and what a
function does of which its source does not say what it reads, is `unclear`: no bundle has such a kernel."""
import builtins
import copyreg
import dataclasses
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import types
import typing

from triton import language as tl
from triton.runtime.jit import JITCallable

from . import _reads

_LIBRARIES = ("triton", "torch", "numpy", "builtins", "kiln")  # whose functions and classes are what their names say
_OF_THE_MACHINE = ("torch.cuda", "torch.backends", "torch.random", "torch.xpu", "torch.accelerator", "torch.utils.cpp_extension", "numpy.random")  # but not these
# Modules of Python's whose functions give the same everywhere. All others may ask for files, the time, the machine.
_PURE = frozenset("math cmath operator _operator functools _functools itertools collections _collections _collections_abc collections.abc enum dataclasses typing types re string "
                  "numbers fractions decimal _decimal statistics bisect _bisect heapq _heapq struct _struct copy copyreg abc _abc textwrap contextlib warnings _warnings logging json "
                  "hashlib _hashlib binascii base64 zlib keyword array posixpath reprlib threading _thread __future__ ast".split())
_IMPURE = frozenset(("builtins.globals", "builtins.eval", "builtins.exec", "builtins.__import__", "builtins.open", "_io.open", "io.open", "builtins.input", "builtins.breakpoint", "_thread.get_ident", "threading.current_thread",
                     "posixpath.abspath", "posixpath.expanduser", "posixpath.expandvars", "posixpath.realpath", "posixpath.relpath", "posixpath.ismount", "posixpath.lexists"))
_STANDARD = getattr(sys, "stdlib_module_names", frozenset())
_PLAIN = (str, bytes, bool, int, float, complex, type(None), type(...), type(NotImplemented))
_NOT_OF_A_CLASS = {"__module__", "__dict__", "__weakref__", "__annotations__", "__qualname__", "__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__",
                   "__annotations_cache__", "__parameters__", "__orig_bases__", "__dataclass_fields__", "__abstractmethods__", "_abc_impl"}
_CONTAINERS = (dict, set, frozenset, tuple, list, str, int, float, complex, bytes, bytearray)
_LONGEST = 300  # of a fact. What is longer is a digest


def _digest(text):
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _shortened(text):
    return text if len(text) <= _LONGEST else "%d characters with the digest %s" % (len(text), _digest(text))


# --------------------------------------------------------------------------------------- libraries

@functools.lru_cache(None)
def _is_standard(name):
    """Whether a module is Python's own: a program may have a `test` or `code` of its own."""
    if name.partition(".")[0] not in _STANDARD:
        return False
    file = getattr(sys.modules.get(name) or sys.modules.get(name.partition(".")[0]), "__file__", None)
    folder = os.path.dirname(os.__file__)
    return file is None or (os.path.abspath(file).startswith(folder + os.sep) and "site-packages" not in file and "dist-packages" not in file)


def _module_of(value):
    """The name of the module whose code that is. A wrapper has the name of what it wraps, but not its code."""
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__") or ""
    found = getattr(value, "__module__", None)
    return found if isinstance(found, str) else getattr(getattr(value, "__objclass__", None), "__module__", None) or ""


def _is_library(module):
    return module.partition(".")[0] in _LIBRARIES or bool(module) and _is_standard(module)


def _is_of_library(value):
    return _is_library(_module_of(value))


def _is_pure(module, name=""):
    """Whether what a library's module has gives the same in every process."""
    if "%s.%s" % (module, name) in _IMPURE:
        return False
    if module.partition(".")[0] in _LIBRARIES:
        return not any((module + "." + name + ".").startswith(one + ".") for one in _OF_THE_MACHINE)
    return module in _PURE


def is_named(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _state_of(value):
    """{attribute: value} of an object of a program's class."""
    slots = [vars(kind)["__slots__"] for kind in type(value).__mro__ if "__slots__" in vars(kind)]
    found = {}
    for name in (name for one in slots for name in ((one,) if isinstance(one, str) else one)):
        for kind in type(value).__mro__:  # a private name has the name of its class before it
            for full in (name, "_%s%s" % (kind.__name__.lstrip("_"), name)):
                if isinstance(vars(kind).get(full), types.MemberDescriptorType) and hasattr(value, full):
                    found[full] = getattr(value, full)
    return {**found, **getattr(value, "__dict__", {})}


# ------------------------------------------------------------------------------------------ values

def _cells_of(function):
    """{name: value} of the variables of functions around it that it reads."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            pass
    return found


class Watched(typing.NamedTuple):
    """A name whose object a launch of the same kinds expects to be the same."""
    where: dict
    name: str
    value: object
    shown: str


class Dependencies(typing.NamedTuple):
    facts: dict  # {name as the source has it: text of its value}
    watched: list
    changing: list  # (a name, a function that gives the text of its value): what may change in place, as a list may
    unclear: list  # sentences; where there are any, no key says all


class _Texts:
    """Values as text: what is equal but not the same has another one. `facts`: what functions in them read."""

    def __init__(self):
        self.facts, self.watched, self.changing, self.unclear = {}, [], [], {}
        self._done, self._open, self._is_mutable, self._reader = {}, {}, False, ""

    def _unclear(self, what):
        self.unclear[self._reader + what] = None
        return "unclear"

    def of(self, value):
        kind = value.__class__
        if kind in _PLAIN:
            return repr(value)
        if isinstance(value, tl.dtype):
            return str(value)
        if isinstance(value, tl.constexpr):
            return "constexpr(%s)" % self.of(value.value)
        if isinstance(value, types.ModuleType):
            return "module " + value.__name__ if _is_pure(value.__name__) else self._unclear("uses the module %s as a value" % value.__name__)
        if id(value) in self._open:
            return "the object %d levels up" % (len(self._open) - self._open[id(value)])
        known = self._done.get(id(value))
        if known is None:
            outer, self._is_mutable = self._is_mutable, False
            self._open[id(value)] = len(self._open)
            try:
                text = self._compound(value)
            finally:
                del self._open[id(value)]
            known = self._done[id(value)] = value, text, self._is_mutable  # which keeps it, and so its id
            self._is_mutable = outer
        self._is_mutable |= known[2]
        return known[1]

    def _items(self, pairs):
        return ", ".join("%s: %s" % (self.of(key), self.of(one)) for key, one in pairs)

    def _compound(self, value):
        kind = type(value)
        if isinstance(value, JITCallable):
            self.function(value)
            return "%s %s" % (value.__name__, value.cache_key)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, enum.Enum):
            return "%s.%s" % (self.of(kind), value.name if value.name in kind.__members__ else self.of(value.value))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, functools._lru_cache_wrapper):
            return self.of(value.__wrapped__)
        if isinstance(value, (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)):
            return self._method(value)
        if isinstance(value, (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)):
            return self._named(value)
        if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return "slot " + value.__name__
        if isinstance(value, property):
            return "property(%s)" % self.of(value.fget)
        if isinstance(value, (staticmethod, classmethod)):
            return "%s(%s)" % (kind.__name__, self.of(value.__func__))
        if isinstance(value, functools.cached_property):
            return "cached(%s)" % self.of(value.func)
        if kind in (tuple, frozenset):
            return self._contents(value)
        if is_named(value):
            return "%s(%s)" % (kind.__qualname__, ", ".join("%s=%s" % (name, self.of(one)) for name, one in zip(value._fields, value)))
        self._is_mutable = True
        if value is sys.modules or (isinstance(value, dict) and "__spec__" in value and "__name__" in value):
            return self._unclear("reads sys.modules" if value is sys.modules else "reads all of the module %s" % value["__name__"])
        if isinstance(value, type(os.environ)):
            return self._unclear("reads os.environ as a whole")
        if isinstance(value, types.MappingProxyType):
            return "proxy" + self._contents(dict(value))
        if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
            content = self.of(value.tolist()) if value.dtype.hasobject else _digest(value.tobytes().hex())
            return "%s%s %s" % (value.dtype, list(value.shape), content)
        if hasattr(kind, "__next__"):
            return self._unclear("reads an iterator (%s)" % kind.__qualname__)
        return self._contents(value) if kind in (list, set, dict, bytearray) else self._object(value)

    def _contents(self, value):
        """Of a container, or an object of a class derived from one."""
        if isinstance(value, dict):
            return "{%s}" % self._items(dict.items(value))
        if isinstance(value, (set, frozenset)):
            return "%s(%s)" % ("set" if isinstance(value, set) else "frozenset", ", ".join(sorted(map(self.of, value))))
        if isinstance(value, (tuple, list)):
            return ("(%s)" if isinstance(value, tuple) else "[%s]") % ", ".join(map(self.of, (tuple if isinstance(value, tuple) else list).__iter__(value)))
        base = next(one for one in (str, int, float, complex, bytes, bytearray) if isinstance(value, one))
        return base.__repr__(value)

    def _object(self, value):
        """By what it is made of again with: objects of libraries say that to pickle, those of a program have attributes and perhaps what is in a container."""
        kind = type(value)
        library = next(one for one in kind.__mro__ if _is_of_library(one))
        parts = [self._contents(value)] if isinstance(value, _CONTAINERS) else []
        if library is kind or library not in (object, *_CONTAINERS) and (library.__reduce__ is not object.__reduce__ or library.__reduce_ex__ is not object.__reduce_ex__):
            parts.append(self._reduced(value, library))
        if library is not kind:
            parts += ["%s=%s" % (name, self.of(one)) for name, one in sorted(_state_of(value).items())]
        return "%s(%s)" % (self.of(kind) if library is not kind else kind.__qualname__, ", ".join(parts))

    def _part(self, value):
        return value.__qualname__ if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and _is_of_library(value) else self.of(value)

    def _reduced(self, value, library):
        kind = type(value)
        if kind.__qualname__ in ("lock", "RLock"):
            return ""
        try:
            if kind in copyreg.dispatch_table:
                found = copyreg.dispatch_table[kind](value)
            elif library is kind or library.__reduce_ex__ is not object.__reduce_ex__:
                found = library.__reduce_ex__(value, 4)
            else:
                found = library.__reduce__(value)
            if isinstance(found, str):
                return found
            make, arguments, state, items, pairs = (*found, None, None, None)[:5]
            inner = [self._part(part) for part in (*arguments, state) if part is not kind]
            return ", ".join([getattr(make, "__qualname__", "made"), *inner, *map(self.of, items or ()), self._items(pairs or ())])
        except Exception:  # of which pickle says that it cannot, each in its way
            return self._unclear("reads an object of which nothing says what is in it (%s.%s)" % (kind.__module__, kind.__qualname__))

    def _named(self, value):
        """A function or class of a library."""
        module, name = _module_of(value), getattr(value, "__qualname__", type(value).__qualname__)
        return name if _is_pure(module, name) else self._unclear("uses %s.%s, which may give another result in another process" % (module, name))

    def _method(self, value):
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            return self._named(value)
        return "%s of %s" % (self.of(value.__func__) if isinstance(value, types.MethodType) else value.__name__, self.of(owner))

    def _members(self, kind):
        """What an enumeration has beside its methods."""
        for name, one in kind.__members__.items():
            state = {key: part for key, part in vars(one).items() if key not in ("_value_", "_name_", "__objclass__", "_sort_order_")}
            yield "member %s=%s" % (name, self.of(one.value) + ("" if not state else " {%s}" % self._items(sorted(state.items()))))

    def _class(self, kind):
        if _is_of_library(kind):
            return self._named(kind)
        inner = [self.of(base) for base in kind.__bases__ if base is not object]
        if not _is_of_library(type(kind)):
            inner.append("metaclass " + self.of(type(kind)))
        is_enum = issubclass(kind, enum.Enum)
        inner += self._members(kind) if is_enum else ()
        for name, value in sorted(vars(kind).items()):
            if name in _NOT_OF_A_CLASS or name == "__doc__" and value is None:
                continue
            if is_enum and (name in kind.__members__ or name == "__new__" or name[0] == name[-1] == "_" and name[1] != "_"):  # what every enumeration gets
                continue
            inner.append("%s=%s" % (name, self.of(value)))
        for name, field in vars(kind).get("__dataclass_fields__", {}).items():
            inner.append("field %s=%s, %s" % (name, *("none" if one is dataclasses.MISSING else self.of(one) for one in (field.default, field.default_factory))))
        return "%s %s" % (kind.__qualname__, _digest("\n".join(inner)))

    def _function(self, function):
        """A digest of a Python function's source. What it reads becomes facts."""
        if _is_of_library(function):
            return "%s(%s)" % (self._named(function), ", ".join(map(self.of, _cells_of(function).values())))
        text, reads = _reads.of_code(function.__code__)
        outer, self._reader = self._reader, function.__qualname__ + " "
        self._follow(function, function.__qualname__ + ": ", reads, True)
        self._defaults(function.__qualname__, inspect.signature(function, follow_wrapped=False).parameters)
        text = "%s %s" % (function.__qualname__, _digest("%s\n%s" % (text, self._items(sorted(vars(function).items())))))
        self._reader = outer
        return text

    def _note(self, name, text):
        """Two functions of one name may read two things of one name."""
        known, text = self.facts.get(name), _shortened(text)
        self.facts[name] = text if known in (None, text) else "%s; %s" % (known, text)

    # ----------------------------------------------------------------------------------- functions

    def _defaults(self, name, parameters):
        for one in parameters.values():
            if one.default is not inspect.Parameter.empty:
                self._value("default of %s(%s)" % (name, one.name), one.default)

    def kernel(self, fn):
        """What a kernel reads; its own defaults come with the arguments."""
        self._done[id(fn)] = fn, fn.__name__, False
        self._reader = fn.__name__ + " "
        self._follow(fn.fn, "", _reads.of_kernel(fn.src), False)

    def function(self, fn):
        """What a function that a kernel calls reads, the first time."""
        if _is_of_library(fn.fn) or id(fn) in self._done:
            return
        self._done[id(fn)] = fn, "%s %s" % (fn.__name__, fn.cache_key), False
        if type(fn).__name__ == "ConstexprFunction":
            self._note("the Python of " + fn.__name__, self.of(fn.fn))
            return
        outer, self._reader = self._reader, fn.__name__ + " "
        self._follow(fn.fn, fn.__name__ + ": ", _reads.of_kernel(fn.src), False)
        self._defaults(fn.__name__, fn.signature.parameters)
        self._reader = outer

    def _follow(self, function, prefix, reads, is_python):
        nonlocals = _cells_of(function)
        for what in reads.unclear:
            self._unclear(what)
        imported = {name: self._imported(function, prefix, name, statements) for name, statements in reads.imports.items()}
        for names in reads.names:
            scopes = imported.get(names[0], []) + [one for one in (function.__globals__, nonlocals) if names[0] in one]
            for scope in scopes or ([vars(builtins)] if is_python and names[0] in vars(builtins) else []):
                self._resolve(scope, names, prefix, is_python, scope is function.__globals__)

    def _imported(self, function, prefix, local, statements):
        """[{local name: what it is}] of imports in a function. It runs them, as the function does."""
        found = []
        for one in statements:
            shown = "." * one.level + one.module + (" " + one.attribute if one.attribute else "")
            try:
                name = importlib.util.resolve_name("." * one.level + one.module, function.__globals__.get("__package__")) if one.level else one.module
                value = importlib.import_module(name)
                if one.attribute and not hasattr(value, one.attribute):
                    importlib.import_module(name + "." + one.attribute)
                found.append({local: getattr(value, one.attribute) if one.attribute else value})
            except ImportError:
                self._note(prefix + "import of " + shown, "none")
            except Exception as error:
                self._unclear("imports %s, which fails: %s" % (shown, error))
        return found

    def _resolve(self, scope, names, prefix, is_python, is_watched):
        """Follows attributes through modules, classes and objects to the value that is read."""
        value, depth = scope[names[0]], 1
        if is_python and is_watched and not callable(value) and not isinstance(value, types.ModuleType):
            self.watched.append(Watched(scope, names[0], value, names[0]))
        while depth < len(names) and isinstance(names[depth], str):
            shown = _reads.shown(names[:depth + 1])
            if isinstance(value, types.ModuleType):
                if not is_python and value.__name__.split(".")[0] in (*_LIBRARIES, "math"):
                    return
                if names[depth] in vars(value):
                    self.watched.append(Watched(vars(value), names[depth], vars(value)[names[depth]], shown))
                elif not hasattr(value, names[depth]):
                    self._note(prefix + shown, "none")
                    return
            elif isinstance(value, JITCallable) and is_python and names[depth] in vars(value):
                self.of(value)
            elif isinstance(value, (JITCallable, tl.constexpr, tl.dtype)) or not (isinstance(value, type) or hasattr(value, "__dict__") or is_named(value)):
                break
            try:
                inner = getattr(value, names[depth])
            except Exception:  # which Triton will report, or some code of a property
                break
            if getattr(inner, "__self__", None) is value and not isinstance(value, types.ModuleType):
                break  # a method: the object is what counts
            value, depth = inner, depth + 1
        self._end(value, names, depth, prefix, is_python)

    def _end(self, value, names, depth, prefix, is_python):
        shown, rest = prefix + _reads.shown(names[:depth]), names[depth:]
        key = rest[-1].text if rest and isinstance(rest[-1], _reads.Key) else None
        if key is not None and (value is os.getenv or isinstance(value, type(os.environ)) and rest[:-1] in ((), ("get",), ("__getitem__",), ("__contains__",))):
            self._note("environment " + key, _variable(key))
            self.changing.append(("environment " + key, functools.partial(_variable, key)))
        elif isinstance(value, types.ModuleType):
            self.of(value)
        elif getattr(value, "__triton_builtin__", False) or isinstance(value, JITCallable) and _is_of_library(value.fn):
            return
        elif isinstance(value, JITCallable):  # Triton's key has the source that it had at first
            self.function(value)
            self._note(shown, value.cache_key[:16])
        else:
            self._value(shown, value)

    def _value(self, name, value):
        outer, self._is_mutable = self._is_mutable, False
        self._note(name, self.of(value))
        if self._is_mutable:
            self.changing.append((name, functools.partial(text_of, value)))
        self._is_mutable = outer


def _variable(name):
    """A variable of the environment may be a secret."""
    value = os.environ.get(name)
    return "none" if value is None else "a text with the digest " + _digest(value)


def shown(value):
    """As Python shows it, for a message: unless that has the environment in it."""
    return "os.environ" if isinstance(value, type(os.environ)) else str(value)


def described(value):
    """(a constant as text, [what is unclear in it])."""
    texts = _Texts()
    text = texts.of(value)
    return _shortened(text if not texts.facts else "%s %s" % (text, _digest(repr(sorted(texts.facts.items()))))), list(texts.unclear)


def text_of(value):
    """A constant as text."""
    return described(value)[0]


def of(fn) -> Dependencies:
    """Of a @triton.jit function."""
    texts = _Texts()
    texts.kernel(fn)
    return Dependencies(texts.facts, texts.watched, texts.changing, list(texts.unclear))
