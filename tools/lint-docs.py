#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What documents name exists: files and folders of the tree (tests also without `tests/`), targets of links, functions that are written `name()`."""
import glob
import os
import re
import sys

FOLDERS = r"(?:base|bench|cache|compiler|docs|examples|kernels|python|runtime|targets|tests|tools|\.ci)"
PATH = re.compile(r"(?<![\w/.~@-])(" + FOLDERS + r"/[\w./*+-]*)")
FUNCTION = re.compile(r"`((?:kiln|ir|gpu|nvptx)_\w+)\(\)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")

found, missing = 0, []


def there(path):
    return bool(glob.glob(path) or glob.glob("tests/" + path))


def words_of_sources():
    """All words of C sources and headers."""
    words = set()
    for folder in ("base", "cache", "compiler", "runtime", "targets", "tools", "tuner"):
        for path in glob.glob(folder + "/**/*.[ch]", recursive=True):
            with open(path, encoding="utf-8") as file:
                words.update(re.findall(r"\w+", file.read()))
    return words


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
words = words_of_sources()
for name in sorted(glob.glob("*.md") + glob.glob("docs/*.md") + glob.glob("docs/man/*") + ["NOTICE"]):
    for number, line in enumerate(open(name, encoding="utf-8"), 1):
        line = line.replace("\\-", "-")
        names = [(m.group(1).rstrip(".-"), m.group(1).rstrip(".-")) for m in PATH.finditer(line)]
        links = LINK.finditer(line) if name.endswith(".md") else ()
        names += [(m.group(1), os.path.join(os.path.dirname(name), m.group(1))) for m in links]
        for function in FUNCTION.findall(line):
            found += 1
            if function not in words:
                missing.append("%s:%d: no function is called '%s'" % (name, number, function))
        for text, path in names:
            found += 1
            if not there(path) and not there(path + ".c"):
                missing.append("%s:%d: '%s' is not there" % (name, number, text))
print("\n".join(missing + ["%d names in documents, %d of nothing" % (found, len(missing))]))
sys.exit(1 if missing or not found else 0)
