import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meshKindNamed } from './kind-names.ts';
import { MESH_KINDS } from './types.ts';

test('every kind is known by its name, in any case and number, with and without its group', () => {
  for (const kind of MESH_KINDS) {
    for (const name of [kind, kind.toLowerCase(), kind.toUpperCase(), `${kind}.security.istio.io`]) {
      assert.equal(meshKindNamed(name), kind);
    }
  }
  for (const [name, kind] of [
    ['peerauthentications.security.istio.io', 'PeerAuthentication'],
    ['authorizationpolicies', 'AuthorizationPolicy'],
    ['serviceentries', 'ServiceEntry'],
    ['gateways.networking.mesh.io', 'Gateway'],
    ['vs', 'VirtualService'],
    ['PA', 'PeerAuthentication'],
  ] as const) {
    assert.equal(meshKindNamed(name), kind);
  }
});

test('another name is refused with the kind that resembles it, or with all of them', () => {
  assert.throws(() => meshKindNamed('peerauthentcation'), /"peerauthentcation", did you mean PeerAuthentication\?$/);
  assert.throws(() => meshKindNamed('pods'), /unknown kind "pods", expected one of AuthorizationPolicy, /);
  assert.throws(() => meshKindNamed('__proto__'), { code: 'invalid_argument' });
});
