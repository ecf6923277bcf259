# SPDX-License-Identifier: Apache-2.0
"""The notes of the chart, and its `helm test`, which runs here as in its pod against a broker with a policy."""
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml

from access_files import static_token
from attacks import make_certificates
from charts import CHART, HERE, helm, objects, pods, render
from harness import free_port

CTL = os.environ.get("DISTLOCKCTL", "distlockctl")
TOKEN = HERE / "values/token.yaml"
# The longest of deploy/topologies.md, that of a Cluster: the default --max-ttl where a replica may take over, and 1.5
# times the default cluster-node-timeout + 1 s.
HOLD_OFF_S = 30 + 1.5 * 15 + 1
HELM_GIVES_UP_S = 300
# A template of the release reads the notes: `helm template` does not print them, `helm install` wants a cluster.
SHOW_NOTES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {text: {{ include "distlock/templates/NOTES.txt" . | toJson }}}
"""


def made(tmp_path, values, **more):
    """The objects of a file of values, changed by some of their own."""
    settings = {**yaml.safe_load(values.read_text(encoding="utf-8")), **more}
    (tmp_path / "values.json").write_text(json.dumps(settings), encoding="utf-8")
    done = helm("template", "locks", CHART, "--namespace", "shop", "--values", tmp_path / "values.json")
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def notes(tmp_path, values):
    found = made(tmp_path, values, extraObjects=[SHOW_NOTES])
    return next(o["data"]["text"] for o in found if o["metadata"]["name"] == "notes")


def the_pod(found):
    specs = [spec for name, _, spec in pods(found) if name.startswith("Pod/")]
    return specs[0] if specs else None


def variables(spec):
    return {e["name"]: e["value"] for e in spec["containers"][0]["env"]}


def files(spec):
    """Where the test's pod has the Secrets: {path: (secret, key)}, key None for a whole Secret."""
    places = {m["name"]: m["mountPath"] for m in spec["containers"][0].get("volumeMounts", [])}
    found = {}
    for volume in spec.get("volumes", []):
        secret = volume["secret"]
        for item in secret.get("items", [{"path": "", "key": None}]):
            found[f"{places[volume['name']]}/{item['path']}"] = (secret["secretName"], item["key"])
    return found


@pytest.mark.parametrize("values,shown", [
    ("central", ["DISTLOCK_SERVER=locks-distlock.shop.svc:7420"]),
    ("certificate", ["DISTLOCK_SERVER=tls://locks-distlock.shop.svc:7420", "DISTLOCK_TLS_CA=FILE"]),
    ("token", ["DISTLOCK_SERVER=tls://locks-distlock.shop.svc:7420", "DISTLOCK_TLS_CA=FILE",
               "DISTLOCK_TOKEN_FILE=FILE"]),
    ("service_accounts", ["DISTLOCK_SERVER=tls://locks-distlock.shop.svc:7420", "DISTLOCK_TLS_CA=FILE",
                          "DISTLOCK_TOKEN_FILE=FILE"]),
    ("tls", ["DISTLOCK_SERVER=tls://locks-distlock.shop.svc:7420", "DISTLOCK_TLS_CA=FILE", "DISTLOCK_TLS_CERT=FILE",
             "DISTLOCK_TLS_KEY=FILE", "DISTLOCK_TOKEN_FILE=FILE"]),
    ("daemonset", ["DISTLOCK_SERVER=unix:///run/distlock/distlock.sock"]),
])
def test_the_notes_name_the_variables_that_a_client_needs(tmp_path, values, shown):
    assert re.findall(r"^  (DISTLOCK_\S+)", notes(tmp_path, HERE / f"values/{values}.yaml"), re.MULTILINE) == shown


@pytest.mark.parametrize("values,is_told", [("token", True), ("central", True), ("tls", False)])
def test_the_notes_tell_of_helm_test_where_there_is_a_test(tmp_path, values, is_told):
    path = HERE / f"values/{values}.yaml"
    assert ("helm test locks --namespace shop" in notes(tmp_path, path)) == is_told
    assert (the_pod(objects(render(path))) is not None) == is_told


def test_the_test_waits_for_longer_than_a_hold_off_and_ends_before_helm_does():
    command = the_pod(objects(render(TOKEN)))["containers"][0]["command"]
    wait_s = int(command[command.index("--wait") + 1].removesuffix("s"))
    assert HOLD_OFF_S < wait_s < HELM_GIVES_UP_S


def test_the_test_shows_the_token_of_a_secret(tmp_path):
    spec = the_pod(objects(render(TOKEN)))
    env = variables(spec)
    assert files(spec)[env["DISTLOCK_TOKEN_FILE"]] == ("locks-helm-test", "helm-test.token")
    assert files(spec)[env["DISTLOCK_TLS_CA"]] == ("locks-distlock-tls", "ca.crt")
    node = the_pod(made(tmp_path, HERE / "values/daemonset_policy.yaml", helmTest={"tokenSecret": {"name": "t"}}))
    node["volumes"] = [volume for volume in node["volumes"] if "secret" in volume]
    assert files(node)[variables(node)["DISTLOCK_TOKEN_FILE"]] == ("t", "token")


def test_the_test_shows_a_certificate_only_where_brokers_ask_for_one(tmp_path):
    def shown(**tls):
        spec = the_pod(made(tmp_path, TOKEN, tls={"enabled": True, "secretName": "locks-tls", **tls},
                             helmTest={"secretName": "client", "tokenSecret": {"name": "client"}}))
        assert ("client", None) in files(spec).values()
        return {name for name in variables(spec) if name.startswith("DISTLOCK_TLS_")}
    assert shown() == {"DISTLOCK_TLS_CA"}  # the Secret has no more than that
    assert shown(clientCa={"secretName": "ca"}) == {"DISTLOCK_TLS_CA", "DISTLOCK_TLS_CERT", "DISTLOCK_TLS_KEY"}


@pytest.mark.skipif("DISTLOCKD" not in os.environ, reason="no distlockd is built")
def test_the_test_passes_with_the_right_to_its_lock_alone(world, tmp_path):
    found = objects(render(TOKEN))
    spec = the_pod(found)
    token, line = static_token("helm-test")
    policy = next(o["data"]["policy.yaml"] for o in found if "policy.yaml" in o.get("data", {}))
    for name, text in (("policy", policy), ("tokens", line), ("token", token)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o640)
    pems, port = make_certificates(tmp_path), free_port()
    world.distlockd(
        world.redis().url, "--listen", f"127.0.0.1:{port}", "--tls-cert", pems / "cert.pem", "--tls-key",
        pems / "key.pem", "--policy", tmp_path / "policy", "--token-file", tmp_path / "tokens")
    here = {"DISTLOCK_SERVER": f"tls://localhost:{port}", "DISTLOCK_TLS_CA": str(pems / "ca.pem"),
            "DISTLOCK_TOKEN_FILE": str(tmp_path / "token")}
    env = {name: here[name] for name in variables(spec)}  # none that the pod does not have

    def run(**changed):
        return subprocess.run(spec["containers"][0]["command"], capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": str(pathlib.Path(CTL).parent), **env, **changed})
    done = run()
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("distlockctl ")
    assert run(DISTLOCK_TOKEN_FILE="").returncode == 77  # the policy refuses who shows nothing
