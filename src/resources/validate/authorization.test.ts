import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { parseResource } from '../parsing/parse.ts';

/** Why a policy with this spec is refused: `field: message`; undefined when it is accepted. */
function refusal(spec: string): string | undefined {
  const document = {
    apiVersion: 'security.mesh.io/v1beta1',
    kind: 'AuthorizationPolicy',
    metadata: { name: 'p', namespace: 'n' },
    spec: parse(spec) as unknown,
  };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  return 'problem' in parsed ? `${parsed.problem.field}: ${parsed.problem.message}` : undefined;
}

const source = (fields: string) => `{rules: [{from: [{source: {${fields}}}]}]}`;
const operation = (fields: string) => `{rules: [{to: [{operation: {${fields}}}]}]}`;
const when = (key: string, values: string) => `{rules: [{when: [{key: "${key}", values: [${values}]}]}]}`;
const GATEWAY = 'group: gateway.networking.k8s.io, kind: Gateway';
const custom = (rule: string) => `{action: CUSTOM, provider: {name: a}, rules: [${rule}]}`;

describe('an AuthorizationPolicy', () => {
  const taken: readonly [string, string][] = [
    ['without rules lets nobody in', '{}'],
    ['with an empty rule', '{action: DENY, rules: [{}]}'],
    ['with principals', source("principals: [td/ns/a/sa/b, '*', 'td/*', '*/b'], notPrincipals: [x]")],
    ['with letters that patterns give a meaning', source("principals: ['td/ns/a*b/sa/c.d+']")],
    ['with a star in a path', operation("paths: ['/a/*/b', '*', '/a*', '*.b']")],
    ['with service accounts', source('serviceAccounts: [a, b/c]')],
    ['with hosts', operation("hosts: [a.b, '*.b', 'a.*', 'a.b:80', '[::1]:80', '*']")],
    ['with a header', when('request.headers[X-Team]', 'a')],
    ['with nested claims', when('request.auth.claims[a.b][c/d]', 'a')],
    ['with addresses', source("ipBlocks: [10.0.0.0/8, '::1'], notRemoteIpBlocks: [192.0.2.1]")],
    ['with path templates', operation("paths: ['/a/{*}/b', '/a/{**}', '/{*}/{**}/']")],
    ['with trust domains', source("trustDomains: [a.b, 'eu-*', '*'], notTrustDomains: [c]")],
    ["with a filter's metadata", when('experimental.envoy.filters.a.b[c]', "'[d]', e")],
    ['attached to a gateway', `{targetRefs: [{${GATEWAY}, name: a}]}`],
    ["attached to a waypoint's service", '{targetRefs: [{kind: Service, name: a}]}'],
    ['that asks an authorizer', custom('{to: [{operation: {paths: [/a]}}]}')],
  ];
  for (const [what, spec] of taken) test(`${what}: taken`, () => assert.equal(refusal(spec), undefined));

  const refused: readonly [string, string, RegExp][] = [
    [
      'attached to a resource that is not a gateway',
      '{targetRefs: [{kind: Gateway, name: a}]}',
      /^spec\.targetRefs\[0\]\.kind: /,
    ],
    ['attached to nothing', `{targetRef: {${GATEWAY}, name: ''}}`, /^spec\.targetRef\.name: /],
    [
      'attached elsewhere',
      `{targetRefs: [{${GATEWAY}, name: a, namespace: b}]}`,
      /^spec\.targetRefs\[0\]\.namespace: /,
    ],
    [
      'attached and selecting',
      `{selector: {matchLabels: {app: a}}, targetRefs: [{${GATEWAY}, name: a}]}`,
      /^spec\.targetRefs: expected either/,
    ],
    ['with the scheme of identities', source('principals: ["spiffe://td/ns/a/sa/b"]'), /principals\[0\]: .*without/],
    ['with nothing but stars', operation("paths: ['**']"), /paths\[0\]: .*at one end only/],
    ['with stars at both ends', operation("paths: ['*foo*']"), /paths\[0\]: .*at one end only/],
    ['with stars at both ends of what is not', source("notPrincipals: ['*a*']"), /notPrincipals\[0\]/],
    ['with stars at both ends of a condition', when('request.headers[a]', "'*a*'"), /values\[0\]/],
    ['with a query in a path', operation("paths: ['/a?b=c']"), /paths\[0\]: .*without query/],
    ['with a fragment in what is not', operation("notPaths: ['/a#b*']"), /notPaths\[0\]: .*fragment/],
    ['with a star beside a template', operation("paths: ['/*/b/{*}']"), /paths\[0\]: .*whole path segments/],
    ['with stars beside a template', operation("notPaths: ['/a/{*}/b*']"), /notPaths\[0\]: .*whole path segments/],
    ['with a template in a segment', operation("paths: ['/a/{*}.txt']"), /paths\[0\]: .*whole path segments/],
    ['with a template behind the last one', operation("paths: ['/{**}/a/{*}']"), /paths\[0\]: .*after/],
    ['with a template without slash', operation("paths: ['{**}']"), /paths\[0\]: .*begins with/],
    ['with many templates', operation(`paths: ['${'/{*}'.repeat(17)}']`), /paths\[0\]: .*at most 16/],
    ['with a query in a template', operation("paths: ['/a/{*}/?b']"), /paths\[0\]: .*without query/],
    ['with an identity as trust domain', source('trustDomains: [a/ns/b]'), /trustDomains\[0\]: .*trust domain/],
    ['with metadata of no filter', when('experimental.envoy.filters.[a]', 'b'), /key: unknown attribute/],
    ['with metadata without field', when('experimental.envoy.filters.a', 'b'), /key: unknown attribute/],
    ['with a path that cannot be', operation('paths: [admin]'), /paths\[0\]: .*begins with/],
    ['with a URL as host', operation('hosts: ["https://a"]'), /hosts\[0\]: .*host/],
    ['with an identity as namespace', source('namespaces: [a/b]'), /namespaces\[0\]: .*namespace/],
    ['with many slashes in an account', source('serviceAccounts: [a/b/c]'), /serviceAccounts\[0\]/],
    ['with a wildcard account', source("serviceAccounts: ['*']"), /serviceAccounts\[0\]/],
    ['with a zone in an address', source("ipBlocks: ['fe80::1%eth0']"), /ipBlocks\[0\]/],
    ['with a port out of range', operation("ports: ['65536']"), /ports\[0\]/],
    ['with a port that is none', when('destination.port', "'*'"), /values\[0\]/],
    ['with an unknown attribute', when('source.user', 'a'), /key: unknown attribute/],
    ['with an attribute of every object', when('constructor', 'a'), /key: unknown attribute/],
    ['with the name of no header', when('request.headers[a b]', 'a'), /key: .*header name/],
    ['with an empty value', source("namespaces: ['']"), /namespaces\[0\]: .*not empty/],
    ['with half a character', source('namespaces: ["\\ud800"]'), /namespaces\[0\]: .*well-formed/],
    ['with half a character in a claim', when('request.auth.claims[\\ud800]', 'a'), /key: .*well-formed/],
    ['with an endless value', source(`namespaces: ['${'a'.repeat(2049)}']`), /namespaces\[0\]: .*2048/],
    [
      'that asks about tokens',
      custom("{from: [{source: {requestPrincipals: ['*']}}]}"),
      /requestPrincipals: not supported/,
    ],
    [
      'that asks about no tokens',
      custom("{from: [{source: {notRequestPrincipals: ['*']}}]}"),
      /not supported with action CUSTOM/,
    ],
    ['that asks about claims', custom("{when: [{key: 'request.auth.claims[a]', values: [b]}]}"), /key: not supported/],
    ['that asks nobody', '{action: CUSTOM, rules: [{}]}', /provider\.name: required/],
    ['that keeps out and asks', '{action: DENY, provider: {name: a}, rules: [{}]}', /provider: expected only/],
  ];
  for (const [what, spec, message] of refused) {
    test(`${what}: refused`, () => assert.match(refusal(spec) ?? 'taken', message));
  }
});
