/**
 * The identities that may read all documents of the mesh. They are named one by one: documents have secrets, such as
 * values of headers, and other accounts of the same namespaces, such as those of gateways, have no need of them.
 */

import { parseSpiffeUri, spiffeUri } from '../core/identity.ts';
import { usageError } from '../settings/index.ts';

/** The service account of control planes. */
const SERVICE_ACCOUNT = 'ctl-discovery';

export interface ReaderOptions {
  readonly trustDomain: string;
  /** Namespaces of control planes. */
  readonly namespaces: readonly string[];
  /** More readers (CTL_CONFIG_READERS): SPIFFE IDs, or NAMESPACE/ACCOUNT of the trust domain, separated by commas. */
  readonly more: string;
}

/** The SPIFFE IDs of readers. Throws CtlError `invalid_argument` for an item that is none. */
export function readerIdentities({ trustDomain, namespaces, more }: ReaderOptions): ReadonlySet<string> {
  const own = namespaces.map((namespace) => spiffeUri({ trustDomain, namespace, serviceAccount: SERVICE_ACCOUNT }));
  const named = more.split(',').flatMap((item) => {
    const written = item.trim();
    return written === '' ? [] : [identityOf(written, trustDomain)];
  });
  return new Set([...own, ...named]);
}

function identityOf(written: string, trustDomain: string): string {
  const [, namespace = '', account = ''] = /^([^/]+)\/([^/]+)$/.exec(written) ?? [];
  const uri = namespace === '' ? written : `spiffe://${trustDomain}/ns/${namespace}/sa/${account}`;
  if (parseSpiffeUri(uri) !== undefined) return uri;
  throw usageError(
    `invalid value of variable CTL_CONFIG_READERS: expected spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT or ` +
      `NAMESPACE/ACCOUNT, got ${JSON.stringify(written.slice(0, 200))}`,
  );
}
