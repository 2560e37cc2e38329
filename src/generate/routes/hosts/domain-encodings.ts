/**
 * Encoded virtual hosts, shared by all namespaces with the same services and destination rules. The shared part is
 * encoded once; each namespace adds the virtual hosts that differ: those of its own services, which have short names
 * there, and those that depend on the source of the requests.
 */

import { domainsOfCandidate, ownHosts, type Viewer } from '../../domains/index.ts';
import { type Facts, noteAll, recorded } from '../../reads/index.ts';
import { contextKey, type RouteContext, type RouteLookups } from '../context.ts';
import type { Candidate, CandidateSet } from './domain-owners.ts';
import { virtualHost } from './virtual-host.ts';
import { encodedVirtualHost } from './virtual-host-cache.ts';

/** A virtual host for viewers without own services; undefined if it depends on the source of the requests. */
type SharedEncoding = Uint8Array | undefined;

interface SharedPieces {
  /** Sorted by name. */
  readonly encoded: readonly SharedEncoding[];
  /** Indexes of the virtual hosts that are not shared. */
  readonly open: readonly number[];
  readonly facts: Facts;
}

interface World {
  readonly candidates: WeakMap<Candidate, { readonly encoding: SharedEncoding; readonly facts: Facts }>;
  readonly sets: WeakMap<CandidateSet, SharedPieces>;
}

/** By finder of destination rules, then by context. */
type WorldsOfServices = WeakMap<object, Map<string, World>>;

/** Undefined if the inputs of the lookups are not known. */
function findWorld({ memos, lookups: { sources } }: RouteContext, key: string): World | undefined {
  if (sources === undefined) return undefined;
  const { services, rules } = sources;
  const byRules = memos.weak<object, WorldsOfServices>('encoded candidates').get(services, () => new WeakMap());
  const byKey = byRules.get(rules) ?? new Map<string, World>();
  byRules.set(rules, byKey);
  const world = byKey.get(key) ?? { candidates: new WeakMap(), sets: new WeakMap() };
  byKey.set(key, world);
  return world;
}

/** Encodes candidates of one route configuration. */
export class DomainEncoder {
  readonly #viewer: Viewer;
  readonly #context: RouteContext;
  readonly #key: string;
  readonly #world: World | undefined;

  constructor(context: RouteContext, viewer: Viewer) {
    this.#viewer = viewer;
    this.#context = context;
    this.#key = contextKey(context);
    this.#world = findWorld(context, this.#key);
  }

  encode(candidate: Candidate, domains: readonly string[]): Uint8Array {
    const shared = domains === candidate.domains ? this.#shared(candidate) : undefined;
    return shared ?? this.#encode(candidate, domains, this.#context.lookups);
  }

  /**
   * All virtual hosts of a set without common domains, sorted by name: one list for all viewers without differences.
   */
  encodeAll(set: CandidateSet): readonly Uint8Array[] {
    const own = ownHosts(this.#context.memos, set.index, this.#viewer).hosts;
    const { encoded, open } = this.#sharedPieces(set);
    if (own.size === 0 && isComplete(encoded)) return encoded;
    const pieces = encoded.slice();
    const places = open.slice();
    if (own.size > 0)
      for (const [place, { indexed }] of set.ordered.entries())
        if (indexed !== undefined && own.has(indexed)) places.push(place);
    for (const place of places) {
      const candidate = set.ordered[place];
      if (candidate === undefined) continue;
      pieces[place] = this.encode(candidate, domainsOfCandidate(this.#context.memos, candidate, own, this.#viewer));
    }
    return pieces.filter((piece) => piece !== undefined);
  }

  #sharedPieces(set: CandidateSet): SharedPieces {
    const known = this.#world?.sets.get(set);
    if (known !== undefined) {
      noteAll(known.facts);
      return known;
    }
    const { value: encoded, facts } = recorded(() => set.ordered.map((candidate) => this.#shared(candidate)));
    const open = encoded.flatMap((encoding, place) => (encoding === undefined ? [place] : []));
    const pieces = { encoded, open, facts };
    this.#world?.sets.set(set, pieces);
    return pieces;
  }

  #shared(candidate: Candidate): SharedEncoding {
    const candidates = this.#world?.candidates;
    const known = candidates?.get(candidate);
    if (candidates === undefined) return undefined;
    if (known !== undefined) {
      noteAll(known.facts);
      return known.encoding;
    }
    const used = { sender: false };
    const { value: encoded, facts } = recorded(() =>
      this.#encode(candidate, candidate.domains, recordingSender(this.#context.lookups, used)),
    );
    const encoding = used.sender ? undefined : encoded;
    candidates.set(candidate, { encoding, facts });
    return encoding;
  }

  #encode(candidate: Candidate, domains: readonly string[], lookups: RouteLookups): Uint8Array {
    const { name, objects, port, routes, cached } = candidate;
    // The port is part of the name.
    const inputs = { objects, name, domains, key: this.#key };
    const build = (recorded: RouteLookups) =>
      virtualHost(name, domains, routes({ ...this.#context, port, lookups: recorded }));
    return encodedVirtualHost(inputs, lookups, build, cached());
  }
}

function isComplete(encoded: readonly SharedEncoding[]): encoded is readonly Uint8Array[] {
  return !encoded.includes(undefined);
}

/** Lookups that record whether the source of the requests is read. */
function recordingSender(lookups: RouteLookups, used: { sender: boolean }): RouteLookups {
  function note<T>(answer: T): T {
    used.sender = true;
    return answer;
  }
  return {
    onlyPort: (host) => lookups.onlyPort(host),
    consistentHash: (host, subset, port) => lookups.consistentHash(host, subset, port),
    isFrom: (namespace) => note(lookups.isFrom(namespace)),
    hasLabels: (labels) => note(lookups.hasLabels(labels)),
  };
}
