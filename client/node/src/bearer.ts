// SPDX-License-Identifier: Apache-2.0
//
// The bearer token of DISTLOCK_TOKEN_FILE.
import {readFileSync} from 'node:fs';
import {readFile} from 'node:fs/promises';

const KEEPS_SECRETS = ['tls://', 'unix:', '/', '127.', 'localhost:', '[::1]:', 'ipv4:127.'];
const MOST_CHARACTERS = 16 << 10;

/**
 * The value of `authorization` for a call to this address. Read anew for each call, because whoever issues tokens
 * replaces the file before the old one expires. undefined: there is nothing to show, or it would leave this machine in
 * plain text; the broker says what it misses.
 */
export function bearer(address: string): string | undefined {
  const path = fileFor(address);
  if (path === undefined) return undefined;
  try {
    return authorization(readFileSync(path, 'latin1'));
  } catch {
    return undefined;
  }
}

/** The same, for a session that goes on: nothing waits for the file. */
export async function bearerNow(address: string): Promise<string | undefined> {
  const path = fileFor(address);
  return path === undefined ? undefined : readFile(path, 'latin1').then(authorization, () => undefined);
}

function fileFor(address: string): string | undefined {
  const path = process.env.DISTLOCK_TOKEN_FILE ?? '';
  return path !== '' && KEEPS_SECRETS.some(safe => address.startsWith(safe)) ? path : undefined;
}

function authorization(text: string): string | undefined {
  const token = text.trim();
  return token.length <= MOST_CHARACTERS && /^[!-~]+$/.test(token) ? `Bearer ${token}` : undefined;
}
