import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { replay } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { generate } from '../generate.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';
import { outboundView } from '../testing/views.ts';
import type { GenerationResult } from '../types.ts';
import type { OutboundView } from '../views.ts';

const VIEW = outboundView({ dns: { network: '', listener: true } });

function entry(name: string, hosts: readonly string[], addresses: readonly string[]): AnyResource {
  const ports = [{ number: 443, name: 'tls', protocol: 'TLS' }];
  return meshResource('ServiceEntry', 'default', name, { hosts, addresses, ports });
}

function listenerOf(snapshot: Snapshot, view: OutboundView = VIEW): GenerationResult {
  const result = generate(snapshot, view, { lds: new Set(['dns']) });
  assert.deepEqual(result.failures, []);
  return result;
}

/** The names that a listener answers. */
function namesIn({ units }: GenerationResult): string[] {
  const [resource] = units.lds?.get('dns') ?? [];
  const filter = envoy.config.listener.v3.Listener.decode(resource?.bytes ?? new Uint8Array()).listenerFilters[0];
  const { DnsFilterConfig } = envoy.extensions.filters.udp.dns_filter.v3;
  const { serverConfig } = DnsFilterConfig.decode(filter?.typedConfig?.value ?? new Uint8Array());
  return serverConfig?.inlineDnsTable?.virtualDomains.map(({ name }) => name) ?? [];
}

describe('the listener of captured DNS queries', () => {
  it('exists only for proxies that answer these themselves', () => {
    const mesh = meshOf([entry('a', ['a.example.com'], ['192.0.2.1'])]);
    assert.deepEqual(namesIn(listenerOf(mesh)), ['a.example.com']);
    for (const view of [outboundView(), outboundView({ dns: { network: '' } })])
      assert.deepEqual(listenerOf(mesh, view).units.lds?.get('dns'), []);
  });

  it('is one object for namespaces that see the same names', () => {
    const mesh = meshOf([entry('a', ['a.example.com'], ['192.0.2.1'])]);
    const of = (namespace: string) =>
      listenerOf(mesh, { ...VIEW, namespace, scope: `${namespace}/` }).units.lds?.get('dns')?.[0];
    assert.ok(of('b') !== undefined);
    assert.equal(of('b'), of('c'));
  });

  it('answers hosts of ServiceEntries before those of Services, when there are too many names, and says so', () => {
    const names = Array.from({ length: 10_000 }, (_, index) => `host-${index}.example.com`);
    const service = meshResource('Service', 'default', 'db', {
      clusterIP: '10.96.0.1',
      ports: [{ name: 'tcp', port: 5432 }],
    });
    const thousands = Array.from({ length: 10 }, (_, index) =>
      names.slice(Math.max(1, 1000 * index), 1000 * (index + 1)),
    );
    const entries = thousands.map((hosts, index) => entry(`many-${index}`, hosts, ['192.0.2.1']));
    const full = meshOf([...entries, service]);
    assert.deepEqual(listenerOf(full).findings, []);
    assert.equal(namesIn(listenerOf(full)).includes('db.default.svc.cluster.local'), true);
    const over = replay(full, [entry('last', names.slice(0, 1), ['192.0.2.2'])]);
    const result = listenerOf(over);
    assert.equal(namesIn(result).length, 10_000);
    assert.equal(namesIn(result).includes('db.default.svc.cluster.local'), false);
    assert.deepEqual(
      result.findings.map(({ metric }) => metric),
      ['ctl_invalid_out_listeners'],
    );
    assert.match(result.findings[0]?.message ?? '', /^dns: Envoy resolves only 10000 of 10001 names/);
  });
});
