import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Format } from './formats.ts';
import { helpLine, parseSample, sampleLine } from './lines.ts';

const read = (line: string, format: Format = 'text'): string | undefined => {
  const sample = parseSample(line, format);
  return sample === undefined ? undefined : sampleLine(sample, format);
};

test('samples are read, and written in one way', () => {
  for (const [line, written] of [
    ['a 1', 'a 1'],
    ['a:b_1\t+1.5e-3  1700000000000 ', 'a:b_1 +1.5e-3 1700000000000'],
    ['a {b = "c" , d="\\"\\\\\\n, }" , }  nan', 'a{b="c",d="\\"\\\\\\n, }"} NaN'],
    ['a{b="C:\\Dir\\n\\\\x\\""} 1', 'a{b="C:\\\\Dir\\n\\\\x\\""} 1'],
    ['a{} -Infinity', 'a -Inf'],
    ['a{b="c"}.5', 'a{b="c"} .5'],
    ['a +inf', 'a +Inf'],
  ] as const)
    assert.equal(read(line), written, line);
});

test('help texts have the escapes of their format', () => {
  const text = 'C:\\Dir \\\\ \\n \\"a\\" "b" \\';
  assert.equal(helpLine('a', text, 'text'), '# HELP a C:\\\\Dir \\\\ \\n "a" "b" \\\\');
  assert.equal(helpLine('a', text, 'openmetrics'), '# HELP a C:\\\\Dir \\\\ \\n \\"a\\" "b" \\\\');
});

test('lines that Prometheus would refuse are refused', () => {
  for (const line of [
    'a',
    'a ',
    'a{',
    'a{b="c"',
    'a{b="c} 1',
    'a{b=c} 1',
    'a{b="c" d="e"} 1',
    'a{,} 1',
    'a{b="c",b="d"} 1',
    'a{__name__="b"} 1',
    'a{1="b"} 1',
    '{"a.b"} 1',
    '{a="b"} 1',
    '1a 1',
    'a-b 1',
    'a 1_000',
    'a 0x1',
    'a 1 -5',
    'a 1 1.5',
    'a 1 2 3',
    'a one',
    'a 1e309',
    'a -1e309',
    'a 1 # {b="c"} 1',
    'a{b="\0"} 1',
    'a 1\r',
    '<p>',
    '{"status":"ok"}',
  ])
    assert.equal(read(line), undefined, line);
});

test('exemplars and times of OpenMetrics are read; exemplars stay where they may be', () => {
  for (const [line, written] of [
    ['a_total 1 # {b="c"} 2', 'a_total 1 # {b="c"} 2'],
    ['a_bucket{le="+Inf"} 1 2.5 #{} 3 4.5', 'a_bucket{le="+Inf"} 1 2.5 # {} 3 4.5'],
    ['a 1 -5', 'a 1 -5'],
    ['a 1 # {b="c"} 2', 'a 1'],
    [`a_total 1 # {b="${'c'.repeat(128)}"} 2`, 'a_total 1'],
    ['a_total 1 # {b="c"}', undefined],
    ['a_total 1 # {b="c"} 1e309', undefined],
    ['a_total 1 1e309', undefined],
    ['a_total 1 # {b="c"} 1 1e309', undefined],
    ['a_total 1 # 5', undefined],
    ['a_total 1 # {b="c"} 2 3 4', undefined],
    ['a_total 1 # {b="c",b="d"} 2', undefined],
  ] as const)
    assert.equal(read(line, 'openmetrics'), written, line);
});

test('a line of a megabyte is read in time that grows with its length', () => {
  const labels = Array.from({ length: 20_000 }, (_, index) => `l${index}="${'\\\\'.repeat(10)}"`).join(',');
  assert.ok(read(`a{${labels}} 1`)?.endsWith('} 1'));
  assert.equal(read(`a{${labels}`), undefined);
  assert.equal(read(`a{b="${'\\\\'.repeat(500_000)}`), undefined);
});
