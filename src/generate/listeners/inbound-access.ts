/**
 * Which connections an inbound port accepts: mutual TLS of the mesh, plain text, or both, distinguished by a
 * connection's first bytes. TLS that is not the mesh's belongs to the application and is passed through.
 */
import { type MutualTlsMode, modeOfPort } from '../../model/index.ts';
import { HTTP_INSIDE, MESH_TLS, meshServerSocket } from '../common/index.ts';
import {
  type FilterChain,
  type FilterChainMatch,
  hasExtension,
  type ProtocolKind,
  TLS_INSPECTOR,
} from '../filters/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { InboundView } from '../types.ts';
import { besideSniffedHttp, SNIFFED_HTTP } from './listener-filters.ts';

/**
 * Like the policy's mode; `REFUSE` where mutual TLS is required of a proxy without certificates: it never accepts
 * weaker connections instead.
 */
export type Access = MutualTlsMode | 'REFUSE';

/** The access to a port that services are bound to; without one, to all others. */
export function accessTo(view: InboundView, port?: number): Access {
  const { peerAuthentication, capabilities } = view;
  const mode = port === undefined ? peerAuthentication.mode : modeOfPort(peerAuthentication, port);
  if (!capabilities.sds) return mode === 'STRICT' ? 'REFUSE' : 'DISABLE';
  // Without the inspector TLS and plain text cannot be distinguished.
  return mode === 'PERMISSIVE' && !hasExtension(view, TLS_INSPECTOR) ? 'DISABLE' : mode;
}

/** Whether connections must be inspected for TLS. */
export function inspectsTls(access: Access): boolean {
  return access !== 'DISABLE';
}

/** The filters of a port's connections. */
export interface Guarded {
  readonly kind: ProtocolKind;
  readonly match: FilterChainMatch;
  readonly access: Access;
  /** The HTTP filter; `mutual`: inside mutual TLS. */
  readonly http: (mutual: boolean) => FilterChain['filters'];
  readonly tcp: () => FilterChain['filters'];
  /** For a connection that is refused. */
  readonly nowhere: () => FilterChain['filters'];
  /** Prefix of the chains' names; without it the chains have no names. */
  readonly name?: (inside: 'http' | 'tcp') => string;
}

/**
 * The filter chains of a port. Envoy chooses the port and then the transport and never goes back: a port without a
 * chain for plain text is closed to it, even if another chain takes all ports.
 */
export function guardedChains(
  { settings, mesh }: MeshReader,
  view: InboundView,
  { kind, match, access, http, tcp, nowhere, name }: Guarded,
): FilterChain[] {
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
  const bytes = (when: FilterChainMatch, suffix?: string) => chain('tcp', when, tcp(), suffix);
  const requests = (when: FilterChainMatch) => chain('http', when, http(false));
  const mutual = (inside: 'http' | 'tcp', applicationProtocols: readonly string[]): FilterChain => ({
    ...chain(
      inside,
      applicationProtocols.length > 0 ? { ...tls, applicationProtocols } : tls,
      inside === 'http' ? http(true) : tcp(),
      '-mtls',
    ),
    transportSocket: meshServerSocket(settings, mesh, inside),
  });
  switch (access) {
    case 'REFUSE':
      return [chain('tcp', tls, nowhere())];
    case 'DISABLE': {
      if (kind === 'tcp') return [bytes(match)];
      if (kind === 'http') return [requests(match)];
      return [requests({ ...match, ...SNIFFED_HTTP }), ...besideSniffedHttp(bytes(match))];
    }
    case 'STRICT':
      // Clients with a mesh certificate may omit its protocol names.
      return kind === 'auto' ? [mutual('http', HTTP_INSIDE), mutual('tcp', [])] : [mutual(kind, [])];
    case 'PERMISSIVE': {
      const { transportProtocol } = SNIFFED_HTTP;
      const plain = { ...match, transportProtocol };
      const foreign = bytes(tls, '-tls');
      if (kind === 'tcp') return [mutual('tcp', MESH_TLS), bytes(plain), foreign];
      if (kind === 'http') return [mutual('http', MESH_TLS), requests(plain), foreign];
      return [
        mutual('http', HTTP_INSIDE),
        mutual('tcp', BYTES_INSIDE),
        requests({ ...match, ...SNIFFED_HTTP }),
        bytes(plain),
        foreign,
      ];
    }
  }
}

const BYTES_INSIDE = MESH_TLS.filter((name) => !HTTP_INSIDE.some((http) => http === name));

function matching(filterChainMatch: FilterChainMatch): Pick<FilterChain, 'filterChainMatch'> {
  return Object.keys(filterChainMatch).length === 0 ? {} : { filterChainMatch };
}
