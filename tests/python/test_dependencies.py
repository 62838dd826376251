# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a kernel's source reads is in its key: of each way to a value two programs that differ in that value have different keys, and what is not read changes none. The
keys are made in processes of their own, whose seed of hashes differs. Skipped where Triton is absent."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import support
support.with_zones()

try:
    import triton
except ImportError as missing:
    triton, absent = None, str(missing)

# `pick(a, b)` is a in the one program and b in the other. ARGUMENTS has what `k` is called with besides y and v.
HEAD = '''
import collections, enum, functools, os, types
import triton, triton.language as tl
OTHER = os.environ["OTHER"] == "1"
def pick(a, b): return b if OTHER else a
module = types.ModuleType("settings")
'''

CHANGED = {
    "constant": "C0 = tl.constexpr(pick(3, 4))\n@triton.jit\ndef k(y, v): tl.store(y, v + C0)",
    "equal constants": "C1 = tl.constexpr(pick(1, True))\n@triton.jit\ndef k(y, v): tl.store(y, v + C1)",
    "zeros": "C2 = tl.constexpr(pick(0.0, -0.0))\n@triton.jit\ndef k(y, v): tl.store(y, v + C2)",
    "type": "C3 = pick(tl.float16, tl.float32)\n@triton.jit\ndef k(y, v): tl.store(y, v.to(C3))",
    "tuple": "C4 = tl.constexpr(pick((1, 2), (2, 1)))\n@triton.jit\ndef k(y, v): tl.store(y, v + C4[0])",
    "of a module": "module.K = tl.constexpr(pick(7, 8))\n@triton.jit\ndef k(y, v): tl.store(y, v + module.K)",
    "of a module in a module": "module.inner = types.ModuleType('inner'); module.inner.K = tl.constexpr(pick(7, 8))\n@triton.jit\ndef k(y, v): tl.store(y, v + module.inner.K)",
    "type of a module": "module.T = pick(tl.float16, tl.float32)\n@triton.jit\ndef k(y, v): tl.store(y, v.to(module.T))",
    "closure": "def make(n):\n    @triton.jit\n    def k(y, v): tl.store(y, v + n)\n    return k\nk = make(tl.constexpr(pick(11, 12)))",
    "default of a helper": "C5 = tl.constexpr(pick(3, 4))\n@triton.jit\ndef h(v, a: tl.constexpr = C5): return v * a\n@triton.jit\ndef k(y, v): tl.store(y, h(v))",
    "read by the first of two of a name": "C11, C12 = pick(2, 3), 7\ndef make(c):\n    def g(n): return n * c()\n    return g\ndef one():\n    def c(): return C11\n    return c\n"
                                          "def two():\n    def c(): return C12\n    return c\nB = [make(one()), make(two())]\n@triton.constexpr_function\n"
                                          "def f(n): return B[0](n) + B[1](n)\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "wrapper": "C13 = pick(2, 3)\ndef scaled(g):\n    @functools.wraps(g)\n    def inner(n): return g(n) * C13\n    return inner\n@scaled\ndef g(n): return n\nG3 = [g]\n"
               "@triton.constexpr_function\ndef f(n): return G3[0](n)\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "helpers of one name": "def make(D):\n    @triton.jit\n    def h(v): return v.to(D)\n    return h\nH1, H2 = make(pick(tl.float16, tl.float32)), make(tl.float64)\n"
                                 "@triton.jit\ndef k(y, v): tl.store(y, H1(v) + H2(v))",
    "helper defined again": "@triton.jit\ndef h(v): return v * 5\n@triton.jit\ndef g(v): return v * 6\n@triton.jit\ndef k(y, v): tl.store(y, h(v))\nk.cache_key\nh = pick(h, g)",
    "read by a helper": "C6 = pick(tl.float16, tl.float32)\n@triton.jit\ndef h(v): return v.to(C6)\n@triton.jit\ndef k(y, v): tl.store(y, h(v))",
    "another helper": "@triton.jit\ndef a(v): return v * 2\n@triton.jit\ndef b(v): return v * 3\nH = pick(a, b)\n@triton.jit\ndef k(y, v): tl.store(y, H(v))",
    "read by a function of constants": "C7 = pick(2, 3)\n@triton.constexpr_function\ndef f(n): return n * C7\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "read by what such a function calls": "C8 = pick(2, 3)\ndef g(n): return n * C8\nG = functools.partial(g)\nS = {'g': g}\n@triton.constexpr_function\n"
                                          "def f(n): return S['g'](n)\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "what such a function calls": "def g1(n): return n * 2\ndef g2(n): return n * 3\nG2 = [pick(g1, g2)]\n@triton.constexpr_function\ndef f(n): return G2[0](n)\n"
                                  "@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "state of an object": "class S:\n    def __init__(self, v): self.v = v\n    def __repr__(self): return 'S'\nO1 = S(pick(1, 2))\n@triton.constexpr_function\ndef f(n): return n * O1.v\n"
                          "@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "method of an object": "class S:\n    def f(self, n): return n * self.w\nclass A(S): w = 2\nclass B(S): w = 3\nO2 = [pick(A(), B())]\n@triton.constexpr_function\ndef f(n): return O2[0].f(n)\n"
                           "@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "slots": "class S:\n    __slots__ = ('v',)\n    def __repr__(self): return 'S'\nO3 = S(); O3.v = pick(1, 2)\n@triton.constexpr_function\ndef f(n): return n * O3.v\n"
             "@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "array": "import numpy\nA = numpy.zeros(5000); A[2500] = pick(1, 2)\n@triton.constexpr_function\ndef f(n): return n * int(A[2500])\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "member": "class E(enum.Enum):\n    A = 1\n    B = 2\nO4 = pick(E.A, E.B)\n@triton.constexpr_function\ndef f(n): return n * O4.value\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "assigned on one way": "C9 = tl.constexpr(pick(1, 2))\n@triton.jit\ndef k(y, v, B: tl.constexpr):\n    if B:\n        C9 = 5\n    tl.store(y, v + C9)\nARGUMENTS = {'constants': {(2,): False}}",
    "constant that shows nothing": "class R:\n    def __init__(self, v): self.v = v\n    def __repr__(self): return 'R'\n@triton.jit\ndef k(y, v, A: tl.constexpr): tl.store(y, v + A.v)\n"
                                   "ARGUMENTS = {'constants': {(2,): R(pick(1, 2))}}",
    "class of a named tuple": "P = collections.namedtuple('P', 'p q')\nQ = collections.namedtuple('Q', 'q p')\n@triton.jit\ndef k(y, v, t): tl.store(y, t.p)\n"
                              "ARGUMENTS = {'kinds': {'t': pick(P, Q)('i32', 'i32')}}",
    "constant named tuple": "P = collections.namedtuple('P', 'p q')\nQ = collections.namedtuple('Q', 'q p')\n@triton.jit\ndef k(y, v, A: tl.constexpr): tl.store(y, v + A.p)\n"
                            "ARGUMENTS = {'constants': {(2,): pick(P, Q)(1, 2)}}",
    "method of a class": "C10 = tl.constexpr(pick(2, 3))\nclass A:\n    @staticmethod\n    @triton.jit\n    def op(v): return v * C10\n@triton.jit\ndef k(y, v): tl.store(y, A.op(v))",
}

UNCHANGED = {
    "not read": "N0 = tl.constexpr(pick(3, 4))\n@triton.jit\ndef k(y, v): tl.store(y, v)",
    "local of that name": "i = pick(3, 4)\n@triton.jit\ndef k(y, v):\n    for i in range(4):\n        tl.store(y + i, v)",
    "assigned on every way": "N1 = pick(3, 4)\n@triton.jit\ndef k(y, v, B: tl.constexpr):\n    if B:\n        N1 = 5\n    else:\n        N1 = 6\n    tl.store(y, v + N1)\n"
                             "ARGUMENTS = {'constants': {(2,): False}}",
    "parameter of that name": "y = pick(3, 4)\n@triton.jit\ndef k(y, v): tl.store(y, v)",
    "other attribute": "module.U = pick(3, 4)\nmodule.V = tl.constexpr(5)\n@triton.jit\ndef k(y, v): tl.store(y, v + module.V)",
    "attribute of that name": "dtype = pick(3, 4)\n@triton.jit\ndef k(y, v): tl.store(y, v.to(y.dtype.element_ty))",
    "own default": "N5 = pick(1, 2)\n@triton.jit\ndef k(y, v=N5): tl.store(y, v)",
    "set of texts": "N2 = {'one', 'two', 'three', 'four'}\n@triton.constexpr_function\ndef f(n): return len(N2)\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "local in Python": "N3 = pick(3, 4)\n@triton.constexpr_function\ndef f(n):\n    if n:\n        N3 = 1\n    return N3\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "property that raises": "class P:\n    @property\n    def x(self): raise ValueError\nN6 = [P()]\n@triton.constexpr_function\ndef f(n): return n if n else N6[0].x\n"
                             "@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
    "loop": "N4 = {'self': None}\nN4['self'] = N4\n@triton.constexpr_function\ndef f(n): return len(N4)\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))",
}

# Prints {name: [key, facts]} of the programs in the folder argv[1].
KEYS = '''
import importlib, json, os, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from kiln.triton import _compilation, _index
sys.path.insert(0, sys.argv[1])
target, found = GPUTarget("cuda", 90, 32), {}
for file in sorted(name for name in os.listdir(sys.argv[1]) if name.endswith(".py")):
    program = importlib.import_module(file[:-3])
    more, k = getattr(program, "ARGUMENTS", {}), program.k
    constants = more.get("constants", {})
    signature = {"y": "*fp32", "v": "i32", **more.get("kinds", {}), **{k.arg_names[path[0]]: "constexpr" for path in constants}}
    facts = _index.facts_of(_compilation.source_of(k, signature, constants, {}), make_backend(target).parse_options({}), target)
    found[file] = [_index.key_of(facts), facts]
print(json.dumps(found))
'''


@unittest.skipIf(triton is None, None if triton else absent)
class Dependencies(unittest.TestCase):
    def keys(self, texts):
        """{name: ([key, facts], [key, facts])} of the two programs of each text."""
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            for number, text in enumerate(texts.values()):
                with open(os.path.join(folder, "program%02d.py" % number), "w") as file:
                    file.write(HEAD + text)
            found = []
            for other, seed in (("0", "1"), ("1", "2")):
                done = subprocess.run([sys.executable, "-B", "-c", KEYS, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                                      env=dict(os.environ, OTHER=other, PYTHONHASHSEED=seed, PYTHONPATH=os.path.join(support.BUILD, "python")))
                self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
                found.append(json.loads(done.stdout))
        return {name: tuple(one["program%02d.py" % number] for one in found) for number, name in enumerate(texts)}

    def test_what_is_read_changes_the_key(self):
        for name, (one, other) in self.keys(CHANGED).items():
            with self.subTest(name):
                self.assertNotEqual(one[0], other[0], one[1])

    def test_nothing_else_does(self):
        for name, (one, other) in self.keys(UNCHANGED).items():
            with self.subTest(name):
                self.assertEqual(one[1], other[1])

    def test_a_difference_has_the_name_of_the_source(self):
        from kiln.triton import _index
        (one, other), = self.keys({"": CHANGED["of a module"]}).values()
        self.assertEqual(_index.differences(other[1], one[1]), ["value of module.K: constexpr(8), there constexpr(7)"])


if __name__ == "__main__":
    sys.exit(support.main(__name__))
