import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { discoveryProgram } from '../discovery.ts';
import { runProgram } from '../program.ts';

const item = (namespace: string, name: string) => ({
  apiVersion: 'security.mesh.io/v1beta1',
  kind: 'PeerAuthentication',
  metadata: { name, namespace },
  spec: {},
  origin: { source: 'directory', file: `${namespace}.yaml`, line: 3 },
});

const entry = (name: string, address: string, more: object) => ({
  kind: 'WorkloadEntry',
  metadata: { name, namespace: 'shop' },
  spec: { address },
  ...more,
});
const ENTRIES = [
  entry('plain', '10.0.0.1', { origin: { source: 'directory', file: 'entries.yaml', line: 3 } }),
  entry('sick', '10.0.0.2', {
    status: { conditions: [{ type: 'Healthy', status: 'False' }] },
    origin: { source: 'registered workloads' },
  }),
];

describe('get', () => {
  const asked: string[] = [];
  const server = createServer(({ url = '' }, response) => {
    asked.push(url);
    const { searchParams } = new URL(url, 'http://localhost');
    const [kind, namespace] = [searchParams.get('kind'), searchParams.get('namespace')];
    if (kind === 'nothing') return void response.writeHead(400).end('unknown kind "nothing"\n');
    if (kind === 'workloadentry') return void response.end(JSON.stringify({ items: ENTRIES, problems: [] }));
    if (kind === 'secret') return void response.writeHead(401).end('debug pages need a bearer token\n');
    const all = [item('mesh-system', 'default'), item('shop', 'web')];
    const items =
      kind === 'gw' ? [] : all.filter(({ metadata }) => namespace === '' || metadata.namespace === namespace);
    const problems = [
      {
        key: 'PeerAuthentication/shop/broken',
        field: 'spec.mtls',
        message: 'bad',
        origin: { file: 'x.yaml', line: 7 },
      },
    ];
    response.end(JSON.stringify({ items, problems: kind === 'gw' ? [] : problems }));
  });
  let address = '';
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const bound = server.address();
    address = `127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}`;
  });
  after(() => server.close());

  async function get(...args: readonly string[]) {
    const out: Record<'stdout' | 'stderr', string> = { stdout: '', stderr: '' };
    const to = (name: keyof typeof out) => ({ write: (text: string) => (out[name] += text) });
    const io = { stdout: to('stdout'), stderr: to('stderr'), env: {} };
    const code = await runProgram(discoveryProgram(), ['get', '--httpAddr', address, ...args], io);
    return { code, ...out };
  }

  test('lists all namespaces and names refused documents', async () => {
    assert.deepEqual(await get('pa'), {
      code: 0,
      stdout:
        'NAMESPACE     NAME      FROM\n' +
        'mesh-system   default   mesh-system.yaml:3\n' +
        'shop          web       shop.yaml:3\n',
      stderr: 'refused: x.yaml:7: PeerAuthentication/shop/broken: spec.mtls: bad\n',
    });
    assert.equal(asked.at(-1), '/debug/configz?kind=pa&namespace=');
  });

  test('shows addresses and health of WorkloadEntries, and the source of those without a file', async () => {
    const { stdout } = await get('workloadentry');
    assert.equal(
      stdout,
      'NAMESPACE   NAME    ADDRESS    HEALTHY   FROM\n' +
        'shop        plain   10.0.0.1             entries.yaml:3\n' +
        'shop        sick    10.0.0.2   False     registered workloads\n',
    );
  });

  test('lists one namespace, or one resource, as YAML or JSON', async () => {
    const { stdout } = await get('pa', '-n', 'shop', '-o', 'json');
    const list = { apiVersion: 'v1', kind: 'List', items: [item('shop', 'web')] };
    assert.deepEqual(JSON.parse(stdout), list);
    assert.match((await get('pa', 'default', '-o', 'yaml')).stdout, /^ +name: default$/m);
    assert.equal((await get('pa', 'absent')).code, 1);
  });

  test('an empty list is a success', async () => {
    assert.deepEqual(await get('gw'), { code: 0, stdout: '', stderr: 'nothing found\n' });
    const { code, stdout } = await get('gw', '-o', 'json');
    assert.deepEqual([code, JSON.parse(stdout).items], [0, []]);
  });

  test('a failed call is one line', async () => {
    for (const [args, message] of [
      [['nothing'], /^ctl-discovery: unknown kind "nothing"\n$/],
      [
        ['secret'],
        /^ctl-discovery: [^\n]* returned HTTP 401: debug pages need a bearer token; CTL_DEBUG_TOKEN_FILE names [^\n]+\n$/,
      ],
      [[], /<kind> is missing/],
      [['pa', '--httpAddr', '127.0.0.1:1'], /cannot call 127.0.0.1:1: [^\n]*ECONNREFUSED[^\n]*--httpAddr/],
    ] as const) {
      const { code, stderr } = await get(...args);
      assert.equal(code, 1);
      assert.match(stderr, message);
    }
  });
});
