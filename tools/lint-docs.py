#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What documents name is there: files and folders of the tree (tests also without `tests/`), and what links lead to."""
import glob
import os
import re
import sys

FOLDERS = r"(?:base|bench|cache|compiler|docs|examples|kernels|python|runtime|targets|tests|tools|\.ci)"
PATH = re.compile(r"(?<![\w/.~@-])(" + FOLDERS + r"/[\w./*+-]*)")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")

found, missing = 0, []


def there(path):
    return bool(glob.glob(path) or glob.glob("tests/" + path))


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
for name in sorted(glob.glob("*.md") + glob.glob("docs/*.md") + glob.glob("docs/man/*") + ["NOTICE"]):
    for number, line in enumerate(open(name, encoding="utf-8"), 1):
        line = line.replace("\\-", "-")
        names = [(m.group(1).rstrip(".-"), m.group(1).rstrip(".-")) for m in PATH.finditer(line)]
        links = LINK.finditer(line) if name.endswith(".md") else ()
        names += [(m.group(1), os.path.join(os.path.dirname(name), m.group(1))) for m in links]
        for text, path in names:
            found += 1
            if not there(path) and not there(path + ".c"):
                missing.append("%s:%d: '%s' is not there" % (name, number, text))
print("\n".join(missing + ["%d names in documents, %d of nothing" % (found, len(missing))]))
sys.exit(1 if missing or not found else 0)
