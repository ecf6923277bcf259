// SPDX-License-Identifier: Apache-2.0
//
// Watching locks, over reconnects.
import type {ServiceError} from '@grpc/grpc-js';
import {onAbort} from './abort.js';
import type {Codec} from './channel.js';
import {lockInfoOf} from './convert.js';
import type {Core} from './core.js';
import {AbortError, errorOf, guarded, isAborted, PERMANENT} from './errors.js';
import {WatchLockRequest, WatchLockResponse, WatchLocksRequest, WatchLocksResponse,
} from './generated/distlock/v1/look_pb.js';
import {refusalOfStatus} from './status.js';
import type {LockInfo} from './types.js';

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2000;

/** One kind of watch. */
interface Kind<Q, A> {
  name: string;
  query: Codec<Q>;
  answer: Codec<A>;
  request: Q;
  final: readonly string[]; // reasons that no further attempt can change
  begin?: () => void; // a stream begins
  take: (answer: A) => Iterable<LockInfo>;
}

/** The states of a lock, until `signal` or the end of the client. */
export function watch(core: Core, namespace: string, key: string, signal: AbortSignal | undefined,
): AsyncGenerator<LockInfo, void, undefined> {
  return states(core, {
    name: 'WatchLock', query: WatchLockRequest, answer: WatchLockResponse, request: {namespace, key}, final: PERMANENT,
    take: ({lock}) => [lockInfoOf(lock)],
  }, signal);
}

/** The states of all locks under a prefix. */
export function watchLocks(core: Core, namespace: string, keyPrefix: string, signal: AbortSignal | undefined,
  onListed: (() => void) | undefined): AsyncGenerator<LockInfo, void, undefined> {
  const taken = new Taken(onListed);
  return states(core, {
    name: 'WatchLocks', query: WatchLocksRequest, answer: WatchLocksResponse, request: {namespace, keyPrefix},
    final: [...PERMANENT, 'QUOTA_EXCEEDED'], begin: () => { taken.begin(); }, take: answer => taken.take(answer),
  }, signal);
}

/**
 * The locks that a watch has told as taken. What became free while no stream was there is told when the next one has
 * listed what is taken.
 */
class Taken {
  private readonly told = new Map<string, {lock: LockInfo; again: boolean}>(); // again: by the present stream, too

  constructor(private readonly onListed: (() => void) | undefined) {}

  begin(): void {
    for (const one of this.told.values()) one.again = false;
  }

  * take({locks, listed}: WatchLocksResponse): Generator<LockInfo, void, undefined> {
    for (const lock of locks.map(lock => lockInfoOf(lock))) {
      const name = JSON.stringify([lock.namespace, lock.key]);
      if (lock.isFree) this.told.delete(name);
      else this.told.set(name, {lock, again: true});
      yield lock;
    }
    if (!listed) return;
    for (const [name, {lock: {namespace, key}, again}] of this.told) {
      if (again) continue;
      this.told.delete(name);
      yield lockInfoOf({namespace, key, holders: [], waiters: [], fencingToken: 0, queueLength: 0, holderCount: 0,
        block: undefined});
    }
    const {onListed} = this;
    if (onListed !== undefined) guarded('onListed', onListed);
  }
}

async function* states<Q, A>(core: Core, kind: Kind<Q, A>, signal: AbortSignal | undefined,
): AsyncGenerator<LockInfo, void, undefined> {
  let pause = FIRST_PAUSE;
  while (!isAborted(signal) && !core.isClosing()) {
    const connection = core.lookup();
    const stream = connection.stream(kind.name, kind.query, kind.answer, kind.request);
    stream.on('error', () => undefined); // the iteration below throws it; after that nobody else needs it
    const stop = (): void => { stream.cancel(); };
    const forget = core.whenClosed(stop);
    const deafen = onAbort(signal, stop);
    kind.begin?.();
    try {
      for await (const answer of stream) {
        pause = FIRST_PAUSE;
        yield* kind.take(answer as A);
      }
    } catch (error) {
      if (isAborted(signal) || core.isClosing()) break;
      const refusal = refusalOfStatus(error as ServiceError, connection.address);
      if (kind.final.includes(refusal.reason)) throw errorOf(refusal);
      if (refusal.reason === 'UNREACHABLE' || refusal.reason === 'DRAINING') core.nextLookup(connection);
    } finally {
      deafen();
      forget();
      stop();
    }
    await pauseUnless(signal, Math.random() * pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
  if (isAborted(signal)) throw new AbortError(signal);
}

async function pauseUnless(signal: AbortSignal | undefined, pause: number): Promise<void> {
  await new Promise<void>(resolve => {
    const timer = setTimeout(done, pause);
    const deafen = onAbort(signal, done);
    function done(): void {
      clearTimeout(timer);
      deafen();
      resolve();
    }
  });
}
