/** Discovery requests as chunks: a few bytes of a proxy's own, and lists of names that proxies share. */
import { encode, envoy } from '../../src/protobuf/index.ts';
import { encodeStrings, type StringField, varintLength, WIRE_BYTES, writeVarint } from '../../src/xds/request/wire.ts';
import type { Resource } from './bodies.ts';
import type { ProxyType } from './messages.ts';
import { TYPE_URL } from './response-reader.ts';

export function encodeNames(field: number, names: readonly string[]): Buffer {
  return encodeStrings(names.map((text) => ({ number: field, text })));
}

/** Entries of a `map<string, string>` from name to version. */
export function encodeVersions(field: number, resources: Iterable<Resource>): Buffer {
  const entries: Buffer[] = [];
  for (const { name, version } of resources) {
    const fields: StringField[] = [
      { number: 1, text: name },
      { number: 2, text: version },
    ];
    entries.push(nested(field, encodeStrings(fields)));
  }
  return Buffer.concat(entries);
}

/** `content` as field `field`, a nested message. */
function nested(field: number, content: Uint8Array): Buffer {
  const tag = field * 8 + WIRE_BYTES;
  const out = Buffer.allocUnsafe(varintLength(tag) + varintLength(content.length) + content.length);
  out.set(content, writeVarint(out, writeVarint(out, 0, tag), content.length));
  return out;
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
  const fields = [
    { number: 1, text: version },
    { number: 4, text: TYPE_URL[type] },
    { number: 5, text: nonce },
  ].filter(({ text }) => text !== '');
  return withNode(2, node, encodeStrings(fields));
}

/** A DeltaDiscoveryRequest before its names (3, 4) and versions (5). */
export function deltaHead(type: ProxyType, nonce: string, node: Buffer | undefined): Buffer {
  const fields = [
    { number: 2, text: TYPE_URL[type] },
    { number: 6, text: nonce },
  ].filter(({ text }) => text !== '');
  return withNode(1, node, encodeStrings(fields));
}

function withNode(field: number, node: Buffer | undefined, rest: Buffer): Buffer {
  return node === undefined ? rest : Buffer.concat([nested(field, node), rest]);
}
