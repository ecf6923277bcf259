# SPDX-License-Identifier: Apache-2.0
"""The table of reasons and HTTP codes of server/web/README.md, row by row, with curl against a real broker."""
import pathlib
import re
import subprocess

import pytest

from access_files import static_token
from curl import JSON, Curl, answer_of, http_face
from harness import DISTLOCKD, REPOSITORY, eventually

README = pathlib.Path(REPOSITORY, "server/web/README.md").read_text(encoding="utf-8")
TABLE = {reason: (int(status), retry.strip() == "yes") for reason, status, retry in
         re.findall(r"^\| `([A-Z_]+)` \| (\d+) \| (yes)? *\|$", README, re.MULTILINE)}
# For streams and sessions alone; tests/web has them.
NEVER_HERE = {"LEASE_LOST", "CANCELLED"}
POLICY = """
version: 1
rules:
- name: app
  who: ["token:app"]
  locks: ["default:mine/*"]
  may: [acquire, look]
"""
APP, APP_LINE = static_token("app")


def face(world, *args, url=None, **how):
    """(daemon, curl) of a broker with an HTTP face."""
    daemon = world.distlockd(url or world.redis().url, "--http-api", "127.0.0.1:0", *args, **how)
    return daemon, Curl(http_face(daemon))


def leave_permit(curl):
    return curl.acquire("p", mode="LOCK_MODE_PERMIT", permits=1, limit=3).json["grants"][0]["leaseId"]


def lock_held(world):
    _, curl = face(world)
    curl.acquire("k", owner="first")
    refused = curl.acquire("k")
    holder = refused.detail("Refusal")["holders"][0]
    assert holder["owner"] == "first" and holder["holderId"] in refused.json["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 15
    return refused


def wait_timeout(world):
    _, curl = face(world)
    curl.acquire("k", owner="first")
    return curl.acquire("k", wait="0.1s")


def not_holder(world):
    _, curl = face(world)
    lease = {"leaseId": curl.acquire("k").json["grants"][0]["leaseId"]}
    assert curl.post("/v1/release", lease).json == {"outcome": "RELEASE_OUTCOME_RELEASED"}
    return curl.post("/v1/renew", lease)


def limit_mismatch(world):
    _, curl = face(world)
    leave_permit(curl)
    return curl.acquire("p", mode="LOCK_MODE_PERMIT", permits=1, limit=4)


def foreign_key(world):
    redis = world.redis()
    _, curl = face(world, url=redis.url)
    redis.command("SET", redis.key("k", "h"), "somebody else's")
    return curl.acquire("k")


def invalid_argument(world):
    _, curl = face(world)
    refused = curl.acquire("", ttl="-1s")
    assert {p["field"] for p in refused.detail("BadRequest")["fieldViolations"]} == {"locks[0].key", "locks[0].ttl"}
    return refused


def guarded(world):
    policy, tokens = pathlib.Path(world.folder, "policy.yaml"), pathlib.Path(world.folder, "tokens")
    policy.write_text(POLICY, encoding="utf-8")
    tokens.write_text(APP_LINE, encoding="utf-8")
    tokens.chmod(0o600)
    return face(world, "--policy", policy, "--token-file", tokens)[1]


def unauthenticated(world):
    curl = guarded(world)
    for wrong in ("Authorization: Bearer dlt_wrong", "Authorization: Basic YTpi", "Authorization: Bearer \x80", None):
        refused = curl.acquire("mine/k", *(("-H", wrong) if wrong else ()))
        assert refused.status == 401 and refused.headers["www-authenticate"].startswith("Bearer"), wrong
    assert curl.acquire("mine/k", "-H", f"Authorization: Bearer {APP}").status == 200
    return refused


def permission_denied(world):
    refused = guarded(world).acquire("other/k", "-H", f"Authorization: Bearer {APP}")
    assert refused.detail("Refusal")["denial"]["identity"] == "token:app"
    return refused


def quota_exceeded(world):
    _, curl = face(world, "--limits", "requests-per-second=1")
    answers = (curl.acquire("k") for _ in range(50))
    return next(answer for answer in answers if answer.status != 409 and answer.status != 200)


def not_supported(world):
    _, curl = face(world)
    return curl.post("/v1/downgrade", {"leaseId": leave_permit(curl)})


def store_unavailable(world):
    redis = world.redis()
    _, curl = face(world, "--store-timeout", "2s", url=redis.url)
    redis.kill()
    eventually(lambda: curl("/health").status == 503, "the broker knowing that its store is gone")
    assert curl("/health").headers["retry-after"] == "1"
    return curl.acquire("k")


def quorum_not_reached(world):
    servers = [world.redis(name=f"server{i}", tcp=True) for i in range(3)]
    url = "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)
    _, curl = face(world, "--quorum-new", "--max-ttl", "8s", "--default-ttl", "6s", url=url)
    for server in servers[:2]:
        server.kill()
    answers = (curl.acquire("k") for _ in range(100))
    return next(answer for answer in answers if answer.reason == "QUORUM_NOT_REACHED")


def draining(world):
    daemon, curl = face(world)
    with daemon.client() as client:
        held = client.hold(client.spec("held"))
        held.wait_for("granted")
        daemon.terminate()
        held.wait_for("draining")
        return curl.acquire("k")


def store_full(world):
    redis = world.redis()
    _, curl = face(world, url=redis.url)
    redis.command("CONFIG", "SET", "maxmemory", "1")
    return curl.acquire("k")


def store_hold_off(world):
    _, curl = face(world, "--failover-hold-off", "30s", url=world.redis().url)
    return curl.acquire("k")


ROWS = {"LOCK_HELD": lock_held, "WAIT_TIMEOUT": wait_timeout, "NOT_HOLDER": not_holder,
        "LIMIT_MISMATCH": limit_mismatch, "FOREIGN_KEY": foreign_key, "INVALID_ARGUMENT": invalid_argument,
        "UNAUTHENTICATED": unauthenticated, "PERMISSION_DENIED": permission_denied, "QUOTA_EXCEEDED": quota_exceeded,
        "NOT_SUPPORTED": not_supported, "STORE_UNAVAILABLE": store_unavailable,
        "QUORUM_NOT_REACHED": quorum_not_reached, "DRAINING": draining, "STORE_FULL": store_full,
        "STORE_HOLD_OFF": store_hold_off}


def test_every_reason_has_a_row_and_every_row_a_test():
    proto = pathlib.Path(REPOSITORY, "proto/distlock/v1/lock.proto").read_text(encoding="utf-8")
    reasons = set(re.findall(r"REFUSAL_REASON_(\w+) = [1-9]", proto))
    assert reasons == set(TABLE) == set(ROWS) | NEVER_HERE


@pytest.mark.parametrize("reason", sorted(ROWS))
def test_a_reason_is_answered_with_its_code(world, reason):
    answer = ROWS[reason](world)
    status, retry = TABLE[reason]
    assert (answer.status, answer.reason) == (status, reason), answer.body
    assert answer.headers["content-type"] == "application/json"
    assert ("retry-after" in answer.headers) == retry
    if retry:
        assert int(answer.headers["retry-after"]) >= 1


def test_what_only_http_has(world):
    _, curl = face(world, "--http-host", "locks.example")
    assert curl("/v2/locks").status == 404
    refused = curl("/v1/acquire")
    assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert curl.post("/v1/acquire", "{" + " " * 70_000 + "}").json["message"].endswith("at most 65536 bytes")
    assert curl("/v1/acquire", "-d", "{}").status == 415
    assert curl("/v1/acquire", "-H", "Content-Type: text/plain", "-d", "{}").status == 415
    assert curl.post("/v1/acquire", '{"locks": [').status == 400
    assert curl.post("/v1/acquire", '{"lokcs": []}').status == 400
    for body in ("not\njson", '{"locks":[{"key":"k","ttl":"soon"}]}', '{"locks":[{"key":"k","limit":"x"}]}'):
        message = curl.post("/v1/acquire", body).json["message"]
        assert "\\" not in message and "\n" not in message, message  # the JSON has escaped it once
    for body in ('{"locks":[{"key":"d1","key":"d2"}]}', '{"locks":[{"key":"d1"}],"locks":[{"key":"d2"}]}',
                 '{locks:[{"key":"d1"}]}', "{'locks':[{'key':'d1'}]}", '{"requestId":"a","request_id":"b"}'):
        assert curl.post("/v1/acquire", body).status == 400, body
    assert curl("/v1/locks?page=1").status == 400
    assert curl("/v1/locks?pageSize=many").status == 400
    assert curl("/v1/locks/default/a%zz").status == 400
    assert curl("/v1/locks", "-H", "X: " + "h" * 40_000).status == 431
    assert curl.acquire("k", wait="61s").status == 400


def test_what_proxies_and_probes_send(world):
    _, curl = face(world)
    whole = ("--request-target", "http://127.0.0.1:1/v1/status")
    assert curl("/", *whole).json["listenAddresses"]
    assert curl("/", *whole, "-H", "Host: evil.example").status == 200, "the target's host counts"
    assert curl("/", "--request-target", "http://evil.example/v1/status").status == 421
    assert curl("/health", "-0", "-H", "Host:").status == 200, "a probe by HTTP/1.0 has no Host"
    assert curl("/v1/status", "-0", "-H", "Host:").status == 421
    assert curl("/health", "-H", "Host:").status == 400
    body = ("-H", JSON, "-d", '{"locks":[{"key":"k","maxWait":"0s"}]}')
    packed = curl("/v1/acquire", "-H", "Content-Encoding: gzip", *body)
    assert (packed.status, packed.headers["accept-encoding"]) == (415, "identity") and "gzip" in packed.body
    assert curl("/v1/acquire", "-H", "Content-Encoding: identity", *body).status == 200


def test_a_connection_is_kept_for_longer_than_balancers_do_and_its_end_is_announced(world):
    daemon, curl = face(world, "--drain-timeout", "60s")
    assert curl("/v1/status").headers["keep-alive"] == "timeout=75"
    with daemon.client() as client:
        session = client.session()
        session.wait_for(session.acquire(client.spec("k")), "granted")
        daemon.terminate()
        eventually(lambda: curl("/v1/status").headers.get("connection") == "close", "the end being announced")
        session.goodbye()
        assert daemon.exit_code() == 0


def test_pages_elsewhere_get_nothing(world):
    _, curl = face(world, "--http-host", "locks.example")
    for host in ("evil.example", "locks.example.evil.example", "127.0.0.1.evil.example", "[::1].evil.example",
                 "localhost:80@evil.example", ""):
        assert curl("/v1/locks", "-H", f"Host: {host}" if host else "Host;").status == 421, host
    for host in ("localhost", "LocalHost:80", "127.0.0.1", "[::1]:7421", "locks.example:1"):
        assert curl("/v1/locks", "-H", f"Host: {host}").status == 200, host
    body = ("-H", JSON, "-d", '{"locks":[{"key":"k","maxWait":"0s"}]}')
    for header in ("Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site",
                   "Sec-Fetch-Site: same-site"):
        assert curl("/v1/acquire", "-H", header, *body).status == 403, header
        assert curl("/v1/locks", "-H", header).status == 403, header
    assert curl("/v1/acquire", "-X", "OPTIONS", "-H", "Origin: http://evil.example").status == 403
    ours = curl("/v1/acquire", "-H", f"Origin: {curl.at}", "-H", "Sec-Fetch-Site: same-origin", *body)
    assert ours.status == 200
    assert not [name for name in ours.headers if name.startswith("access-control") or name == "set-cookie"]


def test_connections_beyond_the_share_of_one_caller_are_told_so(world):
    daemon, curl = face(world, "--limits", "http-api-connections=6")
    curl.acquire("k", ttl="600s")
    with daemon.client() as client:
        waiting = []
        for count in (1, 2, 3):
            # The connection of the one before may take a moment to end, and counts until then.
            waiting.append(curl.acquire_later("k"))
            eventually(lambda: client.lock("k").queue_length == count, f"{count} of them waiting")
    refused = curl("/v1/locks")
    assert (refused.status, refused.json["code"], refused.headers["retry-after"]) == (503, 14, "1")
    assert "one caller" in refused.json["message"]
    assert curl("/v1/locks", "--interface", "127.0.0.2").status == 200, "another address has a share of its own"
    for one in waiting:
        one.kill()
        one.wait()
    eventually(lambda: curl("/v1/locks").status == 200, "a connection being free")


def test_it_listens_on_this_machine_only(world):
    for address, why in (("0.0.0.0:0", "not loopback"), ("10.0.0.1:80", "not loopback"), ("x", "no port"),
                         ("unix:x", "absolute path")):
        refused = subprocess.run([DISTLOCKD, "--http-api", address, "--print-config"], capture_output=True, text=True,
                                 check=False)
        assert refused.returncode == 64 and why in refused.stderr and "--http-api" in refused.stderr


def test_the_end_of_the_broker_answers_who_waits(world):
    daemon, curl = face(world, "--drain-timeout", "0s")
    curl.acquire("k", ttl="600s")
    waiting = curl.acquire_later("k")
    eventually(lambda: curl("/v1/status").json["waiters"] == "1", "the request waiting")
    assert daemon.drain() == 0
    answer = answer_of(waiting)
    assert answer.status == 503 and "retry-after" in answer.headers
