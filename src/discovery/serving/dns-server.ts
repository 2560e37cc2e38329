/**
 * DNS over TLS for agents (DNS_ADDR, DNS_AGENT). Resolves mesh names that the caller's namespace sees itself, and all
 * others through the name servers of this machine or DNS_SERVER. Callers present a certificate of the mesh.
 */
import { constants } from 'node:crypto';
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { parseSpiffeUri, spiffeUri } from '../../core/identity.ts';
import { type Closers, type Part, startParts } from '../../core/process/closers.ts';
import {
  createForwarder,
  createOwnAddresses,
  createTableResolver,
  type DnsServerTls,
  followResolvConf,
  parseTlsServer,
  resolvConfUpstream,
  startDnsServer,
  tlsUpstream,
  type UpstreamSource,
} from '../../dns/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Engine } from '../../push/index.ts';
import { shownBy } from '../../security/index.ts';
import type { ListenAddress } from '../../settings/index.ts';
import type { MeshIdentity } from '../identity/identity.ts';
import type { OwnCertificate } from '../identity/own-certificate.ts';
import { NamesOfNamespaces } from './names-of-namespaces.ts';

export interface DnsServing {
  /** The address to listen on; without a host, all addresses of the machine. */
  readonly address: ListenAddress;
  /** DNS_SERVER; empty: the name servers of this machine. */
  readonly dnsServer: string;
  /** Domain of the mesh: `cluster.local`. */
  readonly domain: string;
  readonly engine: Pick<Engine, 'snapshot'>;
  readonly certificate: OwnCertificate;
  readonly callers: MeshIdentity['callers'];
}

/** A client address may use at most half. */
const MAX_CONNECTIONS = 4096;

/** Rejects with CtlError when an address cannot be bound. */
export function serveDns(serving: DnsServing): Promise<Part> {
  return startParts(getScope('default'), (closers) => serve(serving, closers));
}

async function serve(serving: DnsServing, closers: Closers): Promise<{ readonly addresses: readonly string[] }> {
  const { address, domain, engine, certificate, callers } = serving;
  const log = getScope('default');
  /** Empty until it listens. */
  let own: readonly string[] = [];
  const forwarder = createForwarder({ upstream: await upstreamOf(serving.dnsServer, () => own, closers), log });
  closers.use(forwarder);
  const names = new NamesOfNamespaces({ snapshot: () => engine.snapshot, now: systemClock.now });
  const table = createTableResolver({
    scope({ identity: uri }) {
      const namespace = uri === undefined ? undefined : parseSpiffeUri(uri)?.namespace;
      // Unreachable: the server closes connections from clients without an identity.
      if (namespace === undefined) return undefined;
      return { table: names.of(namespace), namespace, domain: `svc.${domain}` };
    },
  });
  const tls = tlsOf(certificate, async (socket) => {
    const credentials = {
      certificates: shownBy(socket).certificates,
      bearer: undefined,
      peer: socket.remoteAddress ?? '',
    };
    if (credentials.certificates.length === 0) return undefined;
    const caller = await callers.authenticate(credentials);
    const { trustDomain } = caller.identity;
    const { settings: home, mesh } = engine.snapshot;
    // Namespaces of other trust domains are different namespaces, even if their names match.
    if (![home.trustDomain, ...mesh.trustDomainAliases].includes(trustDomain))
      throw new CtlError('permission_denied', `${spiffeUri(caller.identity)} is not in the trust domain of this mesh`);
    return spiffeUri(caller.identity);
  });
  const { close, addresses } = await startDnsServer({
    listen: [{ host: address.host, port: address.port, tls }],
    resolvers: [table, forwarder],
    // Only clients with a certificate.
    clients: 'any',
    // Each agent keeps one connection while it has queries.
    limits: { maxConnections: MAX_CONNECTIONS },
    log,
  });
  own = addresses;
  closers.add(close);
  log.info('DNS over TLS is served only to workloads of the mesh', { addresses: addresses.join(', ') });
  return { addresses };
}

async function upstreamOf(dnsServer: string, own: () => readonly string[], closers: Closers): Promise<UpstreamSource> {
  const log = getScope('default');
  if (dnsServer !== '') return tlsUpstream({ server: parseTlsServer(dnsServer), certificates: () => ({}), log });
  const conf = await followResolvConf({ path: '/etc/resolv.conf', log });
  closers.use(conf);
  return resolvConfUpstream({ conf, isOwn: createOwnAddresses(own), log });
}

/** No tickets: a resumed session lacks the intermediates of the client's certificate. */
const SECURE_OPTIONS = constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION;

type Identify = NonNullable<DnsServerTls['clients']>['identify'];

function tlsOf(certificate: OwnCertificate, identify: Identify): DnsServerTls {
  return {
    context() {
      const { chain, key } = certificate.pair();
      // The server does not list accepted CAs: if it did, some clients would present no certificate.
      return { cert: chain, key, ca: [], minVersion: 'TLSv1.2', secureOptions: SECURE_OPTIONS };
    },
    onRenew: (listener) => certificate.onChange(listener),
    clients: { required: true, identify },
  };
}
