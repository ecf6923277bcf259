// SPDX-License-Identifier: Apache-2.0
//
// The package under test: that of the source tree, built by tests/node/build.sh; its inner parts, and its
// generated code.
import {createRequire} from 'node:module';
import {fileURLToPath} from 'node:url';

export const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url));
export const PACKAGE = `${REPOSITORY}client/node/`;

/** Resolves what the package depends on. */
export const requireThere = createRequire(`${PACKAGE}package.json`);
const part = name => requireThere(`./dist/${name}.js`);

export const distlock = await import(`${PACKAGE}dist/index.mjs`);
export const {WatchedClock, clock, NEVER, SECOND} = part('clock');
export const {LockTable} = part('lock_table');
export const {Phase} = part('lease');
export const convert = part('convert');
export const addresses = part('addresses');
export const channel = part('channel');
export const {refusalOfStatus} = part('status');
export const wire = {
  ...part('generated/distlock/v1/lock_pb'), ...part('generated/distlock/v1/lock_service_pb'),
  ...part('generated/distlock/v1/look_pb'), ...part('generated/google/rpc/status_pb'),
  ...part('generated/google/rpc/error_details_pb'),
};
export const grpc = requireThere('@grpc/grpc-js');

/** A message with these fields; the others have their defaults. */
export function message(type, fields = {}) {
  return {...type.decode(new Uint8Array()), ...fields};
}

export const duration = millis => convert.toWire(millis);
