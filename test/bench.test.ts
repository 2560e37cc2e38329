/** Each bench once at a small size: it has its rows and correct counts. Times are not checked. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type Mode, parseCommandLine } from '../bench/options.ts';
import { writeReport } from '../bench/report/report.ts';
import { tablesOf } from '../bench/report/table.ts';
import type { Outcome } from '../bench/results.ts';
import { BENCHES, chooseBenches } from '../bench/suite.ts';
import { tempDir } from './harness/files.ts';
import { kubernetesUnavailable } from './harness/kubernetes/index.ts';
import { prepareBenches, row, runWith, SMALL } from './harness/small-bench.ts';

/** Services 1 and 2 have no subsets: a cluster for each of the two ports. */
const CLUSTERS_OF_PLAIN_SERVICE = 2;

/** How much of the received configuration is for connections with mutual TLS, in the note of a row. */
const SECURITY = /mutual TLS in (\d+) of (\d+) clusters, for (\d+) of (\d+) endpoints/;

async function run(mode: Mode, ...names: string[]): Promise<Outcome> {
  return runWith({ ...SMALL, mode }, ...names);
}

const { proxies } = SMALL;

prepareBenches();

// In parallel, because most of a small bench is waiting.
test('benches', { concurrency: 3 }, async (t) => {
  const tests = [
    ...(['delta', 'sotw'] as const).flatMap((mode) => [
      t.test(`cold and convergence, ${mode}`, async () => {
        const outcome = await run(mode, 'cold', 'convergence');
        const cold = row(outcome, 'cold', 'start to in sync');
        const types = mode === 'delta' ? 5 : 4;
        assert.equal(cold.messages, types * proxies, 'clusters, endpoints, listeners, routes, Delta: virtual hosts');
        assert.ok((cold.rssMiB ?? 0) > 0 && (cold.serverCpu ?? 0) > 0);
        const [, secured, clusters, ready, endpoints] = SECURITY.exec(cold.note ?? '') ?? [];
        assert.deepEqual([secured, ready], [clusters, endpoints], 'all clusters and endpoints are for mutual TLS');
        assert.ok(Number(clusters) > 2 * SMALL.services && Number(endpoints) > Number(clusters));
        const endpoint = row(outcome, 'convergence', 'endpoint');
        assert.equal(endpoint.messages, proxies);
        assert.equal(endpoint.resources, CLUSTERS_OF_PLAIN_SERVICE * proxies);
        const route = row(outcome, 'convergence', 'route');
        assert.deepEqual([route.messages, route.resources], [proxies, proxies]);
        for (const what of ['service added', 'service removed', 'policy'])
          assert.ok((row(outcome, 'convergence', what).latency?.max ?? 0) > 0, what);
        const nothing = row(outcome, 'convergence', 'nothing visible');
        assert.deepEqual([nothing.messages, nothing.bytes, nothing.latency], [0, 0, undefined]);
        const [agreement] = outcome.tables ?? [];
        const measured = agreement?.rows.find(([kind]) => kind === 'endpoint');
        assert.equal(measured?.[3], proxies, 'the program counts every proxy that converged');
      }),
      t.test(`reconnect, ${mode}`, async () => {
        const outcome = await runWith({ ...SMALL, mode, gzip: true }, 'reconnect');
        for (const what of ['all drop, come back', 'server restarted'])
          assert.equal(row(outcome, 'reconnect', what).resources, 0, what);
        assert.equal(row(outcome, 'reconnect', 'route afterwards').messages, proxies);
      }),
    ]),
    t.test('cold, with the content of proxies without certificates', async () => {
      const outcome = await runWith({ ...SMALL, content: 'plain' }, 'cold');
      const [, secured, clusters, ready] = SECURITY.exec(row(outcome, 'cold', 'start to in sync').note ?? '') ?? [];
      assert.deepEqual([secured, ready], ['0', '0']);
      assert.ok(Number(clusters) > 2 * SMALL.services);
    }),
    t.test('convergence and reconnect over TLS with client certificates', async () => {
      const outcome = await runWith({ ...SMALL, security: 'mtls' }, 'convergence', 'reconnect');
      assert.equal(row(outcome, 'convergence', 'route').messages, proxies);
      assert.equal(row(outcome, 'reconnect', 'all drop, come back').resources, 0);
    }),
    t.test('churn and slow', async () => {
      const outcome = await run('delta', 'churn', 'slow');
      assert.match(row(outcome, 'churn', 'endpoint, 10 a second').note ?? '', /^20 changes in /);
      assert.ok(row(outcome, 'slow', 'route, all fast').latency);
      assert.ok(row(outcome, 'slow', 'route, 1 % slow').latency);
    }),
    t.test('push-latency, encode, fan-out', async () => {
      const outcome = await run('delta', 'push-latency', 'encode', 'fan-out');
      const [stages, encoding] = outcome.tables ?? [];
      const times = new Map(stages?.rows.map(([kind, stage, count]) => [`${kind} ${stage}`, count]));
      assert.equal(times.get('endpoint snapshot'), 1);
      assert.equal(times.get('endpoint generate'), 0, 'endpoints are encoded where they change');
      assert.equal(times.get('endpoint write'), proxies);
      assert.ok(Number(times.get('route generate')) >= SMALL.namespaces);
      assert.deepEqual(
        encoding?.rows.map(([type]) => type),
        ['cds', 'eds', 'lds', 'rds'],
      );
      const [ads, raw] = [row(outcome, 'fan-out', 'route over ADS'), row(outcome, 'fan-out', 'raw TCP')];
      assert.equal(raw.bytes, ads.bytes);
    }),
    t.test('scope, EnvoyFilters, delegates and memory', async () => {
      const outcome = await run('delta', 'scope', 'envoy-filter', 'delegate', 'memory');
      const edits = ['route', 'delegate edited'].map((what) => row(outcome, 'delegate', what).messages);
      assert.deepEqual(edits, [proxies, proxies]);
      const filter = row(outcome, 'envoy-filter', 'edited');
      // One for each view: both parts of the sidecars of each namespace.
      assert.match(filter.note ?? '', new RegExp(`^${2 * SMALL.namespaces} generations a round`));
      const scopes = outcome.rows.filter(({ bench }) => bench === 'scope');
      assert.deepEqual(
        scopes.map(({ size }) => size.services),
        [SMALL.services, 10 * SMALL.services],
      );
      const views = outcome.rows.filter(({ bench }) => bench === 'memory');
      const generations = views.map(({ note }) => /(\d+) generations/.exec(note ?? '')?.[1]);
      assert.equal(generations.length, 3);
      assert.equal(new Set(generations).size, 1, 'proxies of one view cost one generation');
    }),
    t.test('diff, canaries and pages', async () => {
      const outcome = await run('delta', 'diff', 'canaries', 'pages');
      const asked = outcome.tables?.find(({ columns }) => columns.includes('proxies touched'));
      assert.deepEqual(
        asked?.rows.map(([change, , , , , touched]) => [change, touched]),
        [
          ['route', proxies],
          ['policy', proxies],
        ],
      );
      for (const side of ['all at once', 'canaries first'])
        assert.equal(row(outcome, 'canaries', `route, ${side}`).messages, proxies);
      assert.equal(row(outcome, 'pages', 'route, 9 pages open').messages, proxies);
    }),
    t.test('growth and the report', async (own) => {
      const outcome = await run('delta', 'growth');
      assert.equal(outcome.rows.length, 6 * 4, 'six sizes: cold start and three kinds of change');
      const out = await tempDir(own);
      const options = { ...SMALL, out };
      const file = await writeReport({ command: 'x', at: 'now', options, outcomes: [outcome], profiles: [] });
      const plots = (await readdir(out)).filter((name) => name.endsWith('.svg')).sort();
      assert.deepEqual(plots, [
        'change-over-proxies.svg',
        'change-over-services.svg',
        'cold-over-proxies.svg',
        'cold-over-services.svg',
      ]);
      const markdown = await readFile(file, 'utf8');
      for (const plot of plots) assert.ok(markdown.includes(`(${plot})`));
      assert.equal(tablesOf([outcome])[0]?.rows.length, outcome.rows.length);
      assert.equal(JSON.parse(await readFile(`${out}/results.json`, 'utf8')).outcomes[0].rows.length, 24);
    }),
    t.test('webhooks', async () => {
      const outcome = await run('delta', 'webhooks');
      for (const what of ['route, no reviews', 'route, reviews', 'a review'])
        assert.ok(Number(row(outcome, 'webhooks', what).latency?.p50) > 0, what);
    }),
    t.test('policy', async () => {
      const outcome = await run('delta', 'policy');
      const [decisions, pushes] = outcome.tables ?? [];
      assert.equal(decisions?.rows.length, 8, 'four servers and two loads');
      for (const [server, load, perSecond, , , , , , wrong] of decisions?.rows ?? []) {
        assert.ok(Number(perSecond) > 0, `${server}, ${load}`);
        assert.equal(wrong, 0, `${server}, ${load}: decisions that the rules do not define`);
      }
      // Names of resources have the numbers of rounds, which are equal.
      for (const [change, , , , , off, on] of pushes?.rows ?? []) assert.equal(off, on, `${change}: bytes`);
    }),
    t.test('dns and sign', async () => {
      // Each load takes this time, and the agent and its clients use all of it.
      const { tables = [] } = await runWith({ ...SMALL, seconds: 0.5 }, 'dns', 'sign');
      const [sign, names, dns] = tables.map(({ rows }) => rows);
      for (const [load, perSecond] of dns ?? []) assert.ok(Number(perSecond) > 0, String(load));
      assert.equal(dns?.length, 4);
      const [one = 0, inPieces = 0] = names?.map(([, , , changed]) => Number(changed)) ?? [];
      assert.ok(inPieces > 0 && inPieces < one, `a changed service is ${inPieces} kB in pieces, ${one} in one table`);
      assert.deepEqual(
        sign?.map(([key, authority]) => [key, authority]),
        [
          ['RSA-2048', 'RSA-2048'],
          ['P-256', 'RSA-2048'],
          ['P-256', 'P-256'],
        ],
      );
    }),
    t.test('kubernetes', { skip: kubernetesUnavailable() ?? false }, async () => {
      const { tables = [] } = await run('delta', 'kubernetes');
      const [[source, objects, ms] = [], [other] = []] = tables[0]?.rows ?? [];
      const { services, endpoints } = SMALL;
      assert.deepEqual([source, other, objects], ['API server', 'directory', services * (2 + 2 * endpoints)]);
      assert.ok(Number(ms) > 0);
    }),
    t.test('consul', async () => {
      const { tables = [] } = await run('delta', 'consul');
      const [starts, critical, churn] = tables;
      const [[ms, , , , requests] = []] = starts?.rows ?? [];
      // The lists of services and of three kinds of checks, each service once with that of the servers, and then up to
      // three requests that wait.
      const least = 4 + SMALL.services + 1;
      assert.ok(Number(requests) >= least && Number(requests) <= least + 3, `${requests} requests`);
      assert.ok(Number(ms) > 0 && Number(critical?.rows[0]?.[1]) > 0 && Number(churn?.rows[0]?.[5]) > 0);
    }),
  ];
  await Promise.all(tests);
});

test('the command line of the benches', () => {
  const { names, runs } = parseCommandLine(['cold', '--services', '7', '--namespaces', '3', '--mode', 'both']);
  assert.deepEqual(names, ['cold']);
  assert.deepEqual(
    runs.map(({ mode, services }) => [mode, services]),
    [
      ['delta', 7],
      ['sotw', 7],
    ],
  );
  assert.deepEqual(
    parseCommandLine(['--security', 'both']).runs.map(({ security }) => security),
    ['plain', 'mtls'],
  );
  assert.throws(() => parseCommandLine(['--services', 'many']), /--services: a whole number/);
  assert.throws(() => parseCommandLine(['--mode', 'rest']), /--mode: one of/);
  assert.throws(() => parseCommandLine(['--speed', '3']), /speed/);
  assert.throws(() => chooseBenches(['warm']), /no bench warm; there are cold/);
  assert.equal(chooseBenches([]).length, BENCHES.length);
});
