# SPDX-License-Identifier: Apache-2.0
"""iptables between processes of this machine. Servers have addresses of their own in 127.0.0.0/8; brokers, which all
come from 127.0.0.1, are told apart by their users. Needs root.
"""
import os
import shutil
import subprocess

FIRST_USER = 42001  # of the brokers


def is_possible():
    return os.geteuid() == 0 and shutil.which("iptables") is not None and shutil.which("setpriv") is not None


class PacketFilter:
    """A chain of its own, which is empty until something is cut."""

    def __init__(self):
        assert is_possible(), "this needs root, iptables and setpriv"
        self.chain = f"distlock-test-{os.getpid()}"[:28]
        self._run("-N", self.chain)
        self._run("-I", "OUTPUT", "-o", "lo", "-j", self.chain)

    def drop(self, *rule):
        """Drops the packets that iptables' `rule` describes."""
        self._run("-A", self.chain, *rule, "-j", "DROP")

    def cut_user(self, user, host):
        """What processes of this user send to that address is lost; with it the confirmations of what they are sent."""
        self.drop("-d", host, "-m", "owner", "--uid-owner", user)

    def mend_user(self, user, host):
        self._run("-D", self.chain, "-d", host, "-m", "owner", "--uid-owner", user, "-j", "DROP")

    def cut_connections(self, connections):
        """The packets of these TCP connections are lost in both directions; others of the same processes flow."""
        self._change_connections("-A", connections)

    def mend_connections(self, connections):
        self._change_connections("-D", connections)

    def _change_connections(self, change, connections):
        """All at once: a connection that flows while the next one is cut would tell of the cut."""
        lines = []
        for here, port, there, peer_port in connections:
            for ends in ((here, port, there, peer_port), (there, peer_port, here, port)):
                lines.append(f"{change} {self.chain} -p tcp -s {ends[0]} --sport {ends[1]} -d {ends[2]} "
                             f"--dport {ends[3]} -j DROP\n")
        subprocess.run(["iptables-restore", "-w", "--noflush"], input="*filter\n" + "".join(lines) + "COMMIT\n",
                       check=True, capture_output=True, text=True)

    def heal(self):
        self._run("-F", self.chain)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.heal()
        self._run("-D", "OUTPUT", "-o", "lo", "-j", self.chain)
        self._run("-X", self.chain)

    @staticmethod
    def _run(*args):
        subprocess.run(["iptables", "-w", *map(str, args)], check=True, capture_output=True, text=True)


def as_user(daemon, user):
    """Has a process that is not started yet run as that user. It needs nothing of the file system but its program."""
    daemon.argv = ["setpriv", "--reuid", str(user), "--clear-groups", *daemon.argv]
    return daemon
