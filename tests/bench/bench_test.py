# SPDX-License-Identifier: Apache-2.0
"""The report says what was measured, and what was not: medians, ratios of one round, and the reason for each missing
value."""
import operator
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import bench  # noqa: E402
from lab import Invalid, NotRun, answer_of  # noqa: E402
from rows import PEER_SECTIONS, SECTIONS, Ratio, Section  # noqa: E402

SECTION = Section("peers", "Peers", ("pairs/s", "ms"), {"ours": None, "etcd": None},
                  [Ratio("ratio", "ours", "etcd", "pairs/s"), Ratio("more", "ours", "etcd", "pairs/s", operator.sub)])


def pairs(value):
    return {"values": {"pairs/s": value}}


def report(*others):
    """Of two rounds in which ours gave 10 and 30, and etcd these."""
    rounds = [{"ours": pairs(mine), "etcd": other} for mine, other in zip((10, 30), others, strict=True)]
    return "\n".join(bench.table(SECTION, rounds)), bench.all_valid({"peers": rounds})


def raising(problem):
    def run(_):
        raise problem
    return run


class BenchTest(unittest.TestCase):
    def test_median_and_spread_of_the_rounds(self):
        text, valid = report(pairs(5), pairs(10))
        self.assertTrue(valid)
        self.assertIn("| ours | **20.0** (10.0..30.0) | – |", text)
        self.assertIn("| ratio | **2.50** (2.00..3.00) |", text)
        self.assertIn("| more | **12.5** (5.00..20.0) |", text)

    def test_a_peer_that_did_not_run_fails_nothing(self):
        text, valid = report(pairs(5), bench.measured(raising(NotRun("etcd is\nnot | there")), None))
        self.assertTrue(valid)
        self.assertIn("| etcd | NOT RUN: etcd is not / there |", text)
        self.assertIn("| ratio | NOT RUN |", text)

    def test_an_error_in_one_round_makes_the_row_invalid(self):
        said = "two holders"
        for problem in (Invalid(said), AssertionError(said), subprocess.TimeoutExpired(said, 1)):
            text, valid = report(pairs(5), bench.measured(raising(problem), None))
            self.assertFalse(valid)
            self.assertRegex(text, r"\| etcd \| INVALID: .*two holders")
            self.assertIn("| ratio | INVALID |", text)

    def test_what_a_program_says(self):
        self.assertEqual(answer_of(["echo", '{"values": {"ms": 1}}'], Invalid), {"ms": 1})
        with self.assertRaisesRegex(Invalid, "^no lock$"):
            answer_of(["echo", '{"error": "no lock"}'], Invalid)
        with self.assertRaisesRegex(NotRun, "nosuch"):
            answer_of(["sh", "-c", "nosuch"], NotRun)
        with self.assertRaisesRegex(NotRun, "it ended with 3"):
            answer_of(["sh", "-c", "exit 3"], NotRun)

    def test_rows_are_chosen_with_the_ratios_between_them(self):
        sections = SECTIONS + PEER_SECTIONS
        found = bench.selected(sections, "^lone/1 (direct|through the broker)$")
        self.assertEqual([list(section.rows) for section in found], [["1 direct", "1 through the broker"]])
        self.assertEqual([ratio.name for ratio in found[0].ratios], ["1 against direct", "1: µs added to an operation"])
        self.assertEqual(bench.selected(sections, "nothing"), [])
        for section in sections:
            for ratio in section.ratios:
                self.assertLessEqual({ratio.of, ratio.against}, section.rows.keys())

    def test_each_round_begins_with_another_row(self):
        order = []
        rows = {name: lambda _, name=name: order.append(name) or {} for name in "ab"}
        section = Section("s", "", (), rows, rounds_max=2)
        lab = type("Lab", (), {"size": bench.Size(rounds=3)})
        self.assertEqual(len(bench.run_rounds(lab, [section])["s"]), 2)
        self.assertEqual(order, ["a", "b", "b", "a"])


if __name__ == "__main__":
    unittest.main()
