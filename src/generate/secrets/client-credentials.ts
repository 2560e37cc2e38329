/**
 * Certificates of a gateway as a client (DestinationRule `tls.credentialName`): Secrets of its own namespace, which it has only when it has
 * proved who it is. A cluster whose certificates are missing has no endpoints: it is neither waited for, nor reached in a weaker way.
 */
import type { MergedDestinationRule, MeshSnapshot } from '../../model/types.ts';
import type { ClientTlsSettings, TrafficPolicy } from '../../resources/schemas.ts';
import type { GatewayView, Unit, View } from '../types.ts';
import { parseCredentialName } from './credentials.ts';
import { AUTHORITIES_SUFFIX, findAuthorities, findKeyPair, sdsName } from './secrets.ts';

/** What a cluster's TLS asks of Secrets. */
export interface ClientCredential {
  /** SDS name of the client's own key pair; undefined where none is shown. */
  readonly keyPair: string | undefined;
  /** SDS name of the authorities that vouch for servers; undefined where they are not verified. */
  readonly authorities: string | undefined;
  /** Why they cannot be had now; undefined when all are there. */
  readonly missing: string | undefined;
}

const NOTHING: ClientCredential = { keyPair: undefined, authorities: undefined, missing: undefined };

/**
 * What the TLS settings of a rule ask of Secrets, by {@link credentialKey}, as text: equal texts, equal clusters. Undefined for a rule that
 * names no Secrets.
 */
export function clientCredentials(
  snapshot: MeshSnapshot,
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

/** The answer for one of the rule's TLS settings. */
export function readCredential(credentials: string | undefined, tls: ClientTlsSettings): ClientCredential | undefined {
  if (credentials === undefined) return undefined;
  return (JSON.parse(credentials) as Readonly<Record<string, ClientCredential>>)[credentialKey(tls)];
}

function credentialKey({ mode, credentialName, insecureSkipVerify }: ClientTlsSettings): string {
  return JSON.stringify([mode, credentialName, insecureSkipVerify === true]);
}

function credentialOf(tls: ClientTlsSettings, snapshot: MeshSnapshot, view: View): ClientCredential {
  if (view.part !== 'gateway')
    return { ...NOTHING, missing: 'tls.credentialName is for gateways: give the certificates as files' };
  const name = parseCredentialName(tls.credentialName ?? '', view.namespace);
  if (typeof name !== 'string') return { ...NOTHING, missing: name.refused };
  const verified = tls.insecureSkipVerify !== true;
  return {
    keyPair: tls.mode === 'MUTUAL' ? sdsName('key pair', name) : undefined,
    authorities: verified ? sdsName('authorities', name) : undefined,
    missing: missingOf(name, tls.mode === 'MUTUAL', verified, snapshot, view),
  };
}

function missingOf(
  name: string,
  mutual: boolean,
  verified: boolean,
  snapshot: MeshSnapshot,
  view: GatewayView,
): string | undefined {
  if (!view.clientCredentials)
    return `no Secrets for a proxy that has not proved to be a gateway of namespace ${view.namespace}`;
  if (mutual && name.endsWith(AUTHORITIES_SUFFIX)) return `credential ${name} is refused: it names authorities`;
  if (mutual && findKeyPair(name, snapshot, view.namespace)?.message === undefined) {
    return `waits for a key pair in Secret ${view.namespace}/${name}`;
  }
  if (verified && findAuthorities(name, snapshot, view.namespace)?.message === undefined) {
    return `waits for authorities in Secret ${view.namespace}/${name}`;
  }
  return undefined;
}

const namingByRule = new WeakMap<MergedDestinationRule, readonly ClientTlsSettings[]>();

/** The TLS settings of a rule that name Secrets. */
function namingSecrets(rule: MergedDestinationRule): readonly ClientTlsSettings[] {
  const known = namingByRule.get(rule);
  if (known !== undefined) return known;
  const policies = [rule.trafficPolicy, ...rule.subsets.map(({ trafficPolicy }) => trafficPolicy)];
  const found = policies.flatMap(tlsOf).filter(({ mode, credentialName }) => {
    return (mode === 'SIMPLE' || mode === 'MUTUAL') && credentialName !== undefined && credentialName !== '';
  });
  namingByRule.set(rule, found);
  return found;
}

function tlsOf(policy: TrafficPolicy | undefined): ClientTlsSettings[] {
  if (policy === undefined) return [];
  return [policy, ...(policy.portLevelSettings ?? [])].flatMap(({ tls }) => (tls === undefined ? [] : [tls]));
}

const hostsByView = new WeakMap<MeshSnapshot, WeakMap<GatewayView, ReadonlyMap<string, string>>>();

/** Hosts of a gateway whose rules name Secrets, with what their clusters ask for; found once for all units of a view. */
export function hostsWithCredentials(snapshot: MeshSnapshot, view: GatewayView): ReadonlyMap<string, string> {
  const ofSnapshot = hostsByView.get(snapshot) ?? new WeakMap<GatewayView, ReadonlyMap<string, string>>();
  hostsByView.set(snapshot, ofSnapshot);
  const known = ofSnapshot.get(view);
  if (known !== undefined) return known;
  const found = new Map<string, string>();
  if (view.clientCredentials && anyNamesSecrets(snapshot)) {
    const scope = snapshot.gatewayScope(view.namespace);
    for (const [host] of scope.services.entries()) {
      const credentials = clientCredentials(snapshot, view, scope.destinationRule(host));
      if (credentials !== undefined) found.set(host, credentials);
    }
  }
  ofSnapshot.set(view, found);
  return found;
}

const namingByTable = new WeakMap<object, boolean>();

/** Whether any DestinationRule of the mesh names a Secret: mostly none does, and no host has to be looked at. */
function anyNamesSecrets(snapshot: MeshSnapshot): boolean {
  const rules = snapshot.resources('DestinationRule');
  const known = namingByTable.get(rules);
  if (known !== undefined) return known;
  const any = [...rules.values()].some(({ content: { trafficPolicy, subsets } }) =>
    [trafficPolicy, ...(subsets ?? []).map((subset) => subset.trafficPolicy)]
      .flatMap(tlsOf)
      .some(({ credentialName }) => credentialName !== undefined && credentialName !== ''),
  );
  namingByTable.set(rules, any);
  return any;
}

/** SDS names that the clusters of a gateway ask for. */
export function clientSecretUnits(snapshot: MeshSnapshot, view: GatewayView): readonly Unit[] {
  const units: Unit[] = [];
  for (const credentials of hostsWithCredentials(snapshot, view).values()) {
    for (const { keyPair, authorities, missing } of Object.values(
      JSON.parse(credentials) as Record<string, ClientCredential>,
    )) {
      if (missing !== undefined) continue;
      if (keyPair !== undefined) units.push(keyPair);
      if (authorities !== undefined) units.push(authorities);
    }
  }
  return units;
}
