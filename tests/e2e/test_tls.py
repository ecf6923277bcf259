# SPDX-License-Identifier: Apache-2.0
"""TLS of the TCP listeners: who is let in, files that are wrong, and files that are replaced while locks are held."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import grpc
import pytest

from access_files import static_token
from attacks import make_certificates, sign_certificate
from client import CHANNEL_OPTIONS, Client, api, failure
from harness import DISTLOCKD, REPOSITORY, eventually

CTL = str(pathlib.Path(DISTLOCKD).parent / "distlockctl")


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("pems"))


@pytest.fixture
def files(world, pems):
    """Copies that a test may replace."""
    folder = world.folder / "tls"
    shutil.copytree(pems, folder)
    return folder


def flags(files, mutual=True, rights=("--allow-all",)):
    return ["--tls-cert", files / "cert.pem", "--tls-key", files / "key.pem", *rights,
            *(["--tls-client-ca", files / "ca.pem"] if mutual else [])]


def start(world, files, *more, mutual=True, rights=("--allow-all",)):
    """A broker, and its TLS address."""
    daemon = world.distlockd(world.redis().url, "--listen", "127.0.0.1:0", *flags(files, mutual, rights), *more)
    with daemon.client() as client:
        return daemon, next(a for a in client.status().listen_addresses if not a.startswith("unix:"))


def secure(address, files, own="client"):
    client = Client.__new__(Client)
    pair = [(files / f"{own}{end}").read_bytes() for end in (".key", ".pem")] if own else ()
    credentials = grpc.ssl_channel_credentials((files / "ca.pem").read_bytes(), *pair)
    client.channel = client.calls = grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
    return client


def serial(address):
    """Of the certificate that a new connection is shown."""
    host, port = address.split(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port)), timeout=5) as sock, context.wrap_socket(sock) as secured:
        return secured.getpeercert(binary_form=True)


def refused(client):
    with pytest.raises(grpc.RpcError) as error:
        client.unary("GetStatus", api().GetStatusRequest(), api().GetStatusResponse, timeout=5, service="AdminService")
    return error.value.code()


def test_only_those_with_a_certificate_are_let_in(world, files):
    daemon, address = start(world, files)
    with secure(address, files) as client:
        grant = client.acquire(client.spec("k"))
        assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    with secure(address, files, own=None) as stranger:
        assert refused(stranger) == grpc.StatusCode.UNAVAILABLE
    with Client(address) as plain:
        assert refused(plain) == grpc.StatusCode.UNAVAILABLE
    assert daemon.metric("distlock_tls_not_after_seconds", certificate="server") > 1e9
    assert daemon.metric("distlock_tls_not_after_seconds", certificate="client_ca") > 1e9


def test_rights_by_the_certificate(world, files):
    sign_certificate(files, "worker", "worker.key", "URI:spiffe://shop.test/worker")
    policy = world.folder / "policy.yaml"
    policy.write_text(f"""
version: 1
trust_domains: [shop.test]
rules:
- {{name: worker, who: ["spiffe://shop.test/worker"], locks: ["default:job/*"], may: [acquire, look]}}
- {{name: named, who: ["dns:client.test"], locks: ["default:*"], may: [look]}}
- {{name: here, who: ["uid:{os.getuid()}"], locks: ["*"], may: [look], broker: [status]}}
""")
    daemon, address = start(world, files, rights=("--policy", policy))
    with secure(address, files, own="worker") as worker, secure(address, files) as named:
        worker.acquire(worker.spec("job/1", 0))
        assert worker.lock("job/1").holders[0].identity == "spiffe://shop.test/worker"
        denied = failure(worker.acquire, worker.spec("other", 0))
        assert denied.code == grpc.StatusCode.PERMISSION_DENIED and "spiffe://shop.test/worker" in denied.message
        assert named.lock("job/1").holders[0].identity == "spiffe://shop.test/worker"
        assert "dns:client.test may not" in failure(named.acquire, named.spec("job/2", 0)).message
        # A TCP caller never has the rights of a unix user.
        assert failure(worker.status).code == grpc.StatusCode.PERMISSION_DENIED
    policy.write_text("version: 1\ntrust_domains: [shop.test]\nrules: []\n")
    daemon.popen.send_signal(signal.SIGHUP)
    eventually(lambda: daemon.metric("distlock_reloads_total", outcome="reloaded", unit="policy") == 1, "the reload")
    with secure(address, files, own="worker") as worker:
        assert failure(worker.acquire, worker.spec("job/1", 0)).code == grpc.StatusCode.PERMISSION_DENIED


def test_mistakes_are_said_in_words_and_the_log_stays_json(world, files):
    daemon, address = start(world, files, "--log-format", "json")
    at = address.replace("127.0.0.1", "localhost")
    own = ["--tls-cert", files / "client.pem", "--tls-key", files / "client.key"]
    ca = ["--tls-ca", files / "ca.pem"]
    rows = [  # the address, the flags, what is said
        (f"tls://{at}", [*ca, *own], None),
        (f"tls://{at}", own, "is not signed by an authority that this machine trusts"),
        (f"tls://{at}", [*ca, *own, "--tls-server-name", "elsewhere"], "is for other names than that of the address"),
        (f"tls://{at}", ca, "it wants a client certificate"),
        (at, [], "if it wants TLS, the address is tls://host:port"),
    ]
    for where, flags_, words in rows:
        for command in (["status"], ["run", "k"]):
            done = subprocess.run([CTL, *command, "--server", where, "--connect-timeout", "1s", *map(str, flags_),
                                   *(["true"] if command[0] == "run" else [])],
                                  capture_output=True, text=True, check=False)
            if words is None:
                assert done.returncode == 0, done
                continue
            assert done.returncode == 69 and words in done.stderr and done.stderr.count("\n") == 1, done
    for line in daemon.log().splitlines():
        json.loads(line)
    assert '"event":"a TLS handshake with a client failed","cause":"peer did not return a certificate"' in daemon.log()


def test_a_token_comes_in_by_tls(world, files):
    token, line = static_token("app")
    policy, tokens, held = (world.folder / name for name in ("policy.yaml", "tokens", "held"))
    policy.write_text('version: 1\nrules:\n- {name: app, who: ["token:app"], locks: ["default:*"], may: [acquire]}\n')
    tokens.write_text(line)
    tokens.chmod(0o600)
    held.write_text(token)
    daemon = world.distlockd(world.redis().url, "--listen", "127.0.0.1:0", "--policy", policy, "--token-file", tokens,
                             *flags(files, False, ()))
    address = re.search(r"listen=\S*?(127\.0\.0\.1:\d+)", daemon.log())[1]
    script = "import distlock\nwith distlock.connect() as dl, dl.lock('k', wait=5) as held: print(held.token > 0)"
    known = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY / "client/python"), "PYTHONDONTWRITEBYTECODE": "1",
             "DISTLOCK_SERVER": f"tls://{address.replace('127.0.0.1', 'localhost')}",
             "DISTLOCK_TLS_CA": str(files / "ca.pem"), "DISTLOCK_TOKEN_FILE": str(held)}
    for command in (["/usr/bin/python3", "-c", script], [CTL, "run", "k", "--", "true"]):
        done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        nobody = subprocess.run(command, env={**known, "DISTLOCK_TOKEN_FILE": ""}, capture_output=True, text=True,
                                check=False)
        assert nobody.returncode != 0 and "UNAUTHENTICATED" in nobody.stderr, nobody


def test_tls_1_2_only_by_flag(world, files):
    def speaks(address, version):
        context = ssl.create_default_context(cafile=files / "ca.pem")
        context.set_alpn_protocols(["h2"])
        context.minimum_version = context.maximum_version = version
        host, port = address.split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=5) as sock:
                with context.wrap_socket(sock, server_hostname="localhost") as secured:
                    return secured.version()
        except OSError:
            return None

    _, address = start(world, files, mutual=False)
    assert speaks(address, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert speaks(address, ssl.TLSVersion.TLSv1_2) is None
    daemon = world.distlockd(world.processes[0].url, "--listen", "127.0.0.1:0", *flags(files, False),
                             "--tls-min-version", "1.2", name="old")
    with daemon.client() as client:
        address = next(a for a in client.status().listen_addresses if not a.startswith("unix:"))
    assert speaks(address, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"


def test_sighup_brings_a_new_certificate_and_drops_nothing(world, files, tmp_path):
    daemon, address = start(world, files)
    client = secure(address, files)
    session = client.session()
    session.wait_for(session.acquire(client.spec("k")), "granted")
    before = serial(address)
    other = make_certificates(tmp_path)
    # Another authority altogether: who came in stays, and only the new one's clients get in.
    for name in ("cert.pem", "key.pem", "ca.pem"):
        shutil.copy(other / name, files / name)
    daemon.popen.send_signal(signal.SIGHUP)
    eventually(lambda: daemon.metric("distlock_reloads_total", outcome="reloaded", unit="tls") == 1, "the reload")
    assert serial(address) != before
    shutil.copy(other / "client.pem", files)
    shutil.copy(other / "client.key", files)
    with secure(address, files) as newcomer:
        newcomer.acquire(newcomer.spec("k2"))
    session.wait_ack(session.beat())
    assert session.end is None and not session.all("lost")
    client.close()


def test_rotation_under_load_refuses_and_loses_nothing(world, files, tmp_path):
    """New certificates of one authority, with SIGHUP and without, while connections come and leases are held."""
    daemon, address = start(world, files)
    client = secure(address, files)
    session = client.session()
    held = [session.acquire(client.spec(f"k{i}")) for i in range(20)]
    for lock in held:
        session.wait_for(lock, "granted")
    done, came = threading.Event(), []

    def newcomers():
        while not done.is_set():
            try:
                with secure(address, files) as one:
                    one.acquire(one.spec(f"new-{len(came)}"))
                came.append(None)
            except grpc.RpcError as error:
                came.append(error)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        going = pool.submit(newcomers)
        for by_signal in (True, True, True, False):
            before = serial(address)
            fresh = shutil.copytree(files, tmp_path / f"fresh{before.hex()[-8:]}")
            sign_certificate(fresh, "cert", "key.pem", "DNS:localhost,IP:127.0.0.1")
            for name in ("key.pem", "cert.pem"):
                shutil.copy(fresh / name, files / f"{name}.new")
                (files / f"{name}.new").rename(files / name)
            if by_signal:
                daemon.popen.send_signal(signal.SIGHUP)
            eventually(lambda was=before: serial(address) != was, "the new certificate")
        done.set()
        going.result()
    assert len(came) > 3 and not any(came), came
    session.wait_ack(session.beat())
    assert session.end is None and not any(session.all("lost", lock) for lock in held)
    client.close()


def test_files_that_do_not_fit_are_refused_and_the_present_ones_stay(world, files, tmp_path):
    daemon, address = start(world, files)
    before = serial(address)
    shutil.copy(make_certificates(tmp_path) / "key.pem", files / "key.pem")
    daemon.popen.send_signal(signal.SIGHUP)
    eventually(lambda: daemon.metric("distlock_reloads_total", outcome="refused", unit="tls") == 1, "the refusal")
    assert f"--tls-key: '{files}/key.pem' does not belong to the certificate in '{files}/cert.pem'" in daemon.log()
    assert serial(address) == before
    with secure(address, files) as client:
        client.acquire(client.spec("k"))


def test_a_replaced_file_is_noticed_without_a_signal(world, files, tmp_path):
    """As Kubernetes replaces a secret: the files are links into a folder, and the folder's link is moved."""
    other = make_certificates(tmp_path)
    mount = world.folder / "mount"
    mount.mkdir()
    (mount / "..data").symlink_to(files)
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (mount / name).symlink_to(f"..data/{name}")
    daemon, address = start(world, mount)
    before = serial(address)
    (mount / "..next").symlink_to(other)
    (mount / "..next").rename(mount / "..data")
    eventually(lambda: daemon.metric("distlock_reloads_total", outcome="reloaded", unit="tls") == 1, "the reload")
    assert serial(address) != before


@pytest.mark.parametrize("break_it, said", [
    (lambda f: (f / "key.pem").unlink(), "--tls-key: '{}/key.pem' cannot be read: No such file"),
    (lambda f: (f / "key.pem").write_text(""), "--tls-key: '{}/key.pem' is empty"),
    (lambda f: (f / "cert.pem").write_text("junk"), "--tls-cert: '{}/cert.pem' holds no PEM certificate"),
    (lambda f: shutil.copy(f / "client.key", f / "key.pem"), "does not belong to the certificate in '{}/cert.pem'"),
    (lambda f: shutil.copy(f / "client.pem", f / "ca.pem"),
     "--tls-client-ca: '{}/ca.pem' holds a certificate that is no"),
], ids=["missing", "empty", "junk", "other-key", "no-authority"])
def test_a_bad_file_is_named_at_the_start(world, files, break_it, said):
    break_it(files)
    daemon = world.distlockd("redis://127.0.0.1:1", "--listen", "127.0.0.1:0", *flags(files), await_ready=False)
    assert daemon.exit_code() == 78
    [line] = [line for line in daemon.log().splitlines() if "cannot serve" in line]
    assert said.format(files) in line.replace("\\u0027", "'")


def test_a_python_program_comes_in_by_tls(world, files):
    _, address = start(world, files)
    script = "import distlock\nwith distlock.connect() as dl, dl.lock('k', wait=5) as held: print(held.token > 0)"
    known = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY / "client/python"), "PYTHONDONTWRITEBYTECODE": "1",
             "DISTLOCK_SERVER": f"tls://{address}", "DISTLOCK_TLS_CA": str(files / "ca.pem"),
             "DISTLOCK_TLS_CERT": str(files / "client.pem"), "DISTLOCK_TLS_KEY": str(files / "client.key")}

    def run(**env):
        return subprocess.run(["/usr/bin/python3", "-c", script], env={**known, **env}, capture_output=True, text=True,
                              check=False)

    done = run()
    assert done.stdout == "True\n", done.stderr
    assert "DISTLOCK_TLS_CA: cannot read '/nowhere'" in run(DISTLOCK_TLS_CA="/nowhere").stderr
    assert "belong together" in run(DISTLOCK_TLS_KEY="").stderr


def test_distlockctl_comes_in_by_tls(world, files):
    _, address = start(world, files)
    known = {"PATH": "/usr/bin:/bin", "DISTLOCK_SERVER": f"tls://{address}", "DISTLOCK_TLS_CA": str(files / "ca.pem"),
             "DISTLOCK_TLS_CERT": str(files / "client.pem"), "DISTLOCK_TLS_KEY": str(files / "client.key")}

    def ctl(*args, **env):
        return subprocess.run([CTL, *args], env={**known, **env}, capture_output=True, text=True, check=False)

    assert ctl("status").returncode == 0
    done = ctl("run", "k", "--", "echo", "held")
    assert done.returncode == 0 and done.stdout == "held\n", done.stderr
    named = ctl("status", DISTLOCK_TLS_SERVER_NAME="localhost")
    assert named.returncode == 0, named.stderr
    other = ctl("status", "--tls-server-name", "other.test", "--connect-timeout", "500ms")
    assert other.returncode == 69
    for args in (("status",), ("run", "k", "--", "true")):
        missing = ctl(*args, DISTLOCK_TLS_CA="/nowhere/ca.pem")
        assert missing.returncode == 64, missing
        assert "DISTLOCK_TLS_CA: '/nowhere/ca.pem' cannot be read" in missing.stderr
    alone = ctl("status", DISTLOCK_TLS_KEY="")
    assert alone.returncode == 64 and "belong together" in alone.stderr
    stranger = ctl("status", "--connect-timeout", "500ms", DISTLOCK_TLS_KEY="", DISTLOCK_TLS_CERT="")
    assert stranger.returncode == 69
