# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The comparison with a run under Triton (peers/): which tests are run, that the baseline comes first, and what counts as a failure. A program in pytest's
place has a suite of four functions, of which Triton and Kiln each fail some."""
import os
import subprocess
import sys
import tempfile
import unittest

import support

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
FAKE = '''
import json, os, sys
wish = json.loads(os.environ["KILN_PEERS"])
ids = ["tests/test_%s.py::test_%s[%d]" % (f, f, i) for f in "abcd" for i in range(9)]
broken = json.loads(os.environ["BROKEN"])[wish["mode"]] if wish["mode"] != "ids" else []
if wish["mode"] == "ids":
    print("\\n".join(reversed(ids)) + "\\nERROR tests/test_z.py::none\\n36 tests collected")
def row(name):
    ours = wish["mode"] == "run"
    return {"id": name, "outcome": "failed" if name in broken else "passed", "error": "wrong\\nresult", "kiln": int(ours), "triton": int(not ours or name == os.environ.get("FOREIGN")),
            "kernels": [name[:20]] if ours else [], "seconds": 0.01}
def write(it):
    line = json.dumps(it) + "\\n"
    os.write(wish["rows"], line.encode()) if wish["rows"] is not None else open(wish["out"], "a").write(line)
if wish["ids"]:
    for name in open(wish["ids"]).read().split():
        write(row(name))
elif wish["orders"] is not None:
    write({"ready": 36})
    for line in os.fdopen(wish["orders"]):
        if line.strip() in os.environ.get("DIES", "-"):
            sys.exit(1)
        write(row(line.strip()))
'''
IN_BOTH, IN_TRITON, IN_KILN = ("tests/test_%s.py::test_%s[%d]" % (name, name, i) for name, i in (("a", 1), ("b", 2), ("c", 8)))


class Peers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        os.makedirs(os.path.join(self.folder, "fake", "pytest"))
        # With __init__.py it comes before an installed pytest.
        for name, text in (("__init__.py", ""), ("__main__.py", FAKE)):
            with open(os.path.join(self.folder, "fake", "pytest", name), "w") as file:
                file.write(text)

    def run_it(self, status, script, *words, triton=(IN_BOTH, IN_TRITON), run=(IN_BOTH, IN_KILN), **environment):
        lists = "{%s}" % ", ".join('"%s": [%s]' % (mode, ", ".join('"%s"' % one for one in its)) for mode, its in (("triton", triton), ("run", run)))
        done = subprocess.run([sys.executable, os.path.join(PEERS, script), *words], cwd=self.folder, text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=dict(os.environ, BROKEN=lists, PYTHONPATH=os.path.join(self.folder, "fake"), **environment))
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_ids_are_those_of_the_checkout(self):
        ids = self.run_it(0, "run.py", "flaggems", ".", "ids").splitlines()
        self.assertEqual(ids, ["tests/test_%s.py::test_%s[%d]" % (f, f, i) for f in "abcd" for i in range(9)])

    def test_the_baseline_comes_first(self):
        out = self.run_it(1, "run.py", "flaggems", ".", "both", "--out", "o").splitlines()
        self.assertEqual(out[0].split(";")[0], "34 passed, 2 failed, 0 skipped, 0 error")
        self.assertIn("0 by Kiln, 36 by Triton", out[0])
        self.assertEqual(out[2], IN_KILN + ": failed, 1 launches by Kiln, 0 by Triton: wrong result")
        self.assertEqual(out[3][:74], "33 of 34 tests with launches that pass under Triton pass under Kiln (97.1 "[:74])
        self.assertEqual(len(out), 4)

    def test_what_fails_under_triton_is_no_failure(self):
        self.assertIn("34 of 34 tests", self.run_it(0, "run.py", "flaggems", ".", "both", "--out", "o", run=(IN_BOTH, IN_TRITON)))

    def test_launches_of_triton_are_failures(self):
        self.assertIn("33 of 34 tests", self.run_it(1, "run.py", "flaggems", ".", "both", "--out", "o", run=(), FOREIGN=IN_KILN))

    def test_nothing_to_compare_is_a_failure(self):
        every = ["tests/test_%s.py::test_%s[%d]" % (f, f, i) for f in "abcd" for i in range(9)]
        self.assertIn("0 of 0 tests", self.run_it(1, "run.py", "flaggems", ".", "both", "--out", "o", triton=every))

    def test_a_lease_runs_both_and_the_next_goes_on(self):
        words = ["lease.py", "out", "flaggems=.", "--workers", "2", "--scratch", self.folder]
        out = self.run_it(0, *words, "--modes", "triton")
        self.assertIn("flaggems.triton: 36 ended", out)
        out = self.run_it(0, *words, DIES="tests/test_d.py::test_d[4]")
        self.assertIn("flaggems.triton: 0 ended", out)
        self.assertIn("flaggems.run: 36 ended", out)
        self.assertIn("flaggems: of 34 tests with launches that pass under Triton 34 ran with Kiln, 32 pass", out)
        self.assertIn("  f %s: wrong result\n" % IN_KILN, out)
        self.assertIn("  d tests/test_d.py::test_d[4]: exit 1\n", out)
        self.assertNotIn("  f " + IN_BOTH, out)
        self.assertEqual(self.run_it(0, "results.py", "out"), out[out.index("flaggems, 36 tests, triton"):])

    def test_suites_that_come_first_have_the_processes_until_their_time_is_up(self):
        words = ["lease.py", "out", "liger=.", "flaggems=.", "helion=.", "--workers", "1", "--modes", "run", "--scratch", self.folder, "--first", "flaggems=400,helion=0"]
        out = self.run_it(0, *words)
        for text in "flaggems.run: 36 ended", "liger.run: 36 ended", "helion.run: 0 ended in 0 s, 36 left":
            self.assertIn(text, out)
        ended = {suite: os.stat(os.path.join(self.folder, "out", suite + ".run.jsonl")).st_mtime_ns for suite in ("flaggems", "liger")}
        self.assertLess(ended["flaggems"], ended["liger"])

    def test_five_minutes_are_measured_with_what_passes_under_triton(self):
        words = ["five_minutes.py", "five", ".", "--workers", "2"]
        out = [line for line in self.run_it(0, *words).splitlines() if "; ready " in line]
        self.assertEqual([line[:34] for line in out], ["%-11s  34 of 34 ended; ready" % leg for leg in ("cold.run", "cold.triton", "warm.run", "warm.triton")])
        self.assertIn("failed 1 passed 33; launches: 34 by Kiln, 0 by Triton", out[0])
        self.assertIn("passed 34; launches: 0 by Kiln, 34 by Triton", out[1])
        self.assertIn("warm.run     34 of 34 ended", self.run_it(0, *words, "--legs", "warm.run", triton=()))  # the same tests as before

    def test_excluded_tests_have_reasons_and_are_there(self):
        sys.path.insert(0, PEERS)
        import run
        path = os.path.join(self.folder, "excluded.txt")
        for text, is_right in ("# none\n", True), ("liger a::b: why\n", True), ("liger a::b\n", False), ("liger a::b: \n", False), ("other a::b: why\n", False):
            with open(path, "w") as file:
                file.write(text)
            if is_right:
                self.assertEqual(dict(run.excluded(path)), {"liger": {"a::b": "why"}} if "why" in text else {})
            else:
                self.assertRaises(SystemExit, run.excluded, path)
        self.assertEqual(run.without({"b::c": "why"}, ["b::c[2]", "a", "b::d", "b::c"]), ["a", "b::d"])
        self.assertRaises(SystemExit, run.without, {"b::x": "why"}, ["b::c[2]", "a"])
        run.excluded()  # ours


if __name__ == "__main__":
    sys.exit(support.main(__name__))
