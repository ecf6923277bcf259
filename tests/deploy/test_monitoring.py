# SPDX-License-Identifier: Apache-2.0
"""The alerts of deploy/monitoring: their tests by promtool, their runbooks, and the names of metrics everywhere."""
import re
import subprocess

import pytest
import yaml

from conftest import REPOSITORY
from harness import World

MONITORING = REPOSITORY / "deploy/monitoring"
RUNBOOKS = REPOSITORY / "deploy/runbooks.md"
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOKS.read_text(encoding="utf-8"), re.M | re.S))
ALERTS = {rule["alert"]: rule
          for group in yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))["groups"]
          for rule in group["rules"]}
SECTION_LINES_MAX = 30
LABELS = re.compile(r'\b(distlock_[a-z_]+)\{[^}]*?\b(reason|cause|verb|kind|path)=~?\\?"([a-z_|]+)')
METRIC = re.compile(r"\bdistlock_[a-z_]+\b")


def promtool(*args):
    done = subprocess.run(["promtool", *args], cwd=MONITORING, capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_proper():
    promtool("check", "rules", "rules.yaml")


def test_each_alert_fires_and_is_quiet_as_its_tests_say():
    promtool("test", "rules", "rules_test.yaml")


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    fires, quiet = set(), set()
    for test in yaml.safe_load((MONITORING / "rules_test.yaml").read_text(encoding="utf-8"))["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case.get("exp_alerts") else quiet).add(case["alertname"])
    assert fires == quiet == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_summary_a_severity_and_a_section(alert):
    rule = ALERTS[alert]
    name = alert.removeprefix("Distlock")
    assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["runbook"] == f"deploy/runbooks.md#{name.lower()}"
    lines = SECTIONS[name].splitlines()
    assert len(lines) <= SECTION_LINES_MAX
    parts = [line for line in lines if re.fullmatch(r"\*\*\w+\*\*", line)]
    assert parts in (["**Look**", "**Do**"], ["**Look**", "**Do**", "**Prevent**"])


def test_each_section_belongs_to_an_alert():
    assert set(SECTIONS) == {alert.removeprefix("Distlock") for alert in ALERTS}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """The text of /metrics of a broker."""
    with World(tmp_path_factory.mktemp("dlm")) as world:
        return world.distlockd(world.redis().url).get("/metrics")[1]


def read_by_people():
    files = [MONITORING / "rules.yaml", MONITORING / "dashboard.json", RUNBOOKS,
             REPOSITORY / "deploy/operations.md"]
    return [(file, file.read_text(encoding="utf-8")) for file in files]


def test_each_metric_that_is_named_exists(metrics):
    known = set(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE))
    assert len(known) > 25
    for file, text in read_by_people():
        named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in METRIC.findall(text)}
        assert named - known == set(), file.name


def test_each_label_that_is_asked_for_exists(metrics):
    asked = 0
    for file, text in read_by_people():
        for name, label, values in LABELS.findall(text):
            for value in values.split("|"):
                asked += 1
                assert f'{name}{{{label}="{value}"}}' in metrics, (file, name, value)
    assert asked >= 8
