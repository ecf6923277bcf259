# SPDX-License-Identifier: Apache-2.0
"""The contract as descriptors, read by protoc; and a walk over all that they declare."""
import dataclasses
import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
# Numbers of the fields of descriptor.proto that a path of source_code_info goes through.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
FIELDS, NESTED, NESTED_ENUMS, ONEOFS = 2, 3, 4, 8
VALUES, METHODS = 2, 2


def read(root=PROTO, folder="distlock"):
    """The FileDescriptorSet of all .proto files below root/folder, with comments and without what they import."""
    files = sorted(str(p.relative_to(root)) for p in (root / folder).rglob("*.proto"))
    includes = [f"-I{root}"] + ([f"-I{root / 'third_party'}"] if (root / "third_party").is_dir() else [])
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", *includes, "--include_source_info", f"--descriptor_set_out={out.name}", *files],
                       check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())


def of_text(folder, text):
    """As read, of one file with this text, which is written into the empty `folder`."""
    path = folder / "distlock" / "v1" / "thing.proto"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return read(folder)


@dataclasses.dataclass
class Declared:
    kind: str     # message, field, enum, value, service, method
    name: str     # full, such as distlock.v1.Grant.ttl
    what: object  # its descriptor
    owner: object  # the descriptor that it stands in
    comment: str  # all comments at it


def _comment(file, path):
    for location in file.source_code_info.location:
        if list(location.path) == path:
            return "\n".join([*location.leading_detached_comments, location.leading_comments,
                              location.trailing_comments]).strip()
    return ""


def _enum(file, enum, prefix, path):
    yield Declared("enum", f"{prefix}.{enum.name}", enum, file, _comment(file, path))
    for i, value in enumerate(enum.value):
        yield Declared("value", f"{prefix}.{enum.name}.{value.name}", value, enum,
                       _comment(file, [*path, VALUES, i]))


def _message(file, message, prefix, path):
    if message.options.map_entry:
        return
    name = f"{prefix}.{message.name}"
    yield Declared("message", name, message, file, _comment(file, path))
    for i, field in enumerate(message.field):
        yield Declared("field", f"{name}.{field.name}", field, message, _comment(file, [*path, FIELDS, i]))
    for i, nested in enumerate(message.nested_type):
        yield from _message(file, nested, name, [*path, NESTED, i])
    for i, enum in enumerate(message.enum_type):
        yield from _enum(file, enum, name, [*path, NESTED_ENUMS, i])


def declared(files):
    """All messages, fields, enums, values, services and methods."""
    for file in files.file:
        for i, message in enumerate(file.message_type):
            yield from _message(file, message, file.package, [MESSAGES, i])
        for i, enum in enumerate(file.enum_type):
            yield from _enum(file, enum, file.package, [ENUMS, i])
        for i, service in enumerate(file.service):
            name = f"{file.package}.{service.name}"
            yield Declared("service", name, service, file, _comment(file, [SERVICES, i]))
            for j, method in enumerate(service.method):
                yield Declared("method", f"{name}.{method.name}", method, service,
                               _comment(file, [SERVICES, i, METHODS, j]))
