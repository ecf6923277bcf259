# SPDX-License-Identifier: Apache-2.0
"""The kernel's own TCP connections (IPv4) of processes of this machine: which there are, and whether what was written
to them has arrived. A connection that its process has closed goes on until the kernel has delivered its bytes.
"""
import collections
import os
import re
import socket
import struct

Connection = collections.namedtuple("Connection", "host port peer_host peer_port")
ESTABLISHED, LISTENS = 0x01, 0x0A
UNDELIVERED_ENDS = (0x04, 0x09, 0x0B)  # FIN_WAIT1, LAST_ACK, CLOSING: the end of the stream is not confirmed


def _address(text):
    host, port = text.split(":")
    return socket.inet_ntoa(struct.pack("<I", int(host, 16))), int(port, 16)


def _rows():
    """(connection, state, bytes that wait to be confirmed, inode)."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            connection = Connection(*_address(fields[1]), *_address(fields[2]))
            yield connection, int(fields[3], 16), int(fields[4].partition(":")[0], 16), fields[9]


def connections_of(pid):
    """Those that it has made and that stand; none that others have made to it."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        if found:
            inodes.add(found[1])
    rows = [(connection, state) for connection, state, _, inode in _rows() if inode in inodes]
    taken_at = {connection.port for connection, state in rows if state == LISTENS}
    return [connection for connection, state in rows if state == ESTABLISHED and connection.port not in taken_at]


def undelivered(connections):
    """Those of them with bytes, or an end of the stream, that the peer has not confirmed."""
    wanted = set(connections)
    return [connection for connection, state, waiting, _ in _rows()
            if connection in wanted and (waiting or state in UNDELIVERED_ENDS)]


__all__ = ["Connection", "connections_of", "undelivered"]
