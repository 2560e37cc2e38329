/** Actions, scopes and combinations of policies: one set of policies at a time. */
import { type Ask, operation, source } from './authorization-cases.ts';
import { ISSUER } from './authorization-conditions.ts';
import { type Document, resource } from './config.ts';

export interface ScenarioExpectation extends Ask {
  readonly to: string;
  /** Bytes to a port instead of a request. */
  readonly tcp?: boolean;
  readonly is: 'allowed' | 'denied' | 'closed';
}

export interface Scenario {
  readonly what: string;
  readonly policies: readonly Document[];
  readonly expected: readonly ScenarioExpectation[];
}

const ROOT = 'mesh-system';
const EVERYWHERE = ['shop.foo', 'bank.foo', 'web.foo-bar', 'foo.bar'];

function policy(name: string, spec: Document, namespace: string, app?: string): Document {
  const selector = app === undefined ? {} : { selector: { matchLabels: { app } } };
  return resource('AuthorizationPolicy', name, { ...selector, ...spec }, namespace);
}

const allow = (rules: readonly Document[]) => ({ action: 'ALLOW', rules });
const deny = (rules: readonly Document[]) => ({ action: 'DENY', rules });
const audit = (rules: readonly Document[]) => ({ action: 'AUDIT', rules });
const path = (text: string) => operation({ paths: [text] });

function to(places: readonly string[], is: ScenarioExpectation['is'], ask: Ask = {}): ScenarioExpectation[] {
  return places.map((place) => ({ to: place, is, ...ask }));
}
const bytes = (place: string, is: 'allowed' | 'closed'): ScenarioExpectation => ({ to: place, is, tcp: true });
const others = (...places: readonly string[]) => EVERYWHERE.filter((place) => !places.includes(place));

export const SCENARIOS: readonly Scenario[] = [
  {
    what: 'ALLOW without rules: nothing is allowed',
    policies: [policy('nothing', { action: 'ALLOW' }, 'foo', 'shop')],
    expected: [
      ...to(['shop.foo'], 'denied'),
      ...to(['shop.foo'], 'denied', { from: 'sidecar web.foo' }),
      bytes('shop.foo', 'closed'),
      ...to(others('shop.foo'), 'allowed'),
      bytes('bank.foo', 'allowed'),
    ],
  },
  {
    what: 'an empty policy: nothing is allowed in its namespace',
    policies: [policy('nothing', {}, 'foo')],
    expected: [
      ...to(['shop.foo', 'bank.foo'], 'denied'),
      ...to(['web.foo-bar', 'foo.bar'], 'allowed'),
      bytes('bank.foo', 'closed'),
    ],
  },
  {
    what: 'an empty policy of the root namespace, and what workloads allow',
    policies: [
      policy('nothing', {}, ROOT),
      policy('shop', allow(path('/open')), 'foo', 'shop'),
      policy('bar', allow(source({ namespaces: ['foo'] })), 'bar'),
    ],
    expected: [
      ...to(EVERYWHERE, 'denied'),
      ...to(['shop.foo'], 'allowed', { line: 'GET /open' }),
      ...to(others('shop.foo'), 'denied', { line: 'GET /open' }),
      ...to(['foo.bar'], 'allowed', { from: 'sidecar web.foo' }),
    ],
  },
  {
    what: 'ALLOW with an empty rule: everything is allowed',
    policies: [policy('nothing', {}, 'foo'), policy('all', allow([{}]), 'foo', 'shop')],
    expected: [
      ...to(['shop.foo'], 'allowed', { line: 'DELETE /x' }),
      bytes('shop.foo', 'allowed'),
      ...to(['bank.foo'], 'denied'),
    ],
  },
  {
    what: 'DENY with an empty rule: everything is denied',
    policies: [policy('nothing', deny([{}]), 'foo', 'bank')],
    expected: [
      ...to(['bank.foo'], 'denied', { from: 'sidecar web.foo' }),
      bytes('bank.foo', 'closed'),
      ...to(others('bank.foo'), 'allowed'),
    ],
  },
  {
    what: 'DENY is stronger than ALLOW',
    policies: [
      policy('all', allow([{}]), 'foo', 'shop'),
      policy('admin', deny([...path('/admin*')]), 'foo', 'shop'),
      policy('explicit', allow(path('/admin*')), 'foo', 'shop'),
    ],
    expected: [
      ...to(['shop.foo'], 'denied', { line: 'GET /admin' }),
      ...to(['shop.foo'], 'allowed', { line: 'GET /' }),
      bytes('shop.foo', 'closed'),
    ],
  },
  {
    what: 'AUDIT denies nothing and allows nothing',
    policies: [
      policy('audit-bank', audit([{}]), 'foo', 'bank'),
      policy('audit-shop', audit([{}]), 'foo', 'shop'),
      policy('shop', allow(path('/open')), 'foo', 'shop'),
    ],
    expected: [
      ...to(['bank.foo'], 'allowed'),
      bytes('bank.foo', 'allowed'),
      ...to(['shop.foo'], 'allowed', { line: 'GET /open' }),
      ...to(['shop.foo'], 'denied'),
    ],
  },
  {
    what: 'ALLOW policies of mesh, namespace and workload are combined',
    policies: [
      policy('mesh', allow(path('/mesh')), ROOT),
      policy('namespace', allow(path('/namespace')), 'foo'),
      policy('workload', allow(path('/workload')), 'foo', 'shop'),
    ],
    expected: [
      ...to(EVERYWHERE, 'allowed', { line: 'GET /mesh' }),
      ...to(['shop.foo', 'bank.foo'], 'allowed', { line: 'GET /namespace' }),
      ...to(['web.foo-bar', 'foo.bar'], 'denied', { line: 'GET /namespace' }),
      ...to(['shop.foo'], 'allowed', { line: 'GET /workload' }),
      ...to(others('shop.foo'), 'denied', { line: 'GET /workload' }),
      ...to(EVERYWHERE, 'denied', { line: 'GET /' }),
    ],
  },
  {
    what: 'DENY policies of mesh, namespace and workload are combined and override ALLOW',
    policies: [
      policy('mesh', deny(path('/mesh')), ROOT),
      policy('namespace', deny(path('/namespace')), 'foo'),
      policy('workload', deny(path('/workload')), 'foo', 'shop'),
      policy('all', allow([{}]), 'foo', 'shop'),
    ],
    expected: [
      ...to(EVERYWHERE, 'denied', { line: 'GET /mesh' }),
      ...to(['shop.foo', 'bank.foo'], 'denied', { line: 'GET /namespace' }),
      ...to(['web.foo-bar', 'foo.bar'], 'allowed', { line: 'GET /namespace' }),
      ...to(['shop.foo'], 'denied', { line: 'GET /workload' }),
      ...to(others('shop.foo'), 'allowed', { line: 'GET /workload' }),
    ],
  },
  {
    what: 'a selector selects within its namespace, and in the root namespace everywhere',
    policies: [
      policy('elsewhere', deny([{}]), 'bar', 'shop'),
      policy('everywhere', deny(path('/x')), ROOT, 'web'),
      policy('nobody', deny([{}]), 'foo', 'nobody'),
    ],
    expected: [
      ...to(['shop.foo', 'bank.foo', 'foo.bar'], 'allowed', { line: 'GET /x' }),
      ...to(['web.foo-bar', 'web.foo'], 'denied', { line: 'GET /x' }),
      ...to(['web.foo-bar'], 'allowed'),
    ],
  },
  {
    what: 'API versions v1 and v1beta1 of the istio.io group',
    policies: [
      { ...policy('v1', deny(path('/v1')), 'foo', 'shop'), apiVersion: 'security.istio.io/v1' },
      { ...policy('v1beta1', deny(path('/v1beta1')), 'istio-system', 'shop'), apiVersion: 'security.istio.io/v1beta1' },
      { ...policy('old', deny(path('/old')), 'foo', 'shop'), apiVersion: 'security.istio.io/v1beta1' },
    ],
    expected: [
      ...to(['shop.foo'], 'denied', { line: 'GET /v1' }),
      ...to(['shop.foo'], 'denied', { line: 'GET /old' }),
      // In a namespace that is not the root namespace of this mesh.
      ...to(['shop.foo'], 'allowed', { line: 'GET /v1beta1' }),
      ...to(['bank.foo'], 'allowed', { line: 'GET /v1' }),
    ],
  },
  {
    what: 'a token is needed for the listed paths only',
    policies: [
      policy(
        'tokens',
        deny([{ ...source({ notRequestPrincipals: ['*'] })[0], ...path('/private*')[0] }]),
        'foo',
        'shop',
      ),
    ],
    expected: [
      ...to(['shop.foo'], 'denied', { line: 'GET /private/x' }),
      ...to(['shop.foo'], 'allowed', { line: 'GET /private/x', token: { iss: ISSUER, sub: 'ann' } }),
      ...to(['shop.foo'], 'allowed', { line: 'GET /public' }),
      ...to(['bank.foo'], 'allowed', { line: 'GET /private/x' }),
    ],
  },
];
