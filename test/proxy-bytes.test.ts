/**
 * The number of bytes that one sidecar gets in a small mesh, type by type, so that no field is added to every resource
 * unnoticed. These bytes are most of the cost of a cold start, and of nearly everything over mutual TLS. An increase
 * needs a reason; after a decrease lower the bound here.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse as parseYaml } from 'yaml';
import type { Content } from '../bench/options.ts';
import { destinationRule, serviceEntry, serviceRef, virtualService } from '../bench/world/documents.ts';
import { XDS_TYPES, type XdsType } from '../src/core/xds-types.ts';
import { inline, Mesh, parse, sidecar } from '../src/push/testing/mesh.ts';
import { inputOf, readParts } from './golden-harness/input.ts';
import { outputOf } from './golden-harness/output.ts';

const NAMESPACE = 'ns-00';
const SERVICES = 9;
/** Every n-th service has routes and a rule with two subsets. */
const RICH = 3;

function* documents(content: Content): Generator<string> {
  for (let number = 0; number < SERVICES; number++) {
    const service = serviceRef(number, NAMESPACE);
    yield serviceEntry(service, { endpoints: 5, version: 0, content });
    if (number % RICH !== 0) continue;
    yield virtualService(service, 0);
    yield destinationRule(service, 0);
  }
}

/** The name table is for agents. */
const ENVOY_TYPES = XDS_TYPES.filter((type) => type !== 'nds');

type Bytes = Readonly<Partial<Record<XdsType, number>>>;

/**
 * The resources as fields of a response. SotW leaves out names and versions, and its endpoints have short names.
 */
async function bytesOf(mode: 'delta' | 'sotw', sds: boolean): Promise<Bytes> {
  const resources = [...documents(sds ? 'mtls' : 'plain')].map((text) => parse(parseYaml(text)));
  const mesh = new Mesh(inline, resources);
  const node = {
    ...sidecar('10.250.0.1', NAMESPACE),
    discoversVirtualHosts: mode === 'delta',
    shortEndpointNames: mode === 'sotw',
    sds,
  };
  const { session } = mesh.connect(node);
  await session.ready;
  const bytes = new Map<XdsType, number>();
  for (const type of ENVOY_TYPES) {
    for (const { fragment, anyOffset } of session.parts(type).flatMap((part) => part.resources())) {
      const sent = mode === 'delta' ? fragment.length : fragment.length - anyOffset;
      bytes.set(type, (bytes.get(type) ?? 0) + sent);
    }
  }
  session.close();
  return Object.fromEntries(bytes);
}

const ROWS: readonly [what: string, mode: 'delta' | 'sotw', sds: boolean, most: Bytes][] = [
  ['Delta', 'delta', false, { cds: 9631, eds: 10562, lds: 6925, rds: 116, vhds: 7157 }],
  ['SotW', 'sotw', false, { cds: 7976, eds: 7718, lds: 6482, rds: 6042 }],
  ['Delta, with certificates of the mesh', 'delta', true, { cds: 20407, eds: 17198, lds: 8868, rds: 116, vhds: 7157 }],
];

for (const [what, mode, sds, most] of ROWS) {
  test(`bytes of one sidecar, at most: ${what}`, async () => {
    const bytes = await bytesOf(mode, sds);
    const over = ENVOY_TYPES.filter((type) => (bytes[type] ?? 0) > (most[type] ?? 0));
    assert.deepEqual(over, [], `${JSON.stringify(bytes)} and no more than ${JSON.stringify(most)}`);
  });
}

/** Without documents of the policy component nobody pays for it: neither sidecars nor gateways, of any kind. */
test('proxies get the same with the plugin `policy` and without it, while there is no rule', () => {
  const folder = join(import.meta.dirname, 'golden');
  const names = readdirSync(folder).filter((name) => /^(inbound|gateway)/.test(name));
  let compared = 0;
  for (const name of names) {
    const parts = readParts(join(folder, name, 'in.yaml'));
    // CUSTOM authorizers are part of the plugin, too.
    if (/"kind":"rule"|"action":"CUSTOM"/.test(JSON.stringify(parts.documents))) continue;
    const outputs = [
      ['authn', 'authz', 'health', 'policy'],
      ['authn', 'authz', 'health'],
    ].map((plugins) => {
      const settings = { ...parts.golden.settings, plugins };
      const { snapshot, proxies } = inputOf({ ...parts, golden: { ...parts.golden, settings } });
      return [...proxies.values()].map((node) => outputOf(snapshot, node));
    });
    assert.deepEqual(outputs[0], outputs[1], name);
    compared += outputs[0]?.length ?? 0;
  }
  assert.ok(compared > 20, `${compared} proxies`);
});
