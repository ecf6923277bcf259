# SPDX-License-Identifier: Apache-2.0
"""leash.py GRACE PROGRAM [ARG...]: runs a program that ends with whoever started this.

SIGTERM asks the program to end, and ends it with all that it started after GRACE seconds. When the parent is gone, even
by kill -9, all of them end at once. It must lead a process group of its own.
"""
import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def end_all(*_):
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(grace, argv):
    assert os.getpgrp() == os.getpid(), "the leash must lead a process group of its own"
    parent = os.getppid()
    signal.signal(signal.SIGHUP, end_all)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGHUP)
    if os.getppid() != parent:
        end_all()
    with subprocess.Popen(argv) as program:

        def ask(*_):
            program.terminate()
            timer = threading.Timer(float(grace), end_all)
            timer.daemon = True
            timer.start()
        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = program.wait()
    # As a shell tells it.
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
