/**
 * Callers whose proxies read nothing or reject everything: what the proxies of another caller receive meanwhile, and
 * how much the server does for the hostile ones. The engine, the server and the sockets are real; nothing times out.
 */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { type Client, Metadata } from '@grpc/grpc-js';
import { XDS } from '../src/core/xds-types.ts';
import { FRAME } from '../src/grpc/frames/frames.ts';
import { message, RawClient, request } from '../src/grpc/testing/raw-client.ts';
import { envoy } from '../src/protobuf/index.ts';
import { endpoints, inline, Mesh, service } from '../src/push/testing/mesh.ts';
import type { XdsServer } from '../src/xds/index.ts';
import { ADS_PATHS } from '../src/xds/server/services.ts';
import { type DeltaFields, encodeDeltaRequest, encodeNode } from '../src/xds/testing/content.ts';
import { openCall } from '../src/xds/testing/peer.ts';
import { clientOf, testServer } from '../src/xds/testing/server.ts';
import { eventually } from './harness/index.ts';

/** Of SETTINGS. */
const INITIAL_WINDOW_SIZE = 4;

/** The engine of tests lets 10 pushes be in flight. */
const MORE_THAN_SLOTS = 25;

/** Enough that the clusters of a proxy are a large push. */
const SERVICES = Array.from({ length: 30 }, (_, index) => service('shop', `web-${index}`));
const CLUSTER = 'outbound|80||web-0.shop.svc.cluster.local';

const NEVER_MS = 600_000;

function node(namespace: string, index = 0): Buffer {
  const id = `sidecar~10.5.0.${index}~pod-${index}.${namespace}~${namespace}.svc.cluster.local`;
  return encodeNode(id, { NAMESPACE: namespace });
}

interface Response {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly names: readonly string[];
}

/** A proxy that answers when the test lets it. */
class Peer {
  readonly #call: ReturnType<typeof openCall>;
  readonly #responses: Response[] = [];
  /** Number of responses so far. */
  received = 0;

  constructor(client: Client, namespace: string) {
    const metadata = new Metadata();
    metadata.set('of', namespace);
    this.#call = openCall(client, ADS_PATHS.delta, metadata);
    this.#call.on('error', () => {});
    this.#call.on('data', (bytes: Buffer) => {
      const { typeUrl, nonce, resources } = envoy.service.discovery.v3.DeltaDiscoveryResponse.decode(bytes);
      this.received++;
      this.#responses.push({ typeUrl, nonce, names: resources.map(({ name }) => name) });
    });
  }

  ask(fields: DeltaFields): void {
    this.#call.write(encodeDeltaRequest(fields));
  }

  next(): Promise<Response> {
    return eventually(() => {
      const response = this.#responses.shift();
      if (response === undefined) throw new Error('no response');
      return response;
    });
  }

  acknowledge({ typeUrl, nonce }: Response): void {
    this.ask({ typeUrl, nonce });
  }

  /** Rejects every response from now on. */
  rejectAll(): void {
    this.#call.on('data', () => {
      for (const { typeUrl, nonce } of this.#responses.splice(0)) this.ask({ typeUrl, nonce, error: 'no' });
    });
  }
}

/** A server whose callers are the namespaces in the header `of`. */
class World {
  readonly mesh = new Mesh(inline, [...SERVICES, endpoints('shop', 'web-0', '10.0.0.1')]);
  readonly server: XdsServer;
  readonly #clients: Client[] = [];
  readonly #raw: RawClient[] = [];

  constructor() {
    this.server = testServer({
      engine: this.mesh.engine,
      shares: this.mesh.engine.shares,
      keepaliveIntervalMs: NEVER_MS,
      keepaliveTimeoutMs: NEVER_MS,
      sendTimeoutMs: NEVER_MS,
      authenticate: async ({ metadata }) => {
        const namespace = metadata.get('of')[0] ?? '';
        const identity = { trustDomain: 'cluster.local', namespace, serviceAccount: 'default' };
        return { identity, by: 'token', expiresAt: Number.POSITIVE_INFINITY };
      },
    });
  }

  get port(): number {
    return this.server.ports()[0] ?? 0;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close();
    for (const client of this.#raw) client.close();
    await this.server.close({ drainMs: 0 });
  }

  peer(namespace: string): Peer {
    const client = clientOf(this.server);
    this.#clients.push(client);
    return new Peer(client, namespace);
  }

  /** A connection that asks for clusters and has no window to be sent them. */
  async stuck(namespace: string, index: number): Promise<RawClient> {
    const client = await RawClient.connect(this.port, [[INITIAL_WINDOW_SIZE, 0]]);
    this.#raw.push(client);
    client.headers(1, request(ADS_PATHS.delta, { of: namespace }));
    client.frame(FRAME.data, 0, 1, message(encodeDeltaRequest({ typeUrl: XDS.cds.url, node: node(namespace, index) })));
    return client;
  }

  /** Waits until this many responses were made for clients, whether or not these have read them. */
  async sent(count: number): Promise<void> {
    await eventually(() => {
      const made = this.server.connections().filter(({ types }) => types.get('cds')?.nonceSent !== '');
      assert.equal(made.length, count);
    });
  }
}

const worlds: World[] = [];

after(async () => {
  for (const world of worlds) await world.close();
});

async function start(): Promise<World> {
  const world = new World();
  worlds.push(world);
  await world.server.start();
  return world;
}

/** A proxy that has its clusters and the endpoints of one of them. */
async function subscribed(world: World, namespace: string): Promise<Peer> {
  const peer = world.peer(namespace);
  peer.ask({ typeUrl: XDS.cds.url, node: node(namespace) });
  peer.acknowledge(await peer.next());
  peer.ask({ typeUrl: XDS.eds.url, subscribe: [CLUSTER] });
  peer.acknowledge(await peer.next());
  return peer;
}

describe('connections of one caller that read nothing', { timeout: 120_000 }, () => {
  it('take no slots: all of them are sent their configuration, and a change reaches another caller', async () => {
    const world = await start();
    const honest = await subscribed(world, 'honest');
    const stuck = await Promise.all(Array.from({ length: MORE_THAN_SLOTS }, (_, index) => world.stuck('bad', index)));
    await world.sent(MORE_THAN_SLOTS + 1);
    for (let revision = 2; revision < 6; revision++) {
      world.mesh.change([endpoints('shop', 'web-0', `10.0.0.${revision}`)]);
      const changed = await honest.next();
      assert.deepEqual(changed.names, [CLUSTER]);
      honest.acknowledge(changed);
    }
    assert.ok(stuck.every(({ ended }) => !ended));
    assert.equal(world.mesh.engine.stats().underWay, 0);
    const sizes = stuck.map((client) => client.dataOf(1).length);
    assert.deepEqual(new Set(sizes), new Set([0]));
  });
});

describe('proxies of one caller that reject everything', { timeout: 120_000 }, () => {
  it('are sent each version a bounded number of times, and a change reaches another caller', async () => {
    const world = await start();
    const honest = await subscribed(world, 'honest');
    const hostile = Array.from({ length: 20 }, () => world.peer('bad'));
    for (const peer of hostile) peer.rejectAll();
    for (const [index, peer] of hostile.entries()) peer.ask({ typeUrl: XDS.cds.url, node: node('bad', index) });
    const responses = (): number => hostile.reduce((sum, { received }) => sum + received, 0);
    await eventually(() => assert.ok(world.server.quarantined().cds >= hostile.length * SERVICES.length));
    const first = responses();
    assert.ok(first <= 70 * hostile.length, `${first} responses`);
    for (let revision = 2; revision < 5; revision++) {
      const before = hostile.map(({ received }) => received);
      world.mesh.change([service('shop', 'web-1', { ports: [{ name: 'http', port: 80 + revision }] })]);
      const changed = await honest.next();
      assert.equal(changed.names.includes(`outbound|${80 + revision}||web-1.shop.svc.cluster.local`), true);
      honest.acknowledge(changed);
      await eventually(() => assert.ok(hostile.every(({ received }, index) => received > (before[index] ?? 0))));
    }
    // Some had not ended their search when the changes began. A search for each change would be 64 responses.
    assert.ok(responses() - first <= 5 * 3 * hostile.length, `${responses() - first} responses to three changes`);
  });
});
