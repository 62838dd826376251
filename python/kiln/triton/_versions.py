# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The versions of Triton that Kiln supports, and all that differs between them in what Kiln uses of Triton's inside. Nothing else in the package asks for
a version; tests/python/test_triton_versions.py compares these rows with the wheels."""
import re
import typing

import triton

OLDEST, NEWEST = (3, 6), (3, 9)


class Differences(typing.NamedTuple):
    hook_has_target: bool  # JITFunction._call_hook(hook, key, signature, target, device, ...); without target before
    descriptor_rounds: bool  # TensorDescriptor.round_f32_to_tf32, which a kernel of Kiln does not do
    tuner_has_listener: bool  # knobs.autotuning.listener is called with what a tuner chose


TABLE = {
    (3, 6): Differences(hook_has_target=False, descriptor_rounds=False, tuner_has_listener=False),
    (3, 7): Differences(hook_has_target=True, descriptor_rounds=True, tuner_has_listener=False),
    (3, 8): Differences(hook_has_target=True, descriptor_rounds=True, tuner_has_listener=True),
    (3, 9): Differences(hook_has_target=True, descriptor_rounds=True, tuner_has_listener=True),
}


def differences_of(version) -> Differences:
    """The row of a version such as "3.7.1"; ImportError with both where Kiln does not support it."""
    found = re.match(r"(\d+)\.(\d+)", version)
    row = TABLE.get(tuple(map(int, found.groups()))) if found else None
    if row is None:
        raise ImportError("Triton %s is not supported, %d.%d to %d.%d are" % (version, *OLDEST, *NEWEST), name="triton")
    return row


HERE = differences_of(triton.__version__)


def call_hook(fn, hook, key, signature, target, *others):
    """A hook of compiles, told what Triton's own compile tells it; what it returns."""
    return fn._call_hook(hook, key, signature, *([target] if HERE.hook_has_target else []), *others)
