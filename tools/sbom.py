#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the bill of materials of a release as CycloneDX 1.5 (JSON): sbom.py VERSION OUTPUT [FILE...]. It says what the programs and libraries link, statically or not, with the
versions of this machine's packages, and the SHA-256 of the FILEs. SOURCE_DATE_EPOCH is its time; the same machine and files give the same bytes."""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLVM = re.search(r"^LLVM_VERSION \?= (\d+)", open(os.path.join(ROOT, "Makefile")).read(), re.M)[1]
KILN, CODEGEN, TOOL, REMOTE, LIBRARY, VERIFY = "kiln", "kiln-codegen", "kiln-tool", "kiln-remote", "libkiln", "libkiln-verify"

# name, Debian's package, licence (SPDX), what the linker is told, who links it
LINKED = (("LLVM", "llvm-%s-dev" % LLVM, "Apache-2.0 WITH LLVM-exception", ("LLVM",), (KILN, CODEGEN)),
          ("lld", "liblld-%s-dev" % LLVM, "Apache-2.0 WITH LLVM-exception", ("lldELF", "lldCommon"), (CODEGEN,)),
          ("libstdc++", "libstdc++-%s-dev", "GPL-3.0-or-later WITH GCC-exception-3.1", ("stdc++",), (CODEGEN,)),
          ("zstd", "libzstd-dev", "BSD-3-Clause", ("zstd",), (KILN, CODEGEN, TOOL, REMOTE, LIBRARY)),
          ("xxHash", "libxxhash-dev", "BSD-2-Clause", (), (KILN, CODEGEN, TOOL, REMOTE, LIBRARY)),
          ("libsodium", "libsodium-dev", "ISC", ("sodium",), (KILN, CODEGEN, TOOL, REMOTE, VERIFY)),
          ("libarchive", "libarchive-dev", "BSD-2-Clause", ("archive",), (TOOL,)),
          ("nettle", "nettle-dev", "LGPL-3.0-or-later OR GPL-2.0-or-later", ("nettle",), (TOOL,)),
          ("bzip2", "libbz2-dev", "bzip2-1.0.6", ("bz2",), (TOOL,)),
          ("XZ Utils", "liblzma-dev", "0BSD", ("lzma",), (TOOL,)),
          ("zlib", "zlib1g-dev", "Zlib", ("z",), (CODEGEN, TOOL)),
          ("ncurses", "libncurses-dev", "X11-distribute-modifications-variant", ("tinfo",), (CODEGEN,)),
          ("libcurl", "libcurl4-openssl-dev", "curl", ("curl",), (REMOTE,)))


def version_of(package):
    """Of an installed package of Debian; None where there is none."""
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return None
    return done.stdout.decode().strip() or None if done.returncode == 0 else None


def components():
    """(the component, who links it) of each row."""
    gcc = subprocess.run(["g++", "-dumpversion"], stdout=subprocess.PIPE).stdout.decode().split(".")[0].strip()
    for name, package, licence, _, users in LINKED:
        package = package % gcc if "%s" in package else package
        version = version_of(package)
        component = {"type": "library", "bom-ref": name, "name": name, "licenses": [{"expression": licence}] if " " in licence else [{"license": {"id": licence}}]}
        if version:
            component["version"] = version
            component["purl"] = "pkg:deb/debian/%s@%s" % (package.replace("+", "%2B"), version.replace("+", "%2B").replace(":", "%3A"))
        yield component, users


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def main(version, output, *files):
    found = list(components())
    programs = sorted({user for _, users in found for user in users})
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
           "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
                        "component": {"type": "application", "bom-ref": "Kiln", "name": "kiln", "version": version,
                                      "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
                                      "components": [{"type": "library" if name.startswith("lib") else "application", "bom-ref": name, "name": name, "version": version}
                                                     for name in programs]}},
           "components": [component for component, _ in found] +
           [{"type": "file", "bom-ref": os.path.basename(path), "name": os.path.basename(path), "hashes": [{"alg": "SHA-256", "content": digest_of(path)}]}
            for path in sorted(files, key=os.path.basename)],
           "dependencies": [{"ref": "Kiln", "dependsOn": programs}] +
           [{"ref": name, "dependsOn": [component["bom-ref"] for component, users in found if name in users]} for name in programs]}
    text = json.dumps(bom, indent=1, sort_keys=True)
    bom["serialNumber"] = "urn:uuid:%s" % uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(text.encode()).hexdigest())
    with open(output, "w") as file:
        file.write(json.dumps(bom, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
