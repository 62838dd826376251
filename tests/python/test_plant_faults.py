# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/plant-faults.py makes the faults that it says, in code alone, and leaves a tree with changes alone."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
spec = importlib.util.spec_from_file_location("plant_faults", os.path.join(ROOT, "tools", "plant-faults.py"))
plant_faults = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plant_faults)


def faults(line):
    """{kind: [line with a fault]}."""
    found = {}
    for kind, start, end, new in plant_faults.mutations(plant_faults.blank(line)):
        found.setdefault(kind, []).append(line[:start] + new + line[end:])
    return found


class Faults(unittest.TestCase):
    def test_each_kind(self):
        self.assertEqual(faults("  if (a < b && c) return true; // x == 1"),
                         {"comparison": ["  if (a <= b && c) return true; // x == 1"], "logic": ["  if (a < b || c) return true; // x == 1"],
                          "answer": ["  if (a < b && c) return false; // x == 1"], "condition": ["  if (!(a < b && c)) return true; // x == 1"]})
        self.assertEqual(faults("  x[2] = f(a, b) << 1;"),
                         {"arithmetic": ["  x[2] = f(a, b) >> 1;"], "constant": ["  x[3] = f(a, b) << 1;", "  x[2] = f(a, b) << 2;"], "statement": ["  "]})

    def test_texts_and_declarations_stay(self):
        self.assertEqual(faults('  put("a == 1");'), {"statement": ["  "]})
        self.assertEqual(faults("  int x = f(y);"), {})
        self.assertEqual(faults("  return f(y);"), {})

    def test_the_list(self):
        with open(os.path.join(ROOT, plant_faults.LIST), encoding="utf-8") as file:
            rows = [line.split("\t") for line in file.read().split("\n")[2:-1]]
        self.assertEqual([row[0] for row in rows], [str(n) for n in range(1, 61)])
        for _, path, _, kind, _, line, with_fault in rows:
            self.assertIn(path.split("/")[0], plant_faults.TESTS)
            self.assertIn(with_fault.strip(), [fault.strip() for fault in faults(line)[kind]])

    def test_a_tree_with_changes_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(ROOT, "tools", "house"), os.path.join(folder, "tools", "house"))
            for name in ("plant-faults.py", "lint-structure.py"):
                shutil.copy(os.path.join(ROOT, "tools", name), os.path.join(folder, "tools"))
            git = ["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.org"]
            subprocess.run(git + ["init", "-q"], check=True)
            subprocess.run(git + ["add", "."], check=True)
            subprocess.run(git + ["commit", "-qm", "all"], check=True)
            with open(os.path.join(folder, "tools", "lint-structure.py"), "a", encoding="utf-8") as file:
                file.write("# mine\n")
            done = subprocess.run([sys.executable, os.path.join(folder, "tools", "plant-faults.py"), "run"], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (1, "the tree has changes: plant faults in a clone of its own\n"))


if __name__ == "__main__":
    sys.exit(support.main(__name__))
