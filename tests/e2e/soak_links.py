# SPDX-License-Identifier: Apache-2.0
"""The faults of connections in a soak: of a client to its broker, or of a broker to the store."""
from proxy import BOTH, DOWN, UP


def reset_link(fault):
    return fault.wait_for(lambda: (n := fault.net.reset_all()) and f"{n} connections reset")


def _counted(fault, counter):
    before = getattr(fault.net.counters(), counter)
    return lambda: (n := getattr(fault.net.counters(), counter) - before) > 0 and f"{n} {counter}"


def _with_net(fault, counter, start, stop):
    seen = _counted(fault, counter)
    start()
    try:
        return fault.wait_for(seen)
    finally:
        stop()


def silence_link(fault):
    return _with_net(fault, "held", fault.net.pause, fault.net.resume)


def silence_one_way(fault):
    direction = fault.dice.choice(BOTH)
    return _with_net(fault, "held", lambda: fault.net.pause(direction), fault.net.resume)


def lose_bytes(fault):
    direction = fault.dice.choice(BOTH)

    def stop():
        fault.net.reset_all()
        fault.net.resume()
    return _with_net(fault, "dropped_" + direction, lambda: fault.net.drop(direction), stop)


def slow_link(fault):
    return _with_net(fault, "delayed", lambda: fault.net.delay(fault.dice.randint(50, 1500)), fault.net.resume)


def split_link(fault):
    return _with_net(fault, "pieces", fault.net.split, fault.net.resume)


def half_close_link(fault):
    seen = _counted(fault, "halved")
    direction = fault.dice.choice((UP, DOWN))
    found = fault.wait_for(lambda: fault.net.half_close(direction) or seen())
    fault.net.reset_all()
    return found


def end_for_broker_only(fault):
    """The broker reads the end of the stream; its answer to that does not arrive."""
    seen = _counted(fault, "halved")

    def start():
        fault.net.pause(DOWN)
        fault.net.half_close(UP)

    def stop():
        fault.net.reset_all()
        fault.net.resume()
    start()
    try:
        return fault.wait_for(lambda: seen() or start())
    finally:
        stop()


def refuse_connections(fault):
    """When another fault has ended the connections, waits for a new one: otherwise no effect can be seen."""
    def strike():
        fault.net.refuse_new()
        count = fault.net.reset_all()
        if not count:
            fault.net.accept_new()
        return count and f"{count} connections reset, no new ones taken"
    try:
        return fault.wait_for(strike)
    finally:
        fault.net.accept_new()


def deliver_late(fault):
    """The broker gives its connections up and makes new ones; what it had sent over the old ones arrives then."""
    before = held = 0

    def arrives():
        nonlocal before, held
        if not held:  # another fault may have ended them all just before
            before, held = fault.net.counters().accepted, fault.net.hold()
        return held and fault.net.counters().accepted > before and f"{held} delivered late"
    try:
        return fault.wait_for(arrives)
    finally:
        fault.net.let_arrive()


def lose_reply(fault):
    net = fault.net
    lost = net.drop_reply_after(b"EVALSHA")
    try:
        return fault.wait_for(lambda: lost.happened() and f"a reply of {len(lost.swallowed)} bytes lost")
    finally:
        net._call(lambda: setattr(net, "_loss", None))
