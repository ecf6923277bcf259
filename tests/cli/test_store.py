# SPDX-License-Identifier: Apache-2.0
"""store upgrade and quorum-init: what a running broker does to its store."""
import json

import pytest


class TestStore:
    def test_a_refusal_says_why_and_what_to_do_next(self, ctl, broker):
        if not broker.real:
            pytest.skip("the fake has no store")
        upgrade = ctl("store", "upgrade", "--to", "2")
        assert upgrade.returncode == 78 and "ask a broker of a release that reads it" in upgrade.stderr
        init = ctl("quorum-init", "-o", "json")
        error = json.loads(init.stderr)["error"]
        assert init.returncode == error["exit_code"] == 78 and error["reason"] == "REFUSED"
        assert "--redis redlock://host,host,host" in error["message"]

    def test_repeating_an_upgrade_is_harmless(self, ctl, broker):
        if not broker.real:
            pytest.skip("the fake has no store")
        assert ctl("store", "upgrade", "--to", "1").stdout == "brokers write the store in schema 1\n"
        assert ctl.json("store", "upgrade", "--to", "1") == [{"event": "store_upgraded", "schema": 1}]

    @pytest.mark.parametrize("args", [["store"], ["store", "upgrade"], ["store", "upgrade", "--to", "0"],
                                      ["quorum-init", "--redis", "redlock://a,b,c"],
                                      ["quorum-init", "--server", "a:1,b:1"]])
    def test_wrong_usage(self, ctl, broker, args):
        done = ctl(*args)
        assert done.returncode == 64 and done.stderr.count("\n") == 1, done
