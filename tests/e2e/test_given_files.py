# SPDX-License-Identifier: Apache-2.0
"""What is given by name is a regular file of bounded size, or is refused by name: at the start, at a reload, by
distlockctl. Nothing waits for it: SIGTERM ends the broker."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from attacks import make_certificates
from harness import DISTLOCKD, eventually
from measures import resident_mb

CTL = str(pathlib.Path(DISTLOCKD).parent / "distlockctl")
WRONG = {"is a FIFO": os.mkfifo, "is a folder": os.mkdir, "is a device": lambda path: os.symlink("/dev/zero", path),
         "is larger than": lambda path: os.truncate(_made(path), 2 << 20)}
KEY_SET = '{"keys":[{"kty":"EC","crv":"P-256","kid":"a",' \
          '"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}'
OF_JWT = ("--jwt-issuer=i", "--jwt-audience=a")
POLICY = "version: 1\nrules:\n- {name: all, who: [anyone], locks: ['*'], may: [acquire, look]}\n"


def _made(path):
    path.touch()
    return path


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("pems"))


@pytest.fixture
def given(world, pems):
    """What a broker is given, each in a file that a test may replace, by option."""
    names = {"tls-cert": "cert.pem", "tls-key": "key.pem", "tls-client-ca": "ca.pem"}
    files = {}
    for option, name in names.items():
        files[option] = pathlib.Path(shutil.copy(pems / name, world.folder / f"given.{name}"))
    files["policy"], files["token-file"] = world.folder / "policy", world.folder / "tokens"
    files["policy"].write_text(POLICY)
    files["token-file"].write_text("a:" + "0" * 64 + "\n")
    return files


def flags(files):
    return ["--listen", "127.0.0.1:0", "--drain-timeout", "1s", *(f"--{name}={path}" for name, path in files.items())]


@pytest.mark.parametrize("what", WRONG)
def test_the_start_names_it(world, given, what):
    redis = world.redis()
    for option in (*given, "config", "redis-password-file", "sentinel-password-file", "jwt-keys"):
        wrong = world.folder / f"wrong.{option}"
        WRONG[what](wrong)
        url = "redis+sentinel://127.0.0.1:1/main" if option.startswith("sentinel") else redis.url
        more = OF_JWT if option == "jwt-keys" else ()
        done = subprocess.run([DISTLOCKD, "--http=", f"--redis={url}", *flags({**given, option: wrong}), *more],
                              capture_output=True, text=True, timeout=10, check=False)
        assert done.returncode == 78, (option, done)
        [line] = [line for line in done.stderr.splitlines() if what in line]
        assert str(wrong) in line and (option in line or "secret file" in line), line


@pytest.mark.parametrize("what", WRONG)
def test_the_start_names_the_files_of_the_store_s_tls(world, pems, what):
    wrong = world.folder / "wrong"
    WRONG[what](wrong)
    for query in (f"ca={wrong}", f"ca={pems}/ca.pem&cert={wrong}&key={pems}/client.key",
                  f"ca={pems}/ca.pem&cert={pems}/client.pem&key={wrong}"):
        done = subprocess.run([DISTLOCKD, "--http=", f"--listen=unix://{world.folder}/s.sock",
                               f"--redis=rediss://127.0.0.1:1?{query}"],
                              capture_output=True, text=True, timeout=10, check=False)
        assert done.returncode == 78, (query, done)
        assert any(what in line and str(wrong) in line for line in done.stderr.splitlines()), (query, done)


@pytest.mark.parametrize("option", ["tls-cert", "tls-key", "tls-client-ca", "policy", "token-file", "jwt-keys"])
@pytest.mark.parametrize("what", WRONG)
def test_a_reload_names_it_and_sigterm_ends_the_broker(world, given, option, what):
    given["jwt-keys"] = world.folder / "jwks"
    given["jwt-keys"].write_text(KEY_SET)
    daemon = world.distlockd(world.redis().url, *flags(given), *OF_JWT)
    given[option].unlink()
    WRONG[what](given[option])
    os.kill(daemon.pid, signal.SIGHUP)
    said = rf"reload refused.*{re.escape(str(given[option]))}.*{what}"
    eventually(lambda: re.search(said, daemon.log()), "the refusal")
    with daemon.client() as client:
        client.release(client.acquire(client.spec("still served", 0)).lease_id)
    assert resident_mb(daemon.pid) < 150
    begin = time.monotonic()
    assert daemon.drain() == 0 and time.monotonic() - begin < 5


def test_a_key_set_that_proves_nothing_is_not_put_in_force(world, given):
    keys = world.folder / "jwks"
    keys.write_text(KEY_SET)
    daemon = world.distlockd(world.redis().url, *flags(given), "--jwt-keys", keys, *OF_JWT)
    for count, (wrong, why) in enumerate([('{"keys":[]}', "would verify no token"),
                                          ('{"keys":[{"kty":"RSA","kid":"a","n":"AQ","e":"AQAB"}]}', "of 1 bits"),
                                          ("s3cret", "no JSON web key set")], 1):
        keys.write_text(wrong)
        eventually(lambda: daemon.log().count("reload refused") == count, f"refusal {count}")
        assert why in daemon.log() and "s3cret" not in daemon.log()


def test_the_folder_of_a_socket_that_is_made_is_told(world):
    made = [world.folder / name for name in ("first", "second")]
    daemon = world.distlockd(world.redis().url, "--admin-listen", f"unix://{made[1]}/admin.sock",
                             listen=f"unix://{made[0]}/d.sock")
    for folder in made:
        assert re.search(rf"made the folder of a unix socket.*{re.escape(str(folder))}", daemon.log())


def ctl(*args, **env):
    return subprocess.run([CTL, *map(str, args)], capture_output=True, text=True, timeout=10, check=False,
                          env={**os.environ, **{name: str(value) for name, value in env.items()}})


@pytest.mark.parametrize("what", WRONG)
def test_distlockctl_names_it(world, given, what):
    daemon = world.distlockd(world.redis().url)
    wrong = world.folder / "wrong"
    WRONG[what](wrong)
    for args in (("policy", "check", wrong), ("policy", "test", given["policy"], wrong)):
        done = ctl(*args)
        assert done.returncode == 78 and f"{wrong}: {what}" in done.stderr, done
    for option in ("--tls-ca", "--tls-cert", "--tls-key"):
        pair = {"--tls-cert": ["--tls-key", given["tls-key"]], "--tls-key": ["--tls-cert", given["tls-cert"]]}
        done = ctl("status", "--server", "tls://127.0.0.1:1", option, wrong, *pair.get(option, []))
        assert done.returncode not in (0, 70) and f"'{wrong}' {what}" in done.stderr, done
    done = ctl("status", "--server", daemon.url, DISTLOCK_TOKEN_FILE=wrong)
    assert done.returncode == 64 and f"DISTLOCK_TOKEN_FILE: '{wrong}' {what}" in done.stderr, done
