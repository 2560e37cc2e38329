/**
 * Certificates of gateway servers in Secrets: which ones a server names, and whether they are available. They are
 * requested over the stream of the listener, so that a new certificate does not change the listener, or from the
 * proxy's agent, if it reads the Secrets of its namespace itself (`GatewayView.agentReadsSecrets`).
 *
 * A proxy gets Secrets of its own namespace only, and only for Gateways that its proved identity serves
 * (`GatewayView.credentialed`); names with another namespace are refused in every form (CVE-2021-34824).
 */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import { AUTHORITIES_SUFFIX, sdsName } from '../../core/tls/tls-secrets.ts';
import type { SecretName, ServerTlsSettings } from '../../resources/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GatewayView } from '../views.ts';
import { findAuthorities, findKeyPair, keyPairName } from './secrets.ts';

export interface RequestedSecret {
  readonly sdsName: string;
  /** Whether the agent serves it; else this program, over the stream of the listener. */
  readonly fromAgent: boolean;
}

/** The Secrets of a server's TLS settings. */
export interface ServerCredentials {
  /** The server's own key pairs; empty: they are in files. */
  readonly keyPairs: readonly RequestedSecret[];
  /** The authorities that verify clients; undefined if they are in a file, or clients present no certificate. */
  readonly authorities: RequestedSecret | undefined;
  /** Why they are unavailable; undefined when all are available. */
  readonly missing: () => string | undefined;
}

/** Modes in which the gateway presents its own certificate. */
const MODES: ReadonlySet<string> = new Set(['SIMPLE', 'MUTUAL', 'OPTIONAL_MUTUAL']);

/** Whether a server's certificates, or the authorities of its clients, are in Secrets. */
export function namesSecrets(tls: ServerTlsSettings | undefined): boolean {
  if (tls === undefined || !MODES.has(tls.mode ?? '')) return false;
  return (tls.keyPairs ?? keyPairNames(tls)).length > 0 || authoritiesName(tls) !== undefined;
}

/**
 * The Secrets of a server's TLS settings; undefined for a server without any. If they are unavailable, the server keeps
 * its position among the others and closes its connections.
 */
export function serverCredentials(
  { tls, gateway }: { readonly tls: ServerTlsSettings | undefined; readonly gateway: string },
  snapshot: MeshReader,
  view: GatewayView,
): ServerCredentials | undefined {
  if (tls?.closed !== undefined) return { keyPairs: [], authorities: undefined, missing: () => tls.closed };
  if (tls === undefined || !namesSecrets(tls)) return undefined;
  const pairs: readonly (SecretName | Refused)[] =
    tls.keyPairs ??
    keyPairNames(tls).map((written) => {
      const name = parseCredentialName(written, view.namespace);
      return isText(name) ? { namespace: view.namespace, name } : name;
    });
  const trusted = [authoritiesName(tls)].filter(isText).map((written) => parseCredentialName(written, view.namespace));
  const secrets = pairs.filter((pair) => 'name' in pair);
  const [authorities] = trusted.filter(isText);
  const fromAgent = view.agentReadsSecrets === true;
  // The agent only has the Secrets of its own namespace, and waits for missing ones.
  const isOfAgent = ({ namespace }: SecretName): boolean => fromAgent && namespace === view.namespace;
  const sent = secrets.filter((secret) => !isOfAgent(secret));
  const sentAuthorities = fromAgent ? undefined : authorities;
  const missing = () =>
    [...pairs, ...trusted].find(isRefused)?.refused ??
    secrets.map(misnamed).find(isText) ??
    (sent.length === 0 && sentAuthorities === undefined ? undefined : unauthorised(gateway, view)) ??
    sent.map((secret) => keyPairProblem(secret, snapshot)).find(isText) ??
    (sentAuthorities === undefined ? undefined : authoritiesProblem(sentAuthorities, snapshot, view));
  return {
    keyPairs: secrets.map((secret) => ({
      sdsName: keyPairName(secret, view.namespace),
      fromAgent: isOfAgent(secret),
    })),
    authorities: authorities === undefined ? undefined : { sdsName: sdsName('authorities', authorities), fromAgent },
    missing,
  };
}

function keyPairNames({ credentialName, credentialNames }: ServerTlsSettings): readonly string[] {
  if (credentialNames?.length) return credentialNames;
  return credentialName ? [credentialName] : [];
}

/** The credential with the authorities that verify clients; a file replaces those of the server's own credential. */
function authoritiesName(tls: ServerTlsSettings): string | undefined {
  if (tls.mode !== 'MUTUAL' && tls.mode !== 'OPTIONAL_MUTUAL') return undefined;
  if (tls.caCertCredentialName) return tls.caCertCredentialName;
  return tls.caCertificates || tls.clientAuthorities !== undefined ? undefined : keyPairNames(tls)[0];
}

export interface Refused {
  readonly refused: string;
}

function isText(text: string | Refused | undefined): text is string {
  return typeof text === 'string';
}

function isRefused(name: string | SecretName | Refused): name is Refused {
  return typeof name !== 'string' && 'refused' in name;
}

/**
 * The Secret of a credential name: `name`, `kubernetes://name`, also with the gateway's own namespace before the name.
 */
export function parseCredentialName(written: string, namespace: string): string | Refused {
  const shown = JSON.stringify(written.slice(0, 256));
  const path = /^(?:kubernetes|kubernetes-gateway):\/\/(.*)$/s.exec(written)?.[1] ?? written;
  const slash = path.indexOf('/');
  const name = path.slice(slash + 1);
  if (slash >= 0 && path.slice(0, slash) !== namespace) {
    return {
      refused: `credential ${shown} is denied: gateways get only Secrets of their own namespace, ${namespace}`,
    };
  }
  if (!isDnsSubdomain(name)) return { refused: `credential ${shown} is denied: expected the name of a Secret` };
  return name;
}

function unauthorised(gateway: string, view: GatewayView): string | undefined {
  if (view.credentialed.includes(gateway)) return undefined;
  const workload = `a workload of namespace ${view.namespace} that the Gateway selects`;
  const expected = "expected a certificate or token of that Pod's or WorkloadEntry's service account";
  return `Secrets are not sent, because the proxy is not authenticated as ${workload} (${expected})`;
}

function misnamed({ name }: SecretName): string | undefined {
  return name.endsWith(AUTHORITIES_SUFFIX) ? reservedName(name) : undefined;
}

/** The SDS name of such a key pair would be that of the CA certificates of another credential. */
export function reservedName(name: string): string {
  return `credential ${name} is denied: names that end in ${AUTHORITIES_SUFFIX} are reserved for CA certificates`;
}

function keyPairProblem({ namespace, name }: SecretName, snapshot: MeshReader): string | undefined {
  const found = findKeyPair(name, snapshot, namespace);
  if (found === undefined) return `waits for Secret ${namespace}/${name}, which does not exist or cannot be read`;
  return found.usable
    ? undefined
    : `Secret ${namespace}/${name} has no key pair (tls.crt and tls.key, or cert and key)`;
}

function authoritiesProblem(name: string, snapshot: MeshReader, view: GatewayView): string | undefined {
  const found = findAuthorities(name, snapshot, view.namespace);
  if (found === undefined) return missingAuthorities(`${view.namespace}/${name}`);
  return found.usable
    ? undefined
    : `Secret ${view.namespace}/${found.secret} has no CA certificates for clients (ca.crt or cacert)`;
}

function missingAuthorities(secret: string): string {
  return `waits for the CA certificates of its clients in Secret ${secret} or ${secret}${AUTHORITIES_SUFFIX}`;
}
