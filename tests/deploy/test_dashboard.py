# SPDX-License-Identifier: Apache-2.0
"""Each panel of the dashboard returns series from a real Prometheus that scrapes two brokers under load."""
import json
import math
import re
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from conftest import REPOSITORY
from harness import PATIENCE_S, Process, eventually, free_port

DASHBOARD = json.loads((REPOSITORY / "deploy/monitoring/dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


class Prometheus(Process):
    def __init__(self, world, targets):
        self.port = free_port()
        config = yaml.safe_load((REPOSITORY / "deploy/compose/prometheus.yml").read_text(encoding="utf-8"))
        config["global"]["scrape_interval"] = config["global"]["evaluation_interval"] = "1s"
        config["rule_files"] = [str(REPOSITORY / "deploy/monitoring/rules.yaml")]
        config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
        path = world.folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        super().__init__("prometheus", ["prometheus", f"--config.file={path}",
                                        f"--storage.tsdb.path={world.folder}/tsdb",
                                        f"--web.listen-address=127.0.0.1:{self.port}"], world.folder)
        world._add(self)
        self.launch()
        self.await_ready(lambda: "Server is ready" in self.log())

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression):
        return [float(row["value"][1]) for row in self.get("query", query=expression)["result"]]


def expressions(panel):
    for target in panel["targets"]:
        yield target["expr"].replace("$instance", ".*").replace("$__rate_interval", "8s")


def churn(broker, key, stop):
    """Takes and gives back a lock that others want, too; one more is held, and so renewed."""
    with broker.client() as client:
        client.hold(client.spec(f"held/{threading.get_ident()}", ttl=1.5)).wait_for("granted")
        while not stop.is_set():
            granted = client.hold(client.spec(key, max_wait=20, ttl=2)).wait_for("granted")
            stop.wait(0.02)
            client.release(granted.lease_id)


@pytest.fixture
def prometheus(world):
    redis = world.redis()
    brokers = [world.distlockd(redis.url, name=f"broker{n}") for n in (1, 2)]
    stop = threading.Event()
    threads = [threading.Thread(target=churn, args=(broker, f"key/{turn % 2}", stop))
               for turn, broker in enumerate(brokers * 3)]
    for thread in threads:
        thread.start()
    try:
        yield Prometheus(world, [broker.http.removeprefix("http://") for broker in brokers])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_each_panel_shows_something(prometheus):
    wanted = [(panel["title"], expression) for panel in PANELS for expression in expressions(panel)]
    assert len(wanted) > 35

    def empty():
        return [(title, expression) for title, expression in wanted
                if not any(map(math.isfinite, prometheus.values(expression)))]

    deadline = time.monotonic() + PATIENCE_S
    while empty() and time.monotonic() < deadline:
        time.sleep(1)
    assert [title for title, _ in empty()] == []


def test_prometheus_takes_the_rules_and_no_alert_fires_under_load(prometheus):
    eventually(lambda: all(group["lastEvaluation"] > "2" and rule["health"] == "ok"
                           for group in prometheus.get("rules")["groups"] for rule in group["rules"]),
               "each rule being evaluated")
    assert [alert for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"] == []


def test_panels_do_not_overlap_and_have_descriptions():
    cells = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert panel["type"] == "row" or panel["description"], panel["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in cells and cell[0] < 24, panel["title"]
            cells.add(cell)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert not re.search(r'"uid": "(?!distlock|\$\{datasource\})', json.dumps(DASHBOARD))
