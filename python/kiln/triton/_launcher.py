# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches @triton.jit functions. Launches are distinguished as Triton distinguishes them: its own binder specialises. Launches of compiled kernels run in C
(kiln._core.Variants), since programs wait for them; Python compiles, and launches what is not plain."""
import collections
import functools
import itertools
import operator
import sys

import triton.language as tl
from triton import knobs
from triton.compiler.compiler import LazyDict
from triton.runtime.jit import JITFunction, KernelInterface, create_function_from_signature

from . import _bundles, _compilation, _dependencies, _devices, _index, _monitor, _parallel_compile, _versions
from .._compiler import warn
from .._core import Plan, Variants

variants = {}  # all that were compiled, by function, identity and target; in order


def _argument_on(device, *pairs):
    """Names the first argument that is a tensor there, for a message."""
    for name, value in itertools.chain(*pairs):
        if _devices.device_of((value,)) == device:
            return "argument '%s': " % name
    return ""


class TritonLauncher:
    """What launches a kernel that Triton compiled, with the calls counted; else as it is."""

    def __init__(self, theirs, *facts):
        self._theirs, self._facts = theirs, facts

    def __call__(self, *arguments, **named):
        done = self._theirs(*arguments, **named)
        _monitor.count(*self._facts)
        return done

    def __getattr__(self, name):
        return getattr(self.__dict__["_theirs"], name)


_UNSIGNED = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}  # Triton's types of integers whose values a kernel of Kiln takes as bits


def _plain(kind):
    """Whether a parameter of that type is one of the kernel's, its value passed as it is."""
    return isinstance(kind, str) and kind != "constexpr" and kind not in _UNSIGNED and not kind.startswith("tensordesc")


def _bits_of(kind, value):
    """A number of an unsigned type as the signed one of the same bits."""
    bits, value = _UNSIGNED[kind], operator.index(value)
    if not 0 <= value < 1 << bits:
        raise OverflowError("%d is not a value of Triton's type %s (0 to %d)" % (value, kind, (1 << bits) - 1))
    return value - (value >> (bits - 1) << bits)


def _leaves(kind, value):
    """What a kernel gets for an argument: tuples in their parts, a descriptor as a view followed by its extents and strides, constants not at all."""
    if isinstance(kind, (tuple, list)):
        for one, its in zip(kind, value):
            yield from _leaves(one, its)
    elif kind.startswith("tensordesc"):
        yield _devices.strided(value.base, value.shape, value.strides)
        yield from value.shape
        yield from value.strides
    elif kind in _UNSIGNED:
        yield _bits_of(kind, value)
    elif kind != "constexpr":
        yield value


def _refuse_descriptor(name, kind, value):
    """A descriptor of the host says at its launch what is read outside of it and how elements are rounded; a view of Kiln's has that in its code."""
    if not isinstance(kind, str) or not kind.startswith("tensordesc"):
        return
    if not kind.startswith("tensordesc<"):
        raise TypeError("argument '%s': expected a descriptor of tiles, found one of another kind (%s)" % (name, kind.partition("<")[0]))
    if getattr(value, "padding", "zero") != "zero":
        raise TypeError("argument '%s': expected a descriptor that pads with zero, found padding '%s'" % (name, value.padding))
    if _versions.HERE.descriptor_rounds and getattr(value, "round_f32_to_tf32", False):
        raise TypeError("argument '%s': expected a descriptor that gives elements as they are, found one that rounds f32 to tf32" % name)


def names_of(signature):
    """The parameters that a kernel has arguments for."""
    return [name for name, kind in signature.items() if kind != "constexpr"]


def is_plain(signature):
    return all(_plain(signature[name]) for name in names_of(signature))


def leaves(signature, bound):
    """What the kernel gets for arguments that are not all plain."""
    return [leaf for name in names_of(signature) for leaf in _leaves_of(name, signature[name], bound[name])]


def _leaves_of(name, kind, value):
    _refuse_descriptor(name, kind, value)
    if isinstance(kind, str) and kind.startswith("tensordesc") and not hasattr(value.base, "untyped_storage"):
        return [value.base, *value.shape, *value.strides]  # of a warmup, which has no memory
    return _leaves(kind, value)


class Compiled:
    """One variant of a function on one device: `kernel` is Kiln's. It is launched as Triton's compiled kernels are, by all arguments in order, and has what
    programs read of those."""

    def __init__(self, fn, place, bound, signature, options, constants, code, keys, text, facts):
        """`code` is a _bundles.Code, `keys` are the facts of its key. Code from a bundle has neither IR (`text`) nor facts of its launch."""
        self.fn, self.place, self.signature, self.constants, self.text, self.facts = fn, place, signature, constants, text, facts
        self.name, self.keys = fn.__name__, keys
        self.identity = _compilation.identity(text, facts) if text is not None else _bundles.identity_of(code)
        self.kernel = code.open(place.device)
        self.names = names_of(signature)
        self.is_plain = is_plain(signature)
        self.hash, self.src = self.identity, fn
        self.asm = {"ttir": text} if text is not None else {}
        self._options = options
        self._launch = self.kernel._launch
        self._check(bound)
        row = _monitor.row_of(code.origin, self.name, self.identity, place.target, code.reason, code.seconds)
        self.counter = row.counter()
        self.plan = Plan(self.kernel, self, tuple(map(fn.arg_names.index, self.names)), self.counter) if self.is_plain else None

    def __repr__(self):
        return "<kiln.triton.Compiled %s[%s] for %s>" % (self.name, self.identity, self.place.target)

    def _check(self, bound):
        """The kernel's parameters are those that the arguments make."""
        found = leaves(self.signature, bound)
        if len(found) != len(self.kernel.params):
            raise _compilation.NotCompiled("%s: expected %d parameters of the kernel for the arguments %s, found %s" % (
                self.name, len(found), self.names, [param.name for param in self.kernel.params]))

    def launch(self, bound, grid, stream):
        if self.is_plain:
            self._launch([bound[name] for name in self.names], grid, stream)
        else:
            self._launch(leaves(self.signature, bound), grid, stream)

    @functools.cached_property
    def choice(self):
        """What a launch runs, or None where views would have to be made up."""
        if any(param.rank for param in self.kernel.params):
            return None
        return self.kernel.choose(*[0] * len(self.kernel.params), grid=1)

    @functools.cached_property
    def metadata(self):
        fields = {name: getattr(self._options, name) for name in _compilation.FACTS if hasattr(self._options, name)}
        fields.update(name=self.name, hash=self.hash, target=self.place.read_for, shared=self.choice.shared_bytes if self.choice else 0,
                      tensordesc_meta=None, global_scratch_size=0, profile_scratch_size=0, cluster_dims=(1, 1, 1))
        return collections.namedtuple("KernelMetadata", sorted(fields))(**fields)

    launches = property(lambda self: self.counter.value)
    n_regs = property(lambda self: self.choice.registers if self.choice else 0)
    n_spills = property(lambda self: self.choice.spill_bytes // 4 if self.choice else 0)
    n_max_threads = property(lambda self: 1024)
    function = property(lambda self: self.kernel)
    packed_metadata = property(lambda self: (self.metadata.num_warps, 1, self.metadata.shared))

    def _init_handles(self):
        self.kernel.preload()

    def launch_metadata(self, grid, stream, *values):
        found = LazyDict({"name": self.name, "function": self.kernel, "stream": stream})
        if self.fn.launch_metadata is not None:
            found.add(self.fn.launch_metadata, (grid, self.metadata, dict(zip(self.fn.arg_names, values))))
        return found

    def start(self, bound, grid, stream):
        """A launch with its hooks, counted."""
        enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        metadata = None
        if getattr(enter, "calls", enter) or getattr(leave, "calls", leave):
            metadata = self.launch_metadata(grid, stream, *bound.values())
            if enter:
                enter(metadata)
        self.launch(bound, grid, stream)
        if metadata is not None and leave:
            leave(metadata)
        self.counter.add()

    def run(self, x, y, z, stream, function, packed, metadata, enter, leave, *values):
        """As the launcher of a kernel that Triton compiled."""
        if enter:
            enter(metadata)
        self.launch(dict(zip(self.signature, values)), (x, y, z), stream or None)
        if leave:
            leave(metadata)
        self.counter.add()

    def __getitem__(self, grid):
        def runner(*values, stream=None):
            if len(values) == len(self.names) < len(self.signature):  # without the constants
                bound = dict(zip(self.names, values))
            else:
                bound = dict(zip(self.signature, values))
            self.start(bound, tuple(grid) + (1,) * (3 - len(grid)), stream)
        return runner


_MISSING = object()


def _changed(name, value, found):
    return RuntimeError("%s has changed since we compiled this kernel, from %s to %s" % (name, value, found))


_FIXED = (int, float, str, bool, type(None), tl.constexpr, tl.dtype)  # whose objects do not change, or show that they did


def _exactly(value):
    """What distinguishes constants that compare equal: True, 1 and 1.0 are, and 0.0 is -0.0."""
    kind = value.__class__
    return kind if kind is int or kind is bool or kind is str or value is None else _dependencies.text_of(value)


def _of_tuple(kind, promise):
    """The same of the kinds of a tuple and its constants: named tuples of two classes are equal."""
    if not isinstance(kind, tuple):
        return _exactly(promise) if kind == "constexpr" else None
    return (kind.__class__, *map(_of_tuple, kind, promise or (None,) * len(kind)))


def warn_of(name, options):
    """What is left out of what a launch asks for."""
    if getattr(options, "launch_cooperative_grid", False):
        warn("kernel '%s': launch_cooperative_grid is left out: its programs need not run at the same time" % name)
    if knobs.compilation.instrumentation_mode:
        warn("TRITON_INSTRUMENTATION_MODE=%s is left out: kernels run without it" % knobs.compilation.instrumentation_mode)


def pack(fn, backend, bound, specialization, options, named):
    """(the options, the types, the constants, the promises) of a launch, by Triton's own rules."""
    with _compilation.parsing:
        fn.cache_key  # finds the globals that it uses
    named = dict(named, debug=named.get("debug", fn.debug) or knobs.runtime.debug)
    return fn._pack_args(backend, named, bound, specialization, options)


TRITONS = object()  # among variants: no bundle has it, and miss="triton"
tritons_run = JITFunction.run


class Engine:
    """The variants of one @triton.jit function."""

    def __init__(self, fn):
        if fn.is_gluon():
            raise TypeError("%s: functions of Gluon are not taken" % fn.__name__)
        self.fn = fn
        self.variants = {}
        self._binders, self._source, self._depends = {}, fn.src, None
        self._constants = [param.num for param in fn.params if param.is_constexpr]
        defaults = {param.name: param.default for param in fn.params if param.has_default}
        self.call = Variants(self.run, self._guards, tuple(map(sys.intern, fn.arg_names)), tuple(self._constants), defaults, tl.dtype)

    launches = property(lambda self: self.call.launches)

    def _guards(self, compiled):
        """What a launch of the same kinds need not ask Python for: while each of these dicts has at its key just that object (... : none), and the lists
        are empty. None: it has to ask."""
        fn, runtime = self.fn, knobs.runtime
        found = [vars(fn), "_src", self._source, vars(fn), "hash", fn.hash, vars(fn), "pre_run_hooks", fn.pre_run_hooks, fn.pre_run_hooks, None, None]
        for name in ("debug", "launch_enter_hook", "launch_exit_hook"):
            found += [vars(runtime), name, vars(runtime).get(name, ...)]
        for hook in (runtime.launch_enter_hook, runtime.launch_exit_hook):
            if hook is not None:
                if not isinstance(getattr(hook, "calls", None), list):
                    return None
                found += [hook.calls, None, None]
        for (name, _), (_, where) in fn.used_global_vals.items():
            if type(where.get(name)) not in _FIXED:
                return None
            found += [where, name, where[name]]
            if isinstance(where[name], tl.constexpr):
                found += [vars(where[name]), "value", where[name].value]
        if self._depends.changing:
            return None
        for one in self._depends.watched:
            found += [one.where, one.name, one.value]
        return tuple(found)

    def _begin(self, ahead, place, key, *kinds):
        """Starts a compile next to others, if there is anything to compile."""
        options, signature, constants, attributes = pack(self.fn, place.backend, *kinds)
        source = _compilation.source_of(self.fn, signature, constants, attributes)
        if _bundles.is_closed() or _bundles.find(_index.facts_of(source, options, place.read_for), place.target)[0]:
            return False
        ahead.begin((self, key), lambda: _compilation.triton_ir(source, options, place.read_for), place.target)
        return True

    def _compile(self, ahead, place, key, bound, specialization, options, named, is_warmup):
        """None: a hook takes it upon itself. Triton's: Triton is to launch it."""
        fn = self.fn
        options, signature, constants, attributes = pack(fn, place.backend, bound, specialization, options, named)
        told = (("%s%s" % (specialization, options), [kind for kind, _ in specialization]), signature, place.read_for, place.device, constants, options,
                [attributes], is_warmup)
        if _versions.call_hook(fn, knobs.runtime.jit_cache_hook, *told):
            return None
        warn_of(fn.__name__, options)
        begun = ahead and ahead.take((self, key))
        source = _compilation.source_of(fn, signature, constants, attributes)
        found = _bundles.find_or_compile(source, options, place.read_for, place.target, begun)
        self._depend_on(_dependencies.of(fn))
        if found is None:
            self.variants[key] = TRITONS
            return TRITONS
        code, keys, text, facts = found
        compiled = Compiled(fn, place, bound, signature, options, constants, code, keys, text, facts)
        self.variants[key] = variants[fn.__name__, compiled.identity, place.target, _index.key_of(keys)] = compiled
        _versions.call_hook(fn, knobs.runtime.jit_post_compile_hook, *told)
        return compiled

    def _depend_on(self, depends):
        """What the code of all variants was compiled for: the first of them decides."""
        if self._depends is None:
            self._depends, self._texts = depends, [now() for _, now in depends.changing]

    def _forget_changed_source(self):
        if self.fn._src is not self._source or self.fn.hash is None:
            self.variants.clear()
            self._source, self._depends = self.fn._src, None
            with _compilation.parsing:
                self.fn.cache_key

    def _refuse_changed_globals(self):
        for (name, _), (value, where) in self.fn.used_global_vals.items():
            found = where.get(name, _MISSING)
            if found != value:
                raise _changed("Global variable " + name, *map(_dependencies.shown, (value, found)))
        for where, name, value, shown in self._depends.watched:
            found = where.get(name, _MISSING)
            if found is not value and (found is _MISSING or _dependencies.text_of(found) != _dependencies.text_of(value)):
                raise _changed(shown, _dependencies.shown(value), "nothing" if found is _MISSING else _dependencies.shown(found))
        for (name, now), then in zip(self._depends.changing, self._texts):
            if now() != then:
                raise _changed(name, then, now())

    def run(self, *arguments, grid, warmup=False, stream=None, **named):
        """Triton's way to launch; with `warmup` it only compiles."""
        fn = self.fn
        for hook in fn.pre_run_hooks:
            hook(*arguments, **named)
        device = _devices.device_of(arguments) if not named else _devices.device_of((*arguments, *named.values()))
        try:
            place = _devices.place_of(device)
        except TypeError as error:
            raise TypeError("%s: %s%s" % (fn.__name__, _argument_on(device, zip(fn.arg_names, arguments), named.items()), error)) from None
        binder = self._binders.get(device)
        if binder is None:
            binder = self._binders[device] = create_function_from_signature(fn.signature, fn.params, place.backend)
        bound, specialization, options = binder(*arguments, **named)
        key = (device, *specialization, *[_exactly(specialization[i][1]) for i in self._constants], *[_of_tuple(*one) for one in specialization if one[0].__class__ is not str],
               knobs.runtime.debug, str(sorted(options.items())) if options else None)
        if fn._src is not self._source or fn.hash is None:
            self._forget_changed_source()
        compiled = self.variants.get(key)
        if compiled is None:
            ahead = _parallel_compile.now()
            if ahead and ahead.is_reading and self._begin(ahead, place, key, bound, specialization, options, named):
                return None
            compiled = self._compile(ahead, place, key, bound, specialization, options, named, warmup)
            if compiled is None:
                return None
        if compiled is TRITONS:
            return tritons_run(fn, *arguments, grid=grid, warmup=warmup, **named)
        if fn.used_global_vals or self._depends.watched or self._depends.changing:
            self._refuse_changed_globals()
        if warmup:
            return compiled
        if grid is None:
            raise TypeError("%s: a kernel is launched with a grid: %s[grid](...)" % (fn.__name__, fn.__name__))
        if callable(grid):
            grid = grid(bound)
        compiled.start(bound, grid, stream)
        self.call.count()
        return compiled


class Jit(KernelInterface):
    """A @triton.jit function that Kiln runs: `launches` counts, `variants` are what was compiled. Else it is as the function is."""

    def __init__(self, fn):
        self.fn, self._engine = fn, Engine(fn)
        self.run = self._engine.call
        functools.update_wrapper(self, fn.fn)

    launches = property(lambda self: self._engine.launches)
    variants = property(lambda self: self._engine.variants)

    def __getitem__(self, grid):
        return self.run[grid]

    def __repr__(self):
        return "<kiln.triton.Jit %s(%s)>" % (self.fn.__name__, ", ".join(self.fn.arg_names))

    def __call__(self, *_, **__):
        raise TypeError("%s: a kernel is launched with a grid: %s[grid](...)" % (self.fn.__name__, self.fn.__name__))

    def __getattr__(self, name):
        return getattr(self.__dict__["fn"], name) if "fn" in self.__dict__ else object.__getattribute__(self, name)
