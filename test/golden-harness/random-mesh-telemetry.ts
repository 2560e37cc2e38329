/** The part of the random mesh that is about telemetry: documents of every scope, and the providers that they name. */

function telemetry(namespace: string, name: string, spec: string): string {
  return `{apiVersion: telemetry.mesh.io/v1, kind: Telemetry, metadata: {name: ${name}, namespace: ${namespace}}, spec: ${spec}}`;
}

/** Services of these exist in some forms of the mesh only, and one provider is nowhere. */
export const TELEMETRY_PROVIDERS = [
  { name: 'spans', zipkin: { service: 'web.a.svc.cluster.local', port: 81 } },
  { name: 'records', opentelemetry: { service: 'api.b.svc.cluster.local', port: 90 } },
  { name: 'log', envoyHttpAls: { service: 'a/db.a.svc.cluster.local', port: 3306 } },
  { name: 'lines', envoyFileAccessLog: { path: '/tmp/log' } },
];

/** The same names after edits of the mesh configuration: other services, settings and kinds, one less and two more. */
export const EDITED_TELEMETRY_PROVIDERS = [
  { name: 'spans', opentelemetry: { service: 'api.b.svc.cluster.local', port: 90, http: { path: '/v1/traces' } } },
  { name: 'records', opentelemetry: { service: 'web.a.svc.cluster.local', port: 81 } },
  { name: 'lines', envoyFileAccessLog: { path: '/tmp/log', logFormat: { text: '%PROTOCOL%' } } },
  { name: 'nowhere', envoyTcpAls: { service: 'a/db.a.svc.cluster.local', port: 3306 } },
  { name: 'prometheus', prometheus: {} },
];

export const TELEMETRY_SLOTS: readonly (readonly string[])[] = [
  [
    telemetry('mesh-system', 'mesh', '{tracing: [{providers: [{name: spans}], randomSamplingPercentage: 5}]}'),
    telemetry('mesh-system', 'mesh', '{accessLogging: [{providers: [{name: log}, {name: lines}]}]}'),
    telemetry('mesh-system', 'mesh', '{selector: {matchLabels: {app: web}}, accessLogging: [{disabled: true}]}'),
    telemetry('mesh-system', 'mesh', '{metrics: [{providers: [{name: prometheus}]}]}'),
  ],
  [
    telemetry('a', 'namespace', '{tracing: [{match: {mode: CLIENT}, providers: [{name: records}]}]}'),
    telemetry('a', 'namespace', '{accessLogging: [{filter: {expression: "response.code > 399"}}]}'),
    telemetry('a', 'namespace', '{tracing: [{disableSpanReporting: true}]}'),
    telemetry('a', 'namespace', '{metrics: [{overrides: [{disabled: true}]}]}'),
    telemetry('a', 'namespace', '{metrics: [{overrides: [{match: {mode: SERVER}, tagOverrides: {a: {value: "1"}}}]}]}'),
  ],
  [
    telemetry('a', 'workload', '{selector: {matchLabels: {app: web}}, tracing: [{randomSamplingPercentage: 7}]}'),
    telemetry('a', 'workload', '{selector: {matchLabels: {app: other}}, tracing: [{randomSamplingPercentage: 8}]}'),
    telemetry(
      'a',
      'workload',
      '{selector: {matchLabels: {app: web}}, accessLogging: [{providers: [{name: nowhere}]}]}',
    ),
  ],
  [
    telemetry('b', 'gateways', '{selector: {matchLabels: {app: edge}}, tracing: [{providers: [{name: spans}]}]}'),
    telemetry('b', 'gateways', '{tracing: [{customTags: {a: {literal: {value: b}}}}]}'),
  ],
];
