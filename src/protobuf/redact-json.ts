/**
 * Redacts the JSON form of a message that a user has written (a patch of an EnvoyFilter). JSON that is not valid for
 * its message may contain anything, so it is not shown.
 */
import protobuf from 'protobufjs';
import { isObject } from '../core/objects.ts';
import { isSecretName, REDACTED, redactAll } from '../core/redact.ts';
import { findField, findMessage, MAX_DEPTH, specialForm } from './descriptors.ts';
import { fieldRedaction, isLocation, isOpaque, namedRedaction, type Redaction } from './sensitive.ts';
import { messageNameOf } from './type-urls.ts';

type Members = Readonly<Record<string, unknown>>;

/** Messages that contain another message and the name of its type. */
const TYPED_STRUCT = /^(?:xds\.type\.v3|udpa\.type\.v1)\.TypedStruct$/;

/** The JSON of the message of this full name without secrets. */
export function redactProtoJson(messageName: string, json: unknown): unknown {
  return redactNamed(messageName, json, 0);
}

function mapped(value: Members, one: (key: string, item: unknown) => unknown): Members {
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, one(key, item)]));
}

function redactNamed(messageName: string, json: unknown, depth: number): unknown {
  const type = findMessage(messageName);
  if (TYPED_STRUCT.test(messageName) && isObject(json)) return redactTypedStruct(json, depth);
  return type === undefined ? REDACTED : redactMessage(type, json, depth);
}

function redactTypedStruct(json: Members, depth: number): Members {
  const typeUrl = String(json.type_url ?? json.typeUrl ?? '');
  return mapped(json, (key, item) => {
    if (key === 'type_url' || key === 'typeUrl' || key === '@type') return item;
    return key === 'value' ? redactNamed(messageNameOf(typeUrl), item, depth + 1) : REDACTED;
  });
}

function redactMessage(type: protobuf.Type, json: unknown, depth: number): unknown {
  if (depth > MAX_DEPTH) return REDACTED;
  switch (specialForm(type)) {
    case 'any':
      return redactAny(json, depth);
    case 'struct':
    case 'value':
    case 'list':
      return redactFree(json, depth);
    case 'duration':
    case 'timestamp':
    case 'wrapper':
      return typeof json === 'object' ? REDACTED : json;
    default:
      return isObject(json) ? redactFields(type, json, depth) : REDACTED;
  }
}

function redactFields(type: protobuf.Type, json: Members, depth: number, outer?: Redaction): Members {
  const known = new Map(Object.entries(json).flatMap(([key, item]) => [[findField(type, key)?.name, item] as const]));
  const named = namedRedaction(type, (field) => known.get(field.name));
  return mapped(json, (key, item) => {
    const field = findField(type, key);
    if (field === undefined) return REDACTED;
    const byName = named !== undefined && field.name !== named.nameField ? named.redaction : undefined;
    const redaction = outer ?? byName ?? fieldRedaction(field);
    if (redaction === undefined) return redactField(field, item, depth);
    if (outer !== undefined && isLocation(type, field)) return item;
    const target = field.resolvedType;
    if (target instanceof protobuf.Type && isObject(item) && specialForm(target) === undefined) {
      return redactFields(target, item, depth + 1, redaction);
    }
    return redactAll(item, field.type === 'bytes' ? undefined : redaction);
  });
}

function redactField(field: protobuf.Field, item: unknown, depth: number): unknown {
  const target = field.resolvedType;
  const one = (value: unknown): unknown =>
    target instanceof protobuf.Type ? redactMessage(target, value, depth + 1) : isObject(value) ? REDACTED : value;
  if (field.map && isObject(item)) return mapped(item, (_key, value) => one(value));
  return Array.isArray(item) ? item.map(one) : one(item);
}

function redactAny(json: unknown, depth: number): unknown {
  if (!isObject(json)) return REDACTED;
  const { '@type': typeUrl, ...content } = json;
  const name = messageNameOf(String(typeUrl ?? ''));
  const type = findMessage(name);
  if (type !== undefined && isOpaque(type)) return { '@type': typeUrl, value: REDACTED };
  const special = type !== undefined && specialForm(type) !== undefined;
  const shown = special
    ? mapped(content, (key, item) => (key === 'value' ? redactMessage(type, item, depth + 1) : REDACTED))
    : redactNamed(name, content, depth + 1);
  return { '@type': typeUrl, ...(isObject(shown) ? shown : { value: shown }) };
}

/** Redacts free-form data, by the names of its keys. */
function redactFree(json: unknown, depth: number): unknown {
  if (depth > MAX_DEPTH) return REDACTED;
  if (Array.isArray(json)) return json.map((item) => redactFree(item, depth + 1));
  if (!isObject(json)) return json;
  return mapped(json, (key, item) => (isSecretName(key) ? redactAll(item) : redactFree(item, depth + 1)));
}
