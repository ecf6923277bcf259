# SPDX-License-Identifier: Apache-2.0
"""@says("...") names the sentence of the contract that a test is about, and checks that it is still there."""
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "proto/distlock/v1"


def _plain(text):
    return re.sub(r"[\s*`]+|//", " ", text).replace("  ", " ")


def _words(text):
    return " ".join(_plain(text).split())


CONTRACT = " ".join(_words((FOLDER / name).read_text(encoding="utf-8"))
                    for name in ("session.md", "lock_service.proto", "lock.proto", "look.proto"))


def says(sentence):
    """The sentence, or a part of one. Line breaks and markup do not matter."""
    assert _words(sentence) in CONTRACT, f"the contract does not say: {sentence}"

    def mark(test):
        test.says = sentence
        return test

    return mark
