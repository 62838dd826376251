# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch.compile found out: the graphs that TorchInductor lowered, and the configs that it measured and chose. A bundle takes this along, as PyTorch's caches
have it. So another process launches the same kernels, although it would measure other times, and lowers no graph again. PyTorch's keys say whether it fits: its
version and Kiln's, the graph, the processor. Its values are pickles: who loads a bundle runs what is in it, as with the code of its kernels."""
import base64
import hashlib
import json
import sys
import zlib

from .._errors import Error

NOTE = "torch "  # and a digest and the number of a part: the key of a note
KINDS = ("aot_autograd", "autotune", "inductor")  # of what PyTorch calls artifacts; not the record of varying shapes, which changes what is compiled
PART = 512 << 10  # characters of a note
LARGEST = 12 << 20  # of all; a bundle has at most 16 MiB of notes


def recorded():
    """[(kind, key, bytes)] of what this process wrote to PyTorch's caches or found there."""
    if "torch._inductor.codecache" not in sys.modules:
        return []
    from torch.compiler._cache import CacheArtifactManager
    found = {}
    for one in CacheArtifactManager._seen_artifacts:  # in order; a tuner's later choice replaces an earlier one, but a graph has an entry for each set of guards
        if one.type() in KINDS:
            found[one.type(), one.key, None if one.type() == "autotune" else one.content] = one.content
    return sorted((kind, key, content) for (kind, key, _), content in found.items())


def notes(results, before):
    """{key of a note: its text}. The same results have the same notes, so bundles of several processes merge. `before` are notes that go into the same bundle."""
    found = {}
    for kind, key, content in results:
        packed = base64.b64encode(zlib.compress(content, 9)).decode()
        digest = hashlib.sha256("\0".join((kind, key, packed)).encode()).hexdigest()[:32]
        parts = [packed[at:at + PART] for at in range(0, len(packed), PART)]
        for i, part in enumerate(parts):
            found["%s%s.%03d" % (NOTE, digest, i)] = json.dumps({"kind": kind, "key": key, "parts": len(parts), "data": part}, sort_keys=True)
    size = sum(map(len, {**before, **found}.values()))
    if size > LARGEST:
        print("kiln: what torch.compile found out is left out of the bundle: all of that would take %d bytes, expected at most %d" % (size, LARGEST), file=sys.stderr)
        return {}
    return found


def unpack(found, path):
    """The results of a bundle's notes."""
    whole = {}
    for name, text in sorted(found.items()):
        note = json.loads(text)
        whole.setdefault(name.rpartition(".")[0], (note["kind"], note["key"], note["parts"], []))[3].append(note["data"])
    for name, (kind, key, count, parts) in whole.items():
        if len(parts) != count:
            raise Error("%s: note '%s' has %d parts, expected %d" % (path, name, len(parts), count))
        try:
            yield kind, key, zlib.decompress(base64.b64decode("".join(parts)))
        except (ValueError, zlib.error):
            raise Error("%s: note '%s' is damaged" % (path, name)) from None


def fill(results):
    """Puts them where PyTorch looks."""
    from torch.compiler._cache import CacheArtifactFactory, CacheArtifactManager
    CacheArtifactManager._ensure_cache_artifacts_registered()
    for kind, key, content in results:
        if kind in KINDS:
            CacheArtifactFactory.create(kind, key, content).populate_cache()
