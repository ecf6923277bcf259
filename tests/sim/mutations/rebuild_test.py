#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rebuild.py compiles anew and what it takes from the build, on a small project of the same shape."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import rebuild  # noqa: E402

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
FILES = {
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.25)
project(small CXX)
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
include_directories(${CMAKE_SOURCE_DIR}/server ${CMAKE_BINARY_DIR}/generated)
add_compile_options(-Werror -Wall)
set(out ${CMAKE_BINARY_DIR}/generated/lua)
add_custom_command(OUTPUT ${out}/scripts_data.h ${out}/scripts_data.cc
  COMMAND ${CMAKE_COMMAND} -D "LUA=${CMAKE_SOURCE_DIR}/lua" -D "VERBS=${CMAKE_SOURCE_DIR}/lua/single/get.lua"
    -D "OUT=${out}" -P ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_lua.cmake
  DEPENDS lua/single/get.lua lua/parts/word.lua VERBATIM)
add_library(scripts STATIC ${out}/scripts_data.cc ${out}/scripts_data.h)
add_library(core STATIC server/core/one.cc server/core/two.cc)
add_library(other STATIC server/other/other.cc)
add_executable(program main.cc)
target_link_libraries(program core other scripts)
add_executable(stranger stranger.cc)
""",
    "lua/single/get.lua": "-- include parts/word.lua\nreturn word\n",
    "lua/parts/word.lua": "local word = 'sound'\n",
    "server/core/core.h": "#pragma once\nint One();\nint Two();\ninline int Three() { return 3; }\n",
    "server/core/one.cc": '#include "core/core.h"\nint One() { return 1; }\n',
    "server/core/two.cc": '#include "core/core.h"\nint Two() { return One() + 1; }\n',
    "server/other/other.cc": '#include "core/core.h"\nint Other() { return Three() + 1; }\n',
    "main.cc": """\
#include <iostream>
#include "core/core.h"
#include "lua/scripts_data.h"
int Other();
int main() {
  std::cout << One() << Two() << Three() << Other() << distlock::lua::kGet.body.substr(14, 5) << std::endl;
}
""",
    "stranger.cc": "int main() {}\n",
}
SOUND = "1234sound\n"


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def says(program):
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


class RebuildTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = os.path.join(os.path.realpath(folder.name), "tree")
        cls.build = os.path.join(cls.root, "build/release")
        for path, text in FILES.items():
            write(cls.root, path, text)
        os.makedirs(os.path.join(cls.root, "deploy/cmake"))
        shutil.copy(os.path.join(REPOSITORY, "deploy/cmake/embed_lua.cmake"), os.path.join(cls.root, "deploy/cmake"))
        subprocess.run(["cmake", "-S", cls.root, "-B", cls.build, "-G", "Ninja"], check=True, capture_output=True)
        subprocess.run(["cmake", "--build", cls.build], check=True, capture_output=True)

    def setUp(self):
        self.copy = os.path.join(self.build, "mutations/copy")
        self.work = os.path.join(self.build, "mutations/work")
        for folder in ("lua", "server", "deploy"):
            shutil.copytree(os.path.join(self.root, folder), os.path.join(self.copy, folder))
        shutil.copy(os.path.join(self.root, "main.cc"), self.copy)
        self.addCleanup(shutil.rmtree, os.path.join(self.build, "mutations"))

    def rebuilt(self, path, old, new):
        """What the program says once that text is another; the build itself must go on as it is."""
        text = FILES[path]
        self.assertIn(old, text)
        write(self.copy, path, text.replace(old, new))
        program = rebuild.Build(self.build, self.copy, self.work, "bin/program").rebuild([path])
        self.assertEqual(says(os.path.join(self.build, "bin/program")), SOUND)
        return says(program)

    def objects(self):
        return sorted(name for _, _, names in os.walk(self.work) for name in names if name.endswith(".o"))

    def test_a_source_of_an_archive(self):
        self.assertEqual(self.rebuilt("server/core/one.cc", "return 1", "return 5"), "5634sound\n")
        self.assertEqual(len(self.objects()), 1, "the archive's unity source, and nothing else")

    def test_a_header_changes_all_that_include_it(self):
        self.assertEqual(self.rebuilt("server/core/core.h", "return 3", "return 7"), "1278sound\n")
        self.assertEqual(len(self.objects()), 3)

    def test_the_programs_own_source(self):
        self.assertEqual(self.rebuilt("main.cc", "<< One()", "<< 9"), "9234sound\n")

    def test_a_script(self):
        self.assertEqual(self.rebuilt("lua/parts/word.lua", "sound", "wrong"), "1234wrong\n")
        self.assertEqual(len(self.objects()), 1)

    def test_what_is_unused_now_is_no_error(self):
        self.assertEqual(self.rebuilt("server/core/one.cc", "return 1;", "int unused = 1; return 8;"), "8934sound\n")

    def test_what_does_not_compile_is_told(self):
        with self.assertRaisesRegex(rebuild.RebuildError, "error: .*nothing"):
            self.rebuilt("server/core/one.cc", "return 1", "return nothing")

    def test_a_file_that_the_program_does_not_depend_on_is_refused(self):
        with self.assertRaisesRegex(rebuild.RebuildError, "bin/program does not depend on .*stranger.cc"):
            rebuild.Build(self.build, self.copy, self.work, "bin/program").rebuild(["stranger.cc"])

    def test_a_new_script_is_refused(self):
        write(self.copy, "lua/single/get.lua", FILES["lua/single/get.lua"])
        os.rename(os.path.join(self.copy, "lua/single/get.lua"), os.path.join(self.copy, "lua/single/set.lua"))
        with self.assertRaises(rebuild.RebuildError):
            rebuild.Build(self.build, self.copy, self.work, "bin/program").rebuild(["lua/single/get.lua"])


if __name__ == "__main__":
    unittest.main()
