/**
 * Certificates of the control plane's own address from a signer of the cluster, by the API of
 * CertificateSigningRequests (`certificates.k8s.io/v1`). Source:
 * https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/
 *
 *   key, request ─create─▶ CertificateSigningRequest ─approval─▶ signer ─status.certificate─▶ checks ─▶ certificate
 *
 * This program approves the request if it has the permission; otherwise somebody else has to. Requests are not deleted:
 * Kubernetes removes them (after an hour; after a day when nobody approves them), and a permission to delete one is a
 * permission to delete all.
 */
import { isIP } from 'node:net';
import { z } from 'zod';
import { backoff } from '../../core/backoff.ts';
import { type Clock, sleep } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import { apiVersionOf, type KubernetesClient, pathOf, v1Type } from '../../kubernetes/index.ts';
import { readPemCertificates } from '../certificate.ts';
import type { Authority, ServerCertificate } from '../types.ts';
import { newServerRequest, type ServerRequest } from './server-request.ts';

const SIGNING_REQUESTS = v1Type('certificates.k8s.io', 'CertificateSigningRequest', 'certificatesigningrequests', {
  namespaced: false,
});

/** The shortest lifetime that the API accepts, seconds. */
const MIN_LIFETIME_SECONDS = 600;

/** Pause between two reads of a request, and after failures, ms. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 15_000;

const conditionSchema = z.object({ type: z.string(), status: z.string(), message: z.string().optional() });
const requestSchema = z.object({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.unknown(),
  status: z.object({ certificate: z.string().optional(), conditions: z.array(conditionSchema).nullish() }).nullish(),
});

type SigningRequest = z.infer<typeof requestSchema>;

export interface ClusterSignerOptions {
  readonly client: KubernetesClient;
  /** `spec.signerName`: a domain and a path, such as `example.com/serving`. */
  readonly signerName: string;
  readonly namePrefix: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Epoch ms. */
  readonly now: () => number;
  /** Called when the signer has to wait; consecutive calls have different reasons. */
  readonly onWaiting: (reason: string) => void;
}

export interface ClusterSigner extends Pick<Authority, 'serverCertificate' | 'onChange'> {
  /** Aborts the requests in progress. */
  close(): void;
}

/** Failures that are transient, or that an operator can fix while this program waits, such as a missing permission. */
const PASSING: ReadonlySet<string> = new Set([
  'unavailable',
  'deadline_exceeded',
  'resource_exhausted',
  'permission_denied',
  'unauthenticated',
]);

class Signer implements ClusterSigner {
  readonly #options: ClusterSignerOptions;
  readonly #ending = new AbortController();
  #waitingFor = '';

  constructor(options: ClusterSignerOptions) {
    this.#options = options;
  }

  /** A signer of a cluster does not report changes: its certificates are renewed before they expire. */
  onChange(): () => void {
    return () => {};
  }

  close(): void {
    this.#ending.abort();
  }

  /**
   * Waits without a time limit. Rejects with CtlError when the request is invalid, denied, failed or deleted, and when
   * the signer's certificate is not the requested one.
   */
  async serverCertificate(dnsNames: readonly string[], lifetimeSeconds: number): Promise<ServerCertificate> {
    const request = await newServerRequest(dnsNames);
    const created = await this.#created(request, lifetimeSeconds);
    const { name } = created.metadata;
    await this.#untilDone(() => this.#approve(created));
    const certificate = await this.#answered(name);
    this.#waitingFor = '';
    return this.#checked(name, certificate, request, dnsNames);
  }

  #created(request: ServerRequest, lifetimeSeconds: number): Promise<SigningRequest> {
    const { client, namePrefix, signerName } = this.#options;
    const spec = {
      request: Buffer.from(request.csr).toString('base64'),
      signerName,
      expirationSeconds: Math.max(MIN_LIFETIME_SECONDS, lifetimeSeconds),
      usages: ['digital signature', 'server auth'],
    };
    const { signal } = this.#ending;
    return this.#untilDone(async () => {
      const object = { metadata: { generateName: `${namePrefix}-` }, spec };
      return requestSchema.parse(await client.create(SIGNING_REQUESTS, object, { signal }));
    });
  }

  /** Approves the request unless it is decided; without the permission somebody else has to. */
  async #approve(created: SigningRequest): Promise<void> {
    const { signerName, clock, random } = this.#options;
    const { name } = created.metadata;
    let request = created;
    for (let tries = 1; !isDecided(request); tries++) {
      try {
        request = await this.#approval(request);
      } catch (error) {
        const failure = toCtlError(error);
        if (failure.code === 'permission_denied') {
          this.#wait(
            `CertificateSigningRequest ${name} for signer ${signerName} is waiting for approval (kubectl ` +
              `certificate approve ${name}): ${failure.oneLine()}`,
          );
          return;
        }
        // A conflict: it has changed since, perhaps because somebody else has decided.
        if (failure.code !== 'failed_precondition') throw failure;
        await sleep(clock, backoff(tries, FIRST_PAUSE_MS, MAX_PAUSE_MS, random), this.#ending.signal);
        request = await this.#read(name);
      }
    }
    this.#wait(`CertificateSigningRequest ${name} is waiting for signer ${signerName}`);
  }

  async #approval(request: SigningRequest): Promise<SigningRequest> {
    const message = 'The certificate of the address that proxies connect to';
    const condition = { type: 'Approved', status: 'True', reason: 'ControlPlaneAddress', message };
    const { kind } = SIGNING_REQUESTS;
    const status = { conditions: [condition] };
    await this.#options.client.json({
      method: 'PUT',
      path: `${pathOf(SIGNING_REQUESTS, undefined, request.metadata.name)}/approval`,
      contentType: 'application/json',
      body: JSON.stringify({ ...request, apiVersion: apiVersionOf(SIGNING_REQUESTS), kind, status }),
      signal: this.#ending.signal,
    });
    return { ...request, status };
  }

  async #read(name: string): Promise<SigningRequest> {
    const { signal } = this.#ending;
    return requestSchema.parse(await this.#options.client.get(SIGNING_REQUESTS, name, { signal }));
  }

  /** The certificate of a request, once the signer has issued it; PEM. */
  async #answered(name: string): Promise<string> {
    const { clock, random } = this.#options;
    const { signal } = this.#ending;
    for (let looks = 1; ; looks++) {
      const { status } = await this.#untilDone(() => this.#read(name));
      if (status?.certificate !== undefined) return Buffer.from(status.certificate, 'base64').toString('latin1');
      const refusal = status?.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
      if (refusal !== undefined) {
        const reason = refusal.message === undefined ? '' : `: ${JSON.stringify(refusal.message.slice(0, 500))}`;
        throw new CtlError(
          'failed_precondition',
          `${refusal.type === 'Denied' ? 'was denied' : 'has failed'}${reason}`,
          locationOf(name),
        );
      }
      await sleep(clock, backoff(looks, FIRST_PAUSE_MS, MAX_PAUSE_MS, random), signal);
      if (signal.aborted) throw new CtlError('unavailable', 'this program is shutting down', locationOf(name));
    }
  }

  /** Repeats work while it fails for temporary reasons. */
  async #untilDone<T>(work: () => Promise<T>): Promise<T> {
    const { clock, random } = this.#options;
    const { signal } = this.#ending;
    for (let failures = 1; ; failures++) {
      try {
        return await work();
      } catch (error) {
        const failure = error instanceof z.ZodError ? unreadable(error) : toCtlError(error);
        if (signal.aborted || !PASSING.has(failure.code)) throw failure;
        this.#wait(`a certificate of the signer ${this.#options.signerName} cannot be requested: ${failure.oneLine()}`);
      }
      await sleep(clock, backoff(failures, FIRST_PAUSE_MS, MAX_PAUSE_MS, random), signal);
    }
  }

  #checked(name: string, chain: string, request: ServerRequest, dnsNames: readonly string[]): ServerCertificate {
    const refuse = (reason: string): never => {
      throw new CtlError('failed_precondition', `the signer's certificate ${reason}`, locationOf(name));
    };
    const [leaf] = readPemCertificates(chain);
    if (leaf === undefined) return refuse('is empty');
    const { x509, notAfter } = leaf;
    if (!x509.publicKey.export({ type: 'spki', format: 'der' }).equals(request.publicKey)) refuse('has another key');
    const isNamed = (host: string) =>
      isIP(host) === 0 ? x509.checkHost(host, { subject: 'never' }) : x509.checkIP(host);
    const missing = dnsNames.find((host) => isNamed(host) === undefined);
    if (missing !== undefined) refuse(`is not for ${missing}`);
    if (notAfter <= this.#options.now()) refuse(`expired at ${new Date(notAfter).toISOString()}`);
    return { chain, key: request.key, expiresAt: notAfter };
  }

  #wait(reason: string): void {
    if (this.#waitingFor === reason) return;
    this.#waitingFor = reason;
    this.#options.onWaiting(reason);
  }
}

function isDecided({ status }: SigningRequest): boolean {
  return status?.conditions?.some(({ type }) => type === 'Approved' || type === 'Denied') === true;
}

function locationOf(name: string): { readonly resource: string } {
  return { resource: `CertificateSigningRequest/${name}` };
}

function unreadable(error: z.ZodError): CtlError {
  return new CtlError('unavailable', 'expected a CertificateSigningRequest', {}, error);
}

export function createClusterSigner(options: ClusterSignerOptions): ClusterSigner {
  return new Signer(options);
}
