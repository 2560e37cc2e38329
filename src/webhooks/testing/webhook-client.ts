/** A webhook server with its real worker, and the requests of an API server to it. */
import { type RequestOptions, request } from 'node:https';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { workerUrl } from '../../paths.ts';
import { SETTINGS as INJECTION_SETTINGS } from '../injection/testing/settings.ts';
import { type AdmissionPool, type AdmissionPoolOptions, createAdmissionPool } from '../server/pool.ts';
import { startWebhookServer, type WebhookServerOptions } from '../server/server.ts';
import type { InjectionSettings } from '../types.ts';
import type { TestCertificate } from './certificate.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** The settings of injection without anything from a user. */
export const SETTINGS: InjectionSettings = {
  ...INJECTION_SETTINGS,
  clusterId: 'Orchestrator',
  image: 'ctl-agent:test',
};

export interface StartOptions {
  readonly server?: Partial<WebhookServerOptions>;
  readonly pool?: Partial<AdmissionPoolOptions>;
}

export interface StartedWebhooks {
  readonly port: number;
  readonly pool: AdmissionPool;
  /** Lines of the log, and failed requests as `STATUS message`. */
  readonly lines: readonly string[];
  /** Replaces the certificate. */
  renew(certificate: TestCertificate): void;
  close(): Promise<void>;
}

/** Starts a server on a free port of loopback. */
export async function startWebhooks(
  t: Pick<TestContext, 'after'>,
  certificate: TestCertificate,
  { server: serverOptions = {}, pool: poolOptions = {} }: StartOptions = {},
): Promise<StartedWebhooks> {
  const lines: string[] = [];
  const listeners = new Set<() => void>();
  let current = certificate;
  const pool = createAdmissionPool({
    workerFile: fileURLToPath(workerUrl('admit')),
    onCrash: (error) => void lines.push(`crash: ${String(error)}`),
    ...poolOptions,
  });
  pool.use(SETTINGS);
  const server = await startWebhookServer({
    flag: '--httpsAddr',
    address: { host: '127.0.0.1', port: 0 },
    certificate: {
      context: () => ({ cert: current.cert, key: current.key }),
      onRenew: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    pool,
    observer: {
      requested: () => {},
      answered: () => {},
      failed: (_webhook, status, message) => void lines.push(`${status} ${message}`),
    },
    rankOf: () => 'unknown',
    notReady: () => undefined,
    warn: (line) => void lines.push(line),
    ...serverOptions,
  });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= server.close().then(() => pool.close());
    return closed;
  };
  t.after(close);
  const renew = (next: TestCertificate): void => {
    current = next;
    for (const listener of listeners) listener();
  };
  return { port: server.port, pool, lines, renew, close };
}

export interface Call extends RequestOptions {
  readonly body?: string | Uint8Array;
}

/** One request, by default a POST of JSON on a new connection. Rejects when the connection ends without an answer. */
export function call(port: number, path: string, { body = '', ...options }: Call = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({
      host: '127.0.0.1',
      port,
      path,
      method: 'POST',
      agent: false,
      rejectUnauthorized: false,
      ...options,
      headers: { 'content-type': 'application/json', ...options.headers },
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      );
    });
    sent.end(body);
  });
}

/** An AdmissionReview as an API server writes it. */
export function review(request: Readonly<Record<string, unknown>>, apiVersion = 'admission.k8s.io/v1'): string {
  const resource = { group: '', version: 'v1', resource: 'pods' };
  const filled = { uid: 'c0ffee', resource, operation: 'CREATE', userInfo: { username: 'jane' }, ...request };
  return JSON.stringify({ kind: 'AdmissionReview', apiVersion, request: filled });
}

/** A review of a document of the mesh. */
export function documentReview(document: object, request: Readonly<Record<string, unknown>> = {}): string {
  const kind = { group: 'networking.mesh.io', version: 'v1alpha3', kind: 'VirtualService' };
  return review({ kind, namespace: 'shop', name: 'web', object: document, ...request });
}

export function podReview(pod: object, request: Readonly<Record<string, unknown>> = {}): string {
  return review({ kind: { group: '', version: 'v1', kind: 'Pod' }, namespace: 'shop', object: pod, ...request });
}

export const VALID_DOCUMENT = {
  apiVersion: 'networking.mesh.io/v1alpha3',
  kind: 'VirtualService',
  metadata: { name: 'web', namespace: 'shop' },
  spec: { hosts: ['web.shop.svc.cluster.local'], http: [{ route: [{ destination: { host: 'web' } }] }] },
};
