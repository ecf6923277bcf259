// SPDX-License-Identifier: Apache-2.0
//
// The sockets that gRPC makes for one connection. gRPC cannot let a process end while a stream is open; a socket can.
// Node.js tells everybody of each new socket, in the context of whoever asked for it.
import {AsyncLocalStorage} from 'node:async_hooks';
import {subscribe} from 'node:diagnostics_channel';
import type {Socket} from 'node:net';

const awaited = new Set<Sockets>();

subscribe('net.client.socket', message => {
  for (const sockets of awaited) sockets.seen((message as {socket: Socket}).socket);
});

export class Sockets {
  private readonly context = new AsyncLocalStorage<boolean>();
  private readonly open = new Set<Socket>();

  /** keeps: whether they keep the process alive. */
  constructor(private keeps: boolean) {}

  /** Makes the sockets that `connect` begins, until `connected`. */
  of<T>(connect: () => T): T {
    awaited.add(this);
    return this.context.run(true, connect);
  }

  /** Or it has failed. What follows may make sockets of its own; and contexts cost time. */
  connected(): void {
    if (awaited.delete(this)) this.context.disable();
  }

  seen(socket: Socket): void {
    if (this.context.getStore() !== true) return;
    this.open.add(socket);
    socket.once('close', () => this.open.delete(socket));
    if (!this.keeps) socket.unref();
  }

  keepAlive(keeps: boolean): void {
    if (keeps === this.keeps) return;
    this.keeps = keeps;
    for (const socket of this.open) {
      if (keeps) socket.ref();
      else socket.unref();
    }
  }
}
