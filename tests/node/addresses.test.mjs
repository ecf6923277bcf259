// SPDX-License-Identifier: Apache-2.0
//
// Addresses at which no broker can be, and a token's file without a token: connect() says what is wrong.
import assert from 'node:assert/strict';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {distlock} from './package.mjs';

const WRONG = {
  '127.0.0.1': 'has no port; write 127.0.0.1:7420',
  'tls://broker': 'has no port; write tls://broker:7420',
  'dns:///broker': 'has no port; write dns:///broker:7420',
  'broker:': 'has no port; write broker:7420',
  '[::1]': 'has no port; write [::1]:7420',
  '::1': 'is IPv6 without brackets; write [::1]:7420',
  '127.0.0.1:72956': 'has the port 72956; a port is a number of 1..65535',
  'tls://broker:0': 'has the port 0; a port is a number of 1..65535',
  'a:1,broker:locks': 'has the port locks; a port is a number of 1..65535',
  'tls://[::1]:65536': 'has the port 65536; a port is a number of 1..65535',
};

test('a port is needed, and fits', async () => {
  for (const [address, problem] of Object.entries(WRONG)) {
    assert.throws(() => distlock.connect(address), error => error instanceof TypeError &&
      error.message.startsWith("the broker's address ") && error.message.endsWith(` ${problem}`), address);
  }
  for (const address of ['[::1]:65535', 'a:1,b:2', 'dns://8.8.8.8/broker:7420', 'dns:broker:7420', 'unix:x', '/x',
    'ipv4:127.0.0.1:1', 'ipv6:[::1]:1']) {
    await distlock.connect(address).close();
  }
});

test('a file without a token is named', async context => {
  const folder = mkdtempSync(join(tmpdir(), 'distlock-'));
  const path = join(folder, 'token');
  process.env.DISTLOCK_TOKEN_FILE = path;
  context.after(() => {
    delete process.env.DISTLOCK_TOKEN_FILE;
    rmSync(folder, {recursive: true});
  });
  const says = (problem, address = 'unix:///s') => {
    assert.throws(() => distlock.connect(address), error => error instanceof TypeError &&
      error.message.includes('DISTLOCK_TOKEN_FILE') && error.message.includes(path) && error.message.includes(problem),
    problem);
  };
  says('no such file', '10.0.0.1:1,tls://localhost:1');
  await distlock.connect('10.0.0.1:1').close(); // is not shown it
  for (const [text, problem] of [['', 'is empty'], ['dlt_a\nops:0123\n', 'has 2 lines; it must hold the token alone'],
    [`ops:${'0a'.repeat(32)}`, "holds a hash, which is for the broker's --token-file"],
    [`${'0a'.repeat(32)}\n`, 'holds a hash'], ['two words', 'holds no token: it has a space'],
    ['a'.repeat(16 * 1024 + 1), 'is larger than 16 KiB']]) {
    writeFileSync(path, text);
    says(problem);
  }
  writeFileSync(path, `dlt_${'A'.repeat(43)}\n`);
  await distlock.connect('unix:///s').close();
});
