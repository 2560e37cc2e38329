/** The filter of Istio's proxies: no Envoy here has it, so that golden files cannot show it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type google, xds } from '../../../../protobuf/index.ts';
import type { MetricsPlan } from './plan.ts';
import { serviceMetadata } from './service-metadata.ts';
import { statsFilter } from './stats-filter.ts';

const PLAN: MetricsPlan = { source: 'filter', direction: 'CLIENT', changes: {} };

function fieldsOf(plan: MetricsPlan): unknown {
  const { name, typedConfig } = statsFilter(plan);
  assert.equal(name, 'istio.stats');
  const { typeUrl, value } = xds.type.v3.TypedStruct.decode(typedConfig?.value ?? assert.fail());
  assert.equal(typeUrl, 'type.googleapis.com/stats.PluginConfig');
  return plain({ structValue: value });
}

function plain({ structValue, listValue, stringValue, boolValue }: google.protobuf.Value.Input): unknown {
  if (structValue)
    return Object.fromEntries(Object.entries(structValue.fields ?? {}).map(([key, value]) => [key, plain(value)]));
  return listValue ? (listValue.values ?? []).map(plain) : (stringValue ?? boolValue);
}

test('no label has a value from the Host header', () => {
  assert.deepEqual(fieldsOf(PLAN), { disable_host_header_fallback: true });
  assert.deepEqual(fieldsOf({ ...PLAN, direction: 'SERVER' }), { disable_host_header_fallback: true });
});

test('overrides reach the filter under its names of metrics', () => {
  const changes: MetricsPlan['changes'] = {
    REQUEST_COUNT: {
      disabled: false,
      tags: [
        ['method', 'request.method'],
        ['response_flags', null],
      ],
    },
    TCP_OPENED_CONNECTIONS: { disabled: true, tags: [] },
    logins: { disabled: false, tags: [['tier', null]] },
  };
  assert.deepEqual(fieldsOf({ ...PLAN, changes }), {
    disable_host_header_fallback: true,
    metrics: [
      { name: 'requests_total', dimensions: { method: 'request.method' }, tags_to_remove: ['response_flags'] },
      { name: 'tcp_connections_opened_total', drop: true },
      { name: 'logins', tags_to_remove: ['tier'] },
    ],
  });
});

test('the filter counts open connections at the interval of a document', () => {
  assert.deepEqual(fieldsOf({ ...PLAN, reportingInterval: 7500 }), {
    disable_host_header_fallback: true,
    tcp_reporting_duration: '7.5s',
  });
});

test('the filter finds the service of a cluster where Istio writes it', () => {
  const { metadata } = serviceMetadata('filter', {
    host: 'web.shop.svc.cluster.local',
    name: 'web',
    namespace: 'shop',
  });
  const fields = metadata?.filterMetadata?.istio;
  assert.deepEqual(plain({ structValue: fields ?? null }), {
    services: [{ host: 'web.shop.svc.cluster.local', name: 'web', namespace: 'shop' }],
  });
});
