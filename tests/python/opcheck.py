#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.library.opcheck for every operation that the kernels of bundles make: opcheck.py DEVICE BUNDLE...

DEVICE is PyTorch's name of one, cpu or cuda. Arguments are small and made from the interface alone: integers 32 (64 where a kernel wants more), floats 0.5, zeros in arrays of integers (they
may be indexes), arrays of random numbers with room for every product of those integers. Prints a line for each operation that does not pass, and the sum.
"""
import os
import sys

sys.path.insert(0, os.environ.get("KILN_PYTHON", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release", "python")))

import torch  # noqa: E402

import kiln  # noqa: E402
import kiln.torch  # noqa: E402

SIZES = (32, 64)  # the second where no config allows the first
ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def array(param, size, device):
    dtype = kiln.torch.TYPES[param.scalar]
    shape = [size] * param.rank if param.rank else [size ** 3 * max(size, 128)]  # the last for constants of kernels, such as D
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.rand(shape, device=device).to(dtype)


def argument(param, size, device):
    if param.rank or param.depth == 1:
        return array(param, size, device)
    if param.scalar == "i1":
        return True
    return 0.5 if param.scalar in ("f16", "bf16", "f32", "f64") else size


def check(operation, arguments):
    """What is wrong with the operation, or None."""
    # PyTorch's own comparison of what a schema says is mutated multiplies, which it cannot for 8-bit floats.
    tests = ALL if all(one.itemsize > 1 or not one.is_floating_point() for one in arguments if isinstance(one, torch.Tensor)) else ALL[1:]
    try:
        torch.library.opcheck(operation, tuple(arguments), test_utils=tests)
        return None
    except Exception as error:  # whatever it is, it is told, and the next operation is looked at
        return "%s: %s" % (type(error).__name__, " ".join(str(error).split()))


def main():
    device, bundles = sys.argv[1], sys.argv[2:]
    library = kiln.Library(*bundles)
    operations = kiln.torch.register(library, namespace="kiln_opcheck")
    nowhere, failed, count = library.device("null"), [], 0
    for name in library.kernels:
        kernel = nowhere.kernel(name)
        returned = {word.split("[")[0] for word in (kernel.returns or "").replace("], ", "],").split(",") if "[" in word}
        params = [param for param in kernel.params if param.name not in returned]
        if not any(param.rank or param.depth == 1 for param in params):
            continue
        count += 1
        for size in SIZES:
            error = check(getattr(operations, kiln.torch.operation_name(name)).default, [argument(param, size, device) for param in params])
            if not error or "no config allows these arguments" not in error:
                break
        if error:
            failed.append(name)
            print("%s: %s" % (name, error[:400]), flush=True)
    print("opcheck on %s: %d of %d operations pass" % (device, count - len(failed), count))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
