# SPDX-License-Identifier: Apache-2.0
"""Names and texts of other users on the terminal: no escape sequence gets through, and no forged line."""
import json
import re

import pytest

from broker import eventually
from ctl import ends, line

EVIL = "evil\x1b[31mRED\nroot@prod:1\x7f\u009b2J"
SHOWN = "evil?[31mRED?root@prod:1??2J"


def clean(text, lines):
    """The text has so many lines, and the control characters of EVIL are replaced in it."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text
    assert text.count("\n") == lines and SHOWN in text, text
    return True


@pytest.fixture
def holder(ctl, broker):
    process = ctl.start("hold", EVIL, "--namespace", "ns", "--owner", EVIL, "--metadata", f"why={EVIL}")
    assert line(process).startswith(f"granted: ns:{SHOWN}, token ")
    return process


IT = [EVIL, "--namespace", "ns"]


def test_show_ls_and_watch(ctl, broker, holder):
    waiter = ctl.start("acquire", *IT, "--owner", EVIL, "--metadata", f"why={EVIL}")
    eventually(lambda: broker.lock(EVIL, "ns").queue_length == 1)
    shown = ctl("show", *IT).stdout
    clean(shown, 3)
    assert shown.startswith(f"ns:{SHOWN}  held, 1 waiting\n  holder {SHOWN}  ") and f" why={SHOWN}\n" in shown
    assert f"\n  waiter 1 {SHOWN}  " in shown
    clean(ctl("ls", "--namespace", "ns").stdout, 1)
    clean(ctl("top", "--once", "--namespace", "ns").stdout, 5)
    watch = ctl.start("watch", *IT)
    clean(watch.stdout.readline(), 1)
    assert waiter.poll() is None


UNSEEN = "a\u202egpj.exe\u2066\u200bz\ufeff\u00ad\U000e0041"
UNSEEN_SHOWN = "a<U+202E>gpj.exe<U+2066><U+200B>z<U+FEFF><U+00AD><U+E0041>"


def test_characters_that_show_nothing_or_turn_the_text_are_made_visible(ctl, broker):
    ctl("acquire", UNSEEN, "--owner", UNSEEN)
    assert ctl("show", UNSEEN).stdout.startswith(f"default:{UNSEEN_SHOWN}  held, 0 waiting\n  holder {UNSEEN_SHOWN}  ")
    for command in (["ls"], ["top", "--once"]):
        assert f"{UNSEEN_SHOWN} " in ctl(*command).stdout
    assert UNSEEN_SHOWN in ctl("acquire", UNSEEN, "-n").stderr
    assert ctl.json("show", UNSEEN)[0]["key"] == UNSEEN


@pytest.mark.parametrize("command, column", [(["ls"], "held"), (["ls", "-A"], "held"),
                                             (["top", "--once"], "exclusive")])
def test_columns_stand_below_each_other_in_any_script(ctl, broker, command, column):
    """A letter of Cyrillic has two bytes, a combining one no column, a Chinese one two columns."""
    keys = {"plain": 0, "\u0431\u044d\u043a\u0430\u043f": 0, "e\u0301te\u0301": -2, "\u5099\u4efd": 2}
    for key in keys:
        ctl("acquire", key)
    rows = {key: next(row for row in ctl(*command).stdout.splitlines() if key in row) for key in keys}
    begins = {key: rows[key].index(column) + wider for key, wider in keys.items()}
    assert len(set(begins.values())) == 1, begins


def test_json_has_names_and_texts_unchanged(ctl, broker, holder):
    for command in (["show", *IT], ["ls", "--namespace", "ns"]):
        [lock] = ctl.json(*command)
        assert (lock["key"], lock["holders"][0]["owner"], lock["holders"][0]["metadata"]["why"]) == (EVIL, EVIL, EVIL)
    watch = ctl.start("watch", *IT, "-o", "json")
    assert json.loads(line(watch))["holders"][0]["owner"] == EVIL


def test_messages_that_name_the_holder(ctl, broker, holder):
    clean(ctl("acquire", *IT, "-n").stderr, 1)
    clean(ctl("run", *IT, "-n", "--", "true").stderr, 1)
    waiting = ctl.start("hold", *IT)
    clean(waiting.stdout.readline(), 1)
    waiting.terminate()
    ends(waiting)
    verbose = ctl.start("run", *IT, "--verbose", "--", "true")
    said = verbose.stderr.readline()
    clean(said, 1)
    assert said.endswith(f"held by {SHOWN}\n")
    verbose.terminate()
    ends(verbose)
    clean(ctl("force-release", *IT).stdout, 1)


def test_elect_leader_and_observe(ctl, broker):
    leader = ctl.start("elect", EVIL, "--value", EVIL, "--owner", EVIL)
    clean(leader.stdout.readline(), 1)
    told = ctl("elect", EVIL, "--leader").stdout
    clean(told, 1)
    assert told.startswith(f"leader {SHOWN}  owner {SHOWN}  ")
    observer = ctl.start("elect", EVIL, "--observe")
    clean(observer.stdout.readline(), 1)
    assert ctl.json("elect", EVIL, "--leader")[0]["leader"]["value"] == EVIL


def test_a_lost_lock(ctl, fake):
    holder = ctl.start("run", "-k", EVIL, "-k", "other", "--namespace", "default", "--ttl", "1s", "--", "sh", "-c",
                       "echo up; exec sleep 60")
    assert line(holder) == "up"
    fake.lose(EVIL)
    assert ends(holder) == 75
    assert holder.stderr.read().startswith(f"distlockctl: {SHOWN} is lost (TAKEN)")


def test_the_message_of_a_refusal(ctl, fake):
    fake.fake.refusal = ("INVALID_ARGUMENT", EVIL.replace("\n", "\t"), [(EVIL, EVIL)])
    for command in (["acquire", "k"], ["run", "k", "--", "true"]):
        clean(ctl(*command).stderr, 1)


def test_output_for_shells_is_unchanged(ctl, broker):
    names = [row.split("=", 1)[0] for row in ctl("acquire", *IT, "--owner", EVIL).stdout.splitlines()]
    assert names == ["DISTLOCK_LEASE_ID", "DISTLOCK_TOKEN", "DISTLOCK_HOLDER_ID", "DISTLOCK_TTL"]
    told = ctl("run", *IT, "-n", "--", "true")
    assert told.returncode == 1
    assert ctl("run", "k" + EVIL, "--namespace", "default", "--", "printenv", "DISTLOCK_KEY").stdout == f"k{EVIL}\n"
