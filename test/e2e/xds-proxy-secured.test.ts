/**
 * The xDS proxy with certificates: agents with TLS to the control plane, their Envoys without, for configuration, and
 * for decisions and records of the policy component. Network namespaces, real Envoys, redirected traffic.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { type Load, startLoad } from './support/load.ts';
import { policyDocument } from './support/policy-documents.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const PROXY_UID = 1337;
/** Certificates that are renewed after 5 s. */
const SHORT_LIVED = { SECRET_TTL: '30s', SECRET_GRACE_PERIOD_RATIO: '0.85', SECRET_ROTATION_CHECK_INTERVAL: '1s' };

const run = promisify(execFile);

interface Shared {
  readonly world: IdentityWorld;
  readonly client: Workload;
  readonly server: Workload;
  readonly load: Load;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const folder = await tempDir(owner);
  await chmod(folder, 0o755);
  const strict = resource('PeerAuthentication', 'all', { mtls: { mode: 'STRICT' } }, 'mesh-system');
  const world = await startIdentityWorld(owner, { files: { policy: [strict] } });
  // The second address is the right one.
  const upstream = `${world.control.address}:15999,${world.control.address}:15012`;
  await mkdir(join(folder, 'server'));
  await chown(join(folder, 'server'), PROXY_UID, PROXY_UID);
  const save = join(folder, 'disk');
  await smallDisk(save);
  const [client, server] = await Promise.all([
    world.addWorkload({
      name: 'client',
      namespace: 'foo',
      proxied: true,
      env: { ...SHORT_LIVED, XDS_LOCAL: ':15002', XDS_UPSTREAM: upstream, XDS_SAVE: `${save}/` },
    }),
    world.addWorkload({
      name: 'server',
      namespace: 'foo',
      proxied: true,
      env: { XDS_LOCAL: join(folder, 'server', 'XDS') },
    }),
  ]);
  shared.set({ world, client, server, load: await startLoad(client, server) });
});

/** A file system that has no space for a snapshot. */
async function smallDisk(path: string): Promise<void> {
  await mkdir(path);
  await run('mount', ['-t', 'tmpfs', '-o', `size=8k,uid=${PROXY_UID},gid=${PROXY_UID}`, 'tmpfs', path]);
  owner.after(async () => void (await run('umount', ['--lazy', path])));
}

async function metric({ netns }: Workload, name: string): Promise<number> {
  const text = await netns.run('curl', '-sS', '--fail', '--max-time', '15', 'http://127.0.0.1:15020/stats/prometheus');
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
}

function agentOf({ agent }: Workload) {
  assert.ok(agent !== undefined);
  return agent;
}

describe('with certificates', { skip }, () => {
  test('Envoy has no certificate for the control plane, and is known there by that of the agent', async () => {
    const { world, client, load } = shared.get();
    const bootstrap = JSON.parse(await readFile(join(agentOf(client).folder, 'envoy-rev0.json'), 'utf8'));
    const cluster = bootstrap.static_resources.clusters.find(({ name }: { name: string }) => name === 'xds-grpc');
    assert.equal(cluster.transport_socket, undefined);
    await eventually(async () => {
      const all = JSON.parse(await world.http('/debug/syncz')) as { proxy: string; listener_state: string }[];
      const state = (name: string) => all.find(({ proxy }) => proxy === `${name}.foo`)?.listener_state;
      assert.deepEqual([state('client'), state('server')], ['SYNCED', 'SYNCED']);
    });
    await load.more(20);
  });

  test('an address that refuses is skipped, and a full disk is one line in the log', async () => {
    const { client } = shared.get();
    await eventually(async () =>
      assert.ok((await metric(client, 'xds_proxy_snapshot_write_failures_total')) > 0, 'nothing was written'),
    );
    assert.match(agentOf(client).output(), /the snapshot cannot be saved \(XDS_SAVE\).*ENOSPC/);
    assert.equal(await metric(client, 'xds_upstream_connected'), 1);
  });

  test('a connection with a renewed certificate replaces the older one, and Envoy and requests notice nothing', async () => {
    const { client, load } = shared.get();
    const agent = agentOf(client);
    const replaced = () => agent.output().split('replacing the connection to the control plane').length - 1;
    await eventually(() => assert.ok(replaced() > 0, 'not replaced yet'), { timeoutMs: 60_000 });
    await eventually(async () => assert.equal(await metric(client, 'xds_upstream_connected'), 1));
    await load.more(20);
    const stats = await agent.admin('/stats?filter=^cluster.xds-grpc.upstream_cx_');
    const stat = (name: string) => Number(new RegExp(`upstream_cx_${name}: (\\d+)$`, 'm').exec(stats)?.[1] ?? 0);
    // Envoy may have tried before the proxy listened.
    assert.equal(stat('total') - stat('connect_fail'), 1);
  });

  test('Envoy asks for decisions and sends records through the agent, or verifies the policy component itself', async () => {
    const { world, client, server, load } = shared.get();
    await world.config.apply('rules', ...RULES);
    const workload = (name: string, identity: string) =>
      world.addWorkload({ name, namespace: 'foo', proxied: true, flags: ['--policyIdentity', identity] });
    const [verified, misled] = await Promise.all([
      workload('verified', 'ns/mesh-system/sa/ctl-discovery'),
      workload('misled', 'ns/mesh-system/sa/another'),
    ]);
    const outcome = async (to: Workload, path: string): Promise<string> => {
      const url = `http://${to.serviceAddress}${path}`;
      return client.netns.run('curl', '-sS', '-m', '10', '-o', '/dev/null', '-w', '%{http_code}', url);
    };
    await eventually(
      async () => {
        const all = [server, verified, misled].map(
          async (to) => `${await outcome(to, '/admin')} ${await outcome(to, '/')}`,
        );
        assert.deepEqual(await Promise.all(all), ['403 200', '403 200', '503 503']);
      },
      { timeoutMs: 30_000 },
    );
    await eventually(() => {
      for (const to of ['server', 'verified']) assert.match(world.discoveryOutput(), new RegExp(`"recorded":"${to}"`));
    });
    await load.more(20);
  });
});

const line = { compiledTemplate: 'logentry', params: { variables: { recorded: 'destination.workload.name | ""' } } };
const RULES = [
  policyDocument('handler', 'deny', { compiledAdapter: 'denier', params: { status: { code: 7 } } }, 'foo'),
  policyDocument('instance', 'any', { compiledTemplate: 'checknothing' }, 'foo'),
  policyDocument('handler', 'lines', { compiledAdapter: 'stdio' }, 'foo'),
  policyDocument('instance', 'line', line, 'foo'),
  policyDocument(
    'rule',
    'admin',
    {
      match: 'request.path == "/admin"',
      actions: [
        { handler: 'deny', instances: ['any'] },
        { handler: 'lines', instances: ['line'] },
      ],
    },
    'foo',
  ),
];
