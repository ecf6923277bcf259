# SPDX-License-Identifier: Apache-2.0
"""The programs of client/python/web.md, in Django and FastAPI themselves, and what their clients see when something
dies in the middle of a request."""
import concurrent.futures
import json
import socket
import sqlite3
import urllib.error
import urllib.request

import pages
import pytest
from harness import eventually, free_port
from tools import Program

WORK = """
import os, time
def begin(name):
    with open(name, "a") as begun:
        begun.write("x")
    return lambda: os.path.exists("slow")
"""
SYNC = WORK + """
def build_report():
    begin("reports")
def pay(account, token):
    from app.models import paid
    paid(account, token)
    is_slow = begin("begun")
    while is_slow():
        time.sleep(0.01)
"""
ASYNC = WORK + """
import asyncio, sys
async def pay(account, token):
    is_slow = begin("begun")
    while os.path.exists("blocks") and sys.modules["service"].dl.stats().held:
        time.sleep(0.01)  # nothing can be cancelled
    while is_slow():
        await asyncio.sleep(0.01)
    begin("paid")
"""
SETTINGS = """
SECRET_KEY, ROOT_URLCONF, INSTALLED_APPS, ALLOWED_HOSTS, DEBUG = "x", "urls", ["app"], ["*"], False
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
"""
MODELS = """
from django.db import connection
def paid(account, token):
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO paid VALUES (%s, %s)", [account, token])
"""
URLS = """
from app.views import transfer
from django.urls import path
urlpatterns = [path("transfer/<account>", transfer)]
"""
MANAGE = "import django.core.management as m, sys\nm.execute_from_command_line(sys.argv)\n"
WSGI = "import django.core.wsgi\napplication = django.core.wsgi.get_wsgi_application()\n"
PACKAGES = ("app", "app/management", "app/management/commands")
PROJECT = {"settings.py": SETTINGS, "urls.py": URLS, "manage.py": MANAGE, "wsgi.py": WSGI, "app/models.py": MODELS,
           "app/work.py": SYNC, **{f"{name}/__init__.py": "" for name in PACKAGES}}


@pytest.fixture
def store(world):
    return world.redis()


@pytest.fixture
def broker(world, store):
    return world.distlockd(store.url, "--default-ttl", "5s")


def place(world, files):
    for name, text in files.items():
        path = world.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def variables(broker):
    return {"DISTLOCK_SERVER": broker.url, "DJANGO_SETTINGS_MODULE": "settings"}


class Site:
    """One of the two services, on two hosts."""

    def __init__(self, world, broker, *argv, cancels=False):
        self.world, self.ports, self.hosts = world, [], []
        self.cancels = cancels  # the request, when its lock is lost
        for host in ("one", "two"):
            port = free_port()
            self.ports.append(port)
            self.hosts.append(Program(world, host, *(word.replace("PORT", str(port)) for word in argv),
                                      variables=variables(broker)))
        self._pool = concurrent.futures.ThreadPoolExecutor(4)
        for port, host in zip(self.ports, self.hosts):
            host.await_ready(lambda port=port: self._answers(port))

    def _answers(self, port):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
        except urllib.error.HTTPError as error:
            return error.code == 404
        except OSError:
            return False

    def ask(self, host, account="7"):
        """(status, body) of a transfer."""
        url = f"http://127.0.0.1:{self.ports[host]}/transfer/{account}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=100) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ask_slowly(self, host):
        """A transfer that is in the middle; ends when `slow` does."""
        (self.world.folder / "slow").write_text("")
        answer = self.later(host)
        eventually(self.begun, "the transfer")
        return answer

    def later(self, host):
        return self._pool.submit(self.ask, host)

    def begun(self):
        path = self.world.folder / "begun"
        return len(path.read_text()) if path.exists() else 0

    def finish(self):
        (self.world.folder / "slow").unlink()


def django(world, broker):
    place(world, {**pages.files("web.md"), **PROJECT})
    table = Program(world, "table", "sqlite3_table", files={"sqlite3_table.py": (
        "import sqlite3\nsqlite3.connect('db.sqlite3').execute('CREATE TABLE paid (account, token)')\n")})
    assert table.exit_code() == 0, table.log()
    return Site(world, broker, "gunicorn", "wsgi", "--threads", "4", "--bind", "127.0.0.1:PORT")


def paid(world):
    """How many transfers were paid: rows that are committed, or what a file says."""
    table, file = world.folder / "db.sqlite3", world.folder / "paid"
    if table.exists():
        return sqlite3.connect(table).execute("SELECT count(*) FROM paid").fetchone()[0]
    return len(file.read_text()) if file.exists() else 0


def fastapi(world, broker):
    place(world, {**pages.files("web.md"), "work.py": ASYNC})
    return Site(world, broker, "uvicorn", "service:app", "--port", "PORT", cancels=True)


@pytest.fixture(params=[django, fastapi])
def site(request, world, broker):
    return request.param(world, broker)


def test_djangos_command(world, broker):
    place(world, {**pages.files("web.md"), **PROJECT})
    hosts = [Program(world, host, "manage", "nightly", variables=variables(broker)) for host in ("one", "two", "three")]
    assert [host.exit_code() for host in hosts] == [0, 0, 0], [host.log() for host in hosts]
    assert sorted(host.log() for host in hosts) == ["", "", "done\n"]
    assert (world.folder / "reports").read_text() == "x"


def test_a_request(site, world):
    status, body = site.ask(0)
    assert status == 200 and (body == "paid\n" or json.loads(body)["token"] > 0)
    slow = site.ask_slowly(0)
    assert site.ask(1)[0] == 423 and not slow.done()
    site.finish()
    assert slow.result(60)[0] == 200 and site.ask(1, "8")[0] == 200
    eventually(lambda: paid(world) == 3)


def test_a_client_that_hangs_up(site, world):
    (world.folder / "slow").write_text("")
    with socket.create_connection(("127.0.0.1", site.ports[0])) as client:
        client.sendall(b"POST /transfer/7 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        eventually(site.begun)
    assert site.ask(1)[0] == 423
    site.finish()
    assert eventually(lambda: site.ask(1)[0] == 200) and paid(world) == 2


def test_a_worker_that_dies(site, world):
    site.ask_slowly(0)
    site.hosts[0].kill()
    site.finish()
    assert eventually(lambda: site.ask(1)[0] == 200)


def test_a_broker_that_dies(site, world, broker):
    slow = site.ask_slowly(0)
    broker.kill()
    assert site.ask(1)[0] == 503
    if site.cancels:
        eventually(slow.done)
    site.finish()
    assert slow.result(60)[0] == 503 and paid(world) == 0
    broker.start()
    assert eventually(lambda: site.ask(1)[0] == 200)


def test_a_loss_of_which_only_the_end_tells(world, broker):
    site = fastapi(world, broker)
    (world.folder / "blocks").write_text("")
    answer = site.later(0)
    eventually(site.begun)
    broker.kill()
    assert answer.result(60)[0] == 503


def test_a_store_that_dies(site, world, store):
    slow = site.ask_slowly(0)
    store.kill()
    assert site.ask(1, "8")[0] == 503 and not slow.done()
    site.finish()
    assert slow.result(60)[0] == 200 and paid(world) == 1
