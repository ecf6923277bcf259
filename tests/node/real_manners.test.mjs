// SPDX-License-Identifier: Apache-2.0
//
// Manners beside locks, of this package and a real broker together.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {once} from 'node:events';
import {writeFileSync} from 'node:fs';
import {createServer} from 'node:net';
import {join} from 'node:path';
import {test} from 'node:test';
import {rejected} from './fake_broker.mjs';
import {one, world} from './harness.mjs';
import {distlock} from './package.mjs';

const {BusyError, RefusedError, UnavailableError} = distlock;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const {port} = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** An authority's ca.pem, and what it has signed: broker.pem and client.pem with their keys. */
function makeCertificates(folder) {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const openssl = (...args) => execFileSync('openssl', args, {cwd: folder, stdio: 'pipe'});
  openssl('req', '-x509', ...key, '-days', '2', '-subj', '/CN=test-ca', '-keyout', 'ca.key', '-out', 'ca.pem');
  for (const [name, names] of [['broker', 'DNS:localhost,IP:127.0.0.1'], ['client', 'DNS:client.test']]) {
    openssl('req', ...key, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
    writeFileSync(join(folder, `${name}.ext`), `subjectAltName=${names}\n`);
    openssl('x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2',
      '-extfile', `${name}.ext`, '-out', `${name}.pem`);
  }
}

test('each client has its own certificates', async context => {
  const {folder, embedded, connect} = world(context);
  makeCertificates(folder);
  const port = await freePort();
  const pem = name => join(folder, name);
  await embedded(['--listen', `127.0.0.1:${port}`, '--allow-all', '--tls-cert', pem('broker.pem'), '--tls-key',
    pem('broker.key'), '--tls-client-ca', pem('ca.pem')]);
  const right = {ca: pem('ca.pem'), cert: pem('client.pem'), key: pem('client.key')};
  const dl = connect(`tls://localhost:${port}`, {tls: right});
  const held = await dl.lock('k');
  assert.equal((await dl.inspect('k')).holderCount, 1);
  for (const [address, tls, why] of [['tls://localhost', {ca: right.ca}, /wants a client certificate/],
    ['tls://localhost', undefined, /not signed by an authority that this machine trusts/],
    ['tls://localhost', {...right, serverName: 'other.test'}, /for other names/],
    ['localhost', undefined, /wants TLS/]]) {
    const other = connect(`${address}:${port}`, {...(tls && {tls}), unreachableAfter: '2s'});
    assert.match((await rejected(other.lock('other', {wait: 0}), UnavailableError)).message, why);
  }
  assert.ok(held.isHeld);
});

test('a client too many is told which limit', async context => {
  const {broker, connect} = await one(context, '--limits', 'max-connections-per-peer=2');
  const held = [await connect(broker.url).lock('a'), await connect(broker.url).lock('b')];
  const many = await rejected(connect(broker.url).lock('c', {wait: 0}), UnavailableError);
  assert.match(many.message, /limit max-connections-per-peer/);
  assert.ok(held.every(one => one.isHeld));
});

test('after a release nothing shows the lock as held', async context => {
  const {broker, connect} = await one(context);
  const [dl, other] = [connect(broker.url), connect(broker.url)];
  for (let round = 0; round < 20; ++round) { // also when a broker has seen that the lock comes back again and again
    const term = await dl.campaign('boss', `v${round}`);
    assert.equal(await term.release(), 'RELEASED');
    assert.equal(await other.leader('boss'), undefined);
    const {isFree, holderCount} = await other.inspect('boss');
    assert.ok(isFree && holderCount === 0);
    for await (const {key} of other.list()) assert.fail(`${key} is listed`);
  }
});

test('a job that several hosts start runs once', async context => {
  const {broker, connect} = await one(context);
  let runs = 0;
  for (let host = 0; host < 3; ++host) {
    await connect(broker.url).using('nightly', {wait: 0, minHold: '50s'}, () => { runs += 1; }).catch(error => {
      assert.ok(error instanceof BusyError && error.block.timeLeft > 0 && error.block.timeLeft <= 50_000);
    });
  }
  assert.equal(runs, 1);
});

test('no words of the contract in what a program is told', async context => {
  const {broker, connect} = await one(context);
  const dl = connect(broker.url);
  const [busy, permits] = [await dl.lock('busy', {owner: 'me'}), await dl.permits('p', {limit: 2})];
  const calls = [
    () => dl.lock(''), () => dl.lock('k', {ttl: '30ms'}), () => dl.lock('k', {lockDelay: '100h'}),
    () => dl.lock('k', {minHold: '100h'}), () => dl.lock('k', {wait: '100h'}), () => dl.lock('k', {reentrant: true}),
    () => dl.permits('k', {limit: 2, n: 3}), () => dl.all(['a', 'a']), () => dl.all(['a', 'b'], {minHold: '5s'}),
    () => dl.lock('k', {owner: 'x'.repeat(300)}), () => dl.lock('k', {metadata: {a: 'x'.repeat(2000)}}),
    () => dl.lock('k', {namespace: 'x'.repeat(70)}), () => dl.shared('k', {minHold: '5s'}),
    () => dl.lock('busy', {wait: 0}), () => dl.lock('busy', {wait: '100ms'}),
    () => dl.permits('p', {limit: 3, wait: 0}), () => dl.acquireDetached(''),
    () => dl.acquireDetached('busy', {wait: 0}), () => dl.detached('').renew(), () => dl.detached('x').renew(),
    () => dl.detached('').release(), () => dl.acquireDetached('k', {resume: true}), () => dl.inspect(''),
    () => dl.inspect('k', {maxWaiters: 5000}), () => dl.watch('').next(), () => dl.list('x'.repeat(2000)).next(),
    () => permits.downgrade()];
  for (const call of calls) {
    const {message, fieldProblems} = await rejected(call(), RefusedError);
    for (const text of [message, ...fieldProblems.flatMap(({field, description}) => [field, description])]) {
      assert.doesNotMatch(text.replace(/^[A-Z_]+: /, ''), /\b[a-z]+_[a-z]+|acquire\./, text);
    }
  }
  await busy.release();
});
