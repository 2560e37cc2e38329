/** HTTPS requests of end users. */
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import type { CertificateSet } from '../../../src/agent/identity/testing/certificates.ts';

export interface HttpsTarget {
  readonly address: string;
  readonly port: number;
  readonly host: string;
  /** Server name of the handshake, where it is not the host. */
  readonly sni?: string;
  readonly root: string;
  readonly client?: CertificateSet;
}

export interface HttpsAnswer {
  readonly status: number;
  readonly by: string;
  /** The server's certificate, PEM. */
  readonly certificate: string;
}

const pemOf = (socket: TLSSocket): string => {
  const base64 = socket.getPeerCertificate().raw.toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${base64.replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;
};

function tlsOptions({ address, port, host, sni = host, root, client }: HttpsTarget) {
  const shown = client === undefined ? {} : { cert: client.leaf, key: client.key };
  return { host: address, port, servername: sni, ca: root, ...shown };
}

/** One request on a new connection; rejects when the server's certificate is invalid. */
export function https(target: HttpsTarget): Promise<HttpsAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = httpsRequest({
      agent: false,
      ...tlsOptions(target),
      headers: { host: target.host, connection: 'close' },
      signal: AbortSignal.timeout(20_000),
    });
    let certificate = '';
    outgoing.once('socket', (socket: Socket) =>
      socket.once('secureConnect', () => {
        certificate = pemOf(socket as TLSSocket);
      }),
    );
    outgoing.once('error', reject);
    outgoing.once('response', (response) => {
      response.resume();
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, by: String(response.headers['x-echo'] ?? ''), certificate }),
      );
    });
    outgoing.end();
  });
}

/** A connection that stays open, with requests one after the other. */
export interface HeldConnection {
  /** Status of one more request; rejects when the connection has ended. */
  get(): Promise<number>;
  close(): void;
}

export function holdConnection(target: HttpsTarget): Promise<HeldConnection> {
  return new Promise((resolve, reject) => {
    const socket = connect(tlsOptions(target));
    let [text, ended] = ['', false];
    let wake: () => void = () => {};
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString();
      wake();
    });
    socket.once('close', () => {
      ended = true;
      wake();
    });
    socket.once('error', reject);
    socket.once('secureConnect', () =>
      resolve({
        async get() {
          text = '';
          socket.write(`GET / HTTP/1.1\r\nhost: ${target.host}\r\n\r\n`);
          for (;;) {
            if (ended) throw new Error('the connection was closed');
            const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text)?.[1];
            const head = text.indexOf('\r\n\r\n');
            if (head >= 0 && text.length >= head + 4 + Number(length ?? 0)) break;
            await new Promise<void>((next) => {
              wake = next;
            });
          }
          return Number(/^HTTP\/1.1 (\d+)/.exec(text)?.[1]);
        },
        close: () => socket.destroy(),
      }),
    );
  });
}
