/** Which resources are withheld from all proxies of one view, why, and who rejected them. */
import type { XdsType } from '../../core/xds-types.ts';
import type { WithheldResource } from '../types.ts';
import { type Composition, dependentsOf, type Names, withoutMissingClusters } from './composition.ts';
import type { TypedName } from './references.ts';
import { type Refusal, refusalsNeeded } from './trial.ts';

/** A resource that some placements have in another version than proxies have accepted. */
export interface Item {
  readonly type: XdsType;
  readonly name: string;
  /** Of the placements. */
  readonly versions: Set<string>;
}

/** A resource that is withheld from all proxies of a view. */
export interface Withheld<S> extends WithheldResource {
  readonly versions: Set<string>;
  /** Connected sessions that rejected it; undefined for a resource that is withheld with another one. */
  readonly refusers: Set<S> | undefined;
  /** Callers that rejected it, even if they have no proxy in the view any more. */
  readonly callers: ReadonlySet<string>;
}

/** What is known of an item when it is withheld. */
export interface Withholding<S> {
  readonly refusals: readonly Refusal<S>[];
  readonly acceptedVersion: string | undefined;
  /** Wall clock, ms. */
  readonly sinceMs: number;
  readonly nameOf: (session: S) => string;
}

/** @template S a session */
export class WithheldResources<S> {
  /** By item: see {@link itemOf}. */
  readonly #entries = new Map<string, Withheld<S>>();
  /** Route configurations of which some virtual hosts are withheld. */
  #partly: readonly Withheld<S>[] = [];

  /** Number of resources that are withheld as a whole. */
  get size(): number {
    return this.#entries.size;
  }

  /** Whether a resource is withheld as a whole. @param item as of {@link itemOf} */
  has(item: string): boolean {
    return this.#entries.has(item);
  }

  /** All that is withheld, in whole or in part. */
  entries(): readonly Withheld<S>[] {
    const partly = new Map(this.#partly.map((entry) => [entry.name, entry]));
    return [...this.#entries.values(), ...partly.values()];
  }

  /** The names of what is withheld as a whole, and those of other resources. */
  names(others: Iterable<Item> = []): Names {
    const names = new Map<XdsType, Set<string>>();
    for (const { type, name } of [...this.#entries.values(), ...others])
      names.set(type, (names.get(type) ?? new Set()).add(name));
    return names;
  }

  /** Takes over what is withheld from another view. @param isHere which sessions move from there */
  inherit(other: WithheldResources<S>, isHere: (session: S) => boolean): void {
    for (const [item, entry] of other.#entries) {
      const refusers = entry.refusers && new Set([...entry.refusers].filter(isHere));
      this.#entries.set(item, { ...entry, versions: new Set(entry.versions), refusers });
    }
  }

  /** Withholds a resource that was tried. */
  add(tried: Item, { refusals, acceptedVersion, sinceMs, nameOf }: Withholding<S>): void {
    const [first] = refusals;
    if (first === undefined) return;
    this.#entries.set(itemOf(tried.type, tried.name), {
      ...tried,
      acceptedVersion,
      proxy: nameOf(first.canary),
      message: first.message,
      sinceMs,
      refusers: new Set(refusals.map(({ canary }) => canary)),
      callers: new Set(refusals.map(({ caller }) => caller)),
    });
  }

  /** What is withheld because it was rejected, since this time. */
  rejectedAt(sinceMs: number): readonly Withheld<S>[] {
    return [...this.#entries.values()].filter((each) => each.sinceMs === sinceMs && each.refusers !== undefined);
  }

  /** Forgets versions that are no longer generated, and what was withheld with others. */
  forgetFormer(compositions: readonly Composition[]): void {
    this.#forget(({ type, name, versions, refusers }) => {
      const current = compositions.some(({ made }) => versions.has(made[type].get(name)?.version ?? ''));
      return refusers === undefined || !current;
    });
  }

  /** Withholds what refers to withheld resources. Returns what may be shown otherwise. */
  withDependents<C extends Composition>(all: readonly C[]): readonly C[] {
    this.#forget(({ refusers }) => refusers === undefined);
    const compositions = this.spliced(all);
    const names = this.names();
    for (const composition of compositions)
      for (const { type, resource, on } of dependentsOf(composition, names)) {
        const item = itemOf(type, resource.name);
        const entry = this.#entries.get(item) ?? this.#dependent(composition, type, resource, on);
        entry.versions.add(resource.version);
        this.#entries.set(item, entry);
      }
    return compositions;
  }

  /** The compositions without virtual hosts that refer to withheld clusters. */
  spliced<C extends Composition>(all: readonly C[]): readonly C[] {
    const names = this.names();
    const compositions = all.map((each) => withoutMissingClusters(each, names));
    this.#partly = compositions.flatMap((composition) =>
      (composition.spliced ?? []).map(({ resource, clusters: [cluster = ''], hosts, version }) => ({
        ...this.#dependent(composition, 'rds', resource, { type: 'cds', name: cluster }),
        versions: new Set([version]),
        acceptedVersion: resource.version,
        message: `its virtual hosts ${hosts.join(', ')} refer to ${cluster}, which is withheld`,
      })),
    );
    return compositions;
  }

  /** The entry of a resource that is withheld because it refers to another one. */
  #dependent(
    { accepted }: Composition,
    type: XdsType,
    { name }: { readonly name: string },
    on: TypedName,
  ): Withheld<S> {
    const cause = this.#entries.get(itemOf(on.type, on.name));
    return {
      type,
      name,
      versions: new Set(),
      acceptedVersion: accepted[type].get(name)?.version,
      proxy: cause?.proxy ?? '',
      message: `refers to ${on.name}, which is withheld`,
      sinceMs: cause?.sinceMs ?? 0,
      refusers: undefined,
      callers: new Set(),
    };
  }

  /** A session is gone: what only it has rejected does not count as rejected for ever. */
  left(session: S): void {
    for (const { refusers } of this.#entries.values()) refusers?.delete(session);
  }

  /** Whether everybody is gone who rejected something that is withheld. */
  get hasAbandoned(): boolean {
    return [...this.#entries.values()].some(isAbandoned);
  }

  /** Forgets rejections of sessions that are all gone, so that these versions are tried again. */
  forgetAbandoned(): void {
    this.#forget(isAbandoned);
  }

  /** Whether too few callers have rejected something that is withheld from the proxies of this many. */
  hasDoubtful(callers: number): boolean {
    return [...this.#entries.values()].some((entry) => isDoubtful(entry, callers));
  }

  /** Forgets what {@link hasDoubtful} finds, so that these versions are tried again. */
  forgetDoubtful(callers: number): void {
    this.#forget((entry) => isDoubtful(entry, callers));
  }

  #forget(isForgotten: (entry: Withheld<S>) => boolean): void {
    for (const [item, entry] of this.#entries) if (isForgotten(entry)) this.#entries.delete(item);
  }
}

function isAbandoned({ refusers }: Withheld<unknown>): boolean {
  return refusers?.size === 0;
}

function isDoubtful({ refusers, callers }: Withheld<unknown>, ofView: number): boolean {
  return refusers !== undefined && callers.size < refusalsNeeded(ofView);
}

/** The key of a resource among those of a view. */
export function itemOf(type: XdsType, name: string): string {
  return `${type}\n${name}`;
}
