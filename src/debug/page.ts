/** What a debug page is, and how it chooses proxies. */
import type { ConnectionStatus } from '../push/index.ts';
import type { PageMaker } from './page-maker.ts';
import type { DebugSource } from './types.ts';
import type { Viewed, Viewer } from './viewed.ts';

export interface Page {
  readonly title: string;
  /** Query parameters of which one is required; default `proxyID`. */
  readonly needs?: readonly string[];
  /** Undefined when a required parameter is missing or names nothing, for example a proxy that is not connected. */
  readonly answer: (mesh: Viewed, query: URLSearchParams) => unknown;
}

/** Connections of the proxy in `proxyID`: its workload (`pod.namespace`), node id or connection id. */
export function connectionsFor(mesh: Viewed, query: URLSearchParams): readonly ConnectionStatus[] {
  const wanted = query.get('proxyID');
  const all = mesh.connections();
  if (wanted === null || wanted === '') return all;
  return all.filter(({ node, connectionId }) => [node.workload, node.id, connectionId].includes(wanted));
}

export interface DebugCall {
  readonly source: DebugSource;
  /** The part of the mesh that the sender of the request may see. */
  readonly viewer: Viewer;
  readonly maker: PageMaker;
}
