/**
 * Serializes JSON in small pieces, so that a large page can be built in slices. The text is that of
 * `JSON.stringify(value, undefined, 2)`. Values may be lazy: a generator becomes a list, a Map an object, and a
 * function is called when its value is needed.
 */

import { REDACTED } from '../core/redact.ts';

interface Frame {
  readonly items: Iterator<readonly [key: string | undefined, value: unknown]>;
  readonly close: ']' | '}';
  first: boolean;
}

function* listItems(items: Iterable<unknown>): Generator<readonly [undefined, unknown]> {
  for (const item of items) yield [undefined, item];
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

/** The frame of a list or an object; undefined for a scalar. */
function frameOf(value: unknown): Frame | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (value instanceof Map) return { items: value.entries(), close: '}', first: true };
  if (isIterable(value)) return { items: listItems(value), close: ']', first: true };
  return { items: Object.entries(value).values(), close: '}', first: true };
}

/** Private keys are redacted in any field. */
function scalar(value: unknown): string {
  if (typeof value === 'string' && value.includes('PRIVATE KEY-----')) return JSON.stringify(REDACTED);
  return JSON.stringify(value) ?? 'null';
}

function resolved(value: unknown): unknown {
  const plain = typeof value === 'function' ? value() : value;
  return plain instanceof Date ? plain.toISOString() : plain;
}

/** A value that is computed in steps: a page that reads it is built in slices. Only as the whole of a page. */
export class Stepwise {
  readonly steps: Generator<void, unknown>;

  constructor(steps: Generator<void, unknown>) {
    this.steps = steps;
  }
}

/** The pieces of a page. Empty ones separate the steps of computing it. */
export function* pagePieces(answer: unknown): Generator<string> {
  if (!(answer instanceof Stepwise)) return yield* jsonPieces(answer);
  for (;;) {
    const step = answer.steps.next();
    if (step.done === true) return yield* jsonPieces(step.value);
    yield '';
  }
}

/** Pieces of the text: some dozens of characters each, or one string. */
export function* jsonPieces(root: unknown): Generator<string> {
  const value = resolved(root);
  const top = frameOf(value);
  if (top === undefined) return yield scalar(value);
  const stack = [top];
  yield top.close === ']' ? '[' : '{';
  try {
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const next = frame.items.next();
      if (next.done === true) {
        stack.pop();
        yield `${frame.first ? '' : `\n${'  '.repeat(stack.length)}`}${frame.close}`;
        continue;
      }
      const [key, raw] = next.value;
      const item = resolved(raw);
      // Like JSON.stringify: undefined is left out of objects and is null in lists.
      if (item === undefined && key !== undefined) continue;
      const label = key === undefined ? '' : `${JSON.stringify(key)}: `;
      const begin = `${frame.first ? '' : ','}\n${'  '.repeat(stack.length)}${label}`;
      frame.first = false;
      const inner = frameOf(item);
      if (inner === undefined) yield begin + scalar(item);
      else {
        stack.push(inner);
        yield begin + (inner.close === ']' ? '[' : '{');
      }
    }
  } finally {
    for (const { items } of stack) items.return?.();
  }
}
