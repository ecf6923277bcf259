# SPDX-License-Identifier: Apache-2.0
import pytest

import compatible
import descriptors

BEFORE = """
syntax = "proto3";
package distlock.v1;
message Thing {
  int64 one = 1;
  string two = 2;
  oneof kind {
    int32 three = 3;
  }
  optional int32 four = 4;
}
enum State {
  STATE_UNSPECIFIED = 0;
  STATE_UP = 1;
}
service ThingService {
  rpc GetThing(Thing) returns (stream Thing);
}
"""

BAD = [
    ("  string two = 2;\n", "", "Thing.two: was removed"),
    ("string two = 2;", "string two = 5;", "its number was 2 and is 5"),
    ("string two = 2;", "string deux = 2;", "Thing.deux: has the number 2 of distlock.v1.Thing.two"),
    ("string two = 2;", "bytes two = 2;", "its type was"),
    ("int64 one = 1;", "repeated int64 one = 1;", "its label was"),
    ("optional int32 four", "int32 four", "its optional was"),
    ("  oneof kind {\n    int32 three = 3;\n  }\n", "  int32 three = 3;\n", "its in a oneof was"),
    ("  STATE_UP = 1;\n", "", "STATE_UP: was removed"),
    ("STATE_UP = 1", "STATE_UP = 2", "its number was 1 and is 2"),
    ("returns (stream Thing)", "returns (Thing)", "its server stream was"),
]


def test_the_contract_understands_every_release():
    now = descriptors.read()
    for version, before in compatible.released():
        assert not list(compatible.problems(before, now)), f"against {version}"


def test_what_is_added_breaks_nothing(tmp_path):
    more = BEFORE.replace("  string two = 2;\n", "  string two = 2;\n  string five = 5;\n")
    before, now = descriptors.of_text(tmp_path / "a", BEFORE), descriptors.of_text(tmp_path / "b", more)
    assert not list(compatible.problems(before, now))


@pytest.mark.parametrize("old, new, problem", BAD)
def test_each_rule_sees_its_fault(tmp_path, old, new, problem):
    assert old in BEFORE
    before = descriptors.of_text(tmp_path / "a", BEFORE)
    now = descriptors.of_text(tmp_path / "b", BEFORE.replace(old, new))
    found = list(compatible.problems(before, now))
    assert any(problem in one for one in found), found
