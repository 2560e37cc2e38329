/** Certificate authorities in ConfigMaps. */
import { X509Certificate } from 'node:crypto';
import { countPemBlocks, pemBlocks } from '../../core/pem.ts';
import type { ConfigMapContent } from '../../resources/index.ts';

/** The entry that has them. */
const ENTRY = 'ca.crt';

/** The certificates of a ConfigMap, PEM; undefined where it has none, or any that is malformed. */
export function authoritiesIn(content: ConfigMapContent | undefined): string | undefined {
  const text = content?.data?.[ENTRY];
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
