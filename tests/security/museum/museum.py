#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts each missing check into a copy of this tree, one by one: the tests that the row names must turn red.

    tests/security/museum/museum.py [--check] [--sample K] [--folder DIR] [ROW...]

--check only says whether each row still applies. --sample takes K rows by chance, and the row that changes nothing.
Without --check the copy is built in DIR (default build/security-museum), once, and for each row again what depends on
it. Exit code: 0 every row is caught, and the row that changes nothing is not.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys

MUSEUM = pathlib.Path(__file__).resolve().parent
ROOT = MUSEUM.parents[2]
COPIED = ("CMakeLists.txt", "CMakePresets.json", "proto", "server", "client", "lua", "deploy", "tests")
NOTHING = "00-"


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
    texts = [path.read_text(encoding="utf-8") for path in sorted(MUSEUM.glob("*.txt"))]
    blocks = [block for text in texts for block in ("\n" + text).split("\n== ")[1:]]
    all_rows = [Row(block) for block in blocks]
    unknown = set(wanted) - {row.name for row in all_rows}
    if unknown:
        sys.exit(f"museum.py: no such row: {', '.join(sorted(unknown))}")
    return [row for row in all_rows if not wanted or row.name in wanted]


def copy(folder):
    """The tree as it is now; what has not changed keeps its time, so that it is not built again."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.rmtree(folder / name, ignore_errors=True)
            shutil.copytree(source, folder / name, symlinks=True,
                            ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy2(source, folder / name)


def build(folder, program):
    made = subprocess.run(["cmake", "--build", folder / "build/release", "--target", program], capture_output=True,
                          text=True, check=False)
    return "" if made.returncode == 0 else made.stdout[-3000:]


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
                             capture_output=True, text=True, check=False, timeout=300)
        if "Running 0 tests" in ran.stdout or "[==========] 0 tests" in ran.stdout:
            return f"no test is named {row.tests}"
        return ran.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sample", type=int, metavar="K")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/security-museum")
    parser.add_argument("rows", nargs="*")
    args = parser.parse_args()
    chosen = rows(args.rows)
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
    print(f"{len(chosen) - failed} of {len(chosen)} rows as they must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
