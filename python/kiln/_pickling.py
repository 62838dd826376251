# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pickles of libraries, devices and kernels: how they were opened, not what they hold. A process that reads several opens each library and device once."""
import os
import weakref

from ._core import Device, Library

_libraries, _devices = weakref.WeakValueDictionary(), weakref.WeakKeyDictionary()


def open_library(kind, sources, options):
    key = (kind, sources, options)
    try:
        found = _libraries.get(key)
    except TypeError:  # a log, say, that cannot be a key
        return kind(*sources, **dict(options))
    if found is None:
        found = _libraries[key] = kind(*sources, **dict(options))
    return found


def open_device(library, name):
    devices = _devices.setdefault(library, weakref.WeakValueDictionary())
    found = devices.get(name)
    if found is None:
        found = devices[name] = library.device(name)
    return found


def get_kernel(device, name):
    return device.kernel(name)


def _whole(value, folder):
    """A path as another process finds it; bytes of a bundle as they are."""
    if isinstance(value, (str, os.PathLike)):
        return os.path.join(folder, os.fspath(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError("a library of a file descriptor or an open file belongs to its process: open the bundle by its path to pickle it")


def reduce(handle):
    """What __reduce__ returns."""
    if isinstance(handle, Library):
        sources, options, folder = handle._opened_by
        options = dict(options or {})
        if options.get("trust") is not None:
            options["trust"] = tuple(_whole(one, folder) for one in options["trust"])
        if options.get("library") is not None:
            options["library"] = _whole(options["library"], folder)
        return open_library, (type(handle), tuple(_whole(one, folder) for one in sources), tuple(sorted(options.items())))
    if isinstance(handle, Device):
        return open_device, (handle.library, handle.name)
    return get_kernel, (handle.device, handle.name)
