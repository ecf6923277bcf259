# SPDX-License-Identifier: Apache-2.0
"""What the Pod Security level `restricted` refuses: each function yields a sentence for each field of a pod that breaks
it. https://kubernetes.io/docs/concepts/security/pod-security-standards
"""

HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"], *spec.get("ephemeralContainers", [])]


def baseline(spec):
    for field in HOST_FIELDS:
        if spec.get(field):
            yield f"{field} is set"
    for volume in spec.get("volumes", []):
        if "hostPath" in volume:
            yield f"volume {volume['name']} is a hostPath"
    for container in containers(spec):
        context = container.get("securityContext", {})
        if context.get("privileged"):
            yield f"{container['name']} is privileged"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{container['name']} has a hostPort"
        if context.get("procMount", "Default") != "Default":
            yield f"{container['name']} has an unmasked /proc"


def restricted(spec):
    yield from baseline(spec)
    pod = spec.get("securityContext", {})
    for volume in spec.get("volumes", []):
        if not VOLUMES & set(volume):
            yield f"volume {volume['name']} is of a kind that is not allowed"
    for container in containers(spec):
        name, own = container["name"], container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name} allows privilege escalation"
        if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"{name} may run as root"
        if own.get("runAsUser", pod.get("runAsUser")) == 0:
            yield f"{name} runs as root"
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name} keeps capabilities"
        seccomp = own.get("seccompProfile", pod.get("seccompProfile", {}))
        if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name} has no seccomp profile"
