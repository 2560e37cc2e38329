/**
 * Encodes the content of a document, as the schemas of `resources` make it: durations are numbers of milliseconds, and
 * some spellings are normalized. Decoding the message and reading the result again gives the same content.
 */
import protobuf from 'protobufjs';
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { findField, specialForm } from '../descriptors.ts';
import { fromJsonOf } from '../from-json.ts';
import { documentMessage } from './messages.ts';

/** Names a key of a label that selects workloads in the message. */
export type LabelKey = (key: string) => string;

/** Content that is written under another name than the message has. */
const RENAMED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '.istio.type.v1beta1.WorkloadSelector': { labels: 'matchLabels' },
};

/** Fields with labels that select, and do not describe. */
const SELECTING: ReadonlySet<string> = new Set([
  '.istio.networking.v1alpha3.Gateway.selector',
  '.istio.networking.v1alpha3.HTTPMatchRequest.sourceLabels',
  '.istio.networking.v1alpha3.L4MatchAttributes.sourceLabels',
  '.istio.networking.v1alpha3.Subset.labels',
  '.istio.networking.v1alpha3.TLSMatchAttributes.sourceLabels',
  '.istio.networking.v1alpha3.WorkloadSelector.labels',
  '.istio.type.v1beta1.WorkloadSelector.matchLabels',
]);

/**
 * Encodes a document's content. Throws CtlError `invalid_argument` if the message cannot carry it; its location's
 * `field` is the path of the value.
 */
export function encodeDocument(messageName: string, content: unknown, selectingKey: LabelKey): Uint8Array {
  const type = documentMessage(messageName);
  if (type === undefined) throw new CtlError('not_found', `message ${messageName} is not known`);
  return fromJsonOf(type, jsonOf(type, content, selectingKey));
}

/** The proto3 JSON form of content. What is not of the message stays, and is refused when it is encoded. */
function jsonOf(type: protobuf.Type, content: unknown, selectingKey: LabelKey): unknown {
  switch (specialForm(type)) {
    case 'duration':
      return typeof content === 'number' ? `${(content / 1000).toFixed(9)}s` : content;
    case undefined:
      break;
    default:
      return content;
  }
  if (!isObject(content)) return content;
  const renamed = RENAMED[type.fullName] ?? {};
  // A match of a header that must be present is a match without a condition.
  if (type.name === 'StringMatch' && 'present' in content) return {};
  const entries = Object.entries(content).flatMap(([key, value]): [string, unknown][] => {
    if (value === undefined) return [];
    const name = renamed[key] ?? key;
    const field = findField(type, name);
    return [[name, field === undefined ? value : fieldOf(type, field, value, selectingKey)]];
  });
  return Object.fromEntries(entries);
}

function fieldOf(type: protobuf.Type, field: protobuf.Field, value: unknown, selectingKey: LabelKey): unknown {
  const target = field.resolvedType;
  const single = (item: unknown): unknown => {
    if (target instanceof protobuf.Type) return jsonOf(target, item, selectingKey);
    return target instanceof protobuf.Enum && item === 'MESH_MUTUAL' ? 'ISTIO_MUTUAL' : item;
  };
  if (field.repeated) return Array.isArray(value) ? value.map(single) : value;
  if (!field.map) return single(value);
  if (!isObject(value)) return value;
  const selects = SELECTING.has(`${type.fullName}.${field.name}`);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [selects ? selectingKey(key) : key, single(item)]),
  );
}
