// SPDX-License-Identifier: Apache-2.0
//
// TLS to brokers at tls://host:port, by the files that DISTLOCK_TLS_CA, _CERT and _KEY name.
import {readFileSync} from 'node:fs';
import {type ChannelCredentials, credentials} from '@grpc/grpc-js';

const SCHEME = 'tls://';

export interface Transport {
  target: string;
  credentials: ChannelCredentials;
  options: Record<string, string>;
}

function read(variable: string): Buffer | null {
  const path = process.env[variable] ?? '';
  if (path === '') return null;
  let text: Buffer;
  try {
    text = readFileSync(path);
  } catch (error) {
    throw new TypeError(`${variable}: cannot read '${path}': ${(error as Error).message}`);
  }
  if (!text.includes('-----BEGIN ')) throw new TypeError(`${variable}: '${path}' holds no PEM block`);
  return text;
}

function secure(): ChannelCredentials {
  const [ca, cert, key] = [read('DISTLOCK_TLS_CA'), read('DISTLOCK_TLS_CERT'), read('DISTLOCK_TLS_KEY')];
  if ((cert === null) !== (key === null)) {
    throw new TypeError('DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY belong together: give both, or none');
  }
  return credentials.createSsl(ca, key, cert);
}

let last: ChannelCredentials | undefined;

/** Throws a TypeError when one of the addresses needs TLS and a file cannot be used. */
export function checkTls(addresses: string): void {
  if (addresses.includes(SCHEME)) last = secure();
}

/** How to reach an address. Reads the files anew; where they cannot be read, takes those of the last time. */
export function transportTo(address: string): Transport {
  if (!address.startsWith(SCHEME)) return {target: address, credentials: credentials.createInsecure(), options: {}};
  try {
    last = secure();
  } catch (error) {
    if (last === undefined) throw error;
  }
  const name = process.env['DISTLOCK_TLS_SERVER_NAME'] ?? '';
  return {
    target: address.slice(SCHEME.length),
    credentials: last,
    options: name === '' ? {} : {'grpc.ssl_target_name_override': name, 'grpc.default_authority': name},
  };
}
