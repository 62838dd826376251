# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An HTTP server of this process on 127.0.0.1 for tests; registry.py and s3_server.py say what theirs answer."""
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle(self):
        try:
            super().handle()
        except OSError:  # the client is gone
            pass


class Server:
    """with Server() as server: its address is server.url; `handler` finds it in self.server.owner. `ended` is set when replies are to end, `lock` guards what
    threads of requests share."""
    handler, port = Handler, 0

    def __init__(self):
        self.lock, self.ended = threading.Lock(), threading.Event()

    def __enter__(self):
        self.http = ThreadingHTTPServer(("127.0.0.1", self.port), self.handler)
        self.http.daemon_threads = True
        self.http.owner = self
        self.host = "127.0.0.1:%d" % self.http.server_address[1]
        self.url = "http://" + self.host
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *what):
        self.ended.set()
        self.http.shutdown()
        self.http.server_close()
