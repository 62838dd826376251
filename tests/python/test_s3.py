# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buckets of S3 as a remote cache: what one machine builds another finds; every request is signed, by the judgement of a server that computes the signature itself; errors,
wrong, cut, slow and silent replies cost a bounded time and never a wrong object; no secret is printed."""
import json
import os
import subprocess
import tempfile
import time
import unittest

import support
from s3_server import Server, signature

KERNELS = "kiln 1\n" + "".join("kernel k%d(x: out *f32) @grid(1) @warps(1) { store(x + iota(32), %d.0) }\n" % (i, i) for i in range(5))
KILN = os.path.join(support.BUILD, "bin", "kiln")


class Cases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # kiln-remote outlives a build
        self.addCleanup(self.folder.cleanup)
        self.source = self.path("k.kiln")
        with open(self.source, "w") as file:
            file.write(KERNELS)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def kiln(self, cache, settings, *words):
        """(exit code, what is printed, seconds)"""
        environment = {name: value for name, value in support.plain_environment().items() if not name.startswith(("AWS_", "KILN_CACHE"))}
        environment.update({"KILN_CONFIG": "", "KILN_CACHE_DIR": self.path(cache), "KILN_CACHE_REMOTE": "s3://kernels/a/b", "KILN_CACHE_REMOTE_MS": "1000", **settings})
        start = time.monotonic()
        done = subprocess.run([KILN, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder.name, env=environment)
        return done.returncode, done.stdout.decode(), time.monotonic() - start

    def build(self, cache, settings):
        code, text, seconds = self.kiln(cache, settings, "build", self.source, "-t", "gfx942", "-o", cache + ".kbundle")
        self.assertEqual(code, 0, text)
        with open(self.path(cache + ".kbundle"), "rb") as file:
            return file.read(), text, seconds

    def counts(self, cache, settings):
        return json.loads(self.kiln(cache, settings, "cache", "stats", "--json")[1])["counts"]

    def doctor(self, settings):
        code, text, _ = self.kiln("doctor", settings, "cache", "doctor")
        line = [line for line in text.splitlines() if "remote cache" in line]
        self.assertEqual(len(line), 1, text)
        return code, line[0]

    @staticmethod
    def settings(server, **more):
        return {"KILN_CACHE_S3_ENDPOINT": server.url, "KILN_CACHE_S3_KEY": server.key, "KILN_CACHE_S3_SECRET": server.secret, **more}

    def upload(self, server, settings):
        bundle, text, _ = self.build("writer", {"KILN_CACHE_REMOTE_WRITE": "1", **settings})
        code, text, _ = self.kiln("writer", {"KILN_CACHE_REMOTE_WRITE": "1", **settings}, "cache", "push", "--wait=20")
        self.assertEqual((code, text.splitlines()[-1][-6:]), (0, "0 wait"), text)
        return bundle


class TheServer(unittest.TestCase):
    def test_example_of_the_description(self):
        """"GET Object" of "Signature Calculations for the Authorization Header" of the S3 API."""
        headers = {"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9", "x-amz-date": "20130524T000000Z",
                   "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
        self.assertEqual(signature("GET", "/test.txt", "", headers, sorted(headers), headers["x-amz-content-sha256"], headers["x-amz-date"], "us-east-1",
                                   "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")


class OneMachineToAnother(Cases):
    def check(self, server, settings):
        bundle = self.upload(server, settings)
        names = sorted(server.objects)
        self.assertEqual(len(names), 5, names)
        for name in names:
            self.assertRegex(name, "^a/b/main/[0-9a-f]{64}$")
        self.assertEqual(self.build("reader", settings)[0], bundle)
        counts = self.counts("reader", settings)
        self.assertEqual((counts["HIT_REMOTE"], counts["COMPILED"], counts["REMOTE_FAILED"]), (5, 0, 0))
        self.assertEqual(server.refused, [])

    def test_settings_of_kiln(self):
        with Server(region="eu-north-1") as server:
            self.check(server, self.settings(server, KILN_CACHE_S3_REGION="eu-north-1", AWS_ACCESS_KEY_ID="other", AWS_SECRET_ACCESS_KEY="other", AWS_SESSION_TOKEN="x"))

    def test_settings_of_aws_with_a_session(self):
        with Server(session="to/ken==", region="us-west-2") as server:
            self.check(server, {"AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": server.secret, "AWS_SESSION_TOKEN": server.session,
                                "AWS_DEFAULT_REGION": "us-west-2"})

    def test_settings_of_a_file(self):
        with Server() as server:
            file = self.path("kiln.conf")
            with open(file, "w") as out:
                out.write("".join("%s = %s\n" % item for item in self.settings(server).items()))
            self.check(server, {"KILN_CONFIG": file})

    def test_without_credentials_nothing_is_signed(self):
        with Server(key=None) as server:
            self.check(server, {"KILN_CACHE_S3_ENDPOINT": server.url + "/"})


class BadServers(Cases):
    def test_replies(self):
        """None of them is an object; the build goes on, and ends soon."""
        with Server() as server:
            settings = self.settings(server)
            bundle = self.upload(server, settings)
            for mode in ("other", "short", "rubbish", "cut", "long", "slow", "silent", (500, "InternalError"), (503, "SlowDown"), (403, "AccessDenied"), (301, "PermanentRedirect")):
                with self.subTest(mode=mode):
                    server.mode, cache = mode, "reader-%s" % (mode if isinstance(mode, str) else mode[0])
                    got, _, seconds = self.build(cache, settings)
                    counts = self.counts(cache, settings)
                    self.assertEqual(got, bundle)
                    self.assertEqual((counts["HIT_REMOTE"], counts["COMPILED"]), (0, 5))
                    self.assertGreater(counts["REMOTE_FAILED"] + counts["REMOTE_REFUSED"] + counts["REMOTE_DENIED"], 0)
                    self.assertLess(seconds, 15)

    def test_a_silent_server_is_left_alone(self):
        with Server() as server:
            server.mode, settings = "silent", self.settings(server)
            self.build("reader", settings)
            asked = len(server.requests)
            self.assertGreater(asked, 0)
            with open(self.source, "a") as file:
                file.write("kernel more(x: out *f32) @grid(1) @warps(1) { store(x + iota(32), 7.0) }\n")
            self.build("reader", settings)
            self.assertEqual(len(server.requests), asked)
            self.assertGreater(self.counts("reader", settings)["REMOTE_SKIPPED"], 0)


class Doctor(Cases):
    def test_words(self):
        rights = {"KILN_CACHE_REMOTE_WRITE": "1"}
        with Server() as server:
            good = self.settings(server, **rights)
            self.assertEqual(self.doctor(good), (0, "ok   remote cache: s3://kernels/a/b: answers, takes an upload and gives it back"))
            self.assertIn("a/b/main/doctor", server.objects)
            self.assertEqual(self.doctor({**good, "KILN_CACHE_REMOTE_WRITE": "0"})[1], "ok   remote cache: s3://kernels/a/b: answers; uploads are off (KILN_CACHE_REMOTE_WRITE)")
            for change, words in (({"KILN_CACHE_S3_SECRET": "wrong"}, "SignatureDoesNotMatch: KILN_CACHE_S3_SECRET (AWS_SECRET_ACCESS_KEY) is not the key's"),
                                  ({"KILN_CACHE_S3_KEY": "wrong"}, "InvalidAccessKeyId: the server does not know KILN_CACHE_S3_KEY (AWS_ACCESS_KEY_ID)"),
                                  ({"KILN_CACHE_S3_REGION": "eu-west-1"}, "AuthorizationHeaderMalformed: the bucket is in another region (KILN_CACHE_S3_REGION)"),
                                  ({"KILN_CACHE_REMOTE": "s3://others"}, "NoSuchBucket: there is no such bucket"),
                                  ({"KILN_CACHE_S3_KEY": "", "KILN_CACHE_S3_SECRET": ""}, "AccessDenied: the key gives no such right; a look-up also wants the right to list"),
                                  ({"KILN_CACHE_REMOTE": "s3://UPPER"}, "expected a bucket of 3 to 63 small letters, digits, '.' and '-', found \"UPPER\""),
                                  ({"KILN_CACHE_REMOTE": "s3://kernels/a%20b"}, 'expected a prefix of letters, digits and -_.~/, found "/a%20b"'),
                                  ({"KILN_CACHE_S3_ENDPOINT": "127.0.0.1:1"}, "KILN_CACHE_S3_ENDPOINT (AWS_ENDPOINT_URL): expected http://HOST[:PORT] or https://"),
                                  ({"KILN_CACHE_S3_SECRET": ""}, "KILN_CACHE_S3_KEY and KILN_CACHE_S3_SECRET go together: one of them is not set")):
                with self.subTest(change=change):
                    code, line = self.doctor({**good, **change})
                    self.assertEqual(code, 1)
                    self.assertIn(words, line)

    def test_no_secret_is_shown(self):
        with Server(session="sessionSECRET") as server:
            server.secret = "keySECRET"
            settings = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": "keySECRET", "AWS_SESSION_TOKEN": "sessionSECRET",
                        "KILN_CACHE_REMOTE_WRITE": "1"}
            texts = [self.kiln("a", settings, *words)[1] for words in (("env",), ("env", "--json"), ("cache", "doctor"), ("build", self.source, "-t", "gfx942", "-o", "a.kbundle"),
                                                                     ("cache", "push"), ("cache", "stats"))]
            ours = self.kiln("a", self.settings(server), "env")[1]
            for text in [*texts, ours]:
                self.assertNotIn("keySECRET", text)
                self.assertNotIn("sessionSECRET", text)
            self.assertIn("= (not shown) (the environment)", texts[0])
            self.assertNotIn("keySECRET", server.seen)
            self.assertEqual(server.refused, [])


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
