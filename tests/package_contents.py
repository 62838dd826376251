#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names what the packages of Debian lack: tests/package_contents.py FOLDER, which has what tools/deb.sh made. Neither `make install` nor debian/*.install is asked: names that are
not in the tree are a list here, the others follow from its sources. Ends with the line `N passed, N failed, N skipped`, of files."""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
PYTHON = "/usr/lib/python3/dist-packages/"
# What is built, or gets another name; `~` stands for the folder of libraries.
NAMED = {
    "libkiln0": "~libkiln.so.0 ~libkiln-more.so.0 ~libkiln-observe.so.0 ~libkiln-verify.so.0",
    "libkiln-dev": "~libkiln.so ~libkiln-observe.so ~libkiln-verify.so ~libkiln.a ~libkiln-observe.a ~libkiln-verify.a ~pkgconfig/kiln.pc ~pkgconfig/kiln-observe.pc ~pkgconfig/kiln-verify.pc"
                   " ~cmake/kiln/kilnConfig.cmake ~cmake/kiln/kilnConfigVersion.cmake ~cmake/kiln/kilnBundle.cmake ~cmake/kiln/kilnOpen.h.in"
                   " /usr/include/kiln/kiln.h /usr/include/kiln/kiln_observe.h /usr/include/kiln/kiln_verify.h /usr/include/kiln/base/status.def /usr/include/kiln/base/status_code.h",
    "kiln": "/usr/bin/kiln /usr/libexec/kiln/kiln-codegen /usr/libexec/kiln/kiln-tool /usr/libexec/kiln/kiln-remote /usr/libexec/kiln/kiln-ptx-driver.so /usr/share/doc/kiln/NOTICE"
            " /usr/share/doc/kiln/README.md /usr/share/doc/kiln/SECURITY.md /usr/share/bash-completion/completions/kiln /usr/share/zsh/vendor-completions/_kiln"
            " /usr/share/fish/vendor_completions.d/kiln.fish /usr/share/kiln/bazel/kilnOpen.h.in",
    "python3-kiln": PYTHON + "kiln/_core.abi3.so " + PYTHON + "kiln.pth",
}
# Sources whose files all go to one folder of a package, with the same names.
FOLDERS = (("docs/man/*.1", "kiln", "/usr/share/man/man1"), ("docs/man/*.5", "kiln", "/usr/share/man/man5"), ("docs/man/*.3", "libkiln-dev", "/usr/share/man/man3"), ("docs/*.md", "kiln", "/usr/share/doc/kiln"),
           ("kernels/*.kiln", "kiln", "/usr/share/kiln/kernels"), ("kernels/tuned/*", "kiln", "/usr/share/kiln/kernels/tuned"), ("tools/bazel/*", "kiln", "/usr/share/kiln/bazel"),
           ("examples/saxpy/*", "kiln", "/usr/share/doc/kiln/examples/saxpy"), ("examples/transformer/*", "kiln", "/usr/share/doc/kiln/examples/transformer"),
           ("python/kiln/*.py*", "python3-kiln", PYTHON + "kiln"), ("python/kiln/py.typed", "python3-kiln", PYTHON + "kiln"), ("python/kiln/triton/*.py*", "python3-kiln", PYTHON + "kiln/triton"))
PACKAGES = tuple(NAMED)


def expected():
    """The paths of each package; a manual page or document may be compressed."""
    paths = {name: [path.replace("~", LIBRARIES) for path in text.split()] for name, text in NAMED.items()}
    for pattern, package, folder in FOLDERS:
        sources = [one for one in sorted(glob.glob(os.path.join(ROOT, pattern))) if os.path.isfile(one)]
        if not sources:
            raise SystemExit("package_contents: nothing is called %s" % pattern)
        paths[package] += ["%s/%s" % (folder, os.path.basename(one)) for one in sources]
    with open(os.path.join(ROOT, "Makefile")) as file:
        version = re.search(r"(?m)^VERSION := (.*)$", file.read()).group(1)
    paths["python3-kiln"].append(PYTHON + "kiln_runtime-%s.dist-info/METADATA" % version)
    for package in PACKAGES:
        paths[package] += ["/usr/share/doc/%s/copyright" % package, "/usr/share/doc/%s/changelog.Debian.gz" % package]
    return paths


def contents(folder, package):
    found = glob.glob(os.path.join(folder, package + "_*.deb"))
    if len(found) != 1:
        raise SystemExit("package_contents: expected one %s_*.deb in %s, found %d" % (package, folder, len(found)))
    text = subprocess.run(["dpkg-deb", "-c", found[0]], check=True, stdout=subprocess.PIPE, env={**os.environ, "TZ": "UTC"}).stdout.decode()
    return {line.split(None, 5)[5].split(" -> ")[0][1:] for line in text.splitlines()}


def main(folder):
    passed = failed = 0
    for package, paths in expected().items():
        there = contents(folder, package)
        for path in paths:
            if path in there or path + ".gz" in there:
                passed += 1
            else:
                failed += 1
                print("%s: expected %s, which is not in it" % (package, path))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: tests/package_contents.py FOLDER")
    raise SystemExit(main(sys.argv[1]))
