#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts a bug of the mutation tests into a tree: a row of mutations.txt, which says how to write one, or a patch."""
import argparse
import bisect
import dataclasses
import hashlib
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SUFFIXES = (".cc", ".h", ".lua")
# Comments come first, numbers before characters: 1'000 is one number.
CPP = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<raw>\w*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|\d(?:[\w.]|'(?=\w))*"""
    r"""|\w+|'(?:\\.|[^'\\\n])+'|[^\s\w]""", re.DOTALL)
LUA = re.compile(
    r"""(?P<comment>--\[\[.*?\]\]|--[^\n]*)|\[\[.*?\]\]|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\d[\w.]*"""
    r"""|\w+|[^\s\w]""", re.DOTALL)
BETWEEN = "\0"


class MutationError(Exception):
    """A bug that cannot be put in; the message says which and why."""


@dataclasses.dataclass
class Replacement:
    room: str
    old: str = ""
    new: str = ""


@dataclasses.dataclass
class Row:
    name: str
    line: int
    text: list = dataclasses.field(default_factory=list)
    replacements: list = dataclasses.field(default_factory=list)


def tokens(text, is_lua):
    """The words and signs of a text, without comments, each with where it begins and ends."""
    return [(m.group(), m.start(), m.end()) for m in (LUA if is_lua else CPP).finditer(text) if not m.group("comment")]


class Source:
    """One file, searchable by its tokens."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.tokens = tokens(text, path.endswith(".lua"))
        self._starts = []
        at = 1
        for word, _, _ in self.tokens:
            self._starts.append(at)
            at += len(word) + 1
        self._joined = BETWEEN + "".join(word + BETWEEN for word, _, _ in self.tokens)

    def find(self, words):
        """The index of the first token of each occurrence."""
        wanted, at, found = BETWEEN + "".join(word + BETWEEN for word in words), -1, []
        while (at := self._joined.find(wanted, at + 1)) >= 0:
            found.append(bisect.bisect_left(self._starts, at + 1))
        return found

    def line_of(self, index):
        return self.text.count("\n", 0, self.tokens[index][1]) + 1


class Tree:
    """The sources of a folder, each read once."""

    def __init__(self, root):
        self.root = root
        self._sources = {}

    def room(self, room):
        paths = []
        for folder, folders, names in os.walk(os.path.join(self.root, room)):
            folders.sort()
            paths += [os.path.relpath(os.path.join(folder, name), self.root) for name in sorted(names)
                      if name.endswith(SUFFIXES)]
        return [self._source(path) for path in paths]

    def _source(self, path):
        if path not in self._sources:
            with open(os.path.join(self.root, path), encoding="utf-8", newline="") as f:
                self._sources[path] = Source(path, f.read())
        return self._sources[path]


def read_rows(text, where):
    rows, last = [], None
    for number, line in enumerate(text.split("\n"), 1):
        def wrong(what):
            raise MutationError(f"{where}:{number}: {what}")
        mark, rest = line[:1], line[1:].removeprefix(" ")
        if line.startswith("== "):
            rows.append(Row(line[3:].strip(), number))
            if not re.fullmatch(r"\d+-[a-z0-9-]+", rows[-1].name):
                wrong(f"'{rows[-1].name}' is no name: a number, '-', and small letters")
            last = None
        elif not rows:
            if line and mark != "#":
                wrong("text before the first '== NN-name'")
        elif room := re.fullmatch(r"in ([\w/]+)", line):
            last = Replacement(room.group(1))
            rows[-1].replacements.append(last)
        elif mark in ("-", "+"):
            if last is None:
                wrong("'-' or '+' before 'in ROOM'")
            if mark == "-" and last.new:
                last = Replacement(last.room)
                rows[-1].replacements.append(last)
            if mark == "-":
                last.old += rest + "\n"
            else:
                last.new += rest + "\n"
        elif line:
            if last is not None:
                wrong("neither '-', '+', 'in ROOM' nor '== NN-name'")
            if line.startswith("Seed: ") and not re.fullmatch(r"Seed: \d+", line):
                wrong("'Seed: ' needs a number")
            rows[-1].text.append(line)
    for row in rows:
        for one in row.replacements:
            if not one.old.strip():
                raise MutationError(f"{where}:{row.line}: {row.name}: nothing to replace in {one.room}")
        if not row.replacements:
            raise MutationError(f"{where}:{row.line}: {row.name}: replaces nothing")
    return rows


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:87] + "..."


def explain_missing(sources, old, old_tokens):
    """How much of the old text is still there, and what comes now where it goes on."""
    words = [word for word, _, _ in old_tokens]
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if any(s.find(words[:middle]) for s in sources) else (low, middle - 1)
    if low < min(3, len(words)):
        return "not even its beginning is there"
    source, at = next((s, s.find(words[:low])[0]) for s in sources if s.find(words[:low]))
    begin, end = source.tokens[at + low - 1][2], source.tokens[min(at + low + 7, len(source.tokens) - 1)][2]
    return (f"{source.path}:{source.line_of(at + low - 1)} begins like it, but goes on with "
            f"'{short(source.text[begin:end])}', not with '{short(old[old_tokens[low][1]:])}'")


def locate(tree, replacement):
    """The one source and the range of its text that a replacement is for."""
    sources = tree.room(replacement.room)
    if not sources:
        raise MutationError(f"no sources in {replacement.room}")
    old_tokens = tokens(replacement.old, sources[0].path.endswith(".lua"))
    words = [word for word, _, _ in old_tokens]
    if not words:
        raise MutationError(f"nothing but comments in '{short(replacement.old)}'")
    what = f"in {replacement.room}: '{short(replacement.old)}'"
    found = [(source, at) for source in sources for at in source.find(words)]
    if not found:
        raise MutationError(f"missing {what}: {explain_missing(sources, replacement.old, old_tokens)}")
    if len(found) > 1:
        places = ", ".join(f"{source.path}:{source.line_of(at)}" for source, at in found[:5])
        raise MutationError(f"ambiguous {what} is in {len(found)} places: {places}")
    source, at = found[0]
    return source, source.tokens[at][1], source.tokens[at + len(words) - 1][2]


def mutated(tree, row):
    """The new text of each file that a row touches: {path: text}."""
    edits = {}
    for one in row.replacements:
        source, begin, end = locate(tree, one)
        edits.setdefault(source.path, (source, []))[1].append((begin, end, one.new.rstrip("\n")))
    texts = {}
    for path, (source, ranges) in edits.items():
        ranges.sort(reverse=True)
        text = source.text
        for (begin, end, new), later in zip(ranges, [None] + ranges):
            if later is not None and end > later[0]:
                raise MutationError(f"two replacements overlap in {path}")
            text = text[:begin] + new + text[end:]
        texts[path] = text
    return texts


def patch(path, root, *options):
    """Applies a patch where it fits exactly: with fuzz it could land where it is another bug."""
    done = subprocess.run(["patch", "-d", root, "-p1", "-s", "-F0", "-N", "--no-backup-if-mismatch",
                           "-i", os.path.abspath(path), *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MutationError("the patch does not apply: " + "; ".join((done.stdout + done.stderr).strip().split("\n")))


def touched_by_patch(path):
    with open(path, encoding="utf-8") as f:
        return re.findall(r"^\+\+\+ b/(\S+)", f.read(), re.MULTILINE)


class Mutations:
    """All bugs by name, in the order of their numbers: rows, and the paths of patches."""

    def __init__(self, folder):
        self.bugs = {}
        self.table = os.path.join(folder, "mutations.txt")
        if os.path.exists(self.table):
            with open(self.table, encoding="utf-8") as f:
                for row in read_rows(f.read(), "mutations.txt"):
                    self._add(row.name, row)
        for name in sorted(n for n in os.listdir(folder) if n.endswith(".patch")):
            self._add(name.removesuffix(".patch"), os.path.join(folder, name))
        self.bugs = dict(sorted(self.bugs.items(), key=lambda bug: int(bug[0].split("-")[0])))

    def _add(self, name, bug):
        number = int(name.split("-")[0])
        for other in self.bugs:
            if int(other.split("-")[0]) == number:
                raise MutationError(f"{name} and {other} have the same number")
        self.bugs[name] = bug

    def select(self, wanted):
        """By number, by the beginning of a name, or a patch file of any folder. Nothing: all."""
        chosen = []
        for one in wanted:
            if os.path.isfile(one):
                self.bugs[os.path.abspath(one)] = one
                chosen.append(os.path.abspath(one))
                continue
            found = [one] if one in self.bugs else [
                name for name in self.bugs
                if (int(name.split("-")[0]) == int(one) if one.isdigit() else name.startswith(one))]
            if not found:
                raise MutationError(f"no bug '{one}'")
            chosen += found
        return chosen or list(self.bugs)

    def simulations(self, name):
        """What its row says of the simulations that can show it: options of distlock_sim, or `ballot`; '': any."""
        bug = self.bugs[name]
        lines = [] if isinstance(bug, str) else [line for line in bug.text if line.startswith("Simulations: ")]
        return lines[0].removeprefix("Simulations: ") if lines else ""

    def seed(self, name):
        """The simulation that is known to show it; '': none."""
        bug = self.bugs[name]
        lines = [] if isinstance(bug, str) else [line for line in bug.text if line.startswith("Seed: ")]
        return lines[0].removeprefix("Seed: ") if lines else ""

    def keep_seed(self, name, seed):
        """Writes it into the row, for the runs to come. A patch has no place for it."""
        bug = self.bugs[name]
        if isinstance(bug, str):
            return
        with open(self.table, encoding="utf-8") as f:
            before, head, rest = f.read().partition(f"== {name}\n")
        text, gap, after = rest.partition("\n\n")
        lines = [line for line in text.split("\n") if not line.startswith("Seed: ")]
        with open(self.table, "w", encoding="utf-8") as f:
            f.write(before + head + "\n".join((*lines, f"Seed: {seed}")) + gap + after)

    def pick(self, commit, files, most):
        """Of the bugs with a known seed: those in a folder with one of `files`, then others, by chance that the commit
        decides."""
        def order(name):
            touched = any(file.startswith(one.room + "/") for one in self.bugs[name].replacements for file in files)
            return not touched, hashlib.sha256(f"{commit} {name}".encode()).digest()
        chosen = sorted(filter(self.seed, self.bugs), key=order)[:most]
        return [name for name in self.bugs if name in chosen]

    def apply(self, name, root):
        """Returns the files that it has changed, below `root`."""
        bug = self.bugs[name]
        if isinstance(bug, str):
            patch(bug, root)
            return touched_by_patch(bug)
        texts = mutated(Tree(root), bug)
        for path, text in texts.items():
            with open(os.path.join(root, path), "w", encoding="utf-8", newline="") as f:
                f.write(text)
        return list(texts)

    def why_not(self, name, tree):
        """None: it can be put in."""
        try:
            bug = self.bugs[name]
            patch(bug, tree.root, "--dry-run") if isinstance(bug, str) else mutated(tree, bug)
        except MutationError as error:
            return str(error)
        return None


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", default=HERE, help="folder of mutations.txt and patches (default: this one)")
    parser.add_argument("--tree", default=os.path.join(HERE, "..", "..", ".."), help="root of the sources")
    parser.add_argument("--commit", default="", help="of pick: what decides by chance")
    parser.add_argument("--most", type=int, default=12, help="of pick: how many")
    parser.add_argument("--keep", help="of seed: write this one into the row")
    parser.add_argument("command", choices=("list", "check", "apply", "simulations", "seed", "pick"),
                        help="list: names; check: can each be put in?; apply: put one in, print the files changed; "
                             "simulations: those that can show one; seed: the simulation that is known to show one; "
                             "pick: those of the known seeds for a commit that touches the files named")
    parser.add_argument("bugs", nargs="*", help="numbers, names or patch files (default: all)")
    options = parser.parse_args(arguments)
    root = os.path.abspath(options.tree)
    try:
        mutations = Mutations(options.mutations)
        if options.command == "pick":
            print("\n".join(mutations.pick(options.commit, options.bugs, options.most)))
            return 0
        names = mutations.select(options.bugs)
        if options.command == "list":
            print("\n".join(names))
        elif options.command == "apply":
            if len(names) != 1 or not options.bugs:
                raise MutationError("apply needs one bug")
            print("\n".join(mutations.apply(names[0], root)))
        elif options.command == "simulations":
            print("\n".join(mutations.simulations(name) for name in names))
        elif options.command == "seed" and options.keep:
            mutations.keep_seed(names[0], int(options.keep))
        elif options.command == "seed":
            print("\n".join(mutations.seed(name) for name in names))
        else:
            tree = Tree(root)
            stale = [(name, why) for name in names if (why := mutations.why_not(name, tree))]
            for name, why in stale:
                print(f"{name}: {why}")
            print(f"{len(names) - len(stale)} of {len(names)} bugs apply")
            return 1 if stale else 0
    except (MutationError, OSError) as error:
        print(f"mutate.py: {error}", file=sys.stderr)
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
