# SPDX-License-Identifier: Apache-2.0
"""All renders of the charts by the API schemas of several Kubernetes versions."""
import concurrent.futures
import json
import os
import subprocess

import pytest

from charts import VALUES, objects, render, sidecar_app, tool

VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
# Other projects' kinds have no schemas in Kubernetes.
NOT_KUBERNETES = ("monitoring.coreos.com/", "cert-manager.io/")
VALIDATE = """
import json, sys, kubernetes_validate
version, documents = sys.argv[1], json.load(sys.stdin)
for where, document in documents:
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except Exception as error:
        print(where, document["kind"], ":", " ".join(str(error).split())[:500])
"""


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    found = [(values.stem, made) for values in VALUES for made in objects(render(values))]
    found += [("sidecar", made) for made in objects(sidecar_app(tmp_path_factory.mktemp("app")).stdout)]
    return [(where, made) for where, made in found if not made["apiVersion"].startswith(NOT_KUBERNETES)]


def findings(version, documents):
    done = subprocess.run([f"{tool('python')}/bin/python", "-c", VALIDATE, version], input=json.dumps(documents),
                          capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def test_renders_are_valid_on_all_versions(documents):
    assert len(documents) > 40
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for version, found in zip(VERSIONS, pool.map(lambda v: findings(v, documents), VERSIONS)):
            assert found == "", f"Kubernetes {version}"


def test_the_check_sees_a_wrong_field(documents):
    where, pod = next((where, made) for where, made in documents if made["kind"] == "Deployment")
    wrong = json.loads(json.dumps(pod))
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
    assert "imagePolicy" in findings(VERSIONS[-1], [(where, wrong)])
