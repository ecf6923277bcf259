// SPDX-License-Identifier: Apache-2.0
//
// The package as an outsider installs it.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {promisify} from 'node:util';
import {stand} from './fake_broker.mjs';
import {PACKAGE} from './package.mjs';

const run = promisify(execFile);
const MANIFEST = JSON.parse(readFileSync(`${PACKAGE}package.json`, 'utf8'));

test('the archive, installed in an empty folder, runs and compiles what the README shows', async context => {
  const {broker} = await stand(context);
  const root = mkdtempSync(join(tmpdir(), 'dlnode'));
  context.after(() => { rmSync(root, {recursive: true, force: true}); });
  const packed = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', root], {cwd: PACKAGE});
  const [{filename, files}] = JSON.parse(packed.stdout);
  const names = files.map(({path}) => path);
  for (const name of ['LICENSE', 'README.md', 'package.json', 'dist/index.mjs', 'dist/testing.d.ts']) {
    assert.ok(names.includes(name), name);
  }
  assert.deepEqual(names.filter(name => !/^(dist\/|LICENSE$|README\.md$|package\.json$)/.test(name)), []);
  writeFileSync(join(root, 'package.json'), '{"private": true}');
  await run('npm', ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', `./${filename}`],
    {cwd: root});
  const [, shown] = /```ts\n([^]*?)```/.exec(readFileSync(`${PACKAGE}README.md`, 'utf8'));
  const entries = Object.keys(MANIFEST.exports).filter(name => name !== './package.json').map(name => name.slice(1));
  writeFileSync(join(root, 'main.mts'), `${entries.map(name => `import 'distlock${name}';`).join('\n')}
    declare const signal: AbortSignal, rows: string[];
    declare function save(rows: string[], how: {token: number, signal: AbortSignal}): Promise<void>;
    ${shown}`);
  const tsc = `${PACKAGE}node_modules/typescript/bin/tsc`;
  const {stdout} = await run(process.execPath, [tsc, '--noEmit', '--strict', '--module', 'node16', '--target', 'es2022',
    '--types', 'node', '--typeRoots', `${PACKAGE}node_modules/@types`, '--lib', 'es2022,esnext.disposable',
    '--listFiles', 'main.mts'], {cwd: root}).catch(error => { assert.fail(error.stdout); });
  const read = stdout.split('\n');
  assert.ok(read.some(path => path.endsWith('/distlock/dist/testing.d.mts')));
  // Compilers differ in what they take of the types of others.
  assert.deepEqual(read.filter(path => /@grpc|@bufbuild|dist\/generated/.test(path)), []);
  writeFileSync(join(root, 'main.mjs'), `import * as distlock from 'distlock';
    const dl = distlock.connect(${JSON.stringify(broker.url)});
    console.log(await (await dl.lock('k')).release());`);
  assert.equal((await run(process.execPath, ['main.mjs'], {cwd: root})).stdout, 'RELEASED\n');
});
