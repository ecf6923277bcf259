# SPDX-License-Identifier: Apache-2.0
"""All faults of a soak, a row each."""
import dataclasses
import typing

import soak_faults as deeds
import soak_links as links


@dataclasses.dataclass
class Row:
    name: str
    kind: str        # its name in histories
    on: str          # one client, one broker, or the store
    longest: float   # s
    act: typing.Callable
    actor_kind: str = "link"
    forgets: bool = False
    goes_back: bool = False
    steps: bool = False


LONG = 20.0
ROWS = [
    Row("a client is killed", "client_killed", "client", 3, deeds.kill_client, "client"),
    Row("a client stands still", "client_paused", "client", LONG, deeds.stop_client, "client"),
    Row("a client stands still and is cut off", "client_paused", "client", 8, deeds.cut_off_client, "client"),
    Row("a broker is killed", "broker_killed", "broker", 6, deeds.kill_broker, "broker"),
    Row("a broker stands still", "broker_paused", "broker", LONG, deeds.stop_broker, "broker"),
    Row("a broker drains", "broker_drained", "broker", 4, deeds.drain_broker, "broker"),
    Row("the store stands still", "store_paused", "store", LONG, deeds.stop_store, "store"),
    Row("the store sleeps", "store_paused", "store", 6, deeds.sleep_store, "store"),
    Row("the store pauses its clients", "store_paused", "store", 6, deeds.pause_clients, "store"),
    Row("the store restarts", "store_restarted", "store", 5, deeds.restart_store, "store"),
    Row("the store restarts empty", "store_emptied", "store", 5, deeds.restart_store_empty, "store", forgets=True),
    Row("the store is emptied", "store_emptied", "store", 1, deeds.flush_store, "store", forgets=True),
    Row("a key is deleted", "key_deleted", "store", 1, deeds.delete_key, "store", forgets=True),
    Row("the scripts are flushed", "scripts_flushed", "store", 1, deeds.flush_scripts, "store"),
    Row("the store ends connections", "link_reset", "store", 1, deeds.kill_connections, "store"),
    Row("the store ends subscriptions", "channel_lost", "store", 1, deeds.kill_subscribers, "store"),
    Row("the store is full", "store_full", "store", LONG, deeds.fill_store, "store"),
    Row("the store refuses writes", "store_refuses", "store", LONG, deeds.refuse_writes, "store"),
    Row("the store's clock jumps", "store_clock", "store", 1, deeds.clock_ahead, "store", steps=True),
    Row("the store's clock goes back", "store_clock", "store", 1, deeds.clock_back, "store", steps=True,
        goes_back=True),
    Row("a client's connection is reset", "link_reset", "client", 1, links.reset_link),
    Row("a client's connection falls silent", "link_silent", "client", LONG, links.silence_link),
    Row("a client's connection falls silent one way", "link_one_way", "client", LONG, links.silence_one_way),
    Row("a client's bytes are lost", "link_one_way", "client", 8, links.lose_bytes),
    Row("a client's connection is slow", "link_slow", "client", LONG, links.slow_link),
    Row("a client's bytes come one by one", "link_slow", "client", 3, links.split_link),
    Row("a client's connection is half closed", "link_reset", "client", 4, links.half_close_link),
    Row("a client's connection ends for its broker only", "link_one_way", "client", 8, links.end_for_broker_only),
    Row("a client cannot connect", "link_reset", "client", 8, links.refuse_connections),
    Row("a broker's connections are reset", "link_reset", "broker", 1, links.reset_link),
    Row("a broker's connections fall silent", "link_silent", "broker", LONG, links.silence_link),
    Row("a broker's connections fall silent one way", "link_one_way", "broker", LONG, links.silence_one_way),
    Row("a broker's bytes are lost", "link_one_way", "broker", 8, links.lose_bytes),
    Row("a broker's connections are slow", "link_slow", "broker", LONG, links.slow_link),
    Row("a broker's bytes come one by one", "link_slow", "broker", 3, links.split_link),
    Row("a broker's connections are half closed", "link_reset", "broker", 4, links.half_close_link),
    Row("a broker cannot connect", "link_reset", "broker", 8, links.refuse_connections),
    Row("a broker's connections deliver late", "link_silent", "broker", LONG, links.deliver_late),
    Row("a broker's reply is lost", "link_reset", "broker", 3, links.lose_reply),
]


def rows_for(dice, can_step):
    """The faults that one run may cause. A store that forgets its tokens and whose clock goes back cannot keep tokens
    in order, so a run has at most one of the two."""
    goes_back = can_step and dice.random() < 0.3
    return [row for row in ROWS if (can_step or not row.steps) and (goes_back or not row.goes_back) and
            not (goes_back and row.forgets)]
