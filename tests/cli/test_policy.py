# SPDX-License-Identifier: Apache-2.0
"""policy check: what it says of a good file in which a name can never match. policy test: the files of the pages."""
import json
import pathlib
import re

import pytest

WHO = """version: 1
trust_domains: [example.org]
groups:
  team: ["{in_group}"]
rules:
- name: shop
  who: [team, "{in_rule}"]
  locks: ["shop:*"]
  may: [acquire]
"""
ISSUER = "https://kubernetes.default.svc"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def checked(ctl, folder, in_group, in_rule, *flags):
    path = f"{folder}/policy.yaml"
    with open(path, "w", encoding="utf-8") as f:
        f.write(WHO.format(in_group=in_group, in_rule=in_rule))
    done = ctl("policy", "check", path, *flags)
    assert done.returncode == 0, done
    return path, done


@pytest.mark.parametrize("subject, meant", [
    ("system:serviceaccount:shop:worker", "k8s:shop/worker"),
    ("system:serviceaccount:shop:*", "k8s:shop/*"),
    ("system:serviceaccount:shop", "k8s:NAMESPACE/ACCOUNT"),
    ("spiffe://example.org/a", "spiffe://example.org/a"),
])
def test_a_token_whose_caller_has_another_name(ctl, folder, subject, meant):
    path, done = checked(ctl, folder, "uid:0", f"jwt:{ISSUER}|{subject}")
    assert done.stdout == f"{path}: good, 1 rules\n"
    assert done.stderr == (f"distlockctl: {path}:7:15: this text can never match: with such a token the caller is "
                           f"{meant}; write that\n")


def test_one_in_a_group_is_told_once_and_as_json(ctl, folder):
    path, done = checked(ctl, folder, f"jwt:{ISSUER}|system:serviceaccount:shop:worker", "uid:0", "-o", "json")
    assert json.loads(done.stdout) == {"rules": 1}
    [row] = done.stderr.splitlines()
    assert json.loads(row)["warning"]["message"].startswith(f"{path}:4:10: this text can never match: ")


@pytest.mark.parametrize("principal", [f"jwt:{ISSUER}|ann", f"jwt:{ISSUER}|*", f"jwt:{ISSUER}|system:node:n1",
                                       "k8s:shop/worker", "spiffe://example.org/a"])
def test_a_name_that_a_caller_can_have(ctl, folder, principal):
    _, done = checked(ctl, folder, "uid:0", principal)
    assert done.stderr == ""


def test_a_case_about_such_a_name_is_wrong(ctl, folder):
    path, _ = checked(ctl, folder, "uid:0", "uid:1")
    cases = f"{folder}/cases.yaml"
    with open(cases, "w", encoding="utf-8") as f:
        f.write(f"- {{who: 'jwt:{ISSUER}|system:serviceaccount:shop:worker', verb: look, lock: 'shop:a', "
                "expect: deny}\n")
    done = ctl("policy", "test", path, cases)
    assert done.returncode == 78 and "is no principal that a caller can have" in done.stderr, done


def blocks(page):
    return re.findall(r"^```yaml\n(.*?)^```", (REPOSITORY / page).read_text(encoding="utf-8"), re.M | re.S)


def test_the_files_of_the_page_about_access_fit_together(ctl, folder):
    for name, text in zip(("policy.yaml", "cases.yaml"), blocks("server/access/README.md"), strict=True):
        pathlib.Path(folder, name).write_text(text, encoding="utf-8")
    done = ctl("policy", "test", f"{folder}/policy.yaml", f"{folder}/cases.yaml")
    assert done.returncode == 0 and done.stdout.count("ok ") == 2, done


def test_the_policy_of_the_first_page_lets_its_operator_take_a_lock(ctl, folder):
    path, cases = pathlib.Path(folder, "policy.yaml"), pathlib.Path(folder, "cases.yaml")
    path.write_text(blocks("README.md")[0], encoding="utf-8")
    cases.write_text("- {who: token:ops, verb: force-release, lock: 'shop:order/7', expect: allow}\n"
                     "- {who: token:shop, verb: force-release, lock: 'shop:order/7', expect: deny}\n", encoding="utf-8")
    assert ctl("policy", "test", path, cases).returncode == 0
