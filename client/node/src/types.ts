// SPDX-License-Identifier: Apache-2.0
//
// The values that this package takes and returns.

/** Milliseconds, or a text such as '500ms', '10s', '1.5m', '2h' or '1m30s'. */
export type Duration = number | string;

/** How a lock is held: alone, beside other readers, or some permits of a semaphore. */
export type Mode = 'EXCLUSIVE' | 'SHARED' | 'PERMIT';

/**
 * The order of several waiters; applies to the request that names it.
 *
 * - FAIR: order of arrival; neighbouring readers share.
 * - WRITER_PREFERRING: waiting writers first.
 * - READER_PREFERRING: readers enter whenever no writer holds the lock.
 * - ADAPTIVE: newcomers may take a free lock until some waiter has waited for 100 ms.
 */
export type Policy = 'FAIR' | 'WRITER_PREFERRING' | 'READER_PREFERRING' | 'ADAPTIVE';

/**
 * The broker's way with a lock whose stream broke.
 *
 * - SAFE: frees it when its last promise to this client has ended: within the validity (3 s).
 * - RELEASE: frees it at once, although this client may not have noticed yet.
 * - EXPIRE: leaves it to its ttl.
 */
export type OnDisconnect = 'SAFE' | 'RELEASE' | 'EXPIRE';

/**
 * A release's effect.
 *
 * - RELEASED: this call gave the lock back.
 * - STILL_HELD: reentrant, and others of this client's holds are left.
 * - ALREADY_GONE: it had ended before; nothing was changed.
 * - UNKNOWN: no answer came; the lock is freed all the same, at the latest when its ttl ends.
 */
export type Outcome = 'RELEASED' | 'STILL_HELD' | 'ALREADY_GONE' | 'UNKNOWN';

/** Paths of PEM files, which are read again at each connect. */
export interface Tls {
  /** The authorities that the broker's certificate may come from. Default: the system's. */
  ca?: string;
  /** The client's own certificate. */
  cert?: string;
  /** Its key. */
  key?: string;
  /** The name that the broker's certificate must have, if it is not the host of the address. */
  serverName?: string;
}

/** The part that `connect` takes. */
export interface AccessOptions {
  /** For brokers at tls://host:port. Default: as the variables DISTLOCK_TLS_CA, _CERT, _KEY and _SERVER_NAME say. */
  tls?: Tls;
  /** The bearer token itself. Like that of a file, it leaves this machine by TLS only. */
  token?: string;
  /** The file of the bearer token, which is read again for each use. Default: DISTLOCK_TOKEN_FILE. */
  tokenFile?: string;
  /** gRPC's, in the place of those of this package: {'grpc.primary_user_agent': 'reports'}. */
  channelOptions?: Readonly<Record<string, string | number>>;
}

/** How a lock is asked for. Bounds are the defaults of the broker. */
export interface LockSettings {
  /** 0 to 64 bytes; '' is "default". */
  namespace?: string;
  /** How long the store keeps the lock when the broker crashes: 1 s to 1 h, default 15 s. */
  ttl?: Duration;
  /** The lock ends this long after its grant, although it could be renewed. Default 0: never. */
  maxHold?: Duration;
  /** After an abnormal end the lock stays taken for this long: 0 to 60 s, default 0. */
  lockDelay?: Duration;
  /**
   * Released sooner after its grant, the lock stays taken until then, so that a job that several hosts start runs once
   * a period: 0 to 25 h, default 0. Exclusive, and one lock only.
   */
  minHold?: Duration;
  /** Default FAIR. */
  policy?: Policy;
  /** Default SAFE. */
  onDisconnect?: OnDisconnect;
  /** Label shown to others, up to 256 bytes. Default: user@host:pid of this process, but of a reentrant lock none. */
  owner?: string;
  /** Shown to others, up to 1 KiB. */
  metadata?: Readonly<Record<string, string>>;
  /**
   * While this client holds the lock, another acquire with the same non-empty owner succeeds at once, with the same
   * token. Not for several locks at once.
   */
  reentrant?: boolean;
  /** The lock outlives a broken stream when a broker of the same store is reached before its last promise ends. */
  resume?: boolean;
}

/** Options of all calls that take a lock. */
export interface LockOptions extends LockSettings {
  /**
   * How long to wait. Undefined: until granted; 0: one try; at most 24 h. Without a broker, see
   * ConnectOptions.unreachableAfter.
   */
  wait?: Duration | undefined;
  /** Ends the wait with an AbortError. It has no effect on a lock that is held. */
  signal?: AbortSignal | undefined;
  /** Told once when the request has a place in the queue. Must not throw. */
  onQueued?: (queued: Queued) => void;
}

/** Options of `permits` besides: `n` permits (default 1) out of `limit`. */
export interface PermitOptions extends LockOptions {
  limit: number;
  n?: number;
}

/** One lock of several that are taken together; a plain key stands for an exclusive one. */
export interface LockRequest extends LockSettings {
  key: string;
  /** Default EXCLUSIVE. */
  mode?: Mode;
  /** PERMIT only: how many (default 1) ... */
  n?: number;
  /** ... out of how many. */
  limit?: number;
}

/** A holder of a lock, as everybody may see it. */
export interface Holder {
  holderId: string;
  owner: string;
  metadata: Record<string, string>;
  mode: Mode;
  permits: number;
  token: number;
  acquireTime: Date | undefined;
  /** Milliseconds that are left of the ttl, without another renewal. */
  timeLeft: number;
  /** Milliseconds. */
  ttl: number;
  brokerId: string;
}

/** A waiter for a lock. `waiterId` becomes its holderId. */
export interface Waiter {
  waiterId: string;
  owner: string;
  metadata: Record<string, string>;
  mode: Mode;
  permits: number;
  startTime: Date | undefined;
  brokerId: string;
}

/** A lock_delay that runs, after an abnormal end, or a min_hold, after a release that came sooner. */
export interface Block {
  startTime: Date | undefined;
  /** Milliseconds until others may have the lock. */
  timeLeft: number;
  owner: string;
}

/** A lock as the store knows it. Counts are complete, lists are bounded. */
export interface LockInfo {
  namespace: string;
  key: string;
  holders: Holder[];
  waiters: Waiter[];
  /** Token of the latest grant; 0: none. */
  token: number;
  queueLength: number;
  holderCount: number;
  block: Block | undefined;
  /** Inspect and list: for so many milliseconds nobody is newly granted a lock; a holder may have been forgotten. */
  holdOff: number;
  /** True without a holder, a waiter, a block and a hold-off. */
  isFree: boolean;
}

/** The place in the queue at the moment of joining it. `position`: how many wait in front. */
export interface Queued {
  position: number;
  holders: Holder[];
  block: Block | undefined;
}

/** A client's figures at one moment. */
export interface Stats {
  /** Locks that it holds. */
  held: number;
  /** Those of them that it may soon lose. */
  atRisk: number;
  /** Locks that it has asked for. */
  waiting: number;
  /** Whether its session is open. */
  connected: boolean;
}

/** The leader of an election, as others see it. */
export interface Leader {
  value: string;
  owner: string;
  holderId: string;
  token: number;
  acquireTime: Date | undefined;
}

/**
 * Hooks for tracing and metrics, such as OpenTelemetry. They must not block; one that throws is reported as a warning
 * of the process.
 */
export interface Observer {
  /** A request begins. What this returns, a span say, comes back as the `cookie` of the others. */
  acquiring?(keys: readonly string[], mode: Mode | 'MULTIPLE'): unknown;
  /** The request is over. outcome: GRANTED, ABORTED, or the reason of a RefusedError. waited: milliseconds. */
  answered?(cookie: unknown, outcome: string, waited: number): void;
  /** One lock of the request has ended. cause: GIVEN_BACK, or that of LockLostError. heldFor: milliseconds. */
  ended?(cookie: unknown, cause: string, heldFor: number): void;
  /** The session with the broker at `address` has opened or ended. */
  session?(what: 'opened' | 'ended', address: string): void;
}
