/** The node of a stream, as its first request describes it. */
import { type ProxyNode, withStateOfTheWorld } from '../../core/proxy.ts';
import type { AnyRequest, Variant } from '../protocol/index.ts';
import { type KnownExtensions, parseNode } from '../request/index.ts';

export function nodeOf(request: AnyRequest, mode: Variant<never>['mode'], known: KnownExtensions): ProxyNode {
  const node = parsed(request, known);
  return mode === 'delta' ? node : withStateOfTheWorld(node);
}

/** Of many proxies that connect at once, the first that is admitted has the list of extensions that all of them sent. */
function parsed({ node, extensions }: AnyRequest, known: KnownExtensions): ProxyNode {
  const shortened = extensions === undefined && node !== undefined ? known.leaveOut(node, 0, node.length) : undefined;
  return parseNode(shortened?.node ?? node, shortened?.extensions ?? extensions, known);
}
