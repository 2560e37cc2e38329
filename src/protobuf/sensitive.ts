/**
 * Which fields of Envoy's messages hold secrets: those that the messages themselves annotate
 * (`udpa.annotations.sensitive`), those whose name says so although the annotation is missing, and values whose
 * neighbour names them: a header that is set or matched, a query parameter, a key of free-form metadata.
 */
import type protobuf from 'protobufjs';
import { isSecretName, REDACTED, redactKeySet, redactUrl } from '../core/redact.ts';
import { protoNameOf } from './descriptors.ts';

/** What is shown of a secret text. */
export type Redaction = (text: string) => string;

const HIDE: Redaction = () => REDACTED;

const DATA_SOURCE = '.envoy.config.core.v3.DataSource';

/** Of a DataSource: where the secret is, not what it is. */
const PLACES: ReadonlySet<string> = new Set(['filename', 'environmentVariable']);

/** Names of fields that hold secrets, where a text, bytes or a DataSource stands in them. */
const SECRET_FIELD = /(?:^|_)(?:passwords?|passphrase|secret|token|private_key|json_key|api_key|credentials?)$/;

/** Fields that hold the URL of something, which may hold a password; those that name a message type hold none. */
const URL_FIELD = /^(?!type_url$)(?:.*_)?ur[il]$/;

/** Messages that say a name in one field, and in the others the value that has it or is looked for. */
const NAMED: Readonly<Record<string, string>> = {
  '.envoy.config.core.v3.HeaderValue': 'key',
  '.envoy.config.route.v3.HeaderMatcher': 'name',
  '.envoy.config.route.v3.QueryParameterMatcher': 'name',
  '.envoy.config.core.v3.QueryParameter': 'key',
};

/** Fields whose text is a key set. */
const KEY_SETS: ReadonlySet<string> = new Set(['.envoy.extensions.filters.http.jwt_authn.v3.JwtProvider.localJwks']);

/**
 * Texts that only their reader understands: in an `Any` they are how plugins (Wasm) get their configuration, keys in it
 * included.
 */
const OPAQUE: ReadonlySet<string> = new Set(['.google.protobuf.StringValue', '.google.protobuf.BytesValue']);

/** Whether nothing of what an `Any` of this type holds can be told to be no secret. */
export function isOpaque(type: protobuf.Type): boolean {
  return OPAQUE.has(type.fullName);
}

const redactions = new WeakMap<protobuf.Field, Redaction | 'none'>();

/** How the texts in a field are shown by what the field is; undefined: as they are. */
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

/** Whether a text in a field is shown although the message around it is secret. */
export function isPlace(type: protobuf.Type, field: protobuf.Field): boolean {
  return type.fullName === DATA_SOURCE && PLACES.has(field.name);
}

/**
 * How the other fields of a message are shown by the name that it says: `read` gives one of its fields. Undefined: as
 * they are.
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
