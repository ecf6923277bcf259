# SPDX-License-Identifier: Apache-2.0
"""Each house rule sees the fault it is there for, and keeps quiet about a clean tree."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import rules  # noqa: E402

SPDX = "SPDX-License-Identifier: Apache-2.0\n"
HEADER = f"// {SPDX}//\n// A lock. Shard thread only.\n#pragma once\n"
README = ("# x\n`--listen` and `--redis URL`.\n"
          "<!-- metrics -->\n| `distlock_grants_total` | counter | grants |\n<!-- /metrics -->\n"
          "See `lua/single/take.lua`.\n")
CLEAN = {
    "server/ops/README.md": README,
    "lua/README.md": "x\n", "lua/single/take.lua": f"-- {SPDX}-- KEYS h ARGV owner\n",
    "server/README.md": "| room | is | must never include |\n| `main` | the daemon | hiredis |\n| `peer` | who |\n",
    "server/core/README.md": "x\n", "server/core/lock.h": HEADER + '#include <vector>\n#include "absl/types/span.h"\n',
    "server/main/metrics.cc": f'// {SPDX}auto a = "distlock_grants_total";\n',
}


class RulesTest(unittest.TestCase):
    def faults(self, extra=(), rule=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **dict(extra)}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text)
            tree = rules.Tree(root)
            return [fault for r in ([rule] if rule else rules.RULES) for fault in r(tree)]

    def assert_one(self, rule, path, text):
        faults = self.faults({path: text}, rule)
        self.assertEqual(len(faults), 1, faults)

    def test_clean_tree_has_no_faults(self):
        self.assertEqual(self.faults(), [])

    def test_files_of_others_stay_as_they_are(self):
        bad = "syntax = 'proto3'; // " + "x" * 120
        extra = {"proto/README.md": "x\n", "proto/third_party/google/status.proto": bad}
        self.assertEqual(self.faults(extra), [])
        self.assertEqual(len(self.faults({"proto/README.md": "x\n", "proto/ours/status.proto": bad})), 2)

    def test_each_rule_sees_its_fault(self):
        for rule, path, text in [
                (rules.top_level, "scripts/x.sh", f"# {SPDX}"),
                (rules.top_level, ".ci/extra", "x"),
                (rules.file_size, "server/core/big.cc", f"// {SPDX}" + "int x;\n" * 400),
                (rules.line_length, "server/core/lock.cc", f"// {SPDX}// {'x' * 118}\n"),
                (rules.line_length, "deploy/README.md", f"| {'x' * 120} |\n{'x' * 121}\n```\n{'x' * 121}\n```\n"),
                (rules.names, "server/core/string_utils.cc", f"// {SPDX}"),
                (rules.names, "server/core/lock.cc", f"// {SPDX}class LockManager {{}};\n"),
                (rules.spdx, "deploy/x.sh", "#!/bin/sh\n"),
                (rules.headers, "server/core/lock.h", HEADER.replace("#pragma once", "")),
                (rules.headers, "server/core/lock.h", f"// {SPDX}#pragma once\n#include <vector>\n"),
                (rules.scripts, "lua/single/take.lua", f"-- {SPDX}return 1\n"),
                (rules.leftovers, "server/core/lock.cc", "// TO" + "DO later\n"),
                (rules.leftovers, "deploy/README.md", "see /ho" + "me/me/x\n"),
                (rules.room_readmes, "server/store/store.cc", ""),
                (rules.room_readmes, "server/peer/peer.cc", ""),
                (rules.room_readmes, "server/README.md", "Of `main` nothing is told.\n"),
                (rules.named_paths, "deploy/README.md", "run `deploy/gone.sh`\n"),
                (rules.named_paths, "deploy/README.md", "see `tests/{tidy,core}`\n"),
                (rules.metric_table, rules.MANUAL, README.replace("grants_total", "grant_total")),
        ]:
            with self.subTest(rule=rule.__name__, path=path):
                if rule is rules.named_paths:
                    self.assertGreaterEqual(len(self.faults({path: text, "tests/core/x": ""}, rule)), 1)
                elif rule is rules.metric_table:
                    self.assertEqual(len(self.faults({path: text}, rule)), 2)
                else:
                    self.assert_one(rule, path, text)

    def test_a_comment_begins_with_the_thing_that_it_is_about(self):
        for path, text in [
                ("server/core/a.cc", "// Who holds it.\n"), ("server/core/a.h", "int a;\n  // Nobody:\n  // it.\n"),
                ("server/core/a.cc", "// The lock.\nint a;\n// Of the lock.\n"),
                ("server/core/a.cc", "//\n// Whoever\n"),
                ("proto/a.proto", "// Those who wait.\n"), ("lua/a.lua", f"-- {SPDX}-- What it is.\n"),
                ("tests/a.py", f"#!/usr/bin/python3\n# {SPDX}#\n# Of a test.\n"), ("deploy/a.sh", "  # Who runs it\n"),
                ("server/core/CMakeLists.txt", "# What is linked.\n"), ("client/go/a.go", "\t// Who waits.\n"),
                ("client/node/a.ts", "/** Of a lock. */\n"), ("client/node/a.mts", "/**\n * What it is.\n */\n"),
                ("client/java/A.java", "  /** Who waits. */\n"), ("client/rust/a.rs", "/// Nobody has it.\n"),
                ("tests/a.py", "# ---- Who waits ----\n")]:
            with self.subTest(path=path, text=text):
                self.assert_one(rules.comment_starts, path, text)
        for path, text in [
                ("server/core/a.cc", "// The lock\n// Of somebody.\nint a;  // Who has it.\n// Offices, Whose\n"),
                ("server/core/a.cc", "*What = Of;\n#define What\n--Who;\n"),
                ("tests/a.py", 'a = """\nWhat it is\n"""\n'),
                ("client/go/a.pb.go", "// What it is.\n"), ("proto/third_party/a.proto", "// What it is.\n")]:
            with self.subTest(path=path, text=text):
                self.assertEqual(self.faults({path: text}, rules.comment_starts), [])

    def test_a_function_is_short(self):
        for head in ("void F(int a) {\n", "std::function<void(int)> A::F(\n    int a) const {\n", "TEST(A, B) {\n",
                     "A::A(int a)\n    : a_(a) {\n", 'extern "C" int F(int a) {\n',
                     "int A::operator()(int a) const\n  requires(kA)\n{\n"):
            for indent in ("", "  "):
                lines = head.count("\n") + 1
                text = head + "  if (a) {\n" + "    ++a;\n" * (68 - lines) + "  }\n}\n"
                text = "".join(indent + line + "\n" for line in text.splitlines())
                text = f"// {SPDX}namespace a {{\nclass A {{\n{text}}};\n}}  // namespace a\n"
                with self.subTest(head=head, indent=indent):
                    self.assertEqual(self.faults({"server/core/a.cc": text}, rules.function_size), [])
                    self.assert_one(rules.function_size, "server/core/a.cc", text.replace("++a;\n", "++a;\n\n", 1))
        members = "A::A(int a)\n    : a_(a),\n" + "      b_(a),\n" * 67
        self.assertEqual(self.faults({"server/core/a.cc": members + "      c_(a) {}\n"}, rules.function_size), [])
        self.assert_one(rules.function_size, "server/core/a.cc", members + "      b_(a),\n      c_(a) {}\n")
        table = "const int kTable[] = {\n" + "    1,\n" * 80 + "};\n"
        raw = 'const char* kText = R"(\nvoid F() {\n' + "  ++a;\n" * 80 + '}\n)";\n'
        self.assertEqual(self.faults({"server/core/a.cc": table + raw}, rules.function_size), [])

    def test_a_table_of_faults_may_be_long(self):
        path = "tests/sim/simulation/faults.cc"
        table = "const std::vector<Fault>& Faults() {\n" + "  1;\n" * 80 + "}\n"
        self.assertEqual(self.faults({path: table}, rules.function_size), [])
        self.assert_one(rules.function_size, path, table.replace("Faults()", "Others()"))

    def test_includes_run_one_way(self):
        for path, target, allowed in [
                ("server/core/a.cc", '"core/b.h"', True), ("server/core/a.cc", '"store/store.h"', False),
                ("server/core/a.cc", "<mutex>", False), ("server/core/a.cc", "<hiredis/hiredis.h>", False),
                ("server/core/a.cc", '"absl/time/clock.h"', False), ("server/core/a.cc", "<unistd.h>", False),
                ("server/store/redis/a.cc", '"lua/scripts_data.h"', True), ("server/store/a.cc", '"shard/s.h"', False),
                ("server/store/a.cc", '"store/redis/link.h"', False),
                ("server/store/single/a.cc", '"store/redis/link.h"', True),
                ("server/store/redis/a.cc", '"store/single/single_store.h"', False),
                ("server/store/redis/a.cc", '"store/store.h"', True),
                ("server/store/redis/a.cc", '"store/open_store.h"', False),
                ("server/store/open_store.cc", '"store/single/single_store.h"', True),
                ("server/store/new_one/a.cc", "<vector>", False), ("server/shard/a.cc", '"store/redis/link.h"', False),
                ("server/main/a.cc", '"store/open_store.h"', True), ("server/main/a.cc", '"store/redis/link.h"', False),
                ("server/store/a.cc", "<grpcpp/grpcpp.h>", False), ("server/shard/a.cc", '"store/store.h"', True),
                ("server/shard/a.cc", '"rpc/x.h"', False), ("server/rpc/a.cc", '"core/b.h"', True),
                ("server/rpc/a.cc", '"rpc/call/x.h"', True), ("server/rpc/engine/a.cc", '"rpc/call/x.h"', False),
                ("server/rpc/messages/a.cc", '"rpc/engine/x.h"', False),
                ("server/rpc/call/a.cc", '"rpc/engine/x.h"', True), ("server/rpc/call/a.cc", '"rpc/server.h"', False),
                ("server/rpc/call/a.cc", '"rpc/frontend.h"', True), ("server/rpc/stream/a.cc", '"rpc/call/x.h"', False),
                ("server/rpc/stream/a.cc", '"distlock/v1/x.grpc.pb.h"',
                 False), ("server/contract/a.cc", '"core/b.h"', True),
                ("server/contract/a.cc", "<grpcpp/grpcpp.h>", False), ("server/contract/a.cc", '"shard/s.h"', False),
                ("server/contract/a.cc", '"distlock/v1/x.pb.h"', True), ("server/core/a.cc", '"contract/x.h"', False),
                ("server/contract/a.cc", '"distlock/v1/x.grpc.pb.h"', False),
                ("server/rpc/a.cc", "<hiredis/async.h>", False), ("server/ops/a.cc", '"core/b.h"', False),
                ("server/ops/a.cc", '"distlock/v1/lock.pb.h"', False),
                ("server/store/a.cc", '"distlock/wire/utf8.h"', False),
                ("server/store/a.cc", '"distlock/wire/given_file.h"', True),
                ("server/core/a.cc", '"distlock/wire/given_file.h"', False),
                ("server/contract/a.cc", '"distlock/wire/utf8.h"', True), ("client/cpp/a.cc", '"core/b.h"', False),
                ("client/cpp/a.cc", '"distlock/v1/lock.pb.h"', True),
                ("client/cli/a.cc", '"distlock/v1/lock.pb.h"', False), ("client/cli/a.cc", "<grpcpp/channel.h>", False),
                ("client/cli/a.cc", "<distlock/admin.h>", True), ("client/cli/a.cc", '"access/tokens.h"', False),
                ("client/cli/access_commands.cc", '"access/tokens.h"', True),
                ("server/main/a.cc", '"rpc/x.h"', True),
                ("server/ops/a.cc", '"text/text.h"', True), ("server/store/a.cc", '"text/text.h"', True),
                ("server/core/a.cc", '"text/text.h"', False), ("server/text/a.h", '"core/b.h"', False),
                ("server/text/a.h", '"absl/strings/str_cat.h"', False), ("server/text/a.h", "<string>", True),
                ("server/extra/a.cc", "<vector>", False)]:
            with self.subTest(path=path, target=target):
                faults = self.faults({path: f"#include {target}\n"}, rules.includes)
                self.assertEqual(faults == [], allowed, faults)

    def test_each_flag_that_a_page_names_is_one_of_help(self):
        with tempfile.TemporaryDirectory() as root:
            for path, text in ((rules.MANUAL, README), ("deploy/README.md", "`distlockd --http x`, `cmake --build`\n")):
                os.makedirs(os.path.join(root, os.path.dirname(path)))
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text)
            tree = rules.Tree(root)
            flags = ["  --listen ADDR    DISTLOCK_LISTEN\n      where; see\n      --http\n", "  --redis URL\n",
                     "  --http ADDR\n"]
            self.assertEqual(list(rules.named_flags(tree, "".join(flags))), [])
            for missing in flags:
                self.assertEqual(len(list(rules.named_flags(tree, "".join(f for f in flags if f != missing)))), 1)


if __name__ == "__main__":
    unittest.main()
