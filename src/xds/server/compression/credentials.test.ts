/** No credential of a document is compressed together with other content, whichever field it is in. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { waitUntil } from '../../../core/testing/wait-until.ts';
import { XDS, XDS_TYPES, type XdsType } from '../../../core/xds-types.ts';
import type { Metadata } from '../../../grpc/index.ts';
import { emptyBundle, type Parts } from '../../../push/index.ts';
import { endpoints, inline, Mesh, meshResource, ready, service, sidecar } from '../../../push/testing/mesh.ts';
import { onDemand } from '../../on-demand/cluster-parts.ts';
import { ResponseFrames, type StreamFrames } from './stream-frames.ts';

const TOKEN = 'Bearer 0123456789abcdef';
const LUA = 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua';
/** So many that the bodies are not too short to be compressed. */
const NAMES = Array.from({ length: 100 }, (_, index) => `service-${index}`);
const ADDRESSES = Array.from({ length: 8 }, (_, index) => `10.5.0.${index + 1}`);
const SERVICES = NAMES.flatMap((name) => [service('shop', name), endpoints('shop', name, ...ADDRESSES)]);

const ROUTES = NAMES.map((host) =>
  meshResource('VirtualService', 'shop', host, {
    hosts: [host],
    http: [{ headers: { request: { set: { authorization: TOKEN } } }, route: [{ destination: { host } }] }],
  }),
);

const filter = (name: string, applyTo: string, operation: string, value: object, match: object = {}) =>
  meshResource('EnvoyFilter', 'shop', name, {
    configPatches: [{ applyTo, match: { context: 'SIDECAR_OUTBOUND', ...match }, patch: { operation, value } }],
  });

const SCRIPT = { '@type': LUA, default_source_code: { inline_string: `-- ${TOKEN}`.repeat(1000) } };
const LISTENERS = filter(
  'listeners',
  'HTTP_FILTER',
  'INSERT_BEFORE',
  { name: 'lua', typed_config: SCRIPT },
  {
    listener: {
      filterChain: {
        filter: {
          name: 'envoy.filters.network.http_connection_manager',
          subFilter: { name: 'envoy.filters.http.router' },
        },
      },
    },
  },
);
const CLUSTERS = filter('clusters', 'CLUSTER', 'MERGE', { metadata: { filter_metadata: { own: { token: TOKEN } } } });

const ACCEPTS: Metadata = { get: (name) => (name === 'grpc-accept-encoding' ? ['gzip'] : []) };

const SIDECAR = { ...sidecar('10.5.0.1', 'shop'), discoversVirtualHosts: true };

type Body = readonly [type: XdsType, body: Uint8Array];

function bodiesOf(parts: Parts): readonly Body[] {
  return XDS_TYPES.flatMap((type) => parts[type].map((part): Body => [type, Buffer.concat(part.sotwBody())]));
}

/** Which bodies streams receive compressed in the end: all have been sent several times by then. */
async function compressedOf(frames: StreamFrames, bodies: readonly Body[]): Promise<readonly Body[]> {
  const isCompressed = ([type, body]: Body): boolean => {
    const message = { typeUrl: XDS[type].url, version: '1', nonce: '1', removed: [], body: [body] };
    return frames.encode({ type, message }).compressed !== undefined;
  };
  // One after the other, those of endpoints last.
  const last: Body = ['eds', Buffer.alloc(100_000)];
  const all = [...bodies, ...bodies, last];
  await waitUntil(() => isCompressed(last), { step: async () => void all.map(isCompressed) });
  return bodies.filter(isCompressed);
}

const holdsToken = ([, body]: Body): boolean => Buffer.from(body).includes(TOKEN);

const typesOf = (bodies: readonly Body[]): readonly XdsType[] => [...new Set(bodies.map(([type]) => type))];

describe('credentials in the configuration', () => {
  it('are in no compressed body', async () => {
    const mesh = new Mesh(inline, [...SERVICES, ...ROUTES, LISTENERS]);
    const proxy = mesh.connect(SIDECAR);
    await ready(mesh, proxy);
    const bodies = bodiesOf(proxy.session.content());
    assert.deepEqual(typesOf(bodies.filter(holdsToken)), ['lds', 'vhds']);
    const frames = new ResponseFrames(true, true).of(ACCEPTS, 'caller');
    frames.sends(proxy.session.content());
    const compressed = await compressedOf(frames, bodies);
    assert.deepEqual(typesOf(compressed), ['cds', 'eds']);
    assert.ok(!compressed.some(holdsToken));
  });

  it('are in no compressed clusters, also when the stream is sent others without patches', async () => {
    const mesh = new Mesh(inline, [...SERVICES, CLUSTERS]);
    const proxy = mesh.connect(SIDECAR);
    await ready(mesh, proxy);
    const all = new ResponseFrames(true, true);
    const frames = all.of(ACCEPTS, 'caller');
    const patched = bodiesOf(proxy.session.content());
    assert.deepEqual(typesOf(patched.filter(holdsToken)), ['cds']);
    frames.sends(proxy.session.content());
    assert.deepEqual(typesOf(await compressedOf(frames, patched)), ['eds']);
    mesh.change([], ['EnvoyFilter/shop/clusters']);
    await mesh.settled();
    const plain = bodiesOf(proxy.session.content());
    assert.ok(!plain.some(holdsToken));
    frames.sends(proxy.session.content());
    assert.deepEqual(typesOf(await compressedOf(frames, plain)), ['eds']);
    const later = all.of(ACCEPTS, 'caller');
    later.sends(proxy.session.content());
    assert.deepEqual(typesOf(await compressedOf(later, plain)), ['cds', 'eds']);
  });

  it('are in no compressed clusters of proxies on demand', async () => {
    const mesh = new Mesh(inline, [...SERVICES, CLUSTERS]);
    const proxy = mesh.connect(SIDECAR);
    await ready(mesh, proxy);
    const parts = proxy.session.content();
    const asked = parts.cds.map((full) => emptyBundle('cds', onDemand(full)));
    const frames = new ResponseFrames(true, true).of(ACCEPTS, 'caller');
    frames.sends({ ...parts, cds: asked });
    assert.deepEqual(typesOf(await compressedOf(frames, bodiesOf(parts))), ['eds']);
  });
});
