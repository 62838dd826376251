# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheels of tools/wheel.sh: what is in them, that the same build gives the same bytes, and that they work where nothing else of Kiln is: unpacked,
and installed in an empty environment where venv and pip are there."""
import base64
import csv
import glob
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support
from support import BUILD, ROOT

EXAMPLE = """
import kiln, struct
library = kiln.Library("app.kbundle")
device = library.device("host")
x, y = device.memory(100, "f32"), device.memory(100, "f32")
x.copy_in(struct.pack("<100f", *range(100)))
device.kernel("twice_it")(x, y, 100)
assert struct.unpack("<100f", bytes(y)) == tuple(2.0 * i for i in range(100))
print(kiln.version(), kiln.__file__)
"""
KERNEL = """kiln 1
kernel twice_it(x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 2)
{
  let i = pid(0) * 64 + iota(64)
  store(y + i, load(x + i, i < n) * 2.0, i < n)
}
"""


def quiet(*command, **named):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, **named)
    if done.returncode:
        raise AssertionError("%s: exit %d\n%s" % (" ".join(command), done.returncode, done.stdout.decode(errors="replace")))
    return done.stdout.decode()


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if support.is_instrumented():
            raise unittest.SkipTest("wheels are made of builds without sanitizers")
        cls.folder = tempfile.TemporaryDirectory(prefix="kiln-wheel-")
        cls.environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHONPATH")}
        try:
            told = quiet("tools/wheel.sh", "-b", os.path.relpath(BUILD, ROOT), cls.folder.name, cwd=ROOT, env=cls.environment)
        except AssertionError as error:
            glibc = tuple(int(number) for number in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))
            if glibc > (2, 36) and "at most is allowed" in str(error):
                raise unittest.SkipTest("wheels are built with glibc 2.36 (Debian 12) or older, this is %d.%d" % glibc)
            raise
        cls.runtime, cls.compiler = told.split()[-2:]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_names_and_sizes(self):
        version = re.search(r"^VERSION := (\S+)", open(os.path.join(ROOT, "Makefile")).read(), re.M).group(1)
        machine = os.uname().machine
        for path, start in ((self.runtime, "kiln_runtime-%s-cp311-abi3-manylinux_2_" % version), (self.compiler, "kiln_compiler-%s-py3-none-manylinux_2_" % version)):
            name = os.path.basename(path)
            found = re.fullmatch(re.escape(start) + r"(\d+)_%s\.whl" % machine, name)
            self.assertTrue(found, name)
            self.assertLessEqual(int(found.group(1)), 34)
            self.assertLess(os.path.getsize(path), 60 << 20)

    def test_records_and_licences(self):
        of_cxx = "libstdc++-%s-dev.txt" % quiet("g++", "-dumpversion").split(".")[0].strip()
        for path, licences in ((self.runtime, ("LICENSE", "NOTICE", "libzstd-dev.txt", "libsodium-dev.txt")),
                               (self.compiler, ("LICENSE", "NOTICE", "libarchive-dev.txt", of_cxx, "nettle-dev.txt"))):
            with zipfile.ZipFile(path) as file:
                info = [name for name in file.namelist() if name.endswith(".dist-info/RECORD")][0][:-len("RECORD")]
                rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(file.read(info + "RECORD").decode()))}
                self.assertEqual(set(rows), set(file.namelist()))
                for name, (digest, size) in rows.items():
                    if name == info + "RECORD":
                        continue
                    data = file.read(name)
                    self.assertEqual((digest, int(size)), ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data)))
                for licence in licences:
                    self.assertIn(info + "licenses/" + licence, rows)
                metadata = file.read(info + "METADATA").decode()
                for line in ("Requires-Python: >=3.11", "License: Apache-2.0 WITH LLVM-exception", "Description-Content-Type: text/markdown", "\n# Kiln"):
                    self.assertIn(line + "\n", metadata)
                self.assertEqual("\nRequires-Dist: kiln-runtime (==" in metadata, path == self.compiler)
                script = "kiln = kiln.__main__:main" if path == self.compiler else "kiln-config = kiln._config:main"
                self.assertEqual(file.read(info + "entry_points.txt").decode(), "[console_scripts]\n%s\n" % script)

    def test_the_same_build_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as again:
            quiet("tools/wheel.sh", "-b", os.path.relpath(BUILD, ROOT), again, cwd=ROOT, env=self.environment)
            for path in (self.runtime, self.compiler):
                with open(path, "rb") as one, open(os.path.join(again, os.path.basename(path)), "rb") as other:
                    self.assertEqual(one.read(), other.read())

    def test_its_programs_are_those_of_the_build_tree(self):
        """They are stripped, and share a cache with the build tree: what one compiled is a hit for the other."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "k.kiln"), "w") as file:
                file.write(KERNEL)
            with zipfile.ZipFile(self.compiler) as file:
                for entry in file.infolist():
                    os.chmod(file.extract(entry, folder), entry.external_attr >> 16)
            programs = os.path.join(folder, "kiln_compiler", "bin", "kiln"), os.path.join(ROOT, BUILD, "bin", "kiln")
            environment = dict(self.environment, KILN_CACHE_DIR=os.path.join(folder, "cache"))
            quiet(programs[1], "build", "-q", "-t", "host", "-o", "app.kbundle", "k.kiln", cwd=folder, env=environment)
            quiet(programs[0], "build", "-q", "-t", "host", "--must-hit", "-o", "again.kbundle", "k.kiln", cwd=folder, env=environment)
            keys = [quiet(program, "key", "-t", "host", "k.kiln", cwd=folder, env=environment) for program in programs]
            self.assertEqual(keys[0], keys[1])

    def try_out(self, folder, python, *options, **named):
        with open(os.path.join(folder, "k.kiln"), "w") as file:
            file.write(KERNEL)
        quiet(python, *options, "-m", "kiln", "build", "-q", "--no-cache", "-t", "host", "-o", "app.kbundle", "k.kiln", cwd=folder, **named)
        return quiet(python, *options, "-c", EXAMPLE, cwd=folder, **named)

    def test_they_work_unpacked(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (self.runtime, self.compiler):
                with zipfile.ZipFile(path) as file:
                    for entry in file.infolist():
                        os.chmod(file.extract(entry, folder), entry.external_attr >> 16)
            bare = {"PATH": "/nowhere", "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "HOME": folder}
            self.assertIn(folder, self.try_out(folder, sys.executable, "-S", env=bare))

    def test_of_a_free_threaded_interpreter(self):
        python = next(filter(None, (shutil.which("python3.%dt" % minor) for minor in range(13, 20))), None)
        if python is None:
            self.skipTest("no free-threaded CPython is installed")
        with tempfile.TemporaryDirectory() as folder:
            runtime = quiet("tools/wheel.sh", "-p", python, folder, cwd=ROOT, env=self.environment).split()[-1]
            self.assertRegex(runtime, r"-(cp3\d+)-\1t-manylinux_2_\d+_%s\.whl$" % os.uname().machine)
            for path in (runtime, self.compiler):
                quiet(python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", os.path.join(folder, "site"), path, env=self.environment)
            bare = {"PATH": "/nowhere", "PYTHONPATH": os.path.join(folder, "site"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": folder}
            self.assertIn(folder, self.try_out(folder, python, "-S", env=bare))
            with self.assertRaisesRegex(AssertionError, "ImportError: kiln wants the interpreter's lock, which PYTHON_GIL=0"):
                quiet(python, "-S", "-c", "import kiln", env=dict(bare, PYTHON_GIL="0"))

    def link_programs(self, folder, config):
        """C programs that are built with the headers and CMake files of the wheel."""
        with open(os.path.join(folder, "main.c"), "w") as file:
            file.write('#include <kiln/kiln.h>\n#include <stdio.h>\nint main(void) { return puts(kiln_version()) < 0; }\n')
        words = quiet(config, "--cflags", "--libs").split()
        quiet("cc", "main.c", *words, "-o", "main", cwd=folder)
        version = quiet(config, "--version")
        self.assertEqual(quiet(os.path.join(folder, "main")), version)
        with self.assertRaisesRegex(AssertionError, "there is no option '--libz'; did you mean '--libs'"):
            quiet(config, "--libz")
        if shutil.which("cmake") is None:
            return
        os.mkdir(os.path.join(folder, "project"))
        with open(os.path.join(folder, "project", "CMakeLists.txt"), "w") as file:
            file.write("cmake_minimum_required(VERSION 3.21)\nproject(app C)\nfind_package(kiln REQUIRED COMPONENTS runtime compiler)\n"
                       "add_executable(app ../main.c)\ntarget_link_libraries(app kiln::runtime)\nkiln_add_bundle(codes SOURCES ../k.kiln TARGETS host)\n")
        quiet("cmake", "-S", "project", "-B", "made", "-Dkiln_DIR=" + quiet(config, "--cmakedir").strip(), cwd=folder)
        quiet("cmake", "--build", "made", cwd=folder)
        self.assertEqual(quiet(os.path.join(folder, "made", "app")), version)

    def test_they_install_in_an_empty_environment(self):
        if importlib.util.find_spec("ensurepip") is None:
            self.skipTest("python3-venv is not installed")
        with tempfile.TemporaryDirectory() as folder:
            quiet(sys.executable, "-m", "venv", os.path.join(folder, "empty"), env=self.environment)
            python = os.path.join(folder, "empty", "bin", "python")
            quiet(python, "-m", "pip", "install", "--no-index", "--no-deps", self.runtime, self.compiler, env=self.environment)
            self.assertIn(folder, self.try_out(folder, python, env={"PATH": "/nowhere", "HOME": folder}))
            here = os.path.join(folder, "empty", "bin")
            self.assertEqual(quiet(os.path.join(here, "kiln"), "--version").split()[1], quiet(os.path.join(here, "kiln-config"), "--version").strip())
            self.link_programs(folder, os.path.join(here, "kiln-config"))
            listed = quiet(python, "-m", "pip", "list", env=self.environment)
            self.assertRegex(listed, r"kiln-runtime +\d")
            self.assertRegex(listed, r"kiln-compiler +\d")
            quiet(python, "-m", "pip", "uninstall", "-y", "kiln-runtime", "kiln-compiler", env=self.environment)
            self.assertEqual(glob.glob(os.path.join(folder, "empty", "lib", "*", "site-packages", "kiln*")), [])


if __name__ == "__main__":
    sys.exit(support.main(__name__))
