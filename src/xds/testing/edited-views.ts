/** Test support: content of two views for a proxy on demand, which edits change, and arbitrary edits. */
import assert from 'node:assert/strict';
import * as fc from '../../core/testing/properties.ts';
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import { envoy, google, packAny } from '../../protobuf/index.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { contentVersion, emptyBundle, Interner, nextBundle } from '../../push/bundles/index.ts';
import type { Bundle, EncodedResource, Parts } from '../../push/index.ts';

const { TcpProxy } = envoy.extensions.filters.network.tcp_proxy.v3;
/** Of the second of them all proxies have everything: the inbound clusters. */
const PARTS = 2;

const ROUTES = ['80', '81'];
/** Virtual hosts; a host may have the name of another one, and not the domain. */
export const HOSTS = ['80/a:80', '80/b:80', '80/a', '80/allow_any', '81/a:81'];
const DOMAINS = ['a', 'a:80', 'b', 'b:80', 'api.x', '*.x', '*-db.x', '*'];
export const CLUSTERS = ['a', 'b', 'c', 'd'].map((name) => `outbound|80||${name}`);

const host = fc.constantFrom(...HOSTS);
const cluster = fc.constantFrom(...CLUSTERS);
export const few = (names: readonly string[]) => fc.subarray([...names], { maxLength: 2 });
const version = fc.nat(2);

export const edit = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('host' as const), host, clusters: few(CLUSTERS), version }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('domains' as const), host, domains: few(DOMAINS) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('no host' as const), host }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('cluster' as const),
      cluster,
      members: few(CLUSTERS),
      endpoints: few(CLUSTERS),
      isUnaskable: fc.constantFrom(false, false, true),
      version,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('no cluster' as const), cluster }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('endpoints' as const), cluster, version: fc.nat(3) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('listener' as const), led: few(CLUSTERS), askable: few(CLUSTERS) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('routes' as const), routes: fc.subarray(ROUTES) }) },
);
export type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

interface Host {
  readonly domains: readonly string[];
  readonly clusters: readonly string[];
  readonly version: number;
}

const NO_HOST: Host = { domains: [], clusters: [], version: 0 };

/** What the views have, and the virtual hosts and clusters of the mesh, of which some are generated later. */
export interface State {
  readonly content: Parts;
  readonly hosts: ReadonlyMap<string, Host>;
  readonly clusters: ReadonlyMap<string, EncodedResource>;
}

/** Equal content is one object, as in the engine. */
const interner = new Interner();

function resource(type: XdsType, name: string, fields: Uint8Array, refs: readonly string[] = []): EncodedResource {
  const message = Buffer.concat([encodeFields([[1, name]]), fields]);
  return interner.intern(type, name, contentVersion(message), refs, () => message);
}

const texts = (number: number, all: readonly string[]): Uint8Array =>
  encodeFields(all.map((each) => [number, each] as const));

function hostResource(name: string, { domains, clusters, version }: Host): EncodedResource {
  return resource(
    'vhds',
    name,
    Buffer.concat([texts(2, domains), texts(3, clusters), texts(4, [`version ${version}`])]),
  );
}

function listenerResource(led: readonly string[], askable: readonly string[]): EncodedResource {
  const proxies = askable.map((name) => {
    const tcp = packAny(TcpProxy, { statPrefix: name, cluster: name, onDemand: { timeout: { seconds: 5 } } });
    return [4, google.protobuf.Any.encode(tcp).finish()] as const;
  });
  return resource('lds', 'listener', Buffer.concat([texts(3, led), encodeFields(proxies)]));
}

const routesResource = (name: string): EncodedResource => resource('rds', name, new Uint8Array(), [name]);

export function firstState(): State {
  const content = byXdsType((type) =>
    Array.from({ length: PARTS }, (_, part) => emptyBundle(type, `view 0 part ${part}`)),
  );
  const inbound = resource('cds', 'inbound|80', texts(3, [CLUSTERS[0] ?? '']));
  const [first, ...others] = content.cds;
  const cds = others.map((bundle) => nextBundle(bundle, [[inbound.name, inbound]]));
  return {
    content: { ...content, cds: first === undefined ? cds : [first, ...cds] },
    hosts: new Map(),
    clusters: new Map(),
  };
}

type Changes = Partial<Record<XdsType, Map<string, EncodedResource | undefined>>>;

/**
 * The state after edits, which are one change. No two virtual hosts of a route configuration have the same domain.
 * @param later names of virtual hosts and clusters that are not generated yet
 */
export function edited({ content, ...before }: State, edits: readonly Edit[], later: ReadonlySet<string>): State {
  const mesh = { hosts: new Map(before.hosts), clusters: new Map(before.clusters) };
  const changes: Changes = {};
  const set = (type: XdsType, name: string, value: EncodedResource | undefined): void => {
    changes[type] ??= new Map();
    changes[type].set(name, value);
  };
  for (const each of edits) apply(each, mesh, set);
  for (const name of HOSTS) {
    const value = later.has(name) ? undefined : mesh.hosts.get(name);
    set('vhds', name, value && hostResource(name, value));
  }
  for (const name of CLUSTERS) set('cds', name, later.has(name) ? undefined : mesh.clusters.get(name));
  const bundles = byXdsType((type) => {
    const [outbound, ...others] = content[type];
    return outbound === undefined ? [] : [nextBundle(outbound, changes[type] ?? []), ...others];
  });
  return { content: bundles, ...mesh };
}

interface MutableMesh {
  readonly hosts: Map<string, Host>;
  readonly clusters: Map<string, EncodedResource>;
}

type Change = (type: XdsType, name: string, value: EncodedResource | undefined) => void;

function apply(each: Edit, { hosts, clusters }: MutableMesh, set: Change): void {
  switch (each.kind) {
    case 'host': {
      const { domains } = hosts.get(each.host) ?? NO_HOST;
      hosts.set(each.host, { domains, clusters: each.clusters, version: each.version });
      return;
    }
    case 'domains':
      moveDomains(hosts, each.host, each.domains);
      return;
    case 'no host':
      hosts.delete(each.host);
      return;
    case 'cluster': {
      const { cluster: name, members, isUnaskable, endpoints } = each;
      const settings = [isUnaskable ? 'kubernetes://secret' : 'EDS', `version ${each.version}`];
      const fields = [...members, ...settings, ...endpoints.map((one) => `endpoints of ${one}`)];
      clusters.set(name, resource('cds', name, texts(3, fields), endpoints));
      return;
    }
    case 'no cluster':
      clusters.delete(each.cluster);
      return;
    case 'endpoints': {
      const fields = texts(2, [`version ${each.version}`]);
      set('eds', each.cluster, each.version === 0 ? undefined : resource('eds', each.cluster, fields));
      return;
    }
    case 'listener':
      set('lds', 'listener', listenerResource(each.led, each.askable));
      return;
    case 'routes':
      for (const name of ROUTES) set('rds', name, each.routes.includes(name) ? routesResource(name) : undefined);
  }
}

/** The host has these domains, and others of its route configuration have them no more. */
function moveDomains(hosts: Map<string, Host>, name: string, domains: readonly string[]): void {
  const isOfRoutes = (other: string): boolean => other.split('/')[0] === name.split('/')[0];
  for (const [other, value] of hosts)
    if (other !== name && isOfRoutes(other))
      hosts.set(other, { ...value, domains: value.domains.filter((domain) => !domains.includes(domain)) });
  hosts.set(name, { ...(hosts.get(name) ?? NO_HOST), domains });
}

/** The same resources in other views. */
export function inOtherViews({ content, ...mesh }: State, views: number): State {
  const moved = byXdsType((type) =>
    content[type].map((bundle, part) =>
      nextBundle(
        emptyBundle(type, `view ${views} part ${part}`),
        bundle.resources().map((each) => [each.name, each] as const),
      ),
    ),
  );
  return { content: moved, ...mesh };
}

/** The versions of resources by name; no bundle has one that another has. */
export function versionsOf(bundles: readonly Bundle[]): Map<string, string> {
  const all = bundles.flatMap((bundle) => bundle.resources().map((each) => [each.name, each.version] as const));
  const versions = new Map(all);
  assert.equal(versions.size, all.length, 'no resource is there twice');
  return versions;
}
