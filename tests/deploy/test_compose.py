# SPDX-License-Identifier: Apache-2.0
"""deploy/compose: what its files say of each other, and the same wiring run as processes."""
import os
import re
import subprocess

import yaml

from conftest import REPOSITORY
from harness import Distlockd, Process, eventually

COMPOSE = REPOSITORY / "deploy/compose"
MODEL = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
BROKERS = ["broker-1", "broker-2"]


def test_each_file_that_is_mounted_exists():
    mounts = [volume.split(":")[0] for service in MODEL["services"].values() for volume in service.get("volumes", [])]
    files = [mount for mount in mounts if mount.startswith(".")]
    assert len(files) >= 6
    for mount in files:
        assert (COMPOSE / mount).resolve().is_file(), mount
    for secret in MODEL["secrets"].values():
        ignored = subprocess.run(["git", "-c", "safe.directory=*", "check-ignore", "-q", COMPOSE / secret["file"]],
                                 cwd=REPOSITORY, check=False)
        assert ignored.returncode == 0, f"{secret['file']} could be committed"


def test_the_brokers_options_are_options():
    options = (REPOSITORY / "server/ops/option_table.cc").read_text(encoding="utf-8")
    for name in BROKERS:
        for variable in MODEL["services"][name]["environment"]:
            assert f'{{"{variable.removeprefix("DISTLOCK_").lower().replace("_", "-")}",' in options, variable


def test_prometheus_and_programs_name_the_brokers():
    http = {MODEL["services"][name]["environment"]["DISTLOCK_HTTP"].split(":")[1] for name in BROKERS}
    job, = yaml.safe_load((COMPOSE / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert job["job_name"] == "distlock"
    assert job["static_configs"][0]["targets"] == [f"{name}:{port}" for name in BROKERS for port in http]
    port = MODEL["services"]["broker-1"]["environment"]["DISTLOCK_LISTEN"].split(":")[1]
    assert MODEL["services"]["try"]["environment"]["DISTLOCK_SERVER"] == ",".join(f"{b}:{port}" for b in BROKERS)


def test_only_brokers_reach_the_store():
    inside = {name for name, service in MODEL["services"].items() if "store" in service["networks"]}
    assert inside == {"redis", *BROKERS} and MODEL["networks"]["store"]["internal"] is True
    assert all(mapping.startswith("127.0.0.1:") for service in MODEL["services"].values()
               for mapping in service.get("ports", []))


def test_a_broker_has_time_to_drain():
    options = (REPOSITORY / "server/ops/option_table.cc").read_text(encoding="utf-8")
    drain = int(re.search(r'"drain-timeout".*?"(\d+)s"', options)[1])
    for name in BROKERS:
        assert int(MODEL["services"][name]["stop_grace_period"].removesuffix("s")) >= drain + 10


class ComposeRedis(Process):
    """The service redis, on a unix socket."""

    def __init__(self, world, secret):
        self.path = world.folder / "redis.sock"
        super().__init__("redis", ["env", f"SECRET={secret}", "sh", COMPOSE / "redis.sh", "--port", "0",
                                   "--unixsocket", self.path, "--dir", world.folder], world.folder)
        world._add(self)
        self.launch()
        self.await_ready(lambda: "ready to accept connections" in self.log().lower())


class ComposeBroker(Distlockd):
    """A broker with the options of compose.yaml, but for its addresses and the place of the secret."""

    def __init__(self, world, name, redis, secret):
        given = {**MODEL["services"][name]["environment"], "DISTLOCK_REDIS": f"unix://{redis.path}",
                 "DISTLOCK_REDIS_PASSWORD_FILE": str(secret), "DISTLOCK_HTTP": "127.0.0.1:0",
                 "DISTLOCK_LISTEN": f"unix://{world.folder}/{name}.sock"}
        super().__init__(world.folder, "", name=name)
        self.argv = ["env", *(f"{key}={value}" for key, value in given.items()), self.argv[0]]
        world._add(self)
        self.start()


def test_the_wiring_works_as_processes(world):
    secret = world.folder / "redis_password"
    secret.write_text("c0ffee", encoding="utf-8")
    redis = ComposeRedis(world, secret)
    one, two = (ComposeBroker(world, name, redis, secret) for name in BROKERS)
    ctl = os.environ.get("DISTLOCKCTL", str(REPOSITORY / "build/release/bin/distlockctl"))
    env = {"PATH": os.environ["PATH"], "DISTLOCK_SERVER": f"{one.url},{two.url}"}
    held = subprocess.Popen([ctl, "run", "backup", "--", "sh", "-c", "echo held; read line"], env=env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert held.stdout.readline() == "held\n"
    used, other = (one, two) if one.metric("distlock_leases") else (two, one)
    assert used.drain() == 0
    listed = subprocess.run([ctl, "ls"], env=env, capture_output=True, text=True, check=True, timeout=30).stdout
    assert "default:backup" in listed
    held.communicate("done\n", timeout=30)
    assert held.returncode == 0 and other.metric("distlock_adoptions_total") == 1
    eventually(lambda: subprocess.run(["redis-cli", "-s", redis.path, "GET", "x"], capture_output=True, text=True,
                                      check=True).stdout.startswith("NOPERM"), "others having no rights")
