# SPDX-License-Identifier: Apache-2.0
"""The charts of helm/, rendered by helm."""
import functools
import pathlib
import shutil
import subprocess

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "helm/distlock"
SIDECAR = REPOSITORY / "helm/distlock-sidecar"
HERE = pathlib.Path(__file__).resolve().parent / "charts"
VALUES = sorted((HERE / "values").glob("*.yaml"))
REFUSED = sorted((HERE / "refused").glob("*.yaml"))


@functools.lru_cache(None)
def tool(name):
    made = subprocess.run([REPOSITORY / "tests/deploy/tools.sh", name], stdout=subprocess.PIPE, text=True, check=True)
    return made.stdout.strip()


def helm(*args):
    # A helm that is built from its sources takes itself for one of an old Kubernetes.
    return subprocess.run([tool("helm"), *map(str, args), "--kube-version", "1.31.0"], capture_output=True, text=True,
                          timeout=60, check=False)


@functools.lru_cache(None)
def render(values):
    """What `helm install` would send for a file of values, as text."""
    done = helm("template", "locks", CHART, "--namespace", "shop", "--values", values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sidecar_app(folder, *args):
    """Renders the chart of tests that has the sidecar beside a program. Returns helm's result."""
    app = pathlib.Path(folder) / "app"
    if not app.exists():
        shutil.copytree(HERE / "app", app)
        shutil.copytree(SIDECAR, app / "charts/distlock-sidecar")
    return helm("template", "locks", app, *args)


def objects(text):
    return [found for found in yaml.safe_load_all(text) if found]


def pods(made):
    """(name, metadata, spec) of each pod that the objects are or make."""
    for found in made:
        name = f"{found['kind']}/{found['metadata']['name']}"
        if found["kind"] == "Pod":
            yield name, found["metadata"], found["spec"]
        elif "template" in found.get("spec", {}):
            template = found["spec"]["template"]
            yield name, template.get("metadata", {}), template["spec"]
