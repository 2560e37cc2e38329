import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../../core/memo.ts';
import { PMap } from '../../../core/pmap.ts';
import * as fc from '../../../core/testing/properties.ts';
import type { ResolvedVirtualService, Service } from '../../../model/types/types.ts';
import { envoy } from '../../../protobuf/index.ts';
import { Rules, Services, VirtualServices } from '../../reads/index.ts';
import { contextOf, httpPort, serviceOf, TO_REVIEWS, virtualServiceOf } from '../../testing/routes.ts';
import { scopeLookups } from '../context.ts';
import { type OutboundHosts, sharedHosts } from './outbound-hosts.ts';
import { wantedHosts } from './wanted-hosts.ts';

const { RouteConfiguration } = envoy.config.route.v3;

const NAMES = [
  'a.default.svc.cluster.local',
  'b.default.svc.cluster.local',
  'a.shop.svc.cluster.local',
  'a.default',
  'b',
  '*.example.com',
  'x.example.com',
  '10.0.0.1',
];
/** What requests name: hosts of services and others, with and without ports. */
const REQUESTED = [
  ...NAMES,
  'a',
  'a.shop',
  'y.example.com',
  'web-0.a.shop',
  '10.0.0.2',
  '[::1]',
  'unknown',
  'unknown:80',
];

const aService = fc
  .record({
    hostname: fc.constantFrom(...NAMES),
    addresses: fc.subarray(['10.0.0.1', '10.0.0.2', '::1']),
    headless: fc.boolean(),
    registry: fc.constantFrom('Orchestrator' as const, 'External' as const),
    port: fc.constantFrom(80, 8080),
  })
  .map(({ port, ...changes }): Service => serviceOf('x', [httpPort(port)], changes));
const aVirtualService = fc.record({
  hosts: fc.uniqueArray(fc.constantFrom(...NAMES, '*', '*.svc.cluster.local'), { minLength: 1, maxLength: 2 }),
  from: fc.constantFrom(undefined, 'default', 'shop'),
});
const aMesh = fc.record({
  services: fc.uniqueArray(aService, { selector: ({ hostname }) => hostname, maxLength: 6 }),
  virtualServices: fc.array(aVirtualService, { maxLength: 3 }),
  port: fc.constantFrom(80, 8080),
});
type AMesh = typeof aMesh extends fc.Arbitrary<infer T> ? T : never;

function inputs({ services: list, virtualServices, port }: AMesh, memos: Memos) {
  const sorted = list.toSorted((a, b) => (a.hostname < b.hostname ? -1 : 1));
  const services = Services.of(memos, PMap.from(list.map((service) => [service.hostname, service] as const)));
  const resolved = virtualServices.map(({ hosts, from }): ResolvedVirtualService => {
    const match = from === undefined ? {} : { match: [{ sourceNamespace: from }] };
    return virtualServiceOf({ hosts, http: [{ ...match, route: TO_REVIEWS }] });
  });
  const rules = Rules.of(memos, () => undefined);
  const entries = sorted.flatMap((service) => service.ports.map((each) => ({ service, port: each })));
  return (namespace: string) => {
    const hosts: OutboundHosts = {
      entries: entries.filter((entry) => entry.port.port === port),
      services,
      virtualServices: VirtualServices.of(memos, resolved),
      dnsDomain: `${namespace}.svc.cluster.local`,
    };
    const lookups = scopeLookups({ services, rules }, { namespace, labels: {} }, port);
    return { hosts, context: contextOf({ memos, port, lookups }) };
  };
}

interface Host {
  readonly name: string;
  readonly domains: readonly string[];
  readonly bytes: Uint8Array;
}

const decoded = (pieces: readonly Uint8Array[]): readonly Host[] =>
  pieces.map((bytes) => {
    const [host] = RouteConfiguration.decode(bytes).virtualHosts;
    return { name: host?.name ?? '', domains: host?.domains ?? [], bytes };
  });

/** Which virtual host Envoy chooses. */
function chosen(hosts: readonly Host[], host: string): string | undefined {
  const suffixes = Array.from({ length: host.length }, (_, at) => `*${host.slice(at + 1)}`);
  for (const domain of [host, ...suffixes]) {
    const found = hosts.find(({ domains }) => domains.includes(domain));
    if (found !== undefined) return found.name;
  }
  return undefined;
}

test('property: virtual hosts for names are those that Envoy chooses among all, byte for byte', () => {
  let [some, shared] = [0, 0];
  fc.assert(
    fc.property(
      aMesh,
      fc.array(fc.record({ namespace: fc.constantFrom('default', 'shop', 'other'), names: fc.subarray(REQUESTED) }), {
        minLength: 1,
        maxLength: 4,
      }),
      (mesh, asks) => {
        // The results of one namespace are not used for another one where they differ.
        const [ofAll, ofSome] = [inputs(mesh, new Memos()), inputs(mesh, new Memos())];
        for (const { namespace, names } of asks) {
          const { hosts, context } = ofAll(namespace);
          const all = sharedHosts(hosts, context);
          const part = ofSome(namespace);
          const found = wantedHosts(part.hosts, part.context, names);
          const [whole, made] = [decoded(all.virtualHosts), decoded(found.virtualHosts)];
          for (const { name, bytes } of made)
            assert.deepEqual(bytes, whole.find((each) => each.name === name)?.bytes, name);
          for (const name of names) {
            assert.equal(chosen(made, name), chosen(whole, name), name);
            if (whole.some((each) => each.name === name)) assert.ok(made.some((each) => each.name === name));
          }
          assert.equal(found.takesAll, all.takesAll);
          assert.deepEqual(found.duplicates, all.duplicates);
          assert.ok(found.among >= whole.length);
          if (made.length < whole.length) some++;
          if (all.duplicates.length > 0) shared++;
        }
      },
    ),
    { numRuns: 300 },
  );
  assert.ok(some > 50 && shared > 50);
});
