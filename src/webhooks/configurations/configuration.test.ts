/** Which webhooks of an object lead to the control plane, and the patch for them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changesOf, guarded, readConfiguration } from './configuration.ts';

const HOSTS = new Set(['meshd.mesh-system.svc', 'control.example.org']);
const service = (name: string, namespace = 'mesh-system') => ({ service: { name, namespace, path: '/inject' } });

const object = (webhooks: unknown, annotations?: Record<string, string>) => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'x', resourceVersion: '7', ...(annotations && { annotations }) },
  webhooks,
});
const indexes = (webhooks: unknown) => readConfiguration(object(webhooks), HOSTS).webhooks.map(({ index }) => index);

test('own webhooks are those of its Service, and of a URL with a name of its certificate', () => {
  const found = indexes([
    { name: 'other-service', clientConfig: service('meshd-canary') },
    { name: 'own', clientConfig: service('meshd') },
    { name: 'other-namespace', clientConfig: service('meshd', 'shop') },
    { name: 'url', clientConfig: { url: 'https://control.example.org:15017/validate' } },
    { name: 'other-url', clientConfig: { url: 'https://evil.control.example.org/validate' } },
    { name: 'bad-url', clientConfig: { url: '::' } },
    { name: 'no-client' },
    'text',
    null,
  ]);
  assert.deepEqual(found, [1, 3]);
});

test('an object without a list of webhooks has none', () => {
  for (const webhooks of [undefined, null, {}, 'text', []]) assert.deepEqual(indexes(webhooks), []);
});

test('only what differs is patched, and only of own webhooks', () => {
  const configuration = readConfiguration(
    object([
      { name: 'a', clientConfig: { ...service('other'), caBundle: 'x' }, failurePolicy: 'Ignore' },
      { name: 'b', clientConfig: { ...service('meshd'), caBundle: 'old' }, failurePolicy: 'Ignore' },
      { name: 'c', clientConfig: { ...service('meshd'), caBundle: 'new' } },
      { name: 'd', clientConfig: service('meshd'), failurePolicy: 'Fail' },
    ]),
    HOSTS,
  );
  const bundle = changesOf(configuration, { caBundle: 'new', failurePolicy: undefined });
  assert.deepEqual(bundle, [
    { op: 'add', path: '/webhooks/1/clientConfig/caBundle', value: 'new' },
    { op: 'add', path: '/webhooks/3/clientConfig/caBundle', value: 'new' },
  ]);
  const policy = changesOf(configuration, { caBundle: undefined, failurePolicy: 'Fail' });
  assert.deepEqual(policy, [{ op: 'add', path: '/webhooks/1/failurePolicy', value: 'Fail' }]);
  assert.deepEqual(guarded(configuration, policy)[0], {
    op: 'replace',
    path: '/metadata/resourceVersion',
    value: '7',
  });
});

test('an annotation leaves the failure policy to the operator', () => {
  const managed = (annotations?: Record<string, string>) =>
    readConfiguration(object([], annotations), HOSTS).managesFailurePolicy;
  assert.equal(managed(), true);
  assert.equal(managed({ 'mesh.io/failure-policy': 'Fail' }), true);
  assert.equal(managed({ 'mesh.io/failure-policy': 'Ignore' }), false);
});
