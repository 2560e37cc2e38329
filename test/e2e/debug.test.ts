/** The debug interface, metrics and `ctl-discovery request`, with real Envoys connected. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { programFile, request, startDiscovery, tempDir } from '../harness/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';
import { endpoints, resource } from './support/config.ts';
import { waitSynced } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, type VersionsMesh, WEB, WEB_SUBSETS, webWorkloads } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

const HOST = 'web.default.svc.cluster.local';

before(async () => {
  const started = shared.set(await startVersionsMesh(owner));
  await waitSynced(started.discovery(), started.clients);
});

type Json = Readonly<Record<string, unknown>>;

async function page<T = Json>(path: string): Promise<T> {
  const { status, headers, json } = await mesh().discovery().http(`/debug/${path}`);
  assert.equal(status, 200, path);
  assert.match(String(headers['content-type']), /^application\/json/);
  return json() as T;
}

/** Name → version of everything dynamic in a configuration dump, by section. */
/** The dump of Envoy, and that of the debug page. */
interface RouteConfig {
  readonly name: string;
  readonly virtual_hosts?: readonly { readonly name: string }[];
  readonly virtualHosts?: readonly { readonly name: string }[];
}

function contents(dump: {
  readonly configs: readonly Json[];
}): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const found: Record<string, Record<string, string>> = { clusters: {}, listeners: {}, routes: {}, endpoints: {} };
  type Versioned = { version_info: string };
  for (const config of dump.configs) {
    for (const each of (config.dynamic_active_clusters ?? []) as (Versioned & { cluster: { name: string } })[])
      Object.assign(found.clusters ?? {}, { [each.cluster.name]: each.version_info });
    for (const each of (config.dynamic_listeners ?? []) as { name: string; active_state: Versioned }[])
      Object.assign(found.listeners ?? {}, { [each.name]: each.active_state.version_info });
    for (const each of (config.dynamic_route_configs ?? []) as (Versioned & { route_config: RouteConfig })[]) {
      const { name, virtual_hosts = [], virtualHosts = virtual_hosts } = each.route_config;
      // Discovered virtual hosts have their own versions, which Envoy does not show.
      const hosts = virtualHosts.map((host) => host.name).sort();
      Object.assign(found.routes ?? {}, {
        [name]: hosts.some((host) => host.startsWith(`${name}/`)) ? hosts.join() : each.version_info,
      });
    }
    for (const each of (config.dynamic_endpoint_configs ?? []) as {
      version_info?: string;
      endpoint_config: { cluster_name: string };
    }[])
      Object.assign(found.endpoints ?? {}, { [each.endpoint_config.cluster_name]: each.version_info ?? '' });
  }
  return found;
}

test('syncz shows what each proxy has acknowledged', async () => {
  const status = await page<Json[]>('syncz');
  assert.deepEqual(
    status.map(({ proxy }) => proxy).sort(),
    mesh()
      .clients.map(({ workload }) => workload)
      .sort(),
  );
  for (const line of status) {
    for (const type of ['cluster', 'listener', 'route', 'endpoint']) {
      assert.equal(line[`${type}_state`], 'SYNCED');
      assert.notEqual(line[`${type}_sent`], '');
      assert.equal(line[`${type}_acked`], line[`${type}_sent`]);
    }
    assert.equal(line.cluster_id, 'Orchestrator');
  }
});

test('config_dump has the same names as the dump of the Envoy itself, and for Delta the same versions', async () => {
  for (const client of mesh().clients) {
    const ours = contents(await page(`config_dump?proxyID=${client.workload}`));
    const theirs = contents((await client.configDump()) as { configs: Json[] });
    for (const type of ['clusters', 'listeners', 'routes'] as const) {
      assert.deepEqual(
        Object.keys(ours[type] ?? {}).sort(),
        Object.keys(theirs[type] ?? {}).sort(),
        `${client.mode} ${type}`,
      );
      // A SotW response has one version for all of its resources.
      if (client.mode === 'delta') assert.deepEqual(ours[type], theirs[type], type);
    }
    // Envoy also lists the endpoints of clusters without EDS.
    const known = Object.keys(theirs.endpoints ?? {});
    for (const name of Object.keys(ours.endpoints ?? {})) assert.ok(known.includes(name), name);
    assert.equal(Object.keys(ours.endpoints ?? {}).length, 3);
  }
});

test('over State of the World endpoints have short names, and edsz shows their clusters', async () => {
  for (const client of mesh().clients) {
    const [edsz] = await page<{ endpoints: { cluster_name: string }[]; clusters?: Record<string, string> }[]>(
      `edsz?proxyID=${client.workload}`,
    );
    const lines = await client.admin('/clusters');
    const theirs = [...lines.matchAll(/^(\S+)::eds_service_name::(\S+)$/gm)].map(([, cluster, name]) => [
      name,
      cluster,
    ]);
    assert.equal(edsz?.endpoints.length, 3);
    if (client.mode === 'delta') assert.deepEqual([edsz.clusters, theirs], [undefined, []]);
    else {
      assert.deepEqual(edsz.clusters, Object.fromEntries(theirs));
      for (const { cluster_name } of edsz.endpoints) assert.match(edsz.clusters?.[cluster_name] ?? '', /^outbound\|/);
    }
  }
});

test('a changed endpoint arrives under the name that the proxy subscribed to', async () => {
  const { config, address, clients } = mesh();
  const answering = (by: readonly string[]) =>
    eventuallyAll(clients, async (client) => {
      const answers = new Set<string | undefined>();
      for (let count = 0; count < 8; count++)
        answers.add((await call({ address: client.address, port: HTTP_PORT, host: 'web' })).by);
      assert.deepEqual([...answers].sort(), by, client.mode);
    });
  await answering(['web-v1', 'web-v2']);
  const [v1, v2] = webWorkloads(address(21), address(22));
  assert.ok(v1 && v2);
  const http = [{ name: 'http', port: HTTP_PORT }];
  await config.apply('workloads', v1, v2, endpoints('web', { 'web-v2': address(22) }, http));
  await answering(['web-v2']);
  await config.apply('workloads', ...webWorkloads(address(21), address(22)));
  await answering(['web-v1', 'web-v2']);
});

test('every page of the index answers with JSON', async () => {
  const { discovery } = mesh();
  const index = await discovery().http('/debug');
  assert.equal(index.status, 200);
  const links = [...index.body.matchAll(/href="(\/debug\/[A-Za-z_]+)"/g)].map((match) => String(match[1]));
  const expected =
    'adsz cdsz config_dump configz edsz endpointShardz endpointz instancesz push_status registryz resourcesz syncz';
  for (const name of expected.split(' ')) assert.ok(links.includes(`/debug/${name}`), name);
  const [client] = mesh().clients;
  for (const link of links) {
    const resource = link === '/debug/why' ? `outbound|${HTTP_PORT}||${HOST}` : 'Service/default/web';
    const query = new URLSearchParams({
      proxyID: client?.workload ?? '',
      resource,
      source: client?.workload ?? '',
      destination: 'web',
    });
    const { status, json } = await discovery().http(`${link}?${query}`);
    assert.equal(status, 200, link);
    assert.equal(typeof json(), 'object', link);
  }
  assert.equal((await discovery().http('/debug/nothing')).status, 404);
  assert.equal((await discovery().http('/debug/config_distribution?resource=Service/default/none')).status, 404);
  const [unknown, proxy] = ['Service/default/web', `proxyID=${client?.workload}`];
  assert.equal((await discovery().http(`/debug/why?${proxy}&resource=${unknown}`)).status, 404);
  assert.equal((await discovery().http('/debug/config_dump')).status, 400);
  assert.equal((await discovery().http('/debug/config_dump?proxyID=no.body')).status, 404);
});

test('pages show the current services, endpoints, configuration and connections', async () => {
  const { v1, v2, clients } = mesh();
  const registry = await page<{ hostname: string; ports: Json[] }[]>('registryz');
  assert.deepEqual(
    registry.map(({ hostname }) => hostname),
    [HOST],
  );
  const [service] = await page<{ svc: string; ep: { address: string }[] }[]>('endpointz');
  assert.equal(service?.svc, `${HOST}:http`);
  assert.deepEqual(service.ep.map(({ address }) => address).sort(), [v1.address, v2.address].sort());
  const shards = await page<Record<string, Record<string, { address: string }[]>>>('endpointShardz');
  assert.equal(shards[HOST]?.default?.length, 2);
  const { items, problems } = await page<{
    items: { kind: string; metadata: { name: string } }[];
    problems: unknown[];
  }>('configz');
  assert.deepEqual(items.map(({ kind, metadata }) => `${kind}/${metadata.name}`).sort(), [
    'DestinationRule/web',
    'Sidecar/client-delta',
    'Sidecar/client-sotw',
  ]);
  assert.deepEqual(problems, []);
  const resources = await page<Record<string, number>>('resourcesz');
  assert.deepEqual([resources.Service, resources.Pod, resources.Sidecar, resources.Gateway], [1, 2, 2, 0]);
  const ads = await page<{ totalClients: number; clients: { proxy: string; protocol: string }[] }>('adsz');
  assert.equal(ads.totalClients, 2);
  assert.deepEqual(
    new Map(ads.clients.map(({ proxy, protocol }) => [proxy, protocol])),
    new Map(clients.map(({ id, mode }) => [id, mode])),
  );
  const [proxy] = clients;
  const clusters = await page<{ clusters: { name: string }[] }[]>(`cdsz?proxyID=${proxy?.workload}`);
  assert.ok(clusters[0]?.clusters.some(({ name }) => name === `outbound|${HTTP_PORT}|v1|${HOST}`));
  const assigned = await page<{ endpoints: { cluster_name: string }[] }[]>(`edsz?proxyID=${proxy?.workload}`);
  assert.equal(assigned[0]?.endpoints.length, 3);
});

test('metrics have the documented families, with values of this mesh', async () => {
  const { discovery } = mesh();
  const text = await discovery().metrics();
  const families = new Set([...text.matchAll(/^# TYPE (\S+) /gm)].map((match) => String(match[1])));
  const expected = `ctl_proxy_convergence_time ctl_proxy_queue_time ctl_xds_push_time ctl_push_triggers ctl_xds_pushes
    ctl_xds ctl_inbound_updates ctl_xds_write_timeout ctl_total_xds_rejects ctl_xds_cds_reject ctl_xds_eds_reject
    ctl_xds_lds_reject ctl_xds_rds_reject ctl_xds_expired_nonce
    ctl_services ctl_virt_services ctl_eds_no_instances ctl_vservice_dup_domain
    ctl_destrule_subsets ctl_duplicate_proxy_clusters ctl_orch_object_errors ctl_total_orch_object_errors mesh_build`;
  for (const name of expected.split(/\s+/)) assert.ok(families.has(name), name);
  assert.equal(await discovery().metric('ctl_xds'), 2);
  assert.equal(await discovery().metric('ctl_services'), 1);
  for (const type of ['cds', 'eds', 'lds', 'rds']) {
    assert.ok(((await discovery().metric(`ctl_xds_pushes{type="${type}"}`)) ?? 0) >= 2, type);
    assert.ok(((await discovery().metric(`ctl_xds_push_time_count{type="${type}"}`)) ?? 0) >= 2, type);
  }
  // Both have waited in the queue at least for their first configuration.
  assert.ok(((await discovery().metric('ctl_proxy_queue_time_count')) ?? 0) >= 2);
  const scrapes = (await discovery().metric('scrapes_total')) ?? 0;
  assert.ok(scrapes >= 1);
  assert.ok(((await discovery().metric('scrapes_total')) ?? 0) > scrapes);
  assert.equal(await discovery().metric('scrape_failures_total'), 0);
});

test('why names exactly the documents of a cluster, and the proxies that a document was read for', async (t) => {
  const { config, clients, discovery, address } = mesh();
  await config.apply('edit', resource('Sidecar', 'default', { egress: [{ hosts: ['~/*'] }] }, 'blind'));
  const blind = new SimProxy({
    port: discovery().ports.grpc,
    mode: 'delta',
    id: `sidecar~${address(12)}~pod.blind~blind.svc.cluster.local`,
    metadata: { NAMESPACE: 'blind' },
  }).connect();
  t.after(async () => {
    blind.close();
    await config.remove('edit');
    await config.apply('web', WEB, WEB_SUBSETS);
    await eventuallyAll([mesh()], async () => assert.equal((await page<Json[]>('syncz')).length, clients.length));
    await waitSynced(discovery(), clients);
  });
  await eventuallyAll([blind], async () => {
    assert.ok(blind.complete());
    assert.equal([...blind.content('cds').keys()].filter((name) => name.startsWith('outbound|')).length, 0);
  });
  const cluster = `outbound|${HTTP_PORT}|v1|${HOST}`;
  const why = (query: string) => page<{ proxy: string; units: Json[] }[]>(`why?${query}`);
  const timeout = (connectTimeout: string) => ({ connectionPool: { tcp: { connectTimeout } } });
  const { spec } = WEB_SUBSETS as { spec: Json };
  await config.apply('web', WEB, resource('DestinationRule', 'web', { ...spec, trafficPolicy: timeout('7s') }));
  await eventuallyAll(clients, async (client) => {
    assert.match(JSON.stringify(await client.configDump()), /"connect_timeout":"7s"/);
  });
  for (const { workload } of clients) {
    const [found] = await why(`proxyID=${workload}&resource=${encodeURIComponent(cluster)}`);
    const [one, ...others] = found?.units ?? [];
    assert.deepEqual([found?.proxy, one?.type, one?.unit, others], [workload, 'cds', HOST, []]);
    const file = join(config.path, 'web.yaml');
    const documents = one?.documents as readonly { key: string; origin: { file: string } }[];
    assert.deepEqual(
      documents.map(({ key, origin }) => [key, origin.file]),
      [
        ['DestinationRule/default/web', file],
        ['Service/default/web', file],
      ],
    );
  }
  const readers = await why('config=DestinationRule/default/web');
  assert.deepEqual(
    readers.map(({ proxy, units }) => [proxy, units]).sort(),
    clients.map(({ workload }) => [workload, [{ cds: [HOST] }]]).sort(),
  );
});

test('discovery becomes ready with configuration and with an empty directory', async (t) => {
  const { discovery } = mesh();
  assert.equal((await discovery().http('/ready')).status, 200);
  const { ports } = discovery();
  assert.equal((await request({ port: ports.http, path: '/elsewhere' })).status, 404);
  const fresh = await startDiscovery(t, { configDir: await tempDir(t) });
  assert.equal((await fresh.http('/ready')).status, 200);
});

test('`ctl-discovery request` prints the answer, and fails when the answer is an error', async () => {
  const { ports } = mesh().discovery();
  const program = programFile('ctl-discovery');
  const run = (...args: readonly string[]) => promisify(execFile)(process.execPath, [program, 'request', ...args]);
  const url = `http://127.0.0.1:${ports.http}`;
  const { stdout } = await run('GET', `${url}/debug/syncz`);
  assert.equal((JSON.parse(stdout) as unknown[]).length, 2);
  const metrics = await run('get', `http://127.0.0.1:${ports.monitoring}/metrics`);
  assert.match(metrics.stdout, /^ctl_xds 2$/m);
  await assert.rejects(run('GET', `${url}/debug/nothing`), /404/);
});

test('`proxy-status`, `distribution`, `proxy-config` and `why` show what the Envoys have', async (t) => {
  const { clients, discovery } = mesh();
  const program = programFile('ctl-discovery');
  const address = `127.0.0.1:${discovery().ports.http}`;
  const run = async (command: string, ...args: readonly string[]) => {
    const all = [program, command, '--httpAddr', address, ...args];
    return (await promisify(execFile)(process.execPath, all)).stdout;
  };
  await waitSynced(discovery(), clients);
  const status = await run('proxy-status');
  for (const { workload } of clients)
    assert.match(status, new RegExp(`^${workload} +Orchestrator +SYNCED +SYNCED +SYNCED +SYNCED +IGNORED +\\S+ `, 'm'));
  // Exits with 1 when one has not acknowledged the document.
  const distribution = await run('distribution', 'Service/default/web');
  for (const { workload } of clients) assert.match(distribution, new RegExp(`^${workload} +yes `, 'm'));
  const dir = await tempDir(t);
  for (const client of clients) {
    const file = join(dir, `${client.workload}.json`);
    await writeFile(file, JSON.stringify(await client.configDump()));
    // Exits with 1 when the dump of the Envoy differs.
    assert.match(await run('proxy-status', client.workload, '--file', file), /^No differences\.$/m);
    for (const section of ['clusters', 'listeners', 'routes'])
      assert.equal(
        (await run('proxy-config', section, client.workload, '-o', 'json')) === '[]\n',
        false,
        `${client.mode} ${section}`,
      );
    const clusters = ['--fqdn', HOST, '--port', String(HTTP_PORT)];
    assert.equal(
      await run('proxy-config', 'clusters', client.workload, ...clusters),
      await run('proxy-config', 'clusters', '--file', file, ...clusters),
    );
    const endpoints = await run('proxy-config', 'endpoints', client.workload, '--fqdn', HOST);
    assert.equal(endpoints.match(new RegExp(`HEALTHY +outbound\\|${HTTP_PORT}\\|v[12]\\|${HOST}$`, 'gm'))?.length, 2);
  }
  await assert.rejects(run('proxy-status', 'no.body'), /proxy no\.body is not connected/);
  const [client] = clients;
  const way = await run('why', client?.workload ?? '', `web:${HTTP_PORT}/x`);
  assert.match(way, new RegExp(`^Cluster: +outbound\\|${HTTP_PORT}\\|\\|${HOST}\\n`, 'm'));
  assert.match(way, /by Service\/default\/web \(\S+web\.yaml:\d+\)$/m);
  assert.match(way, /^Destination: +0 of 1 endpoints accept mutual TLS; mode PERMISSIVE$/m);
});
