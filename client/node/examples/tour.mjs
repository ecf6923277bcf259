// SPDX-License-Identifier: Apache-2.0
//
// A tour of the package: node examples/tour.mjs, with a broker at DISTLOCK_SERVER.
import * as distlock from 'distlock';

const dl = distlock.connect(); // one client for a process; it connects at its first call

// A mutex. wait: undefined until granted, 0 one try, or a duration.
const held = await dl.lock('report', {wait: '10s', owner: 'host 7'});
console.log('held:', held.isHeld, 'at risk:', held.atRisk);
try {
  await dl.lock('report', {wait: 0});
} catch (error) {
  if (!(error instanceof distlock.BusyError)) throw error;
  console.log('busy:', error.reason, 'by', error.holders.map(holder => holder.owner));
}
console.log('token is the newest:', await dl.checkToken('report', held.token));
console.log('given back:', await held.release()); // waits for the answer; releaseSoon() would not

// Readers, permits of a semaphore, several locks at once. `await using` gives each back at the end of the scope, where
// the runtime or the compiler knows it; this tour runs without.
const reader = await dl.shared('catalog');
const permits = await dl.permits('encode', {limit: 4, n: 3});
const both = await dl.all(['account/7', 'account/9'], {wait: '5s'});
const keys = [];
for await (const lock of dl.list()) keys.push(lock.key);
console.log('held now:', keys.sort());
for (const one of [reader, permits, both]) one.releaseSoon();

// A function under locks, with a signal that is aborted when one of them is lost.
const sum = await dl.using(['account/7', 'account/9'], {wait: '5s'}, async (signal, tokens) => tokens.length);
console.log('tokens:', sum);

// A signal ends a wait.
const holder = await dl.lock('nightly');
await dl.lock('nightly', {signal: AbortSignal.timeout(100)}).catch(error => console.log(error.name, error.cause.name));
holder.releaseSoon();

// An election: everybody can see who leads.
const term = await dl.campaign('scheduler', '10.0.0.7:9000');
await dl.proclaim(term, '10.0.0.7:9001');
console.log('leader:', (await dl.leader('scheduler')).value);
await term.release();
console.log('leader:', await dl.leader('scheduler'));

// A lease without a stream, which the caller renews; leaseId hands it to another process.
const lease = await dl.acquireDetached('deploy', {ttl: '30s'});
console.log('renewed for', Math.ceil(await lease.renew() / 1000), 's;', await lease.release());

// A lock that is lost: who knows the leaseId can release it.
const victim = await dl.lock('report');
const {signal} = victim;
signal.addEventListener('abort', () => console.log('lost:', signal.reason.cause));
await dl.detached(victim.leaseId).release();

// A shutdown that lets the work end.
const last = await dl.lock('last');
const {held: count, atRisk, waiting} = dl.stats();
console.log(`${count} held, ${atRisk} at risk, ${waiting} waited for`);
setTimeout(() => last.releaseSoon(), 10);
console.log('drained:', await dl.drained('10s'));
await dl.close();
