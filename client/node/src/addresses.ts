// SPDX-License-Identifier: Apache-2.0
//
// Where the brokers are, and which one is to be tried next.
import {randomInt} from 'node:crypto';
import {statSync} from 'node:fs';

const SOCKET = '/run/distlock/distlock.sock';
const LOOPBACK = '127.0.0.1:7420';

/** DISTLOCK_SERVER, else unix:///run/distlock/distlock.sock where that socket exists, else 127.0.0.1:7420. */
export function defaultAddress(): string {
  const named = process.env['DISTLOCK_SERVER'];
  if (named !== undefined && named !== '') return named;
  return statSync(SOCKET, {throwIfNoEntry: false})?.isSocket() === true ? `unix://${SOCKET}` : LOOPBACK;
}

/** The targets of a list that is separated by commas, each once. */
export function splitAddresses(text: string): string[] {
  const parts = text.split(',').map(part => part.trim()).filter(part => part !== '');
  const targets = new Set(parts.map(part => (part.startsWith('/') ? `unix://${part}` : part)));
  return targets.size > 0 ? [...targets] : [text];
}

function shuffle(items: string[]): void {
  for (let i = items.length - 1; i > 0; --i) {
    const j = randomInt(i + 1);
    [items[i], items[j]] = [items[j] as string, items[i] as string];
  }
}

/** The brokers in a random order. */
export class Addresses {
  readonly all: string[];
  private at = 0;
  private tried = 0;

  constructor(text: string, mix: (addresses: string[]) => void = shuffle) {
    this.all = splitAddresses(text);
    mix(this.all);
  }

  get present(): string {
    return this.all[this.at] as string;
  }

  /** The address behind that one. */
  after(address: string): string {
    return this.all[(this.all.indexOf(address) + 1) % this.all.length] as string;
  }

  /** After an attempt that failed. False: each has been tried since the last success, so pause. */
  next(): boolean {
    this.at = (this.at + 1) % this.all.length;
    this.tried += 1;
    if (this.tried < this.all.length) return true;
    this.tried = 0;
    return false;
  }

  succeed(): void {
    this.tried = 0;
  }
}
