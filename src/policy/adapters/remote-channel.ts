/** The connection to an adapter outside: plain, with TLS, or with mutual TLS whose server name is verified. */
import type { PeerCertificate } from 'node:tls';
import { type ChannelCredentials, Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { CtlError } from '../../core/errors.ts';
import type { Connection, MutualAuthentication, TlsAuthentication } from '../types.ts';
import { ClientToken } from './client-token.ts';
import { readNamed, readText } from './named-files.ts';
import type { AdapterHost } from './types.ts';

/** Largest response: a status with a message, or a few quotas. */
const MAX_RESPONSE_BYTES = 1024 * 1024;
/** After this time, ms, names are resolved and files read again: certificates are renewed, addresses change. */
const MAX_AGE_MS = 300_000;
/** For how long a token that was read is used, ms. */
const TOKEN_MS = 10_000;
/** After a failed attempt to build a connection, calls fail at once for this time, ms. */
const RETRY_MS = 500;

export class RemoteChannel {
  readonly #connection: Connection;
  readonly #host: AdapterHost;
  #client: { readonly client: Client; readonly madeAt: number } | undefined;
  #making: Promise<Client> | undefined;
  #token: { readonly text: string; readonly readAt: number } | undefined;
  #requested: ClientToken | undefined;
  #failure: { readonly error: CtlError; readonly until: number } | undefined;
  #closed = false;

  constructor(connection: Connection, host: AdapterHost) {
    this.#connection = connection;
    this.#host = host;
  }

  /**
   * Resolves with the bytes of the response. Rejects with CtlError, in one line.
   * @param timeoutMs for everything: name, files and token, too
   */
  async call(method: string, request: Uint8Array, timeoutMs: number): Promise<Buffer> {
    const deadline = this.#host.now() + timeoutMs;
    const { client, metadata } = await this.#within(timeoutMs, this.#prepared());
    return await new Promise<Buffer>((resolve, reject) => {
      client.makeUnaryRequest(
        method,
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes) => bytes,
        request,
        metadata,
        { deadline },
        (error, response) => {
          if (error !== null || response === undefined) {
            if (error?.code === status.UNAUTHENTICATED) this.#requested?.refused();
            const reason = error?.details ?? 'no response';
            reject(new CtlError('unavailable', `${this.#connection.address}: ${reason}`.slice(0, 300), {}, error));
          } else resolve(response);
        },
      );
    });
  }

  close(): void {
    this.#closed = true;
    this.#requested?.close();
    this.#client?.client.close();
  }

  /** What a call needs. The next call uses what becomes ready after the timeout of this one. */
  async #prepared(): Promise<{ readonly client: Client; readonly metadata: Metadata }> {
    const client = await this.#current();
    if (this.#closed) throw new CtlError('unavailable', 'the handler is closed');
    return { client, metadata: await this.#metadata() };
  }

  async #within<T>(timeoutMs: number, result: Promise<T>): Promise<T> {
    let cancel = (): void => {};
    const late = new Promise<never>((_, reject) => {
      const message = `${this.#connection.address}: no address, certificate or token within ${timeoutMs} ms`;
      cancel = this.#host.later(timeoutMs, () => reject(new CtlError('deadline_exceeded', message)));
    });
    try {
      return await Promise.race([result, late]);
    } finally {
      cancel();
    }
  }

  async #current(): Promise<Client> {
    const known = this.#client;
    const now = this.#host.monotonic();
    if (known !== undefined && now - known.madeAt < MAX_AGE_MS) return known.client;
    if (this.#failure !== undefined && now < this.#failure.until) throw this.#failure.error;
    this.#making ??= this.#make()
      .catch((error: unknown) => {
        const known =
          error instanceof CtlError
            ? error
            : new CtlError('unavailable', `${this.#connection.address} cannot be used`, {}, error);
        this.#failure = { error: known, until: this.#host.monotonic() + RETRY_MS };
        throw known;
      })
      .finally(() => {
        this.#making = undefined;
      });
    return await this.#making;
  }

  async #make(): Promise<Client> {
    const { host, port } = split(this.#connection.address);
    const [address, secured] = await Promise.all([this.#host.resolve(host), this.#credentials(host)]);
    if (this.#closed) throw new CtlError('unavailable', 'the handler is closed');
    const target = address.includes(':') ? `ipv6:[${address}]:${port}` : `ipv4:${address}:${port}`;
    const { authentication } = this.#connection;
    const name = nameOf(authentication, host);
    const client = new Client(target, secured, {
      'grpc.default_authority': name.includes(':') ? `[${name}]` : name,
      ...(authentication === undefined ? {} : { 'grpc.ssl_target_name_override': name }),
      'grpc.max_receive_message_length': MAX_RESPONSE_BYTES,
      'grpc.enable_http_proxy': 0,
      'grpc.initial_reconnect_backoff_ms': 200,
      'grpc.max_reconnect_backoff_ms': 2_000,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.service_config_disable_resolution': 1,
    });
    this.#client?.client.close();
    this.#client = { client, madeAt: this.#host.monotonic() };
    return client;
  }

  async #credentials(host: string): Promise<ChannelCredentials> {
    const { authentication } = this.#connection;
    if (authentication === undefined) return credentials.createInsecure();
    const read = (path: string): Promise<Buffer> => readNamed(this.#host, path);
    const roots = authentication.caCertificates === undefined ? null : await read(authentication.caCertificates);
    const wanted = authentication.serverName ?? host;
    const bypassed = authentication.type === 'mutual' && this.#host.skipsSanVerification;
    const checkServerIdentity = (_: string, certificate: PeerCertificate): Error | undefined =>
      bypassed || hasName(certificate, wanted)
        ? undefined
        : new CtlError('permission_denied', `the certificate of the adapter is not for ${wanted}`);
    if (authentication.type === 'tls') return credentials.createSsl(roots, null, null, { checkServerIdentity });
    const [key, chain] = await Promise.all([read(authentication.privateKey), read(authentication.clientCertificate)]);
    return credentials.createSsl(roots, key, chain, { checkServerIdentity });
  }

  async #metadata(): Promise<Metadata> {
    const metadata = new Metadata();
    const { authentication } = this.#connection;
    const token = authentication?.type === 'tls' ? authentication.token : undefined;
    if (token === undefined) return metadata;
    metadata.set(token.header, `${token.prefix}${await this.#tokenFrom(token.from)}`);
    return metadata;
  }

  async #tokenFrom(from: NonNullable<TlsAuthentication['token']>['from']): Promise<string> {
    if (typeof from !== 'string') {
      this.#requested ??= new ClientToken(from, this.#host);
      return await this.#requested.current();
    }
    const now = this.#host.monotonic();
    if (this.#token === undefined || now - this.#token.readAt > TOKEN_MS)
      this.#token = { text: await readText(this.#host, from), readAt: now };
    return this.#token.text;
  }
}

/** The name that TLS and the request ask for (SNI, `:authority`): a SPIFFE ID is none. */
function nameOf(authentication: TlsAuthentication | MutualAuthentication | undefined, host: string): string {
  const serverName = authentication?.serverName;
  return serverName === undefined || serverName.includes('/') ? host : serverName;
}

/** Whether a certificate, whose chain is verified, is for a DNS name, an address, or exactly a SPIFFE ID. */
function hasName({ subjectaltname = '' }: PeerCertificate, wanted: string): boolean {
  const names = subjectaltname.split(', ');
  if (wanted.includes('://')) return names.includes(`URI:${wanted}`);
  if (names.includes(`IP Address:${wanted}`)) return true;
  const lower = wanted.toLowerCase();
  return names.some((name) => {
    if (!name.startsWith('DNS:')) return false;
    const dns = name.slice(4).toLowerCase();
    return dns === lower || (dns.startsWith('*.') && lower.slice(lower.indexOf('.')) === dns.slice(1));
  });
}

function split(address: string): { readonly host: string; readonly port: string } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(address) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || port === undefined)
    throw new CtlError('invalid_argument', `${JSON.stringify(address.slice(0, 200))} is not host:port`);
  return { host, port };
}
