# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds examples/bazel from an installed tree: its programs work, a second build runs nothing, a changed kernel is in the next programs. What the rules of tools/bazel promise of
remote execution: each of their actions runs where nothing is but its declared inputs, by the command and the variables that Bazel states, and makes the same bytes; no path in it is
absolute. The rules that Bazel itself fetches (rules_cc) cannot be fetched here: a few lines that hand on what Bazel has stand in for them."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import support
from support import BUILD, ROOT

RULES_OF_JAVA = "/usr/share/bazel/rules/java"
KINDS = "binary import library test toolchain toolchain_suite toolchain_alias libc_top_alias".split()
STAND_IN = "".join("cc_%s = native.cc_%s\n" % (kind, kind) for kind in KINDS)
HERE = None


def run(*command, **named):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, **named)
    if done.returncode:
        raise AssertionError("%s: exit %d\n%s%s" % (" ".join(command), done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")))
    return done.stdout.decode(), done.stderr.decode(errors="replace")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def path(*parts):
    return os.path.join(HERE, *parts)


def bazel(*words):
    """Bazel in the example's folder; it fetches nothing."""
    options = ["--override_repository=rules_kiln=" + path("prefix/share/kiln/bazel"), "--override_repository=rules_cc=" + path("rules_cc"), "--repo_env=KILN_PREFIX=" + path("prefix"),
               "--noshow_progress"]
    if os.path.isdir(RULES_OF_JAVA):
        options.append("--override_repository=rules_java=" + RULES_OF_JAVA)
    return run("bazel", "--nohome_rc", "--output_user_root=" + path("root"), words[0], *options, *words[1:], cwd=path("examples/bazel"))


def setUpModule():
    global HERE
    if shutil.which("bazel") is None:
        raise unittest.SkipTest("bazel is not installed")
    if subprocess.run("nm -D %s | grep -q __asan" % support.LIBRARY, shell=True).returncode == 0:
        raise unittest.SkipTest("an instrumented library needs an instrumented program")
    folder = tempfile.TemporaryDirectory(prefix="kiln-bazel-", ignore_cleanup_errors=True)
    unittest.addModuleCleanup(folder.cleanup)
    HERE = folder.name
    plain = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")}
    run("make", "-s", "B=" + os.path.relpath(BUILD, ROOT), "PREFIX=" + path("prefix"), "DESTDIR=", "install", cwd=ROOT, env=plain)
    shutil.copytree(path("prefix/share/doc/kiln/examples"), path("examples"))
    write(path("rules_cc/WORKSPACE"), 'workspace(name = "rules_cc")\n')
    write(path("rules_cc/BUILD"), "")
    write(path("rules_cc/cc/BUILD"), "")
    write(path("rules_cc/cc/defs.bzl"), STAND_IN)
    unittest.addModuleCleanup(bazel, "shutdown")


def actions():
    """[(command, variables, inputs, outputs)] of the actions of tools/bazel, paths relative to where Bazel runs them."""
    graph = json.loads(bazel("aquery", "--output=jsonproto", 'mnemonic("Kiln.*", //...)')[0])
    fragments = {one["id"]: one for one in graph["pathFragments"]}
    sets = {one["id"]: one for one in graph["depSetOfFiles"]}

    def name(fragment):
        one = fragments[fragment]
        return (name(one["parentId"]) + "/" if "parentId" in one else "") + one["label"]

    files = {one["id"]: name(one["pathFragmentId"]) for one in graph["artifacts"]}

    def flat(which):
        one = sets[which]
        return {files[i] for i in one.get("directArtifactIds", [])}.union(*map(flat, one.get("transitiveDepSetIds", [])))

    return [(one["arguments"], {v["key"]: v.get("value", "") for v in one["environmentVariables"]}, set().union(*map(flat, one["inputDepSetIds"])), [files[i] for i in one["outputIds"]])
            for one in graph["actions"]]


class Bazel(unittest.TestCase):
    def programs(self):
        folder = path("examples/bazel")
        return [subprocess.run([os.path.join(folder, "bazel-bin", words[0]), *words[1:]], stdout=subprocess.PIPE, cwd=folder).stdout.decode()
                for words in (("saxpy", "bazel-bin/kernels.kbundle"), ("carried",))]

    def test_1_programs(self):
        bazel("build", "//...")
        self.assertEqual(self.programs(), ["1000 values, 0 wrong\n", "100 values, 0 wrong, by bundle in the program\n"])
        self.assertIn("INFO: 1 process: 1 internal.", bazel("build", "//...")[1])

    def test_2_inputs_are_declared(self):
        root = bazel("info", "execution_root")[0].strip()
        found, places = actions(), {}
        self.assertEqual(sorted(command[1] for command, *_ in found), ["build", "build", "embed", "header"])
        for number, (command, variables, inputs, outputs) in enumerate(found):
            self.assertEqual(variables, {"KILN_CONFIG": ""})
            self.assertEqual([word for word in [*command, *inputs, *outputs] if word.startswith("/") or HERE in word], [])
            places[number] = path("elsewhere", str(number))
            for name in inputs:
                os.makedirs(os.path.dirname(os.path.join(places[number], name)), exist_ok=True)
                shutil.copy(os.path.join(root, name), os.path.join(places[number], name))
            for name in outputs:
                os.makedirs(os.path.dirname(os.path.join(places[number], name)), exist_ok=True)
        os.rename(path("prefix"), path("away"))
        try:
            for number, (command, variables, _, outputs) in enumerate(found):
                run("./" + command[0], *command[1:], cwd=places[number], env=variables)
                for name in outputs:
                    with open(os.path.join(places[number], name), "rb") as here, open(os.path.join(root, name), "rb") as there:
                        content = here.read()
                        self.assertEqual(content, there.read(), name)
                        self.assertNotIn(HERE.encode(), content)
        finally:
            os.rename(path("away"), path("prefix"))

    def test_3_a_changed_kernel_is_in_the_programs(self):
        source = path("examples/saxpy/saxpy.kiln")
        with open(source) as file:
            text = file.read()
        write(source, text.replace("a * load", "2.0 * a * load"))
        bazel("build", "//...")
        self.assertEqual(self.programs(), ["1000 values, 999 wrong\n", "100 values, 99 wrong, by bundle in the program\n"])

    def test_4_what_is_missing_is_said(self):
        with self.assertRaisesRegex(AssertionError, "kiln_repository: there is no bin/kiln in /nowhere; give `prefix`, or --repo_env=KILN_PREFIX"):
            bazel("build", "--repo_env=KILN_PREFIX=/nowhere", "//...")


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
