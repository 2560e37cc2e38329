import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergePods } from './merge.ts';
import type { PodRecord } from './pod-shape.ts';

const container = (fields: object) => ({ spec: { containers: [{ name: 'a', ...fields }] } });

/** Merges two containers of one name, the second with precedence. */
function merged(first: object, second: object): PodRecord {
  const { spec } = mergePods(container(first), container(second));
  const [{ name: _name, ...fields } = {}] = (spec as { containers: PodRecord[] }).containers;
  return fields;
}

test('fields of the Pod take precedence, and all others are kept', () => {
  const pod = { metadata: { labels: { a: 'pod' } }, spec: { containers: [{ name: 'app' }], priority: 1 } };
  const template = {
    metadata: { labels: { a: 'template', b: 'template' } },
    spec: { containers: [{ name: 'proxy' }], priority: 2 },
  };
  const result = mergePods(template, pod);
  assert.deepEqual(result, {
    metadata: { labels: { a: 'pod', b: 'template' } },
    spec: { containers: [{ name: 'app' }, { name: 'proxy' }], priority: 1 },
  });
  assert.equal(mergePods(template, result), result, 'a merged Pod needs no change');
});

test('lists of objects are merged by their keys, other lists as a whole', () => {
  assert.deepEqual(
    merged(
      {
        env: [
          { name: 'A', value: '1' },
          { name: 'B', value: '1' },
        ],
        args: ['x'],
        volumeMounts: [{ mountPath: '/a', name: 'v' }],
      },
      {
        env: [
          { name: 'B', valueFrom: {} },
          { name: 'C', value: '$(A)' },
        ],
        args: ['y'],
        volumeMounts: [{ mountPath: '/a', name: 'w' }],
      },
    ),
    {
      env: [
        { name: 'A', value: '1' },
        { name: 'B', valueFrom: {} },
        { name: 'C', value: '$(A)' },
      ],
      args: ['y'],
      volumeMounts: [{ mountPath: '/a', name: 'w' }],
    },
  );
  const port = (protocol?: string) => ({ containerPort: 53, ...(protocol === undefined ? {} : { protocol }) });
  assert.deepEqual(merged({ ports: [port(), port('UDP')] }, { ports: [port('TCP')] }), {
    ports: [port('UDP'), port('TCP')],
  });
});

test('the image auto is that of the template', () => {
  assert.deepEqual(merged({ image: 'proxy:1' }, { image: 'auto' }), { image: 'proxy:1' });
  assert.deepEqual(merged({ image: 'proxy:1' }, { image: 'mine' }), { image: 'mine' });
});

test('handlers of probes, hooks and sources of volumes are never combined', () => {
  const template = { readinessProbe: { httpGet: { port: 1 }, periodSeconds: 1 } };
  assert.deepEqual(merged(template, { readinessProbe: { tcpSocket: { port: 2 } } }), {
    readinessProbe: { tcpSocket: { port: 2 }, periodSeconds: 1 },
  });
  assert.deepEqual(merged(template, { readinessProbe: { timeoutSeconds: 2 } }), {
    readinessProbe: { httpGet: { port: 1 }, periodSeconds: 1, timeoutSeconds: 2 },
  });
  assert.deepEqual(merged({ lifecycle: { preStop: { exec: {} } } }, { lifecycle: { preStop: { httpGet: {} } } }), {
    lifecycle: { preStop: { httpGet: {} } },
  });
  const volumes = (source: object) => ({ spec: { volumes: [{ name: 'v', ...source }] } });
  assert.deepEqual(mergePods(volumes({ emptyDir: {} }), volumes({ secret: {} })), volumes({ secret: {} }));
});

test('fields that are null count as absent', () => {
  assert.deepEqual(mergePods({ metadata: { labels: { a: '1' } } }, { metadata: { labels: null }, spec: null }), {
    metadata: { labels: { a: '1' } },
    spec: null,
  });
});
