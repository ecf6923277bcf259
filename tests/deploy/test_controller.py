# SPDX-License-Identifier: Apache-2.0
"""The example controller of client/go/k8slock in two clusters, which are real API servers, that share a broker: one
instance works, and when it dies or its broker does, a later one goes on with a greater token."""
import os
import pathlib
import subprocess
import tempfile

import pytest

from api_server import ApiServer
from harness import Process, eventually

CONTROLLER = pathlib.Path(__file__).resolve().parents[2] / "client/go/k8slock/examples/controller"
CLUSTERS = ("eu", "us")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MARKS = ("distlock.dev/leader", "distlock.dev/token")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    made = tmp_path_factory.mktemp("go") / "controller"
    subprocess.run(["go", "build", "-o", made, "."], cwd=CONTROLLER, check=True)
    return made


@pytest.fixture(scope="module")
def clusters():
    with tempfile.TemporaryDirectory(prefix="dlk8s") as folder:
        servers = {}
        try:
            for name in CLUSTERS:
                place = pathlib.Path(folder) / name
                place.mkdir()
                servers[name] = ApiServer(place)
            yield servers
        finally:
            for server in servers.values():
                server.close()


class Fleet:
    """A controller in each cluster, and ConfigMaps that they mark."""

    def __init__(self, world, program, clusters, broker):
        self.clusters, self.made = clusters, 0
        self.controllers = {}
        for name, server in clusters.items():
            argv = ["env", f"KUBECONFIG={server.kubeconfig}", f"DISTLOCK_SERVER={broker.url}", program, "shop", name]
            self.controllers[name] = Process(f"controller-{name}", argv, world.folder)

    def start(self, name):
        self.controllers[name].launch()

    def close(self):
        for controller in self.controllers.values():
            controller.kill()

    def marks_of_new(self):
        """(leader, token) on a new ConfigMap of each cluster, as soon as the leader has marked that of its own."""
        self.made += 1
        name = f"c{os.getpid()}-{self.made}"
        for server in self.clusters.values():
            assert server.create({"apiVersion": "v1", "kind": "ConfigMap",
                                  "metadata": {"name": name, "labels": {"distlock.dev/example": "yes"}}}) == []
        marks = {}

        def marked():
            for cluster, server in self.clusters.items():
                found = server.read(f"{CONFIG_MAPS}/{name}")["metadata"].get("annotations", {})
                marks[cluster] = tuple(found.get(mark) for mark in MARKS)
            return any(token for _, token in marks.values())

        eventually(marked, f"a mark on {name}")
        return marks


def led_by(marks):
    """The token, when only the leader's own cluster was marked, and by the leader."""
    (cluster, (leader, token)), = [(cluster, mark) for cluster, mark in marks.items() if mark[1]]
    assert leader == cluster
    return leader, int(token)


def test_one_of_two_clusters_has_the_leader(world, program, clusters):
    broker = world.distlockd(world.redis().url)
    fleet = Fleet(world, program, clusters, broker)
    try:
        fleet.start("eu")
        first, token = led_by(fleet.marks_of_new())
        assert first == "eu"
        fleet.start("us")
        assert led_by(fleet.marks_of_new()) == ("eu", token)
        fleet.controllers["eu"].kill()
        second, later = led_by(fleet.marks_of_new())
        assert second == "us" and later > token
        broker.kill()
        eventually(lambda: not fleet.controllers["us"].alive(), "the end of a leader without a broker")
        broker.start()
        fleet.start("eu")
        third, last = led_by(fleet.marks_of_new())
        assert third == "eu" and last > later
    finally:
        fleet.close()
