# SPDX-License-Identifier: Apache-2.0
"""The house rules of what can be read at once: how a comment begins, and how long a function is."""
import os
import re

# Such a comment has no subject: a reader learns last what it is about.
NO_SUBJECT = re.compile(r"(?:Who|What|Of|Nobody|Whoever|Those who)\b")
MARKS = {".lua": "--+", ".py": "#+", ".sh": "#+", ".cmake": "#+", ".txt": "#+"}
MARKS_ELSEWHERE = r"//+!?|/\*+|\*(?=\s|$)"
# Any change of these files, a comment too, has everybody build gRPC anew: deploy/grpc/hardened.sh.
PART_OF_GRPC = ("deploy/grpc/frame_budget.h", "deploy/grpc/hardened.sh")

FUNCTION_MAX = 70
# A table of all faults, a row each: in parts it would be harder to compare.
TABLES = {("tests/sim/simulation/faults.cc", "Faults")}
NO_FUNCTION = re.compile(
    r"(?:namespace|class|struct|enum|union|if|for|while|switch|do|else|try|catch|case|default|return|\})\b"
    r"|.*(?:=|\]) *\{$|[^(]*$")


def comment_starts(tree):
    for path in [*tree.code(), *(f for f in tree.files if f.endswith(".rs"))]:
        if path in PART_OF_GRPC:
            continue
        mark = re.compile(rf"\s*(?:{MARKS.get(os.path.splitext(path)[1], MARKS_ELSEWHERE)})[-=\s]*(.*)")
        goes_on = False
        for number, line in enumerate(tree.lines(path), 1):
            found = mark.match(line)
            text = found[1] if found else ""
            if not goes_on and NO_SUBJECT.match(text):
                yield f"{path}:{number}: a comment begins with '{text.split()[0]}'; name the thing that it is about"
            goes_on = text != "" and not text.startswith(("SPDX-", "!"))


def function_size(tree):
    for path in tree.code("*.cc", "*.h"):
        for first, last, name in functions(tree.lines(path)):
            count = last - first + 1
            if count > FUNCTION_MAX and (path, name) not in TABLES:
                yield f"{path}:{first}: {name} has {count} lines, at most {FUNCTION_MAX}; split it by purpose"


def functions(lines):
    """The first and the last line, and the name, of each function of several lines, as clang-format indents them."""
    code = without_text(lines)
    for last, line in enumerate(code):
        colon = last
        if line.endswith(" {}"):  # a constructor, all in its list
            while code[colon].startswith(" ") and not re.match(r" {4,}: ", code[colon]):
                colon -= 1
            found = re.match(r"( *) {4}: ", code[colon])
        else:
            found = re.fullmatch(r"( *)\}", line)
        if not found:
            continue
        first = colon - 1
        while first > 0 and (code[first].startswith(found[1] + " ") or not code[first] or is_constrained(code, first)):
            first -= 1
        head = head_of(code[first:last + 1])
        if not NO_FUNCTION.match(head):
            yield first + 1, last + 1, name_of(head)


def is_constrained(code, at):
    """Whether this is the brace of a function alone, below the `requires` of its head."""
    return code[at].strip() == "{" and code[at - 1].lstrip().startswith("requires")


def head_of(lines):
    end = next((i for i, line in enumerate(lines) if line.endswith(("{", "{}"))), 0)
    return " ".join(line.strip() for line in lines[:end + 1])


def name_of(head):
    shorter = None
    while shorter != head:  # without the arguments of templates
        shorter, head = head, re.sub(r"<[^<>]*>", "", head)
    return re.search(r"(operator\W+|[~\w]+) ?\(", head)[1]


def without_text(lines):
    """The lines, without comments, directives of the preprocessor and raw strings."""
    code, end = [], None
    for line in lines:
        begun = re.search(r'R"(\w*)\(', line) if end is None else None
        is_text = end is not None or line.lstrip().startswith(("//", "#"))
        code.append("" if is_text else line)
        if begun and f'){begun[1]}"' not in line[begun.end():]:
            end = f'){begun[1]}"'
        elif end is not None and end in line:
            end = None
    return code
