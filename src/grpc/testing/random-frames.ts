/**
 * Frames for fuzzing: most of them are valid, and a sequence of them is a function of a number. Encoded
 * once, so that a sequence costs less than the connection that reads it.
 */
import {
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FLAG_PADDED,
  FLAG_PRIORITY,
  FRAME,
  frame,
} from '../frames/frames.ts';
import { block, number, request } from './raw-client.ts';

/** Pseudo-random numbers from a seed (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** 0 ≤ n < `below`. */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  }

  of<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('nothing to choose from');
    return item;
  }

  bytes(length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; at++) bytes[at] = this.below(256);
    return bytes;
  }
}

/** One frame, or several that belong together. */
interface KnownFrames {
  readonly frames: readonly Buffer[];
  /** A stream that they open, one that was opened, or any number. */
  readonly concerns: 'new' | 'open' | 'as is';
}

/** Frames of a normal client. */
const ORDERLY = 2048;
/** Frames that a normal client does not send, or not there. */
const ODD = 2048;

/** Number of streams that a sequence opens. */
const REACH = 6;

const TRAILERS = block({ 'x-trailer': 'a' });
const REQUESTS = [
  block(request('/test.T/Any')),
  block(request('/test.T/Any', { 'content-length': '3', 'grpc-timeout': '1S' })),
  // Fields that are added to the compression table, and references to them.
  Buffer.concat([block(request('/test.T/Any')), Buffer.from([0x40, 1, 0x78, 2]), Buffer.from('yz')]),
  Buffer.concat([Buffer.from([0x3f, 0xe1, 0x1f]), block(request('/test.T/Any'))]),
];
const AMOUNTS = [1, 1, 100, 128, 5000, 65_535, 2 ** 20];
const ODD_AMOUNTS = [0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

/** Stream numbers are written when a sequence is made. */
const ANY = 1;

function setting(id: number, value: number): Buffer {
  return Buffer.concat([Buffer.from([0, id]), number(value)]);
}

function orderly(random: Random): KnownFrames {
  const end = random.of([0, 0, 0, FLAG_END_STREAM]);
  const kind = random.below(32);
  const opening = random.of(REQUESTS);
  if (kind < 8) {
    const cut = random.below(opening.length);
    const whole = [frame(FRAME.headers, FLAG_END_HEADERS | end, ANY, opening)];
    const parts = [
      frame(FRAME.headers, end, ANY, opening.subarray(0, cut)),
      frame(FRAME.continuation, FLAG_END_HEADERS, ANY, opening.subarray(cut)),
    ];
    return { frames: random.below(8) === 0 ? parts : whole, concerns: 'new' };
  }
  if (kind < 18) {
    const length = random.of([0, 1, 5, 40, 40, 1000, 16_384]);
    const padded = random.below(8) === 0 && length > 2;
    const content = Buffer.alloc(length, padded ? 2 : 0);
    const flags = end | (padded ? FLAG_PADDED : 0);
    return { frames: [frame(FRAME.data, flags, ANY, content)], concerns: 'open' };
  }
  if (kind < 24) {
    const [amount, all] = [random.of(AMOUNTS), random.below(2) === 0];
    const frames = [frame(FRAME.windowUpdate, 0, all ? 0 : ANY, number(amount))];
    return all ? { frames, concerns: 'as is' } : { frames, concerns: 'open' };
  }
  if (kind < 26) {
    const sizes = Array.from({ length: random.below(3) }, () => setting(4, random.of(AMOUNTS)));
    return { frames: [frame(FRAME.settings, 0, 0, Buffer.concat(sizes))], concerns: 'as is' };
  }
  if (kind < 28) return { frames: [frame(FRAME.rstStream, 0, ANY, number(8))], concerns: 'open' };
  if (kind === 28)
    return {
      frames: [frame(FRAME.headers, FLAG_END_HEADERS | FLAG_END_STREAM, ANY, TRAILERS)],
      concerns: 'open',
    };
  if (kind === 29) return { frames: [frame(FRAME.priority, 0, ANY, random.bytes(5))], concerns: 'open' };
  return { frames: [frame(FRAME.ping, random.of([0, FLAG_ACK]), 0, random.bytes(8))], concerns: 'as is' };
}

/** Header blocks that are not requests, or malformed. */
function oddBlock(random: Random): Buffer {
  return random.of([
    block({ ':path': '/' }),
    block(request('', { 'X-Upper': 'a' })),
    Buffer.concat([block(request('/test.T/Any')), Buffer.from([0xbe])]),
    Buffer.alloc(0),
    random.bytes(20),
  ]);
}

function oddHeaders(random: Random): Buffer {
  const content = random.below(2) === 0 ? oddBlock(random) : random.of(REQUESTS);
  const end = random.of([0, FLAG_END_STREAM]);
  switch (random.below(5)) {
    case 0:
      return frame(FRAME.headers, end, ANY, content);
    case 1:
      return frame(
        FRAME.headers,
        FLAG_END_HEADERS | FLAG_PADDED | end,
        ANY,
        Buffer.concat([Buffer.from([3]), content]),
      );
    case 2: {
      const prioritized = Buffer.concat([number(random.below(8)), Buffer.from([16]), content]);
      return frame(FRAME.headers, FLAG_END_HEADERS | FLAG_PRIORITY | end, ANY, prioritized);
    }
    case 3:
      return frame(FRAME.continuation, random.of([0, FLAG_END_HEADERS]), ANY, content);
    default:
      return frame(FRAME.headers, FLAG_END_HEADERS | end, ANY, content);
  }
}

function oddFrame(random: Random): Buffer {
  switch (random.below(10)) {
    case 0:
      return frame(FRAME.priority, 0, ANY, random.bytes(random.of([5, 4])));
    case 1:
      return frame(FRAME.goaway, 0, random.of([0, 0, 1]), random.bytes(8));
    case 2:
      return frame(FRAME.pushPromise, FLAG_END_HEADERS, ANY, random.bytes(9));
    case 3:
      // A length above the limit, without a payload.
      return Buffer.from([1, 0, 0, random.below(10), 0, 0, 0, 0, 1]);
    case 4: {
      const entries = Array.from({ length: random.below(4) }, () => setting(random.below(8), random.of(ODD_AMOUNTS)));
      return frame(FRAME.settings, 0, 0, Buffer.concat([...entries, Buffer.alloc(random.of([0, 0, 1]))]));
    }
    case 5:
      return frame(FRAME.windowUpdate, 0, random.of([0, ANY]), number(random.of(ODD_AMOUNTS)));
    case 6:
      return frame(FRAME.data, FLAG_PADDED, ANY, random.bytes(random.of([0, 1, 3, 300])));
    case 7:
      return frame(FRAME.settings, FLAG_ACK, 0, random.bytes(random.of([0, 6])));
    default:
      return frame(random.below(256), random.below(256), ANY, random.bytes(random.below(20)));
  }
}

function odd(random: Random): KnownFrames {
  const bytes = random.below(2) === 0 ? oddHeaders(random) : oddFrame(random);
  // Invalid by its content or its position.
  const concerns = random.of(['new', 'open', 'open', 'as is'] as const);
  return { frames: [bytes], concerns: bytes.readUInt32BE(5) === ANY ? concerns : 'as is' };
}

export interface FrameSequence {
  readonly bytes: Buffer;
  /** Largest growth of the connection's window, bytes. */
  readonly grants: number;
  /** It may end inside a frame. */
  readonly cut: boolean;
}

/** Makes sequences. */
export class FrameSequences {
  readonly #orderly: readonly KnownFrames[];
  readonly #odd: readonly KnownFrames[];

  constructor(random: Random) {
    this.#orderly = Array.from({ length: ORDERLY }, () => orderly(random));
    this.#odd = Array.from({ length: ODD }, () => odd(random));
  }

  /**
   * At most `length` frames, or pairs of them. Half of the sequences are those of a normal client.
   */
  make(random: Random, most: number): FrameSequence {
    const parts: Buffer[] = [];
    let [opened, grants, cut] = [0, 0, false];
    const strange = random.below(2) === 0;
    for (let left = 1 + random.below(most); left > 0; left--) {
      const chosen = random.of(strange && random.below(6) === 0 ? this.#odd : this.#orderly);
      // No frame can concern a stream before there is one.
      const early = opened === 0 && chosen.concerns === 'open' && (!strange || random.below(4) > 0);
      if (early) continue;
      const { concerns } = chosen;
      if (concerns === 'new') opened++;
      const stream = 2 * (concerns === 'new' ? opened : 1 + random.below(Math.min(REACH, Math.max(1, opened)))) - 1;
      for (const one of chosen.frames) {
        grants += grantOf(one);
        cut ||= one.length < 9 + one.readUIntBE(0, 3);
        parts.push(concerns === 'as is' ? one : numbered(one, stream));
      }
    }
    return { bytes: Buffer.concat(parts), grants, cut };
  }
}

function numbered(bytes: Buffer, stream: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt32BE(stream, 5);
  return copy;
}

/** Bytes that a frame allows the connection to send. */
function grantOf(one: Buffer): number {
  const widens = one[3] === FRAME.windowUpdate && one.length === 13 && one.readUInt32BE(5) === 0;
  return widens ? one.readUInt32BE(9) & (2 ** 31 - 1) : 0;
}
