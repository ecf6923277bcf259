# SPDX-License-Identifier: Apache-2.0
"""A bare Debian in a folder, by debootstrap, from the archive that this machine uses. Needs root."""
import pathlib
import shutil
import subprocess


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
        uri, release = archive()
        output("debootstrap", "--variant=minbase", release, self.folder, uri, timeout=600)
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
