# SPDX-License-Identifier: Apache-2.0
"""The file that says what was run: a JSON object on each line, only ever appended to, so that branches merge it by
keeping the lines of both.

    {"stage": "simulations", "code": "1f6c...", "commit": "7fe9cee2", "at": "2026-11-27T06:40:12Z", "took": 61,
     "passed": true, "seeds": [8123456000000, 5000]}

What ran is one of "seeds": [first, count]; "rows": [name, ...]; "amount": number, with the "seed" of its faults, if it
has any. "said": what a failed one said, and what is worth to be known of one that passed.
"""
import contextlib
import datetime
import fcntl
import json
import os


class BrokenRecord(Exception):
    """A line is no row; the message says which."""


class Record:
    """The rows in `path`. `folder`, outside of version control, has what is under way: pieces that are claimed by runs
    that live."""

    def __init__(self, path, folder):
        self.path, self.claims = path, folder / "claims"
        self.claims.mkdir(parents=True, exist_ok=True)
        self._lock_path = folder / "lock"

    def rows(self):
        """Each once, also where a merge has kept both copies."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        found = {}
        for number, line in enumerate(lines, 1):
            try:
                found[line] = dict(json.loads(line))
                found[line]["stage"], found[line]["code"]  # pylint: disable=pointless-statement
            except (ValueError, TypeError, KeyError):
                raise BrokenRecord(f"{self.path}:{number} is no row: {line[:80]}") from None
        return list(found.values())

    @contextlib.contextmanager
    def locked(self):
        """No other run of this tree reads, claims or appends meanwhile."""
        with open(self._lock_path, "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def append(self, **row):
        """One write, so that a run which ends at this moment leaves a whole line or none. Call it while locked."""
        line = json.dumps(row, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())

    def claim(self, stage, code, piece):
        """Keeps other runs from the piece until the result is closed, or this process ends. Call it while locked."""
        name = f"{stage}-{code}-{os.getpid()}-{datetime.datetime.now().timestamp()}"
        file = open(self.claims / name, "w", encoding="utf-8")  # pylint: disable=consider-using-with
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"stage": stage, "code": code, **piece}, file)
        file.flush()
        return file

    def claimed(self, stage, code):
        """The pieces that runs have claimed and not ended yet. Call it while locked."""
        found = []
        for path in self.claims.iterdir():
            with open(path, encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    piece = json.load(file)
                    if (piece["stage"], piece["code"]) == (stage, code):
                        found.append(piece)
                    continue
            path.unlink()  # its run is over
        return found


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
