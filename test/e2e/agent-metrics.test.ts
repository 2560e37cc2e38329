/**
 * A real Prometheus reads the control plane and the merged metrics of an agent, whatever the application answers. It
 * has data for every query of the boards and for the rules.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { BOARDS, MONITORING_FOLDER } from '../../tools/monitoring/files.ts';
import { PEER_NAMES } from '../../tools/monitoring/peer-names.ts';
import { eventually, startAgent, tempDir } from '../harness/index.ts';
import { configDir, endpoints, resource, service } from './support/config.ts';
import { prometheusUnavailable, promtoolErrors, startPrometheus } from './support/prometheus.ts';
import { securedControlPlane } from './support/secured-control-plane.ts';

const OPEN_METRICS = { 'content-type': 'application/openmetrics-text; version=1.0.0; charset=utf-8' };

/** OpenMetrics with all that the text format does not have. */
const NOVELTIES = `# TYPE app_requests counter
# UNIT app_requests requests
# HELP app_requests Requests.
app_requests_total{code="200"} 7 # {trace_id="KOO5S4vxi0o"} 0.67
app_requests_created{code="200"} 1.5200728290123e+09
# TYPE app_seconds histogram
# UNIT app_seconds seconds
app_seconds_bucket{le="1.0"} 1 # {trace_id="oHg5SJYRHA0"} 0.5
app_seconds_bucket{le="+Inf"} 2
app_seconds_count 2
app_seconds_sum 3.5
app_seconds_created 1.5200728290123e+09
# TYPE app info
app_info{version="1"} 1
# TYPE app_state stateset
app_state{app_state="on"} 1
# EOF
`;

/** Metadata without text, and with characters that have a meaning elsewhere. */
const ODD = '# TYPE app_odd gauge\n# HELP app_odd\n# HELP app_other a \\x "b" # {}\n# TYPE app_other gauge\n';

/** A mesh in which charts have something to show: an endpoint, and a cluster that Envoy rejects. */
const SHOP = [
  service('shop', { ports: [{ name: 'http', port: 8080 }] }),
  endpoints('shop', ['127.0.0.1'], [{ name: 'http', port: 8080 }]),
  resource('EnvoyFilter', 'wrong', {
    configPatches: [
      {
        applyTo: 'CLUSTER',
        match: { cluster: { service: 'shop.default.svc.cluster.local' } },
        patch: { operation: 'MERGE', value: { connect_timeout: '-1s' } },
      },
    ],
  }),
];

interface Case {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  /** Whether `app_requests_total` is read; undefined: either way. */
  readonly read?: boolean;
}

/** Their labels come with the first event. */
const WITHOUT_SERIES = [
  'galley_validation_failed',
  'galley_validation_http_error',
  'galley_validation_passed',
  'pilot_k8s_object_errors',
];

const CASES: Readonly<Record<string, Case>> = {
  'the text format': { body: '# TYPE app_requests_total counter\napp_requests_total 7\n', read: true },
  'OpenMetrics with exemplars': { headers: OPEN_METRICS, body: NOVELTIES, read: true },
  'OpenMetrics that is announced as text': { body: NOVELTIES, read: false },
  'OpenMetrics without its end': { headers: OPEN_METRICS, body: NOVELTIES.replace('# EOF\n', ''), read: true },
  'a page': { headers: { 'content-type': 'text/html' }, body: '<!doctype html><p>no metrics</p>', read: false },
  'a page in the middle': { body: 'app_requests_total 7\n<p>\napp_other 1\n', read: true },
  'what nobody asked to be compressed': {
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync('app_requests_total 7\n'),
    read: true,
  },
  'labels that occur twice': { body: 'app_requests_total 7\napp_bad{a="1",a="2"} 1\n', read: true },
  'what is not UTF-8': { body: Buffer.from('app_requests_total 7\napp_bad{a="\xff"} 1\n', 'latin1'), read: true },
  'families that Envoy has': {
    body: 'app_requests_total 7\n# TYPE envoy_server_live gauge\nenvoy_server_live 5\n',
    read: true,
  },
  'protobuf that nobody asked for': {
    headers: { 'content-type': 'application/vnd.google.protobuf; encoding=delimited' },
    body: Buffer.from([3, 10, 1, 97]),
    read: false,
  },
  'numbers beyond 64 bits': { body: `${ODD}app_odd 1e999\napp_requests_total 7\n`, read: true },
  'escapes that the text format does not have': {
    body: `${ODD}app_odd{a="C:\\Dir"} 1\napp_requests_total 7\n`,
    read: true,
  },
  'numbers beyond 64 bits, in OpenMetrics': {
    headers: OPEN_METRICS,
    body: `${ODD}app_odd 1e999\napp_odd 1 1e999\napp_requests_total 7 # {} -1e999\napp_requests_total 7\n# EOF\n`,
    read: true,
  },
  'half an answer': { headers: { 'content-length': '100' }, body: 'app_requests_total 7\napp_oth' },
};

test('a Prometheus reads the metrics of Envoy and of the agent, whatever the application answers', {
  skip: prometheusUnavailable,
}, async (t) => {
  let current: Case = CASES['the text format'] ?? assert.fail();
  const accepted = new Set<string>();
  const listener: RequestListener = ({ headers }, response) => {
    accepted.add(headers.accept ?? '');
    response.writeHead(200, current.headers);
    if (current.headers?.['content-length'] === undefined) return response.end(current.body);
    return response.write(current.body, () => setImmediate(() => response.destroy()));
  };
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close().closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const config = configDir(await tempDir(t));
  await config.apply('shop', ...SHOP);
  const secured = await securedControlPlane(t, { configDir: config.path });
  const { discovery } = secured;
  const agent = await startAgent(t, {
    name: 'scraped',
    discoveryAddress: secured.address,
    env: {
      ...secured.env,
      MESH_METRICS_ANNOTATIONS: JSON.stringify({ scrape: 'true', port: String(port), path: '/metrics' }),
    },
    waitReady: false,
  });
  await eventually(() => agent.admin('/ready'), { timeoutMs: 30_000 });
  const targets = [
    { address: `127.0.0.1:${agent.ports.status}`, path: '/stats/prometheus' },
    { address: `127.0.0.1:${discovery.ports.monitoring}`, path: '/metrics' },
  ];
  const rules = ['alerts', 'istio-names'].map((name) =>
    fileURLToPath(new URL(`rules/${name}.yaml`, MONITORING_FOLDER)),
  );
  const prometheus = await startPrometheus(t, targets, rules);

  for (const [what, each] of Object.entries(CASES)) {
    await t.test(what, async () => {
      current = each;
      const scrapes = async () => Number(await prometheus.value('scrapes_total'));
      const before = await eventually(async () => {
        const count = await scrapes();
        assert.ok(count > 0, `${count} scrapes`);
        return count;
      });
      // Counted by the agent and read by Prometheus: two scrapes later the answer is of this case.
      await eventually(async () => {
        const { health, lastError } = await prometheus.target();
        assert.deepEqual([health, lastError], ['up', '']);
        assert.ok((await scrapes()) > before + 1);
        // A scrape that takes too long, as on a crowded machine, leaves nothing.
        assert.equal(await prometheus.value('envoy_server_live'), '1');
        if (each.read !== undefined)
          assert.equal(await prometheus.value('app_requests_total'), each.read ? '7' : undefined);
      });

      const text = (await agent.http('status', '/stats/prometheus')).body;
      assert.equal(promtoolErrors(text), '');
      assert.doesNotMatch(text, /# EOF/);
    });
  }
  await t.test('exemplars arrive', async () => {
    current = CASES['OpenMetrics with exemplars'] ?? assert.fail();
    await eventually(async () => {
      const found = (await prometheus.exemplars('{__name__=~"app_.*"}')).map(({ trace_id }) => trace_id);
      assert.deepEqual(new Set(found), new Set(['KOO5S4vxi0o', 'oHg5SJYRHA0']));
    });
  });
  await t.test('every query of the boards has data', async () => {
    await config.apply('new', service('new', { ports: [{ name: 'http', port: 8081 }] }));
    for (const { rows } of Object.values(BOARDS))
      for (const { queries } of rows.flatMap(({ panels }) => panels))
        for (const { expr } of queries)
          await eventually(async () => {
            const values = await prometheus.values(expr.replaceAll('$__rate_interval', '1m'));
            // A quantile of no observations is not a number: the proxy here gets everything, and asks for nothing.
            const isAsked = !expr.includes('ctl_xds_on_demand_answer_seconds');
            assert.ok(
              values.some((value) => value !== 'NaN' || !isAsked),
              `${expr}: ${values}`,
            );
          });
  });
  await t.test('what Envoy rejects is on the board', () =>
    eventually(async () => {
      const rejected = 'sum(ctl_xds_cds_reject + ctl_xds_eds_reject + ctl_xds_lds_reject + ctl_xds_rds_reject)';
      assert.equal(await prometheus.value(rejected), '1');
      assert.equal(await prometheus.value('ALERTS{alertname="MeshProxiesReject",alertstate="pending"}'), '1');
    }),
  );
  await t.test('metrics have the names of Istio, too', () =>
    eventually(async () => {
      assert.equal(await prometheus.value('pilot_xds'), '1');
      assert.equal(await prometheus.value('pilot_services'), '2');
      assert.ok(Number(await prometheus.value('pilot_proxy_convergence_time_count')) > 0);
      assert.equal((await prometheus.values('istio_build{component="pilot",tag!=""}')).length, 1);
      const records = PEER_NAMES.map(({ record }) => record);
      const found = await Promise.all(records.map((record) => prometheus.value(record)));
      assert.deepEqual(records.filter((_, index) => found[index] === undefined).sort(), WITHOUT_SERIES);
    }),
  );
  assert.deepEqual(
    [...accepted].filter((accept) => /protobuf|\*\/\*/.test(accept)),
    [],
  );
});
