/**
 * Encodes load assignments once for all views with equal inputs: a change of a service that a hundred namespaces see
 * costs one encoding. A result is kept as long as its list of endpoints exists.
 */
import { type EndpointsInput, encodeEndpoints, hostOfCluster } from '../../generate/index.ts';
import type { Endpoint } from '../../model/index.ts';
import type { EncodedResource } from '../types.ts';
import { contentVersion } from './encode-resource.ts';
import type { Interner } from './interner.ts';

/** Results kept for one list of endpoints (ports x subsets x localities x networks). */
const MAX_PER_LIST = 1024;

type Encoded = readonly EncodedResource[];

type HostInputs = ReadonlyMap<string, EndpointsInput>;

const NOTHING: Encoded = [];

/** Marks clusters with more than one host; not a valid host name. */
const SEVERAL = '*';

function asksForEndpoints({ refs }: EncodedResource): boolean {
  return refs.length > 0;
}

export class EndpointEncoder {
  readonly #interner: Interner;
  /** Views with equal inputs usually share the input object. */
  readonly #byInput = new WeakMap<EndpointsInput, EncodedResource>();
  readonly #byKey = new WeakMap<readonly Endpoint[], Map<string, EncodedResource>>();

  /** By the clusters of a unit: the host of its EDS clusters, '' for none. */
  readonly #hosts = new WeakMap<Encoded, string>();

  /** By the inputs of a host: the clusters they were last used for, and the result. */
  readonly #byUnit = new WeakMap<HostInputs, { readonly clusters: Encoded; readonly resources: Encoded }>();

  readonly #onIgnored: (service: string, labels: readonly string[]) => void;
  readonly #reported = new WeakSet<readonly Endpoint[]>();

  /**
   * @param onIgnored receives labels of `failoverPriority` that do not count, once for each list of endpoints
   */
  constructor(interner: Interner, onIgnored: (service: string, labels: readonly string[]) => void = () => {}) {
    this.#interner = interner;
    this.#onIgnored = onIgnored;
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

  /** The host of all EDS clusters of a unit; '' if there are none, undefined if they have several hosts. */
  hostOfUnit(clusters: Encoded): string | undefined {
    let host = this.#hosts.get(clusters);
    if (host === undefined) {
      const found = new Set(clusters.filter(asksForEndpoints).map(({ name }) => hostOfCluster(name)));
      const [only = ''] = found;
      host = found.size > 1 ? SEVERAL : only;
      this.#hosts.set(clusters, host);
    }
    return host === SEVERAL ? undefined : host;
  }

  /**
   * The resources that the clusters of one unit request: the same list for all views with the same clusters and inputs.
   * Undefined if the clusters have several hosts, or one of them fails: the caller then encodes them separately.
   */
  encodeUnit(clusters: readonly EncodedResource[], inputsOf: (host: string) => HostInputs): Encoded | undefined {
    const host = this.hostOfUnit(clusters);
    if (host === undefined) return undefined;
    if (host === '') return NOTHING;
    try {
      const inputs = inputsOf(host);
      const known = this.#byUnit.get(inputs);
      if (known?.clusters === clusters) return known.resources;
      const resources = clusters.filter(asksForEndpoints).flatMap(({ name }) => {
        const input = inputs.get(name);
        return input === undefined ? [] : [this.encode(input)];
      });
      this.#byUnit.set(inputs, { clusters, resources });
      return resources;
    } catch {
      // The caller finds out which of them fails.
      return undefined;
    }
  }

  #make(input: EndpointsInput): EncodedResource {
    const { name, key, endpoints, service, locality } = input;
    if (locality?.ignored !== undefined && !this.#reported.has(endpoints)) {
      this.#reported.add(endpoints);
      this.#onIgnored(service, locality.ignored);
    }
    const bytes = encodeEndpoints(input);
    const made = this.#interner.intern('eds', name, contentVersion(bytes), [], () => bytes);
    // All services without endpoints may share one list, which is never freed: results for it are not kept.
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
