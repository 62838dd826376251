# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Helion is to a bundle. For each kind of arguments Helion traces its kernel, takes a config (of a table of its ahead-of-time tuner, of its cache, or of a
search) and writes a module in Triton, before anything is launched: tenths of a second and more. A bundle takes the modules along, each under what it was written
for, and a process that starts from it runs them: nothing is traced, tuned or written.

What a module was written for is the kernel, with all that its function refers to, the versions, and Helion's own key of the arguments: types, what it
specializes on, the row of the table. Guards that tracing found (equal sizes, a number) go along as pickles and are asked again. Where they cannot, as of the
alignment for a descriptor, a module is for every fact of its arguments. Who loads a bundle runs what is in it."""
import ast
import base64
import builtins
import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import pickle
import sys
import types
import zlib

import torch
import triton

from . import _bundles, _index
from .._compiler import warn

LARGEST = 12 << 20  # of all notes; a bundle has at most 16 MiB
KNOWN = {"torch", "triton", "helion", "math"}  # packages whose versions, or Python's, are in the key: what is in their modules is not looked at
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)

_written = {}  # key and digest of the guards: (name of the kernel, guards, the module) of what this process wrote


class _Unknown(Exception):
    """A kernel refers to something of which nobody can say whether it is the same in another process."""


# ------------------------------------------------------------------------------------------- what a module was written for

def _codes(code):
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _facts_of_function(function, seen):
    """Its source, and the value of each name in it."""
    function = inspect.unwrap(function)
    if function in seen:
        return function.__qualname__
    seen.add(function)
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    there = {**{name: function.__globals__[name] for name in names if name in function.__globals__}, **{name: cell.cell_contents for name, cell in cells}}
    try:
        return inspect.getsource(function), function.__defaults__ and repr(function.__defaults__), [(name, _fact(value, names, seen)) for name, value in sorted(there.items())]
    except (OSError, TypeError):
        raise _Unknown(function.__qualname__) from None


def _fact(value, names, seen):
    """Of the value of a global or captured name; `names` are all that the function mentions, among them those that it asks a module for."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [_fact(one, names, seen) for one in value]
    if isinstance(value, types.ModuleType):
        if value.__name__.partition(".")[0] in KNOWN:
            return value.__name__
        return value.__name__, [(name, _fact(getattr(value, name), names, seen)) for name in sorted(names) if hasattr(value, name)]
    if getattr(value, "__module__", "").partition(".")[0] in KNOWN | {"builtins"} and hasattr(value, "__qualname__"):
        return "%s.%s" % (value.__module__, value.__qualname__)
    inner = getattr(value, "fn", value)  # of a kernel of Helion's or Triton's
    if isinstance(inner, types.FunctionType):
        return _facts_of_function(inner, seen)
    if value in vars(builtins).values():
        return value.__name__
    raise _Unknown(type(value).__qualname__)


def _table(kernel):
    """The path of the table that Helion's ahead-of-time tuner made for the kernel, or None."""
    load = getattr(kernel._key_fn, "_load_key_function", None)
    if load is None or load() is None:
        return None
    from helion.autotuner.aot_cache import find_heuristic_file
    return find_heuristic_file(kernel._key_fn.kernel_source_file, kernel_name=kernel._key_fn.kernel_name)


def _rows(kernel):
    """The configs of its table, in order; Helion's key of arguments ends with the number of one."""
    table = _table(kernel)
    tree = ast.parse(table.read_text()) if table else ast.Module([], [])
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "autotune_" + kernel.name]
    lists = [one.value for function in functions for one in function.body if isinstance(one, ast.Assign) and isinstance(one.value, ast.List)]
    return ast.literal_eval(lists[0]) if lists else []


@functools.lru_cache(None)
def _version():
    """Helion's; a digest of its sources where it comes without one, as from a checkout."""
    try:
        return importlib.metadata.version("helion")
    except importlib.metadata.PackageNotFoundError:
        folder = pathlib.Path(sys.modules["helion"].__file__).parent
        return hashlib.sha256(repr([(str(path.relative_to(folder)), path.read_bytes()) for path in sorted(folder.rglob("*.py"))]).encode()).hexdigest()


def _identity(kernel):
    """None where it refers to something unknown."""
    known = kernel.__dict__.get("_kiln_identity", "")
    if known == "":
        try:
            settings = sorted((name, repr(value)) for name, value in kernel.settings.to_dict().items() if not name.startswith("autotune"))  # how a config is searched
            table = _table(kernel)
            known = repr((kernel.name, _version(), table and hashlib.sha256(table.read_bytes()).hexdigest(), torch.__version__, triton.__version__, list(map(repr, kernel.configs)),
                          [one for one in settings if " at 0x" not in one[1]], _facts_of_function(kernel.fn, set())))
        except _Unknown:
            known = None
        kernel.__dict__["_kiln_identity"] = known
    return known


def _every_fact(arguments):
    """What no guard of Helion's can tell apart any further; None where there are arguments of which that is not known."""
    found = []
    for one in arguments:
        if type(one) in (torch.Tensor, torch.nn.Parameter):
            found.append((one.dtype, tuple(one.shape), one.stride(), str(one.device), getattr(one, "_dynamo_static_indices", None), one.data_ptr() % 16, one.storage_offset()))
        elif isinstance(one, PLAIN):
            found.append((type(one), one))
        else:
            return None
    return tuple(found)


def _digest(*facts):
    text = repr(facts)
    return None if " at 0x" in text else hashlib.sha256(text.encode()).hexdigest()[:32]


def _key(kernel, arguments, every_fact, **row):
    """`every_fact` is None for a module that fits all arguments of Helion's key. `custom_key` may be another row of the table."""
    identity = _identity(kernel)
    return identity and _digest(identity, kernel._base_specialization_key(arguments, **row), every_fact)


# ------------------------------------------------------------------------------------------- saving

def _packed(data):
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpacked(text):
    return zlib.decompress(base64.b64decode(text))


def _guards(bound, arguments):
    """Helion's guards with what they say of these arguments, as bytes; None where they are functions that no other process can have."""
    guards = [*(bound.kernel._specialize_extra.get(bound._base_spec_key) or ()), *bound._compiler_seed_specialization_extractors]
    try:
        return pickle.dumps((guards, [guard(arguments) for guard in guards])) if guards else b""
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _tells_enough(bound):
    """Whether a bound kernel says what its module was written for; before Helion 1.5 it does not."""
    return hasattr(bound.env, "runtime_input_specializations") and all(hasattr(bound, name) for name in ("_base_spec_key", "_compiler_seed_specialization_extractors"))


def _note(bound, arguments):
    kernel = bound.kernel
    if not _tells_enough(bound):
        if os.environ.get("KILN_TRITON_SAVE"):
            warn("Helion %s: what it writes goes into no bundle, expected Helion 1.5 or newer" % _version())
        return
    if kernel.settings.backend != "triton" or bound.env.runtime_input_specializations:  # which depend on what tensors hold
        return
    guards = _guards(bound, arguments)
    every_fact = _every_fact(arguments) if guards is None else None
    key = None if guards is None and every_fact is None else _key(kernel, arguments, every_fact)
    _keep(bound, bound._config, key, guards or b"")
    if guards is not None and os.environ.get("KILN_TRITON_SAVE"):
        _note_other_rows(bound, arguments, guards)


def _keep(bound, config, key, guards):
    path = bound.get_cached_path(config)
    if key and path:
        with open(path) as file:
            _written["%s.%s" % (key, hashlib.sha256(guards).hexdigest()[:16])] = bound.kernel.name, guards, file.read()


class _Warmed:
    """A @triton.jit function of which a launch compiles only."""

    def __init__(self, function):
        self._function = function

    def __getattr__(self, name):
        return getattr(self._function, name)

    def run(self, *arguments, **named):
        return self._function.run(*arguments, **{**named, "warmup": True})


def _note_other_rows(bound, arguments, guards):
    """For other sizes the table may say another row: a bundle has code for all of them."""
    from helion import Config
    from helion.runtime import default_launcher
    kernel, rows = bound.kernel, _rows(bound.kernel)
    for number, row in enumerate(rows):
        config = Config(**row)
        if config == bound._config:
            continue
        try:
            bound.compile_config(config, allow_print=False)(*arguments, _launcher=lambda function, *others, **named: default_launcher(_Warmed(function), *others, **named))
        except Exception as error:  # Helion passes such a config over, too
            print("kiln: row %d of the table of '%s' is left out: %s" % (number, kernel.name, error), file=sys.stderr)
            continue
        _keep(bound, config, _key(kernel, arguments, None, custom_key=number), guards)


def notes():
    """{key of a note: its text} of what this process wrote."""
    found = {_index.HELION + key: json.dumps({"kernel": name, "guards": _packed(guards), "module": _packed(module.encode())}, sort_keys=True)
             for key, (name, guards, module) in sorted(_written.items())}
    return found if sum(map(len, found.values())) <= LARGEST else {}


# ------------------------------------------------------------------------------------------- running

def _find(kernel, arguments, every_fact):
    from torch._inductor.codecache import PyCodeCache
    for facts in (None, every_fact):
        key = _key(kernel, arguments, facts)
        for note in map(json.loads, _bundles.modules_of_helion(key) if key else ()):
            guards = _unpacked(note["guards"])
            wanted, found = pickle.loads(guards) if guards else ((), [])
            if [guard(arguments) for guard in wanted] == found:
                return getattr(PyCodeCache.load(_unpacked(note["module"]).decode()), kernel.name)
    return None


def _function(kernel, arguments):
    """The host function of the module that a bundle has for these arguments, or None."""
    if torch.compiler.is_compiling() or kernel.settings.backend != "triton":
        return None
    every_fact = _every_fact(arguments)
    if every_fact is None:
        return None
    of_bundles, known = kernel.__dict__.get("_kiln_found", (None, None))
    if of_bundles != _bundles.paths():
        known = {}
        kernel.__dict__["_kiln_found"] = _bundles.paths(), known
    if every_fact not in known:
        known[every_fact] = _find(kernel, arguments, every_fact)
    return known[every_fact]


def take(module, replace):
    theirs_call, theirs_ensure = module.Kernel.__call__, module.BoundKernel.ensure_config_exists

    def call(self, *arguments, **named):
        if not _bundles.has_modules_of_helion():
            return theirs_call(self, *arguments, **named)
        if named or len(arguments) < self._num_params:
            arguments, named = self.normalize_args(*arguments, **named), {}
        function = _function(self, arguments)
        return theirs_call(self, *arguments) if function is None else function(*arguments)

    def ensure_config_exists(self, arguments):
        theirs_ensure(self, arguments)
        _note(self, arguments)
    replace(module.Kernel, "__call__", call)
    replace(module.BoundKernel, "ensure_config_exists", ensure_config_exists)
