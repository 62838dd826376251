# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What devices and kernels answer questions with. Imported by the first question: to make these takes as long as everything else that a process imports
to launch."""
import collections

Choice = collections.namedtuple("Choice", "config variant target bundle grid block_threads shared_bytes registers spill_bytes rank")
Candidate = collections.namedtuple("Candidate", "bundle target config variant rank rule")
Launch = collections.namedtuple("Launch", "kernel device choice stream status seconds")
Preflight = collections.namedtuple("Preflight", "kernels exact generic jit missing first_missing")
Param = collections.namedtuple("Param", "name type offset size rank depth access scalar")


def signature(params):
    """The signature of a kernel, for inspect and help()."""
    import inspect
    kinds = inspect.Parameter
    named = [kinds(p.name, kinds.POSITIONAL_OR_KEYWORD, annotation=p.type) for p in params]
    return inspect.Signature(named + [kinds(name, kinds.KEYWORD_ONLY, default=None) for name in ("stream", "grid", "scratch")])
