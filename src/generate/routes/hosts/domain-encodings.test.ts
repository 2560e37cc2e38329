import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../../core/memo.ts';
import { PMap } from '../../../core/pmap.ts';
import type { ResolvedVirtualService } from '../../../model/types/types.ts';
import { envoy } from '../../../protobuf/index.ts';
import { viewerOf } from '../../domains/service-domains.ts';
import { Rules, Services, VirtualServices } from '../../reads/index.ts';
import { contextOf, httpPort, serviceOf, TO_REVIEWS, virtualServiceOf } from '../../testing/routes.ts';
import { scopeLookups } from '../context.ts';
import { DomainEncoder } from './domain-encodings.ts';
import { type CandidateSources, candidateSet } from './domain-owners.ts';

const MEMOS = new Memos();

const { RouteConfiguration } = envoy.config.route.v3;

const list = ['one', 'two'].map((name) => serviceOf(name, [httpPort(80)]));
const services = Services.of(MEMOS, PMap.from(list.map((service) => [service.hostname, service] as const)));
const NONE: readonly ResolvedVirtualService[] = [];
const noRule = () => undefined;

function sources(virtualServices: readonly ResolvedVirtualService[] = NONE): CandidateSources {
  return {
    entries: list.map((service) => ({ service, port: httpPort(80) })),
    services,
    virtualServices: VirtualServices.of(MEMOS, virtualServices),
  };
}

/** A namespace's result for the same entries. */
function encoded(from: CandidateSources, namespace: string, destinationRule: () => undefined = noRule) {
  const lookups = scopeLookups({ services, rules: Rules.of(MEMOS, destinationRule) }, { namespace, labels: {} });
  const context = contextOf({ port: 80, lookups });
  const viewer = viewerOf(`${namespace}.svc.cluster.local`);
  return new DomainEncoder(context, viewer).encodeAll(candidateSet(from, context, viewer));
}

const decoded = (pieces: readonly Uint8Array[]) =>
  pieces.flatMap((piece) => RouteConfiguration.decode(piece).virtualHosts);

test('namespaces without own services share one list', () => {
  const plain = sources();
  assert.equal(encoded(plain, 'shop'), encoded(plain, 'other'));
});

test('a namespace with services has short names for these, and shares the rest', () => {
  const plain = sources();
  const shared = encoded(plain, 'shop');
  const own = encoded(plain, 'default');
  assert.deepEqual(
    decoded(own).map(({ domains }) => domains.includes('one') || domains.includes('two')),
    [true, true],
  );
  assert.ok(decoded(shared).every(({ domains }) => !domains.includes('one') && !domains.includes('two')));
});

test('virtual hosts that depend on the source of the requests are generated for each', () => {
  const match = [{ sourceNamespace: 'shop' }];
  const http = [{ match, redirect: { uri: '/shop' } }, { route: TO_REVIEWS }];
  const asking = sources([virtualServiceOf({ hosts: ['one.default.svc.cluster.local'], http })]);
  const routes = (namespace: string) =>
    decoded(encoded(asking, namespace)).map((host) => host.routes[0]?.redirect?.pathRedirect ?? '');
  assert.deepEqual(routes('shop'), ['/shop', '']);
  assert.deepEqual(routes('other'), ['', '']);
  assert.deepEqual(routes('shop'), ['/shop', '']);
});

test('another finder of destination rules may find others: no cached part of the list is used unchecked', () => {
  const plain = sources();
  assert.notEqual(
    encoded(plain, 'shop'),
    encoded(plain, 'shop', () => undefined),
  );
});
