# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kiln's runtime library for Python: opens bundles of compiled kernels and launches them.

    library = kiln.Library("app.kbundle")
    device = library.device("host")
    saxpy = device.kernel("saxpy")
    saxpy(0.5, x, y, len(x))

Pure Python over the C functions of libkiln (CPython 3.8 or newer); it needs no other package. docs/runtime.md tells what may be an argument.
"""
import collections
import ctypes
import functools
import operator
import os
import weakref

from . import _abi, _arguments
from ._abi import Error, LaunchRefused, NoDevice, NotFound, NoVariant, Untrusted

__all__ = ["CHECK_ALL", "EXACT_ONLY", "NO_JIT", "Candidate", "Choice", "Device", "Error", "Kernel", "LaunchRefused", "Library", "Memory", "NoDevice",
           "NotFound", "NoVariant", "Param", "Preflight", "Stream", "Untrusted", "strided", "version"]

EXACT_ONLY, NO_JIT, CHECK_ALL, _NEED_SIGNATURE = 1, 2, 4, 8

Choice = collections.namedtuple("Choice", [name for name, _ in _abi.Choice._fields_])
Candidate = collections.namedtuple("Candidate", [name for name, _ in _abi.Candidate._fields_])
Preflight = collections.namedtuple("Preflight", [name for name, _ in _abi.Preflight._fields_])
Param = collections.namedtuple("Param", "name type offset size rank depth access scalar")


def version(library=None):
    """The version of libkiln, such as "0.1.0"."""
    return _abi.load(library).kiln_version().decode()


def strided(array):
    """An array of any strides for a pointer parameter of a kernel that is told the strides by other arguments; without this only contiguous arrays are
    taken, since the pointer itself says nothing of strides. The pointer is that of the first element."""
    return _arguments.Strided(array)


def _text(what, value):
    """Text for C, which would end at a NUL inside."""
    text = os.fsencode(value) if what == "path" else value.encode() if isinstance(value, str) else None
    if text is None:
        raise TypeError("%s: expected text, found %s" % (what, type(value).__name__))
    if b"\0" in text:
        raise ValueError("%s: a NUL inside %r" % (what, value))
    return text


def _plain(value):
    return value.decode(errors="replace") if isinstance(value, bytes) else tuple(value) if isinstance(value, ctypes.Array) else value


def _tuple(kind, structure):
    return kind(*(_plain(getattr(structure, name)) for name, _ in structure._fields_))


class _Handle:
    """Something of the C library that is closed once: by close(), by the end of `with`, or when nothing refers to it any more. close() ends what
    depends on it; the collector, which ends the objects of a cycle in any order, only gives up what this one holds (_drop)."""

    _handle = None

    def close(self):
        handle, self._handle = self._handle, None
        if handle:
            self._close(handle)

    def _open(self):
        if not self._handle:
            raise ValueError("this %s is closed" % type(self).__name__.lower())
        return self._handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _drop(self, handle):
        self._close(handle)

    def __del__(self):
        handle, self._handle = self._handle, None
        if handle:
            self._drop(handle)

    def __reduce__(self):
        raise TypeError("a %s belongs to its process: open the bundle in the other one" % type(self).__name__.lower())


class _Claims:
    """Counts who needs something of the C library; the last one to leave ends it. References cannot do that: the collector finalises the objects of a
    cycle in any order. Lists, because their append and pop are whole."""

    def __init__(self, end):
        self._left, self._ends = [None], [end]

    def take(self):
        self._left.append(None)

    def drop(self):
        if self._left:
            self._left.pop()
        if not self._left:
            self.end()

    def end(self):
        if self._ends:
            self._ends.pop()()


class _Trust:
    """The verifier of libkiln-verify over files with public keys."""

    def __init__(self, keys, library):
        beside = library and os.path.join(os.path.dirname(os.fspath(library)), "libkiln-verify.so.0")
        self._c = _abi.open_library("libkiln-verify.so.0", beside)
        for name, arguments in (("create", [ctypes.c_void_p]), ("add_file", [ctypes.c_void_p, ctypes.c_char_p])):
            function = getattr(self._c, "kiln_verifier_" + name)
            function.restype, function.argtypes = ctypes.c_int, arguments + [ctypes.c_void_p]
        self._c.kiln_verifier_destroy.restype, self._c.kiln_verifier_destroy.argtypes = None, [ctypes.c_void_p]
        self.callback = ctypes.cast(self._c.kiln_verify_trusted, ctypes.c_void_p)
        self.user = ctypes.c_void_p()
        _abi.call(self._c.kiln_verifier_create, ctypes.byref(self.user))
        for key in keys:
            _abi.call(self._c.kiln_verifier_add_file, self.user, _text("path", key))

    def __del__(self):
        if getattr(self, "user", None):
            self._c.kiln_verifier_destroy(self.user)


class Library(_Handle):
    """Open bundles. Each of `sources` is a path, the bundle's bytes, a file descriptor or an open file; earlier ones win where codes fit equally
    well. `policy` is a sum of EXACT_ONLY, NO_JIT and CHECK_ALL; `trust` lists files with public keys, one of which must have signed each bundle;
    `name` and `min_version` are those that each bundle must state, by its signature where there is `trust` (an older bundle by the same key is refused);
    `log(level, text)` gets warnings; `library` is the path of libkiln where it is neither in this installation nor where the loader looks."""

    def __init__(self, *sources, policy=0, trust=None, name=None, min_version=0, log=None, library=None):
        if not 0 <= operator.index(min_version) < 1 << 64:
            raise ValueError("min_version: expected 0 to 2^64 - 1, found %d" % min_version)
        self._c = _abi.load(library)
        self._devices = weakref.WeakSet()
        self._kept = []  # what the C library borrows until it is closed
        entries = (_abi.Source * max(len(sources), 1))(*map(self._source, sources))
        options = _abi.OpenOptions(size=ctypes.sizeof(_abi.OpenOptions), sources=entries, source_count=len(sources), policy=policy,
                                    name=None if name is None else _text("name", name), min_version=min_version)
        if log is not None:
            options.log = _abi.LogCallback(lambda user, level, text: log(level, text.decode(errors="replace")))
            self._kept.append(options.log)
        if trust is not None:
            verifier = _Trust(trust, library)
            self._kept.append(verifier)
            options.policy |= _NEED_SIGNATURE
            options.verify, options.verify_user = verifier.callback, verifier.user
        out = ctypes.c_void_p()
        _abi.call(self._c.kiln_open, ctypes.byref(options), ctypes.byref(out))
        self._handle = out.value

    def _source(self, source):
        if isinstance(source, (bytes, bytearray, memoryview)):
            copy = bytes(source)
            self._kept.append(copy)
            return _abi.Source(bytes=ctypes.cast(ctypes.c_char_p(copy), ctypes.c_void_p), size=len(copy), fd=-1)
        if hasattr(source, "fileno"):
            source = source.fileno()
        if isinstance(source, int):
            return _abi.Source(fd=source)
        return _abi.Source(path=_text("path", source), fd=-1)

    def _close(self, handle):
        for device in list(self._devices):
            device.close()
        self._c.kiln_close(handle)

    def _drop(self, handle):
        self._c.kiln_close(handle)  # devices that are left keep it, in C

    @property
    def kernels(self):
        """The names of all kernels, in order."""
        count = self._c.kiln_kernel_count(self._open())
        return [self._c.kiln_kernel_name(self._handle, i).decode() for i in range(count)]

    def device(self, name="host"):
        """Opens "host", "host:4", "cuda:0", "hip:0", "null" or "null:sm_90"."""
        return Device(self, name)


class Device(_Handle):
    """One device, seen through one library. Made by Library.device."""

    def __init__(self, library, name):
        self.library, self.name, self._c = library, name, library._c
        self._children = weakref.WeakSet()  # memory and streams, which end before the device
        out = ctypes.c_void_p()
        _abi.call(self._c.kiln_device_open, library._open(), _text("name", name), ctypes.byref(out))
        self._handle = out.value
        self._claims = _Claims(functools.partial(self._c.kiln_device_close, self._handle))  # this object's, and one of each child
        library._devices.add(self)

    def _close(self, handle):
        for child in list(self._children):
            child._end(handle)
        self._claims.end()

    def _drop(self, handle):
        self._handle = handle  # what is left of its children frees memory by it
        self._claims.drop()

    @property
    def target(self):
        """The processor, such as "sm_90" or "x86-64-v3"."""
        return self._c.kiln_device_target_name(self._open()).decode()

    @property
    def description(self):
        """The driver's name of the device."""
        return self._c.kiln_device_description(self._open()).decode()

    def kernel(self, name):
        """The kernel of that name ("softmax[T=f32]"). Raises NotFound, or NoVariant with the report of every candidate."""
        return Kernel(self, name)

    def explain(self, name):
        """Why each code of a kernel fits this device or not; one paragraph, also for kernels that do not exist."""
        return self._report(name, lambda report: self._c.kiln_report_text(report).decode())

    def candidates(self, name):
        """The same as a list of Candidate; `rule` is "" for those that fit."""
        def read(report):
            out = _abi.Candidate()
            found = []
            for i in range(self._c.kiln_report_count(report)):
                self._c.kiln_report_at(report, i, ctypes.byref(out))
                found.append(_tuple(Candidate, out))
            return found
        return self._report(name, read)

    def _report(self, name, read):
        report = ctypes.c_void_p()
        _abi.call(self._c.kiln_explain, self._open(), _text("name", name), ctypes.byref(report))
        try:
            return read(report)
        finally:
            self._c.kiln_report_free(report)

    def preflight(self):
        """How many kernels of the library run here, by the best path of each."""
        out = _abi.Preflight()
        _abi.call(self._c.kiln_device_preflight, self._open(), ctypes.byref(out))
        return _tuple(Preflight, out)

    def memory(self, shape, type="i8"):
        """New memory of the device: `shape` elements (an integer or a tuple) of a type of the kernel language."""
        return Memory(self, (shape,) if isinstance(shape, int) else tuple(shape), type)

    def copy(self, array, type=None):
        """New memory of the device with a copy of a contiguous host array; `type` where its own says less ("bf16" of 16-bit words)."""
        found = _arguments.describe(array)
        if found is None:
            raise TypeError("expected a host array, found %s" % _typename(array))
        names = [name for name, (_, accepted) in _arguments.TYPES.items() if (found.kind, found.bits) in accepted]
        if not names or (type is not None and type not in names):
            raise TypeError("elements of %s%d are %s of the kernel language" % (found.kind, found.bits, "not " + type if type else "no type"))
        exact = {"b": "i1", "bf": "bf16"}.get(found.kind, names[0] if len(names) == 1 or found.kind not in "iu" else "i%d" % found.bits)
        memory = Memory(self, found.shape, type or exact)
        memory.copy_in(array)
        return memory

    def stream(self):
        """A new stream."""
        return Stream(self)

    def sync(self, stream=None):
        """Waits for all work given to the stream; raises the errors of earlier launches."""
        _abi.call(self._c.kiln_sync, self._open(), _arguments.stream_handle(stream))


def _typename(value):
    return type(value).__name__


class Stream(_Handle):
    """A stream of a device; NULL on devices that have none. Made by Device.stream."""

    def __init__(self, device):
        out = ctypes.c_void_p()
        self.device = device
        _abi.call(device._c.kiln_stream_create, device._open(), ctypes.byref(out))
        self.handle, self._handle = out.value, True
        device._claims.take()
        device._children.add(self)

    def sync(self):
        self._open()
        self.device.sync(self)

    def _end(self, device_handle):
        if self._handle:
            self._handle = None
            self.device._c.kiln_stream_destroy(device_handle, self.handle)

    def _close(self, _):
        if self.device._handle:
            self.device._c.kiln_stream_destroy(self.device._handle, self.handle)
            self.device._claims.drop()


class Memory(_Handle):
    """Device memory with a shape and a type. An argument of kernels of its device; on the host and on GPUs other libraries read it in place through
    __array_interface__ and __cuda_array_interface__. Made by Device.memory and Device.copy."""

    def __init__(self, device, shape, type):
        if type not in _arguments.TYPES:
            raise TypeError("'%s' is not a type of the kernel language (%s)" % (type, " ".join(_arguments.TYPES)))
        self.device, self.shape, self.type = device, shape, type
        self.size = _arguments.TYPES[type][0]
        for extent in shape:
            if extent < 0:
                raise ValueError("expected extents of 0 and above, found %r" % (shape,))
            self.size *= extent
        out = ctypes.c_void_p()
        _abi.call(device._c.kiln_alloc, device._open(), max(self.size, 1), ctypes.byref(out))
        self._handle = out.value
        device._claims.take()
        device._children.add(self)

    @property
    def address(self):
        return self._open()

    def _end(self, device_handle):
        if self._handle:
            memory, self._handle = self._handle, None
            self.device._c.kiln_free(device_handle, memory)

    def _close(self, handle):
        if self.device._handle:
            self.device._c.kiln_free(self.device._handle, handle)
            self.device._claims.drop()

    def _kind(self):
        return self.device.name.partition(":")[0]

    def _kiln_array(self):
        bits = 8 * _arguments.TYPES[self.type][0]
        kind = {"f": "f", "i": "b" if self.type == "i1" else "i"}.get(self.type[0], "bf" if self.type == "bf16" else self.type)
        number = self.device.name.partition(":")[2]
        index = int(number) if self._kind() in ("cuda", "hip") and number else None
        return _arguments.Array(self._open(), kind, bits, self.shape, None, self._kind(), index, False, self)

    def _interface(self, *kinds):
        if self._kind() not in kinds:
            raise AttributeError("memory of %s is elsewhere" % self.device.name)
        return {"shape": self.shape, "typestr": _arguments.TYPESTR[self.type], "data": (self._open(), False), "strides": None, "version": 3}

    @property
    def __array_interface__(self):
        return self._interface("host", "null")

    @property
    def __cuda_array_interface__(self):
        return self._interface("cuda", "hip")

    def _host(self, array, writes):
        found = _arguments.describe(array)
        if found is None:
            found = _buffer(array, writes)
        elif found.place not in ("host", "null"):
            raise TypeError("expected an array of the host, found memory of %s" % found.place)
        if writes and found.read_only:
            raise ValueError("the array %s" % found.read_only)
        size = found.bits // 8
        for extent in found.shape:
            size *= extent
        if size != self.size or not found.is_contiguous():
            raise ValueError("expected a contiguous array of %d bytes, found %d bytes%s" % (self.size, size, "" if size != self.size else " with gaps"))
        return found

    def copy_in(self, array):
        """Copies a contiguous host array (or bytes) of the same size into the memory."""
        found = self._host(array, False)
        _abi.call(self.device._c.kiln_copy_in, self.device._open(), self._open(), found.address, self.size)

    def copy_out(self, array):
        """Copies the memory into a contiguous host array (or bytearray) of the same size."""
        found = self._host(array, True)
        _abi.call(self.device._c.kiln_copy_out, self.device._open(), found.address, self._open(), self.size)

    def fill(self, byte):
        _abi.call(self.device._c.kiln_fill, self.device._open(), self._open(), byte, self.size)

    def __bytes__(self):
        out = bytearray(self.size)
        self.copy_out(out)
        return bytes(out)

    def numpy(self):
        """A copy as a NumPy array; bf16 and the 8-bit floats as their bits."""
        import numpy
        out = numpy.empty(self.shape, _arguments.TYPESTR[self.type])
        self.copy_out(out)
        return out


def _buffer(value, writes):
    try:
        view = memoryview(value).cast("B")
    except TypeError:
        raise TypeError("expected a contiguous host array, bytes or bytearray, found %s" % _typename(value)) from None
    if view.readonly and not writes:
        copy = ctypes.create_string_buffer(bytes(view), max(len(view), 1))
        return _arguments.Array(ctypes.addressof(copy), "i", 8, (len(view),), None, "host", None, "is read-only", copy)
    if view.readonly or not len(view):
        return _arguments.Array(0, "i", 8, (len(view),), None, "host", None, "is read-only" if view.readonly else False, view)
    bytes_of = (ctypes.c_char * len(view)).from_buffer(view)
    return _arguments.Array(ctypes.addressof(bytes_of), "i", 8, (len(view),), None, "host", None, False, bytes_of)


class Kernel:
    """One kernel on one device; lives as long as that. Call it with its arguments in order or by name."""

    def __init__(self, device, name):
        self.device, self.name, self._c = device, name, device._c
        out = ctypes.c_void_p()
        _abi.call(self._c.kiln_kernel_get, device._open(), _text("name", name), None, ctypes.byref(out))
        self._kernel = out.value
        self.params = tuple(self._param(i) for i in range(self._c.kiln_param_count(self._kernel)))
        self._packers = tuple(_arguments.pack_view if p.rank else _arguments.pack_pointer if p.depth else _arguments.pack_scalar for p in self.params)
        self._size = self._c.kiln_block_size(self._kernel)

    def __reduce__(self):
        raise TypeError("a kernel belongs to its process: open the bundle in the other one")

    def _param(self, index):
        p = _abi.Param()
        _abi.check(self._c.kiln_param_at(self._kernel, index, ctypes.byref(p)), _abi.CError())
        text = p.type.decode()
        return Param(p.name.decode(), text, p.offset, p.size, p.rank, p.pointer, p.access, text.split()[-1].lstrip("*"))

    def __repr__(self):
        return "<kiln.Kernel %s(%s) on %s>" % (self.name, ", ".join("%s: %s" % (p.name, p.type) for p in self.params), self.device.name)

    @property
    def abi(self):
        """The number of the parameter list; the same as in headers by `kiln header`."""
        self.device._open()
        return self._c.kiln_kernel_abi(self._kernel)

    def _ordered(self, arguments, named):
        if len(arguments) > len(self.params):
            raise TypeError("%s: expected %d arguments, found %d" % (self.name, len(self.params), len(arguments)))
        values = list(arguments)
        for param in self.params[len(arguments):]:
            if param.name not in named:
                raise TypeError("%s: argument '%s' (%s) is missing" % (self.name, param.name, param.type))
            values.append(named.pop(param.name))
        for name in named:
            known = any(param.name == name for param in self.params)
            raise TypeError("%s: %s" % (self.name, "argument '%s' is given twice" % name if known else "there is no parameter '%s'" % name))
        return values

    def _pack(self, arguments, named, stream):
        """The packed block, and what must live until the launch has been made."""
        self.device._open()
        block, kept = bytearray(self._size), []
        for param, packer, value in zip(self.params, self._packers, self._ordered(arguments, named)):
            try:
                data, array = packer(param, value, self.device.name, stream, self.device.sync)
            except (TypeError, ValueError, OverflowError, BufferError) as failure:
                raise type(failure)("%s: argument '%s' (%s): %s" % (self.name, param.name, param.type, failure)) from None
            block[param.offset:param.offset + param.size] = data
            kept.append(array)
        return bytes(block), kept

    def __call__(self, *arguments, stream=None, grid=None, **named):
        """Launches. `grid` replaces the kernel's own and is needed by kernels that state none (Triton IR). On a GPU it returns at once: arrays must
        live until the stream has passed the launch."""
        stream = _arguments.stream_handle(stream)
        block, kept = self._pack(arguments, named, stream)
        if grid is None:
            _abi.call(self._c.kiln_launch_packed, self._kernel, stream, block, len(block))
        else:
            grid = (grid,) if isinstance(grid, int) else tuple(grid)
            if not 1 <= len(grid) <= 3 or any(not isinstance(n, int) or not 0 <= n < 1 << 32 for n in grid):
                raise ValueError("%s: grid: expected one to three integers of 0 to 4294967295, found %r" % (self.name, grid))
            counts = (ctypes.c_uint32 * 3)(*(grid + (1, 1))[:3])
            _abi.call(self._c.kiln_launch_grid, self._kernel, stream, counts, block, len(block))
        del kept

    def choose(self, *arguments, **named):
        """What a launch with these arguments would run, as a Choice."""
        block, kept = self._pack(arguments, named, None)
        out = _abi.Choice()
        _abi.call(self._c.kiln_choose, self._kernel, block, len(block), ctypes.byref(out))
        del kept
        return _tuple(Choice, out)

    def preload(self):
        """Loads every code that the device could launch: needed before a graph is captured."""
        self.device._open()
        _abi.call(self._c.kiln_preload, self._kernel)
