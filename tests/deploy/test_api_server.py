# SPDX-License-Identifier: Apache-2.0
"""The charts against Kubernetes' own API server: it takes all that they render, field by field, admits their pods under
the Pod Security level that README names, and helm installs, upgrades and removes them."""
import copy
import tempfile

import pytest

from api_server import ApiServer
from charts import CHART, VALUES, objects, pods, render, sidecar_app


@pytest.fixture(scope="module")
def api():
    with tempfile.TemporaryDirectory(prefix="dlk8s") as folder:
        server = None
        try:
            server = ApiServer(folder)
            yield server
        finally:
            if server is not None:
                server.close()


def level(values):
    return "privileged" if values.stem.startswith("daemonset") else "restricted"


def created_dry(api, text, namespace):
    """(object, what the server has against it), of all that a render brings and of the pods that it makes."""
    for made in objects(text):
        account = made["kind"] == "ServiceAccount"
        yield made, api.create(made, namespace, dry_run=not account)  # the pods name it
    for name, metadata, spec in pods(objects(text)):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**copy.deepcopy(metadata), "name": "pod"}, "spec": spec}
        pod["metadata"].pop("namespace", None)
        yield name, api.create(pod, namespace, dry_run=True)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_server_takes_each_object_and_admits_each_pod(api, values):
    namespace = f"dry-{values.stem.replace('_', '-')}"
    api.make_namespace(namespace, level(values))
    text = render(values).replace("namespace: shop", f"namespace: {namespace}")
    against = [(str(made), found) for made, found in created_dry(api, text, namespace) if found]
    assert against == []


def test_the_server_takes_the_sidecar_and_admits_its_pod(api, tmp_path):
    api.make_namespace("sidecar", "restricted")
    against = [(str(made), found) for made, found in created_dry(api, sidecar_app(tmp_path).stdout, "sidecar") if found]
    assert against == []


def test_the_server_sees_a_wrong_field_and_a_pod_above_its_level(api):
    api.make_namespace("strict", "restricted")
    named = {values.stem: values for values in VALUES}
    text = render(named["daemonset"]).replace("namespace: shop", "namespace: strict")
    assert any("hostPath" in why for _, found in created_dry(api, text, "strict") for why in found)
    wrong = next(made for made in objects(render(named["central"])) if made["kind"] == "Service")
    wrong["spec"]["porst"] = []
    assert any("porst" in why for why in api.create(wrong, "strict", dry_run=True))


def installs_upgrades_and_removes(api, namespace, chart, *args):
    for command in (("install", "locks", chart, *args), ("upgrade", "locks", chart, *args), ("uninstall", "locks")):
        done = api.helm(*command, "--namespace", namespace)
        assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr


@pytest.mark.parametrize("values", [v for v in VALUES if v.stem in ("central", "daemonset", "monitored")],
                         ids=lambda path: path.stem)
def test_helm_installs_upgrades_and_removes(api, values):
    namespace = f"helm-{values.stem}"
    api.make_namespace(namespace, level(values))
    installs_upgrades_and_removes(api, namespace, CHART, "--values", values)


def test_helm_installs_upgrades_and_removes_a_program_with_the_sidecar(api, tmp_path):
    api.make_namespace("helm-sidecar", "restricted")
    assert sidecar_app(tmp_path).returncode == 0
    installs_upgrades_and_removes(api, "helm-sidecar", tmp_path / "app")
