// SPDX-License-Identifier: Apache-2.0
//
// A library's manners beside its locks.
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {hostname, tmpdir, userInfo} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {eventually, grantAll, rejected, stand} from './fake_broker.mjs';
import {distlock, grpc, message, PACKAGE, refusalOfStatus, wire} from './package.mjs';

const {BusyError, InvalidRequestError, UnavailableError} = distlock;

test('whoever names no owner is named', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = [await dl.lock('k'), await dl.lock('empty', {owner: ''}), await dl.lock('named', {owner: 'me'}),
    await dl.lock('again', {owner: 'me', reentrant: true}), await dl.lock('unnamed', {reentrant: true}),
    await dl.all(['a', {key: 'b', owner: 'you'}])];
  const owners = (await broker.session()).got('acquire').flatMap(({locks}) => locks.map(({owner}) => owner));
  const here = `${userInfo().username}@${hostname()}:${process.pid}`;
  assert.deepEqual(owners, [here, here, 'me', 'me', '', here, 'you']);
  for (const one of held) one.releaseSoon();
  broker.unary.Acquire = ({locks: [{owner}]}) => (
    {grants: [message(wire.Grant, {key: owner, validFor: {seconds: 10, nanos: 0}})]});
  assert.equal((await dl.acquireDetached('k')).key, here);
});

test('what one client is given is not for others', async context => {
  const {broker, connect, folder} = await stand(context);
  const file = join(folder, 'token');
  writeFileSync(file, 'from.a.file\n');
  const shown = call => call.metadata.get('authorization').concat(call.metadata.get('user-agent'));
  const calls = [[{}, []], [{token: 'given.to.it'}, ['Bearer given.to.it']],
    [{tokenFile: file}, ['Bearer from.a.file']], [{channelOptions: {'grpc.primary_user_agent': 'reports/7'}}, []]];
  for (const [options, wanted] of calls) {
    const dl = connect(broker.url, options);
    await (await dl.lock('k')).release();
    const [agent, ...authorization] = shown((await broker.session(broker.sessions.length)).call).reverse();
    assert.deepEqual(authorization, wanted);
    assert.equal(agent.startsWith('reports/7 '), 'channelOptions' in options);
  }
  writeFileSync(file, 'a.new.one\n');
  const dl = connect(broker.url, {tokenFile: file});
  await (await dl.lock('k')).release();
  assert.deepEqual(shown(broker.sessions.at(-1).call)[0], 'Bearer a.new.one');
});

test('what cannot be used is refused by connect', context => {
  const folder = mkdtempSync(join(tmpdir(), 'dlnode'));
  context.after(() => { rmSync(folder, {recursive: true}); });
  const pem = join(folder, 'x.pem');
  writeFileSync(pem, 'no certificate');
  const [there, secure] = ['127.0.0.1:7420', 'tls://broker:7420'];
  const wrong = [[there, {tokn: 'x'}, /no option tokn; the options are label, .* tokenFile,/],
    [there, {token: 'two words'}, /^token holds no token: it has a space/], [there, {token: ''}, /^token is empty/],
    [there, {token: 'x', tokenFile: 'y'}, /token or tokenFile, not both/],
    [there, {tokenFile: `${folder}/none`}, /^tokenFile: cannot read '.*none'/],
    [there, {tls: {ca: pem}}, /tls is given, and no address begins with tls:/],
    [secure, {tls: {ca: pem}}, /^tls\.ca: '.*' holds no PEM block/],
    [secure, {tls: {cert: pem}}, /tls\.cert and tls\.key belong together/],
    [secure, {tls: {caFile: pem}}, /tls has no caFile; it has ca, cert, key, serverName/]];
  for (const [address, options, problem] of wrong) {
    assert.throws(() => distlock.connect(address, options), error => (
      error instanceof TypeError && problem.test(error.message)), String(problem));
  }
});

test('values that are wrong are named as the program knows them', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const field = async call => (await rejected(call, InvalidRequestError)).fieldProblems[0].field;
  for (const token of ['5', 5.5, -1, 2 ** 53, NaN, undefined, 2n ** 60n]) {
    assert.equal(await field(dl.checkToken('k', token)), 'token', String(token));
  }
  broker.unary.CheckToken = ({fencingToken}) => message(wire.CheckTokenResponse, {newest: fencingToken === 7});
  assert.ok(await dl.checkToken('k', 7n) && await dl.checkToken('k', 7) && !await dl.checkToken('k', 8));
  assert.equal(await field(dl.permits('p')), 'limit');
  assert.equal(await field(dl.all([])), 'locks');
  const one = await dl.all('ab');
  assert.deepEqual(one.parts.map(({key}) => key), ['ab'], 'a text is one key');
  one.releaseSoon();

  const refuse = (...fields) => {
    const fieldProblems = fields.map(([name, description]) => ({field: name, description}));
    broker.onAcquire = (session, {id}) => {
      const text = fields.map(([name, description]) => `${name} ${description}`).join('; ');
      session.refuse(id, 'INVALID_ARGUMENT', {message: text, fieldProblems});
    };
  };
  refuse(['acquire.locks[0].lock_delay', 'is 2m; max_hold does not bound it']);
  const late = await rejected(dl.lock('k', {lockDelay: '2m'}), InvalidRequestError);
  assert.equal(late.message, 'INVALID_ARGUMENT: lockDelay is 2m; maxHold does not bound it');
  assert.deepEqual(late.fieldProblems, [{field: 'lockDelay', description: 'is 2m; maxHold does not bound it'}]);
  refuse(['acquire.locks[0].max_wait', 'is 25h'], ['acquire.locks[1].permits', 'is 0']);
  const both = await rejected(dl.all(['a', 'b']), InvalidRequestError);
  assert.equal(both.message, 'INVALID_ARGUMENT: locks[0].wait is 25h; locks[1].n is 0');
  broker.onAcquire = (session, {id}) => {
    const text = 'lock "default:max_wait" is held by "lease_id"; retry later, or set max_wait to wait in the queue';
    session.refuse(id, 'LOCK_HELD', {message: text});
  };
  assert.equal((await rejected(dl.lock('max_wait'), BusyError)).message,
    'LOCK_HELD: lock "default:max_wait" is held by "lease_id"; retry later, or set wait to wait in the queue');
  broker.unary.Renew = () => {
    throw {code: grpc.status.INVALID_ARGUMENT, details: 'lease_id is empty', metadata: new grpc.Metadata()};
  };
  assert.match((await rejected(dl.detached('').renew(), InvalidRequestError)).message, /leaseId is empty/);
});

test('a small number of milliseconds is asked about, once', async context => {
  const {broker, connect} = await stand(context);
  const heard = [];
  const listen = warning => heard.push(warning.message);
  process.on('warning', listen);
  context.after(() => process.off('warning', listen));
  broker.onAcquire = (session, {id}) => { session.refuse(id, 'LOCK_HELD'); };
  const dl = connect(broker.url);
  for (const wait of [0, '10ms', 100, 10, 10]) await rejected(dl.lock('k', {wait}), BusyError);
  await eventually(() => heard.length > 0);
  const asked = "distlock: wait is 10, which is 10 milliseconds: write '10ms' if that is meant, else '10s'";
  assert.deepEqual(heard, [asked]);
});

test('why no connection came about is said in words', () => {
  const said = (why, address) => refusalOfStatus({code: grpc.status.UNAVAILABLE, details:
    `No connection established. Last error: ${why}. Resolution note: `}, address).message;
  const at = '(2026-11-28T17:34:38.395Z)';
  assert.equal(said('Error: connect ECONNREFUSED 127.0.0.1:1', 'a:1'), 'connect ECONNREFUSED 127.0.0.1:1');
  for (const address of ['a:1', 'unix:///s', 'tls://a:1']) {
    assert.match(said(`Failed to connect ${at}`, address), /^it hangs up .*limit max-connections-per-peer\)$/);
  }
  assert.match(said(`read ECONNRESET ${at}`, 'a:1'), /wants TLS \(the address is tls:\/\/host:port then\)/);
  assert.match(said('Error: read ECONNRESET', 'tls://a:1'), /wants a client certificate .* or it speaks no TLS/);
  assert.match(said('Error: self-signed certificate in certificate chain', 'tls://a:1'),
    /not signed by an authority .*DISTLOCK_TLS_CA/);
  assert.match(said("Error [ERR_TLS_CERT_ALTNAME_INVALID]: Hostname/IP does not match certificate's altnames",
    'tls://a:1'), /for other names .*tls\.serverName/);
  assert.equal(refusalOfStatus({code: grpc.status.UNAVAILABLE, details: 'it restarts'}, 'a:1').message, 'it restarts');
});

test('one try without a broker ends after a second, a wait at its end', async context => {
  const {connect, folder} = await stand(context);
  const dl = connect(`unix://${folder}/nobody.sock`);
  for (const [wait, least] of [[0, 900], ['300ms', 300]]) {
    const began = performance.now();
    const {reason, waited} = await rejected(dl.lock('k', {wait}), UnavailableError);
    assert.ok(reason === 'UNREACHABLE' && waited >= least && waited < 3000 && performance.now() - began >= least);
  }
});

test('a client says what it has', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  assert.deepEqual(dl.stats(), {held: 0, atRisk: 0, waiting: 0, connected: false});
  assert.ok(await dl.drained());
  const [held, both] = [await dl.lock('k', {resume: true}), await dl.all(['a', 'b'])];
  assert.deepEqual(dl.stats(), {held: 3, atRisk: 0, waiting: 0, connected: true});
  broker.onAcquire = () => undefined;
  const waits = rejected(dl.all(['w', 'v']), distlock.ClientClosedError);
  await (await broker.session()).awaitCommand('acquire', 3);
  assert.deepEqual(dl.stats(), {held: 3, atRisk: 0, waiting: 2, connected: true});
  both.releaseSoon();
  assert.equal(dl.stats().held, 1, 'what is given back shows nowhere, also before the broker knows');
  broker.refuseSessions = {code: grpc.status.UNAVAILABLE, details: 'restarts'};
  (await broker.session()).end(grpc.status.UNAVAILABLE, 'killed');
  await eventually(() => !dl.connected);
  assert.deepEqual(dl.stats(), {held: 1, atRisk: 1, waiting: 2, connected: false});
  held.releaseSoon();
  assert.equal(dl.stats().held, 0);
  await dl.close();
  await waits;
  assert.deepEqual(dl.stats(), {held: 0, atRisk: 0, waiting: 0, connected: false});
});

test('the observer that the README shows', async context => {
  const {broker} = await stand(context);
  const page = readFileSync(`${PACKAGE}README.md`, 'utf8');
  const [, sample] = /^## Tracing and metrics\n\n```ts\n([^]*?)^```/m.exec(page);
  const said = [];
  const tracer = {startSpan: (name, {attributes: {keys}}) => {
    said.push([name, ...keys]);
    return {addEvent: outcome => said.push(outcome), end: () => said.push('end')};
  }};
  process.env.DISTLOCK_SERVER = broker.url;
  context.after(() => { delete process.env.DISTLOCK_SERVER; });
  const dl = new Function('distlock', 'tracer', `${sample}; return dl;`)(distlock, tracer);
  await (await dl.all(['a', 'b'])).release();
  await dl.close();
  assert.deepEqual(said, [['lock', 'a', 'b'], 'GRANTED', 'end', 'end']);
});

test('a shutdown waits until all is given back', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  assert.equal(await dl.drained('20ms'), false);
  broker.frozen = true;
  const [order, session] = [[], await broker.session()];
  const waits = [1, 2].map(async one => {
    assert.equal(await dl.drained(), true);
    order.push(one);
  });
  held.releaseSoon();
  const release = await session.awaitCommand('release');
  assert.equal(await dl.drained('20ms'), false);
  assert.deepEqual(order, []);
  broker.frozen = false;
  session.obey(release);
  await Promise.all(waits);
  const queued = dl.lock('q');
  const taken = queued.then(one => one.release());
  assert.equal(await dl.drained(), true);
  await taken;

  broker.onAcquire = () => undefined;
  const refused = rejected(dl.lock('w'), distlock.ClientClosedError);
  const closing = dl.drained();
  await dl.close();
  assert.equal(await closing, true);
  await refused;
  assert.ok(await dl.drained());
  broker.onAcquire = grantAll;
});
