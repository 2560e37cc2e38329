import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { endpointsOfHost } from '../generate/index.ts';
import type { OutboundView } from '../generate/types.ts';
import type { Snapshot } from '../model/types.ts';
import { encodeResource } from './encode-resource.ts';
import { EndpointEncoder } from './endpoint-encoder.ts';
import { Interner } from './interner.ts';
import { endpoints, service, sidecar, snapshotOf } from './testing.ts';
import { viewsOf } from './views.ts';

const HOST = 'web.shop.svc.cluster.local';
const NAME = `outbound|80||${HOST}`;

/** A cluster that asks for these endpoints. */
function cluster(...refs: readonly string[]) {
  return encodeResource('cds', refs.join(), '1', Buffer.from('cluster'), refs);
}

function inputs(snapshot: Snapshot, namespace = 'client') {
  const [view] = viewsOf(snapshot, sidecar('10.5.0.1', namespace));
  return (host: string) => endpointsOfHost(snapshot, view as OutboundView, host);
}

const before = snapshotOf([service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')]);
const after = snapshotOf([service('shop', 'web'), endpoints('shop', 'web', '10.0.0.2')]);

describe('endpoints of a unit', () => {
  it('are one list for all views that have the same clusters and inputs', () => {
    const encoder = new EndpointEncoder(new Interner());
    const clusters = [cluster(NAME)];
    const encoded = encoder.encodeUnit(clusters, inputs(before));
    assert.deepEqual(
      encoded?.map(({ name }) => name),
      [NAME],
    );
    assert.equal(encoder.encodeUnit(clusters, inputs(before, 'other')), encoded);
  });

  it('are others for other endpoints and for other clusters, and the same again after them', () => {
    const encoder = new EndpointEncoder(new Interner());
    const clusters = [cluster(NAME)];
    const encoded = encoder.encodeUnit(clusters, inputs(before));
    const changed = encoder.encodeUnit(clusters, inputs(after));
    assert.notEqual(changed?.[0]?.version, encoded?.[0]?.version);
    assert.deepEqual(encoder.encodeUnit([cluster()], inputs(before)), []);
    assert.deepEqual(encoder.encodeUnit([cluster(`outbound|81||${HOST}`)], inputs(before)), []);
    assert.deepEqual(encoder.encodeUnit(clusters, inputs(before)), encoded);
  });

  it('are not had as one where clusters are of several hosts or the inputs cannot be worked out', () => {
    const encoder = new EndpointEncoder(new Interner());
    assert.equal(encoder.encodeUnit([cluster(NAME, 'outbound|80||db.shop')], inputs(before)), undefined);
    const failing = () => {
      throw new Error('cannot');
    };
    assert.equal(encoder.encodeUnit([cluster(NAME)], failing), undefined);
  });
});
