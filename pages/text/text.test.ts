import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import * as fc from '../../src/core/testing/properties.ts';
import { differences } from './differences.ts';
import { yaml } from './yaml.ts';

test('YAML is read back as what it was made of', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      assert.deepEqual(parse(yaml(value)), JSON.parse(JSON.stringify(value)));
    }),
    { numRuns: 300 },
  );
});

test('YAML is as people write it', () => {
  const document = {
    kind: 'Gateway',
    spec: { servers: [{ port: { number: 80 }, hosts: ['*.a', 'no'] }], selector: {} },
  };
  assert.equal(
    yaml(document),
    [
      'kind: Gateway',
      'spec:',
      '  servers:',
      '  - port:',
      '      number: 80',
      '    hosts:',
      '    - "*.a"',
      '    - "no"',
      '  selector: {}',
      '',
    ].join('\n'),
  );
});

test('differences name the fields', () => {
  const [here, there] = [
    { name: 'a', ports: [{ number: 80 }, 1], same: { x: 1 } },
    { name: 'b', ports: [{ number: 81 }], same: { x: 1 }, more: true },
  ];
  assert.deepEqual(differences(here, there), [
    { path: 'name', here: 'a', there: 'b' },
    { path: 'ports[0].number', here: 80, there: 81 },
    { path: 'ports[1]', here: 1, there: undefined },
    { path: 'more', here: undefined, there: true },
  ]);
});
