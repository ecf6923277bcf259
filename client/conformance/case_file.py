# SPDX-License-Identifier: Apache-2.0
"""Reads the file of cases, and checks it: names are unique, steps are known, and each quoted sentence stands in
session.md."""
import pathlib
import re

import yaml
from steps import STEPS

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CASES = pathlib.Path(__file__).with_name("cases.yaml")
CONTRACT = REPOSITORY / "proto/distlock/v1/session.md"
FIELDS = {"name", "says", "needs", "token", "brokers", "steps"}


def words(text):
    """Line breaks and markup do not matter."""
    return " ".join(re.sub(r"[\s*`]+", " ", text).split())


class Case:
    def __init__(self, area, made):
        self.area, self.name, self.says = area, made["name"], made["says"]
        self.needs = set(made.get("needs", ()))
        self.token = made.get("token")
        brokers = made.get("brokers", ["a"])
        self.brokers = brokers if isinstance(brokers, dict) else {name: {} for name in brokers}
        self.steps = [next(iter(step.items())) for step in made["steps"]]


def problems_of(made, contract):
    name = made.get("name", "a case without a name")
    for field in sorted(set(made) - FIELDS):
        yield f"{name}: there is no field {field}"
    for field in ("says", "steps"):
        if not made.get(field):
            yield f"{name}: has no {field}"
    if words(made.get("says", "")) not in contract:
        yield f"{name}: session.md does not say: {made['says']}"
    for step in made.get("steps", ()):
        if len(step) != 1 or next(iter(step)) not in STEPS:
            yield f"{name}: no such step: {step}"


def load():
    """All cases. Raises ValueError that names every problem."""
    contract = words(CONTRACT.read_text(encoding="utf-8"))
    areas = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    problems, cases = [], []
    for area, listed in areas.items():
        for made in listed:
            found = list(problems_of(made, contract))
            problems += found
            if not found:
                cases.append(Case(area, made))
    names = [case.name for case in cases]
    problems += [f"{name}: two cases have this name" for name in sorted({n for n in names if names.count(n) > 1})]
    if problems:
        raise ValueError("\n".join(problems))
    return cases
