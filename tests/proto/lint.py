# SPDX-License-Identifier: Apache-2.0
"""The rules for names, types and comments of the contract. problems() says what breaks them."""
import re

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field, FieldOptions

# Names that nearly every program of these languages has already, so that generated code would collide with them.
TAKEN = {"Lock", "Event", "Command", "Open", "Cancel", "Queued", "Released", "Lost", "Draining", "Object", "String",
         "Thread", "Process", "Task", "Error", "Exception", "Record", "Module", "Status", "Any", "Duration",
         "Timestamp"}
SNAKE = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
CAMEL = re.compile(r"^([A-Z][a-z0-9]*)+$")
# Java and many databases have no unsigned integers.
UNSIGNED = {Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_FIXED32, Field.TYPE_FIXED64}
SIGNED_64 = {Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64}
# Not "address", not "status".
PLURAL = re.compile(r"[^su]s$")


def _upper_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _is_map(one):
    entries = {nested.name for nested in one.owner.nested_type if nested.options.map_entry}
    return one.what.type_name.rpartition(".")[2] in entries


def _of_field(one):
    name, is_time = one.what.name, one.what.type_name == ".google.protobuf.Timestamp"
    if not SNAKE.match(name):
        yield "is not lower_snake_case"
    if name.endswith("_time") and not is_time:
        yield "ends in _time but is no Timestamp (AIP-142)"
    if is_time and not name.endswith("_time"):
        yield "is a Timestamp but does not end in _time (AIP-142)"
    if one.what.type in UNSIGNED:
        yield "is unsigned: use int32 or int64 (AIP-141)"
    # Without it JavaScript gets the number as text. Every token is below 2^53.
    if one.what.type in SIGNED_64 and name.endswith("token") and one.what.options.jstype != FieldOptions.JS_NUMBER:
        yield "is a token without jstype = JS_NUMBER"
    if one.what.label == Field.LABEL_REPEATED and not _is_map(one) and not PLURAL.search(name):
        yield "is repeated, but its name is no plural (AIP-140)"


def _of_value(one):
    prefix = _upper_snake(one.owner.name) + "_"
    if not one.what.name.startswith(prefix):
        yield f"does not begin with {prefix} (AIP-126)"
    if one.what.number == 0 and one.what.name != prefix + "UNSPECIFIED":
        yield f"is 0, and not {prefix}UNSPECIFIED (AIP-126)"


def _of_method(one):
    for message, end in ((one.what.input_type, "Request"), (one.what.output_type, "Response")):
        if message.rpartition(".")[2] != one.what.name + end:
            yield f"uses {message}, not its own {one.what.name}{end}"


def _of_type(one):
    name = one.what.name
    if not CAMEL.match(name):
        yield "is not CamelCase"
    if name in TAKEN:
        yield "collides with a name that most programs have: prefix it"


def _of_service(one):
    yield from _of_type(one)
    if not one.what.name.endswith("Service"):
        yield "does not end in Service"


RULES = {"field": _of_field, "value": _of_value, "method": _of_method, "message": _of_type, "enum": _of_type,
         "service": _of_service}
# A request or an answer is explained where its method is, a zero value by its enum, a service by its file.
MAY_BE_BARE = re.compile(r"(Request|Response)$|_UNSPECIFIED$")


def problems(all_declared):
    """Lines like 'distlock.v1.Grant.ttl: has no comment'."""
    for one in all_declared:
        bare = one.kind == "service" or (one.kind in ("message", "value") and MAY_BE_BARE.search(one.name))
        if not one.comment and not bare:
            yield f"{one.name}: has no comment"
        for problem in RULES[one.kind](one):
            yield f"{one.name}: {problem}"
