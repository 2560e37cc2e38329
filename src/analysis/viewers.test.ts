/** What a viewer of one namespace reads must not depend on documents of namespaces that the viewer does not see. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { endpoints, meshOf, pod, resource, service } from '../model/testing/build.ts';
import type { AnyResource } from '../resources/index.ts';
import { analyze } from './analyze.ts';
import { inputOfSnapshot } from './testing/input.ts';

function seenBy(documents: readonly AnyResource[], sees: (namespace: string) => boolean): string[] {
  return [...analyze(inputOfSnapshot(meshOf([...documents])), sees).findings].flatMap((finding) =>
    finding === undefined ? [] : [`${finding.code} ${finding.resource.name}: ${finding.message}`],
  );
}

const routes = (name: string, more: object) =>
  resource('VirtualService', name, {
    hosts: ['api.example'],
    http: [{ route: [{ destination: { host: 'api.example', subset: 'v1' } }] }],
    ...more,
  });
const gateway = (name: string, selector: Record<string, string>) =>
  resource('Gateway', name, {
    selector,
    servers: [
      {
        port: { number: 443, protocol: 'HTTPS', name: 'https' },
        hosts: ['api.example'],
        tls: { mode: 'SIMPLE', credentialName: 'key' },
      },
    ],
  });
const entry = (name: string, protocol: string) =>
  resource('ServiceEntry', name, {
    hosts: ['api.example'],
    ports: [{ number: 80, name: 'port', protocol }],
    resolution: 'DNS',
    exportTo: name.startsWith('bank') ? ['.'] : ['*'],
  });
const outside = routes('shop/outside', {
  hosts: ['www.example'],
  gateways: ['public'],
  http: [{ route: [{ destination: { host: 'api.example' } }] }],
});
const labelled = (name: string, labels: Record<string, string>) => resource('Pod', name, { spec: {} }, { labels });
const namesNamespaces = resource('AuthorizationPolicy', 'shop/p', {
  rules: [{ from: [{ source: { namespaces: ['b*'] } }] }],
});

const patch = (name: string, operation: string, match: object = {}) =>
  resource('EnvoyFilter', name, {
    configPatches: [
      {
        applyTo: 'HTTP_FILTER',
        match: { ...match, listener: { filterChain: { filter: { name: 'envoy.filters.http.lua' } } } },
        patch: { operation, value: {} },
      },
    ],
  });

interface Case {
  readonly own: readonly AnyResource[];
  readonly hidden: readonly AnyResource[];
  /** The findings that the hidden documents give or take away for a viewer of everything; undefined for none. */
  readonly changes?: RegExp;
}

const CASES: Readonly<Record<string, Case>> = {
  'IST0162: Services of workloads in another namespace': {
    own: [gateway('shop/public', { app: 'edge' }), labelled('shop/edge', { app: 'edge' })],
    hidden: [labelled('bank/edge', { app: 'edge' }), service('bank/secret-name', { selector: { app: 'edge' } })],
    changes: /^IST0162 .*bank|^IST0162 .*no Service/,
  },
  'IST0140: VirtualServices that choose a subset': {
    own: [outside, routes('shop/inside', {}), entry('shop/e', 'HTTP')],
    hidden: [routes('bank/private', { exportTo: ['.'] })],
    changes: /^IST0140 .*bank\/private/,
  },
  'IST0109: VirtualServices for a guessed host': {
    own: [routes('shop/one', {}), routes('shop/two', {})],
    hidden: [routes('bank/private', { exportTo: ['.'] })],
    changes: /^IST0109 .*bank\/private/,
  },
  'IST0177: ServiceEntries of a guessed host': {
    own: [entry('shop/one', 'HTTP'), entry('shop/two', 'TCP')],
    hidden: [entry('bank/private', 'TLS')],
    changes: /^IST0177 .*bank\/private/,
  },
  'IST0145, IST0138: Gateways with a guessed host and certificate': {
    own: [gateway('shop/one', { app: 'edge' }), gateway('shop/two', { app: 'edge' })],
    hidden: [gateway('bank/private', { app: 'edge' })],
    changes: /^IST01(45|38) .*bank\/private/,
  },
  'IST0145: workloads with the labels of two selectors': {
    own: [gateway('shop/one', { app: 'edge' }), gateway('shop/two', { tier: 'gold' })],
    hidden: [labelled('bank/edge', { app: 'edge', tier: 'gold' })],
    changes: /^IST0145 one/,
  },
  'IST0101: labels of workloads anywhere in the mesh': {
    own: [gateway('shop/public', { app: 'edge' })],
    hidden: [labelled('bank/edge', { app: 'edge' })],
    changes: /^IST0101 public: selector/,
  },
  'IST0101: Gateways of another namespace': {
    own: [routes('shop/x', { gateways: ['bank/private'] })],
    hidden: [gateway('bank/private', {})],
    changes: /^IST0101 x: gateways/,
  },
  'IST0132: hosts of Gateways of another namespace': {
    own: [routes('shop/x', { hosts: ['other.example'], gateways: ['bank/private'] })],
    hidden: [gateway('bank/private', {})],
    changes: /^IST0132 x/,
  },
  'IST0101: subsets of private DestinationRules': {
    own: [routes('shop/x', {}), entry('shop/e', 'HTTP')],
    hidden: [
      resource('DestinationRule', 'bank/private', {
        host: 'api.example',
        subsets: [{ name: 'v1', labels: { version: 'v1' } }],
        exportTo: ['.'],
      }),
    ],
  },
  'IST0115: Pods of another namespace among the endpoints': {
    own: [
      service('shop/web'),
      endpoints('shop/web', ['10.0.0.9', '10.0.0.10']),
      pod('shop/web-1', '10.0.0.10'),
      resource('DestinationRule', 'shop/web', {
        host: 'web',
        trafficPolicy: { tls: { mode: 'MESH_MUTUAL' } },
      }),
    ],
    hidden: [pod('bank/ledger', '10.0.0.9')],
    changes: /^IST0115/,
  },
  'IST0155: filters that EnvoyFilters of another namespace patch': {
    own: [patch('shop/relative', 'REMOVE')],
    hidden: [patch('bank/versioned', 'MERGE', { proxy: { proxyVersion: '^1' } })],
  },
  'IST0101: names of namespaces': {
    own: [namesNamespaces, resource('Namespace', '/shop', {})],
    hidden: [resource('Namespace', '/bank', {})],
    changes: /^IST0101 p: rules name/,
  },
};

describe('a viewer of one namespace learns nothing from hidden documents:', () => {
  for (const [title, { own, hidden, changes }] of Object.entries(CASES)) {
    test(title, () => {
      const isOwn = (namespace: string) => namespace === 'shop';
      assert.deepEqual(seenBy([...own, ...hidden], isOwn), seenBy(own, isOwn));
      if (changes === undefined) return;
      const [before, after] = [own, [...own, ...hidden]].map((all) =>
        seenBy(all, () => true).filter((each) => changes.test(each)),
      );
      assert.notDeepEqual(after, before);
    });
  }
});
