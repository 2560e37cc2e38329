/**
 * Decodes the Huffman code of header strings, four bits at a time with a table of states: a state is a node of the
 * code's tree, and since no symbol is shorter than five bits, four bits complete at most one. Source: RFC 7541, 5.2 and
 * Appendix B.
 */
import { HpackError } from './errors.ts';

/** Length of each symbol's code in bits; the last is EOS. The code is canonical: the lengths determine it. */
// biome-ignore format: sixteen to a line
const CODE_BITS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
] as const;

const EOS = 256;

/** Padding is the beginning of EOS (ones), shorter than a byte. */
const MAX_PADDING_BITS = 7;

/** Length of the shortest code: a byte decodes to at most 8 / 5 bytes. */
const MIN_CODE_BITS = 5;

/** Flags of a step; its low byte is the symbol, the next byte the next state. */
const EMITS = 1 << 16;
const FAILS = 1 << 17;

/** Children of the tree's nodes, two each; a leaf is ~symbol. Node 0 is the root. */
function buildTree(): number[] {
  const children: number[] = [0, 0];
  const symbols = CODE_BITS.map((_, symbol) => symbol).sort((a, b) => bitsOf(a) - bitsOf(b) || a - b);
  let code = 0;
  let bits = 0;
  for (const symbol of symbols) {
    code <<= bitsOf(symbol) - bits;
    bits = bitsOf(symbol);
    let node = 0;
    for (let bit = bits - 1; bit > 0; bit--) {
      const slot = node * 2 + ((code >> bit) & 1);
      if (children[slot] === 0) children[slot] = children.push(0, 0) / 2 - 1;
      node = children[slot] ?? 0;
    }
    children[node * 2 + (code & 1)] = ~symbol;
    code += 1;
  }
  return children;
}

function bitsOf(symbol: number): number {
  return CODE_BITS[symbol] ?? 0;
}

/** Effect of four bits on a state. */
function stepOf(children: readonly number[], state: number, nibble: number): number {
  let node = state;
  let emitted = 0;
  for (let bit = 3; bit >= 0; bit--) {
    const next = children[node * 2 + ((nibble >> bit) & 1)] ?? 0;
    if (next === ~EOS) return FAILS;
    if (next < 0) emitted = EMITS | ~next;
    node = Math.max(next, 0);
  }
  return emitted | (node << 8);
}

function buildSteps(children: readonly number[]): Int32Array {
  const steps = new Int32Array(children.length * 8);
  for (let index = 0; index < steps.length; index++) steps[index] = stepOf(children, index >> 4, index & 15);
  return steps;
}

/** States in which a string may end: the root, and up to seven one-bits from there. */
function buildEnds(children: readonly number[]): Uint8Array {
  const ends = new Uint8Array(children.length / 2);
  let node = 0;
  for (let bits = 0; bits <= MAX_PADDING_BITS; bits++) {
    ends[node] = 1;
    node = children[node * 2 + 1] ?? 0;
  }
  return ends;
}

const TREE = buildTree();
const STEPS = buildSteps(TREE);
const ENDS = buildEnds(TREE);

/** A reusable buffer for strings of usual length; longer ones get their own. */
const SCRATCH = Buffer.allocUnsafeSlow(4096);

/**
 * Decodes `block` from `start` to `end`, a character per byte. Throws HpackError for EOS and for invalid padding.
 */
export function decodeHuffman(block: Buffer, start: number, end: number): string {
  const maxBytes = Math.ceil(((end - start) * 8) / MIN_CODE_BITS);
  const out = maxBytes <= SCRATCH.length ? SCRATCH : Buffer.allocUnsafe(maxBytes);
  let length = 0;
  let state = 0;
  let seen = 0;
  for (let at = start; at < end; at++) {
    const byte = block[at] ?? 0;
    const high = STEPS[(state << 4) | (byte >> 4)] ?? FAILS;
    if ((high & EMITS) !== 0) out[length++] = high & 255;
    const low = STEPS[(((high >> 8) & 255) << 4) | (byte & 15)] ?? FAILS;
    if ((low & EMITS) !== 0) out[length++] = low & 255;
    state = (low >> 8) & 255;
    seen |= high | low;
  }
  if ((seen & FAILS) !== 0) throw new HpackError('EOS within a Huffman-coded string');
  if (ENDS[state] !== 1) throw new HpackError('invalid padding in a Huffman-coded string');
  return out.toString('latin1', 0, length);
}
