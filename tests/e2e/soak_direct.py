# SPDX-License-Identifier: Apache-2.0
"""A soak whose brokers connect to the servers themselves, since these tell their addresses or must be named alike. So
connections to the store have no proxy; for root, the kernel loses their packets instead.
"""
from client import boot_now
from harness import eventually
from kernel_tcp import connections_of, undelivered
from packet_filter import PacketFilter, is_possible
from soak_stage import Stage
from soak_table import ROWS, Row


class DirectStage(Stage):
    def _open_store(self):
        self.packets = PacketFilter() if is_possible() else None
        self._open_servers()

    def __exit__(self, *args):
        super().__exit__(*args)
        if self.packets:
            self.packets.close()

    def heal(self):
        if self.packets:
            self.packets.heal()
        super().heal()


def deliver_late(fault):
    """All connections of the broker lose their packets, and it makes new ones. Then the kernel sends again what the old
    ones had to deliver."""
    broker, packets = fault.stage.brokers[fault.number], fault.stage.packets
    fault.actor = broker.name
    connections = connections_of(broker.pid)
    packets.cut_connections(connections)
    fault.wait()
    late = len(undelivered(connections))
    packets.mend_connections(connections)
    eventually(lambda: not undelivered(connections), "the late bytes arriving")
    fault.value = boot_now() - fault.began
    return late and f"{late} of {len(connections)} connections delivered late"


def rows_of_processes():
    """The faults of clients, of their connections and of brokers; not those of a store."""
    late = [Row("a broker's connections deliver late", "link_silent", "broker", 12, deliver_late)]
    return [row for row in ROWS if row.on == "client" or (row.on == "broker" and row.actor_kind == "broker")] + (
        late if is_possible() else [])
