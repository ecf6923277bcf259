# SPDX-License-Identifier: Apache-2.0
"""Kinds of stages: in which units each counts what it has run, which piece comes next, and how a piece is run.

A piece is what the record says ran: {"seeds": [first, count]}, {"rows": [...]} or {"amount": n, "seed": s}.
"""
import hashlib
import random
import re
import subprocess

UNKNOWN_PACE = 20  # a part of a chunk that shows the pace, when the time is limited
MARGIN = 0.8  # of the time that is left, so that a piece ends within it


class Stage:
    """name; code: the paths that decide what it shows; wanted: how much of it is enough; quick: a command that only
    shows that it runs; prepare: one that builds what it needs; grace: how long its command may take to end well when it
    is asked to, s; may_repeat: a failure does not keep it from being run again with the same code."""
    unit = ""
    goes_on = False  # after a failure, with what is left

    def __init__(self, name, code, wanted, *, quick, prepare=(), env=(), grace=10, may_repeat=False):
        self.name, self.code, self.wanted, self.quick = name, code, wanted, quick
        self.prepare, self.env, self.grace, self.may_repeat = prepare, dict(env), grace, may_repeat

    def pieces(self, rows):
        """Of the rows of this stage and code, those that passed."""
        return [row for row in rows if row["passed"]]

    def failed(self, rows):
        return [row for row in rows if not row["passed"]]

    def done(self, rows):
        raise NotImplementedError

    def wanted_now(self, _tree):
        return self.wanted

    def next(self, tree, rows, busy, left):
        """The next piece; None: enough is done or under way, or nothing fits into `left` seconds. tree: its path and
        code; rows: of this stage and code; busy: pieces under way elsewhere."""
        raise NotImplementedError

    def command(self, piece):
        raise NotImplementedError

    def environment(self, _piece):
        return self.env

    def read(self, _line):
        """Of a line of output: (row, whether it passed, what it said) when it tells how a row of the piece ended."""
        return None

    def ran(self, piece, _lines):
        """What of the piece has run; None: it cannot be said, so it does not count."""
        return piece

    def faults(self, _rows):
        """What is wrong although each row has passed."""
        return []


def covered(ranges):
    """[[first, end], ...] without overlaps, in order."""
    found = []
    for first, count in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], first + count)
        else:
            found.append([first, first + count])
    return found


def tidy(amount):
    """To a tenth, and whole if it is."""
    return int(amount) if amount == int(amount) else round(amount, 1)


def pace(rows, units):
    """Units in a second, as seen so far; None: never seen."""
    took = sum(row["took"] for row in rows)
    return units / took if units and took else None


class Seeds(Stage):
    """Simulations of a range of seeds. Other seeds with each code, so that each change is tried by new simulations."""
    unit = "seeds"
    seeds_from = None  # where seeds begin, instead of where the code has it

    def __init__(self, name, code, wanted, chunk, command, *, ran=r"^(\d+) seeds, ", **more):
        """command: with {first} and {count} in it; ran: a pattern whose group is how many seeds have run."""
        super().__init__(name, code, wanted, **more)
        self.chunk, self._command, self._ran = chunk, command, re.compile(ran)

    def done(self, rows):
        return sum(end - first for first, end in covered(row["seeds"] for row in self.pieces(rows)))

    def next(self, tree, rows, busy, left):
        taken = covered([row["seeds"] for row in self.pieces(rows)] + [piece["seeds"] for piece in busy])
        count = min(self.chunk, self.wanted - sum(end - first for first, end in taken))
        rate = pace(rows, sum(row["seeds"][1] for row in rows))
        if rate:
            count = int(min(count, left * rate * MARGIN))
        elif left != float("inf"):
            count = min(count, -(-self.chunk // UNKNOWN_PACE))
        if count < 1:
            return None
        at = self.first(tree.code.name)
        for first, end in taken:
            if first <= at < end:
                at = end
            elif at < first:
                count = min(count, first - at)
                break
        return {"seeds": [at, count]}

    def first(self, code):
        return self.seeds_from if self.seeds_from is not None else int(code[:6], 16) * 1_000_000 + 1

    def ran(self, piece, lines):
        found = [int(match[1]) for line in lines if (match := self._ran.search(line))]
        return piece if found[-1:] == piece["seeds"][1:] else None

    def _fill(self, text, piece):
        first, count = piece["seeds"]
        return text.format(first=first, count=count)

    def command(self, piece):
        return [self._fill(part, piece) for part in self._command]

    def environment(self, piece):
        return {name: self._fill(value, piece) for name, value in self.env.items()}


class Rows(Stage):
    """A table of which each row is run once."""
    unit, goes_on = "rows", True

    def __init__(self, name, code, batch, listing, command, line, **more):
        """listing: a command that prints the rows; command: to which rows are added; line: a pattern with the groups
        row, bad (empty when it passed) and said."""
        super().__init__(name, code, None, **more)
        self.batch, self._listing, self._command, self._line = batch, listing, command, re.compile(line)

    def all(self, tree):
        listed = subprocess.run(self._listing, cwd=tree.path, check=True, capture_output=True, text=True).stdout
        return listed.split()

    def wanted_now(self, tree):
        rows = len(self.all(tree))
        return rows if self.wanted is None else min(self.wanted, rows)

    def done(self, rows):
        return len({name for row in self.pieces(rows) for name in row["rows"]})

    def next(self, tree, rows, busy, left):
        taken = {name for row in rows + busy for name in row["rows"]}
        rest = [name for name in self.all(tree) if name not in taken]
        # Those that come first are drawn anew with each code: a part of them is a sample.
        rest.sort(key=lambda name: hashlib.sha256(f"{tree.code.name} {name}".encode()).digest())
        names = rest[:min(self.batch, self.wanted_now(tree) - len(taken))]
        return {"rows": names} if names and left > 0 else None

    def command(self, piece):
        return [*self._command, *piece["rows"]]

    def read(self, line):
        found = self._line.match(line)
        return found and (found["row"], not found["bad"], " ".join(found["said"].split()))


class Amount(Stage):
    """So many minutes, rounds or runs. Each piece has a seed of its own."""

    def __init__(self, name, code, wanted, chunk, unit, command, *, least=1, alone=0.0, seconds=None, ran=None, **more):
        """command: with {amount} and {seed} in it; seconds: of one unit, if that is known; alone: what a piece takes
        besides; ran: a pattern whose group is how much of a piece that was cut short has run."""
        super().__init__(name, code, wanted, **more)
        self.chunk, self.unit, self._command, self.least = chunk, unit, command, least
        self.alone, self.seconds = alone, seconds
        self._ran = ran and re.compile(ran)

    def done(self, rows):
        return tidy(sum(row["amount"] for row in self.pieces(rows)))

    def next(self, tree, rows, busy, left):
        amount = tidy(min(self.chunk, self.wanted - self.done(rows) - sum(piece["amount"] for piece in busy)))
        rate = 1 / self.seconds if self.seconds else pace(rows, sum(row["amount"] for row in rows))
        if amount > 0 and rate and left != float("inf"):
            amount = int(min(amount, (left - self.alone) * rate * (1 if self.seconds else MARGIN)))
        if amount <= 0 or amount < min(self.least, self.chunk) and left != float("inf"):
            return None
        return {"amount": max(amount, self.least), "seed": random.SystemRandom().randrange(1, 1_000_000)}

    def command(self, piece):
        return [part.format(**piece) for part in self._command]

    def environment(self, piece):
        return {name: value.format(**piece) for name, value in self.env.items()}

    def ran(self, piece, lines):
        if not self._ran:
            return piece
        found = [float(match[1]) for line in lines if (match := self._ran.search(line))]
        return {**piece, "amount": tidy(found[-1])} if found and found[-1] > 0 else None
