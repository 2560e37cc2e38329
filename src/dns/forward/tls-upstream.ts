/** A DNS server that is only queried over TLS (RFC 7858): if it cannot be verified, no query is sent. */
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import { CtlError } from '../../core/errors.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import { hostPort } from '../../core/network/listen.ts';
import { createStreamUpstream } from './stream-upstream.ts';
import type { UpstreamSource } from './upstream.ts';

/** The address of a DNS server over TLS. */
export interface TlsServerAddress {
  /** Host name or IP address; its certificate must be valid for it. */
  readonly host: string;
  readonly port: number;
}

/** Certificates for a connection; they are read for each connection. */
export interface TlsClientCertificates {
  /** PEM certificates that the server's certificate may be signed by; undefined: those of the system. */
  readonly ca?: string | undefined;
  /** PEM: the client's own certificate with its chain, and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

export interface TlsUpstreamOptions {
  readonly server: TlsServerAddress;
  /** The name for which its certificate must be valid; default: its host. */
  readonly serverName?: string | undefined;
  certificates(): TlsClientCertificates;
  readonly log: Log;
}

const SCHEME = 'tcp-tls:';
/** RFC 7858 section 3.1. */
const DEFAULT_PORT = 853;
const ATTEMPTS = 2;
const TIMEOUT_MS = 3000;
/** Idle timeout, ms: handshakes are expensive, and servers usually wait longer (RFC 7766 section 6.2.3). */
const IDLE_MS = 10_000;

/** Reads DNS_SERVER: `tcp-tls:HOST[:PORT]`. Throws CtlError invalid_argument for any other value. */
export function parseTlsServer(text: string): TlsServerAddress {
  const expected = new CtlError('invalid_argument', `${JSON.stringify(text)}: expected tcp-tls:HOST:PORT`);
  if (!text.startsWith(SCHEME)) throw expected;
  const match = /^(?:\[([^\]]+)\]|([^:[\]\s/]+))(?::(\d{1,5}))?$/.exec(text.slice(SCHEME.length));
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? DEFAULT_PORT);
  if (host === undefined || port === 0 || port > 65_535) throw expected;
  if (match?.[1] !== undefined && isIP(host) !== 6) throw expected;
  return { host, port };
}

/**
 * One connection for all queries, opened when there is a query. A server whose certificate is not valid is logged once;
 * queries then fail, and the next connection is tried after a backoff.
 */
export function tlsUpstream({ server, serverName, certificates, log }: TlsUpstreamOptions): UpstreamSource {
  const { host, port } = server;
  const servername = serverName ?? (isIP(host) === 0 ? host : undefined);
  const name = `${hostPort(server)} over TLS`;
  const upstream = createStreamUpstream({
    name,
    ready: 'secureConnect',
    idleMs: IDLE_MS,
    report: createFailureLog(log, `the DNS server ${name} cannot be used`, `the DNS server ${name} responds again`),
    dial: () => {
      const { ca, cert, key } = certificates();
      return connect({
        host,
        port,
        ...(servername === undefined ? {} : { servername }),
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined || key === undefined ? {} : { cert, key }),
        minVersion: 'TLSv1.2',
        ALPNProtocols: ['dot'],
        rejectUnauthorized: true,
      });
    },
  });
  return {
    current: () => ({ upstreams: [upstream], attempts: ATTEMPTS, timeoutMs: TIMEOUT_MS }),
    sent: () => false,
    close: () => upstream.close(),
  };
}
