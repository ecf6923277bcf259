# SPDX-License-Identifier: Apache-2.0
"""The steps that a case may take. Each is a method of Play that returns when its step is done, and raises Failed when
it cannot come true.

connect, acquire ... fork     the command, to the driver; `connect: {to: [a, b]}` names brokers; `padded_to` makes keys
                              long
granted, lost, child ...      waits for the event, with these fields
told_no                       the driver has not said such a thing
state, becomes                asks for the state, once or until it is so: `is`, `token`, `until_at_most`,
                              `until_at_least`
passes                        waits until a moment has passed, such as the end of a belief
acquire_many                  so many acquires at once, and all their grants
gets, got_no                  a broker gets, has not got, a command: protobuf's JSON; null: absent
session, over                 a session begins, is over; `half_closed`: because the client closed its side without
                              Goodbye
sends, grants, acks, sends_bytes   the broker sends an event, a grant of a command, an ack, raw bytes
token                         the driver's client finds this token in its file from now on; the case's field `token` is
                              the first one
set                           switches of the broker: broker/scripted_broker.cc lists them
holds, frees, drains, breaks, ends   another client holds a lock; frees it; the broker drains, breaks streams, ends a
                              session with a status
start, kill, stop, cont       the broker's process, or with `driver` the driver's
"""
import re
import signal
import time

from peers import PATIENCE_S, Failed, boot_now

UNITS = {"ms": 1_000_000, "s": 1_000_000_000}
HELD = ("HELD", "AT_RISK")
# A case must ask for these: left unheard, they fail it.
TELLING = ("granted", "refused", "lost", "failed", "draining", "not_downgraded")
TOLD = ("granted", "refused", "lost", "released", "queued", "downgraded", "not_downgraded", "closed", "child",
        "worker", "draining")


def nanoseconds(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", text)
    return round(float(found[1]) * UNITS[found[2]]) if found else None


def proto_duration(text):
    return f"{nanoseconds(text) / 1e9:.9f}s"


def matches(wanted, found):
    """Whether what was found has all that is wanted. null: the field must be absent."""
    if isinstance(wanted, dict):
        if "any" in wanted:
            return any(matches(one, found) for one in wanted["any"])
        if "below" in wanted:
            return found is not None and nanoseconds(found) < nanoseconds(wanted["below"])
        if "not" in wanted:
            return found is not None and not matches(wanted["not"], found)
        return isinstance(found, dict) and all(matches(one, found.get(name)) for name, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(matches, wanted, found))
    return wanted == found


class Play:
    """One case on its way."""

    def __init__(self, case, cast):
        self.case, self.cast, self.driver = case, cast, cast.driver
        self.names = {}
        self.lost = set()

    def run(self):
        for name, switches in self.case.brokers.items():
            self.start({"broker": name, **switches})
        for number, (verb, arguments) in enumerate(self.case.steps, 1):
            try:
                STEPS[verb](self, arguments)
            except Failed as error:
                raise Failed(f"step {number}, {verb} {arguments}: {error}") from None
            self._check_rules()
        left = [event for event in self.driver.fresh if event["event"] in TELLING]
        if left:
            raise Failed(f"the program was told what the case does not expect: {left[0]}")

    def _check_rules(self):
        for broker in [*self.cast.past, *self.cast.brokers.values()]:
            most = self.case.brokers.get(broker.name.split()[-1], {}).get("max_message_bytes", 64 << 10)
            for event in list(broker.events):
                if event["event"] == "broken_rule":
                    raise Failed(f"the client broke a rule: {event['rule']}")
                if event["event"] == "message" and event["bytes"] > most:
                    raise Failed(f"a message of {event['bytes']} bytes, where the broker takes {most}")

    # ---- Values ----

    def value(self, given):
        """Puts the values in for names such as $grant.at."""
        if isinstance(given, dict):
            return {self.value(name): self.value(one) for name, one in given.items()}
        if isinstance(given, list):
            return [self.value(one) for one in given]
        if not isinstance(given, str) or not given.startswith("$"):
            return given
        name, *path = given[1:].split(".")
        found = self.names.get(name)
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found.get(part) if found else None
        if found is None:
            raise Failed(f"{given} has no value")
        return found

    def moment(self, terms):
        """The sum of moments in ns and of texts such as 5s."""
        total = 0
        for term in self.value(terms if isinstance(terms, list) else [terms]):
            total += nanoseconds(term) if isinstance(term, str) else term
        return total

    def _keep(self, name, event):
        if name:
            self.names[name] = event

    def _broker(self, name):
        found = self.cast.brokers.get(name or "a")
        if found is None:
            raise Failed(f"there is no broker {name}")
        return found

    # ---- The program ----

    def connect(self, arguments):
        given = dict(arguments or {})
        names = given.pop("to", list(self.case.brokers))
        addresses = [self.cast.brokers[name].address if name in self.cast.brokers else self.cast.listen_at(name)
                     for name in names]
        self.driver.write({"do": "connect", "address": ",".join(addresses), **given})

    def command(self, verb):
        def write(arguments):
            given = {"lock": arguments} if isinstance(arguments, str) else dict(arguments or {})
            if "padded_to" in given:  # long keys
                length = given.pop("padded_to")
                given["keys"] = [key.ljust(length, "x") for key in given["keys"]]
            self.driver.write({"do": verb, **self.value(given)})
        return write

    def acquire_many(self, arguments):
        count = arguments["count"]
        self.driver.write(*({"do": "acquire", "lock": f"L{i}", "key": f"key {i}"} for i in range(count)))
        for i in range(count):
            self.driver.take(lambda event: event["event"] == "granted", f"grant {i} of {count}")

    def told(self, name):
        def wait(arguments):
            given = {"lock": arguments} if isinstance(arguments, str) else dict(arguments or {})
            keep = given.pop("as", None)
            wanted = {"event": name, **self.value(given)}
            event = self.driver.take(lambda event: matches(wanted, event), f"{wanted}")
            self._keep(keep, event)
            if name == "lost":
                self.lost.add(event["lock"])
        return wait

    def _ask(self, lock):
        self.driver.write({"do": "state", "lock": lock})
        answer = self.driver.take(lambda event: event["event"] in ("state", "failed"), f"the state of {lock}")
        if answer["event"] == "failed":
            raise Failed(answer["message"])
        if answer["state"] in HELD:
            if answer["at"] >= answer["until"]:
                raise Failed(f"the client believes after its deadline: {answer}")
            if lock in self.lost:
                raise Failed(f"a lost lock came back: {answer}")
        return answer

    def state(self, arguments):
        """The state at this moment. until: bounds of the deadline."""
        given = dict(arguments)
        answer = self._ask(given["lock"])
        self._keep(given.get("as"), answer)
        wanted = given.get("is", list(HELD))
        if answer["state"] not in (wanted if isinstance(wanted, list) else [wanted]):
            raise Failed(f"the lock is {answer['state']}: {answer}")
        if "token" in given and self.value(given["token"]) != answer["token"]:
            raise Failed(f"another token: {answer}")
        for bound, wrong in (("until_at_most", lambda a, b: a > b), ("until_at_least", lambda a, b: a < b)):
            if bound in given and wrong(answer["until"], self.moment(given[bound])):
                apart = (answer["until"] - self.moment(given[bound])) / 1e9
                raise Failed(f"the deadline is {apart:+.6f} s from {bound}: {answer}")

    def becomes(self, arguments):
        """As state, but waits until it is so."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.state(arguments)
            except Failed as error:
                if time.monotonic() > deadline or "believes after" in str(error) or "came back" in str(error):
                    raise
            time.sleep(0.02)

    def passes(self, arguments):
        """Waits until a moment has passed."""
        left = self.moment(arguments) - boot_now()
        if left > PATIENCE_S * 1e9:
            raise Failed(f"that moment is {left / 1e9} s away")
        time.sleep(max(0, left) / 1e9 + 0.001)

    def process(self, number):
        def strike(name):
            peer = self.driver if name == "driver" else self._broker(name)
            if number == signal.SIGKILL:
                peer.kill()
            else:
                peer.signal(number)
        return strike

    # ---- The brokers ----

    def start(self, arguments):
        given = {"broker": arguments} if isinstance(arguments, str) else dict(arguments)
        name, listen = given.pop("broker"), given.pop("listen", None)
        broker = self.cast.start_broker(name, listen)
        broker.do(do="set", to={"validity_ms": 30_000, "features": ["permit", "adopt"], "max_message_bytes": 64 << 10,
                                "max_leases": 10_000, **given})

    def token(self, token):
        self.cast.show(token)

    def set(self, arguments):
        given = dict(arguments)
        self._broker(given.pop("at", None)).do(do="set", to=self.value(given))

    def broker_does(self, verb):
        def do(arguments):
            given = {"at": arguments} if isinstance(arguments, str) else dict(arguments or {})
            self._broker(given.pop("at", None)).do(do=verb, **self.value(given))
        return do

    def sends(self, arguments):
        """One event, in protobuf's JSON."""
        given = dict(arguments)
        broker, session = self._broker(given.pop("at", None)), given.pop("session", 0)
        broker.do(do="send", session=self.value(session), events=[self.value(given)])

    def _grant(self, given):
        command = self.value(given["of"])
        token = self.value(given.get("token", 7))
        grant = {"key": given.get("key", "k"), "lease_id": self.value(given.get("lease_id", f"secret {token}")),
                 "holder_id": "h", "fencing_token": token, "valid_for": proto_duration(given.get("valid_for", "30s")),
                 "echo_seq": self.value(given.get("echo", 0)), "hold_count": 1}
        return {"id": command["id"] + given.get("part", 0), "granted": grant}

    def grants(self, arguments):
        """Grants what a command has asked for. part: which of its locks."""
        self._broker(arguments.get("at")).do(do="send", session=self.value(arguments.get("session", 0)),
                                             events=[self._grant(arguments)])

    def acks(self, arguments):
        ack = {"seq": self.value(arguments["seq"]), "valid_for": proto_duration(arguments.get("valid_for", "30s")),
               "limits": [{"acquire_id": self.value(one), "valid_for": proto_duration(limit)}
                          for one, limit in arguments.get("limits", {}).items()]}
        self._broker(arguments.get("at")).do(do="send", session=self.value(arguments.get("session", 0)),
                                             events=[{"heartbeat_ack": ack}])

    def _wanted(self, arguments):
        """What a broker is to get: {kind: fields, at: broker, session: number}."""
        given = dict(arguments)
        broker, session = self._broker(given.pop("at", None)), self.value(given.pop("session", None))
        given.pop("as", None)
        command = {kind: self.value(fields or {}) for kind, fields in given.items()}

        def match(event):
            return (event["event"] == "command" and (session is None or event["session"] == session)
                    and matches(command, event["command"]))
        return broker, match

    def gets(self, arguments):
        broker, match = self._wanted(arguments)
        event = broker.take(match, f"{arguments}")
        self._keep(arguments.get("as"), {**event["command"], "at": event["at"], "session": event["session"]})

    def got_no(self, arguments):
        """Such a command has not come, so far."""
        broker, match = self._wanted(arguments)
        for event in list(broker.events):
            if match(event):
                raise Failed(f"it has come: {event}")

    def told_no(self, arguments):
        wanted = self.value(arguments)
        for event in list(self.driver.events):
            if matches(wanted, event):
                raise Failed(f"the program was told: {event}")

    def happens(self, name):
        def wait(arguments):
            given = {"at": arguments} if isinstance(arguments, str) else dict(arguments or {})
            broker = self._broker(given.pop("at", None))
            wanted = {"event": name, **given}
            broker.take(lambda event: matches(wanted, event), f"{wanted}")
        return wait


def _made(maker, *names):
    return {name: (lambda play, arguments, name=name: getattr(play, maker)(name)(arguments)) for name in names}


STEPS = {
    **{name: getattr(Play, name) for name in ("connect", "acquire_many", "state", "becomes", "passes", "start", "set",
                                              "token", "sends", "grants", "acks", "gets", "got_no", "told_no")},
    **_made("command", "acquire", "acquire_all", "release", "cancel", "downgrade", "close", "fork",
            "spawn"),
    **_made("told", *TOLD),
    **_made("happens", "session", "over"),
    **{verb: (lambda play, arguments, what=what: play.broker_does(what)(arguments))
       for verb, what in (("ends", "end"), ("breaks", "break"), ("drains", "drain"), ("holds", "hold"),
                          ("frees", "free"), ("sends_bytes", "send"))},
    **{verb: (lambda play, name, number=number: play.process(number)(name))
       for verb, number in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP), ("cont", signal.SIGCONT))},
}
