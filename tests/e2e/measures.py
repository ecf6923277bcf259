# SPDX-License-Identifier: Apache-2.0
"""How much memory and time a broker takes, and how many bytes it keeps for callers that do not read."""
import os
import time


def status_number(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return 0


def resident_mb(pid):
    return status_number(pid, "VmRSS") / 1024


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch_memory(pid, running):
    peak = 0
    while running():
        peak = max(peak, resident_mb(pid))
        time.sleep(0.05)
    return peak


def most_unwritten(daemon, running):
    """Of the events that wait to be written, the most megabytes that the broker has told of."""
    most = 0
    while running():
        most = max(most, daemon.metric("distlock_unwritten_bytes"))
        time.sleep(0.1)
    return most / 2**20
