/** The configuration of the proxies of a golden test, as plain data in the notation of Envoy's own YAML. */

import type { ProxyNode } from '../../src/core/proxy.ts';
import { XDS } from '../../src/core/xds-types.ts';
import { encodeEndpoints, generate, isClientView, resolveEndpoints } from '../../src/generate/index.ts';
import type { GeneratedResource, GeneratedType } from '../../src/generate/types.ts';
import type { Placement, View } from '../../src/generate/views.ts';
import type { Snapshot } from '../../src/model/types/types.ts';
import { type JsonObject, messageNameOf, toProtoJson } from '../../src/protobuf/index.ts';
import { placementOf, viewsOf } from '../../src/push/proxies/proxy-views.ts';
import type { Shown } from './input.ts';
import { isObject, nameOf } from './json.ts';

export type ProxyOutput = Readonly<Record<Shown, readonly JsonObject[]>> & {
  /** `metric: message` of each finding. */
  readonly findings: readonly string[];
};

const EVERYTHING = { cds: 'all', sds: 'all', ecds: 'all', lds: 'all', rds: 'all', vhds: 'all', nds: 'all' } as const;

/** The whole configuration of a proxy, resources sorted by name. Throws when a unit could not be generated. */
export function outputOf(snapshot: Snapshot, node: ProxyNode): ProxyOutput {
  const output = {
    clusters: [] as JsonObject[],
    endpoints: [] as JsonObject[],
    listeners: [] as JsonObject[],
    routes: [] as JsonObject[],
    secrets: [] as JsonObject[],
    extension_configs: [] as JsonObject[],
    virtual_hosts: [] as JsonObject[],
    names: [] as JsonObject[],
  };
  const findings: string[] = [];
  const placement = placementOf(snapshot, node);
  for (const view of viewsOf(snapshot, node)) {
    const result = generate(snapshot, view, EVERYTHING, [placement]);
    const [failure] = result.failures;
    if (failure !== undefined) throw new Error(`${view.part} ${failure.type} ${failure.unit}: ${failure.message}`);
    findings.push(...result.findings.map(({ metric, message }) => `${metric}: ${message}`));
    const of = (type: GeneratedType) => [...(result.units[type]?.values() ?? [])].flat();
    const clusters = [...of('cds'), ...[...result.placed.values()].flat(2)];
    output.clusters.push(...clusters.map(({ bytes }) => decoded(XDS.cds.url, bytes)));
    output.endpoints.push(...endpointsOf(snapshot, view, placement, clusters));
    output.listeners.push(...of('lds').map(({ bytes }) => decoded(XDS.lds.url, bytes)));
    output.secrets.push(...of('sds').map(({ bytes }) => decoded(XDS.sds.url, bytes)));
    output.extension_configs.push(...of('ecds').map(({ bytes }) => decoded(XDS.ecds.url, bytes)));
    output.routes.push(...of('rds').map(({ bytes }) => decoded(XDS.rds.url, bytes)));
    output.names.push(...of('nds').map(({ bytes }) => decoded(XDS.nds.url, bytes)));
    output.virtual_hosts.push(...of('vhds').map(({ bytes }) => decoded(XDS.vhds.url, bytes)));
  }
  return {
    clusters: byName(output.clusters),
    endpoints: byName(output.endpoints),
    listeners: byName(output.listeners),
    routes: byName(output.routes),
    secrets: byName(output.secrets),
    extension_configs: byName(output.extension_configs),
    virtual_hosts: byName(output.virtual_hosts),
    names: output.names,
    findings: findings.sort(),
  };
}

function endpointsOf(
  snapshot: Snapshot,
  view: View,
  placement: Placement,
  clusters: readonly GeneratedResource[],
): JsonObject[] {
  return clusters.flatMap(({ name, refs }) =>
    refs.map((ref) => {
      const input = !isClientView(view) ? undefined : resolveEndpoints(snapshot, view, placement, name);
      if (input?.name !== ref) throw new Error(`nothing answers for the endpoints ${ref} of ${name}`);
      return decoded(XDS.eds.url, encodeEndpoints(input));
    }),
  );
}

function decoded(typeUrl: string, bytes: Uint8Array): JsonObject {
  const json = toProtoJson(messageNameOf(typeUrl), bytes);
  if (!isObject(json)) throw new Error(`${typeUrl} is no JSON object`);
  return json;
}

function byName(resources: readonly JsonObject[]): JsonObject[] {
  return resources.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : 0));
}
