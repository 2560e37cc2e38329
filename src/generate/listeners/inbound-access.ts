/**
 * Who gets in at an inbound port, and how: mutual TLS of the mesh, plain text, or both side by side, told apart by a connection's
 * first bytes. TLS that is not the mesh's belongs to the application and is passed on as it is.
 */
import { modeOfPort } from '../../model/index.ts';
import type { MutualTlsMode, Snapshot } from '../../model/types.ts';
import { HTTP_INSIDE, MESH_TLS, meshServerSocket } from '../mesh-tls.ts';
import type { InboundView } from '../types.ts';
import { hasExtension, TLS_INSPECTOR } from './extensions.ts';
import { besideSniffedHttp, SNIFFED_HTTP } from './listener-filters.ts';
import type { ProtocolKind } from './protocol-kind.ts';
import type { FilterChain, FilterChainMatch } from './tcp-proxy.ts';

/** Like the policy's mode; `REFUSE` where mutual TLS is demanded of a proxy that cannot do it: never open in a weaker way. */
export type Access = MutualTlsMode | 'REFUSE';

/** The access to a port that services are bound to; without one, to all others. */
export function accessTo(view: InboundView, port?: number): Access {
  const { peerAuthentication, capabilities } = view;
  const mode = port === undefined ? peerAuthentication.mode : modeOfPort(peerAuthentication, port);
  if (!capabilities.sds) return mode === 'STRICT' ? 'REFUSE' : 'DISABLE';
  // Without the inspector TLS and plain text cannot be told apart.
  return mode === 'PERMISSIVE' && !hasExtension(view, TLS_INSPECTOR) ? 'DISABLE' : mode;
}

/** Whether it has to be known of a connection whether it begins with TLS. */
export function inspectsTls(access: Access): boolean {
  return access !== 'DISABLE';
}

/** What a port's connections come to. */
export interface Guarded {
  readonly kind: ProtocolKind;
  readonly match: FilterChainMatch;
  readonly access: Access;
  /** The filter of HTTP; `mutual`: inside mutual TLS. */
  readonly http: (mutual: boolean) => FilterChain['filters'];
  readonly tcp: () => FilterChain['filters'];
  /** Of a connection that is refused. */
  readonly nowhere: () => FilterChain['filters'];
  /** Begins the chains' names, where they shall have one. */
  readonly name?: string;
}

/**
 * The filter chains of a port. Envoy settles on port and transport one after the other and never goes back: a port that has no
 * chain for plain text is closed to it, also where another chain takes all ports.
 */
export function guardedChains(
  { settings, mesh }: Snapshot,
  view: InboundView,
  { kind, match, access, http, tcp, nowhere, name }: Guarded,
): FilterChain[] {
  const named = (suffix: string) => (name === undefined ? {} : { name: `${name}${suffix}` });
  const tls: FilterChainMatch = hasExtension(view, TLS_INSPECTOR) ? { ...match, transportProtocol: 'tls' } : match;
  const chain = (when: FilterChainMatch, filters: FilterChain['filters'], suffix = ''): FilterChain => ({
    ...named(suffix),
    ...matching(when),
    filters,
  });
  const mutual = (inside: 'http' | 'tcp', applicationProtocols: readonly string[]): FilterChain => ({
    ...chain(
      applicationProtocols.length > 0 ? { ...tls, applicationProtocols } : tls,
      inside === 'http' ? http(true) : tcp(),
      '-mtls',
    ),
    transportSocket: meshServerSocket(settings, mesh, inside),
  });
  switch (access) {
    case 'REFUSE':
      return [chain(tls, nowhere())];
    case 'DISABLE': {
      const bytes = chain(match, tcp());
      if (kind === 'tcp') return [bytes];
      if (kind === 'http') return [chain(match, http(false))];
      return [chain({ ...match, ...SNIFFED_HTTP }, http(false)), ...besideSniffedHttp(bytes)];
    }
    case 'STRICT':
      // Whoever has a certificate of the mesh may come without its protocol names.
      return kind === 'auto' ? [mutual('http', HTTP_INSIDE), mutual('tcp', [])] : [mutual(kind, [])];
    case 'PERMISSIVE': {
      const { transportProtocol } = SNIFFED_HTTP;
      const plain = { ...match, transportProtocol };
      const foreign = chain(tls, tcp(), '-tls');
      if (kind === 'tcp') return [mutual('tcp', MESH_TLS), chain(plain, tcp()), foreign];
      if (kind === 'http') return [mutual('http', MESH_TLS), chain(plain, http(false)), foreign];
      return [
        mutual('http', HTTP_INSIDE),
        mutual('tcp', BYTES_INSIDE),
        chain({ ...match, ...SNIFFED_HTTP }, http(false)),
        chain(plain, tcp()),
        foreign,
      ];
    }
  }
}

const BYTES_INSIDE = MESH_TLS.filter((name) => !HTTP_INSIDE.some((http) => http === name));

function matching(filterChainMatch: FilterChainMatch): Pick<FilterChain, 'filterChainMatch'> {
  return Object.keys(filterChainMatch).length === 0 ? {} : { filterChainMatch };
}
