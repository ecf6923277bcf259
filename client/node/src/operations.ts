// SPDX-License-Identifier: Apache-2.0
//
// Calls that are no session.
import type {ServiceError} from '@grpc/grpc-js';
import type {Codec} from './channel.js';
import {lockInfoOf} from './convert.js';
import type {Core} from './core.js';
import {AbortError, errorOf, isAborted} from './errors.js';
import {CheckTokenRequest, CheckTokenResponse, GetLockRequest, GetLockResponse, ListLocksRequest, ListLocksResponse,
} from './generated/distlock/v1/look_pb.js';
import {refusalOfStatus} from './status.js';
import type {LockInfo} from './types.js';

export const PATIENCE = 5000; // of a call that does not wait for a lock
const LOCKS_A_PAGE = 1000;

/**
 * One unary call: once at each broker, and once more, for a connection that was broken unnoticed. `request` is made
 * anew at each attempt; timeout: milliseconds.
 */
export async function call<Q, A>(core: Core, name: string, query: Codec<Q>, answer: Codec<A>, request: () => Q,
  timeout = PATIENCE, signal?: AbortSignal): Promise<A> {
  for (let left = core.addresses.all.length; ; --left) {
    if (isAborted(signal)) throw new AbortError(signal);
    const connection = core.lookup();
    try {
      return await connection.unary(name, query, answer, request(), timeout, signal);
    } catch (error) {
      if (isAborted(signal)) throw new AbortError(signal);
      if (core.isClosing()) throw core.closedError();
      const refusal = refusalOfStatus(error as ServiceError, connection.address);
      if ((refusal.reason !== 'UNREACHABLE' && refusal.reason !== 'DRAINING') || left === 0) throw errorOf(refusal);
      core.nextLookup(connection);
    }
  }
}

export async function inspect(core: Core, namespace: string, key: string, maxWaiters?: number): Promise<LockInfo> {
  const request = {namespace, key, ...(maxWaiters === undefined ? {} : {maxWaiters})};
  const {lock, holdOff} = await call(core, 'GetLock', GetLockRequest, GetLockResponse, () => request);
  return lockInfoOf(lock, holdOff);
}

export async function* list(core: Core, namespace: string, keyPrefix: string,
): AsyncGenerator<LockInfo, void, undefined> {
  let pageToken = '';
  do {
    const request = {namespace, keyPrefix, pageSize: LOCKS_A_PAGE, pageToken};
    const page = await call(core, 'ListLocks', ListLocksRequest, ListLocksResponse, () => request);
    for (const lock of page.locks) yield lockInfoOf(lock, page.holdOff);
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
}

export async function checkToken(core: Core, namespace: string, key: string, fencingToken: number): Promise<boolean> {
  const request = {namespace, key, fencingToken};
  return (await call(core, 'CheckToken', CheckTokenRequest, CheckTokenResponse, () => request)).newest;
}
