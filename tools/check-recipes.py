#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the recipes in packaging/ with the tree: check-recipes.py [-b BUILD] [FOLDER]. Versions are the Makefile's; each names what building wants; the variables of `make` that
they set exist; commands and options of kiln that they use exist (with BUILD, whose kiln is asked); what can be parsed is."""
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What building wants, by Debian's name: what conda-forge and Homebrew call it. None: their compiler or system has it.
NAMES = {"bc": (None, None), "pkg-config": ("pkg-config", "pkg-config"), "llvm-{}-dev": ("llvmdev", "llvm@{}"), "libpolly-{}-dev": (None, None), "liblld-{}-dev": ("lld", "lld@{}"),
         "zlib1g-dev": ("zlib", None), "libncurses-dev": ("ncurses", "ncurses"), "libzstd-dev": ("zstd-static", "zstd"), "python3": ("python", "python@"), "libpython3-dev": (None, None),
         "libarchive-dev": ("libarchive", "libarchive"), "libbz2-dev": ("bzip2", None), "liblzma-dev": ("xz-static", None), "libsodium-dev": ("libsodium-static", "libsodium"),
         "nettle-dev": ("nettle", "nettle"), "libxxhash-dev": ("xxhash", "xxhash"), "libcurl4-openssl-dev": ("libcurl", "curl")}
mistakes = []


def bad(path, text):
    mistakes.append("%s: %s" % (os.path.relpath(path, ROOT) if path.startswith(ROOT) else path, text))


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def expect_version(path, text, pattern, version):
    found = re.search(pattern, text, re.M)
    if not found or found[1] != version:
        bad(path, "expected version %s, found %s" % (version, found and found[1]))


def check_make(path, text, makefile):
    """NAME=VALUE after `make`, and targets."""
    for line in re.findall(r"\b(?:make\b|MAKE\})[\"',]?\s(.*)", text):
        for name in re.findall(r"\b([A-Z_]{3,})=", line):
            if not re.search(r"^(export )?%s\s*(\?|:)?=|\$\(%s\)" % (name, name), makefile, re.M):
                bad(path, "make has no variable %s" % name)


def check_commands(path, text, kiln):
    for command, rest in re.findall(r"\bkiln ((?:cache )?[a-z-]+)([^\n|&;]*)", text):
        if not re.match(r"(build|sign|verify|cache|targets|compile)", command):
            continue
        done = subprocess.run([kiln, *command.split(), "--list-options"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        known = {line.split("\t")[1] for line in done.stdout.decode().splitlines() if line.startswith("option\t")}
        if done.returncode:
            bad(path, "there is no command 'kiln %s'" % command)
        for option in re.findall(r"\s--([a-z-]+)", rest):
            if option not in known:
                bad(path, "'kiln %s' has no option --%s" % (command, option))


def check_conda(path, version, llvm, wanted):
    text = read(path)
    expect_version(path, text, r'set version = "([^"]+)"', version)
    rendered = re.sub(r"\{\{ version \}\}", version, re.sub(r"\{%.*?%\}|\s+# \[.*\]", "", text))
    names = set(re.findall(r"^    - ([a-z0-9-]+)", rendered, re.M))
    for name in wanted(0):
        if name.format(llvm) not in names:
            bad(path, "expected %s among the requirements" % name)
    for name in ("llvmdev", "lld"):
        if not re.search(r"^    - %s %s\." % (name, llvm), rendered, re.M):
            bad(path, "expected %s %s.*" % (name, llvm))
    try:
        import yaml
    except ImportError:
        return text
    try:
        parsed = yaml.safe_load(re.sub(r"\{\{ compiler\('(\w+)'\) \}\}", r"compiler_\1", rendered))
        if parsed["package"]["version"] != version or not parsed["requirements"]["host"]:
            bad(path, "expected package, requirements")
    except (yaml.YAMLError, KeyError, TypeError) as error:
        bad(path, "cannot be read: %s" % error)
    return text


def check_homebrew(path, version, llvm, wanted):
    text = read(path)
    expect_version(path, text, r"/kiln-([0-9.]+)\.tar\.xz", version)
    names = re.findall(r'depends_on "([^"]+)"', text)
    for name in wanted(1):
        if not any(one.startswith(name.format(llvm)) for one in names):
            bad(path, 'expected depends_on "%s"' % name.format(llvm))
    if shutil.which("ruby") and subprocess.run(["ruby", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        bad(path, "ruby cannot read it")
    return text


def check_vcpkg(folder, version):
    path = os.path.join(folder, "vcpkg.json")
    try:
        manifest = json.loads(read(path))
    except ValueError as error:
        bad(path, "cannot be read: %s" % error)
        return
    if manifest.get("version") != version:
        bad(path, "expected version %s, found %s" % (version, manifest.get("version")))
    for name in ("libsodium", "xxhash", "zstd"):  # of the runtime alone: docs/versions.md
        if name not in manifest.get("dependencies", []):
            bad(path, "expected the dependency %s" % name)


def check_debian(folder, version, llvm):
    control, changelog = os.path.join(folder, "control"), os.path.join(folder, "changelog")
    expect_version(changelog, read(changelog), r"^kiln \(([0-9.]+)-\d+\)", version)
    fields = re.search(r"^Build-Depends:((?:.*\n)(?: .*\n)*)", read(control), re.M)
    names = re.findall(r"[a-z0-9][a-z0-9+.-]+", fields[1] if fields else "")
    for name in NAMES:
        if name.format(llvm) not in names:
            bad(control, "expected %s among the Build-Depends" % name.format(llvm))
    packages = re.findall(r"^Package: (\S+)", read(control), re.M)
    installs = sorted(name[:-len(".install")] for name in os.listdir(folder) if name.endswith(".install"))
    if sorted(packages) != installs:
        bad(control, "expected the packages of the .install files, %s, found %s" % (installs, sorted(packages)))


def main(words):
    build = None
    if words[:1] == ["-b"]:
        build, words = words[1], words[2:]
    folder = words[0] if words else os.path.join(ROOT, "packaging")
    makefile = read(ROOT, "Makefile") + read(ROOT, "tools", "wheel.sh")
    version = re.search(r"^VERSION := (\S+)", makefile, re.M)[1]
    llvm = re.search(r"^LLVM_VERSION \?= (\d+)", makefile, re.M)[1]
    packages = re.search(r'^build="([^"]*)"', read(ROOT, "tools", "install-packages.sh"), re.M)[1].replace("$llvm", "{}").split()
    unknown = [name for name in packages if name not in NAMES and name not in ("gcc", "g++", "make")]
    if unknown:
        bad(os.path.join(ROOT, "tools", "install-packages.sh"), "tools/check-recipes.py does not know what others call %s" % ", ".join(unknown))

    def wanted(column):
        return [names[column] for names in NAMES.values() if names[column]]
    texts = {}
    for name, check in (("conda/meta.yaml", check_conda), ("homebrew/kiln.rb", check_homebrew)):
        path = os.path.join(folder, name)
        texts[path] = check(path, version, llvm, wanted)
    check_vcpkg(os.path.join(folder, "vcpkg"), version)
    check_debian(os.path.join(folder, "debian"), version, llvm)
    for name in ("vcpkg/portfile.cmake", "debian/rules", "github/kernels.yml"):
        texts[os.path.join(folder, name)] = read(folder, name)
    for path, text in texts.items():
        check_make(path, re.sub(r"\n\s+(?=[\"(])", " ", text), makefile)
        if build:
            check_commands(path, text.replace('bin/"kiln", "', 'kiln ').replace('", "', " "), os.path.join(build, "bin", "kiln"))
    for line in mistakes:
        print(line)
    print("recipes: %d mistakes" % len(mistakes))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
