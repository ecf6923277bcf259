// SPDX-License-Identifier: Apache-2.0
//
// Where the brokers are, and which one is to be tried next.
import {randomInt} from 'node:crypto';
import {statSync} from 'node:fs';
import {Access} from './access.js';
import {type Connection, GrpcConnection} from './channel.js';
import {type Clock, clock as watched} from './clock.js';

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

/** Throws a TypeError when no broker can be at one of them: its port is missing, or is no number of 1..65535. */
export function checkAddresses(text: string): void {
  for (const address of splitAddresses(text)) {
    const scheme = /^([a-z0-9]+):\/\//.exec(address)?.[1];
    if (/^(unix|unix-abstract|vsock):/.test(address)) continue;
    if (scheme !== undefined && scheme !== 'tls' && scheme !== 'dns') continue;
    const place = address.replace(scheme === 'dns' ? /^dns:\/\/.*\// : /^tls:\/\//, '')
      .replace(/^(dns|ipv4|ipv6):/, '');
    const before = address.slice(0, address.length - place.length);
    const said = `the broker's address ${address}`;
    if (!place.includes(']') && place.split(':').length > 2) {
      throw new TypeError(`${said} is IPv6 without brackets; write ${before}[${place}]:7420`);
    }
    const [, host = '', port = ''] = /^(\[.*\]|[^:]*):?(.*)$/s.exec(place) ?? [];
    if (port === '') throw new TypeError(`${said} has no port; write ${before}${host}:7420`);
    if (!/^[0-9]{1,9}$/.test(port) || Number(port) < 1 || Number(port) > 65535) {
      throw new TypeError(`${said} has the port ${port}; a port is a number of 1..65535`);
    }
  }
}

function shuffle(items: string[]): void {
  for (let i = items.length - 1; i > 0; --i) {
    const j = randomInt(i + 1);
    [items[i], items[j]] = [items[j] as string, items[i] as string];
  }
}

/** The brokers in a random order, and how to reach them. */
export class Addresses {
  readonly all: string[];
  private at = 0;
  private tried = 0;

  constructor(text: string, private readonly access = new Access(), mix: (addresses: string[]) => void = shuffle,
    readonly clock: Clock = watched) {
    this.all = splitAddresses(text);
    mix(this.all);
  }

  open(address: string): Connection {
    return new GrpcConnection(address, this.access);
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
