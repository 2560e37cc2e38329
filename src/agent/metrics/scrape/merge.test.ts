import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createAgentMetrics } from '../metrics.ts';
import { scrapeFailures, serveMerged } from './merge.ts';

const OPEN_METRICS = 'application/openmetrics-text; version=1.0.0; charset=utf-8';
/** As Prometheus 2.42 sends it. */
const PROMETHEUS =
  'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,' +
  'text/plain;version=0.0.4;q=0.5,*/*;q=0.1';

async function serve(t: TestContext, listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close().closeAllConnections());
  return (server.address() as AddressInfo).port;
}

interface Scraped {
  readonly text: string;
  readonly type: string;
  readonly warnings: readonly string[];
}

type Body = string | Buffer;

/** A listener that answers with these headers, and notes what it was asked. */
function answering(
  body: Body,
  headers: Record<string, string> = {},
  asked: IncomingHttpHeaders[] = [],
): RequestListener {
  return (request, response) => {
    asked.push(request.headers);
    response.writeHead(200, headers).end(body);
  };
}

async function scraped(
  t: TestContext,
  envoy: RequestListener,
  app?: RequestListener,
  accept = 'text/plain;version=0.0.4',
): Promise<Scraped> {
  const [adminPort, appPort] = [await serve(t, envoy), app === undefined ? undefined : await serve(t, app)];
  const warnings: string[] = [];
  const warn = (line: string) => void warnings.push(line);
  const log = { debug: () => {}, info: () => {}, warn, error: warn };
  const deps = {
    adminPort,
    app: appPort === undefined ? undefined : { port: appPort, path: '/metrics' },
    appHost: '127.0.0.1',
    metrics: createAgentMetrics(),
    failures: scrapeFailures(log),
  };
  const port = await serve(t, ({ headers }, response) => void serveMerged(headers.accept, response, deps));
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { accept } });
  return { text: await answer.text(), type: answer.headers.get('content-type') ?? '', warnings };
}

const ENVOY = answering('# TYPE envoy_a counter\nenvoy_a{x="y"} 1\n\n# TYPE envoy_t histogram\nenvoy_t_count{} 2\n');

describe('a scrape', () => {
  test('has complete lines of all parts, for any chunks', async (t) => {
    const { text, type } = await scraped(
      t,
      (_, response) => {
        response.write('envoy_a 1\nenv');
        response.write('oy_b{x="');
        response.write(Buffer.from('é').subarray(0, 1));
        response.end(Buffer.concat([Buffer.from('é').subarray(1), Buffer.from('"} 2')]));
      },
      (request, response) => {
        assert.equal(request.headers.accept, 'text/plain;version=0.0.4');
        assert.equal(request.headers['accept-encoding'], 'identity');
        response.write(Buffer.from('app_a{x="é"} 3\napp_b{x="é').subarray(0, -1));
        response.end(Buffer.concat([Buffer.from('é').subarray(1), Buffer.from('"} 4\n# EOF\n')]));
      },
    );
    assert.ok(
      text.startsWith('envoy_a 1\nenvoy_b{x="é"} 2\napp_a{x="é"} 3\napp_b{x="é"} 4\n# HELP mesh_build'),
      text.slice(0, 200),
    );
    assert.equal(type, 'text/plain; version=0.0.4; charset=utf-8');
  });

  test('leaves out and counts parts that fail or break off', async (t) => {
    const { text, warnings } = await scraped(
      t,
      (_, response) => {
        response.write('envoy_a 1\nenvoy_b');
        setImmediate(() => response.destroy());
      },
      (_, response) => void response.writeHead(500).end('trouble'),
    );
    assert.match(text, /^scrape_failures_total\{type="envoy"\} 1\nscrape_failures_total\{type="application"\} 1$/m);
    assert.doesNotMatch(text, /trouble|envoy_b/);
    assert.match(text, /^envoy_a 1\n# HELP mesh_build/);
    assert.match(warnings[1] ?? '', /^metrics of the application are missing in scrapes: returned HTTP 500$/);
  });

  test('has the metrics of requests under the names of dashboards', async (t) => {
    const { text } = await scraped(
      t,
      answering(
        '# TYPE envoy_istio_requests_total counter\nenvoy_istio_requests_total{a="envoy_istio_"} 1\nenvoy_a 2\n',
      ),
      answering('# TYPE istio_requests_total counter\nistio_requests_total 5\n'),
    );
    assert.ok(
      text.startsWith('# TYPE istio_requests_total counter\nistio_requests_total{a="envoy_istio_"} 1\nenvoy_a 2\n#'),
      text.slice(0, 200),
    );
  });

  test('a large body is complete', async (t) => {
    const line = `app_metric{label="${'x'.repeat(90)}"} 1\n`;
    // Two megabytes: a scrape has 9 s, in which a crowded machine passes on several times as much.
    const lines = 20_000;
    const { text } = await scraped(t, answering(''), answering(line.repeat(lines)));
    assert.equal(text.split(line).length - 1, lines);
  });

  test('is OpenMetrics, with exemplars, where the scraper accepts it and the application answers in it', async (t) => {
    const asked: IncomingHttpHeaders[] = [];
    const body = [
      '# HELP app_requests Requests.',
      '# TYPE app_requests counter',
      'app_requests_total{code="200"} 7 1700000000.5 # {trace_id="abc"} 0.5 1700000000.123',
      'app_requests_created{code="200"} 1.6e9',
      '# TYPE app_size_bytes gauge',
      '# UNIT app_size_bytes bytes',
      'app_size_bytes 1',
      '# EOF',
      '',
    ].join('\n');
    const { text, type } = await scraped(
      t,
      ENVOY,
      answering(body, { 'content-type': OPEN_METRICS }, asked),
      PROMETHEUS,
    );
    assert.equal(
      asked[0]?.accept,
      'application/openmetrics-text;version=1.0.0;q=0.9,application/openmetrics-text;version=0.0.1;q=0.8,text/plain;version=0.0.4;q=0.5',
    );
    assert.equal(type, OPEN_METRICS);
    assert.ok(
      text.startsWith(
        '# TYPE envoy_a unknown\nenvoy_a{x="y"} 1\n# TYPE envoy_t histogram\nenvoy_t_count{} 2\n' +
          body.replace('# EOF\n', ''),
      ),
      text.slice(0, 800),
    );
    assert.equal(text.indexOf('# EOF'), text.length - '# EOF\n'.length);
    assert.doesNotMatch(text, /^$\n/m);
  });

  test('is the text format where only one of them knows OpenMetrics; then it is converted', async (t) => {
    const text = await scraped(t, ENVOY, answering('app_a 1\n', { 'content-type': 'text/plain' }), PROMETHEUS);
    assert.match(text.type, /^text\/plain; version=0\.0\.4/);
    const body =
      '# TYPE app_requests counter\napp_requests_total 7 1.5 # {a="b"} 1\napp_requests_created 1\n' +
      '# TYPE app info\napp_info{v="1"} 1\n# TYPE app_state stateset\napp_state{app_state="on"} 1\n# EOF\n';
    const converted = await scraped(t, answering(''), answering(body, { 'content-type': OPEN_METRICS }));
    assert.match(converted.type, /^text\/plain; version=0\.0\.4/);
    assert.ok(
      converted.text.startsWith(
        '# TYPE app_requests_total counter\napp_requests_total 7 1500\n# TYPE app_info gauge\napp_info{v="1"} 1\n' +
          '# TYPE app_state gauge\napp_state{app_state="on"} 1\n# HELP mesh_build',
      ),
      converted.text.slice(0, 400),
    );
  });

  test('has what an application sends compressed, up to a limit', async (t) => {
    const gzip = { 'content-encoding': 'gzip' };
    const { text } = await scraped(t, ENVOY, answering(gzipSync('app_a 1\n'), gzip));
    assert.match(text, /^app_a 1$/m);
    const bomb = gzipSync('app_a 1\n'.repeat(16 * 1024 * 1024));
    const bombed = await scraped(t, ENVOY, answering(bomb, gzip));
    assert.match(bombed.warnings.join(), /more than 33554432 bytes when decompressed/);
    assert.match(bombed.text, /^scrape_failures_total\{type="application"\} 1$/m);
    for (const [body, headers, says] of [
      [gzipSync('app_a 1\n').subarray(0, 12), gzip, /unexpected end of file/],
      ['no gzip', gzip, /incorrect header check/],
      ['x', { 'content-encoding': 'br' }, /returned the content coding "br"/],
      [
        'x',
        { 'content-type': 'application/vnd.google.protobuf' },
        /returned the content type "application\/vnd\.google\.protobuf"/,
      ],
    ] as const) {
      const { text: rest, warnings } = await scraped(t, ENVOY, answering(body, headers));
      assert.match(warnings.join(), says);
      assert.match(rest, /^envoy_a\{x="y"\} 1$/m);
      assert.match(rest, /^scrape_failures_total\{type="application"\} 1$/m);
    }
  });

  test('has no line of a page, and one warning', async (t) => {
    const page = `<!doctype html>\n${'<p>{}</p>\n'.repeat(5_000)}`;
    const { text, warnings } = await scraped(t, ENVOY, answering(page, { 'content-type': 'text/html' }), PROMETHEUS);
    assert.doesNotMatch(text, /</);
    assert.deepEqual(warnings, [
      'metrics of the application are missing in scrapes: 1000 lines are left out, the first is line 1, ' +
        'not a metric: "<!doctype html>"',
    ]);
    // Many applications announce their metrics so.
    const announced = await scraped(t, ENVOY, answering('app_a 1\n', { 'content-type': 'text/html' }));
    assert.match(announced.text, /^app_a 1$/m);
    assert.deepEqual(announced.warnings, []);
  });

  test('keeps the metrics of the proxy apart from those that an application has under the same names', async (t) => {
    const body = [
      '# TYPE envoy_a counter\nenvoy_a 100\n# TYPE app_a gauge\napp_a 1\n# TYPE app_a gauge\napp_a{b="c"} 2',
      '# TYPE mesh_build gauge\nmesh_build 5\n# TYPE ctl_xds gauge\nctl_xds 30\nenvoy_t_count 9\n',
    ].join('\n');
    const { text, warnings } = await scraped(t, ENVOY, answering(body));
    assert.match(text, /^# TYPE app_a gauge\napp_a 1\napp_a\{b="c"\} 2\n# TYPE ctl_xds gauge\nctl_xds 30\n# HELP/m);
    assert.doesNotMatch(text, /envoy_a 100|^mesh_build 5|ctl_xds 0|envoy_t_count 9/m);
    const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    assert.equal(new Set(names).size, names.length);
    assert.match(
      warnings[0] ?? '',
      /3 lines are left out, the first is line 2, envoy_a, which is a metric of the proxy/,
    );
  });
});
