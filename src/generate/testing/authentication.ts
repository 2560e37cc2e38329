/** Fixtures: a mesh of request authentications, views that they apply to, and the content of their filters. */

import { generateKeyPairSync } from 'node:crypto';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { makeKeySet } from '../../resources/make-key-set.ts';
import { tokenFilters } from '../policies/authentication/index.ts';
import { MeshReader } from '../reads/index.ts';
import type { InboundView } from '../views.ts';
import { inboundView } from './listeners.ts';
import { meshResource } from './mesh.ts';

/** A key set with one public key. */
export function someKeys(kid: string): string {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return JSON.stringify({ keys: [{ kty: 'EC', kid, ...publicKey.export({ format: 'jwk' }) }] });
}

export function authentication(
  name: string,
  jwtRules: readonly object[],
  namespace = 'default',
  matchLabels?: Readonly<Record<string, string>>,
): AnyResource {
  const selector = matchLabels === undefined ? {} : { selector: { matchLabels } };
  return meshResource('RequestAuthentication', namespace, name, { jwtRules, ...selector });
}

export const fetched = (reference: string, jwks: string): AnyResource => makeKeySet(reference, jwks);

/** The inbound view of a workload with its policies. */
export function viewIn(
  snapshot: Snapshot,
  { labels = {}, ...changes }: Partial<InboundView> & { readonly labels?: Readonly<Record<string, string>> } = {},
): InboundView {
  const { namespace = 'default' } = changes;
  return inboundView({ scope: `${namespace}/`, policies: snapshot.policiesOf(namespace, labels), ...changes });
}

const { JwtAuthentication } = envoy.extensions.filters.http.jwt_authn.v3;
export type Authentication = envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication;

/** The token filter of a view; throws when there is none. */
export function authenticationOf(snapshot: Snapshot, view: InboundView = viewIn(snapshot)): Authentication {
  const [filter] = tokenFilters(MeshReader.of(snapshot), view);
  const bytes = filter?.typedConfig?.value;
  if (!(bytes instanceof Uint8Array)) throw new Error('the view has no filter');
  return JwtAuthentication.decode(bytes);
}

type Requirement = envoy.extensions.filters.http.jwt_authn.v3.JwtRequirement;

/** The requirement on requests in one line: `all(any(a, b, missing), any(a@1, missing))`. */
export function requirementText({ rules }: Authentication): string {
  const text = (requirement: Requirement): string => {
    if (requirement.requiresAll !== null) return `all(${requirement.requiresAll.requirements.map(text).join(', ')})`;
    if (requirement.requiresAny !== null) return `any(${requirement.requiresAny.requirements.map(text).join(', ')})`;
    return requirement.allowMissing !== null ? 'missing' : String(requirement.providerName);
  };
  return rules.map(({ requires }) => (requires === null ? 'nothing' : text(requires))).join('; ');
}
