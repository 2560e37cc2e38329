/** Discovery requests as chunks: a few bytes for each proxy, and lists of names that proxies share. */
import { encode, envoy } from '../../src/protobuf/index.ts';
import { encodeFields, type FieldToWrite } from '../../src/protobuf/wire/index.ts';
import type { Resource } from './bodies.ts';
import type { ProxyType } from './messages.ts';
import { TYPE_URL } from './response-reader.ts';

export function encodeNames(field: number, names: readonly string[]): Buffer {
  return encodeFields(names.map((text) => [field, text]));
}

/** Entries of a `map<string, string>` from name to version. */
export function encodeVersions(field: number, resources: Iterable<Resource>): Buffer {
  const entries: Buffer[] = [];
  for (const { name, version } of resources) {
    const fields: FieldToWrite[] = [
      [1, name],
      [2, version],
    ];
    entries.push(nested(field, encodeFields(fields)));
  }
  return Buffer.concat(entries);
}

/** `content` as field `field`, a nested message. */
function nested(field: number, content: Uint8Array): Buffer {
  return encodeFields([[field, content]]);
}

/** The encoded Node of a sidecar-like proxy. */
export function encodeNode(id: string, namespace: string): Buffer {
  const { Node } = envoy.config.core.v3;
  return Buffer.from(
    encode(Node, {
      id,
      cluster: namespace,
      userAgentName: 'envoy',
      userAgentBuildVersion: { version: { majorNumber: 1, minorNumber: 40 } },
      metadata: { fields: { NAMESPACE: { stringValue: namespace }, CLUSTER_ID: { stringValue: 'Orchestrator' } } },
    }),
  );
}

/** A DiscoveryRequest before its names (3). */
export function sotwHead(type: ProxyType, version: string, nonce: string, node: Buffer | undefined): Buffer {
  const fields: FieldToWrite[] = [
    [1, version],
    [4, TYPE_URL[type]],
    [5, nonce],
  ];
  return withNode(2, node, encodeFields(fields.filter(([, text]) => text !== '')));
}

/** A DeltaDiscoveryRequest before its names (3, 4) and versions (5). */
export function deltaHead(type: ProxyType, nonce: string, node: Buffer | undefined): Buffer {
  const fields: FieldToWrite[] = [
    [2, TYPE_URL[type]],
    [6, nonce],
  ];
  return withNode(1, node, encodeFields(fields.filter(([, text]) => text !== '')));
}

function withNode(field: number, node: Buffer | undefined, rest: Buffer): Buffer {
  return node === undefined ? rest : Buffer.concat([nested(field, node), rest]);
}
