# SPDX-License-Identifier: Apache-2.0
"""What a proof is about: a hash of the files that decide it, as they are in the work tree."""
import fnmatch
import hashlib
import os
import stat
import subprocess

# A page that changes asks for no new proofs, although the suite compares some pages with the code (proto/promises.md):
# what is shown of simulations and daemons stays true. Nor does the record of proofs, and what keeps it.
LEFT_OUT = ("*.md", "tests/proof/*")
# A line that is a comment as a whole, or empty, changes no program.
COMMENT = {".cc": b"//", ".h": b"//", ".proto": b"//", ".lua": b"--", ".py": b"#", ".txt": b"#", ".cmake": b"#"}


class Code:
    """name: the hash. commit: the one whose files these are; with a + behind it, a tree that no commit has."""

    def __init__(self, root, paths):
        self.name = _hash(root, paths)
        changed = [path for path in _listing(root, "diff", "--name-only", "HEAD", "--", *paths)
                   + _others(root, paths) if _counts(path)]
        self.commit = _git(root, "rev-parse", "--short=8", "HEAD").strip() + ("+" if changed else "")


def _git(root, *args):
    return subprocess.run(["git", "-c", "safe.directory=*", *args], cwd=root, check=True, capture_output=True,
                          text=True).stdout


def _listing(root, command, *args):
    return [path for path in _git(root, command, "-z", *args).split("\0") if path]


def _others(root, paths):
    return _listing(root, "ls-files", "--others", "--exclude-standard", "--", *paths)


def _counts(path):
    return not any(fnmatch.fnmatch(path, pattern) for pattern in LEFT_OUT)


def _hash(root, paths):
    files = set(_listing(root, "ls-files", "--cached", "--", *paths) + _others(root, paths))
    whole = hashlib.sha256()
    for path in sorted(filter(_counts, files)):
        content = _content(os.path.join(root, path))
        if content is not None:
            whole.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\0".encode())
    return whole.hexdigest()[:12]


def _statements(path, content):
    comment = COMMENT.get(os.path.splitext(path)[1])
    if comment is None or b"--[[" in content:
        return content
    return b"\n".join(line for line in content.splitlines() if line.strip() and not line.lstrip().startswith(comment))


def _content(path):
    """None: the file is gone. Whether it may be run belongs to it."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return b"link " + os.readlink(path).encode()
        with open(path, "rb") as file:
            return (b"program " if mode & 0o100 else b"file ") + _statements(path, file.read())
    except FileNotFoundError:
        return None
