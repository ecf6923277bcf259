// SPDX-License-Identifier: Apache-2.0
//
// Several hosts of one schedule: processes of an example, and the runs that they tell of.
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {eventually} from './fake_broker.mjs';

/** One process; it is killed after the test. */
export class Host {
  constructor(context, argv, broker) {
    this.lines = [];
    this.child = spawn(process.execPath, argv,
      {env: {...process.env, DISTLOCK_SERVER: broker.url, NO_COLOR: '1'}, stdio: ['ignore', 'pipe', 'pipe']});
    this.ended = once(this.child, 'exit');
    for (const stream of [this.child.stdout, this.child.stderr]) {
      let rest = '';
      stream.on('data', text => {
        const lines = `${rest}${text}`.split('\n');
        rest = lines.pop();
        this.lines.push(...lines);
      });
    }
    context.after(() => this.kill());
  }

  async kill() {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** The exit code after SIGTERM. */
  async end() {
    this.child.kill('SIGTERM');
    const [code] = await this.ended;
    return code;
  }

  /** What its lines say of `word`: the parts that follow it. */
  told(word) {
    return this.lines.flatMap(line => {
      const found = new RegExp(`(?:^|\\s)${word} (.*)$`).exec(line);
      return found === null ? [] : [found[1].split(' ')];
    });
  }

  async says(word, count = 1) {
    await eventually(() => {
      if (this.child.exitCode !== null) throw new Error(`the host has ended:\n${this.lines.join('\n')}`);
      return this.told(word).length >= count;
    }, `${count} times ${word} of a host that says\n${this.lines.join('\n')}\n`);
    return this.told(word);
  }
}

/** All runs of some hosts, as soon as there are so many. */
export async function runsOf(hosts, count) {
  const all = () => hosts.flatMap(host => host.told('run'));
  await eventually(() => all().length >= count, `${count} runs`);
  return all();
}
