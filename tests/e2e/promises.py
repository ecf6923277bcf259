# SPDX-License-Identifier: Apache-2.0
"""The tables of proto/promises.md, and the tests of their rows. Those of "When X dies, callers see Y" are in this
folder, and name their row:

    @row("the broker is killed")
    def test_...

Those of "Clocks" are the clients' own: CLOCK_TESTS."""
import ast
import functools
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "proto/promises.md"
HEADING, CLOCKS = "## When X dies, callers see Y\n", "\n**Clocks.** "
# By the first cell: files, and how their tests of the row begin.
CLOCK_TESTS = {
    "Node.js, Java": {
        "tests/node/belief.test.mjs": ["'a suspend counts, a step of the wall clock does not'"],
        "tests/java/ClockTest.java": ["void aSuspendIsCountedAtOnceWhenTheWallClockTells()",
                                      "void aSuspendIsCountedWithinASecondWhenTheWallClockWasPutBack()"],
    },
    "Go and Python on all but Linux, Node.js and Java without `/proc/uptime`": {
        "client/go/internal/clock/clock_test.go": ["func TestAJumpOfTheWallClockEndsAllBelief("],
        "tests/python/test_belief.py": ["def test_a_jump_of_the_wall_clock_ends_all_belief("],
        "tests/node/belief.test.mjs": ["'a jump of the wall clock ends all belief'",
                                       "'an uptime in whole seconds, as of systems without /proc, is no clock'"],
        "tests/java/ClockTest.java": ["void whereNothingTellsOfASuspendAStepEndsAllBelief()"],
    },
}


def _table(heading, of_head):
    section = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    head, *body = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("| ")]
    assert (head[0].strip(), head[-1].strip()) == (of_head, "tested by"), head
    found = {first.strip(): re.findall(r"`([^`]+)`", last) for first, *_, last in body}
    assert len(found) == len(body) > 0, body
    return found


@functools.cache
def rows():
    """Of each row of "When X dies, callers see Y": its first cell, and the tests that its last one names."""
    return _table(HEADING, "what happens")


def clock_rows():
    """The same of "Clocks", with the files of the tests."""
    return _table(CLOCKS, "client")


def clock_tests_missing():
    """What CLOCK_TESTS names and is not there."""
    return [(file, test) for files in CLOCK_TESTS.values() for file, tests in files.items() for test in tests
            if test not in (PAGE.parents[1] / file).read_text(encoding="utf-8")]


def row(what_happens):
    """Marks a test of the row with this first cell."""
    assert what_happens in rows(), f"{PAGE.name} has no row {what_happens!r}"
    return lambda test: test


@functools.cache
def claimed():
    """The rows that tests of this folder name, and these tests: {row: {name: file}}."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for cell in filter(None, map(_cell, node.decorator_list)):
                    found.setdefault(cell, {})[node.name] = file.name
    return found


def _cell(decorator):
    is_row = isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "row"
    return decorator.args[0].value if is_row else None
