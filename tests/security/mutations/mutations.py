#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts each missing check into a copy of this tree, one by one: the tests that the row names must turn red.

    tests/security/mutations/mutations.py [--check | --list] [--sample K] [--folder DIR] [ROW...]

--check only says whether each row still applies; --list only prints the names. --sample takes K rows by chance, and the
row that changes nothing. Without these the copy is built in DIR (default build/security-mutations), once, and for each
row again what depends on it. A row is caught when one of its tests fails, or when the program dies or hangs in one of
them.
Exit code: 0 every row is caught, and the row that changes nothing is not; 64 another run is in DIR.
"""
import argparse
import fcntl
import filecmp
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

MUTATIONS = pathlib.Path(__file__).resolve().parent
ROOT = MUTATIONS.parents[2]
COPIED = ("CMakeLists.txt", "CMakePresets.json", "proto", "server", "client", "lua", "deploy", "tests")
NOTHING = "00-"
LEFT_OUT = ("node_modules", "__pycache__")
HANG_SECONDS = 120


class Row:
    def __init__(self, block):
        lines = block.split("\n")
        self.name = lines[0].strip()
        self.path = next(line[3:].strip() for line in lines if line.startswith("in "))
        self.program, self.tests = next(line[5:].split(maxsplit=1) for line in lines if line.startswith("test "))
        self.before = "\n".join(line[2:] for line in lines if line.startswith("- "))
        self.after = "\n".join(line[2:] for line in lines if line.startswith("+"))

    def problem(self, text):
        """Why it cannot be put into the file; "": it can."""
        times = text.count(self.before)
        return "" if times == 1 else f"{self.path} has its lines {times} times"


def rows(wanted):
    texts = [path.read_text(encoding="utf-8") for path in sorted(MUTATIONS.glob("*.txt"))]
    blocks = [block for text in texts for block in ("\n" + text).split("\n== ")[1:]]
    all_rows = [Row(block) for block in blocks]
    unknown = set(wanted) - {row.name for row in all_rows}
    if unknown:
        sys.exit(f"mutations.py: no such row: {', '.join(sorted(unknown))}")
    return [row for row in all_rows if not wanted or row.name in wanted]


def lock(folder):
    """Keeps other runs out of the folder until this process ends, and what it builds: two would build each other's
    bugs."""
    file = open(folder / "mutations.lock", "w", encoding="utf-8")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"mutations.py: another run is in {folder}; wait for it, or name another --folder", file=sys.stderr)
        sys.exit(64)
    os.set_inheritable(file.fileno(), True)
    return file


def sources(root):
    """The files of the tree that are copied, each by its path from the root."""
    found = [root / name for name in COPIED if (root / name).is_file()]
    for name in COPIED:
        for folder, folders, files in os.walk(root / name):
            folders[:] = [one for one in folders if one not in LEFT_OUT]
            found += [pathlib.Path(folder) / one for one in files]
    return {path.relative_to(root) for path in found}


def copy(folder, root=ROOT):
    """The tree as it is now. What has not changed keeps its time, so that it is not built again. What has changed gets
    the present time, also where that is a row that a killed run has left behind, so that nothing built of it stays."""
    wanted = sources(root)
    for path in sources(folder) - wanted:
        (folder / path).unlink()
    for path in wanted:
        there = folder / path
        if not there.is_file() or not filecmp.cmp(root / path, there, shallow=False):
            there.parent.mkdir(parents=True, exist_ok=True)
            there.unlink(missing_ok=True)  # a link would be followed
            shutil.copyfile(root / path, there)
            shutil.copymode(root / path, there)


def build(folder, program):
    made = subprocess.run(["cmake", "--build", folder / "build/release", "--target", program], capture_output=True,
                          text=True, check=False, close_fds=False)
    return "" if made.returncode == 0 else made.stdout[-3000:]


def judge(output, code):
    """Whether a test failed that ran; a text: why it cannot be said. code: how the program ended, as subprocess says
    it, None if it had to be killed because it hung."""
    began = set(re.findall(r"\[ RUN      \] (\S+)", output))
    failed = began & set(re.findall(r"\[  FAILED  \] ([^\s,]+)", output))
    ended = failed | set(re.findall(r"\[(?:       OK|  SKIPPED) \] ([^\s,]+)", output))
    broken_off = code is None or code < 0
    if failed or broken_off and began - ended:
        return True
    if broken_off:
        return "not in a test, it " + ("hangs" if code is None else f"dies of signal {-code}")
    if code != 0:
        return f"ends with {code}, but no test has failed"
    return False if began else "no test has this name"


def turns_red(folder, row):
    """Whether the row's tests fail with its check missing; a text: why it cannot be said."""
    path = folder / row.path
    text = path.read_text(encoding="utf-8")
    if row.problem(text):
        return row.problem(text)
    path.write_text(text.replace(row.before, row.after), encoding="utf-8")
    try:
        if problem := build(folder, row.program):
            return "does not build:\n" + problem
        ran = subprocess.run([folder / "build/release/bin" / row.program, f"--gtest_filter={row.tests}"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=HANG_SECONDS)
        return judge(ran.stdout.decode(errors="replace"), ran.returncode)
    except subprocess.TimeoutExpired as late:
        return judge((late.stdout or b"").decode(errors="replace"), None)
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--sample", type=int, metavar="K")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/security-mutations")
    parser.add_argument("rows", nargs="*")
    args = parser.parse_args()
    chosen = rows(args.rows)
    if args.list:
        print("\n".join(row.name for row in chosen))
        return 0
    if args.sample is not None:
        bugs = [row for row in chosen if not row.name.startswith(NOTHING)]
        drawn = random.sample(bugs, min(args.sample, len(bugs)))
        chosen = [row for row in chosen if row in drawn or row.name.startswith(NOTHING)]
    bad = [f"{row.name}: {why}" for row in chosen
           if (why := row.problem((ROOT / row.path).read_text(encoding="utf-8")))]
    if bad or args.check:
        print("\n".join(bad) or f"{len(chosen)} rows apply")
        return 1 if bad else 0
    args.folder.mkdir(parents=True, exist_ok=True)
    held = lock(args.folder)
    copy(args.folder)
    # A row may well leave something unused behind.
    subprocess.run(["cmake", "--preset", "release", "-DDISTLOCK_WERROR=OFF"], cwd=args.folder, check=True,
                   capture_output=True)
    failed = 0
    for row in chosen:
        red = turns_red(args.folder, row)
        good = red is not row.name.startswith(NOTHING) and isinstance(red, bool)
        failed += not good
        shown = {True: "red", False: "green"}.get(red, red)
        print(f"{'ok   ' if good else 'WRONG'} {row.name}: {row.program} {row.tests}: {shown}", flush=True)
    held.close()
    print(f"{len(chosen) - failed} of {len(chosen)} rows as they must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
