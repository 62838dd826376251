# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python's own compiled modules, for benches that time the start of processes."""
import importlib.util
import os
import subprocess
import sys


def found_in(environment, folder):
    """The environment; where PyTorch was installed without compiled modules, one with a folder of them. Each process would translate two thousand modules itself: 8 s of CPU
    time, a part of it in what is timed. Modules of other packages are written there by the process that imports them first."""
    torch = importlib.util.find_spec("torch")
    if torch is None or os.path.exists(torch.cached):
        return environment
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = os.path.join(os.path.abspath(folder), "bytecode")
    packages = filter(None, map(importlib.util.find_spec, ("torch", "triton", "sympy", "mpmath", "numpy")))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", "-x", "/tests?/", *(os.path.dirname(one.origin) for one in packages)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return environment
