import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Caller } from '../../security/types.ts';
import { parseNode } from '../request/node.ts';
import { encodeNode } from '../testing/content.ts';
import { authorizedNode } from './node-authorization.ts';

const caller: Caller = {
  identity: { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' },
  by: 'certificate',
  expiresAt: 0,
};

function authorize(id: string, metadata: Readonly<Record<string, string>> = {}) {
  return authorizedNode(parseNode(encodeNode(id, metadata)), caller);
}

const OWN = 'sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local';

describe('the authorization of a node', () => {
  it('accepts the namespace and the service account of its credential', () => {
    assert.equal(authorize(OWN).serviceAccount, 'web');
    assert.deepEqual(authorize(OWN).identity, caller.identity);
    assert.equal(authorize(OWN, { NAMESPACE: 'shop', SERVICE_ACCOUNT: 'web' }).serviceAccount, 'web');
    assert.equal(authorize('sidecar~10.0.0.1~machine~local', { NAMESPACE: 'shop' }).namespace, 'shop');
  });

  const REFUSED: readonly (readonly [string, string, Readonly<Record<string, string>>, RegExp])[] = [
    ['another namespace', 'sidecar~10.0.0.1~web-1.bank~bank.svc.cluster.local', {}, /NAMESPACE: is "bank".*"shop"/],
    ['another namespace in metadata', OWN, { NAMESPACE: 'bank' }, /NAMESPACE: is "bank"/],
    ['another domain', 'sidecar~10.0.0.1~web-1.shop~bank.svc.x', { NAMESPACE: 'shop' }, /^node.id: is "bank"/],
    ['a workload elsewhere', 'sidecar~10.0.0.1~web-1.bank~shop.svc.x', {}, /^node.id: is "bank"/],
    ['another account', OWN, { SERVICE_ACCOUNT: 'admin' }, /SERVICE_ACCOUNT: is "admin".*"web"/],
  ];
  for (const [what, id, metadata, line] of REFUSED)
    it(`refuses ${what}`, () => {
      assert.throws(
        () => authorize(id, metadata),
        (error: Error & { code?: string; oneLine?: () => string }) => {
          assert.equal(error.code, 'permission_denied');
          assert.match(error.oneLine?.() ?? '', line);
          return true;
        },
      );
    });
});
