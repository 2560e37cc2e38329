/**
 * Failures of identities and the recovery from them: tokens, trust domains, processes that end. The mesh is STRICT all
 * the time, so that every answer was sent over mutual TLS.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { foreignRoot, meshRoot, signedBy } from './support/foreign-certificate.ts';
import {
  type IdentityWorld,
  sharedService,
  startIdentityWorld,
  type TokenOptions,
  type Workload,
} from './support/identity-world.ts';
import { startLoad } from './support/load.ts';
import { httpOutcome, outcomeOf } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

/** Shorter than the outage of a test, longer than everything else between two rotations. */
const AGENT = { SECRET_TTL: '16s', SECRET_ROTATION_CHECK_INTERVAL: '1s', TERMINATION_DRAIN_DURATION_SECONDS: '10' };
/**
 * Envoys and agents wait up to 30 s between two attempts to reach a ctl-discovery that was away: an Envoy whose agent
 * needs a new certificate first waits for both.
 */
const PATIENCE = { timeoutMs: 90_000 };
const STRICT = resource('PeerAuthentication', 'all', { mtls: { mode: 'STRICT' } }, 'mesh-system');
/** Of the service that two workloads are behind. */
const PAIR_ADDRESS = '10.96.1.1';

interface Shared {
  readonly world: IdentityWorld;
  readonly client: Workload;
  readonly one: Workload;
  readonly two: Workload;
  /** Without a proxy. */
  readonly plain: Workload;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const world = await startIdentityWorld(owner, { files: { policy: [STRICT] } });
  const add = (name: string, proxied = true) => world.addWorkload({ name, namespace: 'foo', proxied, env: AGENT });
  const [client, one, two, plain] = await Promise.all([add('client'), add('one'), add('two'), add('plain', false)]);
  shared.set({ world, client, one, two, plain });
});

const reached = (from: Workload, to: Workload) =>
  eventually(async () => assert.equal(await outcomeOf({ from, to, port: 'http' }), '200 mtls'), PATIENCE);

async function refused(to: Workload): Promise<void> {
  assert.equal(await outcomeOf({ from: shared.get().plain, to, port: 'http' }), '000/56');
}

const pair = (...workloads: readonly Workload[]) =>
  sharedService('pair', PAIR_ADDRESS, workloads, [
    { name: 'http', port: 80, targetPort: 8080 },
    { name: 'grpc', port: 81, targetPort: 8081 },
  ]);

describe('a workload with an invalid token', { skip }, () => {
  const ROWS: readonly (readonly [string, string, TokenOptions, RegExp])[] = [
    ['late', 'has expired', { expired: true }, /no new certificate: the token in \S+ expired at/],
    ['astray', 'is for another audience', { audience: 'elsewhere' }, /no new certificate: .*for another audience/],
    [
      'other',
      "is another workload's",
      { serviceAccount: 'one' },
      /no new certificate: .*sa\/one, but it is service account other/,
    ],
  ];
  for (const [name, what, token, said] of ROWS) {
    test(`${what}: the proxy is not ready and says why, until the token is valid`, async () => {
      const { world, client } = shared.get();
      const workload = await world.addWorkload({
        name,
        namespace: 'foo',
        proxied: true,
        env: { ...AGENT, INITIAL_BACKOFF_MSEC: '200' },
        token,
        waitReady: false,
      });
      const { agent } = workload;
      assert.ok(agent !== undefined);
      await eventually(() => assert.match(agent.output(), said), PATIENCE);
      assert.equal(await agent.readiness(), 503);
      await world.writeToken(workload);
      await agent.waitReady(PATIENCE.timeoutMs);
      await reached(client, workload);
      await agent.stop();
    });
  }
});

test('certificates of other trust domains and roots are refused, unless the mesh accepts them', {
  skip,
}, async (t) => {
  const { world, one, plain } = shared.get();
  const root = await meshRoot(t, world);
  const own = await signedBy(t, root, 'URI:spiffe://cluster.local/ns/foo/sa/by-hand');
  const other = await signedBy(t, root, 'URI:spiffe://other.example/ns/foo/sa/by-hand');
  const stranger = await signedBy(t, await foreignRoot(t), 'URI:spiffe://cluster.local/ns/foo/sa/by-hand');
  const outcome = async ({ certificate, key }: { certificate: string; key: string }): Promise<string> => {
    const url = `https://${one.netns.address}:8080/`;
    const text = await httpOutcome(plain, one, ['-k', '-m', '20', '--cert', certificate, '--key', key, url]);
    // The TLS version determines whether curl sees the refusal in the handshake or after it.
    return text.startsWith('000/') ? 'refused' : text.replace(/^(200 strange header) .*URI=/, 'URI=');
  };
  const all = async () => [await outcome(own), await outcome(other), await outcome(stranger)];
  const [accepted, acceptedOther] = ['cluster.local', 'other.example'].map(
    (domain) => `URI=spiffe://${domain}/ns/foo/sa/by-hand`,
  );
  assert.deepEqual(await all(), [accepted, 'refused', 'refused']);

  const meshConfig = join(await tempDir(t), 'mesh');
  await writeFile(meshConfig, stringify({ trustDomainAliases: ['other.example'] }));
  await world.stopDiscovery();
  await world.startDiscovery({}, ['--meshConfig', meshConfig]);
  await eventually(async () => assert.deepEqual(await all(), [accepted, acceptedOther, 'refused']), PATIENCE);

  await world.stopDiscovery();
  await world.startDiscovery({ CTL_SKIP_VALIDATE_TRUST_DOMAIN: 'true' });
  await eventually(async () => assert.deepEqual(await all(), [accepted, acceptedOther, 'refused']), PATIENCE);
  await world.stopDiscovery();
  await world.startDiscovery();
  await eventually(async () => assert.deepEqual(await all(), [accepted, 'refused', 'refused']), PATIENCE);
});

test('a proxy that ends under load drains: no request fails', { skip }, async () => {
  const { world, client, one, two } = shared.get();
  await world.config.apply('pair', ...pair(one, two));
  await eventually(async () => {
    const seen = new Set<string>();
    for (let i = 0; i < 6; i++) seen.add(await httpOutcome(client, one, ['-m', '20', `http://${PAIR_ADDRESS}/`]));
    assert.deepEqual([...seen].sort(), ['200 by two.foo', '200 mtls']);
  }, PATIENCE);
  const load = await startLoad(client, two, { address: PAIR_ADDRESS });
  await load.more(50);
  one.agent?.signal('SIGTERM');
  // As an orchestrator ends a pod.
  await world.config.apply('pair', ...pair(two));
  assert.deepEqual(await one.agent?.exited, { code: 0, signal: null });
  await load.more(50);
  await load.stop();
  await world.config.remove('pair');
});

test('an Envoy that is killed is restarted with its certificate and stays STRICT', { skip }, async () => {
  const { client, two } = shared.get();
  const pid = await two.agent?.envoyPid();
  assert.ok(pid !== undefined);
  process.kill(pid, 'SIGKILL');
  await eventually(async () => {
    const now = await two.agent?.envoyPid();
    assert.ok(now !== undefined && now !== pid);
  });
  await reached(client, two);
  await refused(two);
});

test('after an outage in which certificates expired, the mesh recovers', { skip }, async () => {
  const { world, client, two } = shared.get();
  await world.stopDiscovery();
  const expired = (workload: Workload) => assert.match(workload.agent?.output() ?? '', /the certificate has expired/);
  await eventually(() => {
    expired(client);
    expired(two);
  }, PATIENCE);
  await world.startDiscovery();
  await reached(client, two);
  // Configuration arrives over a connection with the new certificate.
  await world.config.apply(
    'policy',
    resource('PeerAuthentication', 'all', { mtls: { mode: 'DISABLE' } }, 'mesh-system'),
  );
  await eventually(
    async () => assert.equal(await outcomeOf({ from: client, to: two, port: 'http' }), '200 plain'),
    PATIENCE,
  );
});
