/**
 * Load assignments, encoded once for all views that read the same: a change of a service that a hundred namespaces see costs one
 * encoding. Kept as long as the list of endpoints that it was made of is the snapshot's.
 */
import { type EndpointsInput, encodeEndpoints } from '../generate/index.ts';
import type { Endpoint } from '../model/types.ts';
import { contentVersion } from './encode-resource.ts';
import type { Interner } from './interner.ts';
import type { EncodedResource } from './types.ts';

/** Ways to look at one list of endpoints (ports x subsets x localities x networks) that are remembered. */
const MAX_PER_LIST = 1024;

export class EndpointEncoder {
  readonly #interner: Interner;
  /** Views that read the same mostly come with the very same input. */
  readonly #byInput = new WeakMap<EndpointsInput, EncodedResource>();
  readonly #byKey = new WeakMap<readonly Endpoint[], Map<string, EncodedResource>>();

  constructor(interner: Interner) {
    this.#interner = interner;
  }

  /** The resource of an EDS cluster. */
  encode(input: EndpointsInput): EncodedResource {
    let resource = this.#byInput.get(input);
    if (resource === undefined) {
      resource = this.#byKey.get(input.endpoints)?.get(input.key) ?? this.#make(input);
      this.#byInput.set(input, resource);
    }
    return resource;
  }

  #make(input: EndpointsInput): EncodedResource {
    const { key, endpoints, clusterName } = input;
    const bytes = encodeEndpoints(input);
    const made = this.#interner.intern('eds', clusterName, contentVersion(bytes), [], () => bytes);
    // "No endpoints" may be one list for all services: nothing that lives so long is remembered.
    if (endpoints.length > 0) this.#remember(endpoints, key, made);
    return made;
  }

  #remember(endpoints: readonly Endpoint[], key: string, made: EncodedResource): void {
    const resources = this.#byKey.get(endpoints);
    if (resources === undefined) this.#byKey.set(endpoints, new Map([[key, made]]));
    else if (resources.size < MAX_PER_LIST) resources.set(key, made);
    else this.#byKey.set(endpoints, new Map([[key, made]]));
  }
}
