# SPDX-License-Identifier: Apache-2.0
"""Checks the house rules on this checkout.

usage: tidy_test.py [--root FOLDER] [--distlockd BINARY]
With the binary, the flags that pages name must also be those of its --help-all.
"""
import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import rules  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--distlockd", help="the built daemon")
    args = parser.parse_args()

    tree = rules.Tree(args.root)
    faults = [fault for rule in rules.RULES for fault in rule(tree)]
    if args.distlockd:
        text = subprocess.run([args.distlockd, "--help-all"], capture_output=True, text=True, check=True,
                              timeout=20).stdout
        faults += rules.named_flags(tree, text)
    print("\n".join(faults) or f"{len(tree.files)} files follow the house rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
