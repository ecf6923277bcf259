# SPDX-License-Identifier: Apache-2.0
"""What attackers do beside a soak: no fault may excuse anything then, and no honest lease may be lost."""
import functools
import json
import os
import subprocess
import sys

from attacks import FLOODS, HERE, STRANGER
from soak_table import LONG, Row

OTHERS = ("rapid-reset", "acquire-waiting", "watch", "sessions", "window-0", "list-unread", "big-message", "garbage",
          "idle", "bin-rubbish")


def assail(name, fault):
    """Another user attacks the broker through its unix socket."""
    broker = fault.stage.brokers[fault.number]
    fault.actor = broker.name
    path = broker.url.removeprefix("unix://")
    os.chmod(path, 0o666)
    for folder in (fault.stage.world.folder, *fault.stage.world.folder.parents[:-2]):
        os.chmod(folder, 0o755)
    argv = ["setpriv", "--pdeathsig", "KILL"]
    argv += ["--reuid", str(STRANGER), "--clear-groups"] if os.geteuid() == 0 else []
    argv += ["--", sys.executable, "-B", HERE / ("flood.py" if name in FLOODS else "assailant.py"), name, "--target",
             path, "--seconds", f"{fault.seconds:.1f}"]
    attacker = fault.stage.start(subprocess.Popen, argv, stdout=subprocess.PIPE, text=True)
    out, _ = attacker.communicate()
    did = json.loads(out) if attacker.returncode == 0 else {}
    return f"{did['connections']} connections, {did['megabytes']} MB" if did.get("connections") else ""


ATTACK_ROWS = [Row(f"attack: {name}", "", "broker", LONG, functools.partial(assail, name), "broker")
               for name in (*FLOODS, *OTHERS)]
