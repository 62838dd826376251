# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs `kiln build` by way of `kiln build-server`, whose code generator stays: starting one takes longer than a small kernel does. One server for each thread that
builds at the same time. A server has the environment and the folder that it was started with, so where these have changed, it is another. It ends when the
process does, and after a while without work."""
import atexit
import os
import struct
import subprocess


class _Gone(Exception):
    """The server has ended, as it does without work."""


def _surroundings(program):
    return program, os.getcwd(), dict(os.environ)


class _Server:
    def __init__(self, surroundings):
        self.surroundings = surroundings
        self.has_answered = False
        self.process = subprocess.Popen([surroundings[0], "build-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        _all.append(self)

    def ask(self, words):
        """(exit status, output, errors) of a command."""
        request = b"".join(os.fsencode(word) + b"\0" for word in ("kiln", *words))
        try:
            for data in (struct.pack("<I", len(request)), request):
                while data:
                    data = data[self.process.stdin.write(data):]
        except BrokenPipeError:
            raise _Gone from None
        status, output, errors = struct.unpack("<III", self.read(12))
        self.has_answered = True
        return status if status < 256 else 256 - status, self.read(output), self.read(errors)

    def read(self, size):
        found = b""
        while len(found) < size:
            part = self.process.stdout.read(size - len(found))
            if not part:
                raise _Gone
            found += part
        return found

    def close(self, works=False):
        _all.remove(self)
        self.process.stdin.close()
        self.process.stdout.close()
        if works:
            self.process.kill()
        self.process.wait()

    def forget(self):
        """In a forked process: it is the parent's."""
        self.process.returncode = 0
        self.process.stdin.close()
        self.process.stdout.close()


_all, _idle = [], []


def _taken(surroundings):
    while _idle:
        server = _idle.pop()
        if server.surroundings == surroundings and server.process.poll() is None:
            return server
        server.close()
    return _Server(surroundings)


def run(program, *words):
    """(exit status, output, errors) of a command of the program."""
    surroundings = _surroundings(program)
    while True:
        server = _taken(surroundings)
        try:
            found = server.ask(words)
        except _Gone:
            server.close()
            if not server.has_answered:
                raise OSError("%s build-server ended without an answer" % program) from None
            continue
        except BaseException:
            server.close(works=True)
            raise
        _idle.append(server)
        return found


def _at_end():
    idle = list(_idle)
    _idle.clear()
    for server in list(_all):
        server.close(works=server not in idle)


def _in_child():
    for server in _all:
        server.forget()
    _all.clear()
    _idle.clear()


atexit.register(_at_end)
os.register_at_fork(after_in_child=_in_child)
