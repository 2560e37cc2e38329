import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonPieces } from './json-pieces.ts';

const text = (value: unknown): string => [...jsonPieces(value)].join('');

test('the text is that of JSON.stringify', () => {
  const values = [
    null,
    3,
    'a "b"\n',
    [],
    {},
    [[], {}, [1, [2]]],
    { a: undefined, b: [undefined, null, true], 'c d': { e: 1.5, f: '' } },
    { at: new Date(0) },
  ];
  for (const value of values) assert.equal(text(value), JSON.stringify(value, undefined, 2));
});

test('lazy values are computed when they are serialized', () => {
  const made: number[] = [];
  const closed: string[] = [];
  function* lazy() {
    try {
      for (let each = 0; each < 3; each++) {
        made.push(each);
        yield { each };
      }
    } finally {
      closed.push('lazy');
    }
  }
  const page = { list: lazy(), map: new Map([['x', () => [1]]]) };
  assert.deepEqual(JSON.parse(text(page)), { list: [{ each: 0 }, { each: 1 }, { each: 2 }], map: { x: [1] } });
  made.length = 0;
  closed.length = 0;
  for (const piece of jsonPieces([lazy()])) if (piece.includes('"each": 0')) break;
  assert.deepEqual([made, closed], [[0], ['lazy']]);
});

test('a private key is redacted in any field', () => {
  const pem = '-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n';
  assert.deepEqual(JSON.parse(text({ any: [`x${pem}`] })), { any: ['[redacted]'] });
});
