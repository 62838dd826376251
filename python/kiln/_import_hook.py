# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a function whenever a module is executed, which may not be imported yet. Programs and frameworks look modules up without importing them
(importlib.util.find_spec), import them in several threads, and reload them: the finder handles all of these, and finds what the other finders find."""
import sys


class _Finder:
    def __init__(self):
        self.wanted = {}  # name of a module: the function to call with it

    def find_spec(self, name, path=None, target=None):
        if name not in self.wanted:
            return None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader):
        execute = getattr(loader, "exec_module", None)
        if execute is None or hasattr(execute, "kiln_follows"):  # some loaders serve many modules and many look-ups
            return

        def exec_module(module):
            execute(module)
            then = self.wanted.get(module.__name__)
            if then:
                then(module)
        exec_module.kiln_follows = True
        loader.exec_module = exec_module


_finder = _Finder()


def when_executed(name, then):
    """Calls `then` with the module `name` each time after it was executed, and at once if it was executed before."""
    _finder.wanted[name] = then
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        then(module)


def forget(name):
    _finder.wanted.pop(name, None)
