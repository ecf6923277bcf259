#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints openapi.json, the description of the HTTP face: its paths from routes.h, its types from the .proto files.

    server/web/openapi.py [--protoc PROGRAM] [--header FILE]

--header writes it into FILE, as a constant for C++, instead.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2 as pb

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
FILES = ("distlock/v1/lock_service.proto", "distlock/v1/admin_service.proto", "grpc/health/v1/health.proto")
ROUTE = re.compile(r'\{"(GET|POST)", "([^"]+)", "([^"]+)", "([^"]+)"\}')
REASON = re.compile(r"\{v1::REFUSAL_REASON_(\w+), (\d+), (?:true|false)\}")
STREAM = ("A stream of server-sent events: each `data` is one such message on one line. The event `error` is the last; "
          "its data is a google.rpc.Status. A comment comes every 15 s.")
KINDS = {pb.FieldDescriptorProto.TYPE_STRING: {"type": "string"},
         pb.FieldDescriptorProto.TYPE_BOOL: {"type": "boolean"},
         pb.FieldDescriptorProto.TYPE_INT32: {"type": "integer", "format": "int32"},
         # Protobuf writes 64 bits as text, because numbers of JavaScript have 53.
         pb.FieldDescriptorProto.TYPE_INT64: {"type": "string", "format": "int64"}}
KNOWN = {".google.protobuf.Duration": {"type": "string", "description": "seconds, such as 1.5s"},
         ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"}}


def described(protoc):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([protoc, "-I", PROTO, "--include_imports", "--include_source_info",
                        f"--descriptor_set_out={out.name}", *FILES], check=True)
        return pb.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())


class Protos:
    """Messages, enums and methods by full name, and their comments."""

    def __init__(self, files):
        self.messages, self.enums, self.methods, self.comments = {}, {}, {}, {}
        for file in files.file:
            for location in file.source_code_info.location:
                text = location.leading_comments or location.trailing_comments
                if text:
                    self.comments[(file.name, tuple(location.path))] = " ".join(text.split())
            for i, message in enumerate(file.message_type):
                self._add(file, f".{file.package}.{message.name}", message, (4, i))
            for i, enum in enumerate(file.enum_type):
                self.enums[f".{file.package}.{enum.name}"] = (file.name, enum, (5, i))
            for i, service in enumerate(file.service):
                for j, method in enumerate(service.method):
                    self.methods[(f"{file.package}.{service.name}", method.name)] = (file.name, method, (6, i, 2, j))

    def _add(self, file, name, message, path):
        self.messages[name] = (file.name, message, path)
        for i, inner in enumerate(message.nested_type):
            self._add(file, f"{name}.{inner.name}", inner, (*path, 3, i))
        for i, enum in enumerate(message.enum_type):
            self.enums[f"{name}.{enum.name}"] = (file.name, enum, (*path, 4, i))

    def comment(self, file, path):
        return self.comments.get((file, path), "")


class Schemas:
    """The types that were asked for, and those that they need."""

    def __init__(self, protos):
        self.protos, self.made = protos, {}

    def ref(self, name):
        short = name.rsplit(".", 1)[1]
        if short not in self.made:
            self.made[short] = {}  # so that a type that contains itself ends
            self.made[short] = self._enum(name) if name in self.protos.enums else self._message(name)
        return {"$ref": f"#/components/schemas/{short}"}

    def _enum(self, name):
        file, enum, path = self.protos.enums[name]
        return with_text({"type": "string", "enum": [value.name for value in enum.value]},
                         self.protos.comment(file, path))

    def _message(self, name):
        file, message, path = self.protos.messages[name]
        fields = {}
        for i, field in enumerate(message.field):
            fields[field.json_name] = with_text(self.field(field), self.protos.comment(file, (*path, 2, i)))
        return with_text({"type": "object", "properties": fields, "additionalProperties": False},
                         self.protos.comment(file, path))

    def field(self, field):
        _, inner, _ = self.protos.messages.get(field.type_name, (None, None, None))
        if inner is not None and inner.options.map_entry:
            return {"type": "object", "additionalProperties": self.single(inner.field[1])}
        if field.label == field.LABEL_REPEATED:
            return {"type": "array", "items": self.single(field)}
        return self.single(field)

    def single(self, field):
        if field.type_name in KNOWN:
            return dict(KNOWN[field.type_name])
        if field.type_name:
            return self.ref(field.type_name)
        return dict(KINDS[field.type])


def with_text(schema, text):
    if not text:
        return schema
    # Beside a $ref nothing else counts in OpenAPI 3.0.
    return {"allOf": [schema], "description": text} if "$ref" in schema else {**schema, "description": text}


STATUS = {"type": "object", "description": "google.rpc.Status in JSON",
          "properties": {"code": {"type": "integer", "format": "int32", "description": "a gRPC status code"},
                         "message": {"type": "string", "description": "English; says what to do next"},
                         "details": {"type": "array", "description": "google.rpc.ErrorInfo (reason), RetryInfo, "
                                     "BadRequest, ResourceInfo, and distlock.v1.Refusal with the holders",
                                     "items": {"type": "object", "properties": {"@type": {"type": "string"}},
                                               "additionalProperties": True}}}}


def errors(reasons):
    by_status = {}
    for reason, status in reasons:
        by_status.setdefault(status, []).append(reason)
    answers = {}
    for status, names in sorted(by_status.items()):
        answers[status] = {"description": ", ".join(names),
                           "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}}
        if status in ("409", "429", "503"):
            answers[status]["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1},
                                                          "description": "seconds"}}
    return answers


def operation(schemas, route, reasons):
    verb, path, service, call = route
    file, method, at = schemas.protos.methods[(service, call)]
    type_of = "text/event-stream" if method.server_streaming else "application/json"
    _, request, where = schemas.protos.messages[method.input_type]
    entry = with_text({"operationId": call}, schemas.protos.comment(file, at))
    if verb == "POST":
        entry["requestBody"] = {"required": True, "content": {
            "application/json": {"schema": schemas.ref(method.input_type)}}}
    else:
        in_path = re.findall(r"\{(\w+)\}", path)
        request_file = schemas.protos.messages[method.input_type][0]
        entry["parameters"] = [with_text(
            {"name": field.json_name, "in": "path" if field.name in in_path else "query",
             "required": field.name in in_path, "schema": schemas.single(field)},
            schemas.protos.comment(request_file, (*where, 2, i))) for i, field in enumerate(request.field)]
    good = {"description": STREAM if method.server_streaming else "done",
            "content": {type_of: {"schema": schemas.ref(method.output_type)}}}
    entry["responses"] = {"200": good, **errors(reasons)}
    return entry


def document(protoc):
    schemas = Schemas(Protos(described(protoc)))
    routes = ROUTE.findall((HERE / "routes.h").read_text(encoding="utf-8"))
    reasons = REASON.findall((HERE / "answers.h").read_text(encoding="utf-8"))
    paths = {}
    for route in routes:
        paths.setdefault(route[1], {})[route[0].lower()] = operation(schemas, route, reasons)
    return {"openapi": "3.0.3",
            "info": {"title": "distlock", "version": "v1", "license": {"name": "Apache-2.0"},
                     "description": "Locks over HTTP: the messages of distlock.v1 in the JSON of Protobuf."},
            "paths": paths,
            "components": {"schemas": {**dict(sorted(schemas.made.items())), "Status": STATUS},
                           "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
            "security": [{}, {"bearer": []}]}


HEADER = """// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace distlock::web {

inline constexpr std::string_view kOpenApi = R"openapi(%s)openapi";

}  // namespace distlock::web
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protoc", default="protoc", metavar="PROGRAM")
    parser.add_argument("--header", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    text = json.dumps(document(args.protoc), indent=1, sort_keys=False) + "\n"
    if args.header:
        args.header.write_text(HEADER % text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
