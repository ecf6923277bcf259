# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' API server with a store of its own, and nothing behind it: it checks, fills in, admits and keeps objects,
and nobody makes pods of them."""
import contextlib
import json
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from charts import tool
from harness import Process, free_port

TOKEN = "of-this-test-alone"
KINDS_OF_OTHERS = {  # whose definitions come with operators; here anything is valid in them
    "monitoring.coreos.com/v1": ("ServiceMonitor", "PodMonitor", "PrometheusRule"),
    "cert-manager.io/v1": ("Certificate",),
}


class ApiServer:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        self.port = free_port()
        self.kubeconfig = self.folder / "kubeconfig"
        self._resources = {}
        self._start_etcd()
        self._start()
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                      "insecure-skip-tls-verify": True}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}]}), encoding="utf-8")
        for group, kinds in KINDS_OF_OTHERS.items():
            for kind in kinds:
                self._define(group, kind)

    def close(self):
        for process in reversed(self.processes):
            process.kill()

    def _launch(self, name, argv, ready):
        process = Process(name, argv, self.folder)
        self.processes.append(process)
        process.launch()
        process.await_ready(ready)

    def _start_etcd(self):
        self.etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._launch("etcd", ["etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", self.etcd,
                              "--advertise-client-urls", self.etcd, "--listen-peer-urls", peers,
                              "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
                              "--unsafe-no-fsync"], lambda: answers(self.etcd + "/health"))

    def _start(self):
        key, tokens = self.folder / "key.pem", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        tokens.write_text(f"{TOKEN},test,test,system:masters\n", encoding="utf-8")
        self._launch("kube-apiserver", [
            tool("kube-apiserver"), "--etcd-servers", self.etcd, "--bind-address", "127.0.0.1",
            "--secure-port", self.port, "--cert-dir", self.folder / "certificates", "--token-auth-file", tokens,
            "--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", key, "--service-account-signing-key-file", key,
            "--service-cluster-ip-range", "10.0.0.0/24"], lambda: self._get("/readyz") == "ok")

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", method=method, data=body and json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
                return answer.status, answer.read().decode(), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), []

    def _get(self, path):
        with contextlib.suppress(OSError):
            status, text, _ = self._ask("GET", path)
            return text if status == 200 else ""
        return ""

    def _define(self, group_version, kind):
        group, version = group_version.split("/")
        plural = kind.lower() + "s"
        assert self.create({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                     "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}) == []

    def _path(self, made, namespace):
        root = "/api/" if "/" not in made["apiVersion"] else "/apis/"
        at = root + made["apiVersion"]
        if made["kind"] not in self._resources.get(at, {}):
            listed = json.loads(self._get(at) or "{}").get("resources", [])
            self._resources[at] = {r["kind"]: r for r in listed if "/" not in r["name"]}
        resource = self._resources[at].get(made["kind"])
        if resource is None:
            return None
        within = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        return f"{at}{within}/{resource['name']}"

    def create(self, made, namespace="default", dry_run=False):
        """What the server has against the object, warnings too; []: nothing. Unknown fields are errors."""
        path = self._path(made, namespace)
        if path is None:
            return [f"{made['kind']} of {made['apiVersion']} is not known"]
        asked = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        status, text, warnings = self._ask("POST", f"{path}?{urllib.parse.urlencode(asked)}", made)
        return warnings if status == 201 else [json.loads(text)["message"]]

    def read(self, path):
        """An object by its path; {} when there is none."""
        return json.loads(self._get(path) or "{}")

    def make_namespace(self, name, level):
        """With its account, as a controller would make it; `level`: of Pod Security, which is enforced."""
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
        for made in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
                     {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}):
            assert self.create(made, name) == []

    def helm(self, *args):
        return subprocess.run([tool("helm"), "--kubeconfig", self.kubeconfig, *map(str, args)], capture_output=True,
                              text=True, timeout=120, check=False)


def answers(url):
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    return False
