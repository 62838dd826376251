# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The formatter leaves comments as they are: drawn tables, with rows wider than code may be, come back byte by byte. Skipped where clang-format 14 is absent."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FORMATTER = shutil.which("clang-format-14")


def table(rng):
    """Rows of columns that are aligned, with marks in front as comments of files and of declarations have them."""
    mark = rng.choice(["//", "///"])
    widths = [rng.randint(3, 40) for _ in range(rng.randint(2, 5))]
    cell = lambda width: "".join(rng.choice("abc  x:{}(),;*-") for _ in range(rng.randint(1, width))).strip() or "x"
    rows = [mark + " " * rng.randint(2, 6) + "  ".join(cell(w).ljust(w) for w in widths).rstrip() for _ in range(rng.randint(2, 9))]
    return "\n".join([mark + " A head:", mark] + rows + [mark, mark + " and what follows."])


@unittest.skipUnless(FORMATTER, "clang-format-14 is not installed")
class Format(unittest.TestCase):
    def test_tables_in_comments_stay(self):
        seed = int(os.environ.get("KILN_SEED", "1"))
        print("seed", seed)
        rng = random.Random(seed)
        text = "\n\n".join("%s\nint v%d;" % (table(rng), i) for i in range(200)) + "\n"
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(ROOT, ".clang-format"), folder)
            path = os.path.join(folder, "tables.h")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run([FORMATTER, "-i", path], check=True)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
