# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of libkiln (runtime/kiln.h) as ctypes sees it: structures, prototypes, errors. A test compares it with the header."""
import ctypes
import os

SONAME = "libkiln.so.0"
Handle = ctypes.c_void_p
Size = ctypes.c_size_t
Text = ctypes.c_char_p


class CError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 1000)]


class Source(ctypes.Structure):
    _fields_ = [("path", Text), ("bytes", ctypes.c_void_p), ("size", Size), ("fd", ctypes.c_int)]


LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, Text)


class OpenOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("sources", ctypes.POINTER(Source)), ("source_count", Size), ("policy", ctypes.c_uint32), ("log", LogCallback),
                ("log_user", ctypes.c_void_p), ("verify", ctypes.c_void_p), ("verify_user", ctypes.c_void_p),
                ("min_version", ctypes.c_uint64), ("name", Text)]


class Param(ctypes.Structure):
    _fields_ = [("name", Text), ("type", Text), ("offset", ctypes.c_uint32), ("size", ctypes.c_uint32), ("rank", ctypes.c_uint8),
                ("pointer", ctypes.c_uint8), ("access", ctypes.c_uint8)]


class Choice(ctypes.Structure):
    _fields_ = [("config", Text), ("variant", Text), ("target", Text), ("bundle", Text), ("grid", ctypes.c_uint32 * 3),
                ("block_threads", ctypes.c_uint32), ("shared_bytes", ctypes.c_uint32), ("registers", ctypes.c_uint32),
                ("spill_bytes", ctypes.c_uint32), ("rank", ctypes.c_uint)]


class Candidate(ctypes.Structure):
    _fields_ = [("bundle", Text), ("target", Text), ("config", Text), ("variant", Text), ("rank", ctypes.c_uint), ("rule", Text)]


class Preflight(ctypes.Structure):
    _fields_ = [("kernels", Size), ("exact", Size), ("generic", Size), ("jit", Size), ("missing", Size), ("first_missing", Text)]


_Out = ctypes.c_void_p  # an out-parameter, given with byref

# Functions that return a status and take a kiln_error at the end, which is not listed.
_CHECKED = {
    "kiln_open": [_Out, _Out],
    "kiln_device_open": [Handle, Text, _Out],
    "kiln_stream_create": [Handle, _Out],
    "kiln_sync": [Handle, Handle],
    "kiln_alloc": [Handle, Size, _Out],
    "kiln_copy_in": [Handle, Handle, Handle, Size],
    "kiln_copy_out": [Handle, Handle, Handle, Size],
    "kiln_fill": [Handle, Handle, ctypes.c_uint8, Size],
    "kiln_kernel_get": [Handle, Text, Handle, _Out],
    "kiln_preload": [Handle],
    "kiln_launch_packed": [Handle, Handle, Handle, Size],
    "kiln_launch_grid": [Handle, Handle, Handle, Handle, Size],
    "kiln_choose": [Handle, Handle, Size, _Out],
    "kiln_explain": [Handle, Text, _Out],
    "kiln_device_preflight": [Handle, _Out],
}
# The others: result, arguments.
_PLAIN = {
    "kiln_version": (Text, []),
    "kiln_close": (None, [Handle]),
    "kiln_kernel_count": (Size, [Handle]),
    "kiln_kernel_name": (Text, [Handle, Size]),
    "kiln_device_close": (None, [Handle]),
    "kiln_device_target_name": (Text, [Handle]),
    "kiln_device_description": (Text, [Handle]),
    "kiln_stream_destroy": (None, [Handle, Handle]),
    "kiln_free": (None, [Handle, Handle]),
    "kiln_param_count": (Size, [Handle]),
    "kiln_param_at": (ctypes.c_int, [Handle, Size, _Out]),
    "kiln_block_size": (Size, [Handle]),
    "kiln_kernel_abi": (ctypes.c_uint64, [Handle]),
    "kiln_report_text": (Text, [Handle]),
    "kiln_report_count": (Size, [Handle]),
    "kiln_report_at": (ctypes.c_int, [Handle, Size, _Out]),
    "kiln_report_free": (None, [Handle]),
}


class Error(Exception):
    """Something that libkiln refused. `number` is the stable number of the error code (12 is KILN-E0012), the text says what was expected and
    what was there; where no code fits, it is the whole report."""

    number = 0

    def __init__(self, text, number=None):
        super().__init__(text)
        if number is not None:
            self.number = number


class NotFound(Error):
    """A file or a kernel does not exist."""


class NoDevice(Error):
    """The driver or the device is not present; the text says what was tried."""


class NoVariant(Error):
    """No code fits the device or the arguments; the text names each candidate and the rule that refused it."""


class LaunchRefused(Error):
    """A promise of the kernel's signature is broken, or its grid cannot be launched."""


class Untrusted(Error):
    """A signature is missing or is not by a trusted key."""


_ERRORS = {3: NotFound, 15: NoDevice, 17: NoVariant, 19: Untrusted, 21: LaunchRefused}


def check(status, error):
    if status:
        text = error.text.decode(errors="replace")
        raise _ERRORS.get(status, Error)("%s [KILN-E%04d]" % (text, status), status)


def call(function, *arguments):
    """Calls a function of _CHECKED; a status other than OK is raised with its text."""
    error = CError()
    check(function(*arguments, ctypes.byref(error)), error)


def candidates(soname, explicit=None):
    """Where a library is looked for: what is given, beside this installation (PREFIX/lib), then where the loader looks."""
    if explicit is not None:
        return [os.fspath(explicit)]
    here = os.path.dirname(os.path.abspath(__file__))  # PREFIX/lib/python3/dist-packages/kiln
    prefix_lib = os.path.normpath(os.path.join(here, "..", "..", ".."))
    return [path for path in [os.path.join(prefix_lib, soname)] if os.path.exists(path)] + [soname]


_loaded = {}  # without a lock, which the child of a fork could find locked for ever


def load(path=None):
    """libkiln with its prototypes; loaded once a path. OSError names what was tried."""
    return _loaded.get(path) or _loaded.setdefault(path, _prototypes(open_library(SONAME, path)))


def open_library(soname, path=None):
    failures = []
    for candidate in candidates(soname, path):
        try:
            return ctypes.CDLL(candidate)
        except OSError as failure:
            failures.append(str(failure))
    raise OSError("%s cannot be loaded: %s" % (soname, "; ".join(failures)))


def _prototypes(library):
    for name, arguments in _CHECKED.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_int, arguments + [ctypes.c_void_p]
    for name, (result, arguments) in _PLAIN.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
