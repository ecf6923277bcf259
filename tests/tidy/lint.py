# SPDX-License-Identifier: Apache-2.0
"""Runs clang-format and clang-tidy, by the settings in .clang-format and .clang-tidy.

usage: lint.py [--all] [--build FOLDER] [--jobs N]

Without --all: on the C++ files that differ from origin/main (or main), committed or not. Nothing differs: nothing to
do. clang-tidy takes its flags from FOLDER/compile_commands.json (default build/release): configure and build first.
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
    """The sources that one compile command covers: several, when it is that of a unity build."""
    path = os.path.join(entry["directory"], entry["file"])
    if "/Unity/" not in path:
        return [path]
    with open(path, encoding="utf-8") as unity:
        return re.findall(r'^#include "(.+)"$', unity.read(), re.MULTILINE)


def per_source(entries):
    """{source: its compile command}, each on its own even in a unity build."""
    commands = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        start = next(i for i, word in enumerate(words) if re.search(
            r"(^|/)(c\+\+|g\+\+|clang\+\+|cc|gcc|clang)[-\d.]*$", word))
        words = words[start:]
        for source in included_sources(entry):
            command = [source if word == entry["file"] else word for word in words]
            commands.setdefault(os.path.relpath(source, ROOT), {
                "directory": entry["directory"], "file": source, "arguments": command})
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


def run_format(tool, files):
    done = subprocess.run([os.path.join(tool, "clang-format"), "--dry-run", "--Werror", *files], cwd=ROOT, check=False)
    if done.returncode != 0:
        print(f"to mend it: {tool}/clang-format -i FILE")
    return done.returncode == 0


def run_tidy(tool, build, sources, commands, jobs):
    folder = os.path.join(build, "lint")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as out:
        json.dump(list(commands.values()), out)

    def look(source):
        done = subprocess.run(
            [os.path.join(tool, "clang-tidy"), "-p", folder, "--quiet",
                          "--extra-arg=-Wno-unknown-warning-option", source],
            cwd=ROOT, capture_output=True, text=True, check=False)
        return source, done

    clean = True
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for source, done in pool.map(look, sources):
            if done.returncode != 0:
                clean = False
                print(f"{source}:\n{done.stdout}{'' if done.stdout else done.stderr}", flush=True)
    return clean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every file")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="a configured and built folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="clang-tidy processes at once")
    args = parser.parse_args()

    files = all_files() if args.all else changed_files()
    if not files:
        print("lint: no C++ file has changed")
        return 0
    tool = subprocess.run([os.path.join(ROOT, "deploy/lint-tools.sh")], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
    begin = time.monotonic()
    clean = run_format(tool, files)
    with open(os.path.join(args.build, "compile_commands.json"), encoding="utf-8") as database:
        entries = [e for e in json.load(database) if "/generated/" not in e["file"]]
    commands = per_source(entries)
    sources = sources_of(files, commands)
    if args.all:
        # As they are compiled: what a unity build compiles together is parsed once.
        commands = {e["file"]: {**e, "file": os.path.join(e["directory"], e["file"])} for e in entries}
        sources = sorted(c["file"] for c in commands.values())
    clean = run_tidy(tool, args.build, sources, commands, args.jobs) and clean
    print(f"lint: {len(files)} files formatted, {len(sources)} looked through, "
          f"{'clean' if clean else 'NOT clean'}, {time.monotonic() - begin:.0f} s")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
