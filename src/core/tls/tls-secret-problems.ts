/**
 * Checks the key pairs and certificate authorities of Secrets: a Secret that Envoy would refuse must not replace a good
 * one. Secrets with other content are not checked. Messages never quote values.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { countPemBlocks, pemBlocks } from './pem.ts';
import {
  authoritiesOf,
  type KeyPairFields,
  keyPairOf,
  type SecretContent,
  secretBytes,
  TLS_TYPE,
} from './tls-secrets.ts';

/** The orchestrator's own limit of a whole Secret. */
const MAX_BYTES = 1024 * 1024;

/** Envoy's requirements for server keys. */
const MIN_RSA_BITS = 2048;
const CURVES: ReadonlySet<string> = new Set(['prime256v1', 'secp384r1', 'secp521r1']);

export interface TlsSecretProblem {
  /** Name of the entry; undefined: the entries as a whole. */
  readonly entry: string | undefined;
  readonly message: string;
}

/** Empty for a Secret that Envoy can use, or that is not for TLS. */
export function tlsSecretProblems(content: SecretContent): readonly TlsSecretProblem[] {
  const problems: TlsSecretProblem[] = [];
  const entries = new Entries(content, problems);
  const pair = keyPairOf(content);
  if (pair !== undefined) checkKeyPair(entries, pair);
  else if (content.type === TLS_TYPE) entries.add(undefined, 'expected a certificate (tls.crt) and its key (tls.key)');
  const trusted = authoritiesOf(content);
  if (trusted === undefined) return problems;
  entries.certificates(trusted.authorities);
  if (trusted.revoked === undefined) return problems;
  const text = entries.text(trusted.revoked);
  if (text !== undefined && pemBlocks(text, 'X509 CRL').length === 0)
    entries.add(trusted.revoked, 'expected a revocation list in PEM form');
  return problems;
}

function checkKeyPair(entries: Entries, pair: KeyPairFields): void {
  const [leaf] = entries.certificates(pair.certificate);
  const key = entries.privateKey(pair.key);
  if (key === undefined) return;
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'rsa' ? (details?.modulusLength ?? 0) < MIN_RSA_BITS : !CURVES.has(details?.namedCurve ?? '')) {
    const curves = 'one on the curve P-256, P-384 or P-521';
    entries.add(pair.key, `expected an RSA key of ${MIN_RSA_BITS} bits or more, or ${curves}`);
  } else if (leaf !== undefined && !leaf.checkPrivateKey(key)) {
    entries.add(pair.key, `expected the key of the certificate in ${pair.certificate}`);
  }
}

/** Reads entries of a Secret and collects what is wrong with them. */
class Entries {
  readonly #content: SecretContent;
  readonly #problems: TlsSecretProblem[];

  constructor(content: SecretContent, problems: TlsSecretProblem[]) {
    this.#content = content;
    this.#problems = problems;
  }

  add(entry: string | undefined, message: string): void {
    this.#problems.push({ entry, message });
  }

  text(entry: string): string | undefined {
    const bytes = secretBytes(this.#content, entry);
    if (bytes === undefined) this.add(entry, 'expected base64');
    else if (bytes.length > MAX_BYTES) this.add(entry, `expected at most ${MAX_BYTES} bytes`);
    else return new TextDecoder('latin1').decode(bytes);
    return undefined;
  }

  certificates(entry: string): X509Certificate[] {
    const text = this.text(entry);
    if (text === undefined) return [];
    try {
      const found = pemBlocks(text, 'CERTIFICATE').map((pem) => new X509Certificate(pem));
      if (found.length > 0 && found.length === countPemBlocks(text, 'CERTIFICATE-----')) return found;
    } catch {
      // Reported below, without the message of the library, which quotes the value.
    }
    this.add(entry, 'expected certificates in PEM form');
    return [];
  }

  privateKey(entry: string): KeyObject | undefined {
    const text = this.text(entry);
    if (text === undefined) return undefined;
    try {
      return createPrivateKey({ key: text, format: 'pem' });
    } catch {
      this.add(entry, 'expected a private key in PEM form, not encrypted');
      return undefined;
    }
  }
}
