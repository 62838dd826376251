# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the interpreter runs at its start where KILN_TRITON is set (kiln-triton.pth): once the program has imported Triton, Kiln is behind it. With
KILN_TRITON=report the process says at its end on standard error how many launches ran whose code."""
import atexit
import importlib.abc
import importlib.util
import os
import sys


def _report():
    launching = sys.modules.get("kiln.triton._launching")
    if launching is not None:
        print("kiln: %d launches of %d kernels ran Kiln's code, %d Triton's" %
              (launching.counts["kiln"], len(launching.variants), launching.counts["triton"]), file=sys.stderr)


class _Waiting(importlib.abc.MetaPathFinder):
    """Finds Triton as it would be found, and has Kiln follow it."""

    def find_spec(self, name, path=None, target=None):
        if name != "triton":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("triton")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            import kiln.triton.auto  # noqa: F401
        spec.loader.exec_module = exec_module
        return spec


def start():
    wish = os.environ.get("KILN_TRITON", "")
    if wish in ("", "0"):
        return
    if wish == "report":
        atexit.register(_report)
    sys.meta_path.insert(0, _Waiting())


start()
