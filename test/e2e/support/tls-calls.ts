/** HTTPS requests of tests, and the result of their TLS handshake. */
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import type { SecureVersion, TLSSocket } from 'node:tls';
import type { EchoReply } from '../../harness/index.ts';
import type { CertificateFiles } from './foreign-certificate.ts';

export interface TlsCall {
  readonly address: string;
  readonly port: number;
  /** TLS server name; '' sends none. */
  readonly serverName: string;
  /** `Host` header; default the server name. */
  readonly host?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly certificate?: CertificateFiles;
  /** The only version that is offered; default: those of Node. */
  readonly version?: SecureVersion;
  readonly ciphers?: string;
}

export interface TlsOutcome {
  readonly status: number;
  /** Name of the backend; undefined when Envoy answered itself. */
  readonly by: string | undefined;
  readonly reply: EchoReply | undefined;
  /** DNS names of the server's certificate. */
  readonly names: string;
  readonly version: string | null;
  readonly cipher: string;
}

/** Rejects when there is no answer: the handshake failed, or the connection was closed. */
export function tlsCall(options: TlsCall): Promise<TlsOutcome> {
  const { address, port, serverName, host = serverName, path = '/', headers = {}, certificate, version } = options;
  return new Promise((resolve, reject) => {
    const outgoing = request({
      agent: false,
      host: address,
      port,
      path,
      servername: serverName,
      // The test looks at the server's certificate itself.
      rejectUnauthorized: false,
      signal: AbortSignal.timeout(20_000),
      headers: { ...(host === '' ? {} : { host }), connection: 'close', ...headers },
      ...(certificate === undefined
        ? {}
        : { cert: readFileSync(certificate.certificate), key: readFileSync(certificate.key) }),
      ...(version === undefined ? {} : { minVersion: version, maxVersion: version }),
      // OpenSSL offers the oldest versions and suites only at a lower security level.
      ciphers: `${options.ciphers ?? 'ALL'}:@SECLEVEL=0`,
    });
    outgoing.once('error', reject);
    outgoing.once('response', (incoming) => {
      // After the end of the connection this is no longer available.
      const socket = incoming.socket as TLSSocket;
      const [version, cipher, names] = [
        socket.getProtocol(),
        socket.getCipher().name,
        socket.getPeerCertificate().subjectaltname ?? '',
      ];
      let body = '';
      incoming.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      incoming.once('error', reject);
      incoming.once('end', () => {
        const by = incoming.headers['x-echo'];
        const echoed = typeof by === 'string';
        resolve({
          status: incoming.statusCode ?? 0,
          by: echoed ? by : undefined,
          reply: echoed ? (JSON.parse(body) as EchoReply) : undefined,
          names,
          version,
          cipher,
        });
      });
    });
    outgoing.end();
  });
}
