/**
 * The client of an authority that signs certificates. Credentials and trusted roots are read for each call: the token
 * file, the roots file, and the workload's current certificate.
 */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { TRUST_DOMAIN_METADATA } from '../../core/identity.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { type GrpcClient, openGrpcClient } from '../grpc/index.ts';
import type { TokenSource, WorkloadCertificate, WorkloadSecrets } from '../types.ts';
import { type CaProtocol, decodeBundle } from './ca-protocols.ts';
import { readText } from './cert-files.ts';
import { rootsText } from './certificates.ts';
import type { IdentityCounters, RequestCounters } from './metrics.ts';
import { readSystemAuthorities } from './system-authorities.ts';

/** Requested for an unlimited lifetime, because the protocol has no value for that. */
const MAX_LIFETIME_SECONDS = Number.MAX_SAFE_INTEGER;

/** The address of the authority. */
export interface CaServer {
  readonly host: string;
  readonly port: number;
  /** DNS name that its certificate must have. */
  readonly serverName: string;
}

export interface CaClientOptions {
  readonly protocol: CaProtocol;
  readonly server: CaServer;
  /** Sent with each request, with lower-case names. */
  readonly metadata?: Metadata;
  /** PEM file with roots of the server's certificate. When undefined, the system's authorities are trusted. */
  readonly rootsFile: string | undefined;
  /** The trust domain that the operator has set. When undefined, any trust domain of the authority is accepted. */
  readonly trustDomain: string | undefined;
  readonly token: TokenSource;
  /** True to send no request for a certificate without a token (USE_TOKEN_FOR_CSR). */
  readonly tokenRequired: boolean;
  /** The secrets that were provisioned before the workload had a certificate of the mesh (PROV_CERT). */
  readonly provisioned: () => Promise<WorkloadSecrets | undefined>;
  readonly readFile: (file: string) => Promise<string>;
  readonly clock: WallClock;
  readonly counters: IdentityCounters;
  readonly log: Log;
}

export interface SignedCertificate {
  /** PEM, leaf first, root last. */
  readonly chain: readonly string[];
  /** PEM of all trusted roots; undefined when the authority does not provide them. */
  readonly roots: string | undefined;
}

export interface CaClient {
  /**
   * Requests a certificate for the CSR's key, and the roots. `current` is the workload's certificate, if there is one.
   * Rejects with CtlError.
   */
  sign(csr: string, lifetimeSeconds: number, current: WorkloadSecrets | undefined): Promise<SignedCertificate>;
  /**
   * PEM of all roots that are trusted now; undefined when the authority does not provide them. Rejects with CtlError.
   */
  trustBundle(current: WorkloadSecrets): Promise<string | undefined>;
  /** Aborts calls in progress. */
  close(): void;
}

/**
 * A call that takes longer than this is repeated, ms. Signing takes milliseconds, but the connection and the request of
 * one of thousands of proxies that start at once wait for their turn.
 */
const TIMEOUT_MS = 30_000;
/** Maximum size of a response; real authorities send smaller responses. */
const MAX_RESPONSE_BYTES = 1024 * 1024;

type Metadata = Readonly<Record<string, string>>;

export function createCaClient(options: CaClientOptions): CaClient {
  return new Client(options);
}

class Client implements CaClient {
  readonly #options: CaClientOptions;
  readonly #open = new Set<GrpcClient>();
  readonly #tokenLog: FailureLog;
  readonly #rootsLog: FailureLog;
  #rootsWereRead = false;
  #closed = false;

  constructor(options: CaClientOptions) {
    this.#options = options;
    this.#tokenLog = createFailureLog(options.log, 'the token is not sent', 'the token is usable again');
    this.#rootsLog = createFailureLog(
      options.log,
      'CA_ROOT_CA: the roots known so far stay in force',
      'CA_ROOT_CA is usable again',
    );
  }

  sign(csr: string, lifetimeSeconds: number, current: WorkloadSecrets | undefined): Promise<SignedCertificate> {
    const { protocol, tokenRequired } = this.#options;
    return this.#withConnection(current, tokenRequired || protocol.external, async (connection, metadata) => {
      const seconds = Math.min(Math.max(0, Math.ceil(lifetimeSeconds)), MAX_LIFETIME_SECONDS);
      const request = protocol.signRequest(csr, seconds);
      const chain = protocol.chainOf(
        await this.#call(connection, protocol.signPath, request, metadata, this.#options.counters),
      );
      try {
        return { chain, roots: await this.#bundle(connection, metadata) };
      } catch (error) {
        // The certificate is usable without it: the roots are requested again at the next check.
        this.#options.log.debug('no trust bundle was received with the certificate', { error: String(error) });
        const known = current === undefined ? [] : [current.roots];
        return { chain, roots: rootsText([...known, chain.at(-1) ?? ''], 'the chain') };
      }
    });
  }

  trustBundle(current: WorkloadSecrets): Promise<string | undefined> {
    if (this.#options.protocol.rootsPath === undefined) return Promise.resolve(undefined);
    return this.#withConnection(current, false, (connection, metadata) => this.#bundle(connection, metadata));
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#open) connection.close();
  }

  async #withConnection<T>(
    current: WorkloadSecrets | undefined,
    tokenRequired: boolean,
    run: (connection: GrpcClient, metadata: Metadata) => Promise<T>,
  ): Promise<T> {
    const { clock, provisioned, trustDomain, server, protocol } = this.#options;
    const known = protocol.external
      ? undefined
      : (unexpired(current, clock.now()) ?? unexpired(await provisioned(), clock.now()));
    const metadata = {
      ...this.#options.metadata,
      ...(await this.#bearer(tokenRequired, known !== undefined)),
      ...(trustDomain === undefined ? {} : { [TRUST_DOMAIN_METADATA]: trustDomain }),
    };
    const roots = await this.#roots(protocol.external ? undefined : current, known);
    const { host, port, serverName } = server;
    // A connection for each use, because credentials and roots are read for each.
    const connection = await openGrpcClient(
      { address: { host, port }, tls: { serverName, roots, client: known?.certificate } },
      { maxMessageBytes: MAX_RESPONSE_BYTES },
    );
    this.#open.add(connection);
    if (this.#closed) connection.close();
    try {
      return await run(connection, metadata);
    } finally {
      this.#open.delete(connection);
      connection.close();
    }
  }

  async #bearer(required: boolean, hasCertificate: boolean): Promise<Metadata> {
    const { token: source } = this.#options;
    try {
      const token = await source.token();
      this.#tokenLog.succeeded();
      return { authorization: `Bearer ${token}` };
    } catch (error) {
      if (required || !hasCertificate) throw withAdvice(error, source.advice);
      const isMissing = error instanceof CtlError && error.code === 'not_found';
      if (!isMissing) this.#tokenLog.failed(oneLineOf(error));
      return {};
    }
  }

  /** The root certificates that verify the authority's certificate. */
  async #roots(current: WorkloadSecrets | undefined, known: WorkloadSecrets | undefined): Promise<string> {
    const { text, problem } = await trustedRoots(this.#options, [current?.roots, known?.roots]);
    // A machine with provisioned certificates never has the file.
    if (problem === undefined) this.#rootsLog.succeeded();
    else if (this.#rootsWereRead || problem.code !== 'not_found') this.#rootsLog.failed(problem.oneLine());
    this.#rootsWereRead ||= problem === undefined;
    return text;
  }

  async #bundle(connection: GrpcClient, metadata: Metadata): Promise<string | undefined> {
    const { rootsPath } = this.#options.protocol;
    if (rootsPath === undefined) return undefined;
    try {
      const { bundles } = this.#options.counters;
      const answer = await this.#call(connection, rootsPath, new Uint8Array(), metadata, bundles);
      return rootsText(decodeBundle(answer), 'the trust bundle');
    } catch (error) {
      if (isUnimplemented(error)) return undefined;
      throw error;
    }
  }

  async #call(
    connection: GrpcClient,
    path: string,
    request: Uint8Array,
    metadata: Metadata,
    counters: RequestCounters,
  ): Promise<Buffer> {
    const { clock } = this.#options;
    const start = clock.now();
    counters.num_outgoing_requests++;
    try {
      return await connection.unary({ path, request, metadata, timeoutMs: TIMEOUT_MS });
    } catch (error) {
      // A foreign authority that does not implement a method has not failed.
      if (!isUnimplemented(error)) counters.num_failed_outgoing_requests++;
      throw error;
    } finally {
      counters.outgoing_latency += Math.max(0, clock.now() - start);
    }
  }
}

function unexpired(secrets: WorkloadSecrets | undefined, now: number): WorkloadSecrets | undefined {
  return secrets !== undefined && endsAfter(secrets.certificate, now) ? secrets : undefined;
}

function endsAfter({ expiresAt }: WorkloadCertificate, now: number): boolean {
  return expiresAt > now;
}

/** Adds the remedy to the error for an unusable token, when there is no valid certificate either. */
function withAdvice(error: unknown, advice: string): unknown {
  if (!(error instanceof CtlError)) return error;
  const message = `${error.message}, and there is no other valid certificate: ${advice}`;
  return new CtlError(error.code, message, {}, error);
}

/**
 * The roots of the file and those received from the mesh: the file of a virtual machine is written once, and the mesh's
 * root may have been replaced since. `problem` is the reason why the file is not used, when there are other roots.
 * Rejects with CtlError when there are none.
 */
async function trustedRoots(
  { rootsFile, readFile }: CaClientOptions,
  known: readonly (string | undefined)[],
): Promise<{ readonly text: string; readonly problem?: CtlError }> {
  const texts = known.filter((text) => text !== undefined);
  if (rootsFile === undefined) return { text: (await readSystemAuthorities(readText, process.env)).text };
  try {
    return { text: rootsText([await readFile(rootsFile), ...texts], rootsFile) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const problem =
      error instanceof CtlError
        ? error
        : new CtlError(
            code === 'ENOENT' ? 'not_found' : 'failed_precondition',
            unreadable(rootsFile, error),
            {},
            error,
          );
    if (texts.length > 0) return { text: texts.join(''), problem };
    if (error instanceof CtlError) throw error;
    const message = `no roots to verify the authority with: ${unreadable(rootsFile, error)}`;
    throw new CtlError('failed_precondition', message, { field: 'CA_ROOT_CA' }, error);
  }
}

function unreadable(file: string, error: unknown): string {
  return `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`;
}

function isUnimplemented(error: unknown): boolean {
  return error instanceof CtlError && error.code === 'unimplemented';
}
