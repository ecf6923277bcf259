// SPDX-License-Identifier: Apache-2.0
//
// How a client reaches brokers, and proves who it is: TLS to those at tls://host:port, a bearer token, and gRPC's
// options. What connect() is not given comes from the environment.
import {readFileSync} from 'node:fs';
import {readFile} from 'node:fs/promises';
import {type ChannelCredentials, credentials} from '@grpc/grpc-js';
import type {AccessOptions, Tls} from './types.js';

const SCHEME = 'tls://';
const KEEPS_SECRETS = [SCHEME, 'unix:', '/', '127.', 'localhost:', '[::1]:', 'ipv4:127.'];
const MOST_CHARACTERS = 16 << 10;
const TLS_NAMES = ['ca', 'cert', 'key', 'serverName'];

/** The parts of a channel to one address. */
export interface Transport {
  target: string;
  credentials: ChannelCredentials;
  options: Record<string, string | number>;
}

/** A setting's name to the program, and its value. */
interface Named {
  by: string;
  value: string;
}

export class Access {
  private last: ChannelCredentials | undefined;

  constructor(private readonly options: AccessOptions = {}) {}

  /** Throws a TypeError when something cannot be used at one of the addresses. */
  check(addresses: readonly string[]): void {
    const {tls, token, tokenFile} = this.options;
    for (const name of Object.keys(tls ?? {})) {
      if (!TLS_NAMES.includes(name)) throw new TypeError(`tls has no ${name}; it has ${TLS_NAMES.join(', ')}`);
    }
    if (addresses.some(address => address.startsWith(SCHEME))) this.last = this.secure();
    else if (tls !== undefined) throw new TypeError('tls is given, and no address begins with tls://');
    if (token !== undefined && tokenFile !== undefined) throw new TypeError('give token or tokenFile, not both');
    if (!addresses.some(keepsSecrets)) return;
    const {by, value} = this.tokenFile;
    if (token === undefined && value === '') return;
    const problem = problemOf(token ?? readNamed(by, value).toString('latin1').trim());
    if (problem !== '') throw new TypeError(`${token === undefined ? `${by}: '${value}'` : 'token'} ${problem}`);
  }

  /** How to reach an address. Reads the files anew; where they cannot be read, takes those of the last time. */
  transportTo(address: string): Transport {
    const {channelOptions} = this.options;
    if (!address.startsWith(SCHEME)) {
      return {target: address, credentials: credentials.createInsecure(), options: {...channelOptions}};
    }
    try {
      this.last = this.secure();
    } catch (error) {
      if (this.last === undefined) throw error;
    }
    const name = this.tls('serverName', 'DISTLOCK_TLS_SERVER_NAME').value;
    return {
      target: address.slice(SCHEME.length),
      credentials: this.last,
      options: {
        ...(name === '' ? {} : {'grpc.ssl_target_name_override': name, 'grpc.default_authority': name}),
        ...channelOptions,
      },
    };
  }

  /**
   * The value of `authorization` for a call to this address. Read anew for each call, because whoever issues tokens
   * replaces the file before the old one expires. undefined: there is nothing to show, or it would leave this machine
   * in plain text; the broker says what it misses.
   */
  bearer(address: string): string | undefined {
    const path = this.fileFor(address);
    if (path === undefined) return this.given(address);
    try {
      return authorization(readFileSync(path, 'latin1'));
    } catch {
      return undefined;
    }
  }

  /** The same, for a session that goes on: nothing waits for the file. */
  async bearerNow(address: string): Promise<string | undefined> {
    const path = this.fileFor(address);
    return path === undefined ? this.given(address)
      : readFile(path, 'latin1').then(authorization, () => undefined);
  }

  /** The token that the program gave. */
  private given(address: string): string | undefined {
    const {token} = this.options;
    return token !== undefined && keepsSecrets(address) ? authorization(token) : undefined;
  }

  private fileFor(address: string): string | undefined {
    const {value} = this.tokenFile;
    return this.options.token === undefined && value !== '' && keepsSecrets(address) ? value : undefined;
  }

  private get tokenFile(): Named {
    const {tokenFile} = this.options;
    return tokenFile === undefined ? {by: 'DISTLOCK_TOKEN_FILE', value: process.env['DISTLOCK_TOKEN_FILE'] ?? ''}
      : {by: 'tokenFile', value: tokenFile};
  }

  private tls(name: keyof Tls, variable: string): Named {
    const {tls} = this.options;
    return tls === undefined ? {by: variable, value: process.env[variable] ?? ''}
      : {by: `tls.${name}`, value: tls[name] ?? ''};
  }

  private secure(): ChannelCredentials {
    const cert = this.tls('cert', 'DISTLOCK_TLS_CERT');
    const key = this.tls('key', 'DISTLOCK_TLS_KEY');
    if ((cert.value === '') !== (key.value === '')) {
      throw new TypeError(`${cert.by} and ${key.by} belong together: give both, or none`);
    }
    return credentials.createSsl(pemOf(this.tls('ca', 'DISTLOCK_TLS_CA')), pemOf(key), pemOf(cert));
  }
}

function readNamed(by: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new TypeError(`${by}: cannot read '${path}': ${(error as Error).message}`);
  }
}

function pemOf({by, value}: Named): Buffer | null {
  if (value === '') return null;
  const text = readNamed(by, value);
  if (!text.includes('-----BEGIN ')) throw new TypeError(`${by}: '${value}' holds no PEM block`);
  return text;
}

/** As it stands behind the name of the file or of the option; '': the text is a token. */
function problemOf(text: string): string {
  const lines = text.split('\n').length;
  if (text === '') return 'is empty';
  if (lines > 1) return `has ${lines} lines; it must hold the token alone`;
  if (/^(.*:)?[0-9a-f]{64}$/.test(text)) {
    return "holds a hash, which is for the broker's --token-file; it must hold the token";
  }
  if (!/^[!-~]*$/.test(text)) return 'holds no token: it has a space, or a character that is not ASCII';
  return text.length > MOST_CHARACTERS ? 'is larger than 16 KiB' : '';
}

function keepsSecrets(address: string): boolean {
  return KEEPS_SECRETS.some(safe => address.startsWith(safe));
}

function authorization(text: string): string | undefined {
  const token = text.trim();
  return token.length <= MOST_CHARACTERS && /^[!-~]+$/.test(token) ? `Bearer ${token}` : undefined;
}
