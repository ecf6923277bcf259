#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mutate.py finds, what it refuses, and that its messages say where to look."""
import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import mutate  # noqa: E402

CORE = """\
namespace core {
// The ttl counts from before the command was sent.
void Broker::OnRenewed(Lease& lease) {
  lease.deadline = std::max(lease.deadline,  // never earlier
                            op.sent + lease.ttl);
  Tell("http://no // comment", 1'000'000, 'x');
  Arm(lease);
}
void Broker::Other() { Arm(lease); }
}  // namespace core
"""
LUA = """\
-- Who holds it?
local holder = redis.call('GET', KEYS[1]) -- may be false
if holder == '--' then return 1 end
"""


class MutateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "tree")
        self.mutations = os.path.join(folder.name, "mutations")
        os.makedirs(self.mutations)
        self.write("server/core/a/broker.cc", CORE)
        self.write("server/core/README.md", "Arm(lease); Arm(nothing);\n")
        self.write("lua/get.lua", LUA)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as f:
            return f.read()

    def mutations_of(self, *rows):
        with open(os.path.join(self.mutations, "mutations.txt"), "w", encoding="utf-8") as f:
            f.write("# a comment\n\n" + "\n\n".join(rows) + "\n")
        return mutate.Mutations(self.mutations)

    def row(self, body, name="01-wrong"):
        return f"== {name}\nWhat is wrong.\nBit: somebody.\nCaught by: I1\n\n{body}"

    def apply(self, body):
        return self.mutations_of(self.row(body)).apply("01-wrong", self.root)

    def why_not(self, body):
        return self.mutations_of(self.row(body)).why_not("01-wrong", mutate.Tree(self.root))

    def test_worlds_are_those_that_the_row_names(self):
        body = "in server/core\n- Arm(lease);\n"
        named = self.row("Simulations: --topology sentinel\n\n" + body, "02-named")
        mutations = self.mutations_of(self.row(body), named)
        self.assertEqual(mutations.simulations("01-wrong"), "")
        self.assertEqual(mutations.simulations("02-named"), "--topology sentinel")

    def test_a_seed_is_kept_in_its_row_and_replaces_the_one_before(self):
        body = "in server/core\n- Arm(lease);\n"
        mutations = self.mutations_of(self.row(body), self.row(body, "02-other"))
        self.assertEqual(mutations.seed("01-wrong"), "")
        for seed in (41, 42):
            mutations.keep_seed("01-wrong", seed)
            mutations = mutate.Mutations(self.mutations)
            self.assertEqual((mutations.seed("01-wrong"), mutations.seed("02-other")), (str(seed), ""))
        self.assertEqual(mutations.bugs["01-wrong"].text[-2:], ["Caught by: I1", "Seed: 42"])
        self.assertEqual(mutations.bugs["01-wrong"].replacements[0].old, "Arm(lease);\n")

    def test_a_commit_picks_what_it_touches_first_and_only_known_seeds(self):
        def known(name, room):
            return self.row(f"Seed: 7\n\nin {room}\n- a\n", name)
        core = [known(f"{n}-core", "server/core") for n in range(10, 15)]
        lua = known("20-lua", "lua"), known("21-lua", "lua")
        mutations = self.mutations_of(self.row("in server/core\n- a"), *core, *lua)
        for commit in "abcdefgh":
            two = mutations.pick(commit, ["lua/get.lua", "server/corex/a.cc"], 2)
            self.assertEqual(two, ["20-lua", "21-lua"])
            three = mutations.pick(commit, ["lua/get.lua"], 3)
            self.assertEqual((three, len(three)), (mutations.pick(commit, ["lua/get.lua"], 3), 3))
        self.assertGreater(len({mutations.pick(commit, [], 1)[0] for commit in "abcdefgh"}), 1)
        self.assertEqual(len(mutations.pick("a", [], 99)), 7)

    def test_finds_its_text_in_any_file_of_the_room(self):
        changed = self.apply("in server\n- op.sent + lease.ttl\n+ now_ + lease.ttl")
        self.assertEqual(changed, ["server/core/a/broker.cc"])
        self.assertEqual(self.read("server/core/a/broker.cc"), CORE.replace("op.sent +", "now_ +"))

    def test_whitespace_and_comments_do_not_count(self):
        self.apply("in server/core\n- lease.deadline=std :: max( lease.deadline,\n- op.sent /* so */ + lease.ttl);\n"
                   "+ lease.deadline = now_;")
        self.assertIn("{\n  lease.deadline = now_;\n  Tell(", self.read("server/core/a/broker.cc"))

    def test_words_are_compared_whole(self):
        self.assertIn("missing", self.why_not("in server/core\n- ent + lease.ttl\n+ 0"))
        self.assertIn("missing", self.why_not("in server/core\n- Rm(lease); }\n+ 0"))

    def test_text_in_quotes_is_no_comment(self):
        self.apply("in server/core\n- Tell(\"http://no // comment\", 1'000'000, 'x');\n+ Tell();")
        self.assertIn("  Tell();\n  Arm(lease);", self.read("server/core/a/broker.cc"))
        self.apply("in lua\n- if holder == '--' then return 1 end\n+ return 2")
        self.assertEqual(self.read("lua/get.lua"), "\n".join(LUA.split("\n")[:2]) + "\nreturn 2\n")

    def test_missing_text_is_told_with_the_place_that_begins_like_it(self):
        why = self.why_not("in server/core\n- lease.deadline = std::max(lease.deadline, op.begun + lease.ttl);\n+ 0")
        self.assertIn("missing in server/core: 'lease.deadline = std::max(", why)
        self.assertIn("server/core/a/broker.cc:5 begins like it, but goes on with 'sent + lease.ttl);", why)
        self.assertIn("not with 'begun + lease.ttl);'", why)

    def test_text_without_a_trace_is_told_so(self):
        why = self.why_not("in server/core\n- Nowhere(at, all);\n+ 0")
        self.assertIn("not even its beginning is there", why)

    def test_ambiguous_text_is_told_with_its_places(self):
        why = self.why_not("in server/core\n- Arm(lease);\n+ Disarm(lease);")
        self.assertEqual(why, "ambiguous in server/core: 'Arm(lease);' is in 2 places: "
                              "server/core/a/broker.cc:7, server/core/a/broker.cc:9")

    def test_a_room_without_sources_is_told(self):
        self.assertEqual(self.why_not("in server/gone\n- a\n+ b"), "no sources in server/gone")

    def test_several_replacements_and_rooms(self):
        changed = self.apply("in server/core\n- op.sent + lease.ttl\n+ now_ + lease.ttl\n- Other() { Arm(lease); }\n"
                             "+ Other() {}\nin lua\n- redis.call('GET', KEYS[1])\n+ nil")
        self.assertEqual(changed, ["server/core/a/broker.cc", "lua/get.lua"])
        self.assertEqual(self.read("server/core/a/broker.cc"),
                         CORE.replace("op.sent +", "now_ +").replace("Other() { Arm(lease); }", "Other() {}"))
        self.assertEqual(self.read("lua/get.lua"), LUA.replace("redis.call('GET', KEYS[1])", "nil"))

    def test_nothing_is_written_when_one_of_several_is_missing(self):
        mutations = self.mutations_of(self.row("in lua\n- KEYS[1]\n+ KEYS[2]\nin server/core\n- gone(a, b)\n+ 0"))
        with self.assertRaises(mutate.MutationError):
            mutations.apply("01-wrong", self.root)
        self.assertEqual(self.read("lua/get.lua"), LUA)

    def test_replacements_that_overlap_are_refused(self):
        self.assertIn("overlap", self.why_not("in lua\n- redis.call('GET', KEYS[1])\n+ a\n- KEYS[1]\n+ b"))

    def test_text_without_a_replacement_is_removed(self):
        self.apply("in lua\n- if holder == '--' then return 1 end\nin lua\n- local holder =\n+ local held =")
        self.assertEqual(self.read("lua/get.lua"), LUA.replace("if holder == '--' then return 1 end", "")
                         .replace("local holder", "local held"))

    def test_a_table_that_cannot_be_read_names_its_line(self):
        for rows, why in (("== Bad name\nin lua\n- a\n+ b", "3: 'Bad name' is no name"),
                          ("stray", "3: text before"),
                          ("== 01-a\n- a", "4: '-' or '+' before"),
                          ("== 01-a\nin lua\n- a\n+ b\nstray", "7: neither"),
                          ("== 01-a\nWrong.", "3: 01-a: replaces nothing"),
                          ("== 01-a\nSeed: x\n\nin lua\n- a", "4: 'Seed: ' needs a number"),
                          ("== 01-a\nin lua\n+ a", "3: 01-a: nothing to replace"),
                          ("== 01-a\nin lua\n- a\n\n== 01-b\nin lua\n- b", "01-b and 01-a have the same number")):
            with self.assertRaisesRegex(mutate.MutationError, re.escape(why)):
                self.mutations_of(rows)

    def test_a_patch_is_a_bug_too(self):
        with open(os.path.join(self.mutations, "02-patch.patch"), "w", encoding="utf-8") as f:
            f.write("Wrong.\n\n--- a/lua/get.lua\n+++ b/lua/get.lua\n@@ -2,2 +2,2 @@\n"
                    " local holder = redis.call('GET', KEYS[1]) -- may be false\n"
                    "-if holder == '--' then return 1 end\n+if holder then return 1 end\n")
        mutations = self.mutations_of(self.row("in lua\n- KEYS[1]\n+ KEYS[2]"))
        self.assertEqual(mutations.select([]), ["01-wrong", "02-patch"])
        self.assertIsNone(mutations.why_not("02-patch", mutate.Tree(self.root)))
        self.assertEqual(self.read("lua/get.lua"), LUA)
        self.assertEqual(mutations.apply("02-patch", self.root), ["lua/get.lua"])
        self.assertIn("if holder then", self.read("lua/get.lua"))
        self.assertIn("does not apply", mutations.why_not("02-patch", mutate.Tree(self.root)))

    def test_bugs_are_selected_by_number_and_name(self):
        body = "in lua\n- KEYS[1]\n+ KEYS[2]"
        mutations = self.mutations_of(*(self.row(body, name) for name in ("10-ten", "09-nine", "100-hundred")))
        self.assertEqual(mutations.select([]), ["09-nine", "10-ten", "100-hundred"])
        self.assertEqual(mutations.select(["9", "10-"]), ["09-nine", "10-ten"])
        with self.assertRaisesRegex(mutate.MutationError, "no bug '11'"):
            mutations.select(["11"])

    def test_a_patch_of_any_folder_can_be_put_in(self):
        path = os.path.join(self.root, "mine.patch")
        with open(path, "w", encoding="utf-8") as f:
            f.write("--- a/lua/get.lua\n+++ b/lua/get.lua\n@@ -1 +1 @@\n--- Who holds it?\n+-- Who?\n")
        mutations = self.mutations_of(self.row("in lua\n- KEYS[1]\n+ KEYS[2]"))
        self.assertEqual(mutations.select([path]), [path])
        self.assertEqual(mutations.apply(path, self.root), ["lua/get.lua"])


if __name__ == "__main__":
    unittest.main()
