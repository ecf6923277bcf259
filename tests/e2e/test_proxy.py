# SPDX-License-Identifier: Apache-2.0
"""Tests of the proxy that the other tests rely on."""
import contextlib
import errno
import socket
import threading

import pytest

from proxy import DOWN, UP, PATIENCE_S, Proxy, parse


class Echo:
    """A server that answers every line with `re:` before it."""

    def __init__(self, address):
        self.family, where = parse(address)
        self.listener = socket.socket(self.family)
        self.listener.bind(where)
        self.listener.listen()
        self.heard = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock):
        try:
            with sock, sock.makefile("rwb") as stream:
                for line in stream:
                    self.heard.append(line)
                    stream.write(b"re:" + line)
                    stream.flush()
                sock.sendall(b"end\n")
        except OSError:
            pass

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # otherwise the waiting accept keeps it open
        self.listener.close()

    @property
    def url(self):
        name = self.listener.getsockname()
        return f"unix://{name}" if self.family == socket.AF_UNIX else f"{name[0]}:{name[1]}"


@pytest.fixture(params=["unix", "tcp"])
def net(request, tmp_path):
    echo = Echo(f"unix://{tmp_path}/echo.sock" if request.param == "unix" else "127.0.0.1:0")
    with Proxy(echo.url, tmp_path) as proxy:
        proxy.echo = echo
        yield proxy
    echo.close()


def dial(net):
    family, where = parse(net.url)
    sock = socket.socket(family)
    sock.settimeout(PATIENCE_S)
    try:
        sock.connect(where)
    except OSError:
        sock.close()
        raise
    return sock


def ask(sock, line):
    sock.sendall(line)
    return sock.makefile("rb").readline()


def silent(sock):
    """Whether nothing has arrived so far."""
    sock.setblocking(False)
    try:
        with pytest.raises(BlockingIOError):
            sock.recv(1)
    finally:
        sock.settimeout(PATIENCE_S)


def broken(sock):
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def test_forwards(net):
    with dial(net) as a, dial(net) as b:
        assert ask(a, b"one\n") == b"re:one\n"
        assert ask(b, b"two\n") == b"re:two\n"
        big = b"x" * 1_000_000 + b"\n"
        sender = threading.Thread(target=a.sendall, args=(big,))
        sender.start()
        assert a.makefile("rb").readline() == b"re:" + big
        sender.join()
        assert net.counters().open == 2
        for sock in (a, b):
            sock.shutdown(socket.SHUT_WR)
            assert sock.makefile("rb").readline() == b"end\n"
    seen = net.wait_for(lambda c: c.open == 0)
    assert seen.accepted == 2 and seen.resets + seen.held + seen.delayed + seen.pieces + seen.halved == 0
    assert seen.bytes_down == seen.bytes_up + 3 * 3 + 2 * len(b"end\n")


def test_pause_stops_bytes_and_keeps_the_connection(net):
    with dial(net) as a:
        assert ask(a, b"one\n") == b"re:one\n"
        net.pause(DOWN)
        a.sendall(b"two\n")
        net.wait_for(lambda c: c.bytes_up == 8)
        silent(a)
        net.pause()
        a.sendall(b"three\n")
        with dial(net) as b:
            b.sendall(b"four\n")
            net.wait_for(lambda c: c.open == 2 and c.held > 0)
            silent(b)
            assert b"three\n" not in net.echo.heard
            net.resume()
            lines = a.makefile("rb")
            assert [lines.readline(), lines.readline()] == [b"re:two\n", b"re:three\n"]
            assert b.makefile("rb").readline() == b"re:four\n"


def test_hold_delivers_late_what_a_closed_connection_had_sent(net):
    with dial(net) as old:
        assert ask(old, b"one\n") == b"re:one\n"
        assert net.hold() == 1
        old.sendall(b"two\n")
        old.sendall(b"three\n")
    with dial(net) as new:
        assert ask(new, b"four\n") == b"re:four\n"
        assert net.echo.heard == [b"one\n", b"four\n"]
        net.let_arrive()
        net.wait_for(lambda c: c.open == 1)
        assert net.echo.heard == [b"one\n", b"four\n", b"two\n", b"three\n"]
        assert ask(new, b"five\n") == b"re:five\n"


def test_drop_swallows_one_direction(net):
    with dial(net) as a:
        net.drop(DOWN)
        a.sendall(b"one\n")
        net.wait_for(lambda c: c.dropped_down == 7)
        assert net.echo.heard == [b"one\n"]
        net.resume()
        assert ask(a, b"two\n") == b"re:two\n"


def test_delay_keeps_order(net):
    with dial(net) as a:
        net.delay(20)
        lines = a.makefile("rb")
        for i in range(5):
            a.sendall(b"%d\n" % i)
        assert [lines.readline() for _ in range(5)] == [b"re:%d\n" % i for i in range(5)]
        assert net.counters().delayed > 0


def test_split_sends_single_bytes(net):
    with dial(net) as a:
        net.split()
        assert ask(a, b"x" * 3000 + b"\n") == b"re:" + b"x" * 3000 + b"\n"
        assert net.counters().pieces >= 2 * 3000


def test_reset_all(net):
    with dial(net) as a:
        ask(a, b"one\n")
        assert net.reset_all() == 1
        assert broken(a)
        assert net.counters().resets == 1
    with dial(net) as b:
        assert ask(b, b"two\n") == b"re:two\n"


def test_reset_is_a_reset_on_tcp(tmp_path):
    echo = Echo("127.0.0.1:0")
    with Proxy(echo.url, tmp_path) as net, dial(net) as a:
        ask(a, b"one\n")
        net.reset_all()
        with pytest.raises(ConnectionResetError):
            a.recv(1)
    echo.close()


def test_half_close(net):
    with dial(net) as a:
        ask(a, b"one\n")
        net.half_close(UP)
        assert a.makefile("rb").readline() == b"end\n"
        assert net.counters().halved == 1


def test_refuse_new_and_accept_again(net):
    with dial(net) as a:
        ask(a, b"one\n")
        net.refuse_new()
        with pytest.raises(ConnectionRefusedError):
            dial(net)
        assert ask(a, b"two\n") == b"re:two\n"
        net.accept_new()
        with dial(net) as b:
            assert ask(b, b"three\n") == b"re:three\n"


@pytest.mark.parametrize("request_", [b"lose me", 5, lambda seen: seen.endswith(b"me\n")])
def test_a_reply_is_lost_after_the_request_ran(net, request_):
    with dial(net) as a, dial(net) as b:
        assert ask(b, b"before\n") == b"re:before\n"
        lost = net.drop_reply_after(request_)
        assert not lost.happened()
        a.sendall(b"lose me\n")
        assert lost.wait().startswith(b"re:")
        assert broken(a)
        assert net.echo.heard == [b"before\n", b"lose me\n"]
        assert ask(b, b"lose me\n") == b"re:lose me\n", "only once"


def test_earlier_replies_are_not_lost(net):
    with dial(net) as a:
        lost = net.drop_reply_after(b"second", reply=b"re:second\n")
        a.sendall(b"first\nsecond\n")
        assert lost.wait() == b"re:first\nre:second\n"
        assert broken(a)


def test_a_loss_whose_connection_ends_first_moves_to_the_next_connection(net):
    lost = net.drop_reply_after(b"first", reply=b"re:second\n")
    with dial(net) as a:
        a.sendall(b"first\n")
        net.wait_for(lambda c: c.dropped_down > 0)
        net.reset_all()
    with dial(net) as b:
        b.sendall(b"first\nsecond\n")
        assert lost.wait() == b"re:first\nre:second\n"


def test_an_unreachable_target_resets_the_client(net):
    net.echo.close()
    with contextlib.suppress(ConnectionResetError):  # the reset may come before connect has returned
        with dial(net) as a:
            assert broken(a)
    net.wait_for(lambda c: c.unreachable == 1)


def test_a_port_stays_reserved_while_refusing(tmp_path):
    with Proxy("127.0.0.1:1", tmp_path) as net:
        net.refuse_new()
        with socket.socket() as other, pytest.raises(OSError) as taken:
            other.bind(parse(net.url)[1])
        assert taken.value.errno == errno.EADDRINUSE
