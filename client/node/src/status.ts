// SPDX-License-Identifier: Apache-2.0
//
// A failed call's status as a Refusal, with the google.rpc details that the broker sends along.
import {type Metadata, status} from '@grpc/grpc-js';
import {fromWire} from './convert.js';
import type {Refusal} from './errors.js';
import {BadRequest, ErrorInfo, ResourceInfo, RetryInfo} from './generated/google/rpc/error_details_pb.js';
import {Status} from './generated/google/rpc/status_pb.js';
import type {Holder} from './types.js';
import {connectionProblem, worded} from './words.js';

const DETAILS = 'grpc-status-details-bin';
const BY_CODE: Record<number, string> = {
  [status.UNAVAILABLE]: 'UNREACHABLE',
  [status.DEADLINE_EXCEEDED]: 'UNREACHABLE',
  [status.INVALID_ARGUMENT]: 'INVALID_ARGUMENT',
  [status.UNIMPLEMENTED]: 'NOT_SUPPORTED',
  [status.UNAUTHENTICATED]: 'UNAUTHENTICATED',
  [status.CANCELLED]: 'CANCELLED',
  [status.PERMISSION_DENIED]: 'PERMISSION_DENIED',
  [status.RESOURCE_EXHAUSTED]: 'QUOTA_EXCEEDED',
};

/** The end of a call; a grpc.ServiceError and a grpc.StatusObject are such. */
export interface EndOfCall {
  code: number;
  details: string;
  metadata?: Metadata;
}

/** The details by the last part of their type's name. */
function detailsOf(metadata: Metadata | undefined): Map<string, Uint8Array> {
  const found = new Map<string, Uint8Array>();
  const [bytes] = metadata?.get(DETAILS) ?? [];
  if (!Buffer.isBuffer(bytes)) return found;
  try {
    for (const {typeUrl, value} of Status.decode(bytes).details) {
      found.set(typeUrl.slice(typeUrl.lastIndexOf('.') + 1), value);
    }
  } catch {
    found.clear(); // not ours: the status alone has to do
  }
  return found;
}

function firstHolder(info: ErrorInfo, owner: string): Holder[] {
  const {holder_id: holderId, fencing_token: token} = info.metadata;
  if (holderId === undefined) return [];
  return [{holderId, owner, metadata: {}, mode: 'EXCLUSIVE', permits: 0, token: Number(token ?? 0),
    acquireTime: undefined, timeLeft: 0, ttl: 0, brokerId: ''}];
}

/** address: that of the broker. */
export function refusalOfStatus({code, details, metadata}: EndOfCall, address = ''): Refusal {
  const sent = detailsOf(metadata);
  const nothing = new Uint8Array();
  const info = ErrorInfo.decode(sent.get('ErrorInfo') ?? nothing);
  const {owner} = ResourceInfo.decode(sent.get('ResourceInfo') ?? nothing);
  const {retryDelay} = RetryInfo.decode(sent.get('RetryInfo') ?? nothing);
  const {fieldViolations} = BadRequest.decode(sent.get('BadRequest') ?? nothing);
  return worded({
    reason: info.reason !== '' ? info.reason : BY_CODE[code] ?? status[code] ?? `UNKNOWN_${code}`,
    message: connectionProblem(details, address),
    retryAfter: retryDelay === undefined ? undefined : fromWire(retryDelay),
    holders: firstHolder(info, owner),
    queueLength: Number(info.metadata['queue_length'] ?? 0),
    fieldProblems: fieldViolations.map(({field, description}) => ({field, description})),
  });
}
