/** A key pair and its authorities, PEM. */
import { readFileSync } from 'node:fs';

const directory = new URL('../../../../test/golden-harness/certs/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, directory), 'utf8');

export const certificates = { certificate: read('tls.crt'), key: read('tls.key'), authorities: read('ca.crt') };
