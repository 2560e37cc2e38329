/**
 * The configuration of a proxy that asks for what it uses. Envoy asks for a virtual host when a request needs it, and
 * the proxy gets the host with the clusters that it leads to, in the order of all changes: clusters, endpoints, host.
 *
 * A proxy keeps what it was sent: Envoy does not ask again for what was taken away.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { OnDemand } from '../../generate/index.ts';
import type { Bundle, Parts } from '../../push/index.ts';
import { type DeltaRequest, type NameSet, NO_NAMES } from '../protocol/index.ts';
import { isMade, readyName, type SharedDemand } from './shared-demand.ts';

/** More names than a workload calls. A proxy that has asked for more gets everything. */
export const MAX_ASKED = 1024;

/** The same for hosts that the mesh does not know: for each of them a virtual host is made. */
export const MAX_MADE = 256;

const WILDCARD = '*';

/** Types that lead to clusters without having been asked for: the first response has these clusters. */
export const ALWAYS_NEEDED: readonly XdsType[] = ['lds', 'ecds'];

/** What a stream asks for, whatever its variant. */
export interface StreamDemand<Request> {
  readonly asked: NameSet;
  receive(request: Request): Request;
  parts(content: Parts, mode: OnDemand | undefined): Parts;
}

export class Demand implements StreamDemand<DeltaRequest> {
  readonly #shared: SharedDemand;
  #asked = NO_NAMES;
  /** What others have asked for: it only grows, because Envoy does not ask again. */
  #learned = NO_NAMES;
  /** The inputs of the last result. */
  #last:
    | {
        readonly content: Parts;
        readonly asked: NameSet;
        readonly learned: NameSet;
        readonly mode: OnDemand | undefined;
        readonly parts: Parts;
      }
    | undefined;

  constructor(shared: SharedDemand) {
    this.#shared = shared;
  }

  /** The names that the proxy has asked for. */
  get asked(): NameSet {
    return this.#asked;
  }

  /**
   * Takes the names of a request for virtual hosts.
   * @returns the request as of a proxy that subscribes to everything that it should have
   */
  receive(request: DeltaRequest): DeltaRequest {
    const { names } = this.#shared;
    const reported = [...request.initialVersions.keys()].filter((name) => !isMade(name));
    const asked = [...request.subscribe.names, ...reported].filter((name) => name !== WILDCARD);
    if (asked.length > 0) this.#asked = names.change(this.#asked, names.of(asked), NO_NAMES);
    const subscribe = request.subscribe.has(WILDCARD) ? names.of([WILDCARD]) : NO_NAMES;
    return { ...request, subscribe, unsubscribe: NO_NAMES };
  }

  /**
   * What the proxy should have of its content; the same object while nothing changes.
   * @param mode undefined: everything, and answers to what it has asked for, because requests wait for them
   */
  parts(content: Parts, mode: OnDemand | undefined): Parts {
    const asked = this.#asked;
    if (mode === undefined && asked.size === 0) return content;
    const hosts = largestOf(content.vhds);
    if (mode === 'learned' && hosts !== undefined) this.#learn(hosts);
    const learned = this.#learned;
    const last = this.#last;
    if (last?.content === content && last.asked === asked && last.learned === learned && last.mode === mode)
      return last.parts;
    const isWhole = mode === undefined || asked.size > MAX_ASKED;
    const parts = isWhole ? this.#everything(content, hosts) : this.#partsOf(content, hosts);
    this.#last = { content, asked, learned, mode, parts };
    return parts;
  }

  /** Tells others what it has asked for, and takes what these have asked for. */
  #learn(hosts: Bundle): void {
    const { learned, names } = this.#shared;
    if (this.#last?.asked !== this.#asked && this.#asked.size > 0)
      learned.learn(hosts.viewKey, this.#shared.namesOfHosts(hosts, this.#asked), hosts.size);
    // Those that exist: a host that was removed would be answered as an unknown one.
    const existing = this.#shared.existing(hosts, learned.of(hosts.viewKey));
    this.#learned = names.change(this.#learned, existing, NO_NAMES);
  }

  #everything(content: Parts, largest: Bundle | undefined): Parts {
    const answered = (bundle: Bundle): Bundle => this.#shared.everything(bundle, this.#asked);
    return { ...content, vhds: content.vhds.map((bundle) => (bundle === largest ? answered(bundle) : bundle)) };
  }

  #partsOf(content: Parts, largest: Bundle | undefined): Parts {
    const shared = this.#shared;
    const routes = shared.routesOf(content.rds);
    if (routes.size === 0 && this.#asked.size === 0) return content;
    const ready = shared.names.of(Array.from(routes.names, readyName));
    const own = shared.names.change(ready, this.#asked, NO_NAMES);
    const asked = shared.names.change(own, this.#learned, NO_NAMES);
    // A caller may ask for any hosts.
    if (largest !== undefined && shared.madeIn(shared.hosts(largest, asked)) > MAX_MADE)
      return this.#everything(content, largest);
    const vhds = content.vhds.map((bundle) => (bundle === largest ? shared.hosts(bundle, asked) : bundle));
    // Whatever a proxy has from the start leads to its clusters; a change of it takes effect with its clusters.
    const wanted = shared.clustersOf([...content.lds, ...content.rds, ...content.ecds, ...vhds]);
    return { ...content, vhds, cds: content.cds.map((bundle) => shared.clusters(bundle, wanted)) };
  }
}

/** The bundle with the virtual hosts of outbound routes; other parts have none. */
function largestOf(bundles: readonly Bundle[]): Bundle | undefined {
  return bundles.reduce<Bundle | undefined>(
    (largest, bundle) => (largest === undefined || bundle.size > largest.size ? bundle : largest),
    undefined,
  );
}
