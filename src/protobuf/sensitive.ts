/**
 * Decides which fields of Envoy's messages hold secrets: fields that the messages annotate
 * (`udpa.annotations.sensitive`), fields whose name indicates a secret although the annotation is missing, and values
 * whose name is in another field of the message: a header that is set or matched, a query parameter, a key of free-form
 * metadata.
 */
import type protobuf from 'protobufjs';
import { isSecretName, REDACTED, redactKeySet, redactUrl } from '../core/redact.ts';
import { protoNameOf } from './descriptors.ts';

/** Returns the string that is shown in place of a secret. */
export type Redaction = (text: string) => string;

const HIDE: Redaction = () => REDACTED;

const DATA_SOURCE = '.envoy.config.core.v3.DataSource';

/** Fields of a DataSource that contain the location of the secret, not the secret. */
const LOCATION_FIELDS: ReadonlySet<string> = new Set(['filename', 'environmentVariable']);

/** Names of fields that hold secrets when their value is a string, bytes or a DataSource. */
const SECRET_FIELD = /(?:^|_)(?:passwords?|passphrase|secret|token|private_key|json_key|api_key|credentials?)$/;

/** Fields that hold a URL, which may contain a password; fields that name a message type do not. */
const URL_FIELD = /^(?!type_url$)(?:.*_)?ur[il]$/;

/** Messages with a name in one field, and its value or a pattern for it in others. */
const NAMED: Readonly<Record<string, string>> = {
  '.envoy.config.core.v3.HeaderValue': 'key',
  '.envoy.config.route.v3.HeaderMatcher': 'name',
  '.envoy.config.route.v3.QueryParameterMatcher': 'name',
  '.envoy.config.core.v3.QueryParameter': 'key',
};

/** Fields that hold a key set. */
const KEY_SETS: ReadonlySet<string> = new Set(['.envoy.extensions.filters.http.jwt_authn.v3.JwtProvider.localJwks']);

/** Strings of unknown structure: an `Any` of this type is how plugins (Wasm) get their configuration, keys included. */
const OPAQUE: ReadonlySet<string> = new Set(['.google.protobuf.StringValue', '.google.protobuf.BytesValue']);

/** Whether an `Any` of this type may hold a secret anywhere, so that all of it is hidden. */
export function isOpaque(type: protobuf.Type): boolean {
  return OPAQUE.has(type.fullName);
}

const redactions = new WeakMap<protobuf.Field, Redaction | 'none'>();

/** How the strings in a field are shown because of the field's type and name; undefined: unchanged. */
export function fieldRedaction(field: protobuf.Field): Redaction | undefined {
  let known = redactions.get(field);
  if (known === undefined) {
    known = findRedaction(field) ?? 'none';
    redactions.set(field, known);
  }
  return known === 'none' ? undefined : known;
}

function findRedaction(field: protobuf.Field): Redaction | undefined {
  if (field.options?.sensitive === true) return HIDE;
  if (KEY_SETS.has(field.fullName)) return redactKeySet;
  const target = field.resolvedType;
  const holdsText =
    target === null ? field.type === 'string' || field.type === 'bytes' : target.fullName === DATA_SOURCE;
  if (!holdsText) return undefined;
  if (SECRET_FIELD.test(protoNameOf(field))) return HIDE;
  return URL_FIELD.test(protoNameOf(field)) && field.type === 'string' ? redactUrl : undefined;
}

/** Whether a field is shown although the message around it is secret. */
export function isLocation(type: protobuf.Type, field: protobuf.Field): boolean {
  return type.fullName === DATA_SOURCE && LOCATION_FIELDS.has(field.name);
}

/**
 * How the other fields of a message are shown because of the name in it; undefined: unchanged.
 *
 * @param read returns one of its fields
 */
export function namedRedaction(
  type: protobuf.Type,
  read: (field: protobuf.Field) => unknown,
): { readonly nameField: string; readonly redaction: Redaction } | undefined {
  const nameField = NAMED[type.fullName];
  const field = nameField === undefined ? undefined : type.fields[nameField];
  if (nameField === undefined || field === undefined) return undefined;
  return isSecretName(String(read(field) ?? '')) ? { nameField, redaction: HIDE } : undefined;
}
