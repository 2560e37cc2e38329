/** Test support: the variants of a server, and of one with its memos switched off. */
import assert from 'node:assert/strict';
import { CtlError } from '../../core/errors.ts';
import { Memos } from '../../core/memo.ts';
import { DeltaProtocol } from '../protocol/delta.ts';
import { SharedResults } from '../protocol/shared-results.ts';
import { SotwProtocol } from '../protocol/sotw.ts';
import { type RequestFormat, RequestFormats } from '../request/index.ts';

export const MEMOS = new Memos();
/** Few enough that tests also have sets of many names. */
const FEW = 2;
export const SHARED = new SharedResults(MEMOS, FEW);
export const DELTA = new DeltaProtocol(SHARED);
export const SOTW = new SotwProtocol(SHARED);
export const { delta: DELTA_REQUESTS, sotw: SOTW_REQUESTS } = new RequestFormats(SHARED.names, MEMOS);

const NO_MEMOS = new Memos({ enabled: false });
const UNSHARED = new SharedResults(NO_MEMOS);
export const DELTA_UNSHARED = new DeltaProtocol(UNSHARED);
export const SOTW_UNSHARED = new SotwProtocol(UNSHARED);
export const { delta: DELTA_UNSHARED_REQUESTS } = new RequestFormats(UNSHARED.names, NO_MEMOS);

/** The error with which a reader refuses a request. */
export function asError(error: unknown): CtlError {
  assert.ok(error instanceof CtlError);
  return error;
}

/**
 * Wraps a format to observe how much of each request is decoded: the bytes outside of known lists, and these lists.
 */
export function watched<Request>(
  format: RequestFormat<Request>,
  see: (bytes: number, known: number) => void,
): RequestFormat<Request> {
  return {
    lists: format.lists,
    decode(bytes, known = []) {
      see(bytes.length, known.length);
      return format.decode(bytes, known);
    },
  };
}
