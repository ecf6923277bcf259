# SPDX-License-Identifier: Apache-2.0
"""The track record: a page that is made of the record's rows alone."""

HEAD = """# Track record

What `tests/release.sh` has run, made of `tests/proof/record.jsonl` by `tests/release.sh --track`. The code is a hash of
the files that decide what a stage shows; pieces of one code add up, also over commits. A `+` behind a commit: the tree
had changes that no commit has.

| stage | code | first at commit | from (UTC) | to | ran | failed | took |
|---|---|---|---|---|---:|---:|---:|
"""


def number(value):
    return f"{value:,}".replace(",", " ")


def duration(seconds):
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min" if minutes else f"{round(seconds)} s"


def what(row):
    """What one row of the record is about."""
    if "seeds" in row:
        return f"seeds {row['seeds'][0]}+{row['seeds'][1]}"
    if "rows" in row:
        return ", ".join(row["rows"])
    return f"{row['amount']}, seed {row['seed']}"


def groups(rows):
    """(stage, code, its rows) in the order in which each was begun."""
    found = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        found.setdefault((row["stage"], row["code"]), []).append(row)
    return [(*key, group) for key, group in found.items()]


def page(rows, stages):
    """stages: by their names, for the units; one that is not there any more counts its pieces."""
    lines, failures = [], []
    for name, code, group in groups(rows):
        stage = stages.get(name)
        ran = f"{number(stage.done(group))} {stage.unit}" if stage else f"{len(group)} pieces"
        bad = [row for row in group if not row["passed"]]
        took = duration(sum(row["took"] for row in group))
        lines.append(f"| {name} | {code} | {group[0]['commit']} | {group[0]['at'][:16]} | {group[-1]['at'][:16]} "
                     f"| {ran} | {len(bad)} | {took} |")
        failures += [f"| {name} | {code} | {what(row)} | {row['said'].replace('|', ' ')} |" for row in bad]
    text = HEAD + "".join(line + "\n" for line in lines)
    if failures:
        text += "\n## Failures\n\n| stage | code | what | said |\n|---|---|---|---|\n"
        text += "".join(line + "\n" for line in failures)
    return text
