"""A server to test, and requests to it, with Python's own library alone."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time


class Server:
    def __init__(self, program, *options, hook=None, stderr_to=None):
        self.hook = hook
        env = {**os.environ, **({"WHERRY_SERVE_HOOK": hook} if hook else {})}
        self.process = subprocess.Popen([program, *options, *([] if "--socket" in options else ["--port", "0"])],
                                        stderr=subprocess.PIPE, env=env)
        self.lines = []
        self.path, self.port = None, None
        while True:
            line = self.process.stderr.readline().decode()
            assert line, f"it did not start: {self.lines}, status {self.process.wait()}"
            self.lines.append(line)
            found = re.search(r"listening on (?:http://\S+:(\d+)|unix:(\S+))", line)
            if found:
                self.port, self.path = int(found[1]) if found[1] else None, found[2]
                break
        os.set_blocking(self.process.stderr.fileno(), False)

    def connect(self):
        if self.path:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.connect(self.path)
            return one
        return socket.create_connection(("127.0.0.1", self.port))

    def connection(self):
        one = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if self.path:
            one.sock = self.connect()
        return one

    def raw(self, method, path, body=None, headers=None, connection=None):
        """Status, headers, bytes."""
        one = connection or self.connection()
        one.request(method, path, body=body, headers=headers or {})
        answer = one.getresponse()
        data = answer.read()
        if not connection:
            one.close()
        return answer.status, answer.headers, data

    def post(self, path, value, status=200, says=None, **more):
        body = value if isinstance(value, (bytes, str)) else json.dumps(value)
        got, headers, data = self.raw("POST", path, body, {"Content-Type": "application/json", **more})
        assert got == status, (path, value if len(str(value)) < 300 else "...", got, data[:300])
        answer = json.loads(data)
        if says:
            assert says in json.dumps(answer, ensure_ascii=False), (path, value, answer)
        if status != 200:
            check_error(path, status, answer)
        self.headers = headers
        return answer

    def get(self, path, status=200, **more):
        got, headers, data = self.raw("GET", path, headers=more)
        assert got == status, (path, got, data[:300])
        self.headers = headers
        return data.decode()

    def metric(self, name):
        for line in self.get("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split(" ")[-1])
        raise AssertionError(f"no metric {name}")

    def said(self):
        """What it wrote to standard error since."""
        more = (self.process.stderr.read() or b"").decode()
        self.lines.append(more)
        return more

    def until(self, text, seconds=30):
        end, all_of_it = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            all_of_it += self.said()
            if text in all_of_it:
                return all_of_it
            time.sleep(0.02)
        raise AssertionError(f"it did not say {text!r}, but {all_of_it!r}")

    def stop(self, how=signal.SIGTERM, code=0):
        if self.process.stderr.closed:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            got = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            os.set_blocking(self.process.stderr.fileno(), True)
            self.lines.append(self.process.stderr.read().decode())
            self.process.stderr.close()
        assert got == code, (got, self.lines)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            self.process.kill()
            self.process.wait()
            self.said()
            print("".join(self.lines), file=sys.stderr)
            self.process.stderr.close()
        else:
            self.stop()


TYPES = {"Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"}


def check_error(path, status, answer):
    """Both dialects' bodies, exactly."""
    if "message" in answer:
        assert set(answer) == {"message", "code", "type"} and answer["code"] == status, (path, answer)
        assert answer["type"] in TYPES and answer["message"], (path, answer)
    else:
        assert set(answer) == {"error", "error_type"}, (path, answer)
        assert answer["error_type"] in TYPES and answer["error"], (path, answer)
