# SPDX-License-Identifier: Apache-2.0
"""Identities and rights at a real broker: who gets in, who may what, what is said and logged, and what ends when."""
import os
import pathlib
import re
import signal
import subprocess
import time

import grpc
import pytest

from access_files import AUDIENCE, ISSUER, Issuer, service_account, static_token
from client import Client, api, boot_now, failure
from harness import DISTLOCKD, Process, eventually

CTL = os.environ.get("DISTLOCKCTL", str(pathlib.Path(DISTLOCKD).with_name("distlockctl")))
OPS, OPS_LINE = static_token("ops")
APP, APP_LINE = static_token("app")
POLICY = """
version: 1
rules:
- name: ops-all
  who: ["token:ops"]
  locks: ["*"]
  may: [acquire, look, list, watch, force-release]
  broker: [status, sessions, drain, reload, access, store]
- name: app-own
  who: ["token:app", "k8s:shop/*"]
  locks: ["shop:order/*"]
  may: [acquire, look]
- name: own-corner
  who: ["k8s:*/*"]
  locks: ["{k8s.ns}:{k8s.sa}/*"]
  may: [acquire, look]
- name: not-the-vault
  who: [authenticated]
  locks: ["shop:order/vault*"]
  deny: [acquire]
"""


class Guarded:
    """A broker with a policy and tokens, whose files a test may change."""

    def __init__(self, world, *args, policy=POLICY, jwks=None):
        self.folder = pathlib.Path(world.folder)
        self.policy, self.tokens = self.folder / "policy.yaml", self.folder / "tokens"
        self.policy.write_text(policy)
        self.tokens.write_text(OPS_LINE + APP_LINE)
        self.tokens.chmod(0o600)
        if jwks is not None:
            keys = self.folder / "jwks.json"
            keys.write_text(jwks)
            args += ("--jwt-keys", keys, "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE)
        self.daemon = world.distlockd(world.redis().url, "--policy", self.policy, "--token-file", self.tokens,
                                      "--validity", "1s", *args)

    def as_(self, token):
        return self.daemon.client(token=token)

    def tcp(self):
        with self.as_(OPS) as client:
            return next(a for a in client.status().listen_addresses if not a.startswith("unix:"))

    def generation(self):
        with self.as_(OPS) as client:
            return client.status().policy_generation

    def ctl(self, *args, token=None):
        env = {**os.environ, "DISTLOCK_SERVER": self.daemon.url}
        env.pop("DISTLOCK_TOKEN_FILE", None)
        if token:
            held = self.folder / "token"
            held.write_text(token + "\n")
            env["DISTLOCK_TOKEN_FILE"] = str(held)
        return subprocess.run([CTL, *map(str, args)], env=env, capture_output=True, text=True, timeout=60, check=False)


def spec(client, key, **fields):
    return client.spec(key, 0, namespace="shop", **fields)


def test_who_proves_nothing_gets_nothing(world):
    guarded = Guarded(world, "--listen", "127.0.0.1:0")
    with Client(guarded.tcp()) as client:
        refused = failure(client.acquire, spec(client, "order/1"))
        assert refused.code == grpc.StatusCode.UNAUTHENTICATED and "no proof of identity" in refused.message
        assert failure(client.status).code == grpc.StatusCode.UNAUTHENTICATED
    for token in (OPS + "x", OPS[:-1], "dlt_", "a.b.c"):
        with guarded.as_(token) as client:
            refused = failure(client.lock, "order/1", namespace="shop")
            assert refused.code == grpc.StatusCode.UNAUTHENTICATED and token not in refused.message
    assert OPS not in guarded.daemon.log()


def test_a_unix_user_is_whom_the_kernel_names(world):
    user, group = os.getuid(), os.getgid()
    guarded = Guarded(world, "--listen", "127.0.0.1:0", policy=POLICY + f"""
- {{name: user, who: ["uid:{user}"], locks: ["shop:user/*"], may: [acquire, look], broker: [status, sessions, drain]}}
- {{name: group, who: ["gid:{group}"], locks: ["shop:group/*"], may: [acquire]}}
- {{name: other, who: ["uid:{user + 1}"], locks: ["shop:other/*"], may: [acquire]}}
""")
    with guarded.daemon.client() as here, Client(guarded.tcp()) as tcp, guarded.as_(APP) as app:
        here.acquire(spec(here, "user/1"))
        assert here.lock("user/1", namespace="shop").holders[0].identity == f"uid:{user}"
        here.acquire(spec(here, "group/1"))
        denied = failure(here.acquire, spec(here, "other/1"))
        assert denied.code == grpc.StatusCode.PERMISSION_DENIED and f"uid:{user} may not" in denied.message
        session = here.session()
        assert session.wait_for(session.acquire(spec(here, "user/2")), "granted").fencing_token > 0
        assert failure(tcp.acquire, spec(tcp, "user/3")).code == grpc.StatusCode.UNAUTHENTICATED
        assert failure(tcp.status).code == grpc.StatusCode.UNAUTHENTICATED
        # A token's caller is that one, and the user besides.
        app.acquire(spec(app, "order/1"))
        app.acquire(spec(app, "user/4"))
        assert here.lock("user/4", namespace="shop").holders[0].identity == "token:app"


def test_rights_are_those_of_the_policy(world):
    guarded = Guarded(world)
    with guarded.as_(APP) as app, guarded.as_(OPS) as ops:
        lease = app.acquire(spec(app, "order/1"))
        refused = failure(app.acquire, spec(app, "bill/7"))
        assert refused.code == grpc.StatusCode.PERMISSION_DENIED
        assert refused.message == "token:app may not take shop:bill/7 exclusive: no rule allows it"
        assert "rule not-the-vault denies it" in failure(app.acquire, spec(app, "order/vault/1")).message
        # The same answer whether the lock is held or not, and without asking the store.
        ops.acquire(spec(ops, "bill/7"))
        assert failure(app.acquire, spec(app, "bill/7")).message == refused.message
        assert app.lock("order/1", namespace="shop").holders[0].identity == "token:app"
        assert failure(app.lock, "bill/7", namespace="shop").code == grpc.StatusCode.PERMISSION_DENIED
        assert failure(app.force_release, "order/1", namespace="shop").code == grpc.StatusCode.PERMISSION_DENIED
        app.release(lease.lease_id)
        # A leaked lease id is useless to those who may not take the lock.
        leaked = ops.acquire(spec(ops, "bill/8")).lease_id
        assert failure(app.release, leaked).code == grpc.StatusCode.PERMISSION_DENIED
        assert failure(app.renew, leaked).code == grpc.StatusCode.PERMISSION_DENIED
        ops.release(leaked)
    line = eventually(lambda: re.search(r'.*\baccess\b.*decision=denied.*', guarded.daemon.log()), "an audit line")[0]
    assert "who=token:app" in line and "key=bill/7" in line and "verb=exclusive" in line
    assert guarded.daemon.metric("distlock_access_total", decision="denied", verb="exclusive") >= 3
    assert guarded.daemon.metric("distlock_access_total", decision="allowed", verb="exclusive") >= 3


def test_service_accounts_have_their_own_corner(world):
    issuer = Issuer(world.folder)
    guarded = Guarded(world, jwks=issuer.jwks())
    with guarded.as_(issuer.token(service_account("bill", "worker"))) as client:
        client.acquire(client.spec("worker/1", 0, namespace="bill"))
        assert "k8s:bill/worker may not" in failure(client.acquire, client.spec("other/1", 0, namespace="bill")).message
    wrong = {"expired": {"exp": int(time.time()) - 100}, "audience": {"aud": "else"}, "issuer": {"iss": "else"}}
    for claims in wrong.values():
        with guarded.as_(issuer.token(service_account("bill", "worker"), **claims)) as client:
            refused = failure(client.acquire, client.spec("worker/2", 0, namespace="bill"))
            assert refused.code == grpc.StatusCode.UNAUTHENTICATED, claims
    stranger = Issuer(world.folder, "k2")
    stranger.kid = "k1"
    with guarded.as_(stranger.token(service_account("bill", "worker"))) as client:
        assert "signature" in failure(client.acquire, client.spec("worker/3", 0, namespace="bill")).message


WORKER = service_account("bill", "worker")
LEEWAY_S = 60  # for which a token counts beyond its exp


def corner(client, key):
    """A lock that WORKER may take."""
    return client.spec(f"worker/{key}", 0, namespace="bill", ttl=5)


def test_a_session_whose_token_expires_keeps_what_it_has_and_takes_nothing_new(world):
    issuer = Issuer(world.folder)
    guarded = Guarded(world, jwks=issuer.jwks())
    ends = int(time.time()) + 3
    with guarded.as_(issuer.token(WORKER, exp=ends - LEEWAY_S)) as client:
        session = client.session()
        held = session.acquire(corner(client, "held"))
        session.wait_for(held, "granted")
        eventually(lambda: time.time() >= ends, "the end of the token")
        refused = session.wait_for(session.acquire(corner(client, "new")), "refused")
        assert time.time() < ends + 2
        assert refused.reason == api().REFUSAL_REASON_UNAUTHENTICATED and "has expired" in refused.message
        assert failure(client.acquire, corner(client, "call")).code == grpc.StatusCode.UNAUTHENTICATED
        until = boot_now() + 2 * 5  # twice the ttl
        eventually(lambda: boot_now() > until or not session.believes(held), "two ttls")
        assert session.believes(held) and not session.all("lost")
        session.send(authenticate=api().Authenticate(authorization=issuer.bearer(WORKER)))
        assert session.wait_for(session.acquire(corner(client, "again")), "granted").fencing_token > 0


def test_a_key_that_is_gone_proves_nothing_within_two_seconds(world):
    old, new = Issuer(world.folder, "old"), Issuer(world.folder, "new")
    guarded = Guarded(world, jwks=old.jwks())
    with guarded.as_(old.token(WORKER)) as client:
        session = client.session()
        held = session.acquire(corner(client, "held"))
        session.wait_for(held, "granted")
        began = time.monotonic()
        (guarded.folder / "jwks.json").write_text(new.jwks())
        taken = []

        def is_refused():
            taken.append(session.acquire(corner(client, len(taken))))
            answer = session.wait(lambda: session.all("refused", taken[-1]) or session.all("granted", taken[-1]), "it")
            return answer[0] if isinstance(answer[0], api().Refusal) else None
        refused = eventually(is_refused, "the key being gone")
        assert time.monotonic() - began < 2 + 1, "and a second for a busy machine"
        assert refused.reason == api().REFUSAL_REASON_UNAUTHENTICATED
        assert "the key of its token counts no more" in refused.message
        assert failure(client.acquire, corner(client, "call")).code == grpc.StatusCode.UNAUTHENTICATED
        session.send(authenticate=api().Authenticate(authorization=new.bearer(WORKER)))
        assert session.wait_for(session.acquire(corner(client, "again")), "granted").fencing_token > 0
        assert session.believes(held) and not session.all("lost")


def test_the_status_page_shows_no_lock_to_everybody(world):
    guarded = Guarded(world)
    with guarded.as_(OPS) as ops:
        ops.acquire(ops.spec("a-secret-key", 0))
        assert "a-secret-key" not in guarded.daemon.get("/page.json")[1]
        guarded.policy.write_text(POLICY + "- {name: page, who: [anyone], locks: ['default:*'], may: [list]}\n")
        eventually(lambda: "a-secret-key" in guarded.daemon.get("/page.json")[1], "the lock on the page")


def test_a_name_that_no_caller_can_have_is_told(world):
    who = f"jwt:{ISSUER}|system:serviceaccount:shop:worker"
    guarded = Guarded(world, policy=POLICY.replace('"token:ops"', f'"{who}", "token:ops"'))
    assert re.search(r"--policy: \S+policy\.yaml:5:9: .* the caller is k8s:shop/worker", guarded.daemon.log())


def test_a_changed_file_is_used_and_a_wrong_one_is_not(world):
    guarded = Guarded(world)
    with guarded.as_(APP) as app:
        before = guarded.generation()
        guarded.policy.write_text(POLICY.replace("shop:order/*", "shop:bill/*"))
        eventually(lambda: guarded.generation() > before, "the new policy")
        app.acquire(spec(app, "bill/1"))
        guarded.policy.write_text("version: 1\nrules: [oops]\n")
        eventually(lambda: "reload refused" in guarded.daemon.log(), "the refusal")
        assert re.search(r"policy\.yaml:2:9", guarded.daemon.log())
        app.acquire(spec(app, "bill/2"))
        assert guarded.daemon.metric("distlock_reloads_total", unit="policy", outcome="refused") == 1
        # As Kubernetes does: the file is a link into a folder that is swapped.
        new = guarded.folder / "new.yaml"
        new.write_text(POLICY)
        link = guarded.folder / "link"
        link.symlink_to(new)
        os.replace(link, guarded.policy)
        os.kill(guarded.daemon.pid, signal.SIGHUP)
        eventually(lambda: failure_or_none(app.acquire, spec(app, "order/9")) is None, "the first policy again")


def failure_or_none(call, *args):
    try:
        call(*args)
        return None
    except grpc.RpcError as error:
        return error


def test_a_stolen_token_is_out_within_two_seconds_and_the_validity(world):
    guarded = Guarded(world)
    with guarded.as_(APP) as app, guarded.as_(OPS) as ops:
        session = app.session()
        held = session.acquire(spec(app, "order/1", ttl=10))
        session.wait_for(held, "granted")
        guarded.policy.write_text(POLICY + "- {name: stolen, who: ['token:app'], locks: ['*'], deny: [acquire]}\n")
        began = time.monotonic()
        assert guarded.ctl("reload", token=OPS).returncode == 0
        session.wait_end()
        assert session.end[0] == grpc.StatusCode.PERMISSION_DENIED
        eventually(lambda: not ops.lock("order/1", namespace="shop").holders, "the lock's end")
        assert time.monotonic() - began < 2 + 1 + 1, "revocation, validity, and a second for a busy machine"
        refused = failure(app.acquire, spec(app, "order/2"))
        assert refused.code == grpc.StatusCode.PERMISSION_DENIED and "rule stolen" in refused.message
    assert guarded.daemon.metric("distlock_streams_closed_total", cause="revoked") == 1


def test_a_reload_keeps_every_stream_that_may_stay(world):
    guarded = Guarded(world)
    with guarded.as_(APP) as app:
        session = app.session()
        ids = session.acquire_each([spec(app, f"order/{i}") for i in range(200)])
        for one in ids:
            session.wait_for(one, "granted")
        for _ in range(30):
            assert guarded.ctl("reload", token=OPS).returncode == 0
        assert session.end is None and not session.all("lost")


def test_a_quota_is_of_the_caller(world):
    guarded = Guarded(world, policy=POLICY + "limits:\n- {who: ['token:app'], sessions: 2, leases: 3}\n")
    with guarded.as_(APP) as app, guarded.as_(APP) as other:
        one, two = app.session(), other.session()
        for i, session in enumerate((one, two, one)):
            session.wait_for(session.acquire(spec(app, f"order/{i}")), "granted")
        refused = two.wait_for(two.acquire(spec(app, "order/9")), "refused")
        assert refused.reason == api().REFUSAL_REASON_QUOTA_EXCEEDED and "token:app holds 3 locks" in refused.message
        with pytest.raises(AssertionError):
            app.session()
        one.goodbye()
        one.wait_end()
        eventually(lambda: two.wait_for(two.acquire(spec(app, "order/10")), "granted"), "room again")


def test_allow_all_refuses_nothing_and_says_what_it_would(world):
    guarded = Guarded(world, "--allow-all")
    with guarded.daemon.client() as client:
        client.acquire(spec(client, "order/vault/1"))
    with guarded.as_("dlt_wrong") as client:
        client.acquire(spec(client, "order/2"))
    assert "decision=would_deny" in guarded.daemon.log()
    assert guarded.daemon.metric("distlock_access_total", decision="would_deny", verb="exclusive") == 2
    assert guarded.daemon.metric("distlock_access_total", decision="would_deny", verb="proof") == 1


def test_distlockctl_asks_and_is_denied(world):
    guarded = Guarded(world)
    assert guarded.ctl("can-i", "exclusive", "shop:order/1", token=APP).returncode == 0
    denied = guarded.ctl("can-i", "exclusive", "shop:order/vault", token=APP)
    assert denied.returncode == 77 and "rule not-the-vault" in denied.stdout
    assert guarded.ctl("can-i", "drain", token=APP).returncode == 77
    assert guarded.ctl("can-i", "look", "shop:order/1", "--as", "k8s:shop/w", token=OPS).returncode == 0
    assert guarded.ctl("can-i", "look", "shop:order/1", "--as", "k8s:shop/w", token=APP).returncode == 77
    listed = guarded.ctl("can-i", "--list", token=APP)
    assert "token:app may:" in listed.stdout and "exclusive  shop:order/*  but not shop:order/vault*" in listed.stdout
    taken = guarded.ctl("run", "order/5", "--namespace", "shop", "--", "true", token=APP)
    assert taken.returncode == 0, taken.stderr
    for args in (("run", "bill/5", "--namespace", "shop", "--", "true"), ("drain",), ("sessions",), ("ls",),
                 ("store", "upgrade", "--to", "2"), ("quorum-init",)):
        denied = guarded.ctl(*args, token=APP)
        assert denied.returncode == 77, (args, denied)
    assert guarded.ctl("run", "order/5", "--namespace", "shop", "--", "true").returncode == 77
    assert "policy: reloaded" in guarded.ctl("reload", token=OPS).stdout
    upgrade = guarded.ctl("store", "upgrade", "--to", "2", token=OPS)
    assert upgrade.returncode == 78 and "which reads schema 1" in upgrade.stderr, upgrade
    assert re.search(r'store change.*who="?\S+ token:ops', guarded.daemon.log()), guarded.daemon.log()
    guarded.policy.write_text("version: 1\nrules: [x]\n")
    refused = guarded.ctl("reload", token=OPS)
    assert refused.returncode == 78 and "policy: refused" in refused.stdout


def test_policies_are_checked_without_a_broker(world):
    folder = pathlib.Path(world.folder)
    policy, cases = folder / "policy.yaml", folder / "cases.yaml"
    policy.write_text(POLICY)
    cases.write_text("- {who: 'token:app', verb: look, lock: 'shop:order/1', expect: allow}\n"
                     "- {who: anonymous, verb: drain, expect: deny}\n")

    def ctl(*args):
        return subprocess.run([CTL, *map(str, args)], capture_output=True, text=True, check=False, timeout=60)
    assert ctl("policy", "check", policy).returncode == 0
    assert ctl("policy", "test", policy, cases).returncode == 0
    cases.write_text("- {who: 'token:app', verb: drain, expect: allow}\n")
    wrong = ctl("policy", "test", policy, cases)
    assert wrong.returncode == 1 and "WRONG" in wrong.stdout
    policy.write_text("version: 1\nrules:\n- {name: a}\n")
    bad = ctl("policy", "check", policy)
    assert bad.returncode == 78 and "policy.yaml:3:3" in bad.stderr
    made = ctl("token", "new", "backup").stdout.splitlines()
    assert made[0].startswith("dlt_") and made[1].startswith("backup:") and len(made[1]) == len("backup:") + 64


@pytest.mark.parametrize("args, why", [
    (["--token-file", "t"], "needs --policy"),
    (["--policy", "/nonexistent"], "cannot be read"),
    (["--policy", "{bad}"], "policy.yaml:1:1"),
    (["--policy", "{good}", "--jwt-keys", "x"], "need each other"),
    (["--policy", "{good}", "--token-file", "{bad}"], "name:sha256"),
    (["--policy", "{good}", "--listen", "0.0.0.0:0", "--insecure-listen"], "rights need proof"),
])
def test_what_does_not_fit_stops_the_start(world, args, why):
    folder = pathlib.Path(world.folder)
    (folder / "good.yaml").write_text(POLICY)
    (folder / "policy.yaml").write_text("oops\n")
    args = [one.format(bad=folder / "policy.yaml", good=folder / "good.yaml") for one in args]
    process = Process("refused", [DISTLOCKD, "--listen", f"unix://{folder}/x.sock", "--redis", world.redis().url,
                                  "--http=", *args], folder)
    process.launch()
    assert process.exit_code() == 78
    assert why in process.log()
