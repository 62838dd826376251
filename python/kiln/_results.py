# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What questions to devices and kernels are answered with. Imported by the first: making these takes as long as all else that a process imports to launch."""
import collections

Choice = collections.namedtuple("Choice", "config variant target bundle grid block_threads shared_bytes registers spill_bytes rank")
Candidate = collections.namedtuple("Candidate", "bundle target config variant rank rule")
Preflight = collections.namedtuple("Preflight", "kernels exact generic jit missing first_missing")
Param = collections.namedtuple("Param", "name type offset size rank depth access scalar")
