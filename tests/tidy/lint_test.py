# SPDX-License-Identifier: Apache-2.0
"""lint.py hands clang-tidy the right sources, each once, and no generated ones."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import lint  # noqa: E402


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, lint, "ROOT", lint.ROOT)
        lint.ROOT = folder.name
        self.build = os.path.join(folder.name, "build/release")
        for source in ("server/core/a.cc", "server/core/b.cc", "client/c.cc", "tests/core/t.cc", "tests/core/u.cc"):
            self.write(source, f'#include "{source[:-3]}.h"\n')
        self.entries = [
            self.unity("core", "server/core/a.cc", "server/core/b.cc"),
            self.unity("tests", "tests/core/t.cc", "tests/core/u.cc"),
            self.entry(os.path.join(lint.ROOT, "client/c.cc")),
            self.entry(os.path.join(self.build, "tests/peer.pb.cc")),
            self.unity("lua", "build/release/generated/lua/scripts.cc"),
        ]

    def write(self, path, text):
        path = os.path.join(lint.ROOT, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def entry(self, path):
        return {"directory": self.build, "file": path, "command": f"/usr/bin/ccache /usr/bin/c++ -O2 -c {path}"}

    def unity(self, name, *sources):
        text = "".join(f'#include "{os.path.join(lint.ROOT, source)}"\n' for source in sources)
        return self.entry(self.write(f"build/release/{name}/Unity/unity_0_cxx.cxx", text))

    def looked_at(self, folders, changed=()):
        commands = lint.to_look_at(self.entries, folders, changed)
        return sorted(os.path.relpath(command["file"], lint.ROOT) for command in commands)

    def test_all_is_everything_that_is_not_generated(self):
        self.assertEqual(self.looked_at(("",)), [
            "build/release/core/Unity/unity_0_cxx.cxx", "build/release/tests/Unity/unity_0_cxx.cxx", "client/c.cc"])

    def test_product_is_without_the_tests(self):
        self.assertEqual(self.looked_at(lint.PRODUCT), ["build/release/core/Unity/unity_0_cxx.cxx", "client/c.cc"])

    def test_product_with_a_test_that_changed(self):
        self.assertEqual(self.looked_at(lint.PRODUCT, ["server/core/a.cc", "client/c.h", "tests/core/u.cc"]), [
            "build/release/core/Unity/unity_0_cxx.cxx", "client/c.cc", "tests/core/u.cc"])

    def test_what_changed_is_compiled_alone(self):
        self.assertEqual(self.looked_at((), ["server/core/b.h", "README.md"]), ["server/core/b.cc"])
        [command] = lint.to_look_at(self.entries, (), ["server/core/b.cc"])
        self.assertEqual(command["arguments"],
                         ["/usr/bin/c++", "-O2", "-c", os.path.join(lint.ROOT, "server/core/b.cc")])

    def test_nothing_changed(self):
        self.assertEqual(self.looked_at(()), [])


if __name__ == "__main__":
    unittest.main()
