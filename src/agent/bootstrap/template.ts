/**
 * `--templateFile`: a user's bootstrap, JSON or YAML, with placeholders for values of the agent. A string that is
 * exactly `${name}` becomes the value with its type; in a longer string it becomes the value as a string. The names:
 *
 *   node, node_id, node_cluster, metadata, locality          identity of the proxy
 *   admin, dynamic_resources, layered_runtime, stats_config  whole parts of the built-in bootstrap
 *   xds_cluster, sds_cluster                                 its static clusters
 *   admin_port, prometheus_port, discovery_host, discovery_port, sds_path
 *   policy_san                                               SPIFFE ID of the policy component (--policyIdentity)
 *
 * Values are inserted into parsed data, never into the text of the file, so that none of them can change its structure.
 */
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { SDS_CLUSTER, XDS_CLUSTER } from '../../core/proxy.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';
import { type BootstrapInput, bootstrap } from './bootstrap.ts';

/** Fills in a template. Throws a CtlError for an unknown name, and for a template that is not an object. */
export function fillTemplate(template: JsonValue, input: BootstrapInput, file: string): JsonObject {
  if (!isObject(template)) throw new CtlError('invalid_argument', 'expected a bootstrap', { file });
  const values = templateValues(input);
  const filled = fill(template, (name) => {
    const value = values.get(name);
    if (value !== undefined) return value;
    throw new CtlError(
      'invalid_argument',
      `unknown name \${${name}}; expected one of ${[...values.keys()].join(', ')}`,
      {
        file,
      },
    );
  });
  return isObject(filled) ? filled : {};
}

function templateValues(input: BootstrapInput): ReadonlyMap<string, JsonValue> {
  const whole = bootstrap(input);
  const statics = isObject(whole.static_resources) ? whole.static_resources.clusters : [];
  const cluster = (name: string): JsonValue =>
    (Array.isArray(statics) ? statics : []).find((each) => isObject(each) && each.name === name) ?? {};
  const { node } = input;
  const entries: readonly (readonly [string, JsonValue | undefined])[] = [
    ['node', node],
    ['node_id', node.id],
    ['node_cluster', node.cluster],
    ['metadata', node.metadata],
    ['locality', node.locality ?? {}],
    ['admin', whole.admin],
    ['dynamic_resources', whole.dynamic_resources],
    ['layered_runtime', whole.layered_runtime],
    ['stats_config', whole.stats_config],
    ['xds_cluster', cluster(XDS_CLUSTER)],
    ['sds_cluster', cluster(SDS_CLUSTER)],
    ['admin_port', input.adminPort],
    ['prometheus_port', input.prometheusPort],
    ['discovery_host', input.controlPlane.host],
    ['discovery_port', input.controlPlane.port],
    ['sds_path', input.sdsPath ?? ''],
    ['policy_san', input.policy.san],
  ];
  return new Map(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])));
}

function fill(value: JsonValue, lookUp: (name: string) => JsonValue): JsonValue {
  if (typeof value === 'string') return fillText(value, lookUp);
  if (Array.isArray(value)) return value.map((each) => fill(each, lookUp));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fill(each ?? null, lookUp)]));
}

function fillText(text: string, lookUp: (name: string) => JsonValue): JsonValue {
  const whole = /^\$\{(\w+)\}$/.exec(text)?.[1];
  if (whole !== undefined) return lookUp(whole);
  return text.replace(/\$\{(\w+)\}/g, (_, name: string) => {
    const value = lookUp(name);
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
}
