# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a kernel's source reads is in its key: of each way to a value two programs that differ in that value have different keys, and what is not read changes none. The
keys are made in processes of their own, whose seed of hashes differs. Skipped where Triton is absent."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import support
support.with_zones()

try:
    import torch
    import triton
    import triton.language as tl
    import kiln.triton
except ImportError as missing:
    triton, absent = None, str(missing)
else:
    TABLE, QUEUE = {"a": [1]}, [1, 2]

    @triton.constexpr_function
    def in_table():
        return TABLE["a"][0] + QUEUE[0]

    @triton.jit
    def by_table(y):
        tl.store(y, in_table() * 1.0)

    @triton.constexpr_function
    def number_of_names():
        return len([name for name in os.environ])

    @triton.jit
    def by_environment(y):
        tl.store(y, number_of_names() * 1.0)

    @triton.jit(repr=lambda special: "scaled_by_%d" % special.constants["A"])
    def named_by_itself(y, v, A: tl.constexpr):
        tl.store(y, v * A)

# `pick(a, b)` is a in the one program and b in the other. ARGUMENTS has what `k` is called with besides y and v. A text without a kernel
# is given the one that stores what its function of constants gives.
HEAD = '''
import collections, dataclasses, enum, functools, os, types
import triton, triton.language as tl
OTHER = os.environ["OTHER"] == "1"
def pick(a, b): return b if OTHER else a
module = types.ModuleType("settings")
'''
PYTHON = "\nG0 = [q]\n@triton.constexpr_function\ndef f(n): return G0[0](n)"  # for a Python function q: Triton takes none by name in a function of constants
KERNEL = "\n@triton.jit\ndef k(y, v): tl.store(y, v + f(7))\n"
OTHERS = {"other": "import os\nX = 1 + int(os.environ['OTHER'])\nY = 5\n",
          "code": "import os\nC = 1 + int(os.environ['OTHER'])\ndef g(): return C\n"}  # modules of programs

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
    "value of a member": "class E1(enum.Enum): A = pick(1, 2)\nM1 = tl.constexpr(E1.A)\n@triton.constexpr_function\ndef g(e): return e.value\n@triton.jit\n"
             "def k(y, v): tl.store(y, v + g(M1))",
    "attribute of a member": "class E2(enum.Enum):\n    A = 1\n    def __init__(self, n): self.mass = n * pick(2, 3)\n    def of(self): return self.mass\nL2 = [E2.A]\n"
             "def q(n): return L2[0].of()",
    "method of a member": "class E3(enum.IntEnum):\n    A = 1\n    def of(self): return self + C30\nC30 = pick(1, 2)\nL3 = (E3.A,)\n"
             "def q(n): return L3[0].of()",
    "combined flags": "class E4(enum.Flag):\n    A = 1\n    B = 2\n    C = 4\nL4 = [E4.A | pick(E4.B, E4.C)]\n"
             "def q(n): return L4[0].value",
    "factory of a dictionary": "D5 = collections.defaultdict(pick(lambda: 1, lambda: 2))\ndef q(n): return D5['a']",
    "name in a factory": "C6f = pick(1, 2)\nD6 = collections.defaultdict(\n    lambda: C6f,\n)\ndef q(n): return D6['a']",
    "class derived from a dictionary with a factory": "class D(collections.defaultdict): pass\nD7 = D(pick(int, list))\ndef q(n): return D7['a'] or n",
    "counter": "C8c = collections.Counter(pick('aab', 'abb'))\ndef q(n): return C8c['a']",
    "order of a dictionary": "O9 = collections.OrderedDict(pick([(1, 2), (3, 4)], [(3, 4), (1, 2)]))\ndef q(n): return next(iter(O9))",
    "limit of a queue": "Q10 = collections.deque([1, 2], maxlen=pick(2, 3))\ndef q(n): return Q10.maxlen",
    "derived from int": "class I(int): pass\nI11 = I(5); I11.more = pick(1, 2)\nL11 = [I11]\ndef q(n): return L11[0].more",
    "derived from list": "class L(list):\n    def __iter__(self): return iter(())\nL12 = [L([pick(1, 2)])]\ndef q(n): return L12[0][0]",
    "data class": "@dataclasses.dataclass\nclass P:\n    a: int\n    b: int = pick(1, 2)\nL13 = [P(3, 4)]\n"
             "def q(n): return type(L13[0])(3).b",
    "factory of a data class": "@dataclasses.dataclass(frozen=True)\nclass P:\n    a: list = dataclasses.field(default_factory=pick(lambda: [1], lambda: [2]))\n"
             "L14 = [P]\ndef q(n): return L14[0]().a[0]",
    "state of a data class": "@dataclasses.dataclass(slots=True)\nclass P:\n    a: int\nL15 = [P(pick(1, 2))]\ndef q(n): return L15[0].a",
    "private slot": "class S:\n    __slots__ = ('__v',)\n    def __init__(self, v): self.__v = v\n    def get(self): return self.__v\nO16 = S(pick(1, 2))\n"
             "def q(n): return O16.get()",
    "property": "C17 = pick(1, 2)\nclass S:\n    @property\n    def x(self): return C17\nL17 = [S()]\ndef q(n): return L17[0].x",
    "cached property": "C18 = pick(1, 2)\nclass S:\n    @functools.cached_property\n    def x(self): return C18\nL18 = [S()]\n"
             "def q(n): return L18[0].x",
    "arguments of partial": "P19 = [functools.partial(pow, pick(2, 3))]\ndef q(n): return P19[0](2)",
    "bound method": "class S:\n    def __init__(self, v): self.v = v\n    def get(self): return self.v\nL20 = [S(pick(1, 2)).get]\n"
             "def q(n): return L20[0]()",
    "bound method of a container": "L21 = [{'a': pick(1, 2)}.get]\ndef q(n): return L21[0]('a')",
    "class attribute": "class S: w = [pick(1, 2)]\nL22 = [S]\ndef q(n): return L22[0].w[0]",
    "attribute of a base": "class B: w = pick(1, 2)\nclass S(B): pass\nL23 = [S()]\ndef q(n): return L23[0].w",
    "metaclass": "class M(type):\n    def __len__(self): return pick24\npick24 = pick(1, 2)\nclass S(metaclass=M): pass\nL24 = [S]\n"
             "def q(n): return len(L24[0])",
    "attribute of double underscores": "class S: __version__ = pick(1, 2)\nL25 = [S]\ndef q(n): return L25[0].__version__",
    "closure of a Python function": "def make(c):\n    def g(n): return n * c\n    return g\nL26 = [make(pick(1, 2))]\ndef q(n): return L26[0](n)",
    "closure of a function of constants": "def make(c):\n    @triton.constexpr_function\n    def f(n): return n * c\n    return f\nf = make(pick(1, 2))",
    "wrapper of a function of constants": "C28 = pick(1, 2)\ndef scaled(g):\n    @functools.wraps(g)\n    def inner(n): return g(n) * C28\n    return inner\n"
             "@triton.constexpr_function\n@scaled\ndef f(n): return n",
    "wrapped": "def scaled(g):\n    @functools.wraps(g)\n    def inner(n): return inner.__wrapped__(n)\n    return inner\nC29 = pick(1, 2)\n"
             "def g(n): return n * C29\ng = scaled(g)\ndef q(n): return g(n)",
    "cached function": "C30c = pick(1, 2)\n@functools.lru_cache\ndef g(n): return n * C30c\ndef q(n): return g(n)",
    "default argument": "C31 = pick(1, 2)\n@triton.constexpr_function\ndef f(n, c=[C31]): return n * c[0]",
    "default of a keyword": "C32 = pick(1, 2)\ndef g(n, *, c=C32): return n * c\ndef q(n): return g(n)",
    "default of an inner function": "C33 = pick(1, 2)\n@triton.constexpr_function\ndef f(n):\n    def g(c=C33): return c\n    return g()",
    "attribute of a function": "def g(n): return n\ng.scale = pick(1, 2)\nL34 = [g]\ndef q(n): return L34[0].scale",
    "attribute of a function of constants": "@triton.constexpr_function\ndef f(n): return n * f.scale\nf.scale = pick(1, 2)",
    "name of a comprehension elsewhere": "C36 = pick(1, 2)\ndef q(n): return sum([C36 for C36 in (1, 2)]) + C36",
    "name of an inner function's variable": "C37 = pick(1, 2)\n@triton.constexpr_function\ndef f(n):\n    def g():\n        C37 = 3\n        return C37\n    return g() + C37",
    "one of two lambdas in a line": "L38 = [(lambda: 1, lambda: 2)[OTHER]]\ndef q(n): return L38[0]()",
    "made by exec": "S39 = {'C': 1}\nexec('def g(n): return n + %d' % pick(1, 2), S39)\nL39 = [S39['g']]\n"
             "def q(n): return L39[0](n)",
    "import in a function": "os.environ['IMPORTED'] = os.environ['OTHER']\n@triton.constexpr_function\ndef f(n):\n    import other\n    return other.X",
    "import of a name in a function": "@triton.constexpr_function\ndef f(n):\n    from other import X as Y\n    return Y",
    "attribute by getattr": "module.G = pick(1, 2)\ndef q(n): return getattr(module, 'G')",
    "attribute that is there": "if OTHER: module.H = 1\ndef q(n): return hasattr(module, 'H')",
    "value of a library": "import math\nmath.kiln_test = pick(1, 2)\ndef q(n): return math.kiln_test",
    "variable of the environment": "@triton.constexpr_function\ndef f(n): return int(os.environ['OTHER'])",
    "variable of the environment by get": "def q(n): return int(os.environ.get('OTHER', 3))",
    "variable of the environment by getenv": "from os import getenv\ndef q(n): return int(getenv('OTHER', '3'))",
    "variable of the environment that is there": "os.environ.pop('SOMETIMES', 0)\nif OTHER: os.environ['SOMETIMES'] = '1'\n"
             "def q(n): return 1 if 'SOMETIMES' in os.environ else n",
    "generator function": "C49 = pick(1, 2)\ndef g():\n    yield C49\ndef q(n): return next(g())",
    "array of objects": "import numpy\nA50 = numpy.array([pick(1, 2), None], dtype=object)\ndef q(n): return A50[0]",
    "view of a dictionary": "D51 = types.MappingProxyType({'a': pick(1, 2)})\ndef q(n): return D51['a']",
    "number of Python's library": "import fractions\nF52 = fractions.Fraction(pick(1, 2), 3)\ndef q(n): return F52.numerator",
    "module of the name of one of Python's": "import code\ndef q(n): return code.g()",
    "fourth level of a loop": "A54 = [pick(1, 2)]\nA54.append(A54)\ndef q(n): return A54[1][0]",
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
    "comprehension": "N7 = pick(3, 4)\ndef q(n): return sum([N7 for N7 in (1, 2)])",
    "parameter of a lambda": "N8 = pick(3, 4)\ndef q(n): return (lambda N8: N8)(n)",
    "other attribute of a module that is imported": "@triton.constexpr_function\ndef f(n):\n    import other\n    return other.Y",
    "import that fails": "@triton.constexpr_function\ndef f(n):\n    try:\n        import is_not_there\n    except ImportError:\n        return n",
    "other member of the environment": "def q(n): return int(os.environ.get('HOME_OF_KILN_TESTS', 3))",
    "object with a lock": "import threading\nclass S:\n    def __init__(self): self.lock, self.v = threading.Lock(), 1\n    def get(self): return self.v\nO9n = S()\n"
             "def q(n): return O9n.get()",
    "data class of Python's functions": "@dataclasses.dataclass(frozen=True, order=True)\nclass P:\n    a: int\n    b: tuple = ()\nL10n = [P(1), {P(2)}, frozenset((P(1), P(2)))]\n"
             "def q(n): return L10n[0].a",
    "enumeration": "class E(enum.IntFlag):\n    A = 1\n    B = enum.auto()\n    @classmethod\n    def all(cls): return cls.A | cls.B\n"
             "def q(n): return int(E.all())",
    "libraries": "import math, numpy as np, torch, string, operator, itertools, collections.abc as ca\ndef q(n): return int(math.sqrt(n) + np.prod([1, 2]) + torch.float32.itemsize + len(string.digits) + operator.add(1, 2)) + isinstance(n, ca.Hashable)",
    "pattern": "import re, pathlib, decimal, torch\n"
             "P13 = [re.compile('a+'), pathlib.PurePosixPath('a/b'), decimal.Decimal('1.5'), range(3), slice(1, 2), torch.float16]\n"
             "def q(n): return len(P13)",
}

# Programs with what no key can say, and what is said of it.
UNCLEAR = {
    "globals": ("G1 = 1\n@triton.constexpr_function\ndef f(n): return globals()['G1']",
             "uses builtins.globals"),
    "eval": ("G2 = 1\n@triton.constexpr_function\ndef f(n): return eval('G2')",
             "uses builtins.eval"),
    "globals of a function": ("G3 = 1\ndef g(): pass\ndef q(n): return g.__globals__['G3']",
             "reads g.__globals__"),
    "dictionary of globals": ("G4 = globals()\ndef q(n): return G4['OTHER']",
             "reads all of the module"),
    "module by a variable": ("module.A = 1\ndef q(n): return getattr(module, 'A' if n else 'B')",
             "uses the module settings as a value"),
    "module in a list": ("module.A = 1\nL6u = [module]\ndef q(n): return L6u[0].A",
             "uses the module settings as a value"),
    "importlib": ("import importlib\ndef q(n): return importlib.import_module('other').X",
             "importlib.import_module"),
    "import by a function": ("def q(n): return __import__('other').X",
             "uses builtins.__import__"),
    "loaded modules": ("import sys\ndef q(n): return sys.modules['other'].X",
             "reads sys.modules"),
    "environment": ("@triton.constexpr_function\ndef f(n): return len([one for one in os.environ])",
             "f reads os.environ as a whole"),
    "environment by a variable": ("@triton.constexpr_function\ndef f(n): return len(os.environ['OTH' + 'ER'])",
             "f reads os.environ as a whole"),
    "environment in an object": ("class S:\n    env = os.environ\n    def get(self): return self.env['OTHER']\nO11 = S()\n"
             "def q(n): return O11.get()",
             "reads os.environ as a whole"),
    "time": ("import time\ndef q(n): return int(time.time())",
             "uses time.time"),
    "file": ("def q(n): return len(open('/etc/passwd').read())",
             "open"),
    "path": ("def q(n): return os.path.exists('/etc/passwd')",
             "exists"),
    "generator": ("G14 = (one for one in (1, 2))\ndef q(n): return next(G14)",
             "reads an iterator (generator)"),
    "iterator": ("G15 = iter([1, 2])\ndef q(n): return next(G15)",
             "reads an iterator (list_iterator)"),
    "assigned global": ("G16 = 0\n@triton.constexpr_function\ndef f(n):\n    global G16\n    G16 += 1\n    return G16",
             "f may assign the global G16"),
    "assigned variable around it": ("def make():\n    c = 0\n    @triton.constexpr_function\n    def f(n):\n        nonlocal c\n        c += 1\n        return c\n"
             "    return f\nf = make()",
             "f may assign c"),
    "object that shows nothing": ("import weakref\nclass S: pass\nO18 = S()\nL18u = [weakref.ref(O18)]\ndef q(n): return L18u[0]() is None",
             "reads an object of which nothing says what is in it (weakref.ReferenceType)"),
    "properties of the machine": ("import torch\ndef q(n): return torch.cuda.device_count()",
             "uses torch.cuda.device_count"),
    "import in what exec made": ("S20 = {}\nexec('def g():\\n import other\\n return other.X', S20)\nL20u = [S20['g']]\n"
             "def q(n): return L20u[0]()",
             "has no source and a statement IMPORT_NAME"),
    "constant argument": ("@triton.jit\ndef k(y, v, A: tl.constexpr): tl.store(y, v)\nARGUMENTS = {'constants': {(2,): os.environ}}",
             "constant A reads os.environ as a whole"),
}

SECRET = "hunter2"
SECRETS = {
    "variable that is read": "@triton.constexpr_function\ndef f(n): return len(os.environ['SECRET'])",
    "copy of the environment": "E1 = dict(os.environ)\n@triton.constexpr_function\ndef f(n): return len(E1)",
}

# Prints {name: [key, facts]} of the programs in the folder argv[1].
KEYS = '''
import importlib, json, os, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from kiln.triton import _compilation, _index
sys.path.insert(0, sys.argv[1])
target, found = GPUTarget("cuda", 90, 32), {}
for file in sorted(name for name in os.listdir(sys.argv[1]) if name.startswith("program")):
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
    @classmethod
    def setUpClass(cls):
        """{name: ([key, facts], [key, facts])} of the two programs of each text, of all in two processes. The environment has a secret."""
        every = {**CHANGED, **UNCHANGED, **{name: text for name, (text, _) in UNCLEAR.items()}, **SECRETS}
        assert len(every) == sum(map(len, (CHANGED, UNCHANGED, UNCLEAR, SECRETS))), "two texts have one name"
        found = []
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            for number, text in enumerate(every.values()):
                with open(os.path.join(folder, "program%03d.py" % number), "w") as file:
                    file.write(HEAD + text + (PYTHON if "def q(n)" in text else "") + ("" if "def k(" in text else KERNEL))
            for name, text in OTHERS.items():
                with open(os.path.join(folder, name + ".py"), "w") as file:
                    file.write(text)
            for other, seed in (("0", "1"), ("1", "2")):
                done = subprocess.run([sys.executable, "-B", "-c", KEYS, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                                      env=dict(os.environ, OTHER=other, SECRET=SECRET, PYTHONHASHSEED=seed, PYTHONPATH=os.path.join(support.BUILD, "python")))
                assert done.returncode == 0, done.stderr.decode(errors="replace")
                found.append(json.loads(done.stdout))
        cls.found = {name: tuple(one["program%03d.py" % number] for one in found) for number, name in enumerate(every)}

    def test_what_is_read_changes_the_key(self):
        for name in CHANGED:
            with self.subTest(name):
                one, other = self.found[name]
                self.assertNotEqual(one[0], other[0], one[1])

    def test_nothing_else_does(self):
        for name in UNCHANGED:
            with self.subTest(name):
                one, other = self.found[name]
                self.assertEqual(one[1], other[1])

    def test_keys_that_say_all_have_nothing_unclear(self):
        for name in (*CHANGED, *UNCHANGED):
            with self.subTest(name):
                both = self.found[name]
                self.assertEqual([one[1].get("unclear") for one in both], [None, None])

    def test_what_no_key_can_say_is_said_and_never_fits(self):
        for name in UNCLEAR:
            with self.subTest(name):
                one, other = self.found[name]
                self.assertIn(UNCLEAR[name][1], one[1].get("unclear", "nothing"))
                self.assertNotEqual(one[0], other[0])

    def test_facts_have_no_secrets(self):
        for name in self.found:
            with self.subTest(name):
                both = self.found[name]
                self.assertNotIn(SECRET, json.dumps(both))

    def test_a_difference_has_the_name_of_the_source(self):
        from kiln.triton import _index
        one, other = self.found["of a module"]
        self.assertEqual(_index.differences(other[1], one[1]), ["value of module.K: constexpr(8), there constexpr(7)"])


@unittest.skipIf(triton is None, None if triton else absent)
class Launches(unittest.TestCase):
    """What launches and bundles of this process do."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kiln-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "app.kbundle")

    def value(self, jitted, *arguments):
        y = torch.zeros(1, dtype=torch.float64)
        jitted[(1,)](y, *arguments)
        return y.item()

    def load(self):
        """As a process that starts from the bundle."""
        kiln.triton.load(self.path, miss="error")
        self.addCleanup(kiln.triton.disable)
        self.addCleanup(kiln.triton.load)

    def test_what_changes_in_place_is_refused(self):
        jitted = kiln.triton.jit(by_table)
        for _ in range(3):
            self.assertEqual(self.value(jitted), 2)
        for change, undo in ((lambda: TABLE["a"].append(7), TABLE["a"].pop), (lambda: QUEUE.reverse(), lambda: QUEUE.reverse())):
            change()
            with self.assertRaisesRegex(RuntimeError, r"(TABLE|QUEUE) has changed since we compiled this kernel, from .*1.* to .*1"):
                self.value(jitted)
            undo()
            self.assertEqual(self.value(jitted), 2)

    def test_a_kernel_that_names_itself(self):
        jitted = kiln.triton.jit(named_by_itself)
        self.assertEqual([self.value(jitted, 7, 3), self.value(jitted, 7, 4)], [21, 28])
        self.assertEqual({one.name for one in jitted.variants.values()}, {"named_by_itself"})
        library = kiln.triton.export(named_by_itself, {"y": "*fp64", "v": "i32"}, {"A": 5}, targets=["host"], output=self.path)
        self.assertEqual(list(library.kernels), ["named_by_itself"])
        kiln.triton.save(self.path)
        self.load()
        self.assertEqual(self.value(kiln.triton.jit(named_by_itself), 7, 3), 21)

    def test_a_kernel_whose_key_does_not_say_all_is_not_found_in_a_bundle(self):
        self.value(kiln.triton.jit(by_environment))
        self.value(kiln.triton.jit(by_table))
        with unittest.mock.patch("sys.stderr") as said:
            kiln.triton.save(self.path)
        self.assertRegex("".join(call.args[0] for call in said.write.call_args_list),
                         "no launch finds kernel 'by_environment' in it, because no key says all .*: number_of_names reads os.environ as a whole")
        self.load()
        self.assertEqual(self.value(kiln.triton.jit(by_table)), 2)
        self.assertRaisesRegex(kiln.NotFound, "kernel 'by_environment': no bundle has it, .*: number_of_names reads os.environ as a whole", self.value,
                               kiln.triton.jit(by_environment))


if __name__ == "__main__":
    sys.exit(support.main(__name__))
