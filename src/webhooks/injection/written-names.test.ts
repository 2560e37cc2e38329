import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import type { PodObject } from '../types.ts';
import { createInjector } from './index.ts';
import { recordOf, recordsOf } from './pod-shape.ts';
import { injected, SETTINGS, webPod, withConfig } from './testing/settings.ts';

const native = createInjector(SETTINGS);
const beside = createInjector(withConfig('', 'global: { nativeSidecar: false }'));

const podWith = (...more: readonly object[]): PodObject => webPod({ spec: { containers: [{ name: 'app' }, ...more] } });
const names = ({ spec }: PodObject, list: string) => recordsOf(recordOf(spec)[list]).map(({ name }) => name);

test('istio-proxy with the image auto is the proxy, and keeps its name', () => {
  const own = { name: 'istio-proxy', image: 'auto', tty: true };
  const first = injected(native, podWith(own));
  assert.deepEqual(
    [names(first, 'initContainers'), names(first, 'containers')],
    [['mesh-init', 'istio-proxy'], ['app']],
  );
  const [, proxy] = recordsOf(recordOf(first.spec).initContainers);
  assert.deepEqual([proxy?.image, proxy?.tty, proxy?.restartPolicy], [SETTINGS.image, true, 'Always']);
  assert.deepEqual(injected(native, first), first);
  const second = injected(beside, podWith(own));
  assert.deepEqual(names(second, 'containers'), ['app', 'istio-proxy']);
  assert.deepEqual(injected(beside, second), second);
});

test('istio-proxy with another image is a container of the application, with a warning', () => {
  const result = native.inject(podWith({ name: 'istio-proxy', image: 'example/proxy:1' }), 'shop');
  assert.ok(result.kind === 'injected');
  assert.deepEqual(names(result.pod, 'containers'), ['app', 'istio-proxy']);
  assert.match(result.warnings.join(), /the sidecar of this mesh is named mesh-proxy/);
});

test('both names in one Pod are refused', () => {
  const pod = podWith({ name: 'istio-proxy', image: 'auto' }, { name: 'mesh-proxy', image: 'auto' });
  assert.throws(
    () => native.inject(pod, 'shop'),
    (error) => error instanceof CtlError && /expected one container mesh-proxy/.test(error.oneLine()),
  );
});

test('a status that is not JSON, or has another structure, does not cause a failure', () => {
  for (const status of ['', '{', '[]', '{"containers":"istio-proxy"}', '{"containers":[7]}', 'null']) {
    const pod = webPod({ metadata: { annotations: { 'sidecar.mesh.io/status': status } } });
    assert.deepEqual(names(injected(native, pod), 'containers'), ['app'], status);
  }
});
