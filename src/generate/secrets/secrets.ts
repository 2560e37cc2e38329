/**
 * SDS resources made of Secrets. `kubernetes://<name>` is the key pair of the Secret of that name,
 * `kubernetes://<name>-cacert` the authorities that belong to it; always those of the gateway's own namespace, which
 * therefore need not stand in the name.
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
  secretBytes,
} from '../../resources/index.ts';
import { API_VERSION_V3 } from '../common/index.ts';
import { type Fact, fact, type MeshReader, note, unrecorded } from '../reads/index.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
type SecretMessage = Omit<envoy.extensions.transport_sockets.tls.v3.Secret.Input, 'name'>;
type SecretConfig = envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig.Input;

const SCHEME = 'kubernetes://';
/**
 * Ends the name of a Secret with the authorities that belong to a credential of that name, and so ends their SDS name.
 */
export const AUTHORITIES_SUFFIX = '-cacert';

/** SDS name of what a credential of this name is asked for. */
export function sdsName(what: 'key pair' | 'authorities', name: string): string {
  return what === 'key pair' ? `${SCHEME}${name}` : `${SCHEME}${authoritiesNames(name)[0]}`;
}

/** Asks for a secret over the stream that the listener came by. */
export function adsSecret(name: string): SecretConfig {
  return { name, sdsConfig: { ads: {}, resourceApiVersion: API_VERSION_V3 } };
}

/** The encoded resource of a name made by {@link sdsName}; undefined while no Secret has it. */
export function encodeSecret(name: string, snapshot: MeshReader, namespace: string): Uint8Array | undefined {
  const secret = name.slice(SCHEME.length);
  const message = messageOf(secret, snapshot, namespace);
  return message && encode(Secret, { name, ...message });
}

/** A Secret that is there, and whether it holds what SDS is to tell of it. */
interface Found {
  readonly secret: string;
  readonly usable: boolean;
}

/** Says whether there is a key pair, and not which: one that is renewed is the same. */
export function findKeyPair(name: string, snapshot: MeshReader, namespace: string): Found | undefined {
  note(fact.keyPair(resourceKey('Secret', namespace, name)));
  const state = unrecorded(() => keyPairState(contentOf(name, snapshot, namespace)));
  return state === 'absent' ? undefined : { secret: name, usable: state === 'usable' };
}

/**
 * The same for authorities. A Secret of their own counts as soon as it is there: what stands beside the key pair may be
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

/** Key of the Secret with a credential, by whichever of the names that its authorities are looked for under. */
function credentialKey(name: string, namespace: string): ResourceKey {
  return resourceKey('Secret', namespace, authoritiesNames(name)[1]);
}

function keyPairState(content: SecretContent | undefined): 'absent' | 'unusable' | 'usable' {
  if (content === undefined) return 'absent';
  return keyPairMessage(content) === undefined ? 'unusable' : 'usable';
}

type SecretTable = PMap<Resource<'Secret'>>;

/** What {@link findKeyPair} and {@link findAuthorities} may say otherwise for a changed Secret. */
export function changedCredentials(before: SecretTable, after: SecretTable, key: ResourceKey): readonly Fact[] {
  const [, namespace = '', name = ''] = key.split('/');
  const said = [before, after].map((table) => {
    const content = (secret: string) => table.get(resourceKey('Secret', namespace, secret))?.content;
    const authorities = authoritiesAmong(name, content);
    return [keyPairState(content(name)), authorities?.usable === true ? 'usable' : authorities?.secret] as const;
  });
  const [[pairBefore, authoritiesBefore] = [], [pairAfter, authoritiesAfter] = []] = said;
  return [
    ...(pairBefore === pairAfter ? [] : [fact.keyPair(key)]),
    ...(authoritiesBefore === authoritiesAfter ? [] : [fact.authorities(credentialKey(name, namespace))]),
  ];
}

/** Where the authorities of a credential are looked for, in this order; the credential may be named by either. */
function authoritiesNames(name: string): readonly [apart: string, beside: string] {
  const base = name.endsWith(AUTHORITIES_SUFFIX) ? name.slice(0, -AUTHORITIES_SUFFIX.length) : name;
  return [`${base}${AUTHORITIES_SUFFIX}`, base];
}

function contentOf(name: string, snapshot: MeshReader, namespace: string): SecretContent | undefined {
  return snapshot.resources('Secret').get(resourceKey('Secret', namespace, name))?.content;
}

function messageOf(secret: string, snapshot: MeshReader, namespace: string): SecretMessage | undefined {
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
  // Without a list of what is revoked that can be read, all of it would count.
  if (trusted === undefined || (fields.revoked !== undefined && revoked === undefined)) return undefined;
  return {
    validationContext: {
      trustedCa: { inlineBytes: trusted },
      ...(revoked === undefined ? {} : { crl: { inlineBytes: revoked } }),
    },
  };
}
