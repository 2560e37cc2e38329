/** Certificate authorities in ConfigMaps. */
import { X509Certificate } from 'node:crypto';
import { countPemBlocks, pemBlocks } from '../../../core/tls/pem.ts';
import type { ConfigMapContent } from '../../../resources/index.ts';
import type { Documents } from '../documents.ts';
import { absence } from '../references.ts';

/** The entry of a ConfigMap that has the certificates. */
const ENTRY = 'ca.crt';

/** The certificates of a ConfigMap, PEM; or why there are none. */
export function authoritiesIn(
  documents: Documents,
  namespace: string,
  name: string,
): string | { readonly missing: string } {
  const found = documents.get('ConfigMap', namespace, name);
  if (found === undefined) return { missing: absence(documents, 'ConfigMap', namespace, name) };
  return (
    readCertificates(found.content) ?? { missing: `ConfigMap ${namespace}/${name} has no certificates (${ENTRY})` }
  );
}

/** Undefined for a ConfigMap without certificates, or with one that is malformed. */
function readCertificates({ data }: ConfigMapContent): string | undefined {
  const text = data?.[ENTRY];
  if (text === undefined) return undefined;
  const blocks = pemBlocks(text, 'CERTIFICATE');
  if (blocks.length === 0 || blocks.length !== countPemBlocks(text, 'CERTIFICATE-----')) return undefined;
  try {
    for (const block of blocks) new X509Certificate(block);
  } catch {
    return undefined;
  }
  return blocks.join('');
}
