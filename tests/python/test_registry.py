# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bundles in registries: `kiln cache push BUNDLE oci://...` and `kiln cache pull`, with a registry that runs here. What comes back are the bytes that went, signed by whom
one trusts; a hostile registry (other digests, longer and shorter bodies, redirects, other places for uploads) leaves no file."""
import base64
import json
import os
import subprocess
import tempfile
import unittest

import support
from registry import MANIFEST, Registry, digest_of

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    Ed25519PublicKey = None

KILN = os.path.join(support.BUILD, "bin", "kiln")
FOLDER = BUNDLE = None


def setUpModule():
    global FOLDER, BUNDLE
    FOLDER = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(FOLDER.cleanup)
    source = os.path.join(FOLDER.name, "k.kiln")
    with open(source, "w") as file:
        file.write("kiln 1\nkernel k(x: out *f32) @grid(1) @warps(1) { store(x + iota(32), 1.0) }\n")
    support.tool("build", source, "-t", "gfx942", "-o", os.path.join(FOLDER.name, "app.kbundle"))
    for name in ("ci", "dev", "other"):
        support.tool("cache", "keygen", "--name=" + name, os.path.join(FOLDER.name, name))
    with open(os.path.join(FOLDER.name, "app.kbundle"), "rb") as file:
        BUNDLE = file.read()


class Cases(unittest.TestCase):
    def kiln(self, *words, **settings):
        environment = {**support.plain_environment(), "KILN_CONFIG": "", **settings}
        done = subprocess.run([KILN, "cache", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=FOLDER.name, env=environment)
        return done.returncode, done.stdout.decode(errors="replace")

    def push(self, registry, *words, tag="v1", **settings):
        code, text = self.kiln("push", *words, "app.kbundle", "oci+http://%s/team/kernels:%s" % (registry.host, tag), **settings)
        self.assertEqual(code, 0, text)
        return text

    def pull(self, registry, *words, reference=":v1", **settings):
        """(exit code, what is printed, the file or None)"""
        path = os.path.join(FOLDER.name, "got.kbundle")
        if os.path.exists(path):
            os.unlink(path)
        code, text = self.kiln("pull", *words, "-o", "got.kbundle", "oci+http://%s/team/kernels%s" % (registry.host, reference), **settings)
        if not os.path.exists(path):
            return code, text, None
        with open(path, "rb") as file:
            return code, text, file.read()


class Right(Cases):
    def test_there_and_back(self):
        with Registry() as registry:
            for registry.mode in ("", "absolute"):
                text = self.push(registry)
                manifest = registry.manifests["team/kernels", "v1"]
                self.assertEqual(text, "pushed app.kbundle: oci+http://%s/team/kernels@%s, %d bytes, no signature added\n" % (registry.host, digest_of(manifest), len(BUNDLE)))
                parts = json.loads(manifest)
                self.assertEqual((parts["schemaVersion"], parts["mediaType"], parts["artifactType"]), (2, MANIFEST, "application/vnd.kiln.bundle"))
                self.assertEqual(parts["layers"], [{"mediaType": "application/vnd.kiln.bundle", "digest": digest_of(BUNDLE), "size": len(BUNDLE),
                                                    "annotations": {"org.opencontainers.image.title": "app.kbundle"}}])
                for reference in (":v1", "@" + digest_of(manifest)):
                    code, text, got = self.pull(registry, reference=reference)
                    self.assertEqual((code, got), (0, BUNDLE), text)
                self.assertEqual(text, "pulled got.kbundle: oci+http://%s/team/kernels@%s, %d bytes, signature not checked (give --trust to say whom you trust)\n" % (registry.host, digest_of(manifest), len(BUNDLE)))
                support.tool("verify", os.path.join(FOLDER.name, "got.kbundle"))
                registry.blobs.clear()

    def test_what_was_not_asked_is_not_denied(self):
        """A signature that is there, and that nobody asked for."""
        with Registry() as registry:
            self.assertTrue(self.push(registry, "--sign=ci").endswith(", signed by ci\n"))
            self.assertTrue(self.push(registry).endswith(", no signature added\n"))
            self.assertTrue(self.pull(registry)[1].endswith(", signature not checked (give --trust to say whom you trust)\n"))
            self.assertTrue(self.pull(registry, "--trust=ci.pub")[1].endswith(", signed by ci.pub\n"))

    def test_standard_output_gets_the_bundle_alone(self):
        with Registry() as registry:
            self.push(registry)
            for name in ("-", "/dev/stdout"):
                done = subprocess.run([KILN, "cache", "pull", "-o", name, "oci+http://%s/team/kernels:v1" % registry.host], capture_output=True, cwd=FOLDER.name,
                                      env={**support.plain_environment(), "KILN_CONFIG": ""})
                self.assertEqual((done.returncode, done.stdout), (0, BUNDLE), done.stderr)
                self.assertIn(b"pulled " + name.encode(), done.stderr)

    def test_what_is_there_is_not_sent_again(self):
        with Registry() as registry:
            self.push(registry)
            del registry.requests[:]
            self.push(registry, tag="latest")
            self.assertEqual([method for method, path, _ in registry.requests if method in ("POST", "PUT")], ["PUT"])
            code, text, got = self.pull(registry, reference="")
            self.assertEqual((code, got), (0, BUNDLE), text)

    def test_json(self):
        with Registry() as registry:
            pushed = json.loads(self.push(registry, "--json", "--sign=ci"))
            self.assertEqual(pushed["key"], "ci")
            pulled = json.loads(self.pull(registry, "--json", "--trust=ci.pub")[1])
            self.assertEqual((pulled["digest"], pulled["bytes"], pulled["key"]), (pushed["digest"], len(BUNDLE), "ci.pub"))
            failed = json.loads(self.pull(registry, "--json", reference=":none")[1].splitlines()[-1])
            self.assertIn("it is not there", failed["error"]["message"])

    def test_rights(self):
        with Registry(login="me:pass:word") as registry:
            code, text = self.kiln("push", "app.kbundle", "oci+http://%s/team/kernels" % registry.host)
            self.assertEqual(code, 1)
            self.assertIn("status 401: KILN_REGISTRY_LOGIN or KILN_REGISTRY_TOKEN is missing or is not accepted", text)
            self.push(registry, KILN_REGISTRY_LOGIN="me:pass:word")
            self.assertEqual(self.pull(registry, KILN_REGISTRY_LOGIN="me:pass:word")[2], BUNDLE)
            self.assertNotIn("pass:word", self.kiln("pull", "-o", "x", "oci+http://%s/a" % registry.host, KILN_REGISTRY_LOGIN="you:pass:word")[1])


class Signed(Cases):
    def test_layout_of_cosign(self):
        """The signature stands where cosign looks for it, over a text that names the artifact; another implementation of Ed25519 verifies it."""
        with Registry() as registry:
            self.push(registry, "--sign=ci")
            artifact = digest_of(registry.manifests["team/kernels", "v1"])
            layers = json.loads(registry.manifests["team/kernels", artifact.replace(":", "-") + ".sig"])["layers"]
            self.assertEqual([layer["mediaType"] for layer in layers], ["application/vnd.dev.cosign.simplesigning.v1+json"])
            payload = registry.blobs["team/kernels", layers[0]["digest"]]
            self.assertEqual(json.loads(payload), {"critical": {"identity": {"docker-reference": registry.host + "/team/kernels"},
                                                                "image": {"docker-manifest-digest": artifact}, "type": "cosign container image signature"}, "optional": None})
            if Ed25519PublicKey is None:
                self.skipTest("the package cryptography is not installed")
            with open(os.path.join(FOLDER.name, "ci.pub")) as file:
                key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(file.read().split()[2]))
            key.verify(base64.b64decode(layers[0]["annotations"]["dev.cosignproject.cosign/signature"]), payload)

    def test_trust(self):
        with Registry() as registry:
            self.push(registry)
            code, text, got = self.pull(registry, "--trust=ci.pub")
            self.assertEqual((code, got), (1, None))
            self.assertRegex(text, "none of the trusted keys signed sha256:[0-9a-f]{64}; it has 0 signatures")
            self.push(registry, "--sign=ci")
            self.push(registry, "--sign=dev")
            self.push(registry, "--sign=dev")
            for keys, signer in ((["ci.pub"], "ci.pub"), (["dev.pub"], "dev.pub"), (["other.pub", "dev.pub"], "dev.pub")):
                code, text, got = self.pull(registry, *("--trust=" + key for key in keys))
                self.assertEqual((code, got), (0, BUNDLE), text)
                self.assertTrue(text.endswith(", signed by %s\n" % signer), text)
            code, text, got = self.pull(registry, "--trust=other.pub")
            self.assertEqual((code, got), (1, None))
            self.assertIn("it has 2 signatures", text)

    def test_a_signature_of_another_artifact(self):
        """What a trusted key signed, but not this: taken from an artifact next to it."""
        with Registry() as registry:
            self.push(registry, "--sign=ci")
            good = digest_of(registry.manifests["team/kernels", "v1"])
            other = registry.manifests["team/kernels", "v1"].replace(b"app.kbundle", b"bad.kbundle")
            registry.manifests["team/kernels", "v1"] = other
            registry.manifests["team/kernels", digest_of(other).replace(":", "-") + ".sig"] = registry.manifests["team/kernels", good.replace(":", "-") + ".sig"]
            code, text, got = self.pull(registry, "--trust=ci.pub")
            self.assertEqual((code, got), (1, None))
            self.assertIn("none of the trusted keys signed", text)


class Hostile(Cases):
    def refused(self, registry, words, *more):
        code, text, got = self.pull(registry, "--wait=2", *more)
        self.assertEqual((code, got), (1, None), text)
        self.assertIn(words, text)

    def test_bodies(self):
        with Registry() as registry:
            self.push(registry)
            for registry.mode, words in (("other blob", "expected %d bytes with %s, found %d with sha256:" % (len(BUNDLE), digest_of(BUNDLE), len(BUNDLE))),
                                         ("short blob", "found %d with sha256:" % (len(BUNDLE) - 1)), ("long blob", "the registry sends more than that, or something else"),
                                         ("endless blob", "the registry sends more than that, or something else"), ("cut blob", ""), ("silent", "Timeout was reached"),
                                         ("circle", "redirect"), ("redirected manifest", "status 307")):
                with self.subTest(mode=registry.mode):
                    self.refused(registry, words)

    def test_manifests(self):
        with Registry() as registry:
            self.push(registry)
            artifact = digest_of(registry.manifests["team/kernels", "v1"])

            def changed(**members):
                return lambda reference, data: json.dumps({**json.loads(data), **members}).encode()
            layer = json.loads(registry.manifests["team/kernels", "v1"])["layers"][0]
            for registry.mode, words in ((changed(artifactType="application/x"), "expected an artifact of type application/vnd.kiln.bundle"),
                                         (changed(layers=[]), "with one layer, found 'application/vnd.kiln.bundle' with 0"),
                                         (changed(layers=[layer] * 2), "with 2"), (changed(layers=[layer] * 17), "expected at most 16 layers, found 17"),
                                         (changed(layers={}), "expected an OCI manifest with layers"), (changed(mediaType="text/html"), "found 'text/html'"),
                                         (changed(layers=[{**layer, "digest": "md5:12"}]), "a layer: expected a digest of SHA-256 and a size"),
                                         (changed(layers=[{**layer, "digest": "sha256:../../../../etc/passwd"}]), "a layer: expected a digest of SHA-256 and a size"),
                                         (changed(layers=[{**layer, "size": -1}]), "a layer: expected a digest"),
                                         (changed(layers=[{**layer, "size": 1 << 60}]), "expected at most 2147483648 bytes, the registry names 1152921504606846976"),
                                         (changed(layers=[{**layer, "size": layer["size"] - 1}]), "more than that"),
                                         (lambda reference, data: b"", "JSON line 1"), (lambda reference, data: b"[" * 100000, "JSON line 1"),
                                         (lambda reference, data: data + b" " * (1 << 20), "more than that")):
                with self.subTest(words=words):
                    self.refused(registry, words)
            registry.mode = lambda reference, data: data + b" "
            code, text, got = self.pull(registry, reference="@" + artifact)
            self.assertEqual((code, got), (1, None))
            self.assertIn("expected the manifest %s, found sha256:" % artifact, text)

    def test_redirected_blobs(self):
        """Registries keep blobs elsewhere. What comes from there has the digest, or is refused; the password does not go there."""
        with Registry(login="me:password") as registry, Registry() as storage:
            rights = {"KILN_REGISTRY_LOGIN": "me:password"}
            self.push(registry, **rights)
            storage.blobs.update(registry.blobs)
            registry.mode, registry.storage = "redirect", storage.url.replace("127.0.0.1", "localhost")
            code, text, got = self.pull(registry, **rights)
            self.assertEqual((code, got), (0, BUNDLE), text)
            self.assertEqual({authorization for _, _, authorization in storage.requests}, {None})
            storage.mode = "other blob"
            code, text, got = self.pull(registry, **rights)
            self.assertEqual((code, got), (1, None), text)

    def test_places_of_uploads(self):
        with Registry(login="me:password") as registry:
            for registry.mode in ("elsewhere", "slashes", "nowhere"):
                code, text = self.kiln("push", "app.kbundle", "oci+http://%s/team/kernels" % registry.host, KILN_REGISTRY_LOGIN="me:password")
                self.assertEqual(code, 1)
                self.assertIn("expected a place for an upload there, found ", text)
            self.assertEqual(registry.manifests, {})

    def test_a_registry_that_forgets(self):
        with Registry() as registry:
            registry.mode = lambda reference, data: b"{}"
            code, text = self.kiln("push", "app.kbundle", "oci+http://%s/team/kernels" % registry.host)
            self.assertEqual(code, 1)
            self.assertIn("the registry gives another manifest back", text)


class Words(Cases):
    def test_addresses(self):
        for address in ("oci://host", "oci://host/", "oci://host/UPPER", "oci://host/a//b", "oci://host/a:", "oci://host/a:b:c", "oci://host/a@sha256:12", "oci://me:pw@host/a",
                        "oci://host/a b", "oci://host/a?b", "oci://host/../a", "http://host/a", "oci:///a", "oci://host/-a", "oci://host/a:.t", "oci://host/" + "a" * 300):
            code, text = self.kiln("pull", "-o", "got.kbundle", address)
            self.assertEqual(code, 1, address)
            self.assertIn("expected oci://HOST[:PORT]/NAME[:TAG]", text)

    def test_command_lines(self):
        for words in (["push", "app.kbundle"], ["push", "--sign=ci"], ["pull", "oci://host/a"], ["pull", "-o", "x"]):
            self.assertEqual(self.kiln(*words)[0], 2, words)
        for words, text in ((["push", "k.kiln", "oci+http://127.0.0.1:1/a"], "k.kiln is no bundle"), (["push", "none", "oci+http://127.0.0.1:1/a"], "none"),
                            (["push", "app.kbundle", "oci+http://127.0.0.1:1/a@sha256:" + "0" * 64], "an upload goes under a tag"),
                            (["push", "--sign=ci.pub", "app.kbundle", "oci+http://127.0.0.1:1/a"], "expected mode 0600"),
                            (["pull", "--trust=k.kiln", "-o", "x", "oci+http://127.0.0.1:1/a"], "kiln-public-key"),
                            (["pull", "-o", "none/x", "oci+http://127.0.0.1:1/a"], "none"), (["pull", "-o", "x", "oci+http://127.0.0.1:1/a"], "connect to server")):
            code, printed = self.kiln(*words)
            self.assertEqual(code, 1, printed)
            self.assertIn(text, printed)


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
