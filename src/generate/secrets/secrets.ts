/**
 * SDS resources made of Secrets. `kubernetes://<name>` is the key pair of the Secret of that name, `kubernetes://<name>-cacert` the
 * authorities that belong to it; always those of the gateway's own namespace, which therefore need not stand in the name.
 */
import type { MeshSnapshot } from '../../model/types.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { authoritiesOf, keyPairOf, secretBytes } from '../../resources/credentials.ts';
import type { SecretContent } from '../../resources/schemas.ts';
import { resourceKey } from '../../resources/types.ts';
import { API_VERSION_V3 } from '../common/index.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
type SecretMessage = Omit<envoy.extensions.transport_sockets.tls.v3.Secret.Input, 'name'>;
type SecretConfig = envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig.Input;

const SCHEME = 'kubernetes://';
/** Ends the name of a Secret with the authorities that belong to a credential of that name, and so ends their SDS name. */
export const AUTHORITIES_SUFFIX = '-cacert';

/** SDS name of what a credential of this name is asked for. */
export function sdsName(what: 'key pair' | 'authorities', name: string): string {
  return what === 'key pair' ? `${SCHEME}${name}` : `${SCHEME}${authoritiesNames(name)[0]}`;
}

/** Asks for a secret over the stream that the listener came by. */
export function adsSecret(name: string): SecretConfig {
  return { name, sdsConfig: { ads: {}, resourceApiVersion: API_VERSION_V3 } };
}

/** Names of the Secrets that an SDS resource may be made of. */
export function secretsBehind(name: string): readonly string[] {
  const secret = name.slice(SCHEME.length);
  return secret.endsWith(AUTHORITIES_SUFFIX) ? authoritiesNames(secret) : [secret];
}

/** The encoded resource of a name made by {@link sdsName}; undefined while no Secret has it. */
export function encodeSecret(name: string, snapshot: MeshSnapshot, namespace: string): Uint8Array | undefined {
  const secret = name.slice(SCHEME.length);
  const find = secret.endsWith(AUTHORITIES_SUFFIX) ? findAuthorities : findKeyPair;
  const message = find(secret, snapshot, namespace)?.message;
  return message && encode(Secret, { name, ...message });
}

/** A Secret that is there, and what SDS is told of it; no message when it does not hold that. */
interface Found {
  readonly secret: string;
  readonly message: SecretMessage | undefined;
}

export function findKeyPair(name: string, snapshot: MeshSnapshot, namespace: string): Found | undefined {
  const content = contentOf(name, snapshot, namespace);
  return content && { secret: name, message: keyPairMessage(content) };
}

/** A Secret of their own counts as soon as it is there: what stands beside the key pair may be wider. */
export function findAuthorities(name: string, snapshot: MeshSnapshot, namespace: string): Found | undefined {
  for (const secret of authoritiesNames(name)) {
    const content = contentOf(secret, snapshot, namespace);
    if (content !== undefined) return { secret, message: authoritiesMessage(content) };
  }
  return undefined;
}

/** Where the authorities of a credential are looked for, in this order; the credential may be named by either. */
function authoritiesNames(name: string): readonly [apart: string, beside: string] {
  const base = name.endsWith(AUTHORITIES_SUFFIX) ? name.slice(0, -AUTHORITIES_SUFFIX.length) : name;
  return [`${base}${AUTHORITIES_SUFFIX}`, base];
}

function contentOf(name: string, snapshot: MeshSnapshot, namespace: string): SecretContent | undefined {
  return snapshot.resources('Secret').get(resourceKey('Secret', namespace, name))?.content;
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
