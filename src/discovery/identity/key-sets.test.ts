/** Published policies become events with key sets, from a real key server. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { PMap } from '../../core/pmap.ts';
import type { ModelChange } from '../../model/index.ts';
import { createMetrics } from '../../observe/index.ts';
import { parseResource } from '../../resources/index.ts';
import { keySetKey } from '../../resources/key-sets.ts';
import type { JwtRule } from '../../resources/kinds/schemas.ts';
import { keyOf, type Resource, type ResourceChange, type ResourceEvent } from '../../resources/kinds/types.ts';
import { followKeySets, wantedKeySets } from './key-sets.ts';

function policy(...jwtRules: readonly JwtRule[]): Resource<'RequestAuthentication'> {
  const document = {
    apiVersion: 'security.mesh.io/v1beta1',
    kind: 'RequestAuthentication',
    metadata: { name: 'policy', namespace: 'shop' },
    spec: { jwtRules },
  };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed && parsed.resource.kind === 'RequestAuthentication', JSON.stringify(parsed));
  return parsed.resource;
}

function publicationOf(...policies: readonly Resource<'RequestAuthentication'>[]) {
  const table = PMap.from(policies.map((each) => [keyOf(each), each] as const));
  const resources = (kind: string) => (kind === 'RequestAuthentication' ? table : PMap.empty());
  const snapshot = { resources } as unknown as ModelChange['snapshot'];
  return {
    snapshot,
    resources: [{ key: 'RequestAuthentication/shop/policy' }] as unknown as readonly ResourceChange[],
  };
}

test('the references of all rules are wanted, each once', () => {
  const inline = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const { snapshot } = publicationOf(
    policy(
      { issuer: 'a', jwksUri: 'https://a.test/keys' },
      { issuer: 'b', jwksUri: 'https://a.test/keys' },
      { issuer: 'https://c.test' },
      { issuer: 'd', jwks: JSON.stringify({ keys: [inline] }) },
      { issuer: 'e' },
    ),
  );
  assert.deepEqual(wantedKeySets(snapshot), new Set(['https://a.test/keys', 'oidc:https://c.test']));
});

test('key sets become events, and are deleted when no policy refers to them', async (t) => {
  const jwk = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const server = createServer((_, response) => response.end(JSON.stringify({ keys: [jwk] })));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`;

  const events: ResourceEvent[] = [];
  const registry = new Registry();
  const keySets = followKeySets({
    refreshMs: 60_000,
    metrics: createMetrics(registry),
    onEvent: (event) => events.push(event),
  });
  t.after(() => keySets.close());

  // There is nothing to wait for.
  await keySets.first();
  const published = publicationOf(policy({ issuer: 'a', jwksUri: url }));
  keySets.published({ ...published, resources: [] });
  await keySets.first();
  assert.equal(events.length, 0);

  keySets.published(published);
  await keySets.first();
  const [set] = events;
  assert.ok(set?.type === 'set' && set.resource.kind === 'JsonWebKeySet');
  assert.equal(keyOf(set.resource), keySetKey(url));
  assert.deepEqual(JSON.parse(set.resource.content.jwks), { keys: [{ ...jwk, use: 'sig' }] });
  assert.equal(set.resource.origin.source, 'jwks');

  keySets.published(publicationOf());
  assert.deepEqual(
    events.slice(1).map((event) => event.type === 'delete' && event.key),
    [keySetKey(url)],
  );
  assert.match(await registry.metrics(), /^ctl_jwks_resolver_network_fetch_success_total 1$/m);
});
