#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs a folder as a wheel: wheel-pack.py OUT NAME VERSION TAG FOLDER LICENSES SUMMARY [requires=PACKAGE] [script=NAME=MODULE:FUNCTION]... Members are in order and
dated 1980, so the same files give the same bytes. README.md is the description. Prints the wheel's path."""
import base64
import hashlib
import os
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
METADATA, README = os.path.join(ROOT, "python", "METADATA.in"), os.path.join(ROOT, "README.md")


def members(folder, under=""):
    """(name in the wheel, path) of every file, in order."""
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            whole = os.path.join(path, name)
            yield under + os.path.relpath(whole, folder), whole


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\n" % (name, digest, len(data))


def main(out, name, version, tag, folder, licenses, summary, *more):
    requires = [word.partition("=")[2] for word in more if word.startswith("requires=")]
    scripts = [word.partition("=")[2].replace("=", " = ", 1) for word in more if word.startswith("script=")]
    info = "%s-%s.dist-info/" % (name, version)
    with open(METADATA) as file:
        metadata = file.read().replace("@NAME@", name.replace("_", "-")).replace("@VERSION@", version).replace("@SUMMARY@", summary)
    metadata += "".join("Requires-Dist: %s (==%s)\n" % (package, version) for package in requires)
    with open(README) as file:
        metadata += "Description-Content-Type: text/markdown\n\n" + file.read()
    wheel = "Wheel-Version: 1.0\nGenerator: kiln\nRoot-Is-Purelib: false\nTag: %s\n" % tag
    content = [(at, open(path, "rb").read(), os.access(path, os.X_OK)) for at, path in members(folder)]
    content += [(at, open(path, "rb").read(), False) for at, path in members(licenses, info + "licenses/")]
    content += [(info + "METADATA", metadata.encode(), False), (info + "WHEEL", wheel.encode(), False)]
    if scripts:
        content.append((info + "entry_points.txt", ("[console_scripts]\n" + "".join(line + "\n" for line in scripts)).encode(), False))
    record = "".join(record_line(at, data) for at, data, _ in content) + info + "RECORD,,\n"
    content.append((info + "RECORD", record.encode(), False))
    path = os.path.join(out, "%s-%s-%s.whl" % (name, version, tag))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for at, data, is_program in content:
            entry = zipfile.ZipInfo(at, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
