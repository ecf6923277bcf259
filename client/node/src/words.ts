// SPDX-License-Identifier: Apache-2.0
//
// Refusals in the words of this package. A broker names the fields of the contract's messages; gRPC names what it did.
import type {Refusal} from './errors.js';

const NAMES: Record<string, string> = {
  max_wait: 'wait', max_hold: 'maxHold', lock_delay: 'lockDelay', min_hold: 'minHold', on_disconnect: 'onDisconnect',
  fencing_token: 'token', lease_id: 'leaseId', key_prefix: 'prefix', max_waiters: 'maxWaiters', request_id: 'request',
};
const IN_TEXTS = new RegExp(`"(?:[^"\\\\]|\\\\.)*"|\\b(?:${Object.keys(NAMES).join('|')})\\b`, 'g');

/** Names of locks and owners, which stand between quotes, stay as they are. */
function inWords(text: string): string {
  return text.replace(IN_TEXTS, found => NAMES[found] ?? found);
}

/** 'acquire.locks[0].lock_delay' is lockDelay; of several locks, locks[0].lockDelay. */
function optionOf(field: string, several: boolean): string {
  const path = field.replace(/^acquire\./, '');
  const name = several ? path : path.replace(/^locks\[0\]\./, '');
  return name.replace(/\bpermits\b/, 'n').replace(/[a-z]+(?:_[a-z]+)+/g, found => NAMES[found] ?? found);
}

/** The same refusal. */
export function worded(refusal: Refusal): Refusal {
  const {message, fieldProblems = []} = refusal;
  const several = fieldProblems.some(({field}) => /locks\[[1-9]/.test(field));
  const problems = fieldProblems.map(({field, description}) => (
    {field: optionOf(field, several), description: inWords(description)}));
  const joined = (from: typeof problems): string => (
    from.map(({field, description}) => `${field} ${description}`).join('; '));
  const known = problems.length > 0 && message === joined(fieldProblems);
  return {...refusal, message: known ? joined(problems) : inWords(message), fieldProblems: problems};
}

const NO_CONNECTION = 'No connection established. Last error: ';
const HANGS_UP = /^Failed to connect$|ECONNRESET|EPIPE|socket hang up|disconnected before secure/;
const UNTRUSTED = /self-signed|unable to (verify|get)|certificate has expired|certificate is not yet valid/;

/** Why no connection to the address came about. `said`: gRPC's message of a call that failed for it, or another one. */
export function connectionProblem(said: string, address: string): string {
  if (!said.startsWith(NO_CONNECTION)) return said;
  const why = said.slice(NO_CONNECTION.length).replace(/^Error: /, '')
    .replace(/(?: \([-\dT:.Z]+\))?\. Resolution note: .*$/s, '');
  const secure = address.startsWith('tls://');
  if (secure && UNTRUSTED.test(why)) {
    return "the broker's certificate is not signed by an authority that this machine trusts, or has expired "
      + `(${why}); DISTLOCK_TLS_CA or tls.ca names the file of its authority`;
  }
  if (secure && why.includes('does not match certificate')) {
    return "the broker's certificate is for other names than that of the address; DISTLOCK_TLS_SERVER_NAME or "
      + 'tls.serverName sets the name that it must have';
  }
  if (!HANGS_UP.test(why)) return why;
  const full = 'or it serves as many connections of this host or user as it may (limit max-connections-per-peer)';
  return secure ? 'it hangs up during the TLS handshake: it wants a client certificate of an authority that it trusts '
    + `(tls.cert and tls.key), or it speaks no TLS (the address is host:port then), ${full}`
    : address.startsWith('unix:') ? `it hangs up at once: it drains, ${full}`
      : `it hangs up at once: it wants TLS (the address is tls://host:port then), ${full}`;
}
