# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pip calls to build the project's wheel (PEP 517); pyproject.toml names it. tools/wheel.sh does the work."""
import os
import shutil
import subprocess
import tempfile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The runtime's wheel; {"package": "kiln-compiler"} (pip wheel -C package=kiln-compiler .) makes that of the compiler."""
    package = (config_settings or {}).get("package", "kiln-runtime").replace("-", "_")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join("tools", "wheel.sh"), folder], check=True)
        found = [name for name in os.listdir(folder) if name.startswith(package + "-")]
        if not found:
            raise SystemExit("package: expected kiln-runtime or kiln-compiler, found %r" % package)
        shutil.move(os.path.join(folder, found[0]), os.path.join(wheel_directory, found[0]))
    return found[0]


def build_sdist(sdist_directory, config_settings=None):
    """`make dist` is the source archive."""
    raise NotImplementedError("`make dist` makes the source archive")
