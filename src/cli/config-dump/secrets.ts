/** Certificates of a configuration dump: names, serial numbers and how long they are valid; never a key. */
import { X509Certificate } from 'node:crypto';
import { at, type DumpedResource, textOf } from './dump.ts';

export interface ShownCertificate {
  readonly name: string;
  readonly type: 'Cert Chain' | 'CA' | 'Other';
  readonly subject: string;
  readonly serialNumber: string;
  readonly notBefore: string;
  readonly notAfter: string;
  /** Whole days until it expires, negative afterwards; undefined where the dump has no certificate. */
  readonly daysLeft: number | undefined;
  readonly valid: boolean;
}

const DAY_MS = 86_400_000;

/** Certificates of a bundle that are shown. */
const MAX_CERTIFICATES = 1000;

const PEM = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** @param now wall clock, ms */
export function shownSecrets(secrets: readonly DumpedResource[], now: number): ShownCertificate[] {
  return secrets.flatMap(({ name, message }) => {
    const chain = bytesOf(at(message, 'tlsCertificate', 'certificateChain'));
    const roots = bytesOf(at(message, 'validationContext', 'trustedCa'));
    const found = [
      ...certificates(chain).map((one) => shown(name, 'Cert Chain', one, now)),
      ...certificates(roots).map((one) => shown(name, 'CA', one, now)),
    ];
    const kind = message.tlsCertificate !== undefined ? 'Cert Chain' : message.validationContext ? 'CA' : 'Other';
    return found.length > 0 ? found : [{ ...NOTHING, name, type: kind }];
  });
}

const NOTHING = { subject: '', serialNumber: '', notBefore: '', notAfter: '', daysLeft: undefined, valid: false };

/** The text of a data source in the dump. */
function bytesOf(source: ReturnType<typeof at>): string {
  const text = textOf(at(source, 'inlineString'));
  return text === '' ? Buffer.from(textOf(at(source, 'inlineBytes')), 'base64').toString('latin1') : text;
}

function certificates(pem: string): X509Certificate[] {
  const blocks = [...pem.matchAll(PEM)].slice(0, MAX_CERTIFICATES);
  return blocks.flatMap(([block]) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

function shown(name: string, type: 'Cert Chain' | 'CA', one: X509Certificate, now: number): ShownCertificate {
  const [notBefore, notAfter] = [new Date(one.validFrom), new Date(one.validTo)];
  return {
    name,
    type,
    subject: one.subjectAltName ?? one.subject.replaceAll('\n', ', '),
    serialNumber: one.serialNumber.toLowerCase(),
    notBefore: notBefore.toISOString(),
    notAfter: notAfter.toISOString(),
    daysLeft: Math.floor((notAfter.getTime() - now) / DAY_MS),
    valid: notBefore.getTime() <= now && now < notAfter.getTime(),
  };
}

export function secretRows(certificatesShown: readonly ShownCertificate[]): string[][] {
  const header = ['RESOURCE NAME', 'TYPE', 'VALID CERT', 'SERIAL NUMBER', 'NOT AFTER', 'NOT BEFORE', 'DAYS LEFT'];
  const rows = certificatesShown.map(({ name, type, valid, serialNumber, notAfter, notBefore, daysLeft }) => {
    return [name, type, String(valid), serialNumber, notAfter, notBefore, daysLeft === undefined ? '' : `${daysLeft}`];
  });
  return [header, ...rows];
}
