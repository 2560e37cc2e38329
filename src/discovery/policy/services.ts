/**
 * The gRPC services of the policy component: decisions for Envoy's ext_authz filters, and records of Envoy's gRPC
 * access logs. https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/auth/v3/external_auth.proto and
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/accesslog/v3/als.proto
 */
import { CtlError } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import { POLICY_METHODS } from '../../core/proxy.ts';
import { CallMessages, type GrpcService, prefixed, type StreamCall, type UnaryCall } from '../../grpc/index.ts';
import type { CallerRecord } from '../../policy/index.ts';
import type { PolicyCallers } from './callers.ts';

/** Largest request: Envoy's limit for the headers of a request, 60 KiB, and its certificate. */
const MAX_CHECK_BYTES = 256 * 1024;
/** Largest message of records: Envoy sends what it has collected from 16 KiB on. */
const MAX_RECORDS_BYTES = 1024 * 1024;
/**
 * Messages of one stream whose records are in progress; further ones are dropped. If they waited, they would use the
 * flow-control window of the connection, on which the same Envoy thread asks for decisions.
 */
const MAX_UNRECORDED = 4;
/** Bytes of messages of records that are received or in progress, of which no caller gets all. */
const MAX_RECORD_MEMORY = 64 * 1024 * 1024;
/** Streams of records of all proxies; a proxy has one for each of its threads and loggers. */
const MAX_STREAMS = 50_000;

export interface PolicyServicesOptions {
  readonly callers: PolicyCallers;
  readonly check: (caller: CallerRecord, request: Buffer) => Promise<Buffer>;
  readonly record: (caller: CallerRecord, message: Buffer) => Promise<void>;
  /** A message of records was dropped. */
  readonly dropped: (caller: CallerRecord) => void;
  readonly refused: (peer: string, error: CtlError) => void;
}

export function createPolicyServices({ callers, check, record, dropped, refused }: PolicyServicesOptions): GrpcService {
  const streams = new FairLimiter(MAX_STREAMS);
  const memory = new FairLimiter(MAX_RECORD_MEMORY);
  const noted = (peer: string, error: unknown): never => {
    if (error instanceof CtlError && error.code !== 'unavailable') refused(peer, error);
    throw error;
  };
  const verified = async (call: UnaryCall): Promise<Buffer> => check(await callers.verify(call), call.request);
  const handler = (call: UnaryCall): Promise<Buffer> => {
    const caller = callers.known(call);
    const decided = caller === undefined ? verified(call) : check(caller, call.request);
    return decided.catch((error: unknown) => noted(call.connection.peer, error));
  };
  const accept = (call: StreamCall): void => {
    callers
      .verify(call)
      .then((caller) => {
        const leave = streams.enter(caller.key);
        if (leave === undefined) throw new CtlError('resource_exhausted', 'too many streams of records of this proxy');
        call.onClose(leave);
        call.isOf(caller.key);
        if (!call.closed)
          readRecords(call, {
            admit: (bytes) => memory.enter(caller.key, bytes),
            record: (message) => record(caller, message),
            dropped: () => dropped(caller),
          });
      })
      .catch((error: unknown) => {
        const known = error instanceof CtlError ? error : new CtlError('internal', 'internal error', {}, error);
        refused(call.connection.peer, known);
        call.end(known);
      });
  };
  return {
    unary: { [POLICY_METHODS.check]: { handler, maxReceiveBytes: MAX_CHECK_BYTES } },
    streams: { [POLICY_METHODS.records]: accept },
  };
}

interface RecordReader {
  /** Takes memory for a message; returns the function that releases it. Undefined: there is none. */
  readonly admit: (bytes: number) => (() => void) | undefined;
  readonly record: (message: Buffer) => Promise<void>;
  readonly dropped: () => void;
}

function readRecords(call: StreamCall, { admit, record, dropped }: RecordReader): void {
  let open = 0;
  /** Releases the memory of the message that is being received. */
  let release: (() => void) | undefined;
  const take = (message: Buffer): void => {
    const done = release;
    release = undefined;
    open++;
    void record(message).finally(() => {
      open--;
      done?.();
    });
  };
  const admits = (bytes: number): boolean => {
    release = open < MAX_UNRECORDED ? admit(Math.max(1, bytes)) : undefined;
    if (release === undefined) dropped();
    return release !== undefined;
  };
  const reader = new CallMessages(MAX_RECORDS_BYTES, take, admits);
  call.onClose(() => release?.());
  call.read({
    data: (bytes) => {
      try {
        reader.add(bytes);
      } catch (error) {
        call.end(error instanceof CtlError ? error : new CtlError('internal', 'internal error', {}, error));
      }
    },
    ended: () => call.reply([prefixed(new Uint8Array(0))]),
  });
}
