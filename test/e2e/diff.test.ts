/**
 * `ctl-discovery diff` asks a running control plane what a change would do: nothing is published, and the answer is
 * what proxies (simulated ones) are sent once the change is made.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import type { PreviewAnswer } from '../../src/preview/index.ts';
import { type Discovery, eventually, programFile, startDiscovery, tempDir } from '../harness/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';
import { type ConfigDir, configDir, type Document, endpoints, resource, service } from './support/config.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const TYPES = ['cds', 'eds', 'lds', 'rds'] as const;
const NAMESPACES = ['shop', 'bank'] as const;

const owner = suiteOwner();
const shared = lazy<{
  readonly discovery: Discovery;
  readonly config: ConfigDir;
  readonly proxies: readonly SimProxy[];
}>();

const route = (timeout: string, more: readonly Document[] = []) =>
  resource(
    'VirtualService',
    'web',
    { hosts: ['web.shop.svc.cluster.local'], http: [...more, { route: [{ destination: { host: 'web' } }], timeout }] },
    'shop',
  );

function workload(name: string, namespace: string): Document[] {
  const http = [{ name: 'http', port: 80, targetPort: 8080 }];
  return [
    service(name, { namespace, ports: http, clusterIP: '10.96.0.1' }),
    endpoints(name, ['10.1.0.1'], [{ name: 'http', port: 8080 }], namespace),
  ];
}

before(async () => {
  const config = configDir(await tempDir(owner));
  await config.apply('web', ...workload('web', 'shop'));
  await config.apply('pay', ...workload('pay', 'bank'));
  await config.apply('route', route('3s'));
  const discovery = await startDiscovery(owner, { configDir: config.path });
  const proxies = NAMESPACES.flatMap((namespace, index) =>
    [1, 2].map((last) => {
      const name = `app-${last}.${namespace}`;
      const id = `sidecar~10.2.${index}.${last}~${name}~${namespace}.svc.cluster.local`;
      return new SimProxy({ port: discovery.ports.grpc, mode: 'delta', id }).connect();
    }),
  );
  for (const proxy of proxies) owner.after(() => proxy.close());
  shared.set({ discovery, config, proxies });
  await eventually(async () => {
    const status = (await discovery.http('/debug/syncz')).json() as Readonly<Record<string, string>>[];
    assert.equal(status.filter(({ route_state: state }) => state === 'SYNCED').length, proxies.length);
  });
});

async function fileOf(...documents: readonly Document[]): Promise<string> {
  const file = join(await tempDir(owner), 'change.yaml');
  await writeFile(file, documents.map((each) => stringify(each)).join('---\n'));
  return file;
}

/** What a command prints, and its exit code. */
async function diff(
  ...args: readonly string[]
): Promise<{ readonly stdout: string; readonly code: number; readonly stderr: string }> {
  const { http } = shared.get().discovery.ports;
  const all = [programFile('ctl-discovery'), 'diff', '--httpAddr', `127.0.0.1:${http}`, ...args];
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, all);
    return { stdout, stderr, code: 0 };
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number };
    return { stdout, stderr, code };
  }
}

async function answer(...args: readonly string[]): Promise<PreviewAnswer> {
  const { stdout, stderr } = await diff(...args, '-o', 'json');
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout) as PreviewAnswer;
}

async function version(): Promise<unknown> {
  const status = (await shared.get().discovery.http('/debug/push_status')).json() as { readonly version?: unknown };
  return status.version;
}

/** Type, name and effect of what a proxy was sent between two states. */
function sent(was: ReadonlyMap<string, string>, is: ReadonlyMap<string, string>, type: string): string[] {
  const names = new Set([...was.keys(), ...is.keys()]);
  return [...names].flatMap((name) => {
    if (was.get(name) === is.get(name)) return [];
    return `${!was.has(name) ? 'added' : is.has(name) ? 'changed' : 'removed'} ${type} ${name}`;
  });
}

test('what a change would do is what it does, and asking does nothing', async () => {
  const { proxies, config, discovery } = shared.get();
  const contents = () => proxies.map((proxy) => TYPES.map((type) => new Map(proxy.content(type))));
  const [before, messages, at] = [contents(), proxies.map((proxy) => proxy.messages), await version()];
  const extra = resource(
    'DestinationRule',
    'web',
    { host: 'web', subsets: [{ name: 'v1', labels: { v: '1' } }] },
    'shop',
  );
  const file = await fileOf(route('5s'), extra, ...workload('new', 'shop'));
  const told = await answer('-f', file);
  assert.deepEqual(
    told.documents.map(({ effect, key }) => `${effect} ${key}`),
    [
      'changed VirtualService/shop/web',
      'added DestinationRule/shop/web',
      'added Service/shop/new',
      'added Endpoints/shop/new',
    ],
  );
  assert.equal(told.documents[0]?.at, `${file}:1`);
  assert.deepEqual([told.proxies.connected, told.proxies.touched], [4, 4]);
  // Nothing was published or sent.
  assert.deepEqual([await version(), proxies.map((proxy) => proxy.messages)], [at, messages]);
  assert.equal(
    ((await discovery.http('/debug/configz?kind=DestinationRule')).json() as { items: unknown[] }).items.length,
    0,
  );
  const timeout = told.resources.list.flatMap(({ fields }) => fields).find(({ path }) => path.endsWith('.timeout'));
  assert.deepEqual([timeout?.before, timeout?.after], ['3s', '5s']);

  await config.apply('route', route('5s'), extra, ...workload('new', 'shop'));
  // The two namespaces have routes of their own.
  const expected = [
    ...new Set(told.resources.list.map(({ effect, type, name }) => `${effect} ${type} ${name}`)),
  ].sort();
  await eventually(() => {
    const after = contents();
    const all = before.flatMap((types, proxy) =>
      TYPES.flatMap((type, index) => sent(types[index] ?? new Map(), after[proxy]?.[index] ?? new Map(), type)),
    );
    assert.deepEqual([...new Set(all)].sort(), expected);
  });
  assert.equal((await answer('-f', file)).proxies.touched, 0);
});

test('a directory that would take the place of the configuration directory deletes what it does not have', async () => {
  const { config } = shared.get();
  const next = join(await tempDir(owner), 'next');
  await cp(config.path, next, { recursive: true });
  assert.deepEqual(
    (await answer('--configDir', next)).documents.map(({ effect }) => effect).filter((each) => each !== 'unchanged'),
    [],
  );
  await rm(join(next, 'pay.yaml'));
  const told = await answer('--configDir', next);
  const removed = told.documents.filter(({ effect }) => effect === 'removed').map(({ key }) => key);
  assert.deepEqual(removed.sort(), ['Endpoints/bank/pay', 'Service/bank/pay']);
  assert.ok(told.resources.list.some(({ effect, type }) => effect === 'removed' && type === 'cds'));
  const { stdout } = await diff('--configDir', next);
  assert.match(stdout, /^ {2}removed {3}Service\/bank\/pay/m);
  assert.match(stdout, /^ {2}- cds outbound\|80\|\|pay\.bank\.svc\.cluster\.local {2}\(4 proxies\)$/m);
});

test('routes and policies are told, and a refused document is named with file and line and ends with 1', async () => {
  const shadowed = { match: [{ uri: { prefix: '/b' } }], route: [{ destination: { host: 'web' } }] };
  const strict = resource('PeerAuthentication', 'strict', { mtls: { mode: 'STRICT' } }, 'shop');
  const before = { route: [{ destination: { host: 'web' } }] };
  const { stdout: text } = await diff('-f', await fileOf(route('5s', [before, shadowed]), strict));
  assert.match(text, /never reached\n {2}VirtualService\/shop\/web spec\.http\[1\] \(prefix \/b\): spec\.http\[0\]/);
  assert.match(text, /closes {2}mutual TLS: PERMISSIVE becomes STRICT {2}\(2 proxies in shop\)/);
  const bad = resource('VirtualService', 'web', { hosts: ['web'], http: [{ rout: [] }] }, 'shop');
  const file = await fileOf(route('5s'), bad);
  const { stdout, code } = await diff('-f', file);
  assert.equal(code, 1);
  assert.match(stdout, new RegExp(`refused .*VirtualService/shop/web.*${file}:\\d+.*spec\\.http\\[0\\]`));
  assert.match(stdout, /the last good version stays in force/);
});
