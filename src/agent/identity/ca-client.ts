/**
 * The client of the certificate service (proto/mesh/v1/auth/ca.proto). What it proves the workload with and whom it
 * trusts is read anew for each call: the token's file, the roots' file, and the certificate that the workload has by
 * then.
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

/** Requested in place of a lifetime without limit, which no number of the protocol expresses. */
const MAX_LIFETIME_SECONDS = Number.MAX_SAFE_INTEGER;

/** Where the authority is. */
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
  /** The trust domain that the operator has set; undefined: whatever the authority's is. */
  readonly trustDomain: string | undefined;
  readonly tokenFile: string;
  /** False sends the token unread (SKIP_PARSE_TOKEN). */
  readonly parseToken: boolean;
  /** True: a request for a certificate without a token is not sent (USE_TOKEN_FOR_CSR). */
  readonly tokenRequired: boolean;
  /** What was provisioned before the workload had a certificate of the mesh (PROV_CERT). */
  readonly provisioned: () => Promise<WorkloadSecrets | undefined>;
  readonly readFile: (file: string) => Promise<string>;
  readonly clock: WallClock;
  readonly counters: IdentityCounters;
  readonly log: Log;
}

export interface SignedCertificate {
  /** PEM, leaf first, root last. */
  readonly chain: readonly string[];
  /** PEM of all roots to trust; undefined when the authority cannot tell. */
  readonly roots: string | undefined;
}

export interface CaClient {
  /**
   * A certificate for the request's key, and the roots of the same moment. `current` is what the workload has. Rejects
   * with CtlError.
   */
  sign(csr: string, lifetimeSeconds: number, current: WorkloadSecrets | undefined): Promise<SignedCertificate>;
  /** PEM of all roots to trust now; undefined when the authority cannot tell. Rejects with CtlError. */
  trustBundle(current: WorkloadSecrets): Promise<string | undefined>;
  /** Ends the calls under way. */
  close(): void;
}

const SERVICE = '/mesh.v1.auth.MeshCertificateService';
/** Signing takes milliseconds; a call that takes this long is better made anew. */
const TIMEOUT_MS = 10_000;

export function createCaClient(options: CaClientOptions): CaClient {
  const { clock, counters, log } = options;
  const open = new Set<GrpcConnection>();
  const tokenState = createFailureLog(log, 'the token is not sent', 'the token is good again');
  const rootsState = createFailureLog(
    log,
    'CA_ROOT_CA: the roots known so far stay in force',
    'CA_ROOT_CA is good again',
  );
  let rootsWereRead = false;

  const call = async (connection: GrpcConnection, request: UnaryCall): Promise<Buffer> => {
    const start = clock.now();
    counters.num_outgoing_requests++;
    try {
      return await connection.unary(request);
    } catch (error) {
      // An authority of another make that lacks a method has not failed.
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
    const { text: roots, fault } = await trustedRoots(options, [current?.roots, known?.roots]);
    // A file that never was there is how a machine with provisioned certificates is set up.
    if (fault === undefined) rootsState.succeeded();
    else if (rootsWereRead || fault.code !== 'not_found') rootsState.failed(fault.oneLine());
    rootsWereRead ||= fault === undefined;
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
          // The certificate is worth having all the same: the roots are asked for again at the next check.
          log.debug('no trust bundle came with the certificate', { error: String(error) });
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

/** What an operator can do about a token that cannot be used while there is no valid certificate to go on with. */
function withAdvice(error: unknown, file: string): unknown {
  if (!(error instanceof CtlError)) return error;
  const advice =
    `and there is no valid certificate to do without: write a new token to ${file} (ctl-discovery issue-token), which is taken without a ` +
    'restart; with OUTPUT_CERTS and PROV_CERT set to one folder, a restart within the life of the certificate needs none';
  return new CtlError(error.code, `${error.message}, ${advice}`, {}, error);
}

/**
 * The roots of the file together with those that the mesh gave since: the file of a virtual machine is written once,
 * and the mesh's root may have been replaced after that. `fault`: why the file does not count, when others do. Rejects
 * with CtlError when there are none.
 */
async function trustedRoots(
  { rootsFile, readFile }: CaClientOptions,
  known: readonly (string | undefined)[],
): Promise<{ readonly text: string; readonly fault?: CtlError }> {
  const texts = known.filter((text) => text !== undefined);
  try {
    return { text: rootsText([await readFile(rootsFile), ...texts], rootsFile) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const fault =
      error instanceof CtlError
        ? error
        : new CtlError(
            code === 'ENOENT' ? 'not_found' : 'failed_precondition',
            unreadable(rootsFile, error),
            {},
            error,
          );
    if (texts.length > 0) return { text: texts.join(''), fault };
    if (error instanceof CtlError) throw error;
    const message = `no roots to know the authority by: ${unreadable(rootsFile, error)}`;
    throw new CtlError('failed_precondition', message, { field: 'CA_ROOT_CA' }, error);
  }
}

function unreadable(file: string, error: unknown): string {
  return `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`;
}

function isUnimplemented(error: unknown): boolean {
  return error instanceof CtlError && error.code === 'unimplemented';
}
