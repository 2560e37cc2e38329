/** The certificate authority of a test's control plane, made with node-forge, for its servers and users. */
import { generateKeyPair, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import forge from 'node-forge';

/** PEM. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

const DAY_MS = 86_400_000;

async function newKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs1', format: 'pem' }).toString();
}

interface CertificateOptions {
  readonly subject: readonly forge.pki.CertificateField[];
  readonly extensions: readonly object[];
  /** Absent: the certificate is self-signed. */
  readonly issuer?: KeyPair;
}

async function issue({ subject, extensions, issuer }: CertificateOptions): Promise<KeyPair> {
  const key = await newKey();
  const own = forge.pki.privateKeyFromPem(key);
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.setRsaPublicKey(own.n, own.e);
  certificate.serialNumber = `01${randomBytes(8).toString('hex')}`;
  certificate.validity.notBefore = new Date(Date.now() - DAY_MS);
  certificate.validity.notAfter = new Date(Date.now() + DAY_MS);
  certificate.setSubject([...subject]);
  const signer = issuer === undefined ? undefined : forge.pki.certificateFromPem(issuer.certificate);
  certificate.setIssuer(signer?.subject.attributes ?? [...subject]);
  certificate.setExtensions([...extensions]);
  certificate.sign(issuer === undefined ? own : forge.pki.privateKeyFromPem(issuer.key), forge.md.sha256.create());
  return { key, certificate: forge.pki.certificateToPem(certificate) };
}

export function createAuthority(): Promise<KeyPair> {
  return issue({
    subject: [{ name: 'commonName', value: 'test-kubernetes-ca' }],
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
}

/** A certificate of a server at these IP addresses and at the usual names of an API server. */
export function serverCertificate(issuer: KeyPair, addresses: readonly string[]): Promise<KeyPair> {
  const names = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'];
  return issue({
    issuer,
    subject: [{ name: 'commonName', value: 'kube-apiserver' }],
    extensions: [
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        // 2 is dNSName and 7 is iPAddress: RFC 5280, section 4.2.1.6.
        altNames: [...names.map((value) => ({ type: 2, value })), ...addresses.map((ip) => ({ type: 7, ip }))],
      },
    ],
  });
}

/** A certificate of a user; the API server reads the name from CN and the groups from O. */
export function userCertificate(issuer: KeyPair, name: string, groups: readonly string[]): Promise<KeyPair> {
  return issue({
    issuer,
    subject: [...groups.map((value) => ({ name: 'organizationName', value })), { name: 'commonName', value: name }],
    extensions: [{ name: 'extKeyUsage', clientAuth: true }],
  });
}

/** A key pair for the tokens of service accounts, PEM. */
export async function tokenKeys(): Promise<{ readonly publicKey: string; readonly privateKey: string }> {
  const pair = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return {
    publicKey: pair.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    privateKey: pair.privateKey.export({ type: 'pkcs1', format: 'pem' }).toString(),
  };
}
