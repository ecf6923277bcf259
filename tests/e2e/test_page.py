# SPDX-License-Identifier: Apache-2.0
"""The status page in Chromium: it follows the locks by itself, callers' text stays text, and a broker that has stopped
is told."""
import pytest

from browser import CHROMIUM, PICTURES, Browser
from harness import eventually, free_port

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: deploy/install-deps.sh --all brings it")
HOSTILE = ["<img src=x onerror=window.pwned=1>", "<script>window.pwned=1</script>", "\u202eevil\u202c", "a\u0000b\nc",
           "'\"&amp;--><!--", "k" * 512]


@pytest.fixture(scope="module")
def browser(tmp_path_factory, pytestconfig):
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()
    if PICTURES is not None:
        with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\npictures of the page: {PICTURES}")


def clean(tab, daemon):
    """Nothing went wrong in the page, and it asked this broker alone."""
    assert tab.problems() == []
    assert all(url.startswith(daemon.http + "/") for url in tab.requested() if url != "about:blank"), tab.requested()


def test_it_follows_the_locks(world, browser):
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    with browser.open(daemon.http + "/") as tab:
        tab.await_text("#locks", "no lock is held")
        grant = client.acquire(client.spec("backup/1", owner="me@host", ttl=600.0))
        client.acquire(client.spec("other", owner="you", ttl=600.0))
        held = client.hold(client.spec("backup/1", owner="next", max_wait=60.0))
        print(f"a lock was shown after {tab.await_text('#locks', 'me@host'):.2f} s")
        eventually(lambda: tab.run("document.querySelector('#queues td:nth-child(2)')?.innerText") == "1", "the queue")
        assert "default:backup/1" in tab.text("#queues") and str(grant.fencing_token) in tab.text("#locks")
        assert "exclusive" in tab.text("#locks") and " s" in tab.text("#locks")
        tab.await_text("#number-waiters b", "1")
        tab.await_text("#nodes", "up")
        tab.await_text("#nodes", "master")
        assert client.status().broker_id in tab.text("#broker")

        tab.run("document.querySelector('#locks button').click()")
        tab.await_text("#one", "waiter 1")
        assert "next" in tab.text("#one-rows") and "me@host" in tab.text("#one-rows")
        tab.keep_picture("page")
        tab.type("#prefix", "oth")
        eventually(lambda: "me@host" not in tab.text("#locks"), "the search")
        assert "you" in tab.text("#locks")
        tab.type("#namespace", "bad/namespace" * 20)
        tab.await_text("#hidden", "namespace")
        tab.type("#namespace", "")
        tab.type("#prefix", "")

        client.release(grant.lease_id)
        held.wait_for("granted")
        tab.await_text("#locks", "next")
        assert tab.text("#banner") == ""
        clean(tab, daemon)


def test_text_of_callers_is_text(world, browser):
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    for name in HOSTILE:
        client.acquire(client.spec(name, owner=name[:256], ttl=600.0))
    for width in (1280, 360):
        with browser.open(daemon.http + "/", width) as tab:
            tab.await_text("#locks", "k" * 512)
            shown = tab.text("#locks")
            for name in HOSTILE:
                # Signs that nobody would see are written out.
                assert name.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c").replace("\0", "\\u0000").replace(
                    "\n", "\\u000a") in shown
            tab.run("[...document.querySelectorAll('#locks button')].find(b => b.innerText.includes('<img')).click()")
            tab.await_text("#one-rows", "<img")
            assert tab.run("window.pwned") is None and tab.run("document.querySelectorAll('img').length") == 0
            assert tab.run("document.documentElement.scrollWidth") <= width
            tab.keep_picture(f"hostile-{width}")
            clean(tab, daemon)


def test_a_broker_that_has_stopped_is_told(world, browser):
    daemon = world.distlockd(world.redis().url, "--http", f"127.0.0.1:{free_port()}")
    with browser.open(daemon.http + "/") as tab:
        tab.await_text("#broker", "broker_id")
        daemon.kill()
        tab.await_text("#banner", "does not answer")
        assert "broker_id" in tab.text("#broker")  # what was known stays
        asked = len(tab.requested())
        # Each failure is followed by a longer pause.
        eventually(lambda: tab.run("failures") >= 3, "it asking again")
        assert tab.run("Math.min(EVERY_MS * 2 ** failures, SLOWEST_MS)") == 8000
        assert len(tab.requested()) - asked <= 3
        tab.keep_picture("stopped")
        daemon.start()
        eventually(lambda: tab.text("#banner") == "", "the banner going")
        tab.await_text("#broker", world.client(daemon.url).status().broker_id)
        assert tab.problems() == []


def test_a_store_that_is_down_is_told(world, browser):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--store-timeout", "2s")
    with browser.open(daemon.http + "/") as tab:
        tab.await_text("#broker", "broker_id")
        redis.kill()
        tab.await_text("#banner", "not ready: store down")
        redis.start()
        eventually(lambda: tab.text("#banner") == "", "the banner going")
        clean(tab, daemon)


def test_where_it_may_not_be_seen_it_says_why(world, browser):
    daemon = world.distlockd(world.redis().url, "--http-page", "off")
    client = world.client(daemon.url)
    client.acquire(client.spec("secret-key"))
    with browser.open(daemon.http + "/") as tab:
        tab.await_text("#hidden", "--http-page")
        assert "secret-key" not in tab.run("document.documentElement.innerText")
        clean(tab, daemon)
