# SPDX-License-Identifier: Apache-2.0
"""What was released stays: problems() compares the contract with descriptors of a released version.

A program that was built for the released version must understand the present one, and the other way round. So nothing
is removed, renamed, renumbered or retyped; a field's number is never used again.
"""
import argparse
import pathlib
import re
import sys

from google.protobuf import descriptor_pb2

import descriptors

RELEASED = pathlib.Path(__file__).parent / "released"


def _shape(one):
    """What must not change of one declaration."""
    what = one.what
    if one.kind == "field":
        return {"number": what.number, "type": what.type, "type name": what.type_name, "label": what.label,
                "optional": what.proto3_optional, "in a oneof": what.HasField("oneof_index"),
                "jstype": what.options.jstype}
    if one.kind == "value":
        return {"number": what.number}
    if one.kind == "method":
        return {"request": what.input_type, "response": what.output_type, "client stream": what.client_streaming,
                "server stream": what.server_streaming}
    return {}


def problems(before, now):
    """Lines like 'distlock.v1.Grant.ttl: its number was 9 and is 10'. Both: FileDescriptorSets."""
    old = {one.name: one for one in descriptors.declared(before)}
    new = {one.name: one for one in descriptors.declared(now)}
    for name, one in old.items():
        if name not in new:
            yield f"{name}: was removed"
            continue
        was, is_now = _shape(one), _shape(new[name])
        for what, value in was.items():
            if is_now.get(what) != value:
                yield f"{name}: its {what} was {value} and is {is_now.get(what)}"
    numbers = {(name.rpartition(".")[0], one.what.number): name for name, one in old.items() if one.kind == "field"}
    for name, one in new.items():
        before_it = numbers.get((name.rpartition(".")[0], one.what.number)) if one.kind == "field" else None
        if before_it not in (None, name):
            yield f"{name}: has the number {one.what.number} of {before_it}"


def released():
    """(version, FileDescriptorSet) of each released version."""
    for path in sorted(RELEASED.glob("*.binpb")):
        yield path.stem, descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())


def keep(version):
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"compatible.py: '{version}' is no version; write one like 0.2.0")
    files = descriptors.read()
    for file in files.file:
        file.ClearField("source_code_info")
    RELEASED.mkdir(exist_ok=True)
    (RELEASED / f"{version}.binpb").write_bytes(files.SerializeToString(deterministic=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="VERSION", required=True, help="store the present contract as released")
    keep(parser.parse_args().keep)
