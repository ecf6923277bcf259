# SPDX-License-Identifier: Apache-2.0
"""The table "When X dies, callers see Y" of proto/promises.md, and the tests of its rows:

    @row("the broker is killed")
    def test_...
"""
import ast
import functools
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "proto/promises.md"
HEADING = "## When X dies, callers see Y\n"


@functools.cache
def rows():
    """The first cell of each row."""
    section = PAGE.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    head, *body = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert head == "what happens" and len(set(body)) == len(body) > 0, (head, body)
    return body


def row(what_happens):
    """Marks a test of the row with this first cell."""
    assert what_happens in rows(), f"{PAGE.name} has no row {what_happens!r}"
    return lambda test: test


@functools.cache
def claimed():
    """The rows that tests of this folder name, and the names of these tests."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for cell in filter(None, map(_cell, node.decorator_list)):
                    found.setdefault(cell, []).append(f"{file.name}: {node.name}")
    return found


def _cell(decorator):
    is_row = isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "row"
    return decorator.args[0].value if is_row else None
