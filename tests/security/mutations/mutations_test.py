#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What counts as caught, that two runs keep out of each other's folder, and that nothing of a killed run stays."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import mutations  # noqa: E402

RUN = "[ RUN      ] "
OK = "[       OK ] "
FAILED = "[  FAILED  ] "
ABORTED = -6
HUNG = None


class JudgeTest(unittest.TestCase):
    def why_not(self, output, code):
        why = mutations.judge(output, code)
        self.assertIsInstance(why, str)
        return why

    def test_a_failed_test_is_red(self):
        self.assertIs(mutations.judge(f"{RUN}A.One\n{FAILED}A.One (3 ms)\n{RUN}A.Two\n{OK}A.Two (0 ms)\n", 1), True)
        self.assertIs(mutations.judge(f"{RUN}All/A.One/x\n{FAILED}All/A.One/x, where GetParam() = 3 (3 ms)\n", 1), True)

    def test_tests_that_pass_or_are_skipped_are_green(self):
        skipped = f"{RUN}A.One\n{OK}A.One (3 ms)\n{RUN}A.Two\n[  SKIPPED ] A.Two (0 ms)\n"
        self.assertIs(mutations.judge(skipped, 0), False)

    def test_a_program_that_dies_or_hangs_in_a_test_is_red(self):
        for code in (ABORTED, HUNG):
            self.assertIs(mutations.judge(f"{RUN}A.One\n{OK}A.One (3 ms)\n{RUN}A.Two\nnoise\n", code), True)

    def test_a_program_that_dies_or_hangs_elsewhere_shows_nothing(self):
        done = f"{RUN}A.One\n{OK}A.One (3 ms)\n"
        for output in ("", done, done + "[  PASSED  ] 1 test.\n"):
            self.assertEqual(self.why_not(output, ABORTED), "not in a test, it dies of signal 6")
            self.assertEqual(self.why_not(output, HUNG), "not in a test, it hangs")

    def test_a_program_that_fails_without_a_failed_test_shows_nothing(self):
        self.assertIn("ends with 127", self.why_not("", 127))
        self.assertIn("ends with 1,", self.why_not(f"{RUN}A.One\n{OK}A.One (3 ms)\n{FAILED}A: SetUpTestSuite\n", 1))
        self.assertIn("ends with 1,", self.why_not(f"{RUN}A.One\n", 1))

    def test_a_filter_that_matches_nothing_shows_nothing(self):
        self.assertEqual(self.why_not("[==========] Running 0 tests from 0 test suites.\n", 0), "no test has this name")


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.copy = pathlib.Path(folder.name) / "root", pathlib.Path(folder.name) / "copy"
        (self.root / "lua/parts").mkdir(parents=True)
        self.copy.mkdir()
        (self.root / "lua/parts/a.lua").write_text("sound", encoding="utf-8")
        (self.root / "CMakeLists.txt").write_text("project", encoding="utf-8")

    def second_run(self):
        code = f"import mutations, pathlib; mutations.lock(pathlib.Path({str(self.copy)!r}))"
        return subprocess.run([sys.executable, "-Bc", code], cwd=mutations.MUTATIONS, capture_output=True, text=True,
                              check=False)

    def test_a_second_run_in_a_folder_says_so_and_ends(self):
        held = mutations.lock(self.copy)
        second = self.second_run()
        self.assertEqual(second.returncode, 64)
        self.assertIn(f"another run is in {self.copy}", second.stderr)
        held.close()
        self.assertEqual(self.second_run().returncode, 0)

    def test_a_build_that_outlives_its_run_keeps_the_folder(self):
        held = mutations.lock(self.copy)
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as building:
            held.close()
            self.assertEqual(self.second_run().returncode, 64)
            building.communicate()
        self.assertEqual(self.second_run().returncode, 0)

    def test_a_row_that_a_killed_run_left_is_taken_out_as_a_change_of_now(self):
        mutations.copy(self.copy, self.root)
        there = self.copy / "lua/parts/a.lua"
        there.write_text("wrong", encoding="utf-8")
        os.utime(there, (1, 1))
        os.utime(self.root / "lua/parts/a.lua", (1, 1))
        mutations.copy(self.copy, self.root)
        self.assertEqual(there.read_text(encoding="utf-8"), "sound")
        self.assertGreater(there.stat().st_mtime, 1)

    def test_links_are_copied_as_what_they_lead_to(self):
        (self.root / "elsewhere.lua").write_text("elsewhere", encoding="utf-8")
        (self.root / "lua/link.lua").symlink_to("../elsewhere.lua")
        (self.copy / "lua").mkdir()
        (self.copy / "lua/link.lua").symlink_to("../elsewhere.lua")
        mutations.copy(self.copy, self.root)
        self.assertEqual((self.copy / "lua/link.lua").read_text(encoding="utf-8"), "elsewhere")
        self.assertFalse((self.copy / "elsewhere.lua").exists())

    def test_what_is_the_same_keeps_its_time_and_what_is_gone_goes(self):
        mutations.copy(self.copy, self.root)
        os.utime(self.copy / "CMakeLists.txt", (1, 1))
        (self.root / "lua/parts/a.lua").unlink()
        (self.root / "lua/b.lua").write_text("new", encoding="utf-8")
        mutations.copy(self.copy, self.root)
        self.assertEqual((self.copy / "CMakeLists.txt").stat().st_mtime, 1)
        self.assertEqual(mutations.sources(self.copy), {pathlib.Path("CMakeLists.txt"), pathlib.Path("lua/b.lua")})


if __name__ == "__main__":
    unittest.main()
