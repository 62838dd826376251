# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays by __array_interface__ and __cuda_array_interface__, for types that provide nothing faster, and arrays with given strides."""
import sys


class Strided:
    """An array for a pointer parameter, of whatever strides; see kiln.strided."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array


def _numpy(name):
    """A type of NumPy where the program uses it; nothing is an instance of the empty tuple."""
    return getattr(sys.modules.get("numpy"), name, ())


def _parts(typestr):
    """("<", "f", 4) for "<f4", whatever follows it; a size of 0 if there is none."""
    end = 2
    while typestr[end:end + 1] in tuple("0123456789"):
        end += 1
    return typestr[:1], typestr[1:2], int(typestr[2:end] or 0)


def _take_places(interface):
    """Objects as large as the memory that the interface describes, to occupy that memory if it was freed."""
    scalars = []
    if _numpy("zeros") and not interface["shape"]:
        # From NumPy 2.5 on a scalar's interface names the inside of its object. CPython has 512 places of that size in a row. They come first: lists have such
        # places too.
        zero = _numpy("zeros")((), interface["typestr"])
        scalars = [zero[()] for _ in range(1024)]
    size = _parts(interface["typestr"])[2] or 1
    for extent in interface["shape"]:
        size *= extent
    taken = [bytearray(min(size, 1 << 16)) for _ in range(2)] + scalars
    return taken + [_numpy("empty")(size, "u1") for _ in range(8)] if _numpy("empty") else taken


def _stable(value, name, interface):
    """Refuses an interface whose memory is made for one answer and freed after it: asked again, it names another address."""
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


def describe(value, name):
    """(address, kind, bits, shape, strides in bytes or None, whether it is on a GPU, whether it is read-only, the stream to wait for or None)."""
    try:
        return _read(value, name)
    except (AttributeError, IndexError, KeyError) as error:
        what = "it has no %s" % error if isinstance(error, KeyError) else error
        raise TypeError("the %s of this %s is malformed: %s" % (name, type(value).__name__, what)) from None


def _read(value, name):
    if isinstance(value, _numpy("generic")):
        raise TypeError("expected an array, found a scalar of type %s, which is a value and has no memory" % type(value).__name__)
    interface = _stable(value, name, getattr(value, name))
    typestr = interface["typestr"]
    order, kind, size = _parts(typestr)
    if order not in tuple("<|=") or not kind.isalpha() or not size:
        raise TypeError("expected little-endian elements, found %s" % typestr)
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise TypeError("the array interface has no address")
    return (data[0] or 0, kind, size * 8, tuple(interface["shape"]), interface.get("strides"),
            name == "__cuda_array_interface__", bool(data[1]), interface.get("stream"))


def room(value, address):
    """Bytes from `address`, where the array begins, to the end of the memory that it is a part of, as far as its framework says; 0 where it does not."""
    value = value.array if isinstance(value, Strided) else value
    if isinstance(value, _numpy("ndarray")):
        while isinstance(value.base, _numpy("ndarray")):
            value = value.base
        begin, size = value.__array_interface__["data"][0], value.nbytes if value.flags.forc else 0
    elif hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        begin, size = storage.data_ptr(), storage.nbytes()
    else:
        return 0
    return begin + size - address if begin <= address <= begin + size else 0
