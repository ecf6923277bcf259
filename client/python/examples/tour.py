#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tour of the package: python3 examples/tour.py, with a broker at DISTLOCK_SERVER."""
import asyncio
import threading

import distlock

dl = distlock.connect()  # one client for a process; it connects at its first call

# A mutex. wait: None until granted, 0 one try, or seconds. Leaving the body gives the lock back.
with dl.lock("report", wait=10, owner="host 7") as held:
    print("held:", held.is_held, "for", round(held.valid_for), "s unless renewed")
    try:
        dl.lock("report", wait=0).acquire()
    except distlock.Busy as busy:
        print("busy:", busy.reason, "by", [holder.owner for holder in busy.holders])
    print("token is the newest:", dl.check_token("report", held.token))
    print("given back:", held.release().name)  # waits for the answer; leaving the body alone would not

# Readers, permits of a semaphore, several locks at once.
with dl.shared("catalog"), dl.permits("encode", limit=4, n=3), dl.all(["account/7", "account/9"], wait=5) as both:
    print("held now:", sorted(lock.key for lock in dl.list()))
    print("tokens:", len(both.tokens))


# A decorator: what is busy is skipped.
@dl.locked("nightly", wait=0, busy=distlock.SKIP)
def nightly() -> str:
    return "done"


print("nightly:", nightly())

# An election: everybody can see who leads.
with dl.campaign("scheduler", value="10.0.0.7:9000"):
    leader = dl.leader("scheduler")
    print("leader:", leader.value if leader else None)

# A lease without a stream, which the caller renews; lease_id hands it to another process.
lease = dl.acquire_detached("deploy", ttl=30)
print("renewed for", round(lease.renew()), "s;", lease.release().name)

# A shutdown that lets the work end.
last = dl.lock("last").acquire()
stats = dl.stats()
print(stats.held, "held,", stats.at_risk, "at risk,", stats.waiting, "waited for")
threading.Timer(0.01, last.release).start()
print("drained:", dl.drained(timeout=10))


async def main() -> None:
    async with distlock.aio.connect() as aio:
        async with aio.lock("report", wait=10) as held:  # the body is cancelled when the lock is lost
            print("asyncio:", held.is_held)
            thief = aio.detached(held.lease_id)  # who knows the lease_id can release it
            try:
                await thief.release()
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                print("cancelled")
                raise


try:
    asyncio.run(main())
except distlock.LockLost as lost:
    print("lost:", lost.cause)
