/**
 * Certificates of a gateway as a client (DestinationRule `tls.credentialName`): Secrets of its own namespace, which it
 * gets only when its identity is proved. A cluster whose certificates are missing has no endpoints: Envoy does not wait
 * for it, and no weaker connection replaces it.
 */
import { AUTHORITIES_SUFFIX, sdsName } from '../../core/tls/tls-secrets.ts';
import type { MergedDestinationRule } from '../../model/index.ts';
import type { ClientTlsSettings, TrafficPolicy } from '../../resources/index.ts';
import { type MeshReader, noteAll, type Recorded, recorded } from '../reads/index.ts';
import type { Unit } from '../types.ts';
import type { GatewayView, View } from '../views.ts';
import { parseCredentialName, reservedName } from './credentials.ts';
import { findAuthorities, findKeyPair, keyPairName } from './secrets.ts';

/** The Secrets of a cluster's TLS settings. */
export interface ClientCredential {
  /** SDS name of the client's own key pair; undefined if none is presented. */
  readonly keyPair: string | undefined;
  /** SDS name of the authorities that verify servers; undefined if servers are not verified. */
  readonly authorities: string | undefined;
  /** Why they are unavailable; undefined when all are available. */
  readonly missing: string | undefined;
}

const NOTHING: ClientCredential = { keyPair: undefined, authorities: undefined, missing: undefined };

/**
 * The Secrets of a rule's TLS settings, by {@link credentialKey}, as a string: equal strings mean equal clusters.
 * Undefined for a rule without Secrets.
 */
export function clientCredentials(
  snapshot: MeshReader,
  view: View,
  rule: MergedDestinationRule | undefined,
): string | undefined {
  if (rule === undefined) return undefined;
  const settings = namingSecrets(rule);
  if (settings.length === 0) return undefined;
  return JSON.stringify(
    Object.fromEntries(settings.map((tls) => [credentialKey(tls), credentialOf(tls, snapshot, view)])),
  );
}

/** The credential string for one of the rule's TLS settings. */
export function readCredential(credentials: string | undefined, tls: ClientTlsSettings): ClientCredential | undefined {
  if (credentials === undefined) return undefined;
  return (JSON.parse(credentials) as Readonly<Record<string, ClientCredential>>)[credentialKey(tls)];
}

function credentialKey({ mode, credentialName, insecureSkipVerify }: ClientTlsSettings): string {
  return JSON.stringify([mode, credentialName, insecureSkipVerify === true]);
}

function credentialOf(tls: ClientTlsSettings, snapshot: MeshReader, view: View): ClientCredential {
  if (view.part !== 'gateway')
    return { ...NOTHING, missing: 'tls.credentialName applies to gateways only: specify the certificates as files' };
  const name = parseCredentialName(tls.credentialName ?? '', view.namespace);
  if (typeof name !== 'string') return { ...NOTHING, missing: name.refused };
  const verified = tls.insecureSkipVerify !== true;
  return { ...namesOf(tls, name), missing: missingOf(name, tls.mode === 'MUTUAL', verified, snapshot, view) };
}

function namesOf(tls: ClientTlsSettings, name: string): Omit<ClientCredential, 'missing'> {
  return {
    keyPair: tls.mode === 'MUTUAL' ? sdsName('key pair', name) : undefined,
    authorities: tls.insecureSkipVerify === true ? undefined : sdsName('authorities', name),
  };
}

function missingOf(
  name: string,
  mutual: boolean,
  verified: boolean,
  snapshot: MeshReader,
  view: GatewayView,
): string | undefined {
  if (!view.clientCredentials)
    return `Secrets are not sent, because the proxy is not authenticated as a gateway of namespace ${view.namespace}`;
  if (mutual && name.endsWith(AUTHORITIES_SUFFIX)) return reservedName(name);
  if (mutual && findKeyPair(name, snapshot, view.namespace)?.usable !== true) {
    return `waits for a key pair in Secret ${view.namespace}/${name}`;
  }
  if (verified && findAuthorities(name, snapshot, view.namespace)?.usable !== true) {
    return `waits for CA certificates in Secret ${view.namespace}/${name}`;
  }
  return undefined;
}

export function namingSecrets(rule: MergedDestinationRule): readonly ClientTlsSettings[] {
  const policies = [rule.trafficPolicy, ...rule.subsets.map(({ trafficPolicy }) => trafficPolicy)];
  return policies.flatMap(tlsOf).filter(({ mode, credentialName }) => {
    return (mode === 'SIMPLE' || mode === 'MUTUAL') && credentialName !== undefined && credentialName !== '';
  });
}

function tlsOf(policy: TrafficPolicy | undefined): ClientTlsSettings[] {
  if (policy === undefined) return [];
  return [policy, ...(policy.portLevelSettings ?? [])].flatMap(({ tls }) => (tls === undefined ? [] : [tls]));
}

type KnownSettings = WeakMap<GatewayView, Recorded<readonly ClientTlsSettings[]>>;

/** The TLS settings of a gateway's clusters that name Secrets; computed once for all units of a view. */
function settingsNamingSecrets(snapshot: MeshReader, view: GatewayView): readonly ClientTlsSettings[] {
  const { memos } = snapshot;
  const ofSnapshot = memos.weak<MeshReader, KnownSettings>('client credentials').get(snapshot, () => new WeakMap());
  const known = ofSnapshot.get(view);
  if (known !== undefined) {
    noteAll(known.facts);
    return known.value;
  }
  const found = recorded(() => {
    if (!view.clientCredentials) return [];
    const { rules, services } = snapshot.gatewayScope(view.namespace, view.ruleLabels);
    return rules.namingSecrets(services, (rule) => namingSecrets(rule).length > 0).flatMap(namingSecrets);
  });
  ofSnapshot.set(view, found);
  return found.value;
}

function unitsOf(tls: ClientTlsSettings, view: GatewayView): readonly Unit[] {
  const name = parseCredentialName(tls.credentialName ?? '', view.namespace);
  if (typeof name !== 'string') return [];
  const { keyPair, authorities } = namesOf(tls, name);
  return [keyPair, authorities].filter((unit) => unit !== undefined);
}

/** Result of {@link gatewayKeyPair} for an unavailable key pair. */
export const MISSING_KEY_PAIR = '';

/**
 * SDS name of the key pair that a gateway presents as a client if `atGateways` of a rule has TLS settings; undefined if
 * it presents none.
 */
export function gatewayKeyPair(snapshot: MeshReader, view: View): string | undefined {
  if (view.part !== 'gateway' || view.clientKeyPair === undefined) return undefined;
  const { namespace, name } = view.clientKeyPair;
  const usable = findKeyPair(name, snapshot, namespace)?.usable === true;
  return usable ? keyPairName(view.clientKeyPair, view.namespace) : MISSING_KEY_PAIR;
}

/** SDS names that the clusters of a gateway may request, available or not. */
export function clientSecretUnits(snapshot: MeshReader, view: GatewayView): readonly Unit[] {
  const units = settingsNamingSecrets(snapshot, view).flatMap((tls) => unitsOf(tls, view));
  return view.clientKeyPair === undefined ? units : [...units, keyPairName(view.clientKeyPair, view.namespace)];
}

/** Whether some cluster requests it and has everything else that it needs. */
export function isClientSecret(snapshot: MeshReader, view: GatewayView, unit: Unit): boolean {
  if (unit === gatewayKeyPair(snapshot, view)) return true;
  return settingsNamingSecrets(snapshot, view).some(
    (tls) => unitsOf(tls, view).includes(unit) && credentialOf(tls, snapshot, view).missing === undefined,
  );
}
