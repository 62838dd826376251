# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python values as kernel arguments: what an array is (DLPack and the array interfaces), whether it fits a parameter, and its bytes."""
import ctypes
import operator
import re
import struct
import sys

# Type of the kernel language: bytes, and what counts as it: (kind, bits) with the kinds of the array interfaces; f8 formats are only known to DLPack.
TYPES = {
    "i1": (1, {("b", 8), ("u", 8), ("i", 8)}), "i8": (1, {("i", 8), ("u", 8)}), "i16": (2, {("i", 16), ("u", 16)}),
    "i32": (4, {("i", 32), ("u", 32)}), "i64": (8, {("i", 64), ("u", 64)}), "f16": (2, {("f", 16)}), "f32": (4, {("f", 32)}),
    "f64": (8, {("f", 64)}), "bf16": (2, {("bf", 16), ("V", 16), ("u", 16), ("i", 16)}),
    "e4m3": (1, {("e4m3", 8), ("V", 8), ("u", 8), ("i", 8)}), "e5m2": (1, {("e5m2", 8), ("V", 8), ("u", 8), ("i", 8)}),
}
TYPESTR = {"i1": "|b1", "i8": "|i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "f16": "<f2", "f32": "<f4", "f64": "<f8", "bf16": "<u2",
           "e4m3": "|u1", "e5m2": "|u1"}
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 3: "opaque", 4: "bf", 5: "c", 6: "b", 8: "e4m3", 10: "e4m3", 12: "e5m2"}
_DEVICES = {1: "host", 2: "cuda", 3: "cuda_host", 10: "hip", 11: "hip_host", 13: "cuda_managed"}
# Which memory each kind of device can use. The null device runs nothing and takes all.
_REACHES = {"host": {"host", "cuda_host", "hip_host", "cuda_managed"}, "cuda": {"cuda", "cuda_host", "cuda_managed"}, "hip": {"hip", "hip_host"}}


class Array:
    """An array somewhere: strides are in bytes, None when it is contiguous; `owner` keeps its memory. `read_only` is False, or says why."""

    __slots__ = ("address", "kind", "bits", "shape", "strides", "place", "index", "read_only", "owner")

    def __init__(self, address, kind, bits, shape, strides, place, index, read_only, owner):
        self.address, self.kind, self.bits, self.shape, self.strides = address, kind, bits, tuple(shape), strides
        self.place, self.index, self.read_only, self.owner = place, index, read_only, owner

    def is_contiguous(self):
        """Whether element after element lies where a pointer counts it; strides of extents below 2 say nothing."""
        if self.strides is None or 0 in self.shape:
            return True
        step = self.bits // 8
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True

    def dense_strides(self):
        """The strides in bytes of a contiguous array of this shape."""
        strides, step = [], self.bits // 8
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    def element_strides(self):
        size = self.bits // 8
        if self.strides is None:
            return tuple(stride // size for stride in self.dense_strides())
        if any(stride % size for stride in self.strides):
            raise ValueError("strides %r are not whole elements of %d bytes" % (self.strides, size))
        return tuple(stride // size for stride in self.strides)


# ------------------------------------------------------------------------------------------------------------------ DLPack


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    """DLPack 1.0: what the older capsules lack stands before the tensor."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DLPACK_VERSION = (1, 0)
_DLPACK_READ_ONLY, _DLPACK_COPIED = 1, 2
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _capsule_of(value, **stream):
    """By version 1 where the producer knows it: only that says whether the tensor may be written."""
    try:
        return value.__dlpack__(max_version=_DLPACK_VERSION, **stream)
    except TypeError:
        return value.__dlpack__(**stream)


def _tensor_of(capsule):
    """The tensor in a capsule, and why it cannot be written (False: it can)."""
    if not _capsule_is(capsule, b"dltensor_versioned"):
        return ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents, False
    found = ctypes.cast(_capsule_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(_DLVersioned)).contents
    if found.major > _DLPACK_VERSION[0]:
        raise BufferError("expected DLPack of version %d, found %d.%d" % (_DLPACK_VERSION[0], found.major, found.minor))
    why = "is read-only" if found.flags & _DLPACK_READ_ONLY else "is given as a copy" if found.flags & _DLPACK_COPIED else False
    return found.tensor, why


def _from_dlpack(value, stream):
    kind, index = map(int, value.__dlpack_device__())
    if kind in (2, 13):
        capsule = _capsule_of(value, stream=stream or 1)  # 1 is the legacy default stream
    elif kind == 10:
        capsule = _capsule_of(value, stream=stream or 0)
    else:
        capsule = _capsule_of(value)
    tensor, why = _tensor_of(capsule)
    if tensor.lanes != 1:
        raise TypeError("expected elements of one lane, found %d" % tensor.lanes)
    size = tensor.bits // 8
    shape = tensor.shape[:tensor.ndim]
    strides = tuple(s * size for s in tensor.strides[:tensor.ndim]) if tensor.strides else None
    # The capsule is not renamed, so its own end gives the tensor back.
    return Array((tensor.data or 0) + tensor.byte_offset, _DLPACK_KINDS.get(tensor.code, "code %d" % tensor.code), tensor.bits, shape, strides,
                 _DEVICES.get(kind, "device type %d" % kind), index, why, capsule)


# -------------------------------------------------------------------------------------------------------- array interfaces


def _from_interface(interface, place, owner):
    typestr = interface["typestr"]
    parts = re.match(r"([<>|=])([a-zA-Z])(\d+)", typestr)
    if not parts or parts.group(1) == ">":
        raise TypeError("expected little-endian elements, found %s" % typestr)
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise TypeError("the array interface has no address")
    return Array(data[0] or 0, parts.group(2), int(parts.group(3)) * 8, interface["shape"], interface.get("strides"), place, None,
                 "is read-only" if data[1] else False, owner)


def _numpy(name):
    """A type of NumPy where the program uses it; nothing is an instance of the empty tuple."""
    return getattr(sys.modules.get("numpy"), name, ())


def _take_places(interface):
    """Objects as large as what the interface describes: they take the place of such memory where it has been freed."""
    size = int(re.search(r"\d*$", interface["typestr"]).group() or 1)
    for extent in interface["shape"]:
        size *= extent
    taken = [bytearray(min(size, 1 << 16)) for _ in range(2)]
    return taken + [_numpy("empty")(size, "u1") for _ in range(8)] if _numpy("empty") else taken


def _stable(value, name, interface):
    """Refuses an interface whose memory is made for the answer and gone after it: asked again, it names another place."""
    data = interface.get("data")
    if isinstance(value, _numpy("ndarray")) or not isinstance(data, tuple):
        return interface
    taken = _take_places(interface) if name == "__array_interface__" else None
    again = getattr(value, name)
    if again.get("data") != data:
        raise TypeError("the %s of this %s names other memory each time it is asked (0x%x, then 0x%x), so the memory would be gone; pass the array itself"
                        % (name, type(value).__name__, data[0] or 0, again["data"][0] or 0))
    del taken
    return again


def describe(value, stream=None, synchronize=None):
    """The array that `value` is, or None when it speaks no protocol. Host arrays by their interface first, since not every DLPack can say read-only."""
    own = getattr(value, "_kiln_array", None)
    if own is not None:
        return own()
    if isinstance(value, _numpy("generic")):
        raise TypeError("expected an array, found a scalar of type %s, which is a value and has no memory" % type(value).__name__)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        return _from_interface(_stable(value, "__array_interface__", interface), "host", value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value, stream)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        producer = interface.get("stream")
        if producer is not None and producer != (stream or 1) and synchronize:
            synchronize(producer)
        return _from_interface(_stable(value, "__cuda_array_interface__", interface), "gpu", value)
    return None


class Strided:
    """An array for a pointer parameter, of whatever strides; see kiln.strided."""

    def __init__(self, array):
        self.array = array


# ------------------------------------------------------------------------------------------------------------------ values


def _text_of(array):
    return "%s%d" % (array.kind, array.bits) if array.kind in ("i", "u", "f", "bf", "c", "b", "V") else array.kind


def _must_fit(array, param, scalar, device):
    size, accepted = TYPES[scalar]
    if (array.kind, array.bits) not in accepted:
        raise TypeError("expected elements of type %s, found %s" % (scalar, _text_of(array)))
    kind, _, number = device.partition(":")
    if kind in _REACHES:
        if array.place not in _REACHES[kind] and not (array.place == "gpu" and kind != "host"):
            raise TypeError("expected memory of %s, found memory of %s" % (device, array.place))
        if array.place in ("cuda", "hip") and array.index is not None and array.index != int(number or 0):
            raise TypeError("expected memory of %s, found memory of %s:%d" % (device, array.place, array.index))
    if array.read_only and param.access in (2, 3, 4):
        raise ValueError("the kernel writes it, but the array %s" % array.read_only)


def _array_argument(param, value, device, stream, synchronize):
    array = describe(value, stream, synchronize)
    if array is None:
        raise TypeError("expected an array (DLPack, __array_interface__ or __cuda_array_interface__) or kiln memory, found %s" % type(value).__name__)
    _must_fit(array, param, param.scalar, device)
    return array


def pack_pointer(param, value, device, stream, synchronize):
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 64:
            raise OverflowError("%d is not an address" % value)
        return struct.pack("<Q", value), None
    if param.depth > 1:
        raise TypeError("expected the address of pointers as an integer, found %s" % type(value).__name__)
    is_strided = isinstance(value, Strided)
    array = _array_argument(param, value.array if is_strided else value, device, stream, synchronize)
    if not is_strided and not array.is_contiguous():
        raise ValueError("expected contiguous elements, since a pointer has no strides, found shape %r with strides %r in bytes where %r is contiguous; "
                         "pass a copy, or kiln.strided(array) to a kernel that takes the strides itself"
                         % (array.shape, tuple(array.strides), array.dense_strides()))
    return struct.pack("<Q", array.address), array


def pack_view(param, value, device, stream, synchronize):
    array = _array_argument(param, value, device, stream, synchronize)
    if len(array.shape) != param.rank:
        raise ValueError("expected an array of rank %d, found shape %r" % (param.rank, array.shape))
    return struct.pack("<Q%dq" % (2 * param.rank), array.address, *array.shape, *array.element_strides()), array


def _integer(value):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError("expected an integer, found %s" % type(value).__name__) from None


def _pack_integer(scalar, value):
    bits = 1 if scalar == "i1" else 8 * TYPES[scalar][0]
    number = int(value) if hasattr(value, "dtype") and getattr(value.dtype, "kind", "") == "b" else _integer(value)
    low = 0 if bits == 1 else -1 << (bits - 1)
    if not low <= number < 1 << bits:
        raise OverflowError("%d is not a value of type %s" % (number, scalar))
    return (number & ((1 << bits) - 1)).to_bytes(TYPES[scalar][0], "little")


def _pack_bf16(number):
    bits = int.from_bytes(struct.pack("<f", number), "little")
    if number != number:
        return struct.pack("<H", bits >> 16 | 0x40)
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def _pack_float(scalar, value):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError("expected a number, found %s" % type(value).__name__)
    number = float(value)
    try:
        return _pack_bf16(number) if scalar == "bf16" else struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[scalar], number)
    except OverflowError:
        raise OverflowError("%r is not a value of type %s" % (number, scalar)) from None


def pack_scalar(param, value, *_):
    if param.scalar.startswith("i"):
        return _pack_integer(param.scalar, value), None
    if param.scalar in ("e4m3", "e5m2"):
        return _pack_integer("i8", value), None  # the bits
    return _pack_float(param.scalar, value), None


def stream_handle(stream):
    """None, an integer, a kiln.Stream, or what frameworks call a stream."""
    if stream is None or isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("handle", "cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return getattr(stream, attribute)
    raise TypeError("expected a stream (None, an integer, kiln.Stream, or with cuda_stream or ptr), found %s" % type(stream).__name__)
