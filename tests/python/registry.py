# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small registry of containers for tests, after the OCI distribution specification: it keeps blobs and manifests in memory, refuses what does not have its
digest, and can answer as a hostile one would."""
import base64
import hashlib
import json
import re
import urllib.parse

import loopback

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Handler(loopback.Handler):
    def fail(self, status, code):
        headers = [("WWW-Authenticate", 'Basic realm="registry"')] if status == 401 else []
        self.reply(status, json.dumps({"errors": [{"code": code, "message": "no"}]}).encode(), headers)

    def serve(self):
        server = self.server.owner
        body = self.body()
        path, _, query = self.path.partition("?")
        with server.lock:
            server.requests.append((self.command, path, self.headers.get("Authorization")))
        if server.login and self.headers.get("Authorization") != "Basic " + base64.b64encode(server.login.encode()).decode():
            return self.fail(401, "UNAUTHORIZED")
        if server.mode == "silent":
            server.ended.wait(60)
            return
        found = re.fullmatch("/v2/(.+)/(blobs|manifests)/(.*)", path)
        if not found:
            return self.fail(404, "NAME_UNKNOWN")
        getattr(self, found[2])(server, found[1], found[3], body, urllib.parse.parse_qs(query))

    def blobs(self, server, name, rest, body, query):
        if self.command == "POST" and rest == "uploads/":
            place = "/v2/%s/blobs/uploads/1?state=a%%2Fb" % name
            return self.reply(202, headers=[("Location", {"elsewhere": "http://127.0.0.2:9" + place, "slashes": "//127.0.0.2:9" + place, "nowhere": "",
                                                          "absolute": server.url + place}.get(server.mode, place))])
        if self.command == "PUT" and rest == "uploads/1":
            if query.get("state") != ["a/b"] or query.get("digest") != [digest_of(body)]:
                return self.fail(400, "DIGEST_INVALID")
            server.blobs[name, digest_of(body)] = body
            return self.reply(201)
        data = server.blobs.get((name, rest))
        if data is None:
            return self.fail(404, "BLOB_UNKNOWN")
        if self.command == "GET" and server.mode == "redirect":
            return self.reply(307, headers=[("Location", server.storage + "/v2/%s/blobs/%s" % (name, rest))])
        if self.command == "GET" and server.mode == "circle":
            return self.reply(307, headers=[("Location", self.path)])
        if self.command == "GET" and server.mode == "other blob":
            data = data[:-1] + bytes([data[-1] ^ 1])
        if self.command == "GET" and server.mode == "short blob":
            data = data[:-1]
        if self.command == "GET" and server.mode == "long blob":
            data += b"x"
        if self.command == "GET" and server.mode == "endless blob":
            self.reply(200, data, length=1 << 40)
            while not server.ended.is_set():
                self.wfile.write(bytes(1 << 16))
        if self.command == "GET" and server.mode == "cut blob":
            self.reply(200, data[:100], length=len(data))
            self.close_connection = True
            return
        self.reply(200, data)

    def manifests(self, server, name, reference, body, query):
        if self.command == "PUT":
            if self.headers.get("Content-Type") != MANIFEST:
                return self.fail(400, "MANIFEST_INVALID")
            parts = json.loads(body)
            for part in [parts["config"], *parts["layers"]]:
                data = server.blobs.get((name, part["digest"]))
                if data is None or len(data) != part["size"]:
                    return self.fail(404, "MANIFEST_BLOB_UNKNOWN")
            server.manifests[name, reference] = server.manifests[name, digest_of(body)] = body
            return self.reply(201, headers=[("Docker-Content-Digest", digest_of(body))])
        data = server.manifests.get((name, reference))
        if data is None:
            return self.fail(404, "MANIFEST_UNKNOWN")
        if callable(server.mode):
            data = server.mode(reference, data)
        if server.mode == "redirected manifest":
            return self.reply(307, headers=[("Location", "/elsewhere")])
        self.reply(200, data, [("Content-Type", MANIFEST), ("Docker-Content-Digest", digest_of(data))])

    do_GET = do_PUT = do_POST = do_HEAD = serve


class Registry(loopback.Server):
    """with Registry() as registry: registry.host is "127.0.0.1:PORT". `mode`: "" (right), how replies are wrong, or what makes another manifest of one."""

    handler = Handler

    def __init__(self, login=None):
        super().__init__()
        self.login, self.blobs, self.manifests, self.requests, self.mode = login, {}, {}, [], ""
