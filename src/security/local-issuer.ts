/**
 * An issuer of workload tokens for a mesh without another issuer: a key pair in a directory. `ctl-discovery
 * issue-token` signs with the private key. The discovery service reads only the public key, and trusts it only when
 * LOCAL_TOKEN_ISSUER_DIR names the directory. A holder of the private key can impersonate any workload, so its file
 * must be readable by its owner only.
 *
 *   issuer-key.pem   private key, PKCS #8, mode 0600
 *   jwks.json        public key (RFC 7517); all that the discovery service needs
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { calculateJwkThumbprint, exportJWK, type JSONWebKeySet, SignJWT } from 'jose';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import { type Identity, spiffeUri } from '../core/identity.ts';
import type { WallClock } from '../core/wall-clock.ts';
import { type FollowedIssuer, followIssuer, keySetSchema } from './oidc.ts';

/** `iss` of its tokens. The same for all local issuers, which are distinguished by their keys. */
export const LOCAL_ISSUER = 'mesh-local-issuer';

const KEY_FILE = 'issuer-key.pem';
const JWKS_FILE = 'jwks.json';
const ALGORITHM = 'ES256';

/**
 * Interval at which the public key is read, and the minimum interval between reads caused by tokens with unknown keys,
 * ms.
 */
const CHECK_MS = 10_000;
const COOLDOWN_MS = 1000;

function unusable(file: string, reason: string, cause?: unknown): CtlError {
  return new CtlError('failed_precondition', reason, { file }, cause);
}

/** Writes a temporary file and syncs it. Returns its path. */
async function writeAside(file: string, text: string, mode: number): Promise<string> {
  const aside = `${file}.${process.pid}.${randomUUID()}`;
  const handle = await open(aside, 'wx', mode);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return aside;
}

async function readKey(file: string): Promise<KeyObject | undefined> {
  let pem: string;
  try {
    if (((await stat(file)).mode & 0o077) !== 0) throw unusable(file, 'may be read by others; set its mode to 0600');
    pem = await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof CtlError) throw error;
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw unusable(file, `cannot be read (${errnoOf(error) ?? messageOf(error)})`, error);
  }
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key;
  } catch (error) {
    throw unusable(file, 'does not hold a private key in PEM form', error);
  }
  throw unusable(file, 'does not hold a P-256 key');
}

/**
 * The key of the directory; created when there is none. Two programs that create one concurrently end up with the same
 * key.
 */
async function keyOf(directory: string): Promise<KeyObject> {
  const file = join(directory, KEY_FILE);
  const known = await readKey(file);
  if (known !== undefined) return known;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const aside = await writeAside(file, String(privateKey.export({ type: 'pkcs8', format: 'pem' })), 0o600);
  try {
    await link(aside, file);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(aside, { force: true });
  }
  return (await readKey(file)) ?? privateKey;
}

async function publicKeySet(key: KeyObject): Promise<JSONWebKeySet & { readonly kid: string }> {
  const jwk = await exportJWK(createPublicKey(key));
  const kid = await calculateJwkThumbprint(jwk);
  return { keys: [{ ...jwk, kid, alg: ALGORITHM, use: 'sig' }], kid };
}

async function publish(directory: string, keys: JSONWebKeySet): Promise<void> {
  const file = join(directory, JWKS_FILE);
  const text = `${JSON.stringify({ keys: keys.keys }, null, 2)}\n`;
  const present = await readFile(file, 'utf8').catch(() => '');
  if (present !== text) await rename(await writeAside(file, text, 0o644), file);
}

export interface TokenRequest {
  readonly directory: string;
  readonly identity: Pick<Identity, 'namespace' | 'serviceAccount'>;
  readonly audience: string;
  readonly lifetimeSeconds: number;
  /** Epoch ms. */
  readonly now: number;
}

/**
 * Signs a token. Creates the key pair on first use. Rejects with CtlError when the directory cannot be used or the
 * names are invalid.
 */
export async function issueToken({
  directory,
  identity,
  audience,
  lifetimeSeconds,
  now,
}: TokenRequest): Promise<string> {
  const { namespace, serviceAccount } = identity;
  // Checks the two names; the trust domain does not matter for that.
  spiffeUri({ trustDomain: 'any', namespace, serviceAccount });
  try {
    // The discovery service may run as another user, who reads only the public key here.
    await mkdir(directory, { recursive: true, mode: 0o755 });
    const key = await keyOf(directory);
    const keys = await publicKeySet(key);
    await publish(directory, keys);
    const seconds = Math.floor(now / 1000);
    return await new SignJWT({})
      .setProtectedHeader({ alg: ALGORITHM, kid: keys.kid, typ: 'JWT' })
      .setIssuer(LOCAL_ISSUER)
      .setSubject(`system:serviceaccount:${namespace}:${serviceAccount}`)
      .setAudience(audience)
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + Math.max(1, Math.floor(lifetimeSeconds)))
      .setJti(randomUUID())
      .sign(key);
  } catch (error) {
    if (error instanceof CtlError) throw error;
    throw unusable(directory, `cannot be used (${errnoOf(error) ?? messageOf(error)})`, error);
  }
}

/** No file means no keys: every token is refused until the first one is issued. */
async function readKeySet(file: string): Promise<JSONWebKeySet> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return { keys: [] };
    throw unusable(file, `cannot be read (${errnoOf(error) ?? messageOf(error)})`, error);
  }
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    document = undefined;
  }
  const keys = keySetSchema.safeParse(document);
  if (!keys.success) throw unusable(file, 'is not a key set');
  return keys.data;
}

export interface LocalIssuerOptions {
  readonly directory: string;
  readonly clock: WallClock;
  readonly onProblem: (error: CtlError) => void;
}

/** Trusts the public key in a directory, and follows its changes. */
export function followLocalIssuer({ directory, clock, onProblem }: LocalIssuerOptions): FollowedIssuer {
  const file = join(directory, JWKS_FILE);
  return followIssuer(LOCAL_ISSUER, {
    load: async () => ({ value: await readKeySet(file), refreshMs: CHECK_MS }),
    onProblem,
    clock,
    cooldownMs: COOLDOWN_MS,
  });
}
