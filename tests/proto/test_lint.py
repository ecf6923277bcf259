# SPDX-License-Identifier: Apache-2.0
import pytest

import descriptors
import lint

GOOD = """
syntax = "proto3";
package distlock.v1;
import "google/protobuf/timestamp.proto";
// What it is.
message Thing {
  int64 fencing_token = 1 [jstype = JS_NUMBER];  // of the grant
  google.protobuf.Timestamp grant_time = 2;      // by the store's clock
  repeated string names = 3;                     // all of them
  map<string, string> metadata = 4;              // as it was given
  string page_token = 5;                         // where the next page begins
}
// How it is.
enum State {
  STATE_UNSPECIFIED = 0;
  STATE_UP = 1;  // it answers
}
// What it does.
service ThingService {
  // Gets one.
  rpc GetThing(GetThingRequest) returns (GetThingResponse);
}
message GetThingRequest {}
message GetThingResponse {}
"""

# Each text, its replacement, and the problem that must be found.
BAD = [
    ("  // of the grant", "", "Thing.fencing_token: has no comment"),
    ("// What it is.\n", "", "Thing: has no comment"),
    ("  // Gets one.\n", "", "GetThing: has no comment"),
    ("  // it answers", "", "STATE_UP: has no comment"),
    ("google.protobuf.Timestamp grant_time", "string grant_time", "is no Timestamp"),
    ("google.protobuf.Timestamp grant_time", "google.protobuf.Timestamp since", "does not end in _time"),
    ("string names", "string camelNames", "is not lower_snake_case"),
    ("string names", "string name", "name is no plural"),
    ("string names", "string address", "name is no plural"),
    ("string names", "uint32 names", "is unsigned"),
    ("string names", "fixed64 names", "is unsigned"),
    ("int64 fencing_token", "uint64 fencing_token", "is unsigned"),
    (" [jstype = JS_NUMBER]", "", "is a token without jstype"),
    ("int64 fencing_token = 1 [jstype = JS_NUMBER]", "int64 newest_token = 1 [jstype = JS_STRING]",
     "is a token without jstype"),
    ("STATE_UP", "UP", "does not begin with STATE_"),
    ("STATE_UNSPECIFIED", "STATE_NONE", "and not STATE_UNSPECIFIED"),
    ("message Thing {", "message Event {", "collides with a name"),
    ("message Thing {", "message thing_x {", "is not CamelCase"),
    ("service ThingService", "service Things", "does not end in Service"),
    ("GetThing(GetThingRequest)", "GetThing(GetThingResponse)", "not its own GetThingRequest"),
]


def problems_of(folder, text):
    return list(lint.problems(descriptors.declared(descriptors.of_text(folder, text))))


def test_the_contract_follows_the_rules():
    assert not list(lint.problems(descriptors.declared(descriptors.read())))


def test_good_declarations_have_no_problems(tmp_path):
    assert problems_of(tmp_path, GOOD) == []


@pytest.mark.parametrize("old, new, problem", BAD)
def test_each_rule_sees_its_fault(tmp_path, old, new, problem):
    assert old in GOOD
    found = problems_of(tmp_path, GOOD.replace(old, new))
    assert any(problem in one for one in found), found
