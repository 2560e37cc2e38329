/**
 * Credentials from a plugin: a program that a kubeconfig names in `exec` and that prints an ExecCredential (Kubernetes
 * documentation, "Authenticating", "client-go credential plugins"; API client.authentication.k8s.io/v1). The program is
 * run when its credentials are about to expire, and once when the server has refused them.
 */
import { dirname, resolve } from 'node:path';
import { backoff } from '../core/backoff.ts';
import { CtlError, messageOf } from '../core/errors.ts';
import { isObject } from '../core/objects.ts';
import type { TlsMaterial } from './access.ts';
import { type Entries, type Named, refused } from './kubeconfig-entries.ts';
import { runPlugin } from './run-plugin.ts';

const API_GROUP = 'client.authentication.k8s.io';
const API_VERSIONS: ReadonlySet<unknown> = new Set([`${API_GROUP}/v1`, `${API_GROUP}/v1beta1`]);
/** Fields of the user entry with other credentials. */
const OTHER_CREDENTIALS = ['token', 'tokenFile', 'client-certificate', 'client-certificate-data'];
/** How long before they expire credentials are renewed, ms; at most a fifth of their lifetime. */
const RENEW_BEFORE_MS = 60_000;
/** Minimum interval between runs after the server refused credentials, ms. */
const REFUSED_INTERVAL_MS = 30_000;
/** Interval between runs that fail, ms. */
const RETRY_BASE_MS = 1000;
const RETRY_MAX_MS = 60_000;

/** The cluster, for plugins that ask for it. */
export interface PluginCluster {
  readonly server: string;
  readonly serverName: string | undefined;
  readonly ca: (() => Promise<string>) | undefined;
  /** `extensions` of the cluster's entry. */
  readonly extensions: unknown;
}

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: string;
  readonly provideClusterInfo: boolean;
}

interface Credential {
  readonly token?: string;
  readonly certificate: Pick<TlsMaterial, 'cert' | 'key'>;
  /** Epoch ms; when undefined, the credentials are used until the server refuses them. */
  readonly expiresAt?: number;
  /** Epoch ms. */
  readonly renewAt?: number;
}

export class CredentialPlugin {
  readonly #user: Named;
  readonly #command: Command;
  readonly #cluster: PluginCluster;
  readonly #now: () => number;
  #credential: Credential | undefined;
  #running: Promise<Credential> | undefined;
  #refused = false;
  #lastRefusedRun = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #failure: CtlError | undefined;
  #retryAt = 0;

  private constructor(user: Named, command: Command, cluster: PluginCluster, now: () => number) {
    this.#user = user;
    this.#command = command;
    this.#cluster = cluster;
    this.#now = now;
  }

  /**
   * @param now epoch ms
   * @throws CtlError naming the field of the user's entry
   */
  static of(user: Named, cluster: PluginCluster, now = Date.now): CredentialPlugin {
    const other = OTHER_CREDENTIALS.find((field) => user.value[field] !== undefined);
    if (other !== undefined) throw refused(user, other, 'expected exec or other credentials, not both');
    return new CredentialPlugin(user, commandOf(user), cluster, now);
  }

  async token(): Promise<string | undefined> {
    return (await this.#current()).token;
  }

  async certificate(): Promise<Pick<TlsMaterial, 'cert' | 'key'>> {
    return (await this.#current()).certificate;
  }

  rejected(): void {
    if (this.#now() - this.#lastRefusedRun >= REFUSED_INTERVAL_MS) this.#refused = true;
  }

  async #current(): Promise<Credential> {
    const now = this.#now();
    const known = this.#credential;
    if (known !== undefined && !this.#refused && now < (known.renewAt ?? Number.POSITIVE_INFINITY)) return known;
    // Requests must not run a failing program again and again.
    const usable = known !== undefined && !this.#refused && now < (known.expiresAt ?? 0) ? known : undefined;
    if (now < this.#retryAt && this.#running === undefined && this.#failure !== undefined) {
      if (usable !== undefined) return usable;
      throw this.#failure;
    }
    this.#running ??= this.#renew().finally(() => {
      this.#running = undefined;
    });
    if (usable === undefined) return this.#running;
    // The current credentials are valid while the program runs: requests neither wait for it nor see its failure.
    this.#running.catch(() => undefined);
    return usable;
  }

  async #renew(): Promise<Credential> {
    if (this.#refused) this.#lastRefusedRun = this.#now();
    try {
      const { apiVersion } = this.#command;
      const info = JSON.stringify(await this.#info());
      const output = await runPlugin(this.#command, { KUBERNETES_EXEC_INFO: info });
      this.#credential = credentialIn(output, apiVersion, this.#now());
      this.#refused = false;
      this.#failures = 0;
      this.#failure = undefined;
      return this.#credential;
    } catch (error) {
      this.#failures++;
      this.#retryAt = this.#now() + backoff(this.#failures, RETRY_BASE_MS, RETRY_MAX_MS, Math.random);
      this.#failure = refused(this.#user, 'exec', error instanceof CtlError ? error.message : messageOf(error));
      throw this.#failure;
    }
  }

  async #info(): Promise<unknown> {
    const { apiVersion, provideClusterInfo } = this.#command;
    const { server, serverName, ca, extensions } = this.#cluster;
    const authority = await ca?.();
    const cluster = {
      server,
      ...(serverName === undefined ? {} : { 'tls-server-name': serverName }),
      ...(authority === undefined ? {} : { 'certificate-authority-data': Buffer.from(authority).toString('base64') }),
      ...configIn(extensions),
    };
    return {
      apiVersion,
      kind: 'ExecCredential',
      spec: { interactive: false, ...(provideClusterInfo ? { cluster } : {}) },
    };
  }
}

/** The configuration for plugins in the cluster's entry. */
function configIn(extensions: unknown): { readonly config?: unknown } {
  const list: readonly unknown[] = Array.isArray(extensions) ? extensions : [];
  const found = list.find((entry) => isObject(entry) && entry.name === `${API_GROUP}/exec`);
  return isObject(found) ? { config: found.extension } : {};
}

function commandOf(user: Named): Command {
  const exec = user.value.exec;
  const wrong = (field: string, expected: string): CtlError => refused(user, `exec${field}`, expected);
  if (!isObject(exec)) throw wrong('', 'expected an object');
  const { command, args, env, apiVersion, interactiveMode, provideClusterInfo } = exec;
  if (typeof command !== 'string' || command === '') throw wrong('.command', 'expected a program');
  if (typeof apiVersion !== 'string' || !API_VERSIONS.has(apiVersion)) {
    throw wrong('.apiVersion', `expected ${[...API_VERSIONS].join(' or ')}`);
  }
  if (interactiveMode === 'Always') {
    throw wrong('.interactiveMode', 'expected Never or IfAvailable: there is no terminal for input');
  }
  const isTexts = Array.isArray(args) && args.every((arg) => typeof arg === 'string');
  if (args !== undefined && args !== null && !isTexts) throw wrong('.args', 'expected a list of strings');
  return {
    // As in other clients: a path is relative to the file, a name is looked up in PATH.
    program: command.includes('/') ? resolve(dirname(user.file), command) : command,
    args: isTexts ? (args as readonly string[]) : [],
    env: variablesOf(env, wrong),
    apiVersion,
    provideClusterInfo: provideClusterInfo === true,
  };
}

function variablesOf(env: unknown, wrong: (field: string, expected: string) => CtlError): Record<string, string> {
  if (env === undefined || env === null) return {};
  if (!Array.isArray(env)) throw wrong('.env', 'expected a list');
  const entries = env.map((entry: unknown, index): [string, string] => {
    const { name, value = '' }: Entries = isObject(entry) ? entry : {};
    if (typeof name === 'string' && typeof value === 'string') return [name, value];
    throw wrong(`.env[${index}]`, 'expected name and value');
  });
  return Object.fromEntries(entries);
}

/**
 * @throws CtlError that does not quote the output, which contains secrets
 */
function credentialIn(output: string, apiVersion: string, now: number): Credential {
  let parsed: unknown;
  try {
    parsed = JSON.parse(output);
  } catch {
    throw unusable('expected the plugin to print JSON');
  }
  if (!isObject(parsed) || parsed.kind !== 'ExecCredential' || parsed.apiVersion !== apiVersion) {
    throw unusable(`expected the plugin to print an ExecCredential of ${apiVersion}`);
  }
  const status: Entries = isObject(parsed.status) ? parsed.status : {};
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = status;
  const hasToken = typeof token === 'string' && token !== '';
  if (hasToken && !/^[\x21-\x7e]+$/.test(token))
    throw unusable('expected the plugin to print a token of printable characters');
  const hasCertificate = isPem(cert) && isPem(key);
  if ((cert !== undefined || key !== undefined) && !hasCertificate) {
    throw unusable('expected the plugin to print clientCertificateData and clientKeyData in PEM');
  }
  if (!hasToken && !hasCertificate) throw unusable('expected the plugin to print status.token or a client certificate');
  return {
    ...(hasToken ? { token } : {}),
    certificate: hasCertificate ? { cert, key } : {},
    ...lifetimeOf(expirationTimestamp, now),
  };
}

function lifetimeOf(expiration: unknown, now: number): Pick<Credential, 'expiresAt' | 'renewAt'> {
  if (expiration === undefined || expiration === null) return {};
  const expiresAt = typeof expiration === 'string' ? Date.parse(expiration) : Number.NaN;
  if (Number.isNaN(expiresAt)) throw unusable('expected the plugin to print expirationTimestamp as RFC 3339');
  if (expiresAt <= now) throw unusable(`expected credentials that have not expired, got ${String(expiration)}`);
  return { expiresAt, renewAt: expiresAt - Math.min(RENEW_BEFORE_MS, (expiresAt - now) / 5) };
}

function isPem(value: unknown): value is string {
  return typeof value === 'string' && value.includes('-----BEGIN ');
}

function unusable(expected: string): CtlError {
  return new CtlError('failed_precondition', expected);
}
