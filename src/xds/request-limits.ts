/**
 * Bounds for unary requests while they come in. grpc-js gathers a request before anybody is asked who sends it, and waits for ever for
 * one that is never completed: without bounds a stranger's connection could leave any number of half requests in memory. Over
 * private members of grpc-js (the version is pinned); where they are missing, the server's own limits hold.
 */
import type { Http2Stream } from 'node:http2';
import { type ServerInterceptingCallInterface, status } from '@grpc/grpc-js';

/** A request is a few kilobytes, sent in one go. */
const REQUEST_TIMEOUT_MS = 10_000;

/** Requests of one connection that are not complete. Whoever sends many sends each whole, so that few are under way at once. */
const MAX_INCOMPLETE = 256;

/** For the status to arrive. */
const HALF_OPEN_MS = 1000;

export interface RequestLimitsOptions {
  readonly timeoutMs?: number;
  readonly maxIncomplete?: number;
}

type Settle = () => void;

function inside(object: unknown, member: string): unknown {
  return typeof object === 'object' && object !== null ? Reflect.get(object, member) : undefined;
}

/** Has grpc-js refuse longer messages of a call before it gathers or inflates them; it has one limit for the whole server only. */
function limitMessages(call: object, bytes: number): void {
  const decoder = inside(call, 'decoder');
  if (typeof decoder === 'object' && decoder !== null && 'maxReadMessageLength' in decoder)
    decoder.maxReadMessageLength = bytes;
  if ('maxReceiveMessageSize' in call) call.maxReceiveMessageSize = bytes;
}

export class RequestLimits {
  readonly #timeoutMs: number;
  readonly #maxIncomplete: number;
  /** Of methods by path: the longest request, bytes. */
  readonly #bytes = new Map<string, number>();
  readonly #incomplete = new WeakMap<object, number>();
  readonly #settle = new WeakMap<object, Settle>();

  constructor({ timeoutMs = REQUEST_TIMEOUT_MS, maxIncomplete = MAX_INCOMPLETE }: RequestLimitsOptions = {}) {
    this.#timeoutMs = timeoutMs;
    this.#maxIncomplete = maxIncomplete;
  }

  /** To be called for each method that has one request. Gives its handler, which is to stand in the handler's place. */
  guard<Call extends object, Reply extends unknown[]>(
    path: string,
    maxBytes: number,
    handler: (call: Call, ...reply: Reply) => void,
  ): (call: Call, ...reply: Reply) => void {
    this.#bytes.set(path, maxBytes);
    return (call, ...reply) => {
      const inner = inside(call, 'call');
      if (typeof inner === 'object' && inner !== null) this.#settle.get(inner)?.();
      handler(call, ...reply);
    };
  }

  /** A call has begun. */
  begin(path: string, call: ServerInterceptingCallInterface): void {
    const bytes = this.#bytes.get(path);
    if (bytes === undefined) return;
    limitMessages(call, bytes);
    const stream = inside(call, 'stream');
    const session = inside(stream, 'session');
    if (typeof session !== 'object' || session === null) return;
    const before = this.#incomplete.get(session) ?? 0;
    const refuse = (code: status, details: string): void => {
      call.sendStatus({ code, details });
      // A peer that leaves its half open must not keep the stream; closing at once would overtake the status.
      setTimeout(() => (stream as Http2Stream).close(), HALF_OPEN_MS).unref();
    };
    if (before >= this.#maxIncomplete) {
      refuse(status.RESOURCE_EXHAUSTED, 'too many incomplete requests of one connection');
      return;
    }
    this.#incomplete.set(session, before + 1);
    const timer = setTimeout(() => {
      refuse(status.DEADLINE_EXCEEDED, 'the request was not completed');
    }, this.#timeoutMs).unref();
    const settle = (): void => {
      if (!this.#settle.delete(call)) return;
      clearTimeout(timer);
      this.#incomplete.set(session, (this.#incomplete.get(session) ?? 1) - 1);
    };
    this.#settle.set(call, settle);
    (stream as Http2Stream).once('close', settle);
  }
}
