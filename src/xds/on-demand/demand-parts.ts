/** The parts of a proxy, made for what it has asked for and what it gets without asking. */
import type { Bundle, LaterClusters, Parts } from '../../push/index.ts';
import { type NameSet, NO_NAMES } from '../protocol/index.ts';
import { bundlesOf, type Part } from './cluster-parts.ts';
import type { ContentIds } from './content-ids.ts';
import type { HostPart, SharedDemand } from './shared-demand.ts';

/** What the parts are made for. */
export interface Demanded {
  /** The virtual hosts of outbound routes in the content. */
  readonly hosts: Bundle | undefined;
  /** Names of hosts that it has asked for. */
  readonly asked: NameSet;
  /** Virtual hosts that it gets without asking. */
  readonly given: NameSet;
  /** Clusters that it has without virtual hosts. */
  readonly kept: NameSet;
  readonly askedClusters: NameSet;
  /** Further names of which a change concerns it. */
  readonly concerning: readonly NameSet[];
  /** Clusters that the content lacks for the moment. */
  readonly later: LaterClusters | undefined;
}

/** What the last result consists of. */
interface Derived {
  readonly hosts: HostPart | undefined;
  readonly cds: readonly Part[];
  readonly eds: readonly Part[];
}

const NOTHING: Derived = { hosts: undefined, cds: [], eds: [] };

/** So many names of endpoints that do not exist any more are kept: to look for them takes time. */
const FEW_GONE = 32;

export class DemandParts {
  readonly #shared: SharedDemand;
  #derived = NOTHING;
  /** Endpoints of clusters that it was sent on this stream. */
  #endpoints = NO_NAMES;
  #hosts = 0;
  #held: readonly NameSet[] | undefined;

  constructor(shared: SharedDemand) {
    this.#shared = shared;
  }

  /** Number of virtual hosts. */
  get hosts(): number {
    return this.#hosts;
  }

  /** Bytes of virtual hosts that were made for names. */
  get madeBytes(): number {
    return this.#derived.hosts?.madeBytes ?? 0;
  }

  /** The names of which a change concerns the proxy; undefined: all changes do. */
  get held(): readonly NameSet[] | undefined {
    return this.#held;
  }

  /** It gets everything from now on. */
  clear(): void {
    this.#derived = NOTHING;
    this.#held = undefined;
  }

  /** Undefined if the virtual hosts that it has asked for would be too large. */
  of(content: Parts, demanded: Demanded): Parts | undefined {
    const { hosts, asked: names, given, kept, askedClusters, concerning, later } = demanded;
    const shared = this.#shared;
    const before = this.#derived;
    const asked = shared.names.change(shared.readyNames(content.rds), names, NO_NAMES);
    const derived = hosts && shared.hosts(hosts, { asked, given }, before.hosts);
    if (hosts !== undefined && derived === undefined) return undefined;
    const vhds = content.vhds.map((bundle) => (bundle === hosts && derived ? derived.bundle : bundle));
    // Whatever a proxy has from the start leads to its clusters; a change of it takes effect with its clusters.
    const fixed = shared.clustersOf([...content.lds, ...content.rds, ...content.ecds]);
    const others = shared.clustersOf(content.vhds.filter((bundle) => bundle !== hosts));
    const led = shared.names.change(others, derived?.clusters ?? NO_NAMES, NO_NAMES);
    const own = shared.names.change(led, kept, NO_NAMES);
    // Its first content, or an EnvoyFilter of inbound listeners, may lead to clusters that are not generated yet.
    // Listeners do not wait for them: they may have new policies.
    later?.want([...fixed.names, ...own.names]);
    const cds = content.cds.map((bundle, index) => shared.parts.clusters(bundle, fixed, own, before.cds[index]));
    this.#addEndpoints(cds, content.eds);
    // Each part of a proxy has endpoints for its own clusters.
    const eds = cds.flatMap((clusters, index) => {
      const full = content.eds[index];
      return full ? [shared.parts.endpoints(full, clusters, this.#endpoints, before.eds[index])] : [];
    });
    this.#derived = { hosts: derived, cds, eds };
    // Each name has an answer beside the virtual host.
    this.#hosts = derived === undefined ? 0 : derived.bundle.size - asked.size;
    this.#held = [...new Set([asked, ...concerning, ...namesIn(cds), ...namesIn(eds)])];
    const absent = shared.absentOf(content, askedClusters);
    return { ...content, vhds, cds: [...cds.flatMap(bundlesOf), ...absent], eds: eds.flatMap(bundlesOf) };
  }

  /** Endpoints stay until Envoy no longer has the cluster. */
  #addEndpoints(clusters: readonly Part[], full: readonly Bundle[]): void {
    const { names } = this.#shared;
    const refs = clusters.reduce((all, part) => names.change(all, part.refs, NO_NAMES), NO_NAMES);
    const all = names.change(this.#endpoints, refs, NO_NAMES);
    const exists = (name: string): boolean => refs.has(name) || full.some((bundle) => bundle.get(name) !== undefined);
    // A new version of a service may have new names: those of earlier ones would become more and more.
    this.#endpoints = all.size > 2 * refs.size + FEW_GONE ? names.of([...all.names].filter(exists)) : all;
  }

  /** The last result with other endpoints. Undefined where more than these has changed in the content. */
  withEndpoints(content: Parts, last: { readonly content: ContentIds; readonly parts: Parts }): Parts | undefined {
    const { cds, eds } = this.#derived;
    if (cds.length !== eds.length || content.eds.length !== eds.length) return undefined;
    if (!last.content.matchBesidesEndpoints(content)) return undefined;
    const { parts } = this.#shared;
    const next: Part[] = [];
    for (const [index, clusters] of cds.entries()) {
      const [full, before] = [content.eds[index], eds[index]];
      if (full !== undefined) next.push(parts.endpoints(full, clusters, this.#endpoints, before));
    }
    this.#derived = { ...this.#derived, eds: next };
    return { ...last.parts, eds: next.flatMap(bundlesOf) };
  }
}

function namesIn(parts: readonly Part[]): readonly NameSet[] {
  return parts.flatMap(({ base, names }) => [base.names, names]);
}
