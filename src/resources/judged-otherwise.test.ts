/**
 * Documents about which Istio decides otherwise, on purpose, each with the reason. Decisions of Istio are those of its
 * validation in August 2026.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { checkDocument } from './check.ts';
import { mesh } from './testing/parsed.ts';

const SECURITY = 'security.istio.io/v1';
const LONG = 'a'.repeat(2000);
const PRIVATE_KEY = JSON.stringify({ keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'AA', d: 'AA' }] });

interface Row {
  readonly what: string;
  readonly why: string;
  readonly kind: string;
  readonly spec: string;
  readonly api?: string;
  /** Of what is refused; absent: it is accepted, and Istio refuses it. */
  readonly field?: string;
}

const ROWS: readonly Row[] = [
  {
    what: 'an address as server name',
    why: 'no client sends one (RFC 6066, section 3), and names that are not among the hosts belong to others',
    kind: 'VirtualService',
    spec: '{hosts: [a.com], tls: [{match: [{sniHosts: [192.0.2.1]}], route: [{destination: {host: b}}]}]}',
    field: 'tls[0].match[0].sniHosts[0]',
  },
  {
    what: 'a private key in a key set',
    why: 'the key set is sent to every proxy that verifies tokens',
    kind: 'RequestAuthentication',
    api: SECURITY,
    spec: `{jwtRules: [{issuer: i, jwks: '${PRIVATE_KEY}'}]}`,
    field: 'jwtRules[0].jwks',
  },
  {
    what: 'an empty name of a claim',
    why: 'no token has one',
    kind: 'RequestAuthentication',
    api: SECURITY,
    spec: '{jwtRules: [{issuer: i, spaceDelimitedClaims: [""]}]}',
    field: 'jwtRules[0].spaceDelimitedClaims[0]',
  },
  {
    what: 'a host of no namespace in a Gateway',
    why: 'only documents that are derived by Istio itself may have it',
    kind: 'Gateway',
    spec: '{servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: ["~/a.com"]}]}',
    field: 'servers[0].hosts[0]',
  },
  {
    what: 'a long expression for versions',
    why: 'Istio ignores the condition, so that the patch applies to proxies for which it is not meant',
    kind: 'EnvoyFilter',
    spec: `{configPatches: [{applyTo: LISTENER, match: {proxy: {proxyVersion: ${LONG}}}, patch: {operation: REMOVE}}]}`,
    field: 'configPatches[0].match.proxy.proxyVersion',
  },
  {
    what: 'an added cluster without name',
    why: 'Envoy rejects it',
    kind: 'EnvoyFilter',
    spec: '{configPatches: [{applyTo: CLUSTER, patch: {operation: ADD, value: {lb_policy: RING_HASH}}}]}',
    field: 'configPatches[0].patch.value.name',
  },
  {
    what: 'an added filter without name',
    why: 'Envoy rejects its listener',
    kind: 'EnvoyFilter',
    spec: '{configPatches: [{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {}}}]}',
    field: 'configPatches[0].patch.value.name',
  },
  {
    what: 'a patch for waypoints without its patch',
    why: 'it does nothing anywhere',
    kind: 'EnvoyFilter',
    spec: '{configPatches: [{applyTo: HTTP_FILTER, match: {context: WAYPOINT}}]}',
    field: 'configPatches[0].patch',
  },
  {
    what: 'a header with an uncommon character for a claim',
    why: 'RFC 9110, section 5.1, allows it, and Envoy sends it',
    kind: 'RequestAuthentication',
    api: SECURITY,
    spec: '{jwtRules: [{issuer: i, outputClaimToHeaders: [{header: "a%b", claim: sub}]}]}',
  },
];

describe('documents that Istio judges otherwise', () => {
  for (const { what, why, kind, spec, api, field } of ROWS) {
    test(`${what} is ${field === undefined ? 'accepted' : 'refused'}: ${why}`, () => {
      const checked = checkDocument(parse(mesh(kind, spec, api)) as unknown);
      assert.deepEqual(
        checked?.errors.map((error) => error.field),
        field === undefined ? [] : [`spec.${field}`],
      );
    });
  }

  test('a dynamic host of a Service with a waypoint is accepted: waypoint proxies are not supported', () => {
    const spec =
      '{hosts: ["*.a.com"], location: MESH_INTERNAL, resolution: DYNAMIC_DNS, ports: [{number: 80, name: a, protocol: HTTP}]}';
    const document = parse(mesh('ServiceEntry', spec)) as { metadata: object };
    const labels = { 'istio.io/use-waypoint': 'some' };
    const checked = checkDocument({ ...document, metadata: { ...document.metadata, labels } });
    assert.deepEqual(checked?.errors, []);
  });
});
