# SPDX-License-Identifier: Apache-2.0
"""The charts in other people's hands: under a chart of theirs, with values that name what the chart names, and read by
tools that are stricter than helm (kustomize, kubeconform)."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

import pod_security
from charts import CHART, HERE, SIDECAR, VALUES, helm, objects, pods, render, sidecar_app, tool

MERGED = HERE / "values/merged.yaml"
PRODUCTION = CHART / "production.yaml"
CENTRAL = yaml.safe_load((HERE / "values/central.yaml").read_text(encoding="utf-8"))
NOT_KUBERNETES = "ServiceMonitor,PodMonitor,PrometheusRule,Certificate"
SIDECAR_SETTINGS = {"broker": {
    "imagePullPolicy": "Always", "redisUrl": "rediss+sentinel://s1,s2,s3/locks?ca=/etc/distlock/redis-ca/ca.crt",
    "redisPasswordSecret": {"name": "store", "key": "password"},
    "sentinelPasswordSecret": {"name": "sentinels", "key": "password"}, "drainTimeoutSeconds": 0,
    "env": {"MALLOC_TRIM_THRESHOLD_": 1000000, "DISTLOCK_WAIT_FOR_STORE": False}, "extraArgs": ["--validity=2s"],
    "extraEnv": [{"name": "DISTLOCK_KEY_PREFIX", "valueFrom": {"configMapKeyRef": {"name": "locks", "key": "prefix"}}}],
    "extraVolumes": [{"name": "redis-ca", "secret": {"secretName": "redis-ca", "defaultMode": 0o440}}],
    "extraVolumeMounts": [{"name": "redis-ca", "mountPath": "/etc/distlock/redis-ca", "readOnly": True}]}}


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sidecar")
    (folder / "values.json").write_text(json.dumps(SIDECAR_SETTINGS), encoding="utf-8")
    done = sidecar_app(folder, "--values", folder / "values.json")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def texts(sidecar):
    return {**{values.stem: render(values) for values in VALUES}, "sidecar": sidecar}


class Once(yaml.SafeLoader):
    """Refuses a key that a mapping has twice; YAML forbids it, and most readers take the last."""

    def construct_mapping(self, node, deep=False):
        names = [self.construct_object(key) for key, _ in node.value]
        assert len(names) == len(set(names)), names
        return super().construct_mapping(node, deep)


def twice(made):
    """Names that come twice in a list of a pod: API servers take one of them, tools refuse both."""
    for where, _, spec in pods(made):
        lists = {"volumes": [v["name"] for v in spec.get("volumes", [])]}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            lists[f"env of {container['name']}"] = [v["name"] for v in container.get("env", [])]
            lists[f"mounts of {container['name']}"] = [v["mountPath"] for v in container.get("volumeMounts", [])]
        for what, names in lists.items():
            yield from (f"{where}: {name} in {what}" for name in sorted(set(names)) if names.count(name) > 1)


def test_nothing_is_named_twice(texts):
    for name, text in texts.items():
        made = [found for found in yaml.load_all(text, Once) if found]
        assert list(twice(made)) == [], name


def test_no_number_is_written_with_an_exponent(texts):
    for name, text in texts.items():
        assert re.findall(r"^.*\d[eE]\+\d.*$", text, re.MULTILINE) == [], name


def test_what_the_user_names_takes_the_place_of_what_the_chart_names():
    made = objects(render(MERGED))
    (_, metadata, spec), *_ = pods(made)
    container, = spec["containers"]
    env = {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}
    assert env["DISTLOCK_HTTP"] == "[::]:9420" and len(env) == len(container["env"])
    assert env["DISTLOCK_KEY_PREFIX"] == {"configMapKeyRef": {"name": "locks", "key": "prefix"}}
    names = [e["name"] for e in container["env"]]
    assert names.index("POD_IP") < names.index("DISTLOCK_LISTEN")  # a variable sees those before it
    assert metadata["annotations"]["prometheus.io/scrape"] == "false"
    assert metadata["labels"]["app.kubernetes.io/version"] == "ours"
    assert {v["name"]: set(v) - {"name"} for v in spec["volumes"]}["redis-password"] == {"csi"}
    assert [m["subPath"] for m in container["volumeMounts"] if m["mountPath"] == "/etc/distlock/redis"] == ["store"]


def test_the_file_of_options_is_what_config_says():
    made = objects(render(MERGED))
    file, = [found["data"]["distlockd.yaml"] for found in made if found["metadata"]["name"] == "locks-distlock-config"]
    assert yaml.safe_load(file) == yaml.safe_load(MERGED.read_text(encoding="utf-8"))["config"]
    (_, metadata, spec), *_ = pods(made)
    container, = spec["containers"]
    mount, = [m for m in container["volumeMounts"] if m["name"] == "config"]
    assert f"--config={mount['mountPath']}/distlockd.yaml" in container["args"]
    assert "checksum/config" in metadata["annotations"]  # other options need another start
    assert "subPath" not in mount


@pytest.mark.skipif("DISTLOCKCTL" not in os.environ, reason="no distlockctl is built")
def test_each_policy_is_one_that_the_broker_reads(texts, tmp_path):
    policies = {name: found["data"]["policy.yaml"] for name, text in texts.items() for found in objects(text)
                if "policy.yaml" in found.get("data", {})}
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    policies["README"] = yaml.safe_load(re.search(r"```yaml\n(auth: .*?)```", readme, re.DOTALL)[1])["policy"]["rules"]
    policies["production"] = yaml.safe_load(PRODUCTION.read_text(encoding="utf-8"))["policy"]["rules"]
    assert len(policies) >= 4
    for name, policy in policies.items():
        (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
        done = subprocess.run([os.environ["DISTLOCKCTL"], "policy", "check", tmp_path / "policy.yaml"],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


def test_the_values_for_production_are_taken():
    made = objects(render(PRODUCTION))
    assert {found["kind"] for found in made} >= {"Certificate", "ServiceMonitor", "PrometheusRule", "NetworkPolicy"}
    assert {"default-ttl": "30s", "wait-replicas": 1, "store-nodes": 3} in [
        yaml.safe_load(found["data"]["distlockd.yaml"]) for found in made if "distlockd.yaml" in found.get("data", {})]


@pytest.mark.skipif("DISTLOCKD" not in os.environ, reason="no distlockd is built")
def test_the_sidecar_of_the_example_is_one_that_the_broker_takes(tmp_path):
    made = sidecar_app(tmp_path, "--values", SIDECAR / "broker.yaml")
    assert made.returncode == 0, made.stderr
    (_, _, spec), = pods(objects(made.stdout))
    broker, = spec["initContainers"]
    env = {e["name"]: e["value"] for e in broker["env"]}
    done = subprocess.run([os.environ["DISTLOCKD"], "--print-config"], env=env, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["wait-replicas"] == 1


def test_a_policy_that_changes_starts_no_pod_anew(tmp_path):
    def pod(rules):
        settings = yaml.safe_load((HERE / "values/tls.yaml").read_text(encoding="utf-8"))
        settings["policy"]["rules"] = rules
        (tmp_path / "values.json").write_text(json.dumps(settings), encoding="utf-8")
        (_, metadata, spec), = pods(objects(render(tmp_path / "values.json")))
        render.cache_clear()
        return metadata, spec
    assert pod("version: 1") == pod("version: 1\nrules: []")


def test_the_component_of_kustomize_adds_what_the_sidecar_chart_adds(sidecar, tmp_path):
    component = pathlib.Path(CHART).parents[1] / "deploy/kustomize/sidecar"
    shutil.copytree(component, tmp_path / "sidecar")
    app = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "name": "app", "labels": {"distlock.dev/sidecar": "true"}}, "spec": {
            "selector": {"matchLabels": {"app": "app"}}, "template": {"metadata": {"labels": {"app": "app"}}, "spec": {
                "containers": [{"name": "app", "image": "app"}]}}}}
    other = {**app, "metadata": {"name": "other"}}
    (tmp_path / "apps.yaml").write_text(yaml.safe_dump_all([app, other]), encoding="utf-8")
    (tmp_path / "kustomization.yaml").write_text(json.dumps({
        "resources": ["apps.yaml"], "components": ["sidecar"],
        "images": [{"name": "distlock", "newName": "registry.example/distlock", "newTag": "0.1.0"}]}), encoding="utf-8")
    done = subprocess.run([tool("kustomize"), "build", tmp_path], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    made = {found["metadata"]["name"]: found["spec"]["template"]["spec"] for found in objects(done.stdout)}
    assert "initContainers" not in made["other"]
    broker, = made["app"]["initContainers"]
    assert broker["image"] == "registry.example/distlock:0.1.0"
    (_, _, of_chart), = pods(objects((HERE / "golden/sidecar.yaml").read_text(encoding="utf-8")))
    theirs, = of_chart["initContainers"]
    for field in set(theirs) - {"env", "image"}:
        assert broker[field] == theirs[field], field
    assert {v["name"] for v in made["app"]["volumes"]} == {v["name"] for v in of_chart["volumes"]}
    assert list(pod_security.restricted({**made["app"], "containers": of_chart["containers"]})) == []
    for field in ("enableServiceLinks", "terminationGracePeriodSeconds"):
        assert made["app"][field] == of_chart[field], field


def test_the_sidecar_knows_what_the_broker_knows(sidecar):
    (_, _, spec), = pods(objects(sidecar))
    broker, = spec["initContainers"]
    env = {e["name"]: e.get("value", e.get("valueFrom")) for e in broker["env"]}
    assert broker["imagePullPolicy"] == "Always" and broker["args"] == ["--validity=2s"]
    assert env["DISTLOCK_SENTINEL_PASSWORD_FILE"] == "/etc/distlock/sentinel/password"
    assert env["MALLOC_TRIM_THRESHOLD_"] == "1000000" and env["DISTLOCK_WAIT_FOR_STORE"] == "false"
    assert env["DISTLOCK_DRAIN_TIMEOUT"] == "0s" and "configMapKeyRef" in env["DISTLOCK_KEY_PREFIX"]
    volumes = {v["name"] for v in spec["volumes"]}
    assert volumes >= {m["name"] for m in broker["volumeMounts"]} >= {"redis-ca", "distlock-sentinel"}


def test_brokers_listen_on_both_families(texts):
    for name, text in texts.items():
        assert "0.0.0.0" not in text, name
    services = [made["spec"] for made in objects(render(MERGED)) if made["kind"] == "Service"]
    assert [(s["ipFamilyPolicy"], s["ipFamilies"]) for s in services] == [("PreferDualStack", ["IPv6", "IPv4"])]


def test_the_test_s_pod_runs_where_brokers_run_and_reaches_them():
    made = objects(render(MERGED))
    broker, test = ((metadata, spec) for _, metadata, spec in pods(made))
    for field in ("nodeSelector", "tolerations", "priorityClassName"):
        assert test[1][field] == broker[1][field]
    assert test[1]["affinity"] == {"nodeAffinity": broker[1]["affinity"]["nodeAffinity"]}
    assert test[0]["labels"]["cost-center"] == "7"
    policies = [found for found in made if found["kind"] == "NetworkPolicy" and "annotations" in found["metadata"]]
    door, = policies
    assert door["metadata"]["annotations"]["helm.sh/hook"] == "test"  # it is there while the test runs, not longer
    assert int(door["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0
    assert door["spec"]["podSelector"]["matchLabels"].items() <= broker[0]["labels"].items()
    (rule,), = [door["spec"]["ingress"]]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= test[0]["labels"].items()


@pytest.mark.parametrize("switch,values,count", [
    ({"condition": "distlock.enabled"}, {"distlock": {"enabled": True, **CENTRAL}, "global": {"region": "x"}}, 7),
    ({"condition": "distlock.enabled"}, {"distlock": {"enabled": False, **CENTRAL}}, 0),
    ({"tags": ["locks"]}, {"distlock": CENTRAL, "tags": {"locks": True}}, 7),
    ({"tags": ["locks"]}, {"distlock": {"tags": {"locks": True}, **CENTRAL}, "tags": {"locks": False}}, 0),
    ({"alias": "locks", "condition": "locks.enabled"}, {"locks": {"enabled": True, **CENTRAL}}, 7),
])
def test_the_chart_is_a_dependency_that_can_be_switched(tmp_path, switch, values, count):
    shutil.copytree(CHART, tmp_path / "distlock")
    umbrella = tmp_path / "umbrella"
    umbrella.mkdir()
    dependency = {"name": "distlock", "version": "*", "repository": "file://../distlock", **switch}
    chart = {"apiVersion": "v2", "name": "umbrella", "version": "0.1.0", "dependencies": [dependency]}
    (umbrella / "Chart.yaml").write_text(json.dumps(chart), encoding="utf-8")
    (umbrella / "values.yaml").write_text(json.dumps(values), encoding="utf-8")
    subprocess.run([tool("helm"), "dependency", "build", umbrella], check=True, capture_output=True, timeout=60)
    done = helm("template", "locks", umbrella)
    assert done.returncode == 0, done.stderr
    assert len(objects(done.stdout)) == count


@pytest.mark.parametrize("url", [
    "redlock://a,b,c", "redlocks://a,b,c?ca=/ca", "redis+cluster://a", "rediss+cluster://a", "redis+sentinel://a/m",
    "rediss+sentinel://a/m", "redis://[fd00::1]:6379", "rediss://a"])
def test_each_store_of_the_broker_is_taken(tmp_path, url):
    (tmp_path / "values.json").write_text(json.dumps({**CENTRAL, "redis": {"url": url}}), encoding="utf-8")
    done = helm("template", "locks", CHART, "--values", tmp_path / "values.json")
    assert done.returncode == 0 and url in done.stdout, done.stderr


@pytest.mark.skipif("DISTLOCKD" not in os.environ, reason="no distlockd is built")
def test_each_change_of_the_store_is_one_that_chart_and_broker_take(tmp_path):
    page = pathlib.Path(CHART).parents[1].joinpath("deploy/topologies.md").read_text(encoding="utf-8")
    changes = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    assert len(changes) == 3
    for change in changes:
        (tmp_path / "values.json").write_text(json.dumps({**CENTRAL, **change}), encoding="utf-8")
        made = objects(helm("template", "locks", CHART, "--values", tmp_path / "values.json").stdout)
        (_, _, spec), *_ = pods(made)
        env = {e["name"]: e["value"] for e in spec["containers"][0]["env"]}
        files = [found["data"]["distlockd.yaml"] for found in made if "distlockd.yaml" in found.get("data", {})]
        (tmp_path / "config.yaml").write_text(files[0] if files else "{}", encoding="utf-8")
        done = subprocess.run([os.environ["DISTLOCKD"], "--insecure-listen", "--print-config",
                               f"--config={tmp_path}/config.yaml"],
                              env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        used = yaml.safe_load(done.stdout)
        for option, value in {"redis": change["redis"]["url"], **change["config"]}.items():
            assert str(used[option]) == str(value), option


@pytest.fixture(scope="module")
def schemas(tmp_path_factory):
    """Those of the package that test_kubernetes.py uses, for kubeconform: its own come from the network."""
    made = tmp_path_factory.mktemp("schemas")
    found, = pathlib.Path(tool("python")).glob("lib/*/site-packages/kubernetes_validate/*/v1.31.0-local-strict")
    for path in found.glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8").replace("/api/_definitions.json", "_definitions.json"))
        schema.pop("$id", None)  # an address in the network, which others are relative to
        (made / path.name).write_text(json.dumps(schema), encoding="utf-8")
    return made


def test_kubeconform_takes_each_render(texts, schemas):
    for name, text in texts.items():
        done = conform(schemas, text)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    for wrong in ("replicas: 2\n  replicas: 3", "replicas: two", "replicas: 2\n  replica: 2"):
        assert conform(schemas, render(MERGED).replace("replicas: 2", wrong)).returncode == 1, wrong


def conform(schemas, text):
    where = f"{schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    return subprocess.run([tool("kubeconform"), "-strict", "-kubernetes-version", "1.31.0", "-skip", NOT_KUBERNETES,
                           "-schema-location", where], input=text, capture_output=True, text=True, timeout=60,
                          check=False)


def test_kustomize_takes_each_render(texts, tmp_path):
    for name, text in texts.items():
        done = build(tmp_path, text)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert len(objects(done.stdout)) == len(objects(text)), name
    assert build(tmp_path, render(MERGED).replace("replicas: 2", "replicas: 2\n  replicas: 3")).returncode != 0


def build(folder, text):
    (folder / "all.yaml").write_text(text, encoding="utf-8")
    (folder / "kustomization.yaml").write_text("resources: [all.yaml]\n", encoding="utf-8")
    return subprocess.run([tool("kustomize"), "build", folder], capture_output=True, text=True, timeout=60, check=False)


def test_the_sidecar_s_settings_are_all_in_its_head_and_on_its_page():
    text = (SIDECAR / "templates/_sidecar.tpl").read_text(encoding="utf-8")
    checks = text[text.index('define "distlock.sidecar.checks"'):]
    known = set(re.findall(r'"(\w+)"', "".join(re.findall(r"\$known .*", checks))))
    head = text[:text.index('{{- define "distlock.sidecar" -}}')]
    assert len(known) > 10 and {name for name in known if not re.search(rf"\b{name}\b", head)} == set()
    rows = re.findall(r"^\| (`.*?) \|", (SIDECAR / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)", row)} == known
