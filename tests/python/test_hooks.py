# SPDX-License-Identifier: Apache-2.0
"""The README's telemetry does what it says, with stand-ins for OpenTelemetry's API."""
import re
import types
from unittest import mock

import distlock
import pytest
from conftest import REPOSITORY


@pytest.fixture
def telemetry(broker):
    """The client of the README's snippet, at the fake broker, and what it has recorded."""
    text = (REPOSITORY / "client/python/README.md").read_text(encoding="utf-8")
    snippet, = (one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "class Telemetry" in one)
    histograms, spans = {}, []

    def make_histogram(name, unit):
        histograms[name] = []
        return types.SimpleNamespace(record=lambda value, attributes: histograms[name].append(attributes))

    def start_span(name, attributes):
        spans.append(mock.Mock(attributes=attributes))
        return spans[-1]

    names = {"metrics": mock.Mock(**{"get_meter.return_value.create_histogram": make_histogram}),
             "trace": mock.Mock(**{"get_tracer.return_value.start_span": start_span}),
             "distlock": types.SimpleNamespace(
                 Observer=distlock.Observer, connect=lambda observer: distlock.connect(broker.url, observer=observer))}
    exec(snippet, names)
    yield types.SimpleNamespace(dl=names["dl"], histograms=histograms, spans=spans)
    names["dl"].close()


def test_a_lock_is_a_span_and_two_samples(broker, telemetry):
    with telemetry.dl.lock("k"):
        span, = telemetry.spans
        assert span.attributes == {"distlock.keys": ["k"], "distlock.mode": "EXCLUSIVE"}
        span.add_event.assert_called_once_with("GRANTED")
        span.end.assert_not_called()
    span.end.assert_called_once_with()
    assert telemetry.histograms == {"distlock.client.wait": [{"distlock.outcome": "GRANTED"}],
                                    "distlock.client.hold": [{"distlock.cause": "GIVEN_BACK"}]}


def test_a_refusal_ends_its_span(broker, telemetry):
    broker.on_acquire = lambda session, command: session.refuse(command.id, "LOCK_HELD")
    with pytest.raises(distlock.Busy):
        telemetry.dl.lock("k", wait=0).acquire()
    telemetry.spans[0].end.assert_called_once_with()
    assert telemetry.histograms["distlock.client.wait"] == [{"distlock.outcome": "LOCK_HELD"}]


def test_a_loss_is_told_with_its_cause(broker, telemetry):
    held = telemetry.dl.lock("k").acquire()
    session = broker.session()
    session.lose(session.await_command("acquire").id, "FORCED")
    assert held.lost.wait(20)
    assert telemetry.histograms["distlock.client.hold"] == [{"distlock.cause": "FORCED"}]
