/**
 * Stores the state of a self-signed authority in a Secret, which all replicas of the control plane share:
 *
 *   ca-cert.pem, ca-key.pem                          the root that signs
 *   next-cert.pem, next-key.pem, next-announced-at   the next one, while it is announced
 *   former-certs.pem                                 earlier roots that are still trusted
 *
 * A write is refused when another replica has written since the state was loaded. A Secret that is damaged is never
 * written. The state in force is kept in memory: a Secret that is deleted is written again with it, because a new root
 * would cut off every workload.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { CtlError, type ErrorLocation } from '../../core/errors.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import { countPemBlocks, encodePem, readPem } from '../../core/tls/pem.ts';
import {
  ApiError,
  CONFIG_MAPS,
  Informer,
  type KubernetesClient,
  type KubernetesObject,
  SECRETS,
} from '../../kubernetes/index.ts';
import type { AuthorityState, AuthorityStore, LoadOptions, SharedStore } from '../types.ts';
import { checkPlugged } from './plugged-files.ts';
import { checkCertificate, checkPair, problemAt } from './stored-state.ts';

const CA_SECRET = 'mesh-ca-secret';
/** The ConfigMap with the trust bundle, in all namespaces. */
export const ROOT_CONFIG_MAP = 'mesh-ca-root-cert';
export const ROOT_CERT_KEY = 'root-cert.pem';

const KEYS = {
  certificate: 'ca-cert.pem',
  key: 'ca-key.pem',
  nextCertificate: 'next-cert.pem',
  nextKey: 'next-key.pem',
  announcedAt: 'next-announced-at',
  former: 'former-certs.pem',
} as const;

type Fields = Readonly<Record<keyof typeof KEYS, string | undefined>>;

export interface SecretStoreOptions {
  readonly client: KubernetesClient;
  /** Namespace of the program. */
  readonly namespace: string;
  /** Epoch ms. */
  readonly now: () => number;
  readonly log: Log;
}

export function createSecretStore(options: SecretStoreOptions): AuthorityStore {
  return new SecretStore(options);
}

class SecretStore implements AuthorityStore {
  readonly #options: SecretStoreOptions;
  readonly #location: ErrorLocation;
  /** The version that was loaded last; undefined: there was no Secret. */
  #version: string | undefined;
  /** The state that was loaded or saved last, as JSON. In a buffer: snapshots of the heap do not contain its bytes. */
  #last: Buffer | undefined;
  #isMissing = false;
  readonly shared: SharedStore;

  constructor(options: SecretStoreOptions) {
    this.#options = options;
    this.#location = { resource: `Secret/${options.namespace}/${CA_SECRET}` };
    this.shared = { lastGood: () => this.#lastGood(), watch: (onChange) => this.#watch(onChange) };
  }

  async load({ restore = false }: LoadOptions = {}): Promise<AuthorityState | undefined> {
    const secret = await this.#read();
    if (secret === undefined) return this.#missing(restore);
    const state = readState(decodeFields(secret), this.#location, this.#options.now(), this.#lastGood());
    this.#version = secret.metadata.resourceVersion;
    this.#isMissing = false;
    this.#keep(state);
    return state;
  }

  async save(state: AuthorityState): Promise<void> {
    if (this.#version !== undefined && serialize(state) === this.#last?.toString()) return;
    const { client, namespace } = this.#options;
    const options = { namespace };
    const data = encodeData(state);
    const type = 'application/merge-patch+json';
    const metadata = { name: CA_SECRET, namespace };
    try {
      const secret =
        this.#version === undefined
          ? await client.create(SECRETS, { metadata, type: 'mesh.io/ca-root', data: present(data) }, options)
          : await client.patch(
              SECRETS,
              CA_SECRET,
              { metadata: { resourceVersion: this.#version }, data },
              { ...options, type },
            );
      this.#version = secret.metadata.resourceVersion;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== 409 && error.status !== 404) throw this.#failure('write', error);
      throw new CtlError('already_exists', 'was written by another replica first', this.#location, error);
    }
    this.#keep(state);
  }

  async #read(): Promise<KubernetesObject | undefined> {
    const { client, namespace } = this.#options;
    try {
      return await client.get(SECRETS, CA_SECRET, { namespace });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error instanceof ApiError ? this.#failure('read', error) : error;
    }
  }

  async #missing(restore: boolean): Promise<AuthorityState | undefined> {
    this.#version = undefined;
    const last = this.#lastGood();
    if (last === undefined) {
      await this.#refuseIfPublished();
      return undefined;
    }
    const { log } = this.#options;
    const { resource } = this.#location;
    if (!this.#isMissing) log.warn(`${resource}: was deleted; the root certificate stays in force`);
    this.#isMissing = true;
    if (!restore) return last;
    await this.save(last);
    this.#isMissing = false;
    log.info(`${resource}: written again with the root certificate in force`);
    return last;
  }

  /** A trust bundle without its Secret means that the Secret was lost, and not that the mesh is new. */
  async #refuseIfPublished(): Promise<void> {
    const { client, namespace } = this.#options;
    try {
      const { data } = await client.get(CONFIG_MAPS, ROOT_CONFIG_MAP, { namespace });
      if (typeof data !== 'object' || data === null || !(ROOT_CERT_KEY in data)) return;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return;
      throw error;
    }
    const published = `though ConfigMap ${namespace}/${ROOT_CONFIG_MAP} of the same authority exists`;
    const remedy = 'restore it, or delete the ConfigMap for a new authority';
    throw problemAt(this.#location, `is missing, ${published}; ${remedy}`);
  }

  #watch(onChange: () => void): () => Promise<void> {
    const { client, namespace, log } = this.#options;
    const what = `${this.#location.resource}: cannot be watched, so changes are not followed`;
    const failures = createFailureLog(log, what, `${this.#location.resource}: can be watched again`);
    const type = { ...SECRETS, metadataOnly: true };
    const { connection } = client;
    const watched = { connection, type, namespace, name: CA_SECRET };
    const informer = new Informer<true>({ ...watched, convert: () => true, onChange: () => onChange(), failures });
    informer.start();
    return () => informer.close();
  }

  #lastGood(): AuthorityState | undefined {
    // #keep has written the string, so it is a valid state.
    return this.#last === undefined ? undefined : (JSON.parse(this.#last.toString()) as AuthorityState);
  }

  #keep(state: AuthorityState): void {
    this.#last = Buffer.from(serialize(state));
  }

  #failure(verb: 'read' | 'write', error: ApiError): CtlError {
    return new CtlError(error.code, `cannot ${verb}: ${error.message}`, this.#location, error);
  }
}

/** Equal states have the same string. */
function serialize({ certificate, key, next, former }: AuthorityState): string {
  const { announcedAt } = next ?? {};
  return JSON.stringify({
    certificate,
    key,
    next: next && { certificate: next.certificate, key: next.key, announcedAt },
    former,
  });
}

/** The values of the Secret in the order of KEYS; null removes a key. */
function encodeData({ certificate, key, next, former }: AuthorityState): Record<string, string | null> {
  const fields: Fields = {
    certificate,
    key,
    nextCertificate: next?.certificate,
    nextKey: next?.key,
    announcedAt: next && new Date(next.announcedAt).toISOString(),
    former: former.length === 0 ? undefined : former.join(''),
  };
  // The keys of `fields` are those of KEYS, which TypeScript does not know.
  const entries = Object.entries(fields) as [keyof typeof KEYS, string | undefined][];
  return Object.fromEntries(
    entries.map(([name, text]) => [KEYS[name], text === undefined ? null : Buffer.from(text).toString('base64')]),
  );
}

function present(data: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(data).filter((entry): entry is [string, string] => entry[1] !== null));
}

function decodeFields({ data }: KubernetesObject): Fields {
  const values: Readonly<Record<string, unknown>> = typeof data === 'object' && data !== null ? { ...data } : {};
  const text = (name: string): string | undefined => {
    const value = values[name];
    const decoded = typeof value === 'string' ? Buffer.from(value, 'base64').toString() : '';
    return decoded.trim() === '' ? undefined : decoded;
  };
  const { certificate, key, nextCertificate, nextKey, announcedAt, former } = KEYS;
  return {
    certificate: text(certificate),
    key: text(key),
    nextCertificate: text(nextCertificate),
    nextKey: text(nextKey),
    announcedAt: text(announcedAt),
    former: text(former),
  };
}

/**
 * @param now epoch ms
 * @param last the state in force
 * @throws CtlError that names the Secret and its key when the state is damaged
 */
function readState(
  fields: Fields,
  { resource = '' }: ErrorLocation,
  now: number,
  last: AuthorityState | undefined,
): AuthorityState {
  const at = (name: keyof typeof KEYS): ErrorLocation => ({ resource, field: `data[${KEYS[name]}]` });
  const required = (name: keyof typeof KEYS): string => {
    const text = fields[name];
    if (text !== undefined) return text;
    throw problemAt(at(name), 'is missing or empty; restore a good copy of the Secret');
  };
  const root = (certificateName: 'certificate' | 'nextCertificate', keyName: 'key' | 'nextKey') => {
    const certificates = parseCertificates(required(certificateName));
    const [certificate] = certificates ?? [];
    if (certificate === undefined || certificates?.length !== 1) {
      throw problemAt(at(certificateName), 'expected one certificate in PEM form');
    }
    const parsed = checkCertificate(at(certificateName), certificate);
    checkPair(at(keyName), required(keyName), certificate);
    if (!parsed.checkIssued(parsed) || !parsed.verify(parsed.publicKey)) {
      const message = 'is not a self-signed root certificate; an intermediate and its chain go into ROOT_CA_DIR';
      throw problemAt(at(certificateName), message);
    }
    const key = createPrivateKey(required(keyName)).export({ format: 'pem', type: 'pkcs8' }).toString();
    return { certificate, key };
  };
  const current = root('certificate', 'key');
  const isKnown = last === undefined || [last.certificate, last.next?.certificate].includes(current.certificate);
  checkAuthority(current, at('certificate'), isKnown ? undefined : now);
  const announced = fields.nextCertificate ?? fields.nextKey ?? fields.announcedAt;
  const next = announced === undefined ? undefined : root('nextCertificate', 'nextKey');
  const announcedAt = next === undefined ? 0 : Date.parse(required('announcedAt'));
  if (Number.isNaN(announcedAt)) throw problemAt(at('announcedAt'), 'expected a time such as 2026-01-31T12:00:00Z');
  if (next !== undefined) checkAuthority(next, at('nextCertificate'), undefined);
  const former = fields.former === undefined ? [] : parseCertificates(fields.former);
  if (former === undefined) throw problemAt(at('former'), 'expected certificates in PEM form');
  for (const each of former) checkCertificate(at('former'), each);
  return { ...current, ...(next === undefined ? {} : { next: { ...next, announcedAt } }), former };
}

/**
 * Checks that peers accept certificates of a root, as for a root that an operator mounts. @param now epoch ms;
 * undefined to ignore the validity period, because the root is replaced when it ends
 */
function checkAuthority(
  { certificate, key }: { readonly certificate: string; readonly key: string },
  location: ErrorLocation,
  now: number | undefined,
): void {
  const texts = { cert: certificate, key, chain: '', root: certificate };
  const at = now ?? new X509Certificate(certificate).validFromDate.getTime();
  try {
    checkPlugged({ directory: '', texts, fingerprint: '' }, at);
  } catch (error) {
    if (error instanceof CtlError) throw problemAt(location, error.message, error);
    throw error;
  }
}

/** The certificates in a PEM string, in canonical form; undefined if there is none, or one is truncated. */
function parseCertificates(text: string): string[] | undefined {
  const found = readPem(text, 'CERTIFICATE').map((der) => encodePem('CERTIFICATE', der));
  return found.length > 0 && found.length === countPemBlocks(text, 'CERTIFICATE') ? found : undefined;
}
