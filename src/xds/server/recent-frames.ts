/**
 * The most recently encoded small frames. A changed endpoint is sent to thousands of streams one after the other.
 * Streams with the same nonce are sent the same bytes. The chunks of a frame are joined into one buffer when a second
 * stream is sent it: for a frame that only one proxy is sent, the copy costs more than it saves.
 */
import type { ResponseMessage } from '../protocol/index.ts';
import { encodeResponse } from './encode-response.ts';

interface Recent {
  readonly message: ResponseMessage;
  frame: readonly Uint8Array[];
}

/** A few, because streams of different age have different nonces. */
const MAX_RECENT = 8;

/** Larger frames are not joined: copying them costs more than writing their chunks. */
const MAX_JOINED_BYTES = 2048;

export class RecentFrames {
  /** A ring: the oldest is replaced. */
  readonly #recent: Recent[] = [];
  #next = 0;
  readonly #remember: boolean;

  /** @param remember false: every frame is encoded again */
  constructor(remember = true) {
    this.#remember = remember;
  }

  /** The length-prefixed gRPC message of {@link encodeResponse}; a small one that is sent again is a single chunk. */
  encode(message: ResponseMessage): readonly Uint8Array[] {
    for (const recent of this.#recent)
      if (isSame(recent.message, message)) {
        if (recent.frame.length > 1) recent.frame = [Buffer.concat(recent.frame)];
        return recent.frame;
      }
    const frame = encodeResponse(message);
    if (this.#remember && lengthOf(frame) <= MAX_JOINED_BYTES) {
      this.#recent[this.#next] = { message, frame };
      this.#next = (this.#next + 1) % MAX_RECENT;
    }
    return frame;
  }
}

function lengthOf(chunks: readonly Uint8Array[]): number {
  let length = 0;
  for (const chunk of chunks) length += chunk.length;
  return length;
}

/** Bodies are shared buffers, compared by identity; removed names are compared by value. */
function isSame(a: ResponseMessage, b: ResponseMessage): boolean {
  return (
    a.nonce === b.nonce &&
    a.version === b.version &&
    a.typeUrl === b.typeUrl &&
    areSame(a.body, b.body) &&
    areSame(a.removed, b.removed)
  );
}

function areSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}
