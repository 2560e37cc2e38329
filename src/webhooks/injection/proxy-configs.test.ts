import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PodObject, ProxyConfigDocument } from '../types.ts';
import { createInjector } from './index.ts';
import { SETTINGS, webPod } from './testing/settings.ts';

interface Container {
  readonly name: string;
  readonly image?: string;
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
}

const document = (
  name: string,
  config: ProxyConfigDocument['config'],
  labels: ProxyConfigDocument['labels'] = {},
): ProxyConfigDocument => ({ title: `ProxyConfig shop/${name}`, labels, config });

interface Documents {
  readonly general?: readonly ProxyConfigDocument[];
  readonly selecting?: readonly ProxyConfigDocument[];
  readonly warnings?: readonly string[];
}

/** The proxy that a Pod gets, and the warnings about it. */
function proxyWith(
  { general = [], selecting = [], warnings = [] }: Documents,
  annotations: Readonly<Record<string, string>> = {},
  proxyConfig: Readonly<Record<string, unknown>> = {},
) {
  const injector = createInjector({ ...SETTINGS, proxyConfig });
  const pod = webPod({ metadata: { labels: { app: 'web' }, annotations } });
  const result = injector.inject(pod, 'shop', {}, { general, selecting, warnings });
  assert.ok(result.kind === 'injected');
  const proxy = initContainers(result.pod).find(({ name }) => name === 'mesh-proxy');
  const variable = (name: string) => proxy?.env?.find((each) => each.name === name)?.value;
  const config: unknown = JSON.parse(variable('PROXY_CONFIG') ?? '{}');
  return {
    image: proxy?.image,
    variable,
    config: config as Readonly<Record<string, unknown>>,
    warnings: result.warnings,
  };
}

const initContainers = (pod: PodObject) =>
  ((pod.spec as Record<string, unknown>).initContainers ?? []) as readonly Container[];

describe('ProxyConfigs', () => {
  test('the mesh configuration, the mesh, the namespace, the annotation and the selector override each other', () => {
    const layers = ['defaultConfig', 'mesh', 'namespace', 'annotation', 'selector'] as const;
    for (const last of layers.keys()) {
      const config = (index: number) =>
        index > last
          ? {}
          : { concurrency: index + 2, proxyMetadata: { LAYER: layers[index], [`ONLY_${index}`]: 'set' } };
      const { config: effective, variable } = proxyWith(
        {
          general: [document('mesh', config(1)), document('namespace', config(2))],
          selecting: [document('selector', config(4), { app: 'web' })],
        },
        { 'proxy.mesh.io/config': JSON.stringify(config(3)) },
        config(0),
      );
      assert.deepEqual([effective.concurrency, variable('LAYER')], [last + 2, layers[last]]);
      // Variables are merged by name.
      for (const index of layers.keys()) assert.equal(variable(`ONLY_${index}`), index > last ? undefined : 'set');
    }
  });

  test('an image type is the suffix of the tag, and the annotation of that name overrides it', () => {
    const general = [document('mesh', { image: { imageType: 'debug' } })];
    const { image, config } = proxyWith({ general });
    assert.equal(image, 'registry.example/ctl-agent:1.0-debug');
    assert.equal(config.image, undefined);
    const annotated = proxyWith({ general }, { 'sidecar.mesh.io/proxyImageType': 'distroless' });
    assert.equal(annotated.image, 'registry.example/ctl-agent:1.0-distroless');
    assert.equal(proxyWith({}, {}, { image: { imageType: 'default' } }).image, 'registry.example/ctl-agent:1.0');
  });

  test('of several that select a Pod the oldest counts, and the others are reported', () => {
    const selecting = [
      document('other', { concurrency: 5 }, { app: 'api' }),
      document('first', { concurrency: 6 }, { app: 'web' }),
      document('second', { concurrency: 7 }, { app: 'web' }),
    ];
    const { config, warnings } = proxyWith({ selecting, warnings: ['of the namespace'] });
    assert.equal(config.concurrency, 6);
    assert.deepEqual(warnings, [
      'of the namespace',
      'ProxyConfig shop/second: no effect, because ProxyConfig shop/first is older and selects the Pod',
    ]);
  });

  test('variables that injection sets have no effect and are reported; those of Istio have their own names', () => {
    const proxyMetadata = { POD_NAME: 'x', ISTIO_META_TEAM: 'a' };
    const { variable, warnings } = proxyWith({ general: [document('mesh', { proxyMetadata })] });
    assert.equal(variable('MESH_META_TEAM'), 'a');
    assert.equal(variable('POD_NAME'), undefined);
    assert.deepEqual(warnings, [
      'ProxyConfig shop/mesh: environmentVariables.POD_NAME: no effect, because injection sets this variable',
    ]);
  });
});
