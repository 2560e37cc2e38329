/**
 * SDS resources from Secrets. `kubernetes://<name>` is the key pair of the Secret of that name,
 * `kubernetes://<name>-cacert` the authorities that belong to it, both in the gateway's own namespace. A key pair that
 * a derived document names may be in another namespace: `kubernetes://<namespace>/<name>`.
 */

import type { PMap } from '../../core/pmap.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import {
  authoritiesOf,
  keyPairOf,
  type Resource,
  type ResourceKey,
  resourceKey,
  type SecretContent,
  type SecretName,
  secretBytes,
} from '../../resources/index.ts';
import { API_VERSION_V3 } from '../common/index.ts';
import { type Fact, fact, type MeshReader, note, unrecorded } from '../reads/index.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
type SecretMessage = Omit<envoy.extensions.transport_sockets.tls.v3.Secret.Input, 'name'>;
type SecretConfig = envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig.Input;

const SCHEME = 'kubernetes://';
/** Suffix of the Secret with the authorities that belong to a credential, and of their SDS name. */
export const AUTHORITIES_SUFFIX = '-cacert';

/** SDS name of a key pair as a proxy of namespace `own` requests it. */
export function keyPairName({ namespace, name }: SecretName, own: string): string {
  return namespace === own ? sdsName('key pair', name) : `${SCHEME}${namespace}/${name}`;
}

/** SDS name of a credential in the gateway's own namespace. */
export function sdsName(what: 'key pair' | 'authorities', name: string): string {
  return what === 'key pair' ? `${SCHEME}${name}` : `${SCHEME}${authoritiesNames(name)[0]}`;
}

/** Requests a secret over the stream of the listener. */
export function adsSecret(name: string): SecretConfig {
  return { name, sdsConfig: { ads: {}, resourceApiVersion: API_VERSION_V3 } };
}

/** The encoded resource of a {@link sdsName}; undefined while no Secret has it. */
export function encodeSecret(name: string, snapshot: MeshReader, namespace: string): Uint8Array | undefined {
  const path = name.slice(SCHEME.length);
  const slash = path.indexOf('/');
  const message = secretMessage(path.slice(slash + 1), snapshot, slash < 0 ? namespace : path.slice(0, slash));
  return message && encode(Secret, { name, ...message });
}

/** An existing Secret, and whether it contains what the SDS resource needs. */
interface Found {
  readonly secret: string;
  readonly usable: boolean;
}

/** Whether there is a key pair, not which one: a renewed one is equal. */
export function findKeyPair(name: string, snapshot: MeshReader, namespace: string): Found | undefined {
  note(fact.keyPair(resourceKey('Secret', namespace, name)));
  const state = unrecorded(() => keyPairState(contentOf(name, snapshot, namespace)));
  return state === 'absent' ? undefined : { secret: name, usable: state === 'usable' };
}

/**
 * The same for authorities. A separate Secret counts as soon as it exists: the authorities beside the key pair may be
 * wider.
 */
export function findAuthorities(name: string, snapshot: MeshReader, namespace: string): Found | undefined {
  note(fact.authorities(credentialKey(name, namespace)));
  return unrecorded(() => authoritiesAmong(name, (secret) => contentOf(secret, snapshot, namespace)));
}

function authoritiesAmong(name: string, contentOf: (secret: string) => SecretContent | undefined): Found | undefined {
  for (const secret of authoritiesNames(name)) {
    const content = contentOf(secret);
    if (content !== undefined) return { secret, usable: authoritiesMessage(content) !== undefined };
  }
  return undefined;
}

/** Key of the Secret of a credential, under any of the names in which its authorities may be. */
function credentialKey(name: string, namespace: string): ResourceKey {
  return resourceKey('Secret', namespace, authoritiesNames(name)[1]);
}

function keyPairState(content: SecretContent | undefined): 'absent' | 'unusable' | 'usable' {
  if (content === undefined) return 'absent';
  return keyPairMessage(content) === undefined ? 'unusable' : 'usable';
}

type SecretTable = PMap<Resource<'Secret'>>;

/** Facts of {@link findKeyPair} and {@link findAuthorities} that a changed Secret changes. */
export function changedCredentials(before: SecretTable, after: SecretTable, key: ResourceKey): readonly Fact[] {
  const [, namespace = '', name = ''] = key.split('/');
  const found = [before, after].map((table) => {
    const content = (secret: string) => table.get(resourceKey('Secret', namespace, secret))?.content;
    const authorities = authoritiesAmong(name, content);
    return [keyPairState(content(name)), authorities?.usable === true ? 'usable' : authorities?.secret] as const;
  });
  const [[pairBefore, authoritiesBefore] = [], [pairAfter, authoritiesAfter] = []] = found;
  return [
    ...(pairBefore === pairAfter ? [] : [fact.keyPair(key)]),
    ...(authoritiesBefore === authoritiesAfter ? [] : [fact.authorities(credentialKey(name, namespace))]),
  ];
}

/** Secrets in which the authorities of a credential may be, in this order; the credential may be named by either. */
function authoritiesNames(name: string): readonly [apart: string, beside: string] {
  const base = name.endsWith(AUTHORITIES_SUFFIX) ? name.slice(0, -AUTHORITIES_SUFFIX.length) : name;
  return [`${base}${AUTHORITIES_SUFFIX}`, base];
}

function contentOf(name: string, snapshot: MeshReader, namespace: string): SecretContent | undefined {
  return snapshot.resources('Secret').get(resourceKey('Secret', namespace, name))?.content;
}

function secretMessage(secret: string, snapshot: MeshReader, namespace: string): SecretMessage | undefined {
  if (!secret.endsWith(AUTHORITIES_SUFFIX)) {
    const content = contentOf(secret, snapshot, namespace);
    return content && keyPairMessage(content);
  }
  for (const name of authoritiesNames(secret)) {
    const content = contentOf(name, snapshot, namespace);
    if (content !== undefined) return authoritiesMessage(content);
  }
  return undefined;
}

function keyPairMessage(content: SecretContent): SecretMessage | undefined {
  const fields = keyPairOf(content);
  if (fields === undefined) return undefined;
  const chain = secretBytes(content, fields.certificate);
  const key = secretBytes(content, fields.key);
  const staple = fields.staple === undefined ? undefined : secretBytes(content, fields.staple);
  if (chain === undefined || key === undefined) return undefined;
  return {
    tlsCertificate: {
      certificateChain: { inlineBytes: chain },
      privateKey: { inlineBytes: key },
      ...(staple === undefined ? {} : { ocspStaple: { inlineBytes: staple } }),
    },
  };
}

function authoritiesMessage(content: SecretContent): SecretMessage | undefined {
  const fields = authoritiesOf(content);
  if (fields === undefined) return undefined;
  const trusted = secretBytes(content, fields.authorities);
  const revoked = fields.revoked === undefined ? undefined : secretBytes(content, fields.revoked);
  // Without a readable revocation list, revoked certificates would be accepted.
  if (trusted === undefined || (fields.revoked !== undefined && revoked === undefined)) return undefined;
  return {
    validationContext: {
      trustedCa: { inlineBytes: trusted },
      ...(revoked === undefined ? {} : { crl: { inlineBytes: revoked } }),
    },
  };
}
