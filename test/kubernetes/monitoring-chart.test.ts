/** What the chart gives to a Prometheus operator and to the sidecar of Grafana, rendered by Helm. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { stringify } from 'yaml';
import { BOARDS } from '../../tools/monitoring/files.ts';
import { tempDir } from '../harness/index.ts';
import { type ApiObject, helmUnavailable, renderChart } from '../harness/kubernetes/index.ts';
import { objectsOf, ofKind } from './support/chart-objects.ts';

const skip = helmUnavailable() ?? false;
const PROMTOOL = join(dirname(process.env.PROMETHEUS_PATH ?? ''), 'promtool');

const render = async (t: TestContext, monitoring: object): Promise<ApiObject[]> =>
  objectsOf(
    await renderChart(t, { chart: 'ctl-discovery', namespace: 'mesh-system', values: { revision: 'b', monitoring } }),
  );

test('without values the chart needs no definitions of the operator', { skip }, async (t) => {
  const objects = await render(t, {});
  assert.ok(!objects.some(({ apiVersion }) => apiVersion.startsWith('monitoring.coreos.com')));
  assert.ok(!objects.some(({ metadata }) => metadata.name.includes('board')));
});

test('the ServiceMonitor selects the Service of its revision and a port of it', { skip }, async (t) => {
  const objects = await render(t, { labels: { release: 'stack' }, serviceMonitor: { enabled: true, interval: '30s' } });
  const monitor = ofKind(objects, 'ServiceMonitor');
  const service = ofKind(objects, 'Service');
  const { selector, endpoints } = monitor.spec as {
    selector: { matchLabels: Record<string, string> };
    endpoints: { port: string; path: string; interval: string }[];
  };
  const { labels = {} } = service.metadata as { labels?: Record<string, string> };
  for (const [name, value] of Object.entries(selector.matchLabels)) assert.equal(labels[name], value);
  const { ports } = service.spec as { ports: { name: string; port: number }[] };
  const [endpoint] = endpoints;
  assert.equal(ports.find(({ name }) => name === endpoint?.port)?.port, 15014);
  assert.deepEqual([endpoint?.path, endpoint?.interval], ['/metrics', '30s']);
  assert.equal((monitor.metadata as { labels?: Record<string, string> }).labels?.release, 'stack');
});

test('the PodMonitor leads to the port of agents, for IPv4 and IPv6', { skip }, async (t) => {
  const { spec } = ofKind(await render(t, { podMonitor: { enabled: true } }), 'PodMonitor');
  const { podMetricsEndpoints } = spec as {
    podMetricsEndpoints: { port: string; relabelings: { action: string; regex: string; replacement?: string }[] }[];
  };
  /** The address that is scraped; undefined for none. Prometheus anchors the expressions. */
  const scraped = (port: string, address: string): string | undefined =>
    podMetricsEndpoints
      .find((endpoint) => endpoint.port === port)
      ?.relabelings.reduce<string | undefined>((left, { action, regex, replacement = '' }) => {
        const whole = new RegExp(`^(?:${regex})$`);
        if (action === 'keep') return whole.test(left ?? '') ? left : undefined;
        return left?.replace(whole, replacement);
      }, address);
  assert.equal(scraped('http-envoy-prom', '10.0.0.1:15090'), '10.0.0.1:15020');
  assert.equal(scraped('http-status', '[fd00::1]:15021'), '[fd00::1]:15020');
  // A port of an application.
  assert.equal(scraped('http-status', '10.0.0.1:8080'), undefined);
});

test('promtool accepts the rules, with placeholders for Prometheus', {
  skip: skip || (existsSync(PROMTOOL) ? false : 'Prometheus is not unpacked'),
}, async (t) => {
  const { spec } = ofKind(await render(t, { rules: { enabled: true, istioNames: true } }), 'PrometheusRule');
  const file = join(await tempDir(t), 'rules.yaml');
  await writeFile(file, stringify(spec));
  const { status, stderr } = spawnSync(PROMTOOL, ['check', 'rules', file], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  assert.match(JSON.stringify(spec), /\{\{ \$labels\.source \}\}/);
  const names = (spec as { groups: { name: string }[] }).groups.map(({ name }) => name);
  assert.deepEqual(names, ['mesh', 'mesh-istio-names']);
});

test('boards are ConfigMaps with the label of the sidecar, and unchanged', { skip }, async (t) => {
  const objects = await render(t, { boards: { enabled: true, annotations: { grafana_folder: 'Mesh' } } });
  const maps = objects.filter(({ metadata }) => metadata.name.includes('-board-'));
  assert.equal(maps.length, Object.keys(BOARDS).length);
  for (const [name, { uid }] of Object.entries(BOARDS)) {
    const map = maps.find(({ metadata }) => metadata.name === `ctl-discovery-b-board-${name}`);
    assert.ok(map, name);
    const { labels, annotations } = map.metadata as unknown as Record<string, Record<string, string>>;
    assert.equal(labels?.grafana_dashboard, '1');
    assert.equal(annotations?.grafana_folder, 'Mesh');
    const { data = {} } = map as unknown as { data?: Record<string, string> };
    assert.equal(JSON.parse(data[`mesh-${name}.json`] ?? '').uid, uid);
  }
});
