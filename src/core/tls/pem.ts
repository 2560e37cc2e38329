/** PEM (RFC 7468): base64 between two lines that name its kind. Text around blocks is ignored. */

/** The base64 of a block; a block with other characters does not match. */
const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----\s([A-Za-z0-9+/=\s]+)-----END \1-----/g;

/** DER as PEM, with a line break at its end. */
export function encodePem(label: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

/** The well-formed blocks of these labels, in order, each as a separate string with a line break at its end. */
export function pemBlocks(text: string, ...labels: readonly string[]): string[] {
  return [...text.matchAll(BLOCK)].filter(([, label = '']) => labels.includes(label)).map(([block]) => `${block}\n`);
}

/** The DER of the well-formed blocks of these labels, in order. */
export function readPem(text: string, ...labels: readonly string[]): Buffer[] {
  return [...text.matchAll(BLOCK)]
    .filter(([, label = '']) => labels.includes(label))
    .map(([, , base64 = '']) => Buffer.from(base64, 'base64'));
}

/** The number of blocks with a label (by default with any), including those that are truncated or malformed. */
export function countPemBlocks(text: string, label = ''): number {
  return text.split(`-----BEGIN ${label}`).length - 1;
}
