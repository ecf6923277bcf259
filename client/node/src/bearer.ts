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

/** Throws a TypeError when one of the addresses would be shown the token, and the file holds none. */
export function checkToken(addresses: string): void {
  const path = addresses.split(',').map(one => fileFor(one.trim())).find(found => found !== undefined);
  if (path === undefined) return;
  let text: string;
  try {
    text = readFileSync(path, 'latin1').trim();
  } catch (error) {
    throw new TypeError(`DISTLOCK_TOKEN_FILE: cannot read '${path}': ${(error as Error).message}`);
  }
  const problem = problemOf(text);
  if (problem !== '') throw new TypeError(`DISTLOCK_TOKEN_FILE: '${path}' ${problem}`);
}

/** As it stands behind the file's name; '': the text is a token. */
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

function fileFor(address: string): string | undefined {
  const path = process.env.DISTLOCK_TOKEN_FILE ?? '';
  return path !== '' && KEEPS_SECRETS.some(safe => address.startsWith(safe)) ? path : undefined;
}

function authorization(text: string): string | undefined {
  const token = text.trim();
  return token.length <= MOST_CHARACTERS && /^[!-~]+$/.test(token) ? `Bearer ${token}` : undefined;
}
