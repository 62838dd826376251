# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays as other packages have them, by one interface each."""
import ctypes
import struct


class Tensor:
    """An array that speaks DLPack only."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Elsewhere(Tensor):
    """An array that says to be on a GPU."""

    def __dlpack__(self, stream=None):
        self.stream = stream
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (2, 1)


class Versioned:
    """DLPack 1.0 of host memory: f32, rank 1, with flags (1: read-only, 2: a copy). The capsule is drawn by hand, from dlpack.h."""

    def __init__(self, array, flags=0, major=1):
        self.array, self.asked = array, None
        self.shape = struct.pack("<qq", array.size, array.strides[0] // 4)
        at = ctypes.cast(ctypes.c_char_p(self.shape), ctypes.c_void_p).value
        tensor = struct.pack("<QiiiBBHQQQ", array.ctypes.data, 1, 0, 1, 2, 32, 1, at, at + 8, 0)
        self.bytes = struct.pack("<IIQQQ", major, 0, 0, 0, flags) + tensor

    def __dlpack__(self, stream=None, max_version=None):
        self.asked = max_version
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(self.bytes, b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return (1, 0)


class Words:
    """Foreign memory with an array interface of any content."""

    def __init__(self, kind, **interface):
        setattr(self, kind, dict({"shape": (4,), "data": (4096, False), "strides": None, "version": 3}, **interface))
