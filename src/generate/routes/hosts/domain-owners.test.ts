import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../../core/memo.ts';
import { PMap } from '../../../core/pmap.ts';
import * as fc from '../../../core/testing/properties.ts';
import type { Service } from '../../../model/types/types.ts';
import { isDisjoint, serviceDomains, viewerOf } from '../../domains/index.ts';
import { Services, VirtualServices } from '../../reads/index.ts';
import { contextOf, httpPort, serviceOf, TO_REVIEWS, virtualServiceOf } from '../../testing/routes.ts';
import { type CandidateSources, candidateSet } from './domain-owners.ts';

const MEMOS = new Memos();

const aHost = fc.constantFrom(
  'a.default.svc.cluster.local',
  'b.default.svc.cluster.local',
  'a.shop.svc.cluster.local',
  'a.default',
  'b',
  '*.example.com',
  'x.example.com',
  '10.0.0.1',
);
const aService = fc
  .record({ hostname: aHost, addresses: fc.subarray(['10.0.0.1', '10.0.0.2']), headless: fc.boolean() })
  .map((changes): Service => serviceOf('x', [httpPort(80)], changes));
const services = fc.uniqueArray(aService, { selector: ({ hostname }) => hostname, maxLength: 5 });
const virtualServices = fc.array(fc.uniqueArray(fc.oneof(aHost, fc.constant('*')), { minLength: 1, maxLength: 2 }), {
  maxLength: 3,
});

function sourcesOf(list: readonly Service[], hosts: readonly (readonly string[])[]): CandidateSources {
  const sorted = list.toSorted((a, b) => (a.hostname < b.hostname ? -1 : 1));
  return {
    entries: sorted.map((service) => ({ service, port: httpPort(80) })),
    services: Services.of(MEMOS, PMap.from(list.map((service) => [service.hostname, service] as const))),
    virtualServices: VirtualServices.of(
      MEMOS,
      hosts.map((each) => virtualServiceOf({ hosts: each, http: [{ route: TO_REVIEWS }] })),
    ),
  };
}

test('disjoint candidates have no domain in common, as seen from any namespace', () => {
  let disjoint = 0;
  fc.assert(
    fc.property(services, virtualServices, fc.constantFrom('default', 'shop', 'other'), (list, hosts, namespace) => {
      const viewer = viewerOf(`${namespace}.svc.cluster.local`);
      const set = candidateSet(sourcesOf(list, hosts), contextOf({ port: 80 }), viewer);
      if (!isDisjoint(MEMOS, set, viewer)) return;
      disjoint++;
      const domains = set.candidates.flatMap(({ indexed, domains: ofAll }) =>
        indexed === undefined ? ofAll : serviceDomains(MEMOS, indexed.entry.service, indexed.port, viewer),
      );
      assert.equal(new Set(domains).size, domains.length);
      assert.deepEqual(
        set.ordered.map(({ name }) => name),
        set.candidates.map(({ name }) => name).sort(),
      );
    }),
  );
  assert.ok(disjoint > 10);
});

test('namespaces share the candidates, unless these depend on the source of the requests', () => {
  const viewer = viewerOf('default.svc.cluster.local');
  const plain = sourcesOf([serviceOf('a', [httpPort(80)])], [['a.default.svc.cluster.local']]);
  const context = contextOf({ port: 80 });
  assert.equal(
    candidateSet(plain, context, viewer),
    candidateSet(plain, { ...context }, viewerOf('shop.svc.cluster.local')),
  );
  assert.notEqual(
    candidateSet(plain, context, viewer),
    candidateSet(plain, { ...context, defaultTimeoutMs: 5 }, viewer),
  );

  const match = [{ sourceNamespace: 'shop' }];
  const hosts = ['a.default.svc.cluster.local'];
  const only = virtualServiceOf({ hosts, http: [{ match, route: TO_REVIEWS }] });
  const asking = { ...plain, virtualServices: VirtualServices.of(MEMOS, [only]) };
  const isFrom = (own: string) => ({ ...context.lookups, isFrom: (namespace: string) => namespace === own });
  const [fromShop] = candidateSet(asking, { ...context, lookups: isFrom('shop') }, viewer).candidates;
  const [fromOther] = candidateSet(asking, { ...context, lookups: isFrom('other') }, viewer).candidates;
  assert.equal(fromShop?.owner, only);
  assert.equal(fromOther?.owner, asking.entries[0]?.service);
});
