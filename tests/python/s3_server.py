# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small server that speaks as S3 does, for tests: it keeps objects in memory, computes each request's signature itself from the public description (AWS Signature
Version 4) and refuses what does not match; and it can answer with errors, wrong, cut, slow and silent replies."""
import calendar
import hashlib
import hmac
import sys
import time
import urllib.parse

import loopback


def signature(method, path, query, headers, signed, payload, date, region, secret):
    """That of one request: `headers` by names in lower case, `signed` their names in the order of the signature, `date` as in x-amz-date."""
    pairs = sorted((urllib.parse.quote(name, safe="-_.~"), urllib.parse.quote(value, safe="-_.~")) for name, value in
                   urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([method, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"), "&".join("%s=%s" % pair for pair in pairs),
                           "".join("%s:%s\n" % (name, " ".join(headers[name].split())) for name in signed), ";".join(signed), payload])
    scope = "/".join([date[:8], region, "s3", "aws4_request"])
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def refusal(server, request, body):
    """Why a request is not let in, as an error code of S3; None where it is."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if server.key is None:
        return None if "authorization" not in headers else "AccessDenied"
    words = headers.get("authorization", "").replace(",", " ").split()
    if not words:
        return "AccessDenied"
    fields = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    if words[0] != "AWS4-HMAC-SHA256" or set(fields) != {"Credential", "SignedHeaders", "Signature"}:
        return "AuthorizationHeaderMalformed"
    key, *scope = fields["Credential"].split("/")
    signed, date = fields["SignedHeaders"].split(";"), headers.get("x-amz-date", "")
    if key != server.key:
        return "InvalidAccessKeyId"
    if scope != [date[:8], server.region, "s3", "aws4_request"]:
        return "AuthorizationHeaderMalformed"
    if abs(time.time() - calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))) > 900:
        return "RequestTimeTooSkewed"
    needed = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if not needed <= set(signed) or not set(signed) <= set(headers) or signed != sorted(signed):
        return "AccessDenied"
    payload = headers["x-amz-content-sha256"]
    if payload != hashlib.sha256(body).hexdigest():
        return "XAmzContentSHA256Mismatch"
    if headers.get("x-amz-security-token") != server.session:
        return "InvalidToken"
    path, _, query = request.path.partition("?")
    right = signature(request.command, path, query, headers, signed, payload, date, server.region, server.secret)
    return None if hmac.compare_digest(right, fields["Signature"]) else "SignatureDoesNotMatch"


class Handler(loopback.Handler):
    def fail(self, status, code):
        self.reply(status, ("<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>no</Message></Error>" % code).encode())

    def answer(self):
        server = self.server.owner
        body = self.body()
        with server.lock:
            server.requests.append((self.command, self.path))
            server.seen += repr(self.headers.items())
        if server.mode == "silent":
            server.ended.wait(60)
            return
        if isinstance(server.mode, tuple):
            return self.fail(*server.mode)
        why = refusal(server, self, body)
        if why:
            with server.lock:
                server.refused.append(why)
            return self.fail(403, why)
        bucket, _, name = self.path[1:].partition("/")
        if bucket != server.bucket:
            return self.fail(404, "NoSuchBucket")
        if self.command == "PUT":
            with server.lock:
                server.objects[name] = body
            return self.reply(200)
        found = server.objects.get(name)
        if found is None:
            return self.fail(404, "NoSuchKey")
        if server.mode == "other":
            found = found[:-1] + bytes([found[-1] ^ 1])
        if server.mode == "short":
            return self.reply(200, found[:-10])
        if server.mode == "rubbish":
            return self.reply(200, b"<html>" + found)
        if server.mode == "cut":
            self.reply(200, found[:50], length=len(found))
            self.close_connection = True
        elif server.mode == "long":
            self.reply(200, found + bytes(1 << 20))
        elif server.mode == "slow":
            self.reply(200, length=len(found))
            for byte in found:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if server.ended.wait(0.05):
                    return
        else:
            self.reply(200, found)

    do_GET = do_PUT = answer


class Server(loopback.Server):
    """with Server() as server: its address is server.url. `mode`: "" (right), a status and a code of S3, or how replies are broken."""

    handler = Handler

    def __init__(self, key="AKIAEXAMPLE", secret="se/cr+et=EXAMPLE", region="us-east-1", session=None, bucket="kernels"):
        super().__init__()
        self.key, self.secret, self.region, self.session, self.bucket = key, secret, region, session, bucket
        self.objects, self.requests, self.refused, self.mode, self.seen = {}, [], [], "", ""


if __name__ == "__main__":  # s3_server.py PORT: for tests in C
    alone = Server()
    alone.port = int(sys.argv[1])
    with alone:
        alone.ended.wait()
