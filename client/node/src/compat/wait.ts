// SPDX-License-Identifier: Apache-2.0

/** Milliseconds as this package's `wait`. */
export function waitOf(millis: number): string | undefined {
  return millis === Infinity ? undefined : `${millis}ms`;
}
