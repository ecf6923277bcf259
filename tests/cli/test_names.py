# SPDX-License-Identifier: Apache-2.0
"""One notation for a lock: NAMESPACE:KEY or the bare KEY, taken by every command and printed by every output."""
import pytest

from broker import eventually
from ctl import ends, line


@pytest.fixture(autouse=True)
def no_namespace(ctl, monkeypatch):
    monkeypatch.delenv("DISTLOCK_NAMESPACE", raising=False)


def held(ctl, *words):
    process = ctl.start("hold", *words)
    said = line(process)
    assert said.startswith("granted: "), said
    return said.split()[1].rstrip(",")


def test_what_ls_prints_every_command_takes(ctl, broker):
    assert held(ctl, "shop:order/7", "--owner", "ann") == "shop:order/7"
    [name] = [row.split()[0] for row in ctl("ls", "-A").stdout.splitlines()]
    assert name == "shop:order/7"
    assert ctl("show", name).stdout.startswith("shop:order/7  held, ")
    assert "shop:order/7  held, " in line(ctl.start("watch", name))
    assert ctl("run", name, "-n", "true").returncode == 1
    assert ctl("acquire", name, "-n").returncode == 1
    assert ctl("elect", name, "--leader").returncode == 0
    assert ctl("check-token", name, "7").stdout.startswith("shop:order/7: 7 is not the newest token: ")
    assert ctl("top", "--once", "--namespace", "shop").stdout.splitlines()[4].split()[0] == name
    for words in (["shop:ord"], ["--prefix", "shop:ord"], ["ord", "--namespace", "shop"], ["shop:"]):
        assert [row.split()[0] for row in ctl("ls", *words).stdout.splitlines()] == [name], words
    assert ctl("__complete", "show", "shop:o").stdout.splitlines()[1:2] == [name]
    assert ctl("force-release", name).stdout == "shop:order/7 was taken from 1 holder\n"


@pytest.mark.parametrize("words, said", [
    ([], "no lock is held in namespace default; -A shows all"),
    (["--namespace", "shop"], "no lock is held in namespace shop; -A shows all"),
    (["other:a/"], "no lock whose key begins with a/ is held in namespace other; -A shows all"),
])
def test_ls_says_where_nothing_is_held(ctl, broker, words, said):
    ctl("acquire", "other:k")
    done, as_json = ctl("ls", *words), ctl("ls", *words, "-o", "json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"distlockctl: {said}\n")
    assert (as_json.returncode, as_json.stdout, as_json.stderr) == (0, "", "")


def test_ls_says_that_nothing_is_held_anywhere(ctl, broker):
    assert ctl("ls", "-A").stderr == "distlockctl: no lock is held\n"


def test_messages_of_the_broker_print_it(ctl, broker):
    if not broker.real:
        pytest.skip("the fake broker has messages of its own")
    held(ctl, "shop:k")
    done = ctl("run", "shop:k", "-n", "true")
    assert done.returncode == 1 and 'lock "shop:k" is held by ' in done.stderr, done.stderr
    assert "retry after" not in done.stderr, "its broker renews it"
    assert ctl("acquire", "lone", "--ttl", "20s").returncode == 0
    assert "retry after 1" in ctl("run", "lone", "-n", "true").stderr


def test_the_namespace_of_a_bare_key(ctl, broker):
    assert held(ctl, "k") == "default:k"
    ctl.env["DISTLOCK_NAMESPACE"] = "shop"
    assert held(ctl, "k") == "shop:k"
    assert held(ctl, "k", "--namespace", "billing") == "billing:k"
    assert held(ctl, "other:k") == "other:k"
    assert [row.split()[0] for row in ctl("ls").stdout.splitlines()] == ["shop:k"]
    assert len(ctl("ls", "-A").stdout.splitlines()) == 4
    assert "namespace shop: 1 locks" in ctl("top", "--once").stdout
    assert line(ctl.start("watch", "k")).split()[1] == "shop:k"


def test_a_key_with_a_colon(ctl, broker):
    assert held(ctl, "user:42", "--namespace", "default") == "default:user:42"
    assert ctl("show", "default:user:42").stdout.startswith("default:user:42  held")
    assert [row.split()[0] for row in ctl("ls").stdout.splitlines()] == ["default:user:42"]


def test_several_locks_have_one_namespace(ctl, broker):
    done = ctl("run", "shop:a", "-k", "shop:b", "--", "sh", "-c", 'echo "$DISTLOCK_NAMESPACE" $DISTLOCK_KEYS')
    assert done.stdout == "shop a b\n"
    done = ctl("run", "shop:a", "-k", "b", "--", "true")
    assert done.returncode == 64 and "'b' is in another namespace than shop:a" in done.stderr


@pytest.mark.parametrize("words, taken", [
    (["default/deploy/web"], "default:deploy/web"),  # as in the path of HTTP
    (["--namespace", "default", "default:deploy/web"], "default:deploy/web"),
    (["user:42"], "default:user:42 (the key user:42)"),
])
def test_did_you_mean(ctl, broker, words, taken):
    held(ctl, "deploy/web")
    held(ctl, "user:42", "--namespace", "default")
    hint = f"did you mean {taken}, which is taken?\n"
    shown = ctl("show", *words)
    assert shown.returncode == 0 and "free, 0 waiting" in shown.stdout and shown.stderr.endswith(hint), shown
    released = ctl("force-release", *words)
    assert released.returncode == 1 and released.stderr.endswith(hint)
    assert ctl("check-token", *words, "7").stderr.endswith(hint)
    watching = ctl.start("watch", *words)
    assert "free" in line(watching) and eventually(lambda: watching.stderr.readline()).endswith(hint)
    watching.terminate()
    assert ends(watching) == 0


def test_nothing_is_meant_by_a_lock_that_is_free(ctl, broker):
    for words in (["nobody"], ["a/b"], ["a:b"]):
        assert ctl("show", *words).stderr == ""


@pytest.mark.parametrize("words, said", [
    (["run", "", "true"], "KEY is empty"),
    (["run", "-k", "", "--", "true"], "-k is empty"),
    (["show", ""], "KEY is empty"),
    (["acquire", ""], "KEY is empty"),
    (["elect", "", "true"], "NAME is empty"),
    (["watch", ""], "KEY is empty"),
    (["show", ":k"], "KEY ':k' has no namespace before its ':'"),
    (["show", "shop:"], "KEY 'shop:' has no key behind its ':'"),
    (["show", "--namespace=", "k"], "--namespace: is empty"),
    (["acquire", "a", "--namespace=", "--ttl", "20s"], "--namespace: is empty"),
    (["run", "--namespace", "", "k", "true"], "--namespace: is empty"),
    (["ls", "--namespace="], "--namespace: is empty"),
    (["top", "--once", "--namespace="], "--namespace: is empty"),
])
def test_what_is_empty_is_said_by_name(ctl, broker, words, said):
    done = ctl(*words)
    assert done.returncode == 64 and done.stderr.startswith(f"distlockctl: {said}"), done.stderr


@pytest.mark.parametrize("address, said", [
    ("127.0.0.1", "the broker's address 127.0.0.1 has no port; write 127.0.0.1:7420"),
    ("127.0.0.1:72956", "the broker's address 127.0.0.1:72956 has the port 72956; a port is a number of 1..65535"),
    ("tls://broker", "the broker's address tls://broker has no port; write tls://broker:7420"),
])
@pytest.mark.parametrize("words", [["show", "k"], ["run", "k", "true"], ["status"]])
def test_a_port_is_said_by_name(ctl, broker, words, address, said):
    done = ctl(words[0], "--server", address, *words[1:])
    assert (done.returncode, done.stderr) == (64, f"distlockctl: {said}\n")


@pytest.mark.parametrize("words, said", [
    (["rum", "k", "true"], "'rum' is not a command; did you mean run?"),
    (["unlock", "k"], "did you mean release?"),
    (["--connect-timeout", "1s", "help"], "did you mean --help?"),
    (["run", "k", "-w", "1d", "true"], "write 24h, "),
    (["show", "k", "--namspace", "x"], "did you mean --namespace?"),
    (["ls", "--al"], "did you mean --all-namespaces?"),
])
def test_a_word_that_is_near(ctl, broker, words, said):
    done = ctl(*words)
    assert done.returncode == 64 and said in done.stderr, done.stderr


def test_release_takes_a_lease_and_no_name(ctl, broker):
    if not broker.real:
        pytest.skip("the fake broker takes every word for a lease")
    done = ctl("release", "k")
    assert done.returncode == 64 and "distlockctl force-release NAME" in done.stderr, done.stderr


def test_can_i_takes_the_same_names(ctl, broker):
    if not broker.real:
        pytest.skip("the fake broker has no policy")
    for lock in ("k", "shop:k", "shop:*", "k*", "*"):
        assert ctl("can-i", "exclusive", lock).returncode == 0
    done = ctl("can-i", "acquire", "k")
    assert done.returncode == 64 and "exclusive, shared or permit" in done.stderr


def test_the_explanation_of_a_broker_that_serves(ctl, broker):
    assert "Nothing but their holders keeps locks" in ctl("status", "--explain").stdout
    assert ctl.json("status", "--explain") == [{"grants": True, "obstacles": []}]
