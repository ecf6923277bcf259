# SPDX-License-Identifier: Apache-2.0
"""Goes through the list of what must hold before a release, piece by piece, and keeps what has run.

Every piece that has passed (a range of seeds, a row of a table, minutes of soak, rounds) is a row of
tests/proof/record.jsonl at once, with a hash of the code that it is about. A run may be stopped at any time (Ctrl-C,
SIGTERM, kill -9, --minutes): the next one goes on from there, and loses one piece at most; several may run side by
side. With another code a stage begins anew, but pages and the record itself are no code. A piece that fails is kept
with its seeds, and its stage has failed until the code is another one; but the stages suite and bench may be run again,
and one run that passes is enough. Commit the record: it is merged line by line, and tests/track_record.md is made of
it.

Exit: 0 all stages have what they want, 1 one failed, 64 wrong usage, 75 there is more to run.
"""
import argparse
import importlib.util
import os
import pathlib
import signal
import sys
import time

import running
import track
from code_hash import Code
from record import BrokenRecord, Record, utc_now

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OK, FAILED, USAGE, MORE = 0, 1, 64, 75


class Tree:
    """path, and the code that a stage is about."""

    def __init__(self, path, stage):
        self.path, self.code = path, Code(path, stage.code)


class List:
    """The stages, what is recorded of them, and where their output goes."""

    def __init__(self, options, stages):
        self.root, self.stages, self.logs = options.root, stages, options.logs
        self.record = Record(options.record, options.root / "build/proof")
        self.track = track_of(options.record)

    def rows(self, stage, code):
        return [row for row in self.record.rows() if (row["stage"], row["code"]) == (stage.name, code.name)]

    def page(self):
        return track.page(self.record.rows(), {stage.name: stage for stage in self.stages})

    def write_page(self):
        new = self.track.with_suffix(".new.md")  # one that a killed run has left is a page, too, and no code
        new.write_text(self.page(), encoding="utf-8")
        os.replace(new, self.track)

    def keep(self, stage, code, since, passed, piece, said=""):
        """Adds a row to the record. False: the code is another one by now, so it says nothing."""
        if Code(self.root, stage.code).name != code.name:
            print("   the code has changed meanwhile: this does not count", flush=True)
            return False
        row = {"stage": stage.name, "code": code.name, "commit": code.commit, "at": utc_now(),
               "took": round(time.monotonic() - since), "passed": passed, **piece}
        with self.record.locked():
            self.record.append(**row, **({"said": said} if said else {}))
            self.write_page()
        return True

    def state(self, stage, tree):
        """(state, what is done of what is wanted, what is wrong)."""
        rows = self.rows(stage, tree.code)
        done, wanted = stage.done(rows), stage.wanted_now(tree)
        wrong = [f"{track.what(row)}: {row['said']}" for row in stage.failed(rows)]
        is_done = done >= wanted
        if is_done:
            wrong += stage.faults(rows)
        is_failed = bool(wrong) and not (stage.may_repeat and is_done)
        return (FAILED if is_failed else OK if is_done else MORE,
                f"{track.number(done)} of {track.number(wanted)} {stage.unit}", wrong)

    def status(self, chosen):
        worst = OK
        for stage in chosen:
            tree = Tree(self.root, stage)
            state, done, wrong = self.state(stage, tree)
            word = {OK: "done", MORE: "more to run", FAILED: "FAILED"}[state]
            print(f"{stage.name:16} {word:12} {done:36} code {tree.code.name} at {tree.code.commit}")
            for one in wrong:
                print(f"{'':16} {one}")
            worst = max(worst, state, key=(OK, MORE, FAILED).index)
        return worst


class Run:
    """One run through some stages."""

    def __init__(self, listed, stop):
        self.listed, self.stop = listed, stop

    def stage(self, stage):
        """OK, FAILED or MORE."""
        tree = Tree(self.listed.root, stage)
        state, done, _ = self.listed.state(stage, tree)
        print(f"== {stage.name}: {done}, code {tree.code.name} at {tree.code.commit}", flush=True)
        hows, tried = ["passed"], []
        if state == MORE and stage.prepare and not self.stop.is_due():
            hows = [self.prepare(stage)]
        while (hows[-1] == "passed" or tried and stage.goes_on) and not self.stop.is_due():
            piece, claim = self._claim(stage, tree, tried)
            if not piece:
                break
            with claim:
                hows.append(self._piece(stage, tree, piece))
            if stage.goes_on:
                tried.append(piece)
        state, done, wrong = self.listed.state(stage, tree)
        print(f"   {done}" + "".join(f"\n   FAILED: {one}" for one in wrong), flush=True)
        return state if set(hows) <= {"passed", "stopped"} else FAILED

    def prepare(self, stage):
        """How that ended."""
        log = self.listed.logs / f"{stage.name}.build.log"
        ended = self._command(stage, stage.prepare, log)
        if ended.how != "passed":
            print(f"   building it: {ended.how}: {ended.said} ({log})", flush=True)
        return ended.how

    def _command(self, stage, command, log, env=(), on_line=lambda line: None):
        return running.run(command, folder=self.listed.root, log=log, grace=stage.grace, stop=self.stop, env=env,
                           on_line=on_line)

    def _claim(self, stage, tree, tried):
        """tried: pieces that this run does not take again."""
        record = self.listed.record
        with record.locked():
            rows = self.listed.rows(stage, tree.code)
            if stage.failed(rows) and not stage.may_repeat and not stage.goes_on:
                return None, None
            busy = record.claimed(stage.name, tree.code.name) + tried
            piece = stage.next(tree, rows, busy, self.stop.left())
            return piece, piece and record.claim(stage.name, tree.code.name, piece)

    def _piece(self, stage, tree, piece):
        """passed, failed, stopped or void."""
        began, rows = time.monotonic(), RowsOf(self, stage, tree, piece)
        # Another run may write beside this one, and what has run is read from the file.
        own = self.listed.logs / f"{stage.name}.{os.getpid()}.log"
        ended = self._command(stage, stage.command(piece), own, stage.environment(piece), rows.on_line)
        log = own.replace(self.listed.logs / f"{stage.name}.log")
        how, said = ended.how, ended.said
        if "rows" in piece:
            how = rows.how(ended)
        elif how == "passed":
            ran = stage.ran(piece, ended.lines)
            kept = ran and self.listed.keep(stage, tree.code, began, True, ran)
            how = "passed" if kept else "void"
        elif how == "failed":
            log.replace(log.with_name(f"{stage.name}.failed.log"))
            self.listed.keep(stage, tree.code, began, False, piece, said)
        print(f"   {track.what(piece)}: {how} after {time.monotonic() - began:.0f} s: {said} ({log})", flush=True)
        return how


class RowsOf:
    """The rows of a piece, each of which is kept when its line comes."""

    def __init__(self, run, stage, tree, piece):
        self.listed, self.stage, self.tree = run.listed, stage, tree
        self.left, self.since = list(piece.get("rows", ())), time.monotonic()
        self.bad = False

    def on_line(self, line):
        name, passed, said = (self.stage.read(line) if self.left else None) or (None, None, None)
        if name not in self.left:
            return
        if self.listed.keep(self.stage, self.tree.code, self.since, passed, {"rows": [name]}, said):
            self.left.remove(name)
            self.bad |= not passed
        self.since = time.monotonic()

    def how(self, ended):
        if self.bad:
            return "failed"
        return "passed" if not self.left else "stopped" if ended.how == "stopped" else "void"


def quick(listed, chosen, stop):
    """Runs each in small. Nothing of that is recorded."""
    worst, run = OK, Run(listed, stop)
    for stage in chosen:
        print(f"== {stage.name}: {' '.join(stage.quick)}", flush=True)
        began, log = time.monotonic(), listed.logs / f"{stage.name}.log"
        ended = running.run(stage.quick, folder=listed.root, log=log, grace=stage.grace, stop=stop) \
            if not stage.prepare or run.prepare(stage) == "passed" else running.Ending("void", "not built", [])
        print(f"   {ended.how} after {time.monotonic() - began:.0f} s: {ended.said} ({log})", flush=True)
        if ended.how != "passed":
            worst = FAILED
    return worst


def default_record(root):
    return root / "tests/proof/record.jsonl"


def track_of(record):
    """Its page: of a tree's own record, also of another tree than this, that tree's track record; else beside it."""
    root = record.absolute().parents[2] if len(record.absolute().parts) > 3 else record.parent
    return root / "tests/track_record.md" if record.absolute() == default_record(root) else record.with_suffix(".md")


def stages_of(path):
    spec = importlib.util.spec_from_file_location("table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.STAGES


def usage(why):
    print(f"tests/release.sh: {why}; see --help", file=sys.stderr)
    sys.exit(USAGE)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        usage(message)


def parse(argv):
    parser = Parser(prog="tests/release.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--status", action="store_true", help="only show what has run, of what is wanted")
    does.add_argument("--quick", action="store_true",
                      help="run each stage in small: shows that it runs, proves nothing, and is not recorded")
    does.add_argument("--track", action="store_true", help="only make tests/track_record.md of the record")
    does.add_argument("--check-track", action="store_true", help="only say whether the two agree")
    parser.add_argument("--only", action="append", metavar="STAGE", default=[], help="only this one (may be repeated)")
    parser.add_argument("--minutes", type=float, default=0, metavar="M",
                        help="end within so many minutes; pieces are cut to fit")
    parser.add_argument("--want", action="append", metavar="STAGE=N", default=[],
                        help="of this stage so many seeds, rows, minutes, rounds or runs (may be repeated)")
    parser.add_argument("--seed", type=int, metavar="S",
                        help="where seeds of simulations begin; else each code has its own. For a second machine")
    parser.add_argument("--old", metavar="PROGRAM",
                        help="distlockd of the release before, for the stage mixed; else the present build plays it")
    parser.add_argument("--logs", type=pathlib.Path, metavar="FOLDER",
                        help="where the output of each stage goes (build/release-list)")
    parser.add_argument("--record", type=pathlib.Path, metavar="FILE",
                        help="another record; its track record is beside it (.md)")
    # For tests of this program.
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "table.py", help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args([arg for arg in argv if arg not in ("-h", "--help")])
    stages = stages_of(options.table)
    parser.epilog = "stages: " + " ".join(stage.name for stage in stages)
    return parser.parse_args(argv), stages


def apply_wishes(options, stages):
    """The stages that are chosen, with what is wanted of each."""
    names = {stage.name: stage for stage in stages}
    for name in options.only:
        if name not in names:
            usage(f"there is no stage '{name}'; the stages are {' '.join(names)}")
    for wish in options.want:
        name, _, text = wish.partition("=")
        if name not in names or not text.isdecimal() or int(text) < 1:
            usage(f"--want needs STAGE=N with N of at least 1, not '{wish}'; the stages are {' '.join(names)}")
        names[name].wanted = int(text)
    if options.minutes < 0:
        usage(f"--minutes needs a number above 0, not {options.minutes}")
    if options.old:
        if not os.access(options.old, os.X_OK):
            usage(f"there is no program {options.old}")
        os.environ["DISTLOCKD_OLD"] = os.path.realpath(options.old)
    for stage in stages:
        stage.seeds_from = options.seed
    return [stage for stage in stages if not options.only or stage.name in options.only]


def main(argv):
    options, stages = parse(argv)
    options.logs = options.logs or options.root / "build/release-list"
    options.record = options.record or default_record(options.root)
    chosen = apply_wishes(options, stages)
    listed = List(options, stages)
    if options.track:
        listed.write_page()
        return OK
    if options.check_track:
        same = listed.track.exists() and listed.track.read_text(encoding="utf-8") == listed.page()
        print("" if same else f"{listed.track} is not what the record makes: tests/release.sh --track", end="")
        return OK if same else FAILED
    if options.status:
        return listed.status(chosen)
    options.logs.mkdir(parents=True, exist_ok=True)
    stop = running.Stop(options.minutes)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop.ask)
    if options.quick:
        return quick(listed, chosen, stop)
    run = Run(listed, stop)
    states = [run.stage(stage) for stage in chosen]
    return max(states, key=(OK, MORE, FAILED).index, default=OK)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenRecord as broken:
        sys.exit(f"tests/release.sh: {broken}")
