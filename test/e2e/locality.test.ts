/**
 * Sidecars of one namespace in two zones: they share routes, listeners and clusters, and each prefers the endpoints of
 * its own zone. Each machine is a network namespace, so that listeners on the loopback address can be of one Sidecar.
 *
 *            client machine                      server machine
 *   zone a:  program ─▶ 127.0.0.1:80 (Envoy) ─┬─▶ application a
 *   zone b:  program ─▶ 127.0.0.1:80 (Envoy) ─┴─▶ application b
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  type Child,
  createNetwork,
  type EchoReply,
  type Envoy,
  eventually,
  type Namespace,
  netnsUnavailable,
  programFile,
  startEchoIn,
  startEnvoy,
  tempDir,
} from '../harness/index.ts';
import { type ConfigDir, configDir, type Document, resource } from './support/config.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { eventuallyAll } from './support/traffic.ts';

const skip = (await netnsUnavailable()) ?? false;

const PROGRAM = programFile('ctl-discovery');
const NAMESPACE = 'shop';
const APPLICATION_PORT = 8080;
const ZONES = ['a', 'b'] as const;

interface Place {
  readonly name: (typeof ZONES)[number];
  readonly client: Namespace;
  readonly server: Namespace;
}

interface Zone extends Place {
  readonly application: Child;
  readonly proxy: Envoy;
  /** The proxy's name on debug pages. */
  readonly workload: string;
}

interface Region {
  readonly config: ConfigDir;
  readonly control: Namespace;
  readonly zones: readonly Zone[];
}

const owner = suiteOwner();
const shared = lazy<Region>();
const region = (): Region => shared.get();

/** A service with one endpoint in each of these zones. */
function entry(name: string, resolution: 'STATIC' | 'DNS', places: readonly Place[]): Document {
  return resource(
    'ServiceEntry',
    name,
    {
      hosts: [`${name}.example`],
      location: 'MESH_EXTERNAL',
      resolution,
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      endpoints: places.map(({ name: zone, server }) => ({
        address: server.address,
        ports: { http: APPLICATION_PORT },
        locality: `eu/${zone}`,
      })),
    },
    NAMESPACE,
  );
}

/**
 * One error ejects an endpoint for longer than the tests last, even where one endpoint is more than the default of 10 %
 * of all.
 */
function failover(name: string): Document {
  const outlierDetection = { consecutive5xxErrors: 1, baseEjectionTime: '600s' };
  const loadBalancer = { localityLbSetting: { enabled: true } };
  return resource(
    'DestinationRule',
    name,
    { host: `${name}.example`, trafficPolicy: { loadBalancer, outlierDetection } },
    NAMESPACE,
  );
}

/** The Sidecar of the whole namespace: both proxies have it. */
const SIDECAR = resource(
  'Sidecar',
  'default',
  {
    outboundTrafficPolicy: { mode: 'REGISTRY_ONLY' },
    egress: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, captureMode: 'NONE', hosts: ['./*'] }],
  },
  NAMESPACE,
);

async function startDiscoveryIn(namespace: Namespace, folder: string): Promise<void> {
  const flags = ['--configDir', folder, '--grpcAddr', ':15010', '--httpAddr', ':8080'];
  const argv = ['env', 'ENABLE_CA_SERVER=false', process.execPath, PROGRAM, 'discovery', ...flags];
  const child = await namespace.start('ctl-discovery', argv);
  await eventually(
    () => {
      child.assertRunning();
      return namespace.run('curl', '-sS', '--fail', '--max-time', '2', 'http://127.0.0.1:8080/ready');
    },
    { timeoutMs: 30_000, intervalMs: 100 },
  );
}

async function startZone(place: Place, control: Namespace): Promise<Zone> {
  const { name, client, server } = place;
  const id = `sidecar~${client.address}~client-${name}.${NAMESPACE}~${NAMESPACE}.svc.cluster.local`;
  const [application, proxy] = await Promise.all([
    startEchoIn(owner, server, { name, protocol: 'http', address: '0.0.0.0', port: APPLICATION_PORT }),
    startEnvoy(owner, {
      id,
      metadata: { NAMESPACE, LABELS: { app: 'client' }, INTERCEPTION_MODE: 'NONE' },
      locality: { region: 'eu', zone: name },
      mode: 'delta',
      adsAddress: control.address,
      adsPort: 15010,
      namespace: client,
    }),
  ]);
  return { ...place, application, proxy, workload: `client-${name}.${NAMESPACE}` };
}

async function start(): Promise<Region> {
  const network = await createNetwork(owner);
  const control = await network.addNamespace('control');
  const places: Place[] = [];
  for (const name of ZONES) {
    const client = await network.addNamespace(`client-${name}`);
    places.push({ name, client, server: await network.addNamespace(`server-${name}`) });
  }
  const config = configDir(await tempDir(owner));
  await config.apply('sidecar', SIDECAR);
  await config.apply('near', entry('near', 'STATIC', places));
  await config.apply('named', entry('named', 'DNS', places));
  await config.apply('rules', failover('near'), failover('named'));
  await startDiscoveryIn(control, config.path);
  const zones = await Promise.all(places.map((place) => startZone(place, control)));
  return { config, control, zones };
}

before(async () => {
  if (skip === false) shared.set(await start());
});

/** The applications that answer four requests of a zone's program. */
async function answeredBy({ client }: Zone, host: string): Promise<string[]> {
  const urls = Array.from({ length: 4 }, (_, index) => `http://127.0.0.1/${index}`);
  const flags = ['-sS', '--fail', '--max-time', '20', '-w', '\\n', '-H', `Host: ${host}`];
  const lines = (await client.run('curl', ...flags, ...urls)).split('\n').filter((line) => line !== '');
  assert.equal(lines.length, urls.length);
  return [...new Set(lines.map((line) => (JSON.parse(line) as EchoReply).name))].sort();
}

/** Waits until exactly these applications answer the programs of the zones. */
function answers(host: string, expected: (zone: Zone) => string): Promise<void> {
  return eventuallyAll(region().zones, async (zone) => {
    assert.deepEqual(await answeredBy(zone, host), [expected(zone)], `program in ${zone.name}`);
  });
}

const ownZone = ({ name }: Zone): string => name;

async function page<T>(path: string): Promise<T> {
  const url = `http://127.0.0.1:8080/debug/${path}`;
  return JSON.parse(await region().control.run('curl', '-sS', '--fail', '--max-time', '10', url)) as T;
}

interface Assignment {
  readonly cluster_name: string;
  readonly endpoints: readonly { readonly priority?: number; readonly locality?: { readonly zone?: string } }[];
}

/** Zones of a load assignment, the highest priority first. */
function order({ endpoints }: Assignment): (string | undefined)[] {
  const sorted = [...endpoints].sort((one, other) => (one.priority ?? 0) - (other.priority ?? 0));
  assert.deepEqual(
    sorted.map(({ priority }) => priority ?? 0),
    [...sorted.keys()],
  );
  return sorted.map(({ locality }) => locality?.zone);
}

interface Versioned {
  readonly version_info: string;
}

/** Versions of the resources of an Envoy, by name. */
function versionsOf(configs: readonly Readonly<Record<string, unknown>>[]): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const config of configs) {
    for (const { name, active_state } of (config.dynamic_listeners ?? []) as {
      name: string;
      active_state: Versioned;
    }[])
      found[`listener ${name}`] = active_state.version_info;
    for (const { route_config, version_info } of (config.dynamic_route_configs ?? []) as (Versioned & {
      route_config: { name: string };
    })[])
      found[`routes ${route_config.name}`] = version_info;
    for (const { cluster, version_info } of (config.dynamic_active_clusters ?? []) as (Versioned & {
      cluster: { name: string };
    })[])
      found[`cluster ${cluster.name}`] = version_info;
  }
  return found;
}

const NEAR = 'outbound|80||near.example';
const NAMED = 'outbound|80||named.example';

test('its own zone answers each program, and the other zone while its own has no endpoint', { skip }, async () => {
  const { config, zones } = region();
  await answers('near.example', ownZone);
  await config.apply('near', entry('near', 'STATIC', zones.slice(1)));
  await answers('near.example', () => 'b');
  await config.apply('near', entry('near', 'STATIC', zones));
  await answers('near.example', ownZone);
});

test('both proxies have the same view, each with its own order of endpoints', { skip }, async () => {
  await answers('named.example', ownZone);
  interface Why {
    readonly units: readonly { readonly type: string; readonly view: string; readonly documents: { key: string }[] }[];
  }
  const views = new Set<string>();
  const versions: Readonly<Record<string, string>>[] = [];
  for (const { name, workload, proxy } of region().zones) {
    const other = name === 'a' ? 'b' : 'a';
    const [edsz] = await page<{ endpoints: Assignment[] }[]>(`edsz?proxyID=${workload}`);
    const near = edsz?.endpoints.find(({ cluster_name }) => cluster_name === NEAR);
    assert.deepEqual(near && order(near), [name, other]);
    const [cdsz] = await page<{ clusters: { name: string; load_assignment?: Assignment }[] }[]>(
      `cdsz?proxyID=${workload}`,
    );
    const named = cdsz?.clusters.find((cluster) => cluster.name === NAMED)?.load_assignment;
    assert.deepEqual(named && order(named), [name, other]);
    for (const [host, unit] of [
      ['near', NEAR],
      ['named', NAMED],
    ] as const) {
      const [why] = await page<Why[]>(`why?proxyID=${workload}&resource=${encodeURIComponent(unit)}`);
      const keys = why?.units.flatMap(({ documents }) => documents.map(({ key }) => key));
      assert.deepEqual(keys, [`DestinationRule/shop/${host}`, `ServiceEntry/shop/${host}`]);
      for (const { view } of why?.units ?? []) views.add(view);
    }
    await assert.rejects(
      page(`why?proxyID=${workload}&resource=${encodeURIComponent('outbound|81||named.example')}`),
      /404/,
    );
    versions.push(versionsOf((await proxy.configDump()).configs));
  }
  assert.equal(views.size, 1);
  const [one, other] = versions;
  assert.ok(one && other);
  assert.deepEqual(Object.keys(one).sort(), Object.keys(other).sort());
  const different = Object.keys(one).filter((name) => one[name] !== other[name]);
  assert.deepEqual(different, [`cluster ${NAMED}`]);
});

test('the other zone answers a program while the application of its own zone is down', { skip }, async () => {
  const [a] = region().zones;
  assert.ok(a);
  await a.application.stop();
  for (const host of ['near.example', 'named.example']) await answers(host, () => 'b');
});
