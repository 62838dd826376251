# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package's type stubs: mypy takes a correct program strictly, names each mistake of a wrong one, and the stubs have what the package has, in the same
order (stubtest)."""
import ast
import inspect
import os
import re
import subprocess
import sys
import tempfile
import unittest

import support
import kiln

try:
    import mypy  # noqa: F401
except ImportError:
    mypy = None

FOLDER = BUNDLE = None

CORRECT = """
import kiln

def use(path: str) -> list[str]:
    with kiln.Library(path, b"more", trust=["a.pub"], min_version=2) as library, library.device("host") as device:
        kernel: kiln.Kernel = device.kernel("saxpy")
        memory: kiln.Memory = device.copy([1.0, 2.0], "f32")
        kernel(0.5, memory, memory, 2, stream=device.stream(), grid=(1, 1))
        kernel[4](a=0.5, x=memory, y=memory, n=2)
        prepared: kiln.Prepared = kernel.prepare(0.5, memory, memory, 2)
        prepared.set("a", 1.0)
        prepared()
        choice: kiln.Choice = kernel.choose(0.5, memory, memory, 2)
        print(choice.config, choice.grid[0] + 1, memory.shape[0], memory.__cuda_array_interface__["data"], device.preflight().missing + 1)
        try:
            device.sync()
        except kiln.NoVariant as error:
            print(error.number + 1)
    return kiln.compile("a.kiln", targets=["host"], output=None).kernels + library.kernels
"""

OTHER_MODULES = """
from pathlib import Path
import kiln.jax
import kiln.torch
import kiln.triton
import kiln.triton.auto
import kiln.tvm_ffi

def use(path: Path, fn: object) -> list[str]:
    found = kiln.jax.call(kiln.jax.Bundle(path), "rms_norm", 1.0, grid=(1, 2))
    ops = kiln.torch.register(path, namespace="app", kernels=["saxpy"], policy=kiln.EXACT_ONLY)
    kiln.torch.library("app.kbundle", namespace="app", output=path)
    ops.saxpy(0.5, found)
    library = kiln.triton.export(fn, {"x": "*fp32", "n": range(100)}, {"BLOCK": 128}, targets=["sm_90a", "host"], output=path)
    kiln.triton.capture(use, path, targets="sm_90a", gpu=fn)
    kiln.triton.load(path, "b", miss="compile", trust=["k.pub"])
    stop = kiln.triton.watch(lambda row: print(row.name, row.launches + 1))
    stop()
    print(kiln.triton.monitor().by_kiln + kiln.triton.launches()["kiln"], kiln.triton.jit(fn))
    return kiln.tvm_ffi.register(path, namespace="app", override=True) + library.kernels + [one.identity for one in kiln.triton.compiled()]
"""

# Each line that is wrong says what mypy calls it.
WRONG = """
import kiln

library = kiln.Library("a.kbundle", policy="no")  # arg-type
device = library.device(3)  # arg-type
kernel = device.kernel()  # call-arg
number: int = device.target  # assignment
kernel(1, grid="all", stream=None).config  # attr-defined func-returns-value arg-type
kernel["x"]()  # index
device.kernels  # attr-defined
device.copy()  # call-arg
choice: kiln.Param = kernel.choose()  # assignment
memory = device.memory((2, 3), type=4)  # arg-type
memory.shape = (1,)  # misc
raise kiln.Nothing()  # attr-defined
"""


@unittest.skipIf(mypy is None, "mypy is not installed")
class Types(unittest.TestCase):
    def run_mypy(self, *words):
        environment = dict(os.environ, PYTHONPATH=os.path.join(support.BUILD, "python"), MYPY_CACHE_DIR=os.path.join(FOLDER, "mypy"))
        done = subprocess.run([sys.executable, "-m", *words], cwd=FOLDER, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        return done.returncode, done.stdout.decode()

    def check(self, text):
        with tempfile.NamedTemporaryFile("w", dir=FOLDER, suffix=".py") as file:
            file.write(text)
            file.flush()
            return self.run_mypy("mypy", "--strict", "--no-error-summary", file.name)

    def test_a_correct_program(self):
        self.assertEqual(self.check(CORRECT), (0, ""))

    def test_mistakes_are_named(self):
        status, output = self.check(WRONG)
        self.assertEqual(status, 1)
        found = {}
        for line, kind in re.findall(r":(\d+): error: .*\[([\w-]+)\]", output):
            found.setdefault(int(line), set()).add(kind)
        expected = {number: set(line.partition("  # ")[2].split()) for number, line in enumerate(WRONG.splitlines(), 1) if "  # " in line}
        self.assertEqual(sorted(found), sorted(expected), output)
        for line, kinds in expected.items():
            self.assertTrue(found[line] <= kinds, "line %d: expected %s\n%s" % (line, kinds, output))

    def test_stubs_are_those_of_the_package(self):
        with open(os.path.join(FOLDER, "allowed"), "w") as file:  # modules without stubs; the signature that every type's __call__ has
            file.write("kiln\\.(_|jax|torch|triton|tvm_ffi).*\nkiln\\.Prepared\\.__call__\n")
        with open(os.path.join(FOLDER, "modules"), "w") as file:
            file.write("[mypy]\nfollow_imports = skip\nignore_errors = True\nignore_missing_imports = True\n")
        status, output = self.run_mypy("mypy.stubtest", "kiln", "--concise", "--ignore-missing-stub", "--allowlist", "allowed", "--ignore-unused-allowlist",
                                       "--mypy-config-file", "modules", "--ignore-disjoint-bases")
        self.assertEqual(status, 0, output)


    def test_a_correct_program_of_the_other_modules(self):
        """kiln.jax, kiln.torch, kiln.triton and kiln.tvm_ffi have stubs, so that calls of them are no untyped calls, whether or not the frameworks are there."""
        self.assertEqual(self.check(OTHER_MODULES), (0, ""))

    def test_mistakes_in_calls_of_the_other_modules(self):
        status, output = self.check("import kiln.torch\nimport kiln.jax\nimport kiln.triton\nkiln.torch.register('a')\nkiln.jax.call(1, 'k')\nkiln.triton.lod('a')\n")
        self.assertEqual(status, 1)
        self.assertEqual(re.findall(r":(\d+): error: .*\[([\w-]+)\]", output), [("4", "call-arg"), ("5", "arg-type"), ("6", "attr-defined")], output)


def _functions(path):
    """{name: its parameters} of a module's own functions, and {name: the module that it is imported from}."""
    with open(path) as file:
        tree = ast.parse(file.read())
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            every = node.args
            found[node.name] = ([one.arg for one in every.posonlyargs + every.args], every.vararg and every.vararg.arg, [one.arg for one in every.kwonlyargs],
                                every.kwarg and every.kwarg.arg, len(every.defaults))
    imported = {one.asname or one.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1 for one in node.names}
    return found, imported


class Signatures(unittest.TestCase):
    def test_functions_of_the_other_modules_have_the_parameters_of_their_stubs(self):
        """Read as text: the frameworks need not be there, which mypy's own comparison wants."""
        package, compared = os.path.join(support.BUILD, "python", "kiln"), 0
        for stub in ("jax.pyi", "torch.pyi", "tvm_ffi.pyi", os.path.join("triton", "__init__.pyi"), "__init__.pyi"):
            folder = os.path.dirname(os.path.join(package, stub))
            theirs, imported = _functions(os.path.join(package, stub[:-1]))
            for name, parameters in _functions(os.path.join(package, stub))[0].items():
                source = os.path.join(folder, imported[name].replace(".", os.sep) + ".py") if name in imported else None
                if source and not os.path.exists(source):
                    continue  # of the extension
                with self.subTest(stub, name=name):
                    self.assertEqual(_functions(source)[0][name] if source else theirs[name], parameters)
                    compared += 1
        self.assertGreater(compared, 15)

    def test_methods_have_their_parameters(self):
        """As help() shows them; those that bound methods lacked the first before."""
        for method, names in ((kiln.Memory.copy_in, ["self", "array", "stream"]), (kiln.Library.device, ["self", "name"]), (kiln.Prepared.set, ["self", "parameter", "value"])):
            self.assertEqual(list(inspect.signature(method).parameters), names)
        with kiln.Library(BUNDLE) as library:
            self.assertEqual(str(inspect.signature(library.device)), "(name='host')")
            self.assertEqual(str(inspect.signature(library.device().memory)), "(shape, type='i8')")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
