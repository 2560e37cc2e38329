/**
 * Debug pages over xDS, in the forms that command lines of Istio read: `istio.io/debug` has the JSON of the page that a
 * request names, `istio.io/debug/syncz` what proxies were sent and acknowledged (`ClientConfig` of
 * envoy/service/status/v3/csds.proto), `istio.io/debug/config_dump` the sections of a configuration dump
 * (envoy/admin/v3/config_dump_shared.proto).
 */
import { CtlError } from '../core/errors.ts';
import { XDS, type XdsType } from '../core/xds-types.ts';
import { encode, envoy } from '../protobuf/index.ts';
import { encodeFields, type FieldToWrite } from '../protobuf/wire/index.ts';
import type { ConnectionStatus, EncodedResource, TypeStatus } from '../push/index.ts';
import type { DebugAnswer, DebugQuestion } from '../xds/index.ts';
import { pagePieces } from './json-pieces.ts';
import { connectionsFor, type DebugCall, type Page } from './page.ts';
import { hostsOf, resourcesOf, stateOf } from './proxies.ts';
import { shownBytes } from './shown-bytes.ts';
import { Viewed } from './viewed.ts';

type PageTable = Readonly<Record<string, Page>>;

/** By these texts, Istio's command line recognizes what went wrong. */
const NO_SUCH_PAGE = '404 page not found';
const PROXY_MISSING = 'You must provide a proxyID in the query string';
const PROXY_UNKNOWN = 'Proxy not connected to this Pilot instance. It may be connected to another instance.';

const TYPE = 'type.googleapis.com/';

/** Rejects with CtlError when the page cannot be built, or for another type. */
export function overXds(question: DebugQuestion, call: DebugCall, pages: PageTable): Promise<DebugAnswer> {
  switch (question.typeUrl) {
    case 'istio.io/debug':
      return namedPage(question, call, pages);
    case 'istio.io/debug/syncz':
      return syncz(question, call);
    case 'istio.io/debug/config_dump':
      return configDump(question, call);
    default:
      throw new CtlError('not_found', `no debug page ${question.typeUrl.slice(0, 256)}`);
  }
}

/** The one page that a request names: `syncz`, `config_dump?proxyID=web.shop`. */
async function namedPage({ names, typeUrl, ...client }: DebugQuestion, call: DebugCall, pages: PageTable) {
  const [name = ''] = names;
  if (names.length !== 1) throw new CtlError('invalid_argument', 'expected the name of one debug page');
  const url = URL.parse(`http://localhost/debug/${name}`);
  const path = url?.pathname.slice('/debug/'.length) ?? '';
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (url === null || page === undefined) return textAnswer(name, typeUrl, NO_SUCH_PAGE);
  const pieces = () => {
    const answer = page.answer(new Viewed(call.source, call.viewer), url.searchParams);
    return answer === undefined ? undefined : pagePieces(answer);
  };
  const made = await call.maker.make(pieces, client);
  if (made === undefined) {
    return textAnswer(name, typeUrl, url.searchParams.get('proxyID') ? PROXY_UNKNOWN : PROXY_MISSING);
  }
  return { resources: [{ name, typeUrl, value: Buffer.concat(made.chunks) }], release: made.release };
}

function textAnswer(name: string, typeUrl: string, text: string): DebugAnswer {
  return { resources: [{ name, typeUrl, value: Buffer.from(`${text}\n`) }], release: () => {} };
}

async function syncz(client: DebugQuestion, { source, viewer, maker }: DebugCall): Promise<DebugAnswer> {
  const names: string[] = [];
  const pieces = function* () {
    for (const connection of new Viewed(source, viewer).connections()) {
      names.push(connection.node.workload);
      yield clientConfig(connection);
    }
  };
  const made = await maker.make(pieces, client);
  const typeUrl = `${TYPE}envoy.service.status.v3.ClientConfig`;
  const resources = made?.chunks.map((value, index) => ({ name: names[index] ?? '', typeUrl, value }));
  return { resources: resources ?? [], release: () => made?.release() };
}

/** `ConfigStatus` of csds.proto. */
const CONFIG_STATUS: Readonly<Record<ReturnType<typeof stateOf>, number>> = {
  SYNCED: 1,
  'NOT SENT': 2,
  STALE: 3,
  REJECTED: 4,
};

/** ClientConfig: node = 1, generic_xds_configs = 3. */
function clientConfig({ node, types }: ConnectionStatus): Uint8Array {
  const text = (stringValue: string) => ({ stringValue });
  const fields = {
    CLUSTER_ID: text(node.clusterId),
    NAMESPACE: text(node.namespace),
    ISTIO_VERSION: text(node.meshVersion === '' ? node.version : node.meshVersion),
  };
  const encoded = encode(envoy.config.core.v3.Node, { id: node.workload, metadata: { fields } });
  const configs = [...types].flatMap(([type, status]): FieldToWrite[] => {
    return status.subscribed === 'none' ? [] : [[3, genericConfig(type, status)]];
  });
  return encodeFields([[1, encoded], ...configs]);
}

/** GenericXdsConfig: type_url = 1, config_status = 6, error_state = 8 (UpdateFailureState: details = 3). */
function genericConfig(type: XdsType, status: TypeStatus): Uint8Array {
  const state = stateOf(status);
  const rejected = state === 'REJECTED' ? status.lastNack?.message : undefined;
  const error: FieldToWrite[] = rejected === undefined ? [] : [[8, encodeFields([[3, rejected]])]];
  return encodeFields([[1, XDS[type].url], [6, CONFIG_STATUS[state]], ...error]);
}

/** A section of a dump: how a resource is a field of its message. */
interface SectionForm {
  readonly message: string;
  readonly type: XdsType;
  readonly field: (resource: EncodedResource, any: Uint8Array) => Uint8Array;
}

const VERSIONED = (number: number) => (resource: EncodedResource, any: Uint8Array) =>
  encodeFields([
    [
      number,
      encodeFields([
        [1, resource.version],
        [2, any],
      ]),
    ],
  ]);

/** Field numbers of envoy/admin/v3/config_dump_shared.proto and config_dump.proto. */
const SECTIONS: readonly SectionForm[] = [
  { message: 'ClustersConfigDump', type: 'cds', field: VERSIONED(3) },
  { message: 'EndpointsConfigDump', type: 'eds', field: VERSIONED(3) },
  {
    message: 'ListenersConfigDump',
    type: 'lds',
    // DynamicListener: name = 1, active_state = 2.
    field: ({ name, version }, any) =>
      encodeFields([
        [
          3,
          encodeFields([
            [1, name],
            [
              2,
              encodeFields([
                [1, version],
                [2, any],
              ]),
            ],
          ]),
        ],
      ]),
  },
  { message: 'RoutesConfigDump', type: 'rds', field: VERSIONED(3) },
  {
    message: 'SecretsConfigDump',
    type: 'sds',
    // DynamicSecret: name = 1, version_info = 2, secret = 4.
    field: ({ name, version }, any) =>
      encodeFields([
        [
          2,
          encodeFields([
            [1, name],
            [2, version],
            [4, any],
          ]),
        ],
      ]),
  },
  { message: 'EcdsConfigDump', type: 'ecds', field: VERSIONED(1) },
];

/** The sections of one proxy's dump; none for a proxy that is not connected here. */
async function configDump(client: DebugQuestion, { source, viewer, maker }: DebugCall): Promise<DebugAnswer> {
  const [proxyID = ''] = client.names;
  if (client.names.length !== 1 || proxyID === '') {
    throw new CtlError('invalid_argument', 'expected the name of one proxy: pod.namespace');
  }
  const counts: number[] = [];
  const pieces = () => {
    const mesh = new Viewed(source, viewer);
    const [connection] = connectionsFor(mesh, new URLSearchParams({ proxyID }));
    return connection && sectionPieces(mesh, connection, counts);
  };
  const made = await maker.make(pieces, client);
  if (made === undefined) return { resources: [], release: () => {} };
  let first = 0;
  const sections = SECTIONS.map(({ message }, index) => {
    const chunks = made.chunks.slice(first, first + (counts[index] ?? 0));
    first += chunks.length;
    return { name: '', typeUrl: `${TYPE}envoy.admin.v3.${message}`, value: Buffer.concat(chunks) };
  });
  const bootstrap = { name: '', typeUrl: `${TYPE}envoy.admin.v3.BootstrapConfigDump`, value: new Uint8Array() };
  return { resources: [bootstrap, ...sections], release: made.release };
}

/** One piece for each resource; `counts` gets the number of pieces of each section. */
function* sectionPieces(mesh: Viewed, connection: ConnectionStatus, counts: number[]): Generator<Uint8Array> {
  const hosts = resourcesOf(mesh, connection, 'vhds');
  for (const { type, field } of SECTIONS) {
    const resources = resourcesOf(mesh, connection, type);
    counts.push(resources.length);
    for (const resource of resources) {
      // RouteConfiguration: virtual_hosts = 2. Those of VHDS are appended, as repeated fields may be.
      const discovered = type === 'rds' ? hostsOf(hosts, resource.name) : [];
      const more = discovered.map((host) => encodeFields([[2, shownBytes('vhds', host)]]));
      const value = Buffer.concat([shownBytes(type, resource), ...more]);
      yield field(
        resource,
        encodeFields([
          [1, XDS[type].url],
          [2, value],
        ]),
      );
    }
  }
}
