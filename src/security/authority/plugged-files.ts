/**
 * Reads and checks a root that an operator plugs in: `ca-cert.pem` and `ca-key.pem` sign, `cert-chain.pem` leads from
 * there to a root, `root-cert.pem` has the trusted roots. Files that would lead to certificates that no peer accepts
 * are refused, and the error names the file.
 */
import { createHash, createPrivateKey, type KeyObject } from 'node:crypto';
import { lstat, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CtlError } from '../../core/errors.ts';
import { encodePem, readPem } from '../../core/tls/pem.ts';
import { signingKey } from './certificate.ts';
import { type CertificateFacts, certificateFacts } from './certificate-facts.ts';
import type { RootSet, SigningMaterial } from './root-source.ts';

const NAMES = { cert: 'ca-cert.pem', key: 'ca-key.pem', chain: 'cert-chain.pem', root: 'root-cert.pem' } as const;

/** The minimum for signing keys: the same as for the keys that are signed. */
const MIN_RSA_BITS = 2048;

/** The content of the four files, and a fingerprint of it. */
export interface PluggedText {
  readonly directory: string;
  readonly texts: Readonly<Record<keyof typeof NAMES, string>>;
  readonly fingerprint: string;
}

export interface PluggedRoot {
  readonly material: SigningMaterial;
  readonly roots: RootSet;
}

/**
 * Whether an operator has plugged in a root: the directory has any of the files, or a link in its place. An incomplete
 * set is an error, and never a reason to create a root.
 */
export async function isPlugged(directory: string): Promise<boolean> {
  for (const name of Object.values(NAMES)) {
    const there = await lstat(join(directory, name)).then(
      () => true,
      (error: unknown) => isAbsence(error, directory, name),
    );
    if (there === true) return true;
  }
  return false;
}

/** False when there is no such file; throws CtlError when that cannot be determined. */
function isAbsence(error: unknown, directory: string, name: string): false {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  if (code === 'ENOENT') return false;
  throw problemIn(directory, name, `cannot be read (${code})`, error);
}

/** Reads the files; links are followed each time. Rejects with CtlError that names the file that cannot be read. */
export async function readPlugged(directory: string): Promise<PluggedText> {
  const read = async (name: string): Promise<string> => {
    const text = await readOptional(directory, name);
    if (text === undefined) throw problemIn(directory, name, 'is missing');
    return text;
  };
  const [cert, key, chain, root] = await Promise.all([
    read(NAMES.cert),
    read(NAMES.key),
    // A certificate that a root signed directly needs no intermediates.
    readOptional(directory, NAMES.chain).then((text) => text ?? ''),
    read(NAMES.root),
  ]);
  const texts = { cert, key, chain, root };
  const fingerprint = createHash('sha256').update(JSON.stringify(texts)).digest('base64');
  return { directory, texts, fingerprint };
}

async function readOptional(directory: string, name: string): Promise<string | undefined> {
  try {
    return await readFile(join(directory, name), 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw problemIn(directory, name, `cannot be read (${code})`, error);
  }
}

interface Found {
  readonly pem: string;
  readonly facts: CertificateFacts;
  readonly file: string;
}

/** Checks the content of the files at `now`, epoch ms. Throws CtlError that names the wrong file. */
export function checkPlugged({ directory, texts }: PluggedText, now: number): PluggedRoot {
  const certificates = (part: 'cert' | 'chain' | 'root'): Found[] =>
    readPem(texts[part], 'CERTIFICATE')
      .map((der) => encodePem('CERTIFICATE', der))
      .map((pem) => ({ pem, facts: readFacts(directory, NAMES[part], pem), file: NAMES[part] }));
  const [signing] = certificates('cert');
  if (signing === undefined) throw problemIn(directory, NAMES.cert, 'holds no certificate in PEM form');
  const roots = certificates('root');
  if (roots.length === 0) throw problemIn(directory, NAMES.root, 'holds no certificate in PEM form');
  const key = checkKey(directory, texts.key, signing);
  const path = pathToRoot(directory, signing, certificates('chain'), roots);
  for (const [above, each] of path.entries()) checkAuthority(directory, each, above, now);
  const anchor = path.at(-1) ?? signing;
  const pems = path.map(({ pem }) => pem);
  const chain = Math.min(...path.map(({ facts }) => facts.notAfter));
  const bundle = [...new Set([anchor.pem, ...roots.filter(({ facts }) => now < facts.notAfter).map(({ pem }) => pem)])];
  return {
    material: { key: key.export({ format: 'pem', type: 'pkcs8' }).toString(), path: pems, chainEnd: chain },
    roots: { path: pems, bundle, ends: { chain, root: anchor.facts.notAfter } },
  };
}

function readFacts(directory: string, name: string, pem: string): CertificateFacts {
  try {
    return certificateFacts(pem);
  } catch (error) {
    throw problemIn(directory, name, 'holds a certificate that cannot be read', error);
  }
}

function checkKey(directory: string, text: string, signing: Found): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(text);
  } catch (error) {
    throw problemIn(directory, NAMES.key, 'does not hold an unencrypted private key in PEM form', error);
  }
  if (!signing.facts.x509.checkPrivateKey(key))
    throw problemIn(directory, NAMES.key, `is not the key of the certificate in ${NAMES.cert}`);
  try {
    signingKey(key);
  } catch (error) {
    throw problemIn(directory, NAMES.key, 'is neither RSA nor ECDSA P-256 or P-384', error);
  }
  const { modulusLength = MIN_RSA_BITS } = key.asymmetricKeyDetails ?? {};
  if (modulusLength < MIN_RSA_BITS)
    throw problemIn(directory, NAMES.key, `has ${modulusLength} bits; expected ${MIN_RSA_BITS} or more`);
  return key;
}

/** The path from the signing certificate to a self-signed root, one issuer after the other. */
function pathToRoot(directory: string, signing: Found, between: readonly Found[], trusted: readonly Found[]): Found[] {
  const roots = trusted.filter((each) => issued(each, each));
  const issuers = [...roots, ...between, ...trusted];
  const path: Found[] = [];
  for (let at = signing; ; ) {
    const root = roots.find(({ pem }) => pem === at.pem);
    if (root !== undefined) return [...path, root];
    path.push(at);
    const above = issuers.find((each) => !path.some(({ pem }) => pem === each.pem) && issued(at, each));
    if (above === undefined) {
      const message = `the chain is broken: neither it nor ${NAMES.chain} has the issuer of ${nameOf(at)} (${at.file})`;
      throw problemIn(directory, NAMES.root, message);
    }
    at = above;
  }
}

/** Compares name and key identifier, and verifies the signature. */
function issued({ facts: below }: Found, { facts: above }: Found): boolean {
  return below.x509.checkIssued(above.x509) && below.x509.verify(above.x509.publicKey);
}

/** @param beneath the number of CA certificates between it and the signed certificates */
function checkAuthority(directory: string, { facts, file }: Found, beneath: number, now: number): void {
  const { x509, isAuthority, pathLength, notBefore, notAfter } = facts;
  const name = nameOf({ facts });
  if (!isAuthority) throw problemIn(directory, file, `${name} is not a CA certificate: it may not sign certificates`);
  if (now >= notAfter) throw problemIn(directory, file, `${name} expired on ${x509.validToDate.toISOString()}`);
  if (now < notBefore)
    throw problemIn(directory, file, `${name} is not valid before ${x509.validFromDate.toISOString()}`);
  const allowed = `${pathLength} CA certificates below it (path length constraint)`;
  if (beneath > pathLength) throw problemIn(directory, file, `${name} allows ${allowed}, got ${beneath}`);
}

function nameOf({ facts }: Pick<Found, 'facts'>): string {
  return facts.x509.subject.split('\n').join(', ') || 'a certificate without a subject';
}

function problemIn(directory: string, name: string, message: string, cause?: unknown): CtlError {
  return new CtlError('failed_precondition', message, { file: join(directory, name) }, cause);
}
