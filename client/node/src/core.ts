// SPDX-License-Identifier: Apache-2.0
//
// The core that all objects of a program share: the client, its locks, its watches. When the last of them is dropped,
// the core gives all back and closes the connection: the engine, which timers and sockets keep, knows none of them.
import type {Addresses} from './addresses.js';
import type {Connection} from './channel.js';
import {Engine, type EngineSettings} from './engine.js';
import {type DistlockError, errorOf, type Refusal} from './errors.js';
import type {Answer} from './lease.js';
import type {LockTable} from './lock_table.js';

/** The connection for calls that are no session, and the calls that go on by it. */
class Calls {
  private connection: Connection | undefined;
  private readonly ends = new Set<() => void>();

  constructor(private readonly addresses: Addresses, public address = '') {}

  get(): Connection {
    this.address ||= this.addresses.present;
    this.connection ??= this.addresses.open(this.address);
    return this.connection;
  }

  leave(failed: Connection): void {
    if (this.connection === failed) {
      this.address = this.addresses.after(this.address);
      this.connection = undefined;
    }
    failed.close();
  }

  whenClosed(end: () => void): () => void {
    this.ends.add(end);
    return () => this.ends.delete(end);
  }

  close(): void {
    for (const end of this.ends) end();
    this.connection?.close();
  }
}

const dropped = new FinalizationRegistry<{engine: Engine; calls: Calls}>(({engine, calls}) => {
  calls.close();
  void engine.close();
});

export class Core {
  readonly engine: Engine;
  private readonly calls: Calls;

  constructor(settings: EngineSettings, readonly addresses: Addresses) {
    const calls = new Calls(addresses);
    this.calls = calls;
    this.engine = new Engine(settings, addresses, address => { calls.address = address; });
    dropped.register(this, {engine: this.engine, calls});
  }

  now(): number {
    return this.addresses.clock.now();
  }

  /** Throws what the table refuses. */
  async ask(question: (table: LockTable, answer: Answer, now: number) => void): Promise<void> {
    const refusal = await new Promise<Refusal | undefined>(resolve => {
      this.engine.turn((table, now) => { question(table, resolve, now); });
    });
    if (refusal !== undefined) throw errorOf(refusal);
  }

  /** The connection for calls that are no session. */
  lookup(): Connection {
    if (this.isClosing()) throw this.closedError();
    return this.calls.get();
  }

  /** That connection's broker did not answer: the next call goes to another one. */
  nextLookup(failed: Connection): void {
    this.calls.leave(failed);
  }

  /** `end` is called when the client closes; returns what takes that back. */
  whenClosed(end: () => void): () => void {
    return this.calls.whenClosed(end);
  }

  isClosing(): boolean {
    return this.engine.table.closed;
  }

  closedError(): DistlockError {
    return errorOf({reason: 'CLIENT_CLOSED', message: 'the client was closed; make a new one'});
  }

  async close(): Promise<void> {
    const closed = this.engine.close();
    this.calls.close();
    await closed;
    for (const tell of this.engine.onDrained) tell();
  }
}
