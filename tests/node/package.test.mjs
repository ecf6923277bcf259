// SPDX-License-Identifier: Apache-2.0
//
// The package belongs to this repository: its version and generated code; and what is built into it works elsewhere.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {promisify} from 'node:util';
import {stand} from './fake_broker.mjs';
import {PACKAGE, REPOSITORY, requireThere} from './package.mjs';

const run = promisify(execFile);
const MANIFEST = JSON.parse(readFileSync(`${PACKAGE}package.json`, 'utf8'));

function folder(context) {
  const made = mkdtempSync(join(tmpdir(), 'dlnode'));
  context.after(() => { rmSync(made, {recursive: true, force: true}); });
  return made;
}

function filesOf(root) {
  const found = readdirSync(root, {withFileTypes: true}).flatMap(entry => (
    entry.isDirectory() ? filesOf(join(root, entry.name)).map(name => join(entry.name, name)) : [entry.name]));
  return found.sort();
}

/** A program's folder in which the packed package is installed, far from the repository. */
function program(context) {
  const root = folder(context);
  const target = join(root, 'node_modules/distlock');
  mkdirSync(target, {recursive: true});
  for (const name of ['package.json', ...MANIFEST.files]) {
    cpSync(`${PACKAGE}${name}`, join(target, name), {recursive: true});
  }
  for (const name of readdirSync(`${PACKAGE}node_modules`)) {
    if (!name.startsWith('.')) symlinkSync(`${PACKAGE}node_modules/${name}`, join(root, 'node_modules', name));
  }
  return root;
}

test('the version is that of the broker', () => {
  const [, version] = /project\(distlock VERSION (\S+)/.exec(readFileSync(`${REPOSITORY}CMakeLists.txt`, 'utf8'));
  assert.equal(MANIFEST.version, version);
});

test('the package says what it is', () => {
  assert.equal(MANIFEST.license, 'Apache-2.0');
  assert.equal(readFileSync(`${PACKAGE}LICENSE`, 'utf8'), readFileSync(`${REPOSITORY}LICENSE`, 'utf8'));
  assert.match(MANIFEST.homepage, /^https:/);
  assert.equal(MANIFEST.engines.node, '>=20');
  for (const [name, range] of Object.entries(MANIFEST.dependencies)) {
    assert.match(range, /^[~^]\d/, `${name} has a lower and an upper bound`);
  }
});

test('the generated code is that of the contract', async context => {
  const made = folder(context);
  await run(`${PACKAGE}stubs.sh`, [made]);
  const there = `${PACKAGE}src/generated`;
  assert.deepEqual(filesOf(there), filesOf(made), 'run client/node/stubs.sh');
  for (const name of filesOf(made)) {
    const [wanted, found] = [made, there].map(root => readFileSync(join(root, name), 'utf8'));
    assert.ok(found === wanted, `run client/node/stubs.sh: ${name} differs`);
  }
});

test('package-lock.json is of this package, and names no host of a registry', () => {
  const text = readFileSync(`${PACKAGE}package-lock.json`, 'utf8');
  const {packages} = JSON.parse(text);
  for (const [name, {resolved, integrity}] of Object.entries(packages)) {
    assert.equal(resolved, undefined, name);
    assert.ok(name === '' || integrity !== undefined, name);
  }
  assert.deepEqual(packages[''].dependencies, MANIFEST.dependencies);
  assert.equal(packages[''].version, MANIFEST.version);
});

test('import and require give the same classes, in a program of its own', async context => {
  const {broker} = await stand(context);
  const root = program(context);
  writeFileSync(join(root, 'main.mjs'), `
    import assert from 'node:assert/strict';
    import {createRequire} from 'node:module';
    import * as distlock from 'distlock';
    import Redlock from 'distlock/compat/redlock';
    import {Mutex} from 'distlock/compat/redis-semaphore';
    const required = createRequire(import.meta.url)('distlock');
    assert.equal(required.BusyError, distlock.BusyError);
    const dl = required.connect(${JSON.stringify(broker.url)});
    assert.ok(dl instanceof distlock.Client);
    await new Redlock([dl]).using(['a'], 1000, async () => undefined);
    await new Mutex(dl, 'b').acquire();
    await dl.close();`);
  await run(process.execPath, ['main.mjs'], {cwd: root});
});

test('a bundle of one file works without the package', async context => {
  const {broker} = await stand(context);
  const [root, away] = [program(context), folder(context)];
  writeFileSync(join(root, 'main.js'), `
    const {connect} = require('distlock');
    const dl = connect(${JSON.stringify(broker.url)});
    dl.lock('k').then(held => held.release()).then(outcome => console.log(outcome));`);
  const outfile = join(away, 'bundle.js');
  await requireThere('esbuild').build({entryPoints: [join(root, 'main.js')], bundle: true, platform: 'node', outfile});
  assert.equal((await run(process.execPath, [outfile], {cwd: away})).stdout, 'RELEASED\n');
});

test('the types are those of the README, also for a strict program that checks its libraries', async context => {
  const root = program(context);
  writeFileSync(join(root, 'main.mts'), `
    import * as distlock from 'distlock';
    import Redlock, {type Lock} from 'distlock/compat/redlock';
    import {Mutex} from 'distlock/compat/redis-semaphore';
    import {Broker} from 'distlock/testing';
    const dl = distlock.connect({label: 'x', defaults: {ttl: '10s'}, tls: {ca: '/ca.pem'}, channelOptions: {a: 1}});
    export const locks: distlock.Locks[] = [dl, new Broker().client()];
    export async function work(signal: AbortSignal): Promise<number> {
      await using held = await dl.lock('report', {wait: '10s', signal});
      const token: number = held.token;
      for await (const leader of dl.observe('boss')) if (leader?.value === 'me') break;
      const outcome: 'RELEASED' | 'STILL_HELD' | 'ALREADY_GONE' | 'UNKNOWN' = await held.release();
      const lock: Lock = await new Redlock([dl]).acquire(['a'], 1000);
      await new Mutex(dl, 'k').acquire();
      return dl.using(['a', 'b'], {wait: 0}, async (_, tokens) => tokens.length + token + outcome.length
        + lock.resources.length);
    }
    // @ts-expect-error a semaphore has a limit
    void dl.permits('p', {});
    // @ts-expect-error there is no such option
    void distlock.connect({tokn: 'x'});
    // @ts-expect-error there is no such policy
    void dl.lock('p', {policy: 'LIFO'});`);
  writeFileSync(join(root, 'main.cts'), `
    import distlock = require('distlock');
    export const busy = (error: unknown): boolean => error instanceof distlock.BusyError && error.queueLength > 0;`);
  writeFileSync(join(root, 'tsconfig.json'), JSON.stringify({compilerOptions: {
    strict: true, noEmit: true, module: 'node16', target: 'es2022', lib: ['es2022', 'esnext.disposable'],
    types: ['node'],
  }}));
  const tsc = `${PACKAGE}node_modules/typescript/bin/tsc`;
  await run(process.execPath, [tsc, '-p', root]).catch(error => { assert.fail(error.stdout); });
});

test('everything public has a comment', () => {
  const ts = requireThere('typescript');
  const documented = node => ts.getJSDocCommentsAndTags(node).length > 0;
  const isPublic = node => !node.modifiers?.some(({kind}) => (
    kind === ts.SyntaxKind.PrivateKeyword || kind === ts.SyntaxKind.ProtectedKeyword));
  const bare = [];
  for (const name of ['client', 'detached', 'errors', 'held', 'locks', 'testing', 'types']) {
    const text = readFileSync(`${PACKAGE}src/${name}.ts`, 'utf8');
    const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
    const plain = /^(toJSON|parts|tokens|constructor|wait|code|name|key|reason|fieldProblems|cause|message)$/;
    file.forEachChild(node => {
      const isExported = node.modifiers?.some(({kind}) => kind === ts.SyntaxKind.ExportKeyword);
      if (!ts.isClassDeclaration(node) || !isExported) return;
      if (!documented(node)) bare.push(node.name.text);
      const seen = new Set();
      for (const member of node.members.filter(isPublic)) {
        const title = member.name?.text ?? '';
        if (title !== '' && !seen.has(title) && !plain.test(title) && !documented(member)) {
          bare.push(`${node.name.text}.${title}`);
        }
        seen.add(title);
      }
    });
  }
  assert.deepEqual(bare, []);
});
