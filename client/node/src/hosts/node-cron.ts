// SPDX-License-Identifier: Apache-2.0
/**
 * A run coordinator for the node-cron package: each run of a task is on one host.
 *
 * ```ts
 * import {Coordinator} from 'distlock/node-cron';
 * const runCoordinator = new Coordinator(dl);
 * cron.schedule('* * * * *', report, {name: 'report', distributed: true, runCoordinator});
 * ```
 *
 * @packageDocumentation
 */
import {BusyError} from '../errors.js';
import type {HeldLock, Locks} from '../locks.js';
import type {LockOptions} from '../types.js';

/** What a task is told of its run, as far as it matters here. */
export interface Run {
  /** When the run was due. */
  date: Date;
  task?: {name?: string};
}

/**
 * A RunCoordinator of node-cron. The lock of a run is named after its task and after when it was due, so that clocks of
 * hosts may differ; it stays taken for `distributedLease` of the task (30 s), even if the run is over sooner.
 */
export class Coordinator {
  private readonly runs = new Map<string, HeldLock>();

  /**
   * @param options - of the lock. With `wait`, which is less than `distributedLease`, a host waits, and takes over the
   * run of one that has died.
   */
  constructor(private readonly locks: Locks, private readonly options: LockOptions = {}) {}

  /**
   * For node-cron: whether the run is to be on this host.
   *
   * @throws UnavailableError without a broker or a store: then node-cron skips the run
   */
  async shouldRun(key: string, lease: number): Promise<boolean> {
    try {
      this.runs.set(key, await this.locks.lock(key, {wait: 0, minHold: lease, ...this.options}));
      return true;
    } catch (error) {
      if (error instanceof BusyError) return false;
      throw error;
    }
  }

  /**
   * For node-cron: the run is over.
   *
   * @throws LockLostError when the lock was lost before; node-cron logs it
   */
  async onComplete(key: string): Promise<void> {
    const held = this.runs.get(key);
    this.runs.delete(key);
    held?.check();
    await held?.release();
  }

  /** The lock of a run on this host, for its token and signal, by what its task is told; undefined after its end. */
  lockOf(run: Run): HeldLock | undefined {
    return this.runs.get(`${run.task?.name ?? ''}:${run.date.toISOString()}`);
  }
}
