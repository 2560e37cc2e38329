import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultDiscoverySettings } from '../settings/index.ts';
import { dnsNamesOf } from './own-certificate.ts';

test('the certificate has the names of the Service, and those of the Service of a revision', () => {
  const settings = { namespace: 'mesh-system', meshdCustomHost: 'mesh.example.com, ' };
  const [none, canary] = ['', 'canary'].map((revision) =>
    dnsNamesOf(defaultDiscoverySettings({ ...settings, revision })),
  );
  assert.ok(none?.includes('meshd.mesh-system.svc.cluster.local'));
  assert.ok(none?.includes('mesh.example.com'));
  assert.equal(none?.length, 7);
  for (const name of [...(none ?? []), 'meshd-canary.mesh-system.svc', 'ctl-discovery-canary.mesh-system.svc'])
    assert.ok(canary?.includes(name), name);
});
