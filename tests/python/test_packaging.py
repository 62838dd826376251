# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a release is made of: an archive that is the same each time, a bill of materials that has what the Makefile links, sums and their signature; recipes that fit the tree,
and a script that names what does not; the Debian source package, and a script that names what packages lack."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support
from support import BUILD, ROOT


def run(*command, **named):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, timeout=600, **named)
    return done.returncode, done.stdout.decode(errors="replace")


def quiet(*command, **named):
    code, text = run(*command, **named)
    if code:
        raise AssertionError("%s: exit %d\n%s" % (" ".join(command), code, text))
    return text


def is_checkout():
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Recipes(unittest.TestCase):
    def test_they_fit_the_tree(self):
        self.assertEqual(quiet("tools/check-recipes.py", "-b", BUILD), "recipes: 0 mistakes\n")

    def test_mistakes_are_named(self):
        for name, old, new, text in (("conda/meta.yaml", 'version = "0', 'version = "9', "meta.yaml: expected version"), ("conda/meta.yaml", "    - nettle\n", "", "expected nettle among"),
                                     ("conda/meta.yaml", "llvmdev 22", "llvmdev 9", "expected llvmdev 22.*"), ("conda/meta.yaml", "SYSCONFDIR=", "SYSCONFDIRS=", "no variable SYSCONFDIRS"),
                                     ("homebrew/kiln.rb", "/kiln-0.", "/kiln-9.", "kiln.rb: expected version"), ("homebrew/kiln.rb", 'depends_on "nettle"\n', "", "expected depends_on \"nettle\""),
                                     ("homebrew/kiln.rb", '"--target"', '"--tarket"', "'kiln build' has no option --tarket"), ("vcpkg/vcpkg.json", '"xxhash", ', "", "expected the dependency xxhash"),
                                     ("vcpkg/vcpkg.json", "{", "[", "vcpkg.json: cannot be read"), ("vcpkg/portfile.cmake", "SHARED=", "SHARD_LIBRARIES=", "no variable SHARD_LIBRARIES"),
                                     ("debian/control", "nettle-dev", "nettles-dev", "expected nettle-dev among"), ("debian/control", "Package: libkiln0", "Package: libkiln1", "expected the packages of"),
                                     ("debian/changelog", "kiln (0", "kiln (9", "changelog: expected version"), ("github/kernels.yml", "--max-size", "--maxsize", "'kiln cache gc' has no option --maxsize"),
                                     ("github/kernels.yml", "kiln sign", "kiln signs", "there is no command 'kiln signs'")):
            with self.subTest(name=name, new=new), tempfile.TemporaryDirectory() as folder:
                shutil.copytree(os.path.join(ROOT, "packaging"), folder, dirs_exist_ok=True)
                path = os.path.join(folder, name)
                with open(path) as file:
                    content = file.read()
                self.assertIn(old, content)
                with open(path, "w") as file:
                    file.write(content.replace(old, new, 1))
                code, told = run("tools/check-recipes.py", *(("-b", BUILD) if "'kiln " in text else ()), folder)
                self.assertEqual(code, 1)
                self.assertIn(text, told)


@unittest.skipUnless(is_checkout(), "this is no checkout of git")
class Releases(unittest.TestCase):
    def test_the_same_commit_gives_the_same_bytes(self):
        files = ["SHA256SUMS", "kiln-0.1.0.cdx.json", "kiln-0.1.0.tar.xz"]
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            quiet("tools/release.sh", "-d", one)
            quiet("sh", "-c", "umask 077; TZ=Asia/Tokyo LC_ALL=C.UTF-8 git -c tar.umask=0 status >/dev/null; TZ=Asia/Tokyo tools/release.sh -d " + other)
            self.assertEqual(sorted(os.listdir(one)), files)
            for name in files:
                with open(os.path.join(one, name), "rb") as a, open(os.path.join(other, name), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)
            quiet("sh", "-c", "cd %s && sha256sum -c SHA256SUMS" % one)
            listed = quiet("tar", "-tvf", os.path.join(one, "kiln-0.1.0.tar.xz"))
            self.assertRegex(listed, r"(?m)^-rw-r--r-- root/root .* kiln-0.1.0/README.md$")
            self.check_bom(os.path.join(one, "kiln-0.1.0.cdx.json"), os.path.join(one, "SHA256SUMS"))

    def check_bom(self, path, sums):
        with open(path) as file:
            bom = json.load(file)
        self.assertEqual((bom["bomFormat"], bom["specVersion"], bom["metadata"]["component"]["version"]), ("CycloneDX", "1.5", "0.1.0"))
        self.assertRegex(bom["serialNumber"], "^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        references = ["Kiln"] + [one["bom-ref"] for one in bom["metadata"]["component"]["components"] + bom["components"]]
        self.assertEqual(len(references), len(set(references)))
        for row in bom["dependencies"]:
            self.assertLessEqual({row["ref"], *row["dependsOn"]}, set(references))
        archive = [one for one in bom["components"] if one["type"] == "file"]
        with open(sums) as file:
            self.assertIn("%s  %s\n" % (archive[0]["hashes"][0]["content"], archive[0]["name"]), file.read())
        if shutil.which("dpkg-query"):
            self.assertRegex(next(one for one in bom["components"] if one["name"] == "zstd")["purl"], r"^pkg:deb/debian/libzstd-dev@1\.")

    def test_a_release_of_a_tree_that_is_not_ready_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            code, text = run("tools/release.sh", folder)
            self.assertEqual(code, 1)
            self.assertIn("(-d for a draft)", text)
            self.assertEqual(os.listdir(folder), [])

    @unittest.skipIf(shutil.which("gpg") is None, "gpg is not installed")
    def test_signature(self):
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "GNUPGHOME": home}
            quiet("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "releases@kiln.invalid", "ed25519", "sign", env=environment)
            quiet("tools/release.sh", "-d", "-k", "releases@kiln.invalid", folder, env=environment)
            sums = os.path.join(folder, "SHA256SUMS")
            quiet("gpg", "--verify", sums + ".asc", sums, env=environment)
            with open(sums, "a") as file:
                file.write("\n")
            self.assertNotEqual(run("gpg", "--verify", sums + ".asc", sums, env=environment)[0], 0)
            subprocess.run(["gpgconf", "--kill", "all"], env=environment)

    @unittest.skipIf(shutil.which("dpkg-buildpackage") is None or shutil.which("dh") is None, "dpkg-dev and debhelper are not installed")
    def test_debian_source_package(self):
        with tempfile.TemporaryDirectory() as folder:
            quiet("tools/deb.sh", "-s", folder)
            self.assertLessEqual({"kiln_0.1.0-1.dsc", "kiln_0.1.0-1.debian.tar.xz", "kiln_0.1.0.orig.tar.xz"}, set(os.listdir(folder)))


@unittest.skipIf(shutil.which("dpkg-deb") is None, "dpkg is not installed")
class Contents(unittest.TestCase):
    """tests/package_contents.py, over packages of empty files."""

    def pack(self, folder, paths):
        for package, files in paths.items():
            with tempfile.TemporaryDirectory() as root:
                os.chmod(root, 0o755)
                os.mkdir(os.path.join(root, "DEBIAN"))
                with open(os.path.join(root, "DEBIAN", "control"), "w") as file:
                    file.write("Package: %s\nVersion: 1\nArchitecture: amd64\nMaintainer: m <m@kiln.invalid>\nDescription: d\n" % package)
                for path in files:
                    os.makedirs(root + os.path.dirname(path), exist_ok=True)
                    open(root + path, "w").close()
                quiet("dpkg-deb", "-Znone", "-b", root, os.path.join(folder, package + "_1_amd64.deb"))

    def test_what_a_package_lacks_is_named(self):
        sys.path.insert(0, os.path.join(ROOT, "tests"))
        import package_contents
        paths = package_contents.expected()
        count = sum(map(len, paths.values()))
        with tempfile.TemporaryDirectory() as folder:
            self.pack(folder, paths)
            self.assertEqual(quiet("tests/package_contents.py", folder), "%d passed, 0 failed, 0 skipped\n" % count)
            drawn = random.Random(35)
            lost = {package: drawn.choice(files) for package, files in paths.items()}
            self.pack(folder, {package: [path for path in files if path != lost[package]] for package, files in paths.items()})
            code, told = run("tests/package_contents.py", folder)
            self.assertEqual(code, 1)
            self.assertEqual(told, "".join("%s: expected %s, which is not in it\n" % one for one in lost.items()) + "%d passed, %d failed, 0 skipped\n" % (count - len(lost), len(lost)))
            os.unlink(os.path.join(folder, "kiln_1_amd64.deb"))
            code, told = run("tests/package_contents.py", folder)
            self.assertEqual(code, 1)
            self.assertIn("expected one kiln_*.deb", told)


class Materials(unittest.TestCase):
    def test_all_that_is_linked_is_in_the_bill(self):
        """What the Makefile tells linkers, but for the C library."""
        with open(os.path.join(ROOT, "Makefile")) as file:
            makefile = file.read()
        with open(os.path.join(ROOT, "tools", "sbom.py")) as file:
            listed = {name for row in re.findall(r'\(("[A-Za-z0-9+", ]*,?)\), \(', file.read()) for name in re.findall(r'"([^"]+)"', row)}
        programs = makefile[:makefile.index("# ------------------------------------------------------------------------------------------------------------------- tests")]
        linked = {name.replace("LLVMSupport", "LLVM") for pair in re.findall(r"-l:lib([\w+]+)\.a|\s-l([\w+]+)", programs) for name in pair if name}
        self.assertEqual(linked - {"m", "pthread", "dl"}, listed - (set() if "LLVM" in linked else {"LLVM"}))


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
