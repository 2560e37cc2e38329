/**
 * Load assignments, encoded once for all views that read the same: a change of a service that a hundred namespaces see costs one
 * encoding. Kept as long as the list of endpoints that it was made of is the snapshot's.
 */
import { type ClientView, encodeEndpoints, resolveEndpoints } from '../generate/index.ts';
import type { Endpoint, Snapshot } from '../model/types.ts';
import { contentVersion } from './encode-resource.ts';
import type { Interner } from './interner.ts';
import type { EncodedResource } from './types.ts';

/** Ways to look at one list of endpoints (ports x subsets x localities x networks) that are remembered. */
const MAX_PER_LIST = 1024;

export class EndpointEncoder {
  readonly #interner: Interner;
  readonly #made = new WeakMap<readonly Endpoint[], Map<string, EncodedResource>>();

  constructor(interner: Interner) {
    this.#interner = interner;
  }

  /** The resource of an EDS cluster of the view; undefined when the snapshot has no such cluster. */
  encode(snapshot: Snapshot, view: ClientView, clusterName: string): EncodedResource | undefined {
    const input = resolveEndpoints(snapshot, view, clusterName);
    if (input === undefined) return undefined;
    const { key, endpoints } = input;
    const known = this.#made.get(endpoints)?.get(key);
    if (known !== undefined) return known;
    const bytes = encodeEndpoints(input);
    const made = this.#interner.intern('eds', clusterName, contentVersion(bytes), [], () => bytes);
    // "No endpoints" may be one list for all services: nothing that lives so long is remembered.
    if (endpoints.length > 0) this.#remember(endpoints, key, made);
    return made;
  }

  #remember(endpoints: readonly Endpoint[], key: string, made: EncodedResource): void {
    const resources = this.#made.get(endpoints);
    if (resources === undefined) this.#made.set(endpoints, new Map([[key, made]]));
    else if (resources.size < MAX_PER_LIST) resources.set(key, made);
    else this.#made.set(endpoints, new Map([[key, made]]));
  }
}
