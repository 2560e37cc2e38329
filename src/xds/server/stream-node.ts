/** The node of a stream, as its first request describes it. */
import { type ProxyNode, withStateOfTheWorld } from '../../core/proxy.ts';
import type { AnyRequest, Variant } from '../protocol/index.ts';
import { type KnownExtensions, parseNode } from '../request/index.ts';

export function nodeOf(request: AnyRequest, mode: Variant<never>['mode'], known: KnownExtensions): ProxyNode {
  const node = parseNode(request.node, request.extensions, known);
  return mode === 'delta' ? node : withStateOfTheWorld(node);
}
