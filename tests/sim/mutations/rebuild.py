#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds a program of a Ninja build anew, as if some of its sources were those of a copy of the tree.

Compiles only what depends on these sources, with the build's own commands, and links it in front of the build's own
archives. The build stays as it is. It must be up to date, and the copy must be equal to the tree but for the sources
named."""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

GENERATED_SCRIPTS = "generated/lua"


class RebuildError(Exception):
    """The program cannot be built; the message says why."""


def run(command, folder):
    done = subprocess.run(command, cwd=folder, shell=isinstance(command, str), capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RebuildError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class Build:
    def __init__(self, folder, copy, work, program):
        self.folder, self.copy, self.work, self.program = (
            os.path.abspath(folder), os.path.abspath(copy), os.path.abspath(work), program)
        self.root = self._root()
        self._link = self._ninja("commands", "-s", program).strip()
        self._commands = self._ninja("commands", program).splitlines()
        self._compiles = {found[1]: line for line in self._commands
                          if (found := re.search(r" -o (\S+\.o) -c \S+$", line))}
        if not self._compiles:
            raise RebuildError(f"{folder} has no compile commands for {program}")
        self._needs = self._read_deps()

    def rebuild(self, files):
        """`files`: the changed ones, relative to the tree. Returns the path of the new program."""
        changed = {os.path.join(self.root, file) for file in files}
        scripts = {path for path in changed if path.endswith(".lua")}
        if scripts:
            changed = changed - scripts | {self._assemble_scripts()}
        affected = [one for one in self._compiles if self._needs.get(one, set()) & changed]
        reached = set().union(*(self._needs[one] for one in affected))
        if changed - reached:
            raise RebuildError(f"{self.program} does not depend on {', '.join(sorted(changed - reached))}")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self._compile, affected))
        return self._link_with(affected)

    def _root(self):
        with open(os.path.join(self.folder, "CMakeCache.txt"), encoding="utf-8") as f:
            return re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", f.read(), re.MULTILINE)[1]

    def _ninja(self, tool, *arguments):
        return run(["ninja", "-t", tool, *arguments], self.folder)

    def _read_deps(self):
        """{object: the paths of all files that it was compiled from}"""
        needs, of = {}, set()
        for line in self._ninja("deps", *self._compiles).splitlines():
            if line.startswith(" "):
                of.add(os.path.normpath(os.path.join(self.folder, line.strip())))
            elif line:
                of = needs.setdefault(line.split(": #deps")[0], set())
        return needs

    def _here(self, text):
        """A command or a generated source, of the copy instead of the tree."""
        scripts = os.path.join(self.folder, GENERATED_SCRIPTS)
        text = re.sub(re.escape(scripts) + r"\b", os.path.join(self.work, GENERATED_SCRIPTS), text)
        kept = "|".join(re.escape(os.path.relpath(path, self.root)) for path in (self.folder, self.work, self.copy)
                        if path.startswith(self.root + "/"))
        no_build = rf"(?!(?:{kept})\b)" if kept else ""
        return re.sub(re.escape(self.root) + "/" + no_build, self.copy + "/", text)

    def _assemble_scripts(self):
        """Returns the path, in the build, of the source that has them."""
        out = os.path.join(self.work, GENERATED_SCRIPTS)
        os.makedirs(out, exist_ok=True)
        run(self._here(next(line for line in self._commands if "embed_lua.cmake" in line)), self.folder)
        header, source = (os.path.join(self.folder, GENERATED_SCRIPTS, f"scripts_data.{end}") for end in ("h", "cc"))
        with open(header, encoding="utf-8") as old, open(os.path.join(out, "scripts_data.h"), encoding="utf-8") as new:
            if old.read() != new.read():
                raise RebuildError("scripts may be changed, but none added or removed")
        return source

    def _compile(self, one):
        out = os.path.join(self.work, one)
        os.makedirs(os.path.dirname(out), exist_ok=True)
        command, source = self._compiles[one].rsplit(" ", 1)
        if source.startswith(self.folder + "/"):  # it names files of the tree, as unity sources do
            generated = os.path.join(self.work, os.path.relpath(source, self.folder))
            if not os.path.exists(generated):
                os.makedirs(os.path.dirname(generated), exist_ok=True)
                with open(source, encoding="utf-8") as f, open(generated, "w", encoding="utf-8") as g:
                    g.write(self._here(f.read()))
            source = generated
        else:
            source = self._here(source)
        # The change may well leave something unused.
        run(f"{self._here(command.replace(one, out))} {source} -Wno-error", self.folder)

    def _link_with(self, affected):
        out = os.path.join(self.work, os.path.basename(self.program))
        command, in_front = self._link, []
        for one in affected:
            own = re.compile(r"(?<!\S)" + re.escape(one) + r"(?!\S)")
            if own.search(command):
                command = own.sub(os.path.join(self.work, one), command)
            else:
                in_front.append(os.path.join(self.work, one))
        mine = f" -o {self.program} "
        if mine not in command:
            raise RebuildError(f"not how a program is linked: {command}")
        run(command.replace(mine, f" {' '.join(in_front)} -o {out} "), self.folder)
        return out


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="the folder of the build")
    parser.add_argument("--copy", required=True, help="the copy of the tree")
    parser.add_argument("--work", required=True, help="where to build; what is there is deleted")
    parser.add_argument("program", help="as Ninja names it: bin/distlock_sim")
    parser.add_argument("files", nargs="+", help="the sources that differ, relative to the tree")
    options = parser.parse_args(arguments)
    shutil.rmtree(options.work, ignore_errors=True)
    try:
        print(Build(options.build, options.copy, options.work, options.program).rebuild(options.files))
    except (RebuildError, OSError) as error:
        print(f"rebuild.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
