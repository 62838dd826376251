# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which Triton this is, for the keys of PyTorch's caches. Triton's own answer reads libtriton, 400 MB, in each process. Here the library is known by the number that the
linker gave it (its build ID), and the Python by its content, as there. What is not built so is read whole."""
import functools
import hashlib
import os
import struct

import triton
from triton._C import libtriton

FOLDERS = ("backends", "compiler", "language", "runtime")
_PROGRAM_HEADER, _NOTE, _BUILD_ID = "<IIQQQQQQ", 4, 3


def build_id(path):
    """The build ID of an ELF file of 64 bits, as hexadecimal digits; None: it has none."""
    with open(path, "rb") as file:
        try:
            header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01":
                return None
            at, = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            for i in range(count):
                file.seek(at + i * size)
                kind, _, place, _, _, length, _, _ = struct.unpack(_PROGRAM_HEADER, file.read(56))
                found = _build_id_of(_notes(file, place, length)) if kind == _NOTE else None
                if found:
                    return found
        except struct.error:  # cut off
            pass
    return None


def _notes(file, place, length):
    file.seek(place)
    return file.read(min(length, 1 << 16))


def _build_id_of(notes):
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name, at = notes[at + 12:at + 12 + name_size], at + 12 + (name_size + 3 & ~3)
        if kind == _BUILD_ID and name == b"GNU\0" and 8 <= size <= len(notes) - at:
            return notes[at:at + size].hex()
        at += size + 3 & ~3
    return None


@functools.lru_cache(None)
def of(theirs):
    """What tells this Triton from others; `theirs` is Triton's own function for that."""
    number = build_id(libtriton.__file__)
    if number is None:
        return theirs()
    digest, root = hashlib.sha256(), os.path.dirname(triton.__file__)
    paths = [os.path.join(folder, name) for part in FOLDERS for folder, _, names in os.walk(os.path.join(root, part)) for name in names if name.endswith(".py")]
    for path in sorted(paths):
        with open(path, "rb") as file:
            data = file.read()
        digest.update(("%s %d\0" % (os.path.relpath(path, root), len(data))).encode() + data)
    return "%s-%s-%s" % (triton.__version__, number, digest.hexdigest())
