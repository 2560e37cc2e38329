/** Which views a change of token policies and keys touches: exactly those whose rules use them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyChanges } from '../../../model/testing/steps.ts';
import type { Snapshot } from '../../../model/types/types.ts';
import { type AnyResource, keyOf } from '../../../resources/kinds/types.ts';
import { affectedUnits } from '../../testing/affected-units.ts';
import { authentication, fetched, someKeys, viewIn } from '../../testing/authentication.ts';
import { viewOf as gatewayView } from '../../testing/gateways.ts';
import { meshOf } from '../../testing/mesh.ts';
import { gatewayOf } from '../../testing/routes.ts';
import type { View } from '../../views.ts';

const ONE = 'https://one.test/keys';
const TWO = 'https://two.test/keys';

function world(): Snapshot {
  const snapshot = meshOf([
    authentication('one', [{ issuer: 'one', jwksUri: ONE }], 'shop', { app: 'web' }),
    authentication(
      'two',
      [
        { issuer: 'two', jwksUri: TWO },
        { issuer: 'inline', jwks: someKeys('a') },
      ],
      'stock',
    ),
    fetched(ONE, someKeys('b')),
    gatewayOf(
      { servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }] },
      { name: 'edge', namespace: 'stock' },
    ),
  ]);
  for (const namespace of ['shop', 'stock', 'other']) snapshot.scopeById(`${namespace}/`);
  return snapshot;
}

/** The names of the views that have to be generated again. */
function touched(previous: Snapshot, before: AnyResource | undefined, after: AnyResource | undefined): string[] {
  const changed = after ?? before;
  assert.ok(changed);
  const { snapshot, changes } = applyChanges(previous, { changes: [{ key: keyOf(changed), before, after }] });
  const views: Readonly<Record<string, View>> = {
    web: viewIn(previous, { namespace: 'shop', labels: { app: 'web' } }),
    unselected: viewIn(previous, { namespace: 'shop' }),
    stock: viewIn(previous, { namespace: 'stock' }),
    other: viewIn(previous, { namespace: 'other' }),
    gateway: gatewayView({ namespace: 'stock', gateways: ['stock/edge'], policies: previous.policiesOf('stock', {}) }),
  };
  return Object.entries(views)
    .filter(([, view]) => {
      const units = affectedUnits(previous, snapshot, changes, view);
      if (units !== undefined) assert.deepEqual(Object.keys(units), ['lds']);
      return units !== undefined;
    })
    .map(([name]) => name);
}

test('new, rotated and deleted keys touch the listeners of workloads whose rules name them', () => {
  const mesh = world();
  assert.deepEqual(touched(mesh, undefined, fetched(TWO, someKeys('c'))), ['stock', 'gateway']);
  const known = mesh.resources('JsonWebKeySet').get(keyOf(fetched(ONE, '')));
  assert.deepEqual(touched(mesh, known, fetched(ONE, someKeys('d'))), ['web']);
  assert.deepEqual(touched(mesh, known, undefined), ['web']);
});

test('keys that no rule names touch nothing', () => {
  assert.deepEqual(touched(world(), undefined, fetched('https://three.test/keys', someKeys('e'))), []);
});

test("a policy's content touches the listeners of its workloads", () => {
  const mesh = world();
  const edited = authentication('one', [{ issuer: 'other', jwksUri: ONE }], 'shop', { app: 'web' });
  assert.deepEqual(touched(mesh, mesh.resources('RequestAuthentication').get(keyOf(edited)), edited), ['web']);
});
