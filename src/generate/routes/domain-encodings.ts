/**
 * Encoded claims, kept for all namespaces that ask about the same world: the same services and destination rules. What
 * they share is worked out once; each adds the virtual hosts that are its own, which are those of its own services,
 * whose short names it alone knows, and those that depend on who sends the requests.
 */

import { domainsOfClaim, ownHosts, type Viewer } from '../domains/index.ts';
import { type Facts, noteAll, recorded } from '../reads/index.ts';
import { contextKey, type RouteContext, type RouteLookups } from './context.ts';
import type { Claim, ClaimSet } from './domain-owners.ts';
import { virtualHost } from './virtual-host.ts';
import { encodedVirtualHost } from './virtual-host-cache.ts';

/** A claim as all see it who have no services of their own; undefined where it depends on who sends the requests. */
type SharedEncoding = Uint8Array | undefined;

interface SharedPieces {
  /** In the order of their names. */
  readonly encoded: readonly SharedEncoding[];
  /** The places of those that are not shared. */
  readonly open: readonly number[];
  /** What was read for them. */
  readonly facts: Facts;
}

/** What was encoded in one world. */
interface World {
  readonly claims: WeakMap<Claim, { readonly encoding: SharedEncoding; readonly facts: Facts }>;
  readonly sets: WeakMap<ClaimSet, SharedPieces>;
}

/** By finder of destination rules, then by context. */
type WorldsOfServices = WeakMap<object, Map<string, World>>;

/** Undefined where it is not known what the lookups are made of. */
function worldOf({ memos, lookups: { sources } }: RouteContext, key: string): World | undefined {
  if (sources === undefined) return undefined;
  const { services, rules } = sources;
  const byRules = memos.weak<object, WorldsOfServices>('encoded claims').get(services, () => new WeakMap());
  const byKey = byRules.get(rules) ?? new Map<string, World>();
  byRules.set(rules, byKey);
  const world = byKey.get(key) ?? { claims: new WeakMap(), sets: new WeakMap() };
  byKey.set(key, world);
  return world;
}

/** Encodes claims of one route configuration. */
export class ClaimEncoder {
  readonly #viewer: Viewer;
  readonly #context: RouteContext;
  readonly #key: string;
  readonly #world: World | undefined;

  constructor(context: RouteContext, viewer: Viewer) {
    this.#viewer = viewer;
    this.#context = context;
    this.#key = contextKey(context);
    this.#world = worldOf(context, this.#key);
  }

  /** One claim with the domains that are left for it. */
  encode(claim: Claim, domains: readonly string[]): Uint8Array {
    const shared = domains === claim.domains ? this.#shared(claim) : undefined;
    return shared ?? this.#encode(claim, domains, this.#context.lookups);
  }

  /**
   * All claims of a set that have no domain in common, in the order of their names: one list for all who have nothing
   * of their own.
   */
  encodeAll(set: ClaimSet): readonly Uint8Array[] {
    const own = ownHosts(this.#context.memos, set.book, this.#viewer).hosts;
    const { encoded, open } = this.#sharedPieces(set);
    if (own.size === 0 && isComplete(encoded)) return encoded;
    const pieces = encoded.slice();
    const places = open.slice();
    if (own.size > 0)
      for (const [place, { booked }] of set.ordered.entries())
        if (booked !== undefined && own.has(booked)) places.push(place);
    for (const place of places) {
      const claim = set.ordered[place];
      if (claim === undefined) continue;
      pieces[place] = this.encode(claim, domainsOfClaim(this.#context.memos, claim, own, this.#viewer));
    }
    return pieces.filter((piece) => piece !== undefined);
  }

  #sharedPieces(set: ClaimSet): SharedPieces {
    const known = this.#world?.sets.get(set);
    if (known !== undefined) {
      noteAll(known.facts);
      return known;
    }
    const { value: encoded, facts } = recorded(() => set.ordered.map((claim) => this.#shared(claim)));
    const open = encoded.flatMap((encoding, place) => (encoding === undefined ? [place] : []));
    const pieces = { encoded, open, facts };
    this.#world?.sets.set(set, pieces);
    return pieces;
  }

  #shared(claim: Claim): SharedEncoding {
    const claims = this.#world?.claims;
    const known = claims?.get(claim);
    if (claims === undefined) return undefined;
    if (known !== undefined) {
      noteAll(known.facts);
      return known.encoding;
    }
    const asked = { sender: false };
    const { value: made, facts } = recorded(() =>
      this.#encode(claim, claim.domains, notingSender(this.#context.lookups, asked)),
    );
    const encoding = asked.sender ? undefined : made;
    claims.set(claim, { encoding, facts });
    return encoding;
  }

  #encode(claim: Claim, domains: readonly string[], lookups: RouteLookups): Uint8Array {
    const { name, made, port, routes, kept } = claim;
    // The port stands in the name.
    const inputs = { made, name, domains, key: this.#key };
    const build = (asked: RouteLookups) =>
      virtualHost(name, domains, routes({ ...this.#context, port, lookups: asked }));
    return encodedVirtualHost(inputs, lookups, build, kept);
  }
}

function isComplete(encoded: readonly SharedEncoding[]): encoded is readonly Uint8Array[] {
  return !encoded.includes(undefined);
}

/** Lookups that note whether anything is asked about who sends the requests. */
function notingSender(lookups: RouteLookups, asked: { sender: boolean }): RouteLookups {
  function note<T>(answer: T): T {
    asked.sender = true;
    return answer;
  }
  return {
    onlyPort: (host) => lookups.onlyPort(host),
    consistentHash: (host, subset, port) => lookups.consistentHash(host, subset, port),
    isFrom: (namespace) => note(lookups.isFrom(namespace)),
    hasLabels: (labels) => note(lookups.hasLabels(labels)),
  };
}
