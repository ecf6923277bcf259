# SPDX-License-Identifier: Apache-2.0
"""The rules for names, types and comments of the contract. problems() says what breaks them."""
import re

# Names that nearly every program of these languages has already, so that generated code would collide with them.
TAKEN = {"Lock", "Event", "Command", "Open", "Cancel", "Queued", "Released", "Lost", "Draining", "Object", "String",
         "Thread", "Process", "Task", "Error", "Exception", "Record", "Module", "Status", "Any", "Duration",
         "Timestamp"}
SNAKE = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
CAMEL = re.compile(r"^([A-Z][a-z0-9]*)+$")


def _upper_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _of_field(one):
    if not SNAKE.match(one.what.name):
        yield "is not lower_snake_case"
    if one.what.type_name != ".google.protobuf.Timestamp" and one.what.name.endswith("_time"):
        yield "ends in _time but is no Timestamp (AIP-142)"


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
