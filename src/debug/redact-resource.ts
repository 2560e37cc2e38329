/** Redacts the fields of resources that their schemas mark as secret, for debug pages. */
import type { z } from 'zod';
import { isObject } from '../core/objects.ts';
import { redactAll, redactByName, redactKeySet, redactUrl } from '../core/redact.ts';
import { redactProtoJson } from '../protobuf/index.ts';
import { coreOf, type Kind, PATCHED_MESSAGES, SCHEMAS, type SecretField, secretFieldOf } from '../resources/index.ts';

type Members = Readonly<Record<string, unknown>>;

/** The content of a resource of this kind without secrets. */
export function redactContent(kind: Kind, content: unknown): unknown {
  return redactBy(SCHEMAS[kind], content);
}

function redactBy(schema: z.core.$ZodType, value: unknown): unknown {
  const core = coreOf(schema);
  const mark = secretFieldOf(core);
  if (mark !== undefined) return REDACTIONS[mark](value);
  const { def } = core._zod;
  switch (def.type) {
    case 'object':
      return isObject(value) ? redactMembers(value, (name) => def.shape[name]) : value;
    case 'record':
      return isObject(value) ? redactMembers(value, () => def.valueType) : value;
    case 'array':
      return Array.isArray(value) ? value.map((item) => redactBy(def.element, item)) : value;
    default:
      return value;
  }
}

function redactMembers(value: Members, schemaOf: (name: string) => z.core.$ZodType | undefined): Members {
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => {
      const schema = schemaOf(name);
      return [name, schema === undefined ? item : redactBy(schema, item)];
    }),
  );
}

const REDACTIONS: Readonly<Record<SecretField, (value: unknown) => unknown>> = {
  value: (value) => redactAll(value),
  url: (value) => redactAll(value, redactUrl),
  keySet: (value) => redactAll(value, redactKeySet),
  byName: redactByName,
  condition: redactCondition,
  envoyPatch: redactPatch,
};

/** A condition on the value of a header, such as `request.headers[x-api-key]`. */
function redactCondition(condition: unknown): unknown {
  if (!isObject(condition)) return redactAll(condition);
  const { key, ...compared } = condition;
  const [, header] = /^request\.headers\[(.*)\]$/.exec(String(key)) ?? [];
  return header === undefined ? condition : { key, ...redactHeader(header, compared) };
}

function redactHeader(name: string, compared: Members): Members {
  const shown = redactByName({ [name]: compared });
  return isObject(shown) && isObject(shown[name]) ? shown[name] : {};
}

const PATCHED: Readonly<Record<string, string>> = PATCHED_MESSAGES;

function redactPatch(patch: unknown): unknown {
  if (!isObject(patch)) return redactAll(patch);
  const { applyTo, match, patch: change, ...rest } = patch;
  const message = PATCHED[String(applyTo)] ?? '';
  const shown =
    isObject(change) && 'value' in change ? { ...change, value: redactProtoJson(message, change.value) } : change;
  return { ...rest, applyTo, ...(match === undefined ? {} : { match: redactMatch(match) }), patch: shown };
}

/** Redacts the values that the metadata of a proxy is compared with. */
function redactMatch(match: unknown): unknown {
  if (!isObject(match) || !isObject(match.proxy) || match.proxy.metadata === undefined) return match;
  return { ...match, proxy: { ...match.proxy, metadata: redactByName(match.proxy.metadata) } };
}
