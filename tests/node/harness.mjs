// SPDX-License-Identifier: Apache-2.0
//
// Real processes: a redis-server, and distlockd (DISTLOCKD, default build/release/bin/distlockd). All end with the
// test, even when that is killed.
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {closeSync, mkdtempSync, openSync, readFileSync, rmSync} from 'node:fs';
import {createConnection} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {eventually} from './fake_broker.mjs';
import {distlock, REPOSITORY} from './package.mjs';

const DISTLOCKD = process.env.DISTLOCKD ?? `${REPOSITORY}build/release/bin/distlockd`;

class Process {
  constructor(name, argv, folder) {
    this.argv = argv;
    this.logPath = join(folder, `${name}.log`);
  }

  launch() {
    const log = openSync(this.logPath, 'a');
    this.logStart = this.logText().length;
    this.child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', ...this.argv], {stdio: ['ignore', log, log]});
    this.ended = once(this.child, 'exit');
    closeSync(log);
  }

  logText() {
    return readFileSync(this.logPath, 'utf8');
  }

  /** The output of the present run. */
  log() {
    return this.logText().slice(this.logStart);
  }

  get alive() {
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }

  async awaitReady(ready) {
    await eventually(() => {
      if (!this.alive) throw new Error(`${this.argv[0]} has ended:\n${this.log()}`);
      return ready();
    }, `${this.argv[0]} being ready`);
  }

  async kill() {
    if (!this.alive) return;
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Freezes it, like a frozen machine: its sockets stay open. */
  async stop() {
    this.child.kill('SIGSTOP');
    await eventually(() => readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1].startsWith('T'));
  }

  cont() {
    this.child.kill('SIGCONT');
  }
}

class Redis extends Process {
  constructor(folder) {
    const path = join(folder, 'redis.sock');
    super('redis', ['redis-server', '--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no', '--dir',
      folder, '--maxmemory-policy', 'noeviction'], folder);
    this.path = path;
    this.url = `unix://${path}`;
  }

  /** The answer to one command, as RESP has it. */
  async command(text) {
    const socket = createConnection(this.path, () => { socket.write(`${text}\r\n`); });
    const [answer] = await once(socket, 'data');
    socket.destroy();
    return String(answer);
  }

  async start() {
    this.launch();
    await this.awaitReady(() => new Promise(resolve => {
      const socket = createConnection(this.path, () => { socket.write('PING\r\n'); });
      socket.once('data', text => {
        socket.destroy();
        resolve(String(text).startsWith('+PONG'));
      });
      socket.once('error', () => { resolve(false); });
    }));
    return this;
  }
}

class Distlockd extends Process {
  constructor(folder, name, args) {
    const url = `unix://${folder}/${name}.sock`;
    super(name, [DISTLOCKD, '--listen', url, '--http', '', ...args], folder);
    this.url = url;
  }

  async start() {
    this.launch();
    await this.awaitReady(() => this.log().includes('distlockd ready'));
    return this;
  }

  /** Sends SIGTERM, and returns the exit code when the broker has ended. */
  async drain() {
    this.child.kill('SIGTERM');
    const [code] = await this.ended;
    return code;
  }
}

/** Processes and clients, all ended after the test. */
export function world(context) {
  const folder = mkdtempSync(join(tmpdir(), 'dlnode'));
  const [processes, clients] = [[], []];
  context.after(async () => {
    await Promise.all(clients.map(client => client.close()));
    for (const one of processes.reverse()) await one.kill();
    rmSync(folder, {recursive: true, force: true});
  });
  const add = process => {
    processes.push(process);
    return process.start();
  };
  return {
    folder,
    connect(address, options) {
      clients.push(distlock.connect(address, options));
      return clients.at(-1);
    },
    redis: () => add(new Redis(folder)),
    distlockd: (redis, {name = 'distlockd', args = []} = {}) => (
      add(new Distlockd(folder, name, ['--redis', redis.url, ...args]))),
    /** With a store of its own. */
    embedded: args => add(new Distlockd(folder, 'distlockd', args)),
    logs: () => processes.map(one => one.logText()).join('\n----\n'),
  };
}

/** A broker on its own embedded store. */
export async function one(context, ...args) {
  const made = world(context);
  return {...made, broker: await made.embedded(args)};
}

/** Two brokers of one store. */
export async function two(context) {
  const made = world(context);
  const redis = await made.redis();
  const start = name => made.distlockd(redis, {name, args: ['--drain-timeout', '20s']});
  return {...made, brokers: await Promise.all(['a', 'b'].map(start))};
}
