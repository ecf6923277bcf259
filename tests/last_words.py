# SPDX-License-Identifier: Apache-2.0
"""last_words.py JUNIT_XML: the end of what each failed test wrote, which stands far above the end of a long run."""
import sys
import xml.etree.ElementTree

LINES = 60


def main():
    for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
        if case.get("status") == "fail":
            wrote = (case.findtext("system-out") or "").rstrip().splitlines()
            print(f"== {case.get('name')} failed ({case.get('time')} s); the end of what it wrote:")
            print("\n".join(wrote[-LINES:]), end="\n\n")


if __name__ == "__main__":
    main()
