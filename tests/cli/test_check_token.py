# SPDX-License-Identifier: Apache-2.0
"""check-token: whether a token is the newest of its lock, as text, as JSON and as an exit code."""
import pytest

K = ["k", "--namespace", "ns"]


def taken(ctl):
    [lease] = ctl.json("acquire", *K)
    assert ctl("release", "-", text=lease["lease_id"]).returncode == 0
    return lease["token"]


def test_the_newest(ctl, broker):
    token = taken(ctl)
    done = ctl("check-token", *K, str(token))
    assert (done.returncode, done.stdout) == (0, f"ns:k: {token} is the newest token\n")
    [answer] = ctl.json("check-token", *K, str(token))
    assert answer == {"namespace": "ns", "key": "k", "token": token, "newest": True, "newest_token": token}


def test_an_older_one(ctl, broker):
    old, new = taken(ctl), taken(ctl)
    done = ctl("check-token", *K, str(old))
    assert (done.returncode, done.stdout) == (1, f"ns:k: {old} is not the newest token: {new} is\n")
    done = ctl("check-token", *K, str(old), "-o", "json")
    assert done.returncode == 1
    assert done.stdout == (f'{{"namespace":"ns","key":"k","token":{old},"newest":false,"newest_token":{new}}}\n')


def test_a_lock_that_nobody_took(ctl, broker):
    done = ctl("check-token", "nobody", "7")
    assert (done.returncode, done.stdout) == (1, "default:nobody: 7 is not the newest token, which is not known\n")
    done = ctl("check-token", "nobody", "7", "-o", "json")
    assert done.returncode == 1 and '"newest":false,"newest_token":0' in done.stdout


def test_the_token_of_run_is_the_newest(ctl, broker):
    check = f'{ctl.program} check-token "$DISTLOCK_KEY" "$DISTLOCK_TOKEN"'
    assert ctl("run", "k", "-c", check).stdout.endswith(" is the newest token\n")


@pytest.mark.parametrize("args", [[], ["k"], ["k", "x"], ["k", "0"], ["k", "-1"], ["k", "1.5"], ["k", str(2**53)],
                                  ["k", str(2**63)], ["k", "1", "2"]])
def test_wrong_usage(ctl, broker, args):
    done = ctl("check-token", *args)
    assert done.returncode == 64
    assert done.stderr.startswith("distlockctl: ") and done.stderr.count("\n") == 1
