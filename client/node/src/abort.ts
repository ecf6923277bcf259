// SPDX-License-Identifier: Apache-2.0
//
// Waits that a signal ends. Services give one signal to thousands of waits: it has one listener of this package, and so
// no warning of a leak.

const waits = new WeakMap<AbortSignal, {stops: Set<() => void>; listener: () => void}>();

/** Has `stop` called when the signal is aborted; returns what takes that back. */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (signal === undefined) return () => undefined;
  const found = waits.get(signal) ?? listen(signal);
  found.stops.add(stop);
  return () => {
    found.stops.delete(stop);
    if (found.stops.size > 0 || waits.get(signal) !== found) return;
    waits.delete(signal);
    signal.removeEventListener('abort', found.listener);
  };
}

function listen(signal: AbortSignal): {stops: Set<() => void>; listener: () => void} {
  const stops = new Set<() => void>();
  const listener = (): void => { for (const stop of stops) stop(); };
  waits.set(signal, {stops, listener});
  signal.addEventListener('abort', listener, {once: true});
  return waits.get(signal) as {stops: Set<() => void>; listener: () => void};
}
