# SPDX-License-Identifier: Apache-2.0
"""The commands of deploy/runbooks.md, as somebody runs them in a broker's pod (`kubectl exec`): at the socket that the
chart gives it, without flags."""
import os
import re
import subprocess

import pytest
import yaml

from charts import HERE, pods
from conftest import REPOSITORY
from harness import Process, eventually, free_port

CTL = os.environ.get("DISTLOCKCTL", "distlockctl")
SOCKET = "unix:///run/distlock/distlock.sock"
TEXT = (REPOSITORY / "deploy/runbooks.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`(distlockctl [^`]*)`", TEXT)))
# The words of the page that a reader replaces, and a value for each.
BLANKS = {"ADDRESS": SOCKET, "NAMESPACE:KEY": "default:k", "KEY": "k", "VERB": "exclusive", "PRINCIPAL": "uid:1",
          "...": "gone", "FILE": "policy.yaml", "CASES": "cases.yaml", "distlockctl top": "distlockctl top --once"}


class Pod:
    """A broker with the variables of the chart's pod, but for its addresses and its store."""

    def __init__(self, world):
        self.world = world
        made = [found for found in yaml.safe_load_all((HERE / "golden/central.yaml").read_text(encoding="utf-8"))]
        (_, _, spec), *_ = pods(made)
        self.container, = spec["containers"]
        self.volumes = spec["volumes"]
        env = {e["name"]: e["value"] for e in self.container["env"]}
        tcp, self.socket = env["DISTLOCK_LISTEN"].split(",")
        assert tcp == "[::]:7420"
        self.port, self.at = free_port(), f"unix://{world.folder}/pod.sock"
        env |= {"DISTLOCK_LISTEN": f"[::]:{self.port},{self.at}", "DISTLOCK_HTTP": "127.0.0.1:0",
                "DISTLOCK_REDIS": world.redis().url}
        self.broker = Process("distlockd", ["env", *(f"{k}={v}" for k, v in env.items()), os.environ["DISTLOCKD"],
                                            *self.container["args"]], world.folder)
        world._add(self.broker).launch()
        eventually(lambda: self.run("status").returncode == 0, "the broker")

    def run(self, *args):
        env = {k: v for k, v in os.environ.items() if not k.startswith("DISTLOCK_")}
        return subprocess.run([CTL, *args], cwd=self.world.folder, env={**env, "DISTLOCK_SERVER": self.at}, timeout=60,
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def pod(world):
    return Pod(world)


def filled(command):
    for blank, with_what in BLANKS.items():
        command = re.sub(rf"(?<![\w:]){re.escape(blank)}(?!\w)", with_what, command)
    return command


def test_the_chart_s_socket_is_where_distlockctl_looks_by_itself(pod):
    assert pod.socket == SOCKET
    mount, = [m for m in pod.container["volumeMounts"] if SOCKET.startswith(f"unix://{m['mountPath']}/")]
    assert [set(v) - {"name"} for v in pod.volumes if v["name"] == mount["name"]] == [{"emptyDir"}]
    shown = subprocess.run([CTL, "status", "--connect-timeout", "100ms"], capture_output=True, text=True, check=False,
                           env={k: v for k, v in os.environ.items() if not k.startswith("DISTLOCK_")})
    assert shown.returncode == 0 or SOCKET.removeprefix("unix://") in shown.stderr


def test_each_command_of_the_runbooks_is_served_there(pod, world):
    assert len(COMMANDS) > 10
    (world.folder / "policy.yaml").write_text("version: 1\nrules: []\n", encoding="utf-8")
    (world.folder / "cases.yaml").write_text("- {who: anonymous, verb: drain, expect: deny}\n", encoding="utf-8")
    taken = pod.run("acquire", "k", "--server", f"127.0.0.1:{pod.port}")
    assert taken.returncode == 0, taken.stderr
    over = pod.run("force-release", "k", "--server", f"127.0.0.1:{pod.port}")
    assert over.returncode == 77, "nobody who only reaches the port takes locks away"
    drains_last = sorted(COMMANDS, key=lambda command: " drain" in command)
    for command in drains_last:
        argv = filled(command).replace(SOCKET, pod.at).split()[1:]
        done = pod.run(*argv)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert pod.broker.exit_code() == 0
