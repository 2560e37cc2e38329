/** The table of peer authentication: policies, and what each request between two workloads meets under them. */
import { type Document, resource } from './config.ts';
import type { Target } from './peer-calls.ts';

/** Of a workload in the mesh of these tests: its name and namespace. */
export type WorkloadId = 'web.foo' | 'api.foo' | 'web.bar' | 'bare.foo' | 'plain.legacy';

const ROOT = 'mesh-system';
type Mode = 'STRICT' | 'PERMISSIVE' | 'DISABLE' | 'UNSET';

export function peerAuthentication(
  namespace: string,
  mode: Mode | undefined,
  more: { readonly app?: string; readonly ports?: Readonly<Record<number, Mode>> } = {},
): Document {
  const { app, ports } = more;
  const spec = {
    ...(app === undefined ? {} : { selector: { matchLabels: { app } } }),
    ...(mode === undefined ? {} : { mtls: { mode } }),
    ...(ports === undefined
      ? {}
      : { portLevelMtls: Object.fromEntries(Object.entries(ports).map(([port, each]) => [port, { mode: each }])) }),
  };
  return resource('PeerAuthentication', `policy-${app ?? 'all'}`, spec, namespace);
}

/** A Sidecar whose only inbound port is unused. */
function sidecarElsewhere(app: string): Document {
  const ingress = [{ port: { number: 9999, name: 'http', protocol: 'HTTP' }, defaultEndpoint: '127.0.0.1:9999' }];
  return resource('Sidecar', 'elsewhere', { workloadSelector: { labels: { app } }, ingress }, 'foo');
}

type ClientMode = 'MESH_MUTUAL' | 'DISABLE';

function destinationRule(id: WorkloadId, mode: ClientMode, ports: Readonly<Record<number, ClientMode>> = {}): Document {
  const [name = '', namespace = ''] = id.split('.');
  const portLevelSettings = Object.entries(ports).map(([number, each]) => ({
    port: { number: Number(number) },
    tls: { mode: each },
  }));
  const trafficPolicy = { tls: { mode }, ...(portLevelSettings.length === 0 ? {} : { portLevelSettings }) };
  return resource(
    'DestinationRule',
    name,
    { host: `${name}.${namespace}.svc.cluster.local`, trafficPolicy },
    namespace,
  );
}

export interface Expectation {
  readonly from: WorkloadId;
  readonly to: WorkloadId;
  /** Default http. */
  readonly port?: Target;
  readonly is: string;
}

export interface Scenario {
  readonly name: string;
  readonly policies: () => readonly Document[];
  readonly expected: readonly Expectation[];
}

const REFUSED = '000/56';
const PROXIED: readonly WorkloadId[] = ['web.foo', 'api.foo', 'web.bar'];
export const ALL: readonly WorkloadId[] = [...PROXIED, 'bare.foo', 'plain.legacy'];
export const PLAIN: WorkloadId = 'plain.legacy';

/** Every client to one server. */
function clientsOf(to: WorkloadId, proxied: string, plain: string, port: Target = 'http'): Expectation[] {
  return [
    { from: 'web.bar', to, port, is: proxied },
    { from: 'api.foo', to, port, is: proxied },
    { from: PLAIN, to, port, is: plain },
  ];
}

/** A server without a proxy is reachable for every client, whatever the policy. */
const PLAIN_SERVER: readonly Expectation[] = PROXIED.flatMap((from) =>
  ([PLAIN, 'bare.foo'] as const).map((to) => ({ from, to, is: '200 plain' })),
);

export const EVERY_PORT: readonly Target[] = ['http', 'grpc', 'tcp', 'bytes'];
const isTcp = (port: Target): boolean => port === 'tcp' || port === 'bytes';

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'scope 1: STRICT in the root namespace, for the whole mesh',
    policies: () => [peerAuthentication(ROOT, 'STRICT')],
    expected: [...PROXIED.flatMap((to) => clientsOf(to, '200 mtls', REFUSED)), ...PLAIN_SERVER],
  },
  {
    name: 'DISABLE in the root namespace, without any DestinationRule',
    policies: () => [peerAuthentication(ROOT, 'DISABLE')],
    expected: [...PROXIED.flatMap((to) => clientsOf(to, '200 plain', '200 plain')), ...PLAIN_SERVER],
  },
  {
    name: 'scope 2: STRICT for one namespace',
    policies: () => [peerAuthentication('foo', 'STRICT')],
    expected: [
      ...clientsOf('web.foo', '200 mtls', REFUSED),
      ...clientsOf('api.foo', '200 mtls', REFUSED),
      ...clientsOf('web.bar', '200 mtls', '200 plain'),
      ...PLAIN_SERVER,
    ],
  },
  {
    name: 'scope 3: STRICT for one workload',
    policies: () => [peerAuthentication('foo', 'STRICT', { app: 'web' })],
    expected: [
      ...clientsOf('web.foo', '200 mtls', REFUSED),
      ...clientsOf('api.foo', '200 mtls', '200 plain'),
      ...clientsOf('web.bar', '200 mtls', '200 plain'),
    ],
  },
  {
    name: 'scope 4: DISABLE for a workload in a namespace that is STRICT',
    policies: () => [peerAuthentication('foo', 'STRICT'), peerAuthentication('foo', 'DISABLE', { app: 'web' })],
    expected: [...clientsOf('web.foo', '200 plain', '200 plain'), ...clientsOf('api.foo', '200 mtls', REFUSED)],
  },
  {
    name: 'scope 5: the same with a DestinationRule that says DISABLE',
    policies: () => [
      peerAuthentication('foo', 'STRICT'),
      peerAuthentication('foo', 'DISABLE', { app: 'web' }),
      destinationRule('web.foo', 'DISABLE'),
    ],
    expected: [...clientsOf('web.foo', '200 plain', '200 plain'), ...clientsOf('api.foo', '200 mtls', REFUSED)],
  },
  {
    name: 'scope 5: STRICT for a workload with a DestinationRule that says MESH_MUTUAL',
    policies: () => [peerAuthentication('bar', 'STRICT', { app: 'web' }), destinationRule('web.bar', 'MESH_MUTUAL')],
    expected: [...clientsOf('web.bar', '200 mtls', REFUSED), ...clientsOf('web.foo', '200 mtls', '200 plain')],
  },
  {
    name: 'a narrower scope wins: PERMISSIVE for a namespace in a mesh that is STRICT; UNSET inherits',
    policies: () => [
      peerAuthentication(ROOT, 'STRICT'),
      peerAuthentication('foo', 'PERMISSIVE'),
      peerAuthentication('foo', 'UNSET', { app: 'web' }),
      peerAuthentication('bar', 'UNSET'),
    ],
    expected: [
      ...clientsOf('web.foo', '200 mtls', '200 plain'),
      ...clientsOf('api.foo', '200 mtls', '200 plain'),
      ...clientsOf('web.bar', '200 mtls', REFUSED),
    ],
  },
  {
    name: 'a DestinationRule that says DISABLE to a server that is STRICT',
    policies: () => [peerAuthentication('foo', 'STRICT'), destinationRule('web.foo', 'DISABLE')],
    expected: [
      { from: 'web.bar', to: 'web.foo', is: '503' },
      { from: 'web.bar', to: 'api.foo', is: '200 mtls' },
      { from: 'web.bar', to: 'web.foo', port: 'tcp', is: 'cut' },
    ],
  },
  {
    name: 'a DestinationRule that says MESH_MUTUAL to a server without proxy',
    policies: () => [destinationRule(PLAIN, 'MESH_MUTUAL')],
    expected: [
      { from: 'web.bar', to: PLAIN, is: '503' },
      { from: 'web.bar', to: 'web.foo', is: '200 mtls' },
    ],
  },
  {
    name: 'STRICT, over every protocol',
    policies: () => [peerAuthentication('foo', 'STRICT')],
    expected: EVERY_PORT.flatMap((port) =>
      clientsOf('web.foo', isTcp(port) ? 'ok' : '200 mtls', isTcp(port) ? 'cut' : REFUSED, port),
    ),
  },
  {
    name: 'DISABLE, over every protocol',
    policies: () => [peerAuthentication('foo', 'DISABLE')],
    expected: EVERY_PORT.flatMap((port) => {
      const reached = isTcp(port) ? 'ok' : '200 plain';
      return clientsOf('web.foo', reached, reached, port);
    }),
  },
  {
    name: 'scope 6: DISABLE for a container port, its DestinationRule by the service port',
    policies: () => [
      peerAuthentication('foo', 'STRICT', { app: 'web', ports: { 8080: 'DISABLE', 9000: 'DISABLE' } }),
      destinationRule('web.foo', 'MESH_MUTUAL', { 80: 'DISABLE', 90: 'DISABLE' }),
    ],
    expected: [
      ...clientsOf('web.foo', '200 plain', '200 plain'),
      ...clientsOf('web.foo', '200 mtls', REFUSED, 'grpc'),
      ...clientsOf('web.foo', 'ok', 'ok', 'tcp'),
      ...clientsOf('web.foo', 'ok', 'cut', 'bytes'),
    ],
  },
  {
    name: 'scope 6: STRICT for a container port of a workload that is DISABLEd, without any DestinationRule',
    policies: () => [peerAuthentication('foo', 'DISABLE', { app: 'web', ports: { 8080: 'STRICT' } })],
    expected: [...clientsOf('web.foo', '200 mtls', REFUSED), ...clientsOf('web.foo', '200 plain', '200 plain', 'grpc')],
  },
  {
    name: 'scope 6: the number of a service port means nothing in a PeerAuthentication',
    policies: () => [peerAuthentication('foo', 'STRICT', { app: 'web', ports: { 80: 'DISABLE' } })],
    expected: clientsOf('web.foo', '200 mtls', REFUSED),
  },
  {
    name: 'scope 6: a port that is bound to no service is ignored, and has the mode of the workload',
    policies: () => [peerAuthentication('foo', 'STRICT', { app: 'web', ports: { 8088: 'DISABLE' } })],
    expected: [{ from: PLAIN, to: 'web.foo', port: 'unbound', is: REFUSED }],
  },
  {
    name: 'rule 2 on ports that a Sidecar does not list: to its proxy they are ports of no service',
    policies: () => [sidecarElsewhere('web')],
    expected: [
      ...clientsOf('web.foo', '200 mtls', '200 plain'),
      ...clientsOf('web.foo', '200 mtls', '200 plain', 'grpc'),
      ...clientsOf('web.foo', 'ok', 'ok', 'tcp'),
      ...clientsOf('web.foo', 'ok', 'ok', 'bytes'),
    ],
  },
  {
    name: 'the same ports under STRICT',
    policies: () => [sidecarElsewhere('web'), peerAuthentication('foo', 'STRICT')],
    expected: [
      ...clientsOf('web.foo', '200 mtls', REFUSED),
      ...clientsOf('web.foo', '200 mtls', REFUSED, 'grpc'),
      ...clientsOf('web.foo', 'ok', 'cut', 'tcp'),
      ...clientsOf('web.foo', 'ok', 'cut', 'bytes'),
    ],
  },
];
