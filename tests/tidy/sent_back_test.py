# SPDX-License-Identifier: Apache-2.0
"""The table of tests/security/sent_back.txt: each row names tests that there are, and each field of a request that
holds an id, a token or the like has a row."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = "tests/security/sent_back.txt"
PROTOS = ("lock.proto", "lock_service.proto", "look.proto", "admin_service.proto")
OPAQUE = re.compile(r".*_id|id|.*token|generation|seq|process|principal|owner|metadata|client|authorization")
# They stand in a message of a caller as the name of something else: a lock, or what is inside a row's field.
OTHERS = {"ProcessClaim.boot_id"}


def rows(text):
    """The cells of each row."""
    _, _, *body = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def tests_of(root):
    """The names of all tests: Suite.Name of C++, test_name of Python, and Class.test_name."""
    found = set()
    for path in root.glob("tests/**/*_test.cc"):
        text = path.read_text(encoding="utf-8")
        found |= {".".join(pair) for pair in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", text, re.M)}
    for path in (*root.glob("tests/**/test_*.py"), *root.glob("tests/**/*_test.py")):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"^def (test_\w+)", text, re.M))
        for of, body in re.findall(r"^class (\w+)\(.*?\):\n(.*?)(?=^\S|\Z)", text, re.M | re.S):
            found |= {f"{of}.{name}" for name in re.findall(r"^    def (test_\w+)", body, re.M)}
    return found


def messages(text):
    """The fields of each message, by its name."""
    text = re.sub(r"//.*", "", text)
    found = {}
    for name, body in re.findall(r"^message (\w+) \{(?:\}|(.*?)^\})", text, re.M | re.S):
        found[name] = re.findall(r"([\w.]+(?:<[^>]+>)?) (\w+) = \d+", body)
    return found


def sent(all_messages):
    """Message.field of all that callers send: requests, and what is in them."""
    to_see = [name for name in all_messages if name.endswith("Request")]
    fields = []
    for name in to_see:
        for kind, field in all_messages[name]:
            fields.append(f"{name}.{field}")
            if kind in all_messages and kind not in to_see:
                to_see.append(kind)
    return fields


class SentBackTest(unittest.TestCase):
    def setUp(self):
        self.rows = rows((ROOT / TABLE).read_text(encoding="utf-8"))

    def test_each_row_names_tests_that_there_are(self):
        there = tests_of(ROOT)
        for row in self.rows:
            self.assertEqual(len(row), 5, row[0])
            self.assertTrue(code(row[4]), f"{TABLE}: no test is named for {row[0]}")
            for test in code(row[4]):
                self.assertIn(test, there, f"{TABLE}: the test of {row[0]}")

    def test_no_field_without_a_row(self):
        all_messages = {}
        for proto in PROTOS:
            all_messages |= messages((ROOT / "proto/distlock/v1" / proto).read_text(encoding="utf-8"))
        fields = set(sent(all_messages))
        named = {name for row in self.rows for name in code(row[0])}
        opaque = {field for field in fields if OPAQUE.fullmatch(field.partition(".")[2])} - OTHERS
        self.assertEqual(opaque - named, set(), f"{TABLE}: no row for these")
        of_requests = {name for name in named if re.fullmatch(r"[A-Z]\w+\.\w+", name)}
        self.assertEqual(of_requests - fields, set(), f"{TABLE}: there are no such fields")
        self.assertEqual([f for f in fields if f.endswith((".session_id", ".broker_id", ".store_id"))], [])

    def test_a_missing_test_is_seen(self):
        self.assertNotIn("SentBack.ThereIsNoSuchTest", tests_of(ROOT))
        table = "# A comment\n| a | b |\n|---|---|\n| c | `d` |\n"
        self.assertEqual(rows(table), [["c", "`d`"]])


if __name__ == "__main__":
    unittest.main()
