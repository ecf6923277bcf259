# SPDX-License-Identifier: Apache-2.0
"""The containers that the charts ask for, in the image, as a node would run them: their options, user, groups, folders
and probes are those of the render, the root is read-only. Each form of deployment serves a lock and ends in time."""
import re
import shlex
import subprocess

import pytest

from charts import HERE, objects, pods, render, sidecar_app
from image import make

# A network of its own, in which the names of the render's services are this machine. $1: the image's root, $2: a folder
# of the node, $3: how it belongs to the pod.
NODE = """
set -eu
ip link set lo up
root=$1 folder=$2
echo '127.0.0.1 localhost redis locks-distlock' >"$root/etc/hosts"
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
case $3 in
  emptyDir) chown root:10001 "$folder"; chmod 2777 "$folder" ;;  # by fsGroup
  hostPath) chown 10001:10001 "$folder" ;;                       # by the container that goes before
esac
mount --bind "$folder" "$root/run/distlock"
redis-server --port 6379 --bind 127.0.0.1 --save '' --dir "$folder" >/dev/null &
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    made = make(folder, "broker")
    (made / "etc/hosts").touch()
    return made


def command(spec, container, default=()):
    """How a container starts, as a line of shell."""
    context = {**spec.get("securityContext", {}), **container["securityContext"]}
    user, group = context["runAsUser"], context.get("runAsGroup", 0)
    assert context["runAsNonRoot"] and not context["allowPrivilegeEscalation"]
    env = {"PATH": "/usr/local/bin:/usr/bin", **{e["name"]: e["value"] for e in container.get("env", [])}}
    argv = ["setpriv", "--no-new-privs", "env", "-i", *(f"{name}={value}" for name, value in env.items()),
            "CHROOT", f"--userspec={user}:{group}", f"--groups={context.get('fsGroup', group)}", "ROOT",
            *container.get("command", default), *container.get("args", [])]
    return shlex.join(argv).replace("CHROOT", '"$(command -v chroot)"').replace("ROOT", '"$root"')


def probe(container, kind):
    asked = container[kind]["httpGet"]
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    return f"curl -fs http://127.0.0.1:{ports.get(asked['port'], asked['port'])}{asked['path']} >/dev/null"


def run(root, folder, volume, spec, broker, client):
    folder.chmod(0o755)
    grace = spec["terminationGracePeriodSeconds"]
    ready = "startupProbe" if "startupProbe" in broker else "readinessProbe"
    script = f"""{NODE}
{command(spec, broker, ["/usr/local/bin/distlockd"])} &
broker=$!
until {probe(broker, ready)}; do kill -0 $broker; sleep 0.05; done
{probe(broker, "livenessProbe")}
{client}
kill $broker
timeout {grace} tail --pid=$broker -f /dev/null
wait $broker
echo "it has ended well"
"""
    done = subprocess.run(["unshare", "-mpfn", "--kill-child", "sh", "-c", script, "sh", root, folder, volume],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "it has ended well" in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("values,volume", [("central", "emptyDir"), ("daemonset", "hostPath")])
def test_a_broker_of_the_chart_serves_the_chart_s_own_test(root, tmp_path, values, volume):
    found = {name.split("/")[0]: spec for name, _, spec in pods(objects(render(HERE / f"values/{values}.yaml")))}
    spec, test = found.get("Deployment") or found["DaemonSet"], found["Pod"]
    broker, = spec["containers"]
    kinds = {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}
    assert kinds == {volume}
    shown = run(root, tmp_path, volume, spec, broker, command(test, test["containers"][0]))
    assert re.search(r"^distlockctl \d+\.\d+\.\d+$", shown, re.MULTILINE), shown  # `run` starts it under the lock alone


def test_a_program_takes_a_lock_from_its_sidecar(root, tmp_path):
    (_, _, spec), = pods(objects(sidecar_app(tmp_path / "chart").stdout))
    broker, = spec["initContainers"]
    program = {**spec["containers"][0], "command": ["distlockctl", "run", "nightly", "--", "distlockctl", "ls"]}
    node = tmp_path / "node"
    node.mkdir()
    assert "default:nightly" in run(root, node, "emptyDir", spec, broker, command(spec, program))
