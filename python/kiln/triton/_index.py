# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The key of a kernel before any Triton IR is built, and the notes of a bundle that lead from keys to its kernels (docs/bundle.md). The key is of what Triton's
own is of, the source with all functions that it calls, the types, the constants, the promises and the options, and the values that the source reads. The
processor is not in it: a bundle has code for several."""
import functools
import hashlib
import json
import os
import struct

from triton.compiler import make_backend

from . import _compilation, _dependencies, _torch_results
from .._errors import Error

NOTE = "triton "  # and the key: the key of a note
HELION = "helion "  # and a key: the key of a note with a module that Helion wrote
ALWAYS = (*_compilation.FACTS, "debug", "sanitize_overflow", "default_dot_input_precision", "allowed_dot_input_precisions")  # options; others where set
UNCLEAR = "unclear"  # the fact that others are missing: why
NEVER = ("launch_cooperative_grid", "launch_pdl", "instrumentation_mode")  # which change no code


# ------------------------------------------------------------------------------------------- facts

def _place(names, path):
    """"n", or "pair[1][0]" within a tuple."""
    return names[path[0]] + "".join("[%d]" % at for at in path[1:])


def _kind(kind):
    if _dependencies.is_named(kind):
        return "%s(%s)" % (type(kind).__qualname__, ", ".join("%s=%s" % (name, _kind(one)) for name, one in zip(kind._fields, kind)))
    return "(%s)" % ", ".join(map(_kind, kind)) if isinstance(kind, (tuple, list)) else str(kind)


@functools.lru_cache(None)
def _defaults(read_for):
    return vars(make_backend(read_for).parse_options({}))


def facts_of(source, options, read_for):
    """{field: text} of a kernel: an ASTSource with options that the backend of `read_for` has parsed."""
    names, usual = source.fn.arg_names, _defaults(read_for)
    with _compilation.parsing:
        facts = {"kernel": source.fn.__name__, "source": source.fn.cache_key, "backend": read_for.backend}
        found = _dependencies.of(source.fn)
    facts.update(("value of " + name, text) for name, text in found.facts.items())
    facts.update(("type of " + name, _kind(kind)) for name, kind in source.signature.items())
    unclear = dict.fromkeys(found.unclear)
    for path, value in source.constants.items():
        facts["constant " + _place(names, path)], more = _dependencies.described(value)
        unclear.update(("constant %s %s" % (_place(names, path), one), None) for one in more)
    for path, promises in source.attrs.items():
        path = (names.index(path),) if isinstance(path, str) else (path,) if isinstance(path, int) else path
        if promises:
            facts["promise of " + _place(names, path)] = ", ".join("%s %s" % tuple(one) for one in promises)
    facts.update(("option " + name, _dependencies.text_of(value)) for name, value in vars(options).items()
                 if name not in NEVER and (name in ALWAYS or value != usual.get(name)))
    if unclear:
        facts[UNCLEAR] = "; ".join(unclear)
    return facts


@functools.lru_cache(1)
def _process(number):
    return os.urandom(16).hex()


def key_of(facts):
    """The same in every process, unless a fact says that the facts are not all: then no other process has it."""
    if UNCLEAR in facts:
        facts = dict(facts, process=_process(os.getpid()))
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def differences(here, there):
    """Lines: each field that two kernels differ in."""
    return ["%s: %s, there %s" % (name, here.get(name, "none"), there.get(name, "none")) for name in sorted({*here, *there})
            if here.get(name) != there.get(name)]


# ------------------------------------------------------------------------------------------- notes

def _varint(number):
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes((number,))


def _block(text):
    return _varint(len(text.encode())) + text.encode()


def manifest(entries, refused, others):
    """What `kiln bundle-write` makes a bundle of notes from: {key: (name of a kernel in the bundle, its facts)}, {key: (facts, why)} of what is not compiled,
    and others, {key of a note: its text}."""
    texts = {key: {"kernel": name, "facts": facts} for key, (name, facts) in entries.items()}
    texts.update((key, {"refused": why[:4000], "facts": facts}) for key, (facts, why) in refused.items())
    every = {**{NOTE + key: json.dumps(text, sort_keys=True) for key, text in texts.items()}, **others}
    notes = (b"\x03" + _block(key) + _block(text) for key, text in sorted(every.items()))
    return b"KILNMAN1" + b"".join(notes) + b"\0"


class _Cut(Exception):
    pass


def _unpack(form, data, at):
    try:
        return struct.unpack_from(form, data, at)
    except struct.error:
        raise _Cut from None


def notes(path):
    """{key: text} of all notes of a bundle. The digest of the index is compared, so a bundle whose signature was verified (kiln.Library with trust=) has the notes
    that were signed."""
    with open(path, "rb") as file:
        data = file.read(30)
        try:
            name_size, extra_size = _unpack("<HH", data, 26)
            file.seek(30 + name_size + extra_size)
            header = file.read(256)
            if header[:8] != b"\x89KILN\r\n\x1a":
                raise Error("%s: is not a bundle of Kiln" % path)
            start, size = _unpack("<QQ", header, 40)
            file.seek(30 + name_size + extra_size + start)
            index = file.read(size)
            if hashlib.blake2b(index, digest_size=32).digest() != header[208:240]:
                raise Error("%s: its index is damaged: expected the digest that its header has" % path)
            notes_at, count, records, _ = _unpack("<4Q", header, 80 + 6 * 16)

            def record(number):
                length, = _unpack("<I", index, records + number)
                return index[records + number + 4:records + number + 4 + length].decode()

            return {record(key): record(value) for key, value in (_unpack("<II", index, notes_at + 8 * i) for i in range(count))}
        except (_Cut, ValueError):
            raise _unread(path) from None


def _unread(path):
    return Error("%s: its notes cannot be read: is it cut off?" % os.fspath(path))


def read(path):
    """{key: (name of a kernel, its facts)} and {key: (facts, why)} of a bundle, as its notes have them: what it has, and what Kiln does not compile; and the notes
    of what torch.compile found out and of what Helion wrote."""
    found = notes(path)
    try:
        entries = {key[len(NOTE):]: json.loads(text) for key, text in found.items() if key.startswith(NOTE)}
        return ({key: (one["kernel"], one["facts"]) for key, one in entries.items() if "kernel" in one},
                {key: (one["facts"], one["refused"]) for key, one in entries.items() if "kernel" not in one},
                {key: text for key, text in found.items() if key.startswith((_torch_results.NOTE, HELION))})
    except (ValueError, KeyError):
        raise _unread(path) from None
