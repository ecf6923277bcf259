// SPDX-License-Identifier: Apache-2.0
//
// Connections to brokers.
import {Client, Metadata, type ServiceError, type StatusObject} from '@grpc/grpc-js';
import {BinaryReader, type BinaryWriter} from '@bufbuild/protobuf/wire';
import {onAbort} from './abort.js';
import type {Access} from './access.js';
import {SessionResponse} from './generated/distlock/v1/lock_service_pb.js';
import type {Sockets} from './sockets.js';

const SERVICE = '/distlock.v1.LockService/';

/** "Messages and connection" in proto/distlock/v1/session.md. */
export const OPTIONS = {
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 1,
  'grpc.use_local_subchannel_pool': 1, // a connection of its own
  'grpc.enable_retries': 0, // the lock table decides what is sent again
  'grpc.enable_http_proxy': 0, // http_proxy is meant for the web, not for the broker
  'grpc.service_config_disable_resolution': 1,
  'grpc.max_receive_message_length': 4 << 20,
  'grpc.max_send_message_length': 4 << 20,
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

/** Generated code of one message. */
export interface Codec<T> {
  encode(message: T, writer?: BinaryWriter): BinaryWriter;
  decode(input: BinaryReader | Uint8Array, length?: number): T;
}

/** A Session call. 'status' is its end. */
export interface SessionCall {
  on(what: 'data', heard: (response: SessionResponse) => void): unknown;
  on(what: 'error', heard: () => void): unknown;
  on(what: 'status', heard: (status: StatusObject) => void): unknown;
  once(what: 'metadata' | 'status', heard: () => void): unknown;
  write(message: Buffer, written: () => void): unknown;
  cancel(): void;
}

/** A stream of answers. */
export interface Answers extends AsyncIterable<unknown> {
  on(what: 'error', heard: () => void): unknown;
  cancel(): void;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Reads what comes with each lock: texts without an array, numbers without a bigint between. */
export class Reader extends BinaryReader {
  constructor(private readonly from: Buffer) {
    super(from);
  }

  override string(): string {
    const length = this.uint32();
    const begin = this.pos;
    if (begin + length > this.len) throw new RangeError('a message of the broker ends within a text');
    this.pos += length;
    return this.from.toString('utf8', begin, this.pos);
  }

  override int64(): string {
    return this.long() as unknown as string; // the generated code makes a number of it
  }

  override uint64(): string {
    return this.long() as unknown as string;
  }

  private long(): number | bigint | string {
    let [value, at, factor] = [0, this.pos, 1];
    for (; at < this.len && factor < Number.MAX_SAFE_INTEGER; factor *= 128) {
      const byte = this.from[at++] as number;
      value += (byte & 0x7f) * factor;
      if (byte >= 0x80) continue;
      this.pos = at;
      return value;
    }
    return super.int64(); // negative, or too large
  }
}

/** A channel to one broker. */
export interface Connection {
  readonly address: string;
  /** The authorization that the session's call has shown. */
  readonly shown: string | undefined;
  /** Its sockets are `sockets`. */
  session(sockets: Sockets): SessionCall;
  /** The authorization that a session would show now. */
  bearerNow(): Promise<string | undefined>;
  /** A unary call. timeout: milliseconds, or Infinity. Rejects with a ServiceError. */
  unary<Q, A>(name: string, query: Codec<Q>, answer: Codec<A>, request: Q, timeout: number,
    signal: AbortSignal | undefined): Promise<A>;
  stream<Q, A>(name: string, query: Codec<Q>, answer: Codec<A>, request: Q): Answers;
  close(): void;
}

export class GrpcConnection implements Connection {
  private readonly client: Client;
  shown: string | undefined;

  constructor(readonly address: string, private readonly access: Access) {
    const {target, credentials, options} = access.transportTo(address);
    this.client = new Client(target, credentials, {...OPTIONS, ...options});
  }

  session(sockets: Sockets): SessionCall {
    const metadata = this.metadata();
    this.shown = metadata.get('authorization')[0]?.toString();
    const call = sockets.of(() => this.client.makeBidiStreamRequest(`${SERVICE}Session`, asBuffer,
      bytes => SessionResponse.decode(new Reader(bytes)), metadata));
    call.once('metadata', () => { sockets.connected(); });
    call.once('status', () => { sockets.connected(); });
    return call;
  }

  /** A new one for each call, because the token's file may have been replaced. */
  private metadata(): Metadata {
    const metadata = new Metadata();
    const shown = this.access.bearer(this.address);
    if (shown !== undefined) metadata.set('authorization', shown);
    return metadata;
  }

  async bearerNow(): Promise<string | undefined> {
    return this.access.bearerNow(this.address);
  }

  async unary<Q, A>(name: string, query: Codec<Q>, answer: Codec<A>, request: Q, timeout: number,
    signal: AbortSignal | undefined): Promise<A> {
    const options = timeout === Infinity ? {} : {deadline: Date.now() + timeout};
    let deafen = (): void => undefined;
    try {
      return await new Promise<A>((resolve, reject) => {
        const done = (error: ServiceError | null, value?: A): void => {
          if (error !== null) reject(error);
          else resolve(value as A);
        };
        const encode = (message: Q): Buffer => asBuffer(query.encode(message).finish());
        const call = this.client.makeUnaryRequest(`${SERVICE}${name}`, encode, bytes => answer.decode(bytes), request,
          this.metadata(), options, done);
        deafen = onAbort(signal, () => { call.cancel(); });
      });
    } finally {
      deafen();
    }
  }

  stream<Q, A>(name: string, query: Codec<Q>, answer: Codec<A>, request: Q): Answers {
    const encode = (message: Q): Buffer => asBuffer(query.encode(message).finish());
    return this.client.makeServerStreamRequest(`${SERVICE}${name}`, encode, bytes => answer.decode(bytes), request,
      this.metadata());
  }

  close(): void {
    this.client.close();
  }
}
