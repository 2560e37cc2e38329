import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { endpointName, endpointsOfHost } from '../../generate/index.ts';
import { DEFAULT_PLACEMENT, type OutboundView } from '../../generate/views.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { viewsOf } from '../proxies/proxy-views.ts';
import { endpoints, service, sidecar, snapshotOf } from '../testing/mesh.ts';
import { encodeResource, resourceMessage } from './encode-resource.ts';
import { EndpointEncoder } from './endpoint-encoder.ts';
import { Interner } from './interner.ts';

const { ClusterLoadAssignment } = envoy.config.endpoint.v3;

const HOST = 'web.shop.svc.cluster.local';
const NAME = `outbound|80||${HOST}`;

/** A cluster that asks for endpoints of its own name or of another. */
function cluster(name: string, asked = name) {
  return encodeResource('cds', name, '1', Buffer.from('cluster'), [asked]);
}

function inputs(snapshot: Snapshot, namespace = 'client', shortEndpointNames = false) {
  const [view] = viewsOf(snapshot, { ...sidecar('10.5.0.1', namespace), shortEndpointNames });
  return (host: string) => endpointsOfHost(snapshot, view as OutboundView, DEFAULT_PLACEMENT, host);
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

  it('differ for other endpoints and other clusters, and are the same again after these', () => {
    const encoder = new EndpointEncoder(new Interner());
    const clusters = [cluster(NAME)];
    const encoded = encoder.encodeUnit(clusters, inputs(before));
    const changed = encoder.encodeUnit(clusters, inputs(after));
    assert.notEqual(changed?.[0]?.version, encoded?.[0]?.version);
    assert.deepEqual(
      encoder.encodeUnit([encodeResource('cds', NAME, '2', Buffer.from('closed'), [])], inputs(before)),
      [],
    );
    assert.deepEqual(encoder.encodeUnit([cluster(`outbound|81||${HOST}`)], inputs(before)), []);
    assert.deepEqual(encoder.encodeUnit(clusters, inputs(before)), encoded);
  });

  it('have the short name where clusters use it, and are shared by those views', () => {
    const encoder = new EndpointEncoder(new Interner());
    const short = endpointName('short', NAME);
    const clusters = [cluster(NAME, short)];
    const encoded = encoder.encodeUnit(clusters, inputs(before, 'client', true));
    assert.deepEqual(
      encoded?.map((resource) => [resource.name, ClusterLoadAssignment.decode(resourceMessage(resource)).clusterName]),
      [[short, short]],
    );
    assert.equal(encoder.encodeUnit(clusters, inputs(before, 'other', true)), encoded);
    assert.deepEqual(
      encoder.encodeUnit([cluster(NAME)], inputs(before))?.map(({ name }) => name),
      [NAME],
    );
  });

  it('are not encoded as one where clusters are of several hosts or the inputs fail', () => {
    const encoder = new EndpointEncoder(new Interner());
    assert.equal(encoder.encodeUnit([cluster(NAME), cluster('outbound|80||db.shop')], inputs(before)), undefined);
    const failing = () => {
      throw new Error('cannot');
    };
    assert.equal(encoder.encodeUnit([cluster(NAME)], failing), undefined);
  });
});
