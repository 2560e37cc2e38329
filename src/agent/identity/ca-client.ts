/**
 * The client of the certificate service (proto/mesh/v1/auth/ca.proto). Credentials and trusted roots are read for each
 * call: the token file, the roots file, and the workload's current certificate.
 */
import { CtlError } from '../../core/errors.ts';
import { TRUST_DOMAIN_METADATA } from '../../core/identity.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { WorkloadCertificate, WorkloadSecrets } from '../types.ts';
import { rootsText } from './certificates.ts';
import { type GrpcConnection, openGrpc, type UnaryCall } from './grpc-client.ts';
import { certificateRequest, pemList } from './messages.ts';
import type { IdentityCounters } from './metrics.ts';
import { currentToken } from './token.ts';

/** Requested for a lifetime without limit, because the protocol has no value for that. */
const MAX_LIFETIME_SECONDS = Number.MAX_SAFE_INTEGER;

/** The address of the authority. */
export interface CaServer {
  readonly host: string;
  readonly port: number;
  /** DNS name that its certificate must have. */
  readonly serverName: string;
}

export interface CaClientOptions {
  readonly server: CaServer;
  /** PEM file with roots of the server's certificate. */
  readonly rootsFile: string;
  /** The trust domain that the operator has set; undefined: any trust domain of the authority. */
  readonly trustDomain: string | undefined;
  readonly tokenFile: string;
  /** False to send the token without parsing it (SKIP_PARSE_TOKEN). */
  readonly parseToken: boolean;
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

const SERVICE = '/mesh.v1.auth.MeshCertificateService';
/** Signing takes milliseconds; a call that takes longer than this is repeated. */
const TIMEOUT_MS = 10_000;

export function createCaClient(options: CaClientOptions): CaClient {
  const { clock, counters, log } = options;
  const open = new Set<GrpcConnection>();
  const tokenState = createFailureLog(log, 'the token is not sent', 'the token is usable again');
  const rootsState = createFailureLog(
    log,
    'CA_ROOT_CA: the roots known so far stay in force',
    'CA_ROOT_CA is usable again',
  );
  let rootsWereRead = false;

  const call = async (connection: GrpcConnection, request: UnaryCall): Promise<Buffer> => {
    const start = clock.now();
    counters.num_outgoing_requests++;
    try {
      return await connection.unary(request);
    } catch (error) {
      // A foreign authority that does not implement a method has not failed.
      if (!isUnimplemented(error)) counters.num_failed_outgoing_requests++;
      throw error;
    } finally {
      counters.outgoing_latency += Math.max(0, clock.now() - start);
    }
  };

  const bearer = async (required: boolean, hasCertificate: boolean): Promise<Readonly<Record<string, string>>> => {
    const { tokenFile: file, parseToken: parse, readFile: read } = options;
    try {
      const token = await currentToken({ file, parse, read }, clock.now());
      tokenState.succeeded();
      return { authorization: `Bearer ${token}` };
    } catch (error) {
      if (required || !hasCertificate) throw withAdvice(error, file);
      const isThere = !(error instanceof CtlError && error.code === 'not_found');
      if (isThere) tokenState.failed(error instanceof CtlError ? error.oneLine() : String(error));
      return {};
    }
  };

  const withConnection = async <T>(
    current: WorkloadSecrets | undefined,
    tokenRequired: boolean,
    run: (connection: GrpcConnection, metadata: Readonly<Record<string, string>>) => Promise<T>,
  ): Promise<T> => {
    const known = unexpired(current, clock.now()) ?? unexpired(await options.provisioned(), clock.now());
    const { trustDomain } = options;
    const metadata = {
      ...(await bearer(tokenRequired, known !== undefined)),
      ...(trustDomain === undefined ? {} : { [TRUST_DOMAIN_METADATA]: trustDomain }),
    };
    const { text: roots, problem } = await trustedRoots(options, [current?.roots, known?.roots]);
    // A machine with provisioned certificates never has the file.
    if (problem === undefined) rootsState.succeeded();
    else if (rootsWereRead || problem.code !== 'not_found') rootsState.failed(problem.oneLine());
    rootsWereRead ||= problem === undefined;
    const connection = openGrpc({ ...options.server, roots, client: known?.certificate }, clock, TIMEOUT_MS);
    open.add(connection);
    try {
      return await run(connection, metadata);
    } finally {
      open.delete(connection);
      connection.close();
    }
  };

  const bundle = async (
    connection: GrpcConnection,
    metadata: Readonly<Record<string, string>>,
  ): Promise<string | undefined> => {
    try {
      const path = `${SERVICE}/GetTrustBundle`;
      return rootsText(
        pemList(await call(connection, { path, request: new Uint8Array(), metadata })),
        'the trust bundle',
      );
    } catch (error) {
      if (isUnimplemented(error)) return undefined;
      throw error;
    }
  };

  return {
    sign: (csr, lifetimeSeconds, current) =>
      withConnection(current, options.tokenRequired, async (connection, metadata) => {
        const request = certificateRequest(
          csr,
          Math.min(Math.max(0, Math.ceil(lifetimeSeconds)), MAX_LIFETIME_SECONDS),
        );
        const path = `${SERVICE}/CreateCertificate`;
        const chain = pemList(await call(connection, { path, request, metadata }));
        try {
          return { chain, roots: await bundle(connection, metadata) };
        } catch (error) {
          // The certificate is usable without it: the roots are requested again at the next check.
          log.debug('no trust bundle was received with the certificate', { error: String(error) });
          const known = current === undefined ? [] : [current.roots];
          return { chain, roots: rootsText([...known, chain.at(-1) ?? ''], 'the chain') };
        }
      }),
    trustBundle: (current) => withConnection(current, false, bundle),
    close() {
      for (const connection of open) connection.close();
    },
  };
}

function unexpired(secrets: WorkloadSecrets | undefined, now: number): WorkloadSecrets | undefined {
  return secrets !== undefined && endsAfter(secrets.certificate, now) ? secrets : undefined;
}

function endsAfter({ expiresAt }: WorkloadCertificate, now: number): boolean {
  return expiresAt > now;
}

/** Adds the remedy to the error for an unusable token, when there is no valid certificate either. */
function withAdvice(error: unknown, file: string): unknown {
  if (!(error instanceof CtlError)) return error;
  const advice =
    `and there is no valid certificate to do without: write a new token to ${file} (ctl-discovery issue-token), which is taken without a ` +
    'restart; with OUTPUT_CERTS and PROV_CERT set to one folder, a restart within the life of the certificate needs none';
  return new CtlError(error.code, `${error.message}, ${advice}`, {}, error);
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
