/**
 * Which connections an inbound port accepts: mutual TLS of the mesh, plain text, or both, distinguished by a
 * connection's first bytes. TLS that is not the mesh's belongs to the application and is passed through, unless a
 * Sidecar terminates it.
 */
import { type MutualTlsMode, modeOfPort } from '../../model/index.ts';
import type { ServerTlsSettings } from '../../resources/index.ts';
import { HTTP_INSIDE, MESH_TLS, meshServerSocket } from '../common/index.ts';
import {
  type FilterChain,
  type FilterChainMatch,
  hasExtension,
  type ProtocolKind,
  TLS_INSPECTOR,
  tellsClients,
} from '../filters/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { InboundView } from '../views.ts';
import { downstreamTls, HANDSHAKE_LIMIT } from './downstream-tls.ts';
import { besideSniffedHttp, SNIFFED_HTTP } from './listener-filters.ts';

/**
 * The policy's mode, or `REFUSE` if the policy requires mutual TLS and the proxy has no certificates: the proxy then
 * refuses all connections, and never accepts weaker ones instead.
 */
export type Access = MutualTlsMode | 'REFUSE';

/** The access to a port that services are bound to; without `port`, the access to all other ports. */
export function accessTo(view: InboundView, port?: number): Access {
  const { peerAuthentication, capabilities } = view;
  const mode = port === undefined ? peerAuthentication.mode : modeOfPort(peerAuthentication, port);
  if (!capabilities.sds) return mode === 'STRICT' ? 'REFUSE' : 'DISABLE';
  // Without the TLS inspector, TLS and plain text cannot be distinguished.
  return mode === 'PERMISSIVE' && !hasExtension(view, TLS_INSPECTOR) ? 'DISABLE' : mode;
}

/** Whether connections must be inspected for TLS. */
export function inspectsTls(access: Access): boolean {
  return access !== 'DISABLE';
}

/**
 * How accepted connections are encrypted: not at all, with mutual TLS of the mesh, or with the port's own TLS (a
 * Sidecar's ingress), whose clients are outside the mesh.
 */
export type Encryption = 'none' | 'mesh' | 'own';

export interface Guarded {
  readonly kind: ProtocolKind;
  readonly match: FilterChainMatch;
  readonly access: Access;
  /** The port's own TLS, which replaces plain text. */
  readonly ownTls?: ServerTlsSettings | undefined;
  readonly http: (encryption: Encryption) => FilterChain['filters'];
  readonly tcp: (encryption: Encryption) => FilterChain['filters'];
  /** The filters of a refused connection. */
  readonly blackhole: () => FilterChain['filters'];
  /** Prefix of the chains' names; without it the chains have no names. */
  readonly name?: (inside: 'http' | 'tcp') => string;
}

/**
 * The filter chains of a port. Envoy matches the port before the transport protocol and does not backtrack: a port
 * without a chain for plain text refuses plain text, even if another chain matches all ports.
 */
export function guardedChains(snapshot: MeshReader, view: InboundView, guarded: Guarded): FilterChain[] {
  const { kind, match, access, ownTls } = guarded;
  const chains = chainsOf(snapshot, view, guarded);
  const { bytes, requests, mutual, own, refused } = chains;
  switch (access) {
    case 'REFUSE':
      return [refused()];
    case 'DISABLE': {
      if (ownTls !== undefined) return own(ownTls) ?? [refused()];
      if (kind === 'tcp') return [bytes(match)];
      if (kind === 'http') return [requests(match)];
      return [requests({ ...match, ...SNIFFED_HTTP }), ...besideSniffedHttp(bytes(match))];
    }
    case 'STRICT':
      // Clients with a mesh certificate may omit the ALPN names of the mesh.
      return kind === 'auto' ? [mutual('http', HTTP_INSIDE), mutual('tcp', [])] : [mutual(kind, [])];
    case 'PERMISSIVE': {
      const ofMesh =
        kind === 'auto' ? [mutual('http', HTTP_INSIDE), mutual('tcp', BYTES_INSIDE)] : [mutual(kind, MESH_TLS)];
      return [...ofMesh, ...(ownTls === undefined ? chains.unencrypted() : (own(ownTls) ?? []))];
    }
  }
}

/** Builds each kind of filter chain that a port can have. */
function chainsOf(
  { settings, mesh }: MeshReader,
  view: InboundView,
  { kind, match, http, tcp, blackhole, name }: Guarded,
) {
  const tls: FilterChainMatch = hasExtension(view, TLS_INSPECTOR) ? { ...match, transportProtocol: 'tls' } : match;
  const chain = (
    inside: 'http' | 'tcp',
    when: FilterChainMatch,
    filters: FilterChain['filters'],
    suffix = '',
  ): FilterChain => ({
    ...(name !== undefined && { name: `${name(inside)}${suffix}` }),
    ...matching(when),
    filters,
  });
  const bytesOfMesh = tellsClients(settings, view) ? 'peer-exchange' : 'tcp';
  const bytes = (when: FilterChainMatch, suffix?: string) => chain('tcp', when, tcp('none'), suffix);
  const requests = (when: FilterChainMatch) => chain('http', when, http('none'));
  return {
    bytes,
    requests,
    refused: () => chain('tcp', tls, blackhole()),
    mutual: (inside: 'http' | 'tcp', applicationProtocols: readonly string[]): FilterChain => ({
      ...chain(
        inside,
        applicationProtocols.length > 0 ? { ...tls, applicationProtocols } : tls,
        inside === 'http' ? http('mesh') : tcp('mesh'),
        '-mtls',
      ),
      transportSocket: meshServerSocket(settings, mesh, inside === 'http' ? 'http' : bytesOfMesh),
    }),
    /** Undefined if the port is closed, or its settings do not name the protocol inside TLS. */
    own: (settings: ServerTlsSettings): FilterChain[] | undefined => {
      if (settings.closed !== undefined || kind === 'auto') return undefined;
      const transportSocket = downstreamTls(settings, undefined, view.capabilities.sds, kind);
      return [{ ...chain(kind, tls, kind === 'http' ? http('own') : tcp('own')), ...HANDSHAKE_LIMIT, transportSocket }];
    },
    /** Plain text, and TLS of the application, which is passed through. */
    unencrypted: (): FilterChain[] => {
      const { transportProtocol } = SNIFFED_HTTP;
      const plain = { ...match, transportProtocol };
      const foreign = bytes(tls, '-tls');
      if (kind === 'tcp') return [bytes(plain), foreign];
      if (kind === 'http') return [requests(plain), foreign];
      return [requests({ ...match, ...SNIFFED_HTTP }), bytes(plain), foreign];
    },
  };
}

const BYTES_INSIDE = MESH_TLS.filter((name) => !HTTP_INSIDE.some((http) => http === name));

function matching(filterChainMatch: FilterChainMatch): Pick<FilterChain, 'filterChainMatch'> {
  return Object.keys(filterChainMatch).length === 0 ? {} : { filterChainMatch };
}
