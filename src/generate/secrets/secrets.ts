/**
 * SDS resources from Secrets. `kubernetes://<name>` is the key pair of the Secret of that name,
 * `kubernetes://<name>-cacert` the authorities that belong to it, both in the gateway's own namespace. A key pair that
 * a derived document names may be in another namespace: `kubernetes://<namespace>/<name>`.
 */

import type { PMap } from '../../core/pmap.ts';
import {
  AUTHORITIES_SUFFIX,
  authoritiesNames,
  authorityBytes,
  CREDENTIAL_SCHEME,
  keyPairBytes,
  sdsName,
} from '../../core/tls/tls-secrets.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import {
  type Resource,
  type ResourceKey,
  resourceKey,
  type SecretContent,
  type SecretName,
} from '../../resources/index.ts';
import { API_VERSION_V3 } from '../common/index.ts';
import { type Fact, fact, type MeshReader, note, unrecorded } from '../reads/index.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
type SecretMessage = Omit<envoy.extensions.transport_sockets.tls.v3.Secret.Input, 'name'>;
type SecretConfig = envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig.Input;

/** SDS name of a key pair as a proxy of namespace `own` requests it. */
export function keyPairName({ namespace, name }: SecretName, own: string): string {
  return namespace === own ? sdsName('key pair', name) : `${CREDENTIAL_SCHEME}${namespace}/${name}`;
}

/** Requests a secret over the stream of the listener. */
export function adsSecret(name: string): SecretConfig {
  return { name, sdsConfig: { ads: {}, resourceApiVersion: API_VERSION_V3 } };
}

/** The encoded resource of a {@link sdsName}; undefined while no Secret has it. */
export function encodeSecret(name: string, snapshot: MeshReader, namespace: string): Uint8Array | undefined {
  const path = name.slice(CREDENTIAL_SCHEME.length);
  const slash = path.indexOf('/');
  const message = secretMessage(path.slice(slash + 1), snapshot, slash < 0 ? namespace : path.slice(0, slash));
  return message && encode(Secret, { name, ...message });
}

/** An existing Secret, and whether it contains what the SDS resource needs. */
interface Found {
  readonly secret: string;
  readonly usable: boolean;
}

/** Whether there is a key pair; the result does not change when it is renewed. */
export function findKeyPair(name: string, snapshot: MeshReader, namespace: string): Found | undefined {
  note(fact.keyPair(resourceKey('Secret', namespace, name)));
  const state = unrecorded(() => keyPairState(findContent(name, snapshot, namespace)));
  return state === 'absent' ? undefined : { secret: name, usable: state === 'usable' };
}

/**
 * The same for authorities. A separate Secret is used as soon as it exists: the authorities in the Secret of the key
 * pair may accept more clients.
 */
export function findAuthorities(name: string, snapshot: MeshReader, namespace: string): Found | undefined {
  note(fact.authorities(credentialKey(name, namespace)));
  return unrecorded(() => authoritiesAmong(name, (secret) => findContent(secret, snapshot, namespace)));
}

function authoritiesAmong(name: string, find: (secret: string) => SecretContent | undefined): Found | undefined {
  for (const secret of authoritiesNames(name)) {
    const content = find(secret);
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

function findContent(name: string, snapshot: MeshReader, namespace: string): SecretContent | undefined {
  return snapshot.resources('Secret').get(resourceKey('Secret', namespace, name))?.content;
}

function secretMessage(secret: string, snapshot: MeshReader, namespace: string): SecretMessage | undefined {
  if (!secret.endsWith(AUTHORITIES_SUFFIX)) {
    const content = findContent(secret, snapshot, namespace);
    return content && keyPairMessage(content);
  }
  for (const name of authoritiesNames(secret)) {
    const content = findContent(name, snapshot, namespace);
    if (content !== undefined) return authoritiesMessage(content);
  }
  return undefined;
}

function keyPairMessage(content: SecretContent): SecretMessage | undefined {
  const pair = keyPairBytes(content);
  if (pair === undefined) return undefined;
  const { chain, key, staple } = pair;
  return {
    tlsCertificate: {
      certificateChain: { inlineBytes: chain },
      privateKey: { inlineBytes: key },
      ...(staple === undefined ? {} : { ocspStaple: { inlineBytes: staple } }),
    },
  };
}

function authoritiesMessage(content: SecretContent): SecretMessage | undefined {
  const authorities = authorityBytes(content);
  if (authorities === undefined) return undefined;
  const { trusted, revoked } = authorities;
  return {
    validationContext: {
      trustedCa: { inlineBytes: trusted },
      ...(revoked === undefined ? {} : { crl: { inlineBytes: revoked } }),
    },
  };
}
