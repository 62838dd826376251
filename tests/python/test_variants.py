# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The look-up of @kiln.jit that Python does not see: what it finds is what Triton's own binder tells apart, and it asks Python again as soon as anything
has changed. Skipped where Triton or PyTorch is absent."""
import gc
import random
import sys
import threading
import types
import unittest
import weakref

import support
support.with_zones()

import kiln  # noqa: E402
from kiln._core import Counter, Plan, Variants

try:
    import torch
    import triton
    import triton.language as tl
    from triton import knobs
    from triton.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature
    import kiln.triton
except ImportError as missing:
    triton, absent = None, str(missing)

SHIFT = 3

if triton is not None:
    @triton.jit
    def kinds(x, a, b=5, C: tl.constexpr = None, D: tl.constexpr = 0.0):
        pass

    @triton.jit
    def add_to(x, n, STEP: tl.constexpr):
        i = tl.arange(0, 16)
        tl.store(x + i, tl.load(x + i) + n + STEP)

    SHIFT = tl.constexpr(3)

    @triton.jit
    def shifted(x, n):
        i = tl.arange(0, 16)
        tl.store(x + i, tl.load(x + i) + n + SHIFT)


def told_apart(value):
    """A constant with its type; equal floats by their bits."""
    return type(value), repr(value) if isinstance(value, float) else value


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if triton is None:
            raise unittest.SkipTest(absent)


class Kinds(Cases):
    """Against Triton's binder: arguments that it tells apart never meet in one entry."""

    def setUp(self):
        self.kernel = kiln.Library(BUNDLE).device("null").kernel("gridless")  # one pointer
        self.binder = create_function_from_signature(kinds.signature, kinds.params, make_backend(kiln.triton.READ_FOR))
        self.asked = 0
        self.variants = Variants(self.compile, lambda compiled: (), tuple(kinds.arg_names), (3, 4), {"b": 5, "C": None, "D": 0.0}, tl.dtype)

    def specialization(self, *arguments, **named):
        _, found, options = self.binder(*arguments, **named)
        return [(kind, told_apart(value)) for kind, value in found], sorted((name, told_apart(value)) for name, value in options.items())

    def compile(self, *arguments, grid, **named):
        self.asked += 1
        compiled = types.SimpleNamespace(what=self.specialization(*arguments, **named))
        compiled.plan = Plan(self.kernel, compiled, (0,), Counter())
        return compiled

    def test_random_calls(self):
        tensors = [torch.zeros(64, dtype=dtype)[at:] for dtype in (torch.int32, torch.float32, torch.float16, torch.bool) for at in (0, 1, 16)]
        tensors += [torch.zeros(8, 8).t(), torch.zeros(4, 4)[::2], torch.nn.Parameter(torch.zeros(16)), torch.zeros(())]
        numbers = [0, 1, 2, 15, 16, 17, -16, -1, 2**31 - 1, 2**31, 2**31 + 16, -2**31, -2**31 - 1, 2**62, 2**63, 2**64 - 1, True, False, 0.0, 1.0, 16.0, None]
        constants = [0, 1, True, False, 1.0, 0.0, -0.0, None, "relu", "".join(["re", "lu"]), "gelu", tl.float16, tl.float32, tl.int32, 2**40, (1, 2), (True, 2)]
        options = [{}, {}, {"num_warps": 4}, {"num_warps": 8}, {"num_stages": 4}, {"num_warps": 4, "num_stages": 4}, {"num_stages": 4, "num_warps": 4},
                   {"enable_fp_fusion": True}, {"enable_fp_fusion": 1}, {"maxnreg": None}]
        choose, hits, calls = random.Random(13), 0, 6000
        for _ in range(calls):
            arguments, named = [choose.choice(tensors), choose.choice(numbers)], dict(choose.choice(options))
            if choose.random() < 0.5:
                named["b"] = choose.choice(numbers[:6])
            elif choose.random() < 0.5:
                arguments.append(choose.choice(numbers[:6]))
            for name in "CD":
                if choose.random() < 0.4:
                    named[name] = choose.choice(constants)
            before = self.asked
            found = self.variants[(1,)](*arguments, **named)
            self.assertEqual(found.what, self.specialization(*arguments, **named), (arguments, named))
            hits += self.asked == before
        self.assertGreater(hits, calls // 20)
        self.assertEqual(self.variants.launches, hits)

    def test_one_thing_at_a_time(self):
        x = torch.zeros(64, dtype=torch.int32)
        def asks(*arguments, **named):
            before = self.asked
            self.variants[(1,)](*arguments, **named)
            return self.asked - before
        self.assertEqual([asks(x, n) for n in (2, 3, 16, 32, 1, 1, 2**31, 2**33, 2**31 + 1)], [1, 0, 1, 0, 1, 0, 1, 0, 1])
        self.assertEqual([asks(x, 2, C=c) for c in (True, True, 1, 1, 1.0, 0.0, -0.0)], [1, 0, 1, 0, 1, 1, 1])
        self.assertEqual([asks(x, 2, C=c) for c in ("ab", "".join("ab"), "ba")], [1, 0, 1])
        self.assertEqual([asks(y, 7, b=7) for y in (x, x[4:], x[1:], x[2:], x.float(), x.view(8, 8).t())], [0, 0, 1, 0, 1, 0])
        self.assertEqual([asks(x, 7, num_warps=w) for w in (4, 4, 8)], [1, 0, 1])
        self.assertEqual([asks(x=x, a=a, b=5) for a in (9, 11)], [0, 0])
        self.assertEqual([asks(x, 2, C=(1, 2)) for _ in range(2)], [1, 1], "tuples are Python's")

    def test_what_is_not_plain_goes_to_python(self):
        x = torch.zeros(64, dtype=torch.int32)
        for named in ({"stream": None}, {"warmup": True}):
            self.asked = 0
            calls = []
            variants = Variants(lambda *a, **k: calls.append(k), lambda compiled: (), ("x",), (), {}, tl.dtype)
            variants(x, grid=(1,), **named)
            variants(x, grid=(1,), **named)
            self.assertEqual(calls, [{"grid": (1,), **named}] * 2)

    def test_errors_leave_everything_as_it_was(self):
        x = torch.zeros(64, dtype=torch.int32)
        self.variants[(1,)](x, 2)
        self.assertRaisesRegex(ValueError, "grid: expected one to three integers", self.variants[(1, 2, 3, 4)], x, 2)
        self.assertRaisesRegex(ZeroDivisionError, "division", self.variants[lambda meta: 1 / 0], x, 2)
        self.assertRaises(TypeError, self.variants[(1,)], x, 2, x=x)
        self.assertRaises(TypeError, self.variants[(1,)], x)
        self.assertEqual(self.variants.launches, 0)
        self.variants[lambda meta: (len(meta) - 4,)](x, 2)
        self.assertEqual(self.variants.launches, 1)

    def test_a_grid_may_launch_and_forget(self):
        x, seen = torch.zeros(64, dtype=torch.int32), []
        self.variants[(1,)](x, 2)
        def grid(meta):
            for i in range(50):  # the table grows while the outer launch is under way
                self.variants[(1,)](x, 2, C=i)
            seen.append(meta)
            return (1,)
        self.variants[grid](x, 3)
        self.assertEqual(len(seen), 1)
        self.assertIs(seen[0]["x"], x)
        self.assertEqual({name: value for name, value in seen[0].items() if name != "x"}, {"a": 3, "b": 5, "C": None, "D": 0.0})

    def test_threads(self):
        x, wrong = torch.zeros(64, dtype=torch.int32), []
        def work(seed):
            choose = random.Random(seed)
            for _ in range(400):
                number = choose.randrange(60)
                found = self.variants[(1,)](x, 2, C=number)
                if found.what != self.specialization(x, 2, C=number):
                    wrong.append(number)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Guards(Cases):
    """A launch that was found without Python does not outlive what it was found under."""

    def launch(self, fn, n=2, **named):
        x = torch.zeros(16, dtype=torch.int32)
        fn[(1,)](x, n, **named)
        return x[0].item()

    def without_python(self, fn, *arguments, **named):
        before = Variants.launched()
        return self.launch(fn, *arguments, **named), Variants.launched() - before

    def test_a_second_launch_does_not_ask_python(self):
        fn = kiln.triton.jit(add_to)
        self.assertEqual([self.without_python(fn, n, STEP=1) for n in (2, 3, 5, 16, 1, 1)], [(3, 0), (4, 1), (6, 1), (17, 0), (2, 0), (2, 1)])
        self.assertEqual((fn.launches, sum(one.launches for one in fn.variants.values())), (6, 6))
        x = torch.zeros(16, dtype=torch.int32)
        version = x._version
        fn[(1,)](x, 2, STEP=1)
        self.assertEqual((x[0].item(), x._version), (3, version + 1))

    def test_hooks_that_come_later_are_called(self):
        fn, seen = kiln.triton.jit(add_to), []
        for _ in range(2):
            self.launch(fn, STEP=1)
        hook = lambda metadata: seen.append(metadata.get()["name"])
        knobs.runtime.launch_enter_hook.add(hook)
        try:
            self.assertEqual(self.without_python(fn, STEP=1), (3, 0))
        finally:
            knobs.runtime.launch_enter_hook.remove(hook)
        self.assertEqual(self.without_python(fn, STEP=1), (3, 1))
        knobs.runtime.launch_exit_hook = hook
        try:
            self.assertEqual(self.without_python(fn, STEP=1), (3, 0))
        finally:
            del knobs.runtime.launch_exit_hook
        self.assertEqual(len(seen), 2)
        calls = []
        fn.add_pre_run_hook(lambda *arguments, **named: calls.append(named))
        try:
            self.assertEqual([self.without_python(fn, STEP=1), self.without_python(fn, STEP=1)], [(3, 0), (3, 0)])
        finally:
            fn.fn.pre_run_hooks.clear()
        self.assertEqual(calls, [{"STEP": 1}] * 2)

    def test_a_changed_global_is_seen(self):
        global SHIFT
        fn, old = kiln.triton.jit(shifted), SHIFT
        self.assertEqual([self.without_python(fn), self.without_python(fn)], [(5, 0), (5, 1)])
        try:
            SHIFT = tl.constexpr(4)
            self.assertRaisesRegex(RuntimeError, "SHIFT has changed", self.launch, fn)
        finally:
            SHIFT = old
        self.assertEqual(self.without_python(fn), (5, 1))

    def test_a_changed_source_is_compiled_again(self):
        fn = kiln.triton.jit(add_to)
        source = add_to._src
        self.assertEqual([self.launch(fn, STEP=1), self.launch(fn, STEP=1)], [3, 3])
        try:
            add_to._unsafe_update_src(source.replace("+ STEP", "- STEP"))
            self.assertEqual([self.without_python(fn, STEP=1), self.without_python(fn, STEP=1)], [(1, 0), (1, 1)])
        finally:
            add_to._unsafe_update_src(source)
        self.assertEqual(self.without_python(fn, STEP=1), (3, 0))

    def test_functions_are_collected(self):
        fn = kiln.triton.jit(add_to)
        for _ in range(2):
            self.launch(fn, STEP=1)
        compiled = next(iter(fn.variants.values()))
        identity = compiled.identity
        kiln.triton._launcher.variants.pop((compiled.name, identity, compiled.place.target))
        gone = [weakref.ref(fn), weakref.ref(fn.run), weakref.ref(compiled)]
        del fn, compiled
        gc.collect()
        self.assertEqual([one() for one in gone], [None] * 3)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
