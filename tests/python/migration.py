# SPDX-License-Identifier: Apache-2.0
"""Runs the snippets of client/migration.md: migration.py BROKER REDIS DISTLOCKCTL FOLDER."""
import os
import pathlib
import re
import subprocess
import sys

import distlock
import redis

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "client/migration.md"


def snippets(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def main():
    broker, store, ctl, folder = sys.argv[1:]
    saved = []
    for text in snippets("python"):
        with distlock.connect(broker) as dl:
            exec(text, {"distlock": distlock, "dl": dl, "r": redis.Redis.from_url(store), "rows": [],
                        "save": lambda rows, token: saved.append(token)})
    assert len(saved) == 2 and saved[0] < saved[1], saved
    ran = pathlib.Path(folder, "ran")
    for name in ("report", "backup", "search"):
        path = pathlib.Path(folder, name)
        path.write_text(f"#!/bin/sh\necho {name} >>{ran}\n")
        path.chmod(0o755)
    variables = {**os.environ, "DISTLOCK_SERVER": broker, "PATH": f"{os.path.dirname(ctl)}:{os.environ['PATH']}"}
    for text in snippets("sh"):
        subprocess.run(["bash", "-euc", text.replace("/tmp/", f"{folder}/")], cwd=folder, env=variables, check=True)
    assert ran.read_text().split() == ["report", "backup", "search"], ran.read_text()
    assert redis.Redis.from_url(store).get("report") is None
    with distlock.connect(broker) as dl:
        assert not list(dl.list()), "a snippet has left a lock"
    print("all ran")


main()
