/**
 * Rotation of certificates and roots under traffic: no request fails, no connection is dropped. Lifetimes are seconds
 * instead of hours; the program is the same.
 *
 *   root     ├─ signs ─┤ announced │ next signs …        (100 s, replaced from the first quarter of its life on)
 *   leaves   ├──┤├──┤├──┤├──┤├──┤├──┤ …                  (90 s, replaced after 7 s on average)
 *
 * No certificate outlives its root: a root that signs has at least 50 s left, and so has every new leaf. That is much
 * longer than a restart of the control plane takes, also on a crowded machine.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually, netnsUnavailable } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { type IdentityWorld, rootsOf, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { type Load, startLoad } from './support/load.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

const SHORT_LIVED = {
  CA_SELF_SIGNED_CA_CERT_TTL: '100s',
  // Of the nearly four minutes of such a root, which begin two minutes before it is made.
  CA_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE: '35',
  // Longer than agents take to renew, so that every agent has a root before the root signs.
  CA_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL: '8s',
  CA_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR: 'false',
};
const AGENT = { SECRET_TTL: '90s', SECRET_GRACE_PERIOD_RATIO: '0.92', SECRET_ROTATION_CHECK_INTERVAL: '1s' };

interface Shared {
  readonly world: IdentityWorld;
  readonly client: Workload;
  readonly server: Workload;
  readonly load: Load;
  readonly firstRoot: string;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const strict = resource('PeerAuthentication', 'all', { mtls: { mode: 'STRICT' } }, 'mesh-system');
  // Proxies make a new connection, with a handshake, for each HTTP/1.1 request. HTTP/2 requests share one connection.
  const handshakes = resource(
    'DestinationRule',
    'server',
    {
      host: 'server.foo.svc.cluster.local',
      trafficPolicy: {
        portLevelSettings: [{ port: { number: 80 }, connectionPool: { http: { maxRequestsPerConnection: 1 } } }],
      },
    },
    'foo',
  );
  const world = await startIdentityWorld(owner, { env: SHORT_LIVED, files: { policy: [strict, handshakes] } });
  const firstRoot = firstOf(await rootsOf(world));
  const [client, server] = await Promise.all(
    ['client', 'server'].map((name) => world.addWorkload({ name, namespace: 'foo', proxied: true, env: AGENT })),
  );
  if (client === undefined || server === undefined) throw new Error('no workloads');
  shared.set({ world, client, server, firstRoot, load: await startLoad(client, server) });
});

function firstOf(pem: string): string {
  return pem.slice(0, pem.indexOf('-----END CERTIFICATE-----'));
}

describe('under load', { skip }, () => {
  test('three rotations of certificates fail no request', async () => {
    const { load } = shared.get();
    const before = load.report().certificates.length;
    await load.until('three rotations', ({ certificates }) => certificates.length >= before + 3, 40_000);
    await load.more(50);
  });

  test('a rotation of the root fails no request, before, during and after the trust in the old one', async () => {
    const { world, client, server, load, firstRoot } = shared.get();
    const rooted = (what: string, holds: (pem: string) => boolean) =>
      eventually(async () => assert.ok(holds(await rootsOf(world)), what), { timeoutMs: 120_000, intervalMs: 200 });
    await rooted('another root signs', (pem) => firstOf(pem) !== firstRoot);
    await load.more(50);
    await rooted('the first root has gone', (pem) => !pem.includes(firstRoot));
    const { certificates } = load.report();
    await load.until('a certificate of the next root', (now) => now.certificates.length > certificates.length, 30_000);
    await load.more(50);
    // The stream's own certificate has expired meanwhile, which needs no log line.
    for (const { agent } of [client, server]) assert.doesNotMatch(agent?.output() ?? '', /credential of this stream/);
  });

  test('the control plane, and with it the authority, stops and restarts: no request fails', async () => {
    const { world, load } = shared.get();
    await world.stopDiscovery();
    await load.more(20);
    await world.startDiscovery();
    const { certificates } = load.report();
    await load.until('a new certificate', (now) => now.certificates.length > certificates.length, 30_000);
    await load.more(50);
    const { answered, failures, certificates: seen, ticks } = load.report();
    assert.deepEqual(failures, []);
    process.stdout.write(
      `under load: ${answered} requests and ${ticks} exchanges over one held connection, none failed; ` +
        `${seen.length} certificates of the client\n`,
    );
  });
});
