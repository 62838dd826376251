# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels among PyTorch's artifacts: what torch.compiler.save_cache_artifacts() saves, and the cache that torch.compiler.precompile writes beside its Python. PyTorch
puts the graphs and the choices of configs there, and cubins of Triton's. Kiln's kernels are artifacts of a type of their own, each under Kiln's key, so a process
that loads them compiles nothing. They are asked like Kiln's cache: where launches take their code from bundles alone (miss="error"), they are not asked."""
import functools
import json
import sys

from . import _bundles, _index, _monitor
from ._compilation import Built
from .._core import version

TYPE = "kiln"
_loaded = {}  # key: the bytes of an artifact


def _key(keys, target):
    return "%s %s %s" % (_index.key_of(keys), target, version())


@functools.cache
def register():
    """Tells PyTorch of the type. Without it, a process that loads artifacts with kernels of Kiln's gets a warning and nothing of them."""
    from torch.compiler._cache import CacheArtifact, CacheArtifactFactory

    @CacheArtifactFactory.register
    class KilnArtifact(CacheArtifact):
        @staticmethod
        def type():
            return TYPE

        def populate_cache(self):
            if self.key.endswith(" " + version()):
                _loaded[self.key] = self.content


def is_any_loaded():
    """Then kernels are looked up in this process: worker processes have not loaded them."""
    return bool(_loaded)


def record(kernel):
    """Of a kernel that was compiled in this process or in a worker of it. A bundle's stays in the bundle."""
    if kernel.kiln_text is None or "torch.compiler._cache" not in sys.modules:
        return
    from torch.compiler._cache import CacheArtifactManager
    register()
    head = json.dumps({"text": kernel.kiln_text, "facts": kernel.kiln_facts}, sort_keys=True)
    CacheArtifactManager.record_artifact(TYPE, _key(kernel.kiln_keys, kernel.kiln_target), head.encode() + b"\n" + _bundles.bytes_of(kernel.kiln_code))


def begun(source, options, read_for, target):
    """What find_or_compile takes for a compile that was begun before; None: no artifact has the kernel."""
    content = _loaded.get(_key(_index.facts_of(source, options, read_for), target)) if _loaded else None
    if content is None:
        return None
    head, _, code = content.partition(b"\n")
    head = json.loads(head)
    return head["text"], head["facts"], lambda: Built(code, _monitor.CACHE, 0.0)
