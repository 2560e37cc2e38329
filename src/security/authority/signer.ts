/**
 * The code of the signing worker. It holds the authority's key; it returns only certificates, and the keys of servers
 * that it creates.
 */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { encoded, type Node } from '../../asn1/index.ts';
import { messageOf } from '../../core/errors.ts';
import { encodePem } from '../../core/tls/pem.ts';
import {
  EMPTY_NAME,
  hostName,
  type LeafTemplate,
  leafExtensions,
  leafTemplate,
  type SigningKey,
  type SubjectKey,
  signingKey,
  uriName,
  writeCertificate,
} from './certificate.ts';
import { certificateFacts, readKeyBits } from './certificate-facts.ts';
import { readCsr } from './csr.ts';
import type { Issuer, SignAnswer, SignJob, SignResult, SignTask } from './sign-protocol.ts';

/** How far the clock of a verifier may be behind the signer's, ms. */
export const BACKDATE_MS = 2 * 60_000;

/** An issuer that expires within this time does not sign: the certificates would expire before they are used. */
const MIN_LIFE_MS = 1000;

interface Prepared {
  readonly signer: SigningKey;
  readonly name: Node;
  readonly template: LeafTemplate;
  readonly notBefore: number;
  readonly chainEnd: number;
}

function prepare({ key, certificate, chainEnd }: Issuer): Prepared {
  const { subject, keyIdentifier, notBefore } = certificateFacts(certificate);
  return {
    signer: signingKey(createPrivateKey(key)),
    name: encoded(subject),
    template: leafTemplate(keyIdentifier),
    notBefore,
    chainEnd,
  };
}

/**
 * Returns 16 bytes per call from larger pieces, because the cost of fetching random bytes hardly depends on their
 * number.
 */
function serialSource(randomBytes: (size: number) => Buffer): () => Buffer {
  const size = 16;
  let pool: Buffer = Buffer.alloc(0);
  return () => {
    if (pool.length < size) pool = randomBytes(64 * size);
    const serial = pool.subarray(0, size);
    pool = pool.subarray(size);
    return serial;
  };
}

export interface Signer {
  run(task: SignTask): SignAnswer;
}

export function createSigner(randomBytes: (size: number) => Buffer): Signer {
  let issuer: Prepared | undefined;
  const serials = serialSource(randomBytes);

  const issue = (by: Prepared, subject: SubjectKey, names: readonly Node[], job: SignJob) => {
    const notAfter = Math.min(job.now + job.lifetimeSeconds * 1000, by.chainEnd);
    const fields = {
      serial: serials(),
      issuer: by.name,
      subject: EMPTY_NAME,
      notBefore: Math.max(job.now - BACKDATE_MS, by.notBefore),
      notAfter,
      publicKey: subject.publicKey,
      extensions: leafExtensions(names, subject, by.template),
    };
    const certificate = encodePem('CERTIFICATE', writeCertificate(fields, by.signer));
    return { kind: 'signed', certificate, notAfter: Math.floor(notAfter / 1000) * 1000 } as const;
  };

  const signJob = (by: Prepared, job: SignJob): SignResult => {
    if (by.chainEnd - job.now < MIN_LIFE_MS) return { kind: 'expired' };
    // A certificate cannot be valid before its issuer, and this one might expire before it is valid.
    if (job.now < by.notBefore) return { kind: 'not yet valid', now: job.now, notBefore: by.notBefore };
    if (job.kind === 'server') {
      const { publicKey, privateKey: key } = generateKeyPairSync('ec', {
        namedCurve: 'P-256',
        publicKeyEncoding: { format: 'der', type: 'spki' },
        privateKeyEncoding: { format: 'pem', type: 'pkcs8' },
      });
      const subject = { algorithm: 'ec', publicKey, keyBits: readKeyBits(publicKey) } as const;
      return { ...issue(by, subject, [...job.hosts.map(hostName), ...job.uris.map(uriName)], job), key };
    }
    let request: SubjectKey;
    try {
      request = readCsr(job.csr);
    } catch (error) {
      return { kind: 'refused', message: messageOf(error) };
    }
    return issue(by, request, [uriName(job.uri)], job);
  };

  return {
    run({ adopt, jobs }) {
      if (adopt !== undefined) issuer = prepare(adopt);
      const by = issuer;
      if (by === undefined) return { kind: 'keyless' };
      const results = jobs.map((job): SignResult => {
        try {
          return signJob(by, job);
        } catch (error) {
          return { kind: 'failed', message: messageOf(error) };
        }
      });
      return { kind: 'done', results };
    },
  };
}
