# SPDX-License-Identifier: Apache-2.0
"""The programs of a page: its fenced blocks that name a file."""
import re

from conftest import REPOSITORY


def text(page):
    return (REPOSITORY / "client/python" / page).read_text(encoding="utf-8")


def files(page, **changes):
    """{name: text}. changes: words of the page for which the test has others."""
    found = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE))
    for name, (words, others) in changes.items():
        name = f"{name}.py"
        assert words in found[name], f"{page} does not say {words}"
        found[name] = found[name].replace(words, others)
    return found
