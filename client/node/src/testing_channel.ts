// SPDX-License-Identifier: Apache-2.0
//
// The channel of distlock/testing: what this package uses of gRPC, within the process.
import {EventEmitter} from 'node:events';
import {Readable} from 'node:stream';
import {Metadata, type ServiceError, status, type StatusObject} from '@grpc/grpc-js';
import type {Answers, SessionCall} from './channel.js';
import type {LockInfo} from './generated/distlock/v1/lock_pb.js';
import {type SessionCommand, SessionRequest, type SessionResponse} from './generated/distlock/v1/lock_service_pb.js';
import type {WatchLockResponse} from './generated/distlock/v1/look_pb.js';
import type {Event, Session} from './testing_locks.js';

/** The broker of a call. */
interface Sessions {
  readonly time: number;
  /** Now, or when the broker goes on. */
  when(act: () => void): void;
  obey(call: Call, command: SessionCommand): void;
  part(call: Call, how: StatusObject): void;
}

export function ended(code: status, details: string): StatusObject {
  return {code, details, metadata: new Metadata()};
}

export function failure(code: status, details: string): ServiceError {
  return Object.assign(new Error(details), ended(code, details));
}

/** A Session call. */
export class Call extends EventEmitter implements SessionCall, Session {
  heard = 0;
  heardAt: number;
  over = false;
  private readonly outbox: SessionResponse['events'] = [];

  constructor(private readonly broker: Sessions) {
    super();
    this.heardAt = broker.time;
  }

  write(message: Buffer, written: () => void): void {
    const {commands} = SessionRequest.decode(message);
    queueMicrotask(() => {
      written();
      this.broker.when(() => { for (const command of commands) this.broker.obey(this, command); });
    });
  }

  say(id: number, event: Event): void {
    if (this.outbox.length === 0) queueMicrotask(() => { this.broker.when(() => { this.deliver(); }); });
    this.outbox.push({id, event});
  }

  private deliver(): void {
    const events = this.outbox.splice(0);
    if (events.length > 0) this.emit('data', {events});
  }

  /** Nothing is obeyed any more, and the client hears of the end. */
  end(how: StatusObject): void {
    if (this.over) return;
    this.over = true;
    queueMicrotask(() => {
      this.deliver();
      this.emit('status', how);
    });
  }

  cancel(): void {
    this.broker.part(this, ended(status.CANCELLED, 'cancelled'));
  }
}

/** A watch of one lock. */
export class Watch extends Readable implements Answers {
  private told = '';

  constructor(readonly name: string) {
    super({objectMode: true});
  }

  override _read(): void {
    // Messages come by tell().
  }

  tell(lock: LockInfo): void {
    const text = JSON.stringify(lock);
    if (text === this.told || this.destroyed) return;
    this.told = text;
    const answer: WatchLockResponse = {lock};
    this.push(answer);
  }

  cancel(): void {
    this.destroy(failure(status.CANCELLED, 'cancelled'));
  }
}
