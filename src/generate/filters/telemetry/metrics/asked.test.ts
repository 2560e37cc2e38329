import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCHEMAS, type TelemetrySpec } from '../../../../resources/kinds/schemas.ts';
import { defaultMeshConfig } from '../../../../resources/mesh-config.ts';
import type { Direction } from '../documents.ts';
import { addsTooMany, changesFor, metricProviders } from './asked.ts';

const NONE = defaultMeshConfig();
const DEFAULTS = { ...NONE, defaultProviders: { metrics: ['prometheus'] } };

type Metrics = NonNullable<TelemetrySpec['metrics']>;
const entries = (...metrics: readonly unknown[]): Metrics => SCHEMAS.Telemetry.parse({ metrics }).metrics ?? [];
const changes = (metrics: Metrics, direction: Direction = 'CLIENT', provider = 'prometheus') =>
  Object.fromEntries(changesFor(DEFAULTS, metrics, provider, direction));

test('providers of a later entry replace those of earlier ones and of the mesh', () => {
  assert.deepEqual(metricProviders(NONE, []), []);
  assert.deepEqual(metricProviders(DEFAULTS, entries({})), ['prometheus']);
  const named = entries({ providers: [{ name: 'a' }] }, { providers: [{ name: 'b' }] }, {});
  assert.deepEqual(metricProviders(DEFAULTS, named), ['b']);
});

test('overrides are about one metric or all, one direction or both, and later ones count', () => {
  const count = { metric: 'REQUEST_COUNT' };
  const written = entries(
    { overrides: [{ disabled: true }] },
    {
      overrides: [
        { match: count, disabled: false },
        { match: { ...count, mode: 'SERVER' }, disabled: true },
      ],
    },
  );
  assert.equal(changes(written).REQUEST_COUNT, undefined);
  assert.deepEqual(changes(written).TCP_SENT_BYTES, { disabled: true, tags: [] });
  assert.deepEqual(changes(written, 'SERVER').REQUEST_COUNT, { disabled: true, tags: [] });
});

test('tags are added and replaced, and standard labels are removed', () => {
  const tagOverrides = { b: { value: 'x.y' }, response_flags: { operation: 'REMOVE' } };
  const match = { metric: 'REQUEST_SIZE' };
  const written = entries({
    overrides: [
      { match, tagOverrides: { b: { value: '1' } } },
      { match, tagOverrides },
    ],
  });
  assert.deepEqual(changes(written), {
    REQUEST_SIZE: {
      disabled: false,
      tags: [
        ['b', 'x.y'],
        ['response_flags', null],
      ],
    },
  });
});

test('the removal of a label that metrics do not have only cancels an addition', () => {
  const remove = { operation: 'REMOVE' };
  const removed = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`t${index}`, remove]));
  assert.deepEqual(changes(entries({ overrides: [{ tagOverrides: removed }] })), {});
  const added = { match: { metric: 'REQUEST_COUNT' }, tagOverrides: { t1: { value: 'x' }, kept: { value: 'y' } } };
  assert.deepEqual(changes(entries({ overrides: [added, { tagOverrides: removed }] })), {
    REQUEST_COUNT: { disabled: false, tags: [['kept', 'y']] },
  });
});

test('an entry without providers is about those of the entry before it', () => {
  const written = entries({ providers: [{ name: 'other' }] }, { overrides: [{ disabled: true }] });
  assert.deepEqual(changes(written), {});
  assert.equal(Object.keys(changes(written, 'CLIENT', 'other')).length, 10);
});

test('metrics that only the filter knows are changed under their own names', () => {
  const mine = { customMetric: 'mine' };
  const overrides = [
    { match: mine, disabled: true },
    { match: mine, tagOverrides: { own: { operation: 'REMOVE' } } },
  ];
  assert.deepEqual(changes(entries({ overrides })), { mine: { disabled: true, tags: [['own', null]] } });
});

test('all documents together add a limited number of tags', () => {
  const tags = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${from + index}`, { value: 'x' }]));
  const added = (...all: readonly unknown[]) => {
    return addsTooMany(changesFor(DEFAULTS, entries({ overrides: all }), 'prometheus', 'SERVER'));
  };
  assert.equal(added({ tagOverrides: tags(0, 16) }), false);
  assert.equal(added({ tagOverrides: tags(0, 16) }, { tagOverrides: tags(16, 1) }), true);
});
