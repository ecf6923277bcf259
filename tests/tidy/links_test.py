# SPDX-License-Identifier: Apache-2.0
"""Each link of a page to a file of this repository leads to one, and to a heading that it has."""
import os
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
import rules  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(text):
    """The text without fenced blocks and code, which have brackets of their own."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(text):
    """The names that GitHub gives the headings."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def broken(root, pages):
    for page in pages:
        text = (root / page).read_text(encoding="utf-8")
        for target in LINK.findall(prose(text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = pathlib.Path(os.path.normpath(root / os.path.dirname(page) / path)) if path else root / page
            if not there.exists():
                yield f"{page}: {target}: no such file"
            elif anchor and anchor not in anchors(there.read_text(encoding="utf-8")):
                yield f"{page}: {target}: no such heading"


class LinksTest(unittest.TestCase):
    def test_no_link_of_this_repository_is_broken(self):
        pages = [path for path in rules.Tree(ROOT).files if path.endswith(".md")]
        self.assertGreater(len(pages), 30)
        self.assertEqual(list(broken(ROOT, pages)), [])

    def test_a_broken_link_is_seen(self):
        self.assertEqual(anchors("# Two words, `code`\n```\n# no heading\n```\n"), {"two-words-code"})
        self.assertEqual(LINK.findall(prose("[a](b.md#c) `[d](e)`\n```\n[f](g)\n```\n")), ["b.md#c"])


if __name__ == "__main__":
    unittest.main()
