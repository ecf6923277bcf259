# SPDX-License-Identifier: Apache-2.0
"""values_reference.py: prints helm/distlock/VALUES.md, made of the chart's schema and values."""
import json
import pathlib

import yaml

CHART = pathlib.Path(__file__).resolve().parent / "distlock"
HEAD = """# Values of helm/distlock

helm/values_reference.py prints this page.

| value | default | meaning |
|---|---|---|"""


def rows(schema, values, path=""):
    for name, inner in schema["properties"].items():
        at = f"{path}.{name}".lstrip(".")
        value = values.get(name) if values else None
        if "properties" in inner:
            yield from rows(inner, value, at)
        elif name in (values or {}):
            default = json.dumps(value).replace("|", "\\|")
            yield f"| `{at}` | `{default}` | {inner['description'].replace('|', chr(92) + '|')} |"


def page():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return "\n".join([HEAD, *rows(schema, values)]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
