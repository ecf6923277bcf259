# SPDX-License-Identifier: Apache-2.0
"""A bare Debian in a folder, by debootstrap, from the archive that this machine uses. Needs root."""
import contextlib
import pathlib
import shutil
import subprocess

from harness import Process


def output(*args, **kwargs):
    done = subprocess.run([str(arg) for arg in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **kwargs)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def archive():
    """(URI, release) of this machine's own Debian."""
    release = output("sh", "-c", ". /etc/os-release; printf %s \"$VERSION_CODENAME\"")
    rows = output("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
                  "Created-By: Packages").split("\n")
    return next(row.split()[0] for row in rows if row.split()[1:] == [release, "main"]), release


class Chroot:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o755)  # its own users must get in
        uri, release = archive()
        output("debootstrap", "--variant=minbase", release, self.folder, uri, timeout=600)
        (self.folder / "etc/apt/sources.list").unlink()
        for name in ("sources.list", "sources.list.d", "apt.conf.d", "preferences.d", "auth.conf.d", "keyrings",
                     "trusted.gpg.d"):
            at, to = pathlib.Path("/etc/apt") / name, self.folder / "etc/apt" / name
            if at.is_dir():
                shutil.copytree(at, to, dirs_exist_ok=True)
            elif at.exists():
                shutil.copy(at, to)
        self.sh("apt-get update -qq")

    def sh(self, script, timeout=600):
        """The output of a script within, which must succeed. Its processes end with it."""
        return output("unshare", "-mpf", "--kill-child", "chroot", self.folder, "sh", "-ec",
                      f"mount -t proc proc /proc\n{script}", timeout=timeout)

    @contextlib.contextmanager
    def boot(self):
        """A Machine that runs the systemd of this Debian. The packages must have brought one."""
        machine = Machine(self.folder)
        try:
            yield machine
        finally:
            machine.kill()


class Machine(Process):
    """A Debian with its own systemd, in namespaces, by systemd-nspawn."""

    def __init__(self, root):
        super().__init__("machine", ["systemd-nspawn", "--directory", root, "--boot", "--register=no", "--keep-unit",
                                     "--console=pipe", "--kill-signal=SIGKILL"], root / "var/log")
        self.launch()
        self.await_ready(lambda: self._init() and self._run("systemctl", "show", "-P", "Version").returncode == 0)

    def _init(self):
        """The pid of its systemd."""
        found = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False).stdout
        return found.split()[0] if found else ""

    def _run(self, *args, timeout=120):
        return subprocess.run(["nsenter", "-t", self._init(), "-m", "-u", "-i", "-p", "-n", "-r", "-w", *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)

    def sh(self, script):
        done = self._run("sh", "-ec", script)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def state(self, name):
        """A property of the service."""
        return self.sh(f"systemctl show -P {name} distlockd").strip()
