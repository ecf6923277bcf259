# SPDX-License-Identifier: Apache-2.0
"""The release list with fake stages: it is stopped and goes on, begins anew with other code, and loses nothing."""
import re
import signal
import subprocess
import types

import pytest

from conftest import HERE, eventually, is_running
from table import BALLOT, MODEL_CHECK, STAGES, SIMULATIONS

OK, FAILED, USAGE, MORE = 0, 1, 64, 75
EACH_ROW_IS_GOOD = "shift; for row; do echo $row: good; done"
# The first piece passes; the next one tells its process and goes on for ever.
RELEASE = HERE / "release.py"
SECOND_HANGS = "[ -e begun ] && { echo $$ >pid; exec sleep 1000; }; touch begun"


def hangs_at(place):
    eventually((place.folder / "pid").exists, "the second piece")
    return int(eventually(lambda: (place.folder / "pid").read_text(encoding="ascii").strip(), "its process"))


def test_all_that_is_wanted_is_run_once(place):
    assert "100 of 100 seeds" in place.run("--only", "simulations")
    seeds = place.seeds()
    assert len(seeds) == len(set(seeds)) == 100
    before = place.record.read_text(encoding="utf-8")
    place.run("--only", "simulations")
    assert place.record.read_text(encoding="utf-8") == before
    place.run("--only", "simulations", "--want", "simulations=105")
    assert len(set(place.seeds())) == 105


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_stopped_goes_on_from_there(place, number):
    place.does(SECOND_HANGS)
    run = place.start("--only", "simulations")
    pid = hangs_at(place)
    assert len(place.seeds()) == 10
    run.send_signal(number)
    assert run.wait(30) == (-9 if number == signal.SIGKILL else MORE)
    eventually(lambda: not is_running(pid), "the end of what it had started")
    assert len(place.seeds()) == 10
    place.does("exit 0")
    place.run("--only", "simulations")
    assert len(place.seeds()) == len(set(place.seeds())) == 100


def test_a_time_limit_ends_a_piece_and_the_next_run_goes_on(place):
    place.does(SECOND_HANGS)
    place.run("--only", "simulations", "--minutes", "0.05", code=MORE)
    [first] = place.seeds()  # as nothing is known of its pace yet
    place.does("exit 0")
    place.run("--only", "simulations")
    assert len(set(place.seeds())) == 100 and place.seeds()[0] == first


def test_other_code_begins_anew_and_pages_comments_and_the_record_do_not(place):
    place.run("--only", "simulations")
    [code] = {row["code"] for row in place.rows("simulations")}
    place.write("product/README.md", "Another page.\n")
    place.write("product/a.cc", "  // Another comment.\n\nint a;\n")
    place.commit("a page, a comment and the record")
    assert place.status("simulations")[0] == OK
    place.write("product/a.cc", "int b;\n")
    assert place.status("simulations")[0] == MORE
    place.run("--only", "simulations")
    other = {row["code"] for row in place.rows("simulations")} - {code}
    assert len(other) == 1 and len(place.rows("simulations", code=other.pop())) == 10
    # No commit has that tree.
    rows = place.rows("simulations")
    assert rows[-1]["commit"].endswith("+") and not rows[0]["commit"].endswith("+")
    assert len(set(place.seeds())) == 200, "other code has other seeds"
    place.git("checkout", "-q", "product/a.cc")
    assert place.status("simulations")[0] == OK
    place.write("product/new.cc", "int c;\n")
    assert place.status("simulations")[0] == MORE


def test_what_ran_while_the_code_changed_does_not_count(place):
    place.does("echo 'int c;' >product/a.cc")
    assert "the code has changed meanwhile" in place.run("--only", "simulations", code=FAILED)
    assert place.rows() == []


def test_a_failure_is_kept_with_its_seeds_and_bars_the_stage_until_the_code_changes(place):
    place.does("echo VIOLATION seed 17: two believed; exit 1")
    assert "two believed" in place.run("--only", "simulations", code=FAILED)
    [row] = place.rows("simulations")
    assert not row["passed"] and row["seeds"][1] == 10 and "VIOLATION seed 17" in row["said"]
    place.does("exit 0")
    place.run("--only", "simulations", code=FAILED)
    assert place.rows("simulations") == [row]
    state, text = place.status("simulations")
    assert state == FAILED and "two believed" in text and "0 of 100" in text
    assert "two believed" in (place.folder / "tests/track_record.md").read_text(encoding="utf-8")
    place.write("product/a.cc", "int mended;\n")
    place.run("--only", "simulations")
    assert place.status("simulations")[0] == OK


def test_what_may_be_run_again_is_not_barred_by_its_failure(place):
    place.does("exit 1")
    place.run("--only", "suite", code=FAILED)
    place.does("exit 0")
    place.run("--only", "suite")
    assert [row["passed"] for row in place.rows("suite")] == [False, True]


def test_what_proves_nothing_is_not_recorded(place):
    place.does("exit 2")
    place.run("--only", "simulations", code=FAILED)
    assert place.rows() == []


def test_simulations_that_did_not_run_do_not_count(place):
    for told in ("0", "9", "10 of 10"):
        place.does(f"told='{told}'")
        place.run("--only", "simulations", code=FAILED)
    assert place.rows() == []


def test_two_runs_side_by_side_lose_no_piece_and_share_the_work(place):
    place.does("sleep 0.1")
    runs = [place.start("--only", "simulations", "--want", "simulations=300") for _ in range(2)]
    codes = [run.wait(60) for run in runs]
    # The one that found nothing left to begin may have ended before the other's last piece.
    assert OK in codes and set(codes) <= {OK, MORE}
    assert len(place.seeds()) == len(set(place.seeds())) == 300
    assert len(place.rows("simulations")) == 30


def test_a_page_that_a_killed_run_has_left_half_written_is_no_change_of_the_code(place):
    writing = [call for call in RELEASE.read_text(encoding="utf-8").splitlines() if "new = self.track.with" in call]
    left = place.folder / "tests" / ("track_record" + writing[0].split('"')[1])
    left.write_text("| half", encoding="utf-8")
    place.does(EACH_ROW_IS_GOOD)
    place.run("--only", "table")
    assert not left.exists()


def test_what_a_run_has_claimed_is_not_run_by_another(place):
    place.does("echo $$ >pid; while [ ! -e go ]; do sleep 0.05; done")
    first = place.start("--only", "simulations", "--want", "simulations=10")
    hangs_at(place)
    place.run("--only", "simulations", "--want", "simulations=10", code=MORE)
    first.send_signal(signal.SIGKILL)
    first.wait()
    place.write("go", "")
    place.run("--only", "simulations", "--want", "simulations=10")
    assert len(place.seeds()) == 10


def test_rows_are_kept_as_they_come(place):
    place.does("shift; echo $1: good; echo $$ >pid; exec sleep 1000")
    run = place.start("--only", "table")
    hangs_at(place)
    eventually(lambda: place.rows("table"), "the first row")
    run.send_signal(signal.SIGKILL)
    run.wait()
    [first] = place.rows("table")
    place.does(EACH_ROW_IS_GOOD)
    place.run("--only", "table")
    ran = [name for row in place.rows("table") for name in row["rows"]]
    assert sorted(ran) == ["five", "four", "one", "three", "two"] and ran[0] == first["rows"][0]


def test_a_bad_row_fails_its_table_and_the_others_are_still_run(place):
    place.does("shift; for row; do [ $row = four ] && echo four: bad luck || echo $row: good; done; exit 1")
    place.run("--only", "table", code=FAILED)
    state, text = place.status("table")
    assert state == FAILED and "four: luck" in text and "4 of 5 rows" in text
    place.does(EACH_ROW_IS_GOOD)
    place.run("--only", "table", code=FAILED)
    assert len(place.rows("table")) == 5


def test_a_row_of_which_nothing_is_said_is_run_again_by_the_next_run(place):
    place.does("shift; for row; do [ $row = four ] || echo $row: good; done; exit 1")
    place.run("--only", "table", code=FAILED)
    assert len(place.rows("table")) == 4
    place.does(EACH_ROW_IS_GOOD)
    place.run("--only", "table")


def test_minutes_of_a_soak_that_was_stopped_count(place):
    place.does("trap 'echo 7 minutes of faults; exit 0' TERM; echo $$ >pid; while :; do sleep 0.05; done")
    run = place.start("--only", "soak")
    hangs_at(place)
    run.terminate()
    assert run.wait(30) == MORE
    [row] = place.rows("soak")
    assert row["amount"] == 7 and row["passed"] and row["seed"] > 0
    place.does("echo $2 minutes of faults")
    place.run("--only", "soak")
    assert [row["amount"] for row in place.rows("soak")] == [7, 20, 3]


def test_branches_merge_their_records_by_keeping_the_rows_of_both(place):
    place.run("--only", "simulations", "--want", "simulations=10")
    place.commit("the record")
    place.git("checkout", "-q", "-b", "other")
    place.run("--only", "simulations", "--want", "simulations=20")
    place.commit("more of it")
    place.git("checkout", "-q", "main")
    place.run("--only", "suite")
    place.commit("something else")
    place.git("merge", "-q", "other")
    assert len(set(place.seeds())) == 20 and len(place.rows("suite")) == 1
    place.run("--track")
    place.run("--check-track")
    place.write("tests/proof/record.jsonl", "<<<<<<< HEAD\n")
    assert "record.jsonl:1 is no row" in place.run("--status", code=FAILED)


def test_the_track_record_is_made_of_the_record_alone(place):
    place.run("--only", "simulations", "--only", "suite")
    track = place.folder / "tests/track_record.md"
    page = track.read_text(encoding="utf-8")
    assert "100 seeds" in page and "1 runs" in page
    place.run("--check-track")
    track.write_text(page.replace("100 seeds", "900 seeds"), encoding="utf-8")
    place.run("--check-track", code=FAILED)
    place.run("--track")
    assert track.read_text(encoding="utf-8") == page


def test_the_list_in_small_records_nothing(place):
    assert "table" in place.run("--quick", code=FAILED)
    place.run("--quick", "--only", "simulations")
    assert not place.record.exists()


@pytest.mark.parametrize("args,sentence", [
    (["--only", "nothing"], "there is no stage 'nothing'"),
    (["--want", "simulations=0"], "not 'simulations=0'"),
    (["--want", "nothing=3"], "not 'nothing=3'"),
    (["--minutes", "none"], "invalid float value: 'none'"),
    (["--old", "/no/such/program"], "there is no program /no/such/program"),
])
def test_what_makes_no_sense_is_refused(place, args, sentence):
    assert sentence in place.run(*args, code=USAGE)


@pytest.mark.parametrize("line,told", [
    ("caught  after 37     seeds  01-renewal-counted-from-its-answer  (I1: two)", ("01-renewal-counted-from-its-answer",
                                                                                   True, "caught after 37 seeds")),
    ("not caught in 20000     seeds  00-nothing-is-wrong", ("00-nothing-is-wrong", True, "not caught in 20000 seeds")),
    ("MISSED  in 20000 seeds     115-a-bug  (no simulation shows it)", ("115-a-bug", False, "MISSED in 20000 seeds")),
    ("CAUGHT after 3 seeds       00-nothing-is-wrong  (I1: two)", ("00-nothing-is-wrong", False,
                                                                   "CAUGHT after 3 seeds")),
    ("DOES NOT BUILD             115-a-bug  (see above)", None),
    ("caught 3 of 4, median 12 seeds, in 100 s", None),
])
def test_rows_of_the_mutations_are_read(line, told):
    mutations = next(stage for stage in STAGES if stage.name == "mutations")
    assert mutations.read(line) == told
    passed = [{"passed": True, "rows": ["1"], "said": f"caught after {needed} seeds"} for needed in (1, 1001, 1002)]
    assert mutations.faults(passed[:2]) == [] and "1001" in mutations.faults(passed)[0]


@pytest.mark.parametrize("name,line,told", [
    ("security-mutations", "ok    12-no-limit: acceptor_test Acceptor.Limits: red", ("12-no-limit", True, "red")),
    ("security-mutations", "WRONG 12-no-limit: acceptor_test Acceptor.Limits: green", ("12-no-limit", False, "green")),
    ("attacks", "priority/unix             hardened lost    0 p99      8 max      9 ms, +   20 MB (   1 kept): HOLDS   "
                "[connections=1]",
     ("priority/unix", True, "hardened lost 0 p99 8 max 9 ms, + 20 MB ( 1 kept): HOLDS")),
    ("attacks", "idle                      system   lost    3 p99      8 max      9 ms: NOT: 3 lost   [connections=1]",
     ("idle", False, "system lost 3 p99 8 max 9 ms: NOT: 3 lost")),
])
def test_rows_of_other_tables_are_read(name, line, told):
    stage = next(stage for stage in STAGES if stage.name == name)
    assert stage.read(line) == told


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_each_stage_names_rows_paths_and_programs_that_exist(stage):
    root = HERE.parents[1]
    for path in stage.code:
        assert (root / path).exists(), path
    for program in (word for command in (stage.quick, stage.prepare) for word in command if word.startswith("tests/")):
        assert (root / program).is_file(), program
    assert stage.wanted_now(types.SimpleNamespace(path=root)) > 0


@pytest.mark.parametrize("program,code", [("distlock_sim", SIMULATIONS), ("sim_quorum_test", BALLOT),
                                          ("sim_redis_model_check_test", MODEL_CHECK)])
def test_the_code_of_a_simulation_is_all_that_it_is_linked_from(program, code):
    root = HERE.parents[1]
    named = subprocess.run(["cmake", "--build", "--preset", "release", "--", "-t", "inputs", program], cwd=root,
                           check=False, capture_output=True, text=True)
    if named.returncode != 0:
        pytest.skip("no release build here")
    linked = re.findall(r"^(\S+?)/CMakeFiles/\S+\.o$", named.stdout, re.MULTILINE)
    assert len(linked) > 5 and not [folder for folder in linked if not f"{folder}/".startswith(
        tuple(f"{path}/" for path in code))]
