# SPDX-License-Identifier: Apache-2.0
"""Locks over HTTP with curl: leases, long polls, streams of events, keys of every kind, users of a unix socket."""
import base64
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import grpc
import pytest

from client import api
from curl import JSON, Answer, Curl, Events, answer_of, http_face
from harness import REPOSITORY, eventually
from proxy import PATIENCE_S
from test_http_errors import face


def grant_of(answer):
    assert answer.status == 200, answer.body
    return answer.json["grants"][0]


def key_path(key, namespace="default"):
    return f"{namespace}/{urllib.parse.quote(key, safe='')}"


def test_the_life_of_a_lease(world):
    daemon, curl = face(world)
    grant = grant_of(curl.acquire("k", owner="me", ttl="5s", metadata={"job": "1"}))
    lease = {"leaseId": grant["leaseId"]}
    lock = curl("/v1/locks/default/k").json["lock"]
    assert lock["holders"][0]["owner"] == "me" and lock["holders"][0]["metadata"] == {"job": "1"}
    assert curl.post("/v1/renew", lease).json["ttl"] == "5s"
    checked = curl(f"/v1/check-token/default/k?fencingToken={grant['fencingToken']}").json
    assert checked == {"newest": True, "newestToken": grant["fencingToken"]}
    assert curl.post("/v1/downgrade", lease).json == {}
    assert curl.acquire("k", mode="LOCK_MODE_SHARED").status == 200
    assert curl.post("/v1/release", lease).json == {"outcome": "RELEASE_OUTCOME_RELEASED"}
    assert curl.post("/v1/release", lease).json == {"outcome": "RELEASE_OUTCOME_ALREADY_GONE"}
    assert curl("/v1/locks").json["locks"][0]["key"] == "k"
    assert curl("/v1/status").json["listenAddresses"] == [daemon.url]
    assert curl("/v1/sessions").json["sessions"] == []
    assert curl("/health").json == {"status": "SERVING"}
    assert curl("/health", "-I").status == curl("/v1/watch/default/k", "-I").status == 200
    assert curl.post("/v1/can-i", {"verb": "exclusive", "key": "k"}).json["allowed"]


def test_several_locks_and_a_repeated_request(world):
    _, curl = face(world)
    both = {"locks": [{"key": "a", "maxWait": "0s"}, {"key": "b", "max_wait": "0s"}], "requestId": "r" * 20}
    first, again = (curl.post("/v1/acquire", both).json["grants"] for _ in range(2))
    assert [g["key"] for g in first] == ["a", "b"]
    assert [g["fencingToken"] for g in first] == [g["fencingToken"] for g in again]


@pytest.mark.parametrize("key", ["a/b", "a//b", "../..", "%41", "a?b#c&d=e", "ä\u2028\u202e", "<img onerror=x>",
                                 "a b+c", "k" * 512, "\x00\x01", "'\"\\"])
def test_keys_of_every_kind(world, key):
    _, curl = face(world)
    grant_of(curl.acquire(key))
    assert curl(f"/v1/locks/{key_path(key)}").json["lock"]["key"] == key
    assert curl(f"/v1/locks/{key_path(key)}").json["lock"]["holderCount"] == 1
    assert curl(f"/v1/locks?keyPrefix={urllib.parse.quote_plus(key)}").json["locks"][0]["key"] == key


def test_a_long_poll_gets_the_lock_when_it_is_free(world):
    _, curl = face(world)
    grant = grant_of(curl.acquire("k", ttl="600s"))
    waiting = curl.acquire_later("k", owner="second")
    eventually(lambda: curl("/v1/locks/default/k").json["lock"]["queueLength"] == 1, "the second queueing")
    curl.post("/v1/release", {"leaseId": grant["leaseId"]})
    assert int(grant_of(answer_of(waiting))["fencingToken"]) > int(grant["fencingToken"])


def test_who_leaves_a_long_poll_leaves_the_queue(world):
    _, curl = face(world)
    grant = grant_of(curl.acquire("k", ttl="600s"))
    waiting = curl.acquire_later("k")
    eventually(lambda: curl("/v1/locks/default/k").json["lock"]["queueLength"] == 1, "it queueing")
    waiting.kill()
    waiting.wait()
    eventually(lambda: curl("/v1/locks/default/k").json["lock"]["queueLength"] == 0, "it having left the queue")
    curl.post("/v1/release", {"leaseId": grant["leaseId"]})
    assert curl("/v1/locks/default/k").json["lock"]["holderCount"] == 0


def test_who_leaves_as_it_is_granted_has_the_answer_or_no_lock(world):
    daemon, curl = face(world)
    host, port = curl.at.removeprefix("http://").rsplit(":", 1)
    body = json.dumps({"locks": [{"key": "k", "maxWait": "60s", "ttl": "600s"}]})
    request = f"POST /v1/acquire HTTP/1.1\r\nHost: {host}\r\n{JSON}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    answered = 0
    with daemon.client() as client:
        for turn in range(60):
            # A lock that a turn before has kept would be held for ten minutes.
            mine = client.acquire(client.spec("k", max_wait=30.0, owner=f"turn {turn}", ttl=600.0))
            with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as leaving:
                leaving.sendall(request.encode())
                eventually(lambda: client.lock("k").queue_length == 1, "it queueing")
                # Some leave before the grant, and some at the same moment or after.
                release = threading.Thread(target=client.release, args=(mine.lease_id,))
                release.start()
                time.sleep(turn % 12 / 10000)
                leaving.shutdown(socket.SHUT_WR)
                with leaving.makefile("rb") as stream:
                    answer = stream.read().decode()
                release.join()
            if answer:
                answered += 1
                client.release(Answer(answer).json["grants"][0]["leaseId"])
    print(f"{answered} of 60 had their answer")


def threads(daemon):
    return int(next(line.split()[1] for line in pathlib.Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
                    if line.startswith("Threads:")))


def test_what_waits_needs_no_thread(world):
    daemon, curl = face(world)
    grant = grant_of(curl.acquire("k", ttl="600s"))
    before = threads(daemon)
    waiting = [curl.acquire_later("k", ttl="60s") for _ in range(20)]
    watching = [Events(curl.later(f"/v1/watch/default/w{i}")) for i in range(20)]
    eventually(lambda: curl("/v1/locks/default/k").json["lock"]["queueLength"] == 20, "all of them waiting")
    # gRPC's own pool may add some while it is busy; a thread each would be forty.
    assert threads(daemon) < before + 10
    for stream in watching:
        stream.close()
    for one in waiting:
        one.kill()
        one.wait()
    eventually(lambda: curl("/v1/status").json["sessions"] == "0", "the watches having ended")
    assert curl("/v1/locks/default/k").json["lock"]["holders"][0]["holderId"] == grant["holderId"]


def test_a_watch_tells_each_change(world):
    _, curl = face(world)
    key = "a/<b>\n\u2028"
    stream = Events(curl.later(f"/v1/watch/{key_path(key)}"))
    assert "content-type: text/event-stream" in stream.head.lower()
    assert "x-accel-buffering: no" in stream.head.lower(), "nginx as it comes would keep events back"
    kind, free = stream.next()
    assert kind == "lock" and free["lock"]["key"] == key and free["lock"]["holders"] == []
    grant = grant_of(curl.acquire(key, owner="me"))
    while not (held := stream.next()[1]["lock"])["holders"]:
        pass
    assert held["holders"][0]["owner"] == "me"
    curl.post("/v1/release", {"leaseId": grant["leaseId"]})
    while stream.next()[1]["lock"]["holders"]:
        pass
    stream.close()
    eventually(lambda: curl("/v1/status").json["sessions"] == "0", "the watch having ended")


def test_a_watch_of_a_prefix_and_its_end(world):
    daemon, curl = face(world, "--drain-timeout", "1s")
    grant_of(curl.acquire("jobs/1"))
    stream = Events(curl.later("/v1/watch?keyPrefix=jobs/"))
    seen, listed = set(), False
    while not listed:
        kind, told = stream.next()
        assert kind == "locks"
        seen |= {lock["key"] for lock in told["locks"]}
        listed = told["listed"]
    assert seen == {"jobs/1"}
    daemon.terminate()
    kind, status = stream.next()
    assert (kind, status["details"][0]["reason"]) == ("error", "DRAINING")
    assert daemon.exit_code() == 0
    stream.close()


def test_a_watch_that_is_refused_is_no_stream(world):
    _, curl = face(world, "--limits", "max-prefix-watches=0")
    refused = curl("/v1/watch?keyPrefix=jobs/")
    assert (refused.status, refused.reason) == (429, "QUOTA_EXCEEDED")


def test_an_operator_takes_a_lock_away(world):
    folder = pathlib.Path(world.folder)
    daemon = world.distlockd(world.redis().url, "--http-api", f"unix://{folder}/http.sock")
    curl = Curl(http_face(daemon))
    grant_of(curl.acquire("k"))
    taken = curl.post("/v1/force-release", {"key": "k", "reason": "stuck"})
    assert taken.json == {"released": 1}, taken.body
    assert "unix:" in daemon.log() and "stuck" in daemon.log()


def test_over_tcp_nobody_takes_a_lock_away(world):
    _, curl = face(world)
    grant_of(curl.acquire("k"))
    refused = curl.post("/v1/force-release", {"key": "k"})
    assert (refused.status, refused.reason) == (403, "PERMISSION_DENIED")


def test_a_unix_socket_knows_its_user(world):
    folder = pathlib.Path(world.folder)
    policy = folder / "policy.yaml"
    policy.write_text(f'version: 1\nrules:\n- name: us\n  who: ["uid:{os.getuid()}"]\n  locks: ["*"]\n'
                      "  may: [exclusive, look]\n", encoding="utf-8")
    daemon = world.distlockd(world.redis().url, "--http-api", f"unix://{folder}/http.sock", "--policy", policy)
    curl = Curl(http_face(daemon))
    grant_of(curl.acquire("k"))
    assert curl("/v1/locks/default/k").json["lock"]["holders"][0]["identity"] == f"uid:{os.getuid()}"
    refused = curl.acquire("k", mode="LOCK_MODE_SHARED")
    assert (refused.status, refused.reason) == (403, "PERMISSION_DENIED")


def test_nobody_from_outside_passes_for_the_face(world):
    """The metadata by which the face says for whom it calls counts for nothing without its secret."""
    folder = pathlib.Path(world.folder)
    policy = folder / "policy.yaml"
    policy.write_text('version: 1\nrules:\n- name: root\n  who: ["uid:12345"]\n  locks: ["*"]\n  may: [acquire]\n',
                      encoding="utf-8")
    daemon = world.distlockd(world.redis().url, "--http-api", "127.0.0.1:0", "--policy", policy)
    headers = ("distlock-inside-peer: unix:", "distlock-inside-unix-ids: 12345 12345", "distlock-inside-secret: ",
               "distlock-inside-keeps-secrets: 1")
    curl = Curl(http_face(daemon), *(part for header in headers for part in ("-H", header)))
    assert curl.acquire("k").status == 401
    with daemon.client() as client:
        metadata = [tuple(header.split(": ", 1)) for header in headers]
        call = client.channel.unary_unary("/distlock.v1.LockService/Acquire",
                                          request_serializer=api().AcquireRequest.SerializeToString,
                                          response_deserializer=api().AcquireResponse.FromString)
        request = api().AcquireRequest(locks=[client.spec("k", max_wait=0.0)])
        with pytest.raises(grpc.RpcError) as refused:
            call(request, metadata=metadata, timeout=PATIENCE_S)
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert refused.value.details().startswith(f"uid:{os.getuid()} "), "the kernel says who calls"


def test_what_headers_say_names_nobody(world):
    """Neither who calls and from where, nor where a watch goes on."""
    folder = pathlib.Path(world.folder)
    policy = folder / "policy.yaml"
    policy.write_text(f'version: 1\nrules:\n- name: us\n  who: ["uid:{os.getuid()}"]\n  locks: ["*"]\n'
                      "  may: [exclusive, look, watch]\n  broker: [sessions]\n", encoding="utf-8")
    daemon = world.distlockd(world.redis().url, "--http-api", f"unix://{folder}/http.sock", "--policy", policy)
    said = ("X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9", "Forwarded: for=203.0.113.9",
            "X-Forwarded-Client-Cert: URI=spiffe://example.org/ns/shop/sa/admin", "X-Forwarded-User: uid:12345",
            "X-Forwarded-Host: evil.example", "Last-Event-ID: 7",
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    curl = Curl(http_face(daemon), *(part for header in said for part in ("-H", header)))
    grant_of(curl.acquire("k"))
    holder, = curl("/v1/locks/default/k").json["lock"]["holders"]
    assert holder["identity"] == f"uid:{os.getuid()}"
    assert curl.acquire("other", mode="LOCK_MODE_SHARED").status == 403
    stream = Events(curl.later("/v1/watch/default/k"))
    assert stream.next()[1]["lock"]["holders"][0]["holderId"] == holder["holderId"], "from the beginning"
    watch, = curl("/v1/sessions").json["sessions"]
    assert (watch["identity"], watch["peer"]) == (f"uid:{os.getuid()}", "unix:")
    assert "203.0.113.9" not in daemon.log()
    stream.close()


def test_a_page_token_shows_nothing_outside_of_its_search(world):
    """Whoever asks can make one, and name any lock in it."""
    folder, me = pathlib.Path(world.folder), f"uid:{os.getuid()}"
    policy = folder / "policy.yaml"
    policy.write_text(f'version: 1\nrules:\n- {{name: own, who: ["{me}"], locks: ["team:a*"], may: [acquire, list]}}\n'
                      f'- {{name: hr, who: ["{me}"], locks: ["hr:*"], may: [acquire]}}\n', encoding="utf-8")
    daemon = world.distlockd(world.redis().url, "--http-api", f"unix://{folder}/http.sock", "--policy", policy)
    curl = Curl(http_face(daemon))
    for namespace, key in (("hr", "payroll"), ("team", "a1")):
        grant_of(curl.acquire(key, namespace=namespace))
    names = base64.urlsafe_b64encode(b"all\nhr/payroll\nteam/b\nteam/a1").decode().rstrip("=")
    bound = base64.urlsafe_b64encode(hashlib.sha256(f"{len(me)} {me}team/a".encode()).digest()[:9]).decode()
    search = "/v1/locks?namespace=team&keyPrefix=a&pageToken="
    assert [lock["key"] for lock in curl(search + bound + names).json["locks"]] == ["a1"]
    for of_another in (names, bound + "AAAA", "A" * 12 + names):
        assert curl(search + of_another).status == 400, of_another
    assert curl("/v1/locks?namespace=hr&pageToken=" + bound + names).status == 403


def test_the_description_names_what_there_is(world):
    _, curl = face(world)
    described = curl("/openapi.json").json
    printed = subprocess.run([sys.executable, "-B", REPOSITORY / "server/web/openapi.py"], capture_output=True,
                             check=True).stdout
    assert described == json.loads(printed) and described["paths"]
    for path, verbs in described["paths"].items():
        for verb in verbs:
            at = path.replace("{namespace}", "default").replace("{key}", "k")
            answer = curl(at, "-X", "OPTIONS")
            assert (answer.status, answer.headers["allow"]) == (405, verb.upper()), path
