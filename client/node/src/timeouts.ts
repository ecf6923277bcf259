// SPDX-License-Identifier: Apache-2.0
//
// When waiting requests are given up: a binary heap. An entry counts while its request's `wake` is still its time.
import {NEVER} from './clock.js';
import type {Request} from './lease.js';

interface Entry {
  at: number;
  request: Request;
}

const LEAST_TO_CLEAN = 64;

export class Timeouts {
  private heap: Entry[] = [];
  private live = 0; // entries that count

  /** Sets, moves, or with NEVER removes a request's time. */
  set(request: Request, at: number): void {
    if (request.wake === at) return;
    if (request.wake !== NEVER) this.live -= 1;
    request.wake = at;
    if (at !== NEVER) {
      this.live += 1;
      this.heap.push({at, request});
      this.up(this.heap.length - 1);
    }
    // Most requests are answered long before their time: their entries must not gather until then.
    if (this.heap.length > LEAST_TO_CLEAN && this.heap.length > 2 * this.live) this.clean();
  }

  get next(): number {
    return this.heap[0]?.at ?? NEVER;
  }

  get size(): number {
    return this.heap.length;
  }

  /** Removes and returns a request whose time has come. */
  due(now: number): Request | undefined {
    for (let top = this.heap[0]; top !== undefined && top.at <= now; top = this.heap[0]) {
      this.pop();
      if (top.request.wake === top.at) {
        top.request.wake = NEVER;
        this.live -= 1;
        return top.request;
      }
    }
    return undefined;
  }

  private clean(): void {
    const former = this.heap.filter(entry => entry.request.wake === entry.at);
    this.heap = [];
    for (const entry of former) {
      this.heap.push(entry);
      this.up(this.heap.length - 1);
    }
    this.live = this.heap.length;
  }

  private at(index: number): number {
    return this.heap[index]?.at ?? NEVER;
  }

  private swap(a: number, b: number): void {
    [this.heap[a], this.heap[b]] = [this.heap[b] as Entry, this.heap[a] as Entry];
  }

  private up(index: number): void {
    for (let i = index; i > 0;) {
      const parent = (i - 1) >> 1;
      if (this.at(parent) <= this.at(i)) return;
      this.swap(i, parent);
      i = parent;
    }
  }

  private pop(): void {
    this.swap(0, this.heap.length - 1);
    this.heap.pop();
    for (let i = 0; ;) {
      const left = 2 * i + 1;
      const least = this.at(left + 1) < this.at(left) ? left + 1 : left;
      if (this.at(least) >= this.at(i)) return;
      this.swap(i, least);
      i = least;
    }
  }
}
