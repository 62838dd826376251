# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton's tutorials as tests: each is run as a program, and fails where it raises; the tests that one has are taken as they are. What they only measure is
left out."""
import glob
import json
import os
import runpy
import sys

import pytest

FOLDER = json.loads(os.environ["KILN_PEERS"])["suite"]
test_attention = runpy.run_path(os.path.join(FOLDER, "06-fused-attention.py"), run_name="attention")["test_op"]


@pytest.mark.parametrize("name", [os.path.basename(path) for path in sorted(glob.glob(os.path.join(FOLDER, "[0-9]*.py")))])
def test_tutorial(name, monkeypatch):
    import triton.testing
    monkeypatch.setattr(triton.testing.Mark, "run", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.syspath_prepend(FOLDER)
    runpy.run_path(os.path.join(FOLDER, name), run_name="__main__")
