#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches saxpy on NumPy arrays: python3 saxpy.py saxpy.kbundle [DEVICE]

    kiln build ../../saxpy/saxpy.kiln -t host,sm_90 -o saxpy.kbundle
"""
import sys

import kiln
import numpy as np


def main():
    with kiln.Library(sys.argv[1]) as library, library.device(sys.argv[2] if len(sys.argv) > 2 else "host") as device:
        x, y = np.arange(3000, dtype=np.float32), np.full(3000, 0.5, np.float32)
        # Arrays of the host are used in place by the host; a GPU needs copies of its own, or arrays of a framework that lie there.
        on_device = [device.copy(x), device.copy(y)]
        device.kernel("saxpy")(2, *on_device, len(x))
        device.sync()
        wrong = int(np.count_nonzero(on_device[1].numpy() != 2 * x + y))
        print("%d sums on %s (%s), %d wrong" % (len(x), device.name, device.target, wrong))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else __doc__)
