/** PEM (RFC 7468): base64 between two lines that name what it is. */

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END ([A-Z0-9 ]+)-----/g;

/** DER as PEM, with a line break at its end. */
export function encodePem(label: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

/**
 * DER of all blocks whose label is one of `labels`; text around blocks is passed over, as files explain themselves with
 * it.
 */
export function readPem(text: string, labels: readonly string[]): readonly Buffer[] {
  return [...text.matchAll(BLOCK)]
    .filter(([, begin = '', , end]) => labels.includes(begin) && begin === end)
    .map(([, , base64 = '']) => Buffer.from(base64, 'base64'));
}

/** How many blocks of any kind there are, whole or not. */
export function countPemBlocks(text: string): number {
  return text.split('-----BEGIN ').length - 1;
}

/** The certificates of a PEM text, each as PEM of its own, in order. */
export function splitCertificates(text: string): readonly string[] {
  return readPem(text, ['CERTIFICATE']).map((der) => encodePem('CERTIFICATE', der));
}
