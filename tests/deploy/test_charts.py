# SPDX-License-Identifier: Apache-2.0
"""Renders the charts with each file of charts/values and compares with charts/golden. After a change that is meant:
`DISTLOCK_GOLDEN=write pytest tests/deploy/test_charts.py`, and read the difference."""
import json
import os
import re
import subprocess
import sys

import pytest
import yaml

import pod_security
from charts import CHART, HERE, REFUSED, REPOSITORY, SIDECAR, VALUES, helm, objects, pods, render, sidecar_app

LONG_FILES = {"rules.yaml": "(files/rules.yaml)", "dashboard.json": "(files/dashboard.json)"}


def names(paths):
    return [path.stem for path in paths]


def shortened(text):
    """The render without the rules and the dashboard, which are files of their own."""
    for found in objects(text):
        if found["kind"] == "PrometheusRule":
            found["spec"] = {"groups": LONG_FILES["rules.yaml"]}
        if found["metadata"]["name"].endswith("-dashboard"):
            found["data"] = {"distlock.json": LONG_FILES["dashboard.json"]}
        yield found


def golden(name, text):
    path = HERE / f"golden/{name}.yaml"
    made = text
    if any(word in text for word in ("kind: PrometheusRule", "-dashboard")):
        made = yaml.safe_dump_all(shortened(text), sort_keys=False)
    if os.environ.get("DISTLOCK_GOLDEN") == "write":
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8"), f"{path} differs; the head of this file says how to renew it"


@pytest.mark.parametrize("values", VALUES, ids=names(VALUES))
def test_a_render_is_as_recorded(values):
    golden(values.stem, render(values))


def test_the_sidecar_is_as_recorded(tmp_path):
    done = sidecar_app(tmp_path)
    assert done.returncode == 0, done.stderr
    golden("sidecar", done.stdout)


def test_each_record_has_its_values():
    assert {p.stem for p in (HERE / "golden").glob("*.yaml")} == {*names(VALUES), "sidecar"}
    assert len(VALUES) >= 8


@pytest.mark.parametrize("values", VALUES, ids=names(VALUES))
def test_the_chart_passes_helms_lint(values):
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_sidecar_passes_helms_lint():
    done = helm("lint", "--strict", SIDECAR)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", REFUSED, ids=names(REFUSED))
def test_values_that_make_no_sense_are_refused_with_a_sentence(values):
    sentence = re.search(r"^# refused: (.*)$", values.read_text(encoding="utf-8"), re.MULTILINE)[1]
    done = helm("template", "locks", CHART, "--values", values)
    assert done.returncode != 0, f"{values.name} was rendered"
    assert sentence in done.stderr


@pytest.mark.parametrize("setting,sentence", [
    ("broker.image=", "distlock.sidecar: image is required"),
    ("broker.redisUrl=", "distlock.sidecar: redisUrl is required, such as redis://redis:6379"),
    ("broker.redisUrlSecret.name=s", "distlock.sidecar: redisUrl and redisUrlSecret are both set"),
    ("broker.replicas=2", 'distlock.sidecar: "replicas" is no setting; the settings are image, redisUrl'),
])
def test_a_sidecar_that_makes_no_sense_is_refused_with_a_sentence(tmp_path, setting, sentence):
    done = sidecar_app(tmp_path, "--set", setting)
    assert done.returncode != 0
    assert sentence in done.stderr


@pytest.mark.parametrize("values", [v for v in VALUES if not v.stem.startswith("daemonset")],
                         ids=lambda v: v.stem)
def test_pods_are_of_the_pod_security_level_restricted(values):
    found = list(pods(objects(render(values))))
    assert found
    for name, _, spec in found:
        assert list(pod_security.restricted(spec)) == [], name
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False, name
        assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in spec["containers"]), name


def test_the_pod_with_a_sidecar_is_of_the_pod_security_level_restricted(tmp_path):
    (name, _, spec), = pods(objects(sidecar_app(tmp_path).stdout))
    assert list(pod_security.restricted(spec)) == [], name


def test_a_daemonset_breaks_the_levels_by_its_folder_alone():
    (_, _, broker), _ = pods(objects(render(HERE / "values/daemonset_policy.yaml")))
    assert list(pod_security.restricted(broker)) == [
        "volume socket is a hostPath", "volume socket is of a kind that is not allowed"]


def test_selectors_meet_the_pods_and_the_test_pod_is_no_broker():
    for values in VALUES:
        made = objects(render(values))
        (_, broker, _), *others = pods(made)
        for found in made:
            spec = found.get("spec", {})
            if found["kind"] == "ServiceMonitor":
                assert spec["selector"]["matchLabels"].items() <= made_of(made, "Service")["metadata"]["labels"].items()
                continue
            selector = spec.get("podSelector", spec.get("selector", {}))
            wanted = selector.get("matchLabels", selector)
            assert wanted.items() <= broker["labels"].items(), found["kind"]
            assert not wanted or all(not wanted.items() <= other["labels"].items() for _, other, _ in others)


def made_of(made, kind):
    return next(found for found in made if found["kind"] == kind)


def test_the_pod_outlives_its_drain():
    for values in VALUES:
        (_, _, spec), *_ = pods(objects(render(values)))
        env = {e["name"]: e.get("value") for e in spec["containers"][0]["env"]}
        assert spec["terminationGracePeriodSeconds"] == int(env["DISTLOCK_DRAIN_TIMEOUT"].removesuffix("s")) + 10


def test_rules_and_dashboard_are_the_files_of_deploy_monitoring():
    made = objects(render(HERE / "values/monitored.yaml"))
    folder = REPOSITORY / "deploy/monitoring"
    rules = yaml.safe_load((folder / "rules.yaml").read_text(encoding="utf-8"))
    assert made_of(made, "PrometheusRule")["spec"] == rules
    shown = next(found for found in made if found["metadata"]["name"].endswith("-dashboard"))
    assert shown["data"]["distlock.json"] == (folder / "dashboard.json").read_text(encoding="utf-8")


def described(schema, path=""):
    """The paths of values in a schema that have no description, or let unknown values through."""
    for name, value in schema.get("properties", {}).items():
        at = f"{path}.{name}".lstrip(".")
        if not value.get("description"):
            yield f"{at} is not described"
        if "properties" in value:
            if value.get("additionalProperties") is not False:
                yield f"{at} takes values that are not there"
            yield from described(value, at)


def paths(values, schema, path=""):
    """The paths of all values of a chart, down to those that the schema describes no further."""
    for name, value in values.items():
        at = f"{path}.{name}".lstrip(".")
        inner = schema.get("properties", {}).get(name, {})
        yield at
        if isinstance(value, dict) and "properties" in inner:
            yield from paths(value, inner, at)


def schema_paths(schema, path=""):
    for name, inner in schema.get("properties", {}).items():
        at = f"{path}.{name}".lstrip(".")
        yield at
        yield from schema_paths(inner, at)


def test_the_schema_describes_exactly_the_values():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert schema["additionalProperties"] is False
    assert list(described(schema)) == []
    assert set(paths(values, schema)) == set(schema_paths(schema)) - {"enabled", "tags", "global"}  # of a parent chart


def test_the_reference_of_values_is_what_the_schema_makes():
    made = subprocess.run([sys.executable, REPOSITORY / "helm/values_reference.py"], capture_output=True, text=True,
                          check=True).stdout
    assert made == (CHART / "VALUES.md").read_text(encoding="utf-8"), "its head says how to make it anew"


def test_a_line_of_the_reference_of_values_says_by_itself_what_the_value_is():
    meanings = re.findall(r"^\| `\S+` \| .* \| ([^|]+) \|$", (CHART / "VALUES.md").read_text(encoding="utf-8"), re.M)
    assert len(meanings) > 80
    assert {meaning for meaning in meanings if meanings.count(meaning) > 1} == set()
    assert [meaning for meaning in meanings if re.match(r"(Its?|Their|They|The same)\b", meaning)] == []


def test_flags_and_variables_of_the_chart_are_options_of_the_daemon():
    options = (REPOSITORY / "server/ops/option_table.cc").read_text(encoding="utf-8")
    known = set(re.findall(r'\{"([a-z-]+)", k', options))
    text = "".join(p.read_text(encoding="utf-8")
                   for chart in (CHART, SIDECAR) for p in (chart / "templates").rglob("*.tpl"))
    used = {name.lower().replace("_", "-") for name in re.findall(r"\bDISTLOCK_([A-Z_]+[A-Z])\b", text)}
    assert len(used) >= 8
    assert used - {"server"} <= known
