import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf, TRAFFIC_METRICS } from '../../../../resources/index.ts';
import { MeshReader } from '../../../reads/index.ts';
import { meshOf, parsed } from '../../../testing/mesh.ts';
import { outboundView } from '../../../testing/views.ts';
import { type AskedExtension, ISTIO_STATS_FILTER, STATS_ACCESS_LOG } from '../../extensions.ts';
import { metricsPlan, metricsSource } from './plan.ts';

/** The metrics that only Istio's filter has. */
const OF_FILTER = ['TCP_OPENED_CONNECTIONS', 'GRPC_REQUEST_MESSAGES', 'GRPC_RESPONSE_MESSAGES'];

function withDisabled(metrics: readonly string[], extension: AskedExtension) {
  const document = parsed({
    apiVersion: 'telemetry.mesh.io/v1',
    kind: 'Telemetry',
    metadata: { name: 'metrics', namespace: 'default' },
    spec: {
      metrics: [
        { providers: [{ name: 'prometheus' }] },
        ...metrics.map((metric) => ({ overrides: [{ match: { metric }, disabled: true }] })),
      ],
    },
  });
  const reader = MeshReader.of(meshOf([document]));
  const capabilities = { sds: true, fieldsOf140: true as const, extensions: [extension] };
  const view = outboundView({ telemetry: [keyOf(document)], capabilities });
  const problems: string[] = [];
  const plan = metricsPlan(reader, view, problems);
  assert.deepEqual(problems, []);
  assert.equal(plan?.source, metricsSource(reader, view));
  return plan?.source;
}

test('proxies of which all metrics are disabled have no plan, so that clusters do not name their services', () => {
  const ofLogger = TRAFFIC_METRICS.filter((metric) => !OF_FILTER.includes(metric));
  assert.equal(withDisabled(ofLogger.slice(1), STATS_ACCESS_LOG), 'logger');
  assert.equal(withDisabled(ofLogger, STATS_ACCESS_LOG), undefined);
  assert.equal(withDisabled(ofLogger, ISTIO_STATS_FILTER), 'filter');
  assert.equal(withDisabled(['ALL_METRICS'], ISTIO_STATS_FILTER), undefined);
});
