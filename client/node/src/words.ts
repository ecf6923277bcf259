// SPDX-License-Identifier: Apache-2.0
//
// Refusals in the words of this package. A broker names the fields of the contract's messages.
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
