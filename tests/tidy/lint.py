# SPDX-License-Identifier: Apache-2.0
"""Runs clang-format and clang-tidy, by the settings in .clang-format and .clang-tidy.

usage: lint.py [--product | --all] [--build FOLDER] [--jobs N]

Without options: both, on the C++ files that differ from origin/main (or main), committed or not. Nothing differs:
nothing to do. --product: clang-format on all files; clang-tidy on server, client and proto, and on other files that
differ. --all: both on all files. clang-tidy takes its flags from FOLDER/compile_commands.json (default build/release):
configure and build first.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CPP = (".cc", ".h", ".c")
PRODUCT = ("server/", "client/", "proto/")


def git(*args):
    done = subprocess.run(["git", "-c", "safe.directory=*", *args], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def all_files():
    listing = git("ls-files", "--cached", "--others", "--exclude-standard")
    if listing is None:
        sys.exit("lint.py: this is no git checkout, so that it is not known which files are the project's")
    return [f for f in listing.splitlines() if f.endswith(CPP) and os.path.exists(os.path.join(ROOT, f))]


def changed_files():
    base = None
    for branch in ("origin/main", "main"):
        base = base or (git("merge-base", "HEAD", branch) or "").strip()
    changed = git("diff", "--name-only", "--diff-filter=d", base or "HEAD", "--")
    untracked = git("ls-files", "--others", "--exclude-standard")
    if changed is None or untracked is None:
        return []
    return sorted(f for f in set((changed + untracked).splitlines()) if f.endswith(CPP))


def included_sources(entry):
    """The sources that one compile command covers: several, when it is that of a unity build; not generated ones."""
    sources = [os.path.join(entry["directory"], entry["file"])]
    if "/Unity/" in sources[0]:
        with open(sources[0], encoding="utf-8") as unity:
            sources = re.findall(r'^#include "(.+)"$', unity.read(), re.MULTILINE)
    return [os.path.relpath(s, ROOT) for s in sources if not s.startswith(entry["directory"] + "/")]


def as_compiled(entries, folders):
    """{its sources: a compile command} of those in the folders. A unity build's sources are parsed together, once."""
    commands = {}
    for entry in entries:
        sources = included_sources(entry)
        if any(source.startswith(folders) for source in sources):
            file = os.path.join(entry["directory"], entry["file"])
            commands.setdefault(tuple(sources), {**entry, "file": file})
    return commands


def per_source(entries):
    """{source: its compile command}, each on its own even in a unity build."""
    commands = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        start = next(i for i, word in enumerate(words) if re.search(
            r"(^|/)(c\+\+|g\+\+|clang\+\+|cc|gcc|clang)[-\d.]*$", word))
        words = words[start:]
        for source in included_sources(entry):
            file = os.path.join(ROOT, source)
            commands.setdefault(source, {
                "directory": entry["directory"], "file": file,
                "arguments": [file if word == entry["file"] else word for word in words]})
    return commands


def sources_of(files, commands):
    """The sources to look at: those that changed, and for a header its own source or the first that includes it."""
    wanted = {f for f in files if f in commands}
    for header in (f for f in files if f.endswith(".h")):
        own = header[:-2] + ".cc"
        name = "/".join(header.split("/")[-2:])
        includes = re.compile(r'^#include ".*' + re.escape(name) + '"', re.MULTILINE)
        for source in [own] if own in commands else sorted(commands):
            with open(os.path.join(ROOT, source), encoding="utf-8", errors="replace") as text:
                if source == own or includes.search(text.read()):
                    wanted.add(source)
                    break
    return sorted(wanted)


def to_look_at(entries, folders, changed):
    """The compile commands of all sources in the folders, and of other sources that changed, each on its own."""
    together = as_compiled(entries, folders)
    covered = {source for sources in together for source in sources}
    alone = per_source(entries)
    return [*together.values(), *(alone[source] for source in sources_of(changed, alone) if source not in covered)]


def run_format(tool, files):
    done = subprocess.run([os.path.join(tool, "clang-format"), "--dry-run", "--Werror", *files], cwd=ROOT, check=False)
    if done.returncode != 0:
        print(f"to mend it: {tool}/clang-format -i FILE")
    return done.returncode == 0


def run_tidy(tool, build, commands, jobs):
    folder = os.path.join(build, "lint")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as out:
        json.dump(commands, out)

    def look(source):
        done = subprocess.run(
            [os.path.join(tool, "clang-tidy"), "-p", folder, "--quiet",
             "--config-file", os.path.join(ROOT, ".clang-tidy"), source],
            cwd=ROOT, capture_output=True, text=True, check=False)
        return source, done

    clean = True
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for source, done in pool.map(look, sorted(command["file"] for command in commands)):
            if done.returncode != 0:
                clean = False
                print(f"{os.path.relpath(source, ROOT)}:\n{done.stdout or done.stderr}", flush=True)
    return clean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--product", action="store_true", help="clang-tidy also on all of " + ", ".join(PRODUCT))
    scope.add_argument("--all", action="store_true", help="every file")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="a configured and built folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="clang-tidy processes at once")
    args = parser.parse_args()

    changed = changed_files()
    files = all_files() if args.all or args.product else changed
    if not files:
        print("lint: no C++ file has changed")
        return 0
    tool = subprocess.run([os.path.join(ROOT, "deploy/lint-tools.sh")], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
    begin = time.monotonic()
    clean = run_format(tool, files)
    with open(os.path.join(args.build, "compile_commands.json"), encoding="utf-8") as database:
        entries = json.load(database)
    folders = ("",) if args.all else PRODUCT if args.product else ()
    commands = to_look_at(entries, folders, changed)
    clean = run_tidy(tool, args.build, commands, args.jobs) and clean
    print(f"lint: {len(files)} files formatted, {len(commands)} looked through, "
          f"{'clean' if clean else 'NOT clean'}, {time.monotonic() - begin:.0f} s")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
