/**
 * What one proxy on demand holds, and why: because it has asked for a host, because others have, or because its
 * listeners need it. Computed when somebody asks; a proxy only keeps what it has asked for and when.
 */
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import {
  type Bundle,
  type DemandStatus,
  type EncodedResource,
  emptyBundle,
  nextBundle,
  type Parts,
  scopeOfKey,
} from '../../push/index.ts';
import type { NameSet } from '../protocol/index.ts';
import type { AskLog } from './ask-log.ts';
import { isUnaskable, OUTBOUND_PREFIX } from './cluster-names.ts';
import type { HeldBecause, HeldContent } from './held-content.ts';
import { splitName } from './host-table.ts';
import { isAnswer, isOwnName, madeName } from './own-names.ts';
import { outboundOf, type SharedDemand } from './shared-demand.ts';

/** Reasons that one answer gives: a cluster may be used by hundreds of virtual hosts. */
const MAX_REASONS = 20;

/** The types of what a proxy may ask for. */
const ASKED_TYPES: ReadonlySet<XdsType> = new Set(['cds', 'eds', 'vhds']);

/** What a proxy has asked for, and what it was given. */
export interface Wants {
  readonly log: AskLog;
  readonly asked: NameSet;
  /** Clusters of TCP connections. */
  readonly askedClusters: NameSet;
  /** Virtual hosts that it has without having asked on this stream. */
  readonly given: NameSet;
  /** Those of them that it had before. */
  readonly reported: NameSet;
  /** Those of them that its Sidecar names. */
  readonly named: NameSet;
  /** Clusters that it had before. */
  readonly reportedClusters: NameSet;
  readonly isWhole: boolean;
}

export interface HeldInputs {
  readonly shared: SharedDemand;
  readonly wants: Wants;
  /** What it may ask for. */
  readonly full: Parts;
  /** What it has of that. */
  readonly held: Parts;
  /** What it would have of another content. */
  readonly of: (content: Parts) => Parts;
}

/** What a proxy has asked for and was given, in numbers. */
export function countsOf(
  shared: SharedDemand,
  { asked, askedClusters, given, named, reported, reportedClusters, isWhole }: Wants,
  full: Parts,
): Omit<DemandStatus, 'mode' | 'whole'> {
  const hosts = outboundOf(full.vhds);
  const found = hosts === undefined || isWhole ? undefined : shared.askedHosts(hosts, asked);
  const own = [reported, reportedClusters, named, askedClusters, ...(found === undefined ? [] : [found.hosts])];
  const learned = own.reduce((left, each) => shared.names.outside(left, each), given);
  return {
    asked: asked.size + askedClusters.size,
    unknown: found?.unknown ?? 0,
    learned: learned.size,
    named: named.size,
    kept: reported.size,
  };
}

/** The bundle with some of its resources. */
function only(bundle: Bundle, isShown: (resource: EncodedResource) => boolean): Bundle {
  const shown = bundle.resources().filter(isShown);
  if (shown.length === bundle.size) return bundle;
  return nextBundle(
    emptyBundle(bundle.type, bundle.viewKey),
    shown.map((each) => [each.name, each] as const),
  );
}

export class Held implements HeldContent {
  readonly #inputs: HeldInputs;
  readonly #parts: Parts;

  constructor(inputs: HeldInputs) {
    this.#inputs = inputs;
    this.#parts = this.#shown(inputs.held);
  }

  parts(type: XdsType): readonly Bundle[] {
    return this.#parts[type];
  }

  of(content: Parts): Parts {
    return this.#shown(this.#inputs.of(content));
  }

  /** Without the answers, which Envoy does not keep, and endpoints that it does not ask for. */
  #shown(parts: Parts): Parts {
    const named = new Set(parts.cds.flatMap((bundle) => bundle.resources().flatMap(({ refs }) => refs)));
    return byXdsType((type) => {
      if (type === 'vhds') return parts.vhds.map((bundle) => only(bundle, (host) => !isAnswer(host)));
      return type === 'eds' ? parts.eds.map((bundle) => only(bundle, ({ name }) => named.has(name))) : parts[type];
    });
  }

  why(type: XdsType, name: string): readonly HeldBecause[] {
    if (!ASKED_TYPES.has(type)) return this.#has(type, name) ? [{ because: 'start' }] : [];
    if (type === 'vhds') return this.#ofHost(name).slice(0, MAX_REASONS);
    return this.#ofCluster(type === 'eds' ? this.#clusterOf(name) : name, new Set()).slice(0, MAX_REASONS);
  }

  #has(type: XdsType, name: string): boolean {
    return this.#parts[type].some((bundle) => bundle.get(name) !== undefined);
  }

  /** The cluster with these endpoints. */
  #clusterOf(endpoints: string): string {
    const clusters = this.#parts.cds.flatMap((bundle) => bundle.resources());
    return clusters.find(({ refs }) => refs.includes(endpoints))?.name ?? '';
  }

  #ofHost(name: string): readonly HeldBecause[] {
    const { shared, wants, full } = this.#inputs;
    const [outbound, isHeld] = [outboundOf(full.vhds), this.#has('vhds', name)];
    if (outbound === undefined || (!isOwnName(name) && outbound.get(name) === undefined))
      return isHeld ? [{ because: 'start' }] : [];
    const asks = [...wants.log.asks()].filter(({ name: asked }) =>
      isOwnName(name) ? madeName(asked) === name : shared.hostFor(outbound, asked)?.host.name === name,
    );
    const found = asks.flatMap(({ name: asked, at }): HeldBecause[] =>
      at === undefined ? [] : [{ because: 'asked', host: splitName(asked).host, at }],
    );
    // A virtual host with wildcards is not held itself: the proxy has one for each host that it asked for.
    if (asks.length > found.length || (isHeld && wants.reported.has(name))) found.push({ because: 'kept' });
    if (wants.named.has(name)) found.push({ because: 'named' });
    else if (isHeld && found.length === 0 && wants.given.has(name)) {
      found.push(this.#learned(name));
    }
    return found.length === 0 && isHeld && wants.isWhole ? [{ because: 'whole' }] : found;
  }

  /** @param name of a virtual host or cluster */
  #learned(name: string): HeldBecause {
    const { shared, full } = this.#inputs;
    const scope = scopeOfKey(outboundOf(full.vhds)?.viewKey ?? '');
    const from = shared.askers.of(scope, name);
    return { because: 'learned', ...(from !== undefined && { from }) };
  }

  /** @param seen clusters that are being explained */
  #ofCluster(name: string, seen: Set<string>): readonly HeldBecause[] {
    const cluster = this.#parts.cds.map((bundle) => bundle.get(name)).find((each) => each !== undefined);
    if (cluster === undefined || seen.has(name)) return [];
    seen.add(name);
    const { shared, wants, held, full } = this.#inputs;
    const outbound = outboundOf(full.vhds)?.viewKey;
    const isOutbound = (bundle: Bundle): boolean => outbound !== undefined && bundle.viewKey.startsWith(outbound);
    const others = [...held.lds, ...held.rds, ...held.ecds, ...held.vhds.filter((bundle) => !isOutbound(bundle))];
    if (!name.startsWith(OUTBOUND_PREFIX) || isUnaskable(cluster) || shared.clustersOf(others).has(name))
      return [{ because: 'start' }];
    const naming = (bundles: readonly Bundle[]): EncodedResource[] =>
      bundles.flatMap((bundle) => bundle.resources().filter((each) => shared.clustersIn(each).has(name)));
    const hosts = naming(this.#parts.vhds.filter(isOutbound));
    const members = naming(this.#parts.cds).filter((each) => each.name !== name);
    const found: HeldBecause[] = [
      ...hosts.flatMap((host) => this.#ofHost(host.name).map((because) => ({ ...because, via: host.name }))),
      ...members.flatMap((each) => this.#ofCluster(each.name, seen).map((because) => ({ ...because, via: each.name }))),
    ];
    const ask = [...wants.log.asks()].find((each) => each.name === name);
    if (ask?.at !== undefined) found.push({ because: 'connection', at: ask.at });
    if (wants.reportedClusters.has(name)) found.push({ because: 'kept' });
    else if (found.length === 0 && wants.given.has(name)) found.push(this.#learned(name));
    return found.length === 0 && wants.isWhole ? [{ because: 'whole' }] : found;
  }
}
