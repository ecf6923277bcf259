#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small service that several hosts run at once: POST /transfer?from=7&to=9&amount=5.

Each transfer holds both accounts, whichever host serves it. One of the hosts, the leader, writes a report each minute.
    DISTLOCK_SERVER=10.0.0.1:7420,10.0.0.2:7420 python3 examples/service.py 8080
"""
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import distlock

HOST = socket.gethostname()
dl = distlock.connect(options=distlock.Options(owner=HOST))


class Transfers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        accounts = [f"account/{asked['from']}", f"account/{asked['to']}"]
        try:
            with dl.all(accounts, wait=2) as both:
                # The database refuses a write whose token is smaller than one that it has seen for the account.
                answer, text = 200, f"moved {asked['amount']} under the tokens {both.tokens}\n"
                both.check()  # right before the commit
        except distlock.Busy as busy:
            answer, text = 409, f"{busy}\n"
        except distlock.DistlockError as error:
            answer, text = 503, f"{error}\n"
        self.send_response(answer)
        self.end_headers()
        self.wfile.write(text.encode())


def write_reports() -> None:
    while True:
        try:
            # resume: the term outlives a restart of the broker.
            with dl.campaign("reports", value=HOST, resume=True) as term:
                while not term.lost.wait(60):
                    print(f"the report of {HOST}, term {term.token}")
        except distlock.DistlockError as error:
            print(f"no longer the leader: {error}", file=sys.stderr)


if __name__ == "__main__":
    threading.Thread(target=write_reports, daemon=True).start()
    server = ThreadingHTTPServer(("", int(sys.argv[1]) if len(sys.argv) > 1 else 8080), Transfers)
    print(f"serving on port {server.server_port}", flush=True)
    server.serve_forever()
