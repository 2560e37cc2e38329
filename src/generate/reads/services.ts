/** Services and destination rules of a scope for generation: every query is a fact. */
import type { Memos } from '../../core/memo.ts';
import type { PMap } from '../../core/pmap.ts';
import {
  findAlike,
  hostMatches,
  type MergedDestinationRule,
  type Scope,
  type Service,
  type ServicePort,
  selectedRule,
} from '../../model/index.ts';
import { type ServicePortEntry, servicesByPort } from '../indexes/index.ts';
import * as fact from './facts.ts';
import { note, unrecorded } from './recorder.ts';

/** Services by host. One object for the same services, so that results can be cached by it. */
export class Services {
  readonly #memos: Memos;
  readonly #services: PMap<Service>;
  #hosts: readonly string[] | undefined;

  private constructor(memos: Memos, services: PMap<Service>) {
    this.#memos = memos;
    this.#services = services;
  }

  static of(memos: Memos, services: PMap<Service>): Services {
    return memos.weak<PMap<Service>, Services>('read services').get(services, () => new Services(memos, services));
  }

  get(host: string): Service | undefined {
    note(fact.host(host));
    return this.#services.get(host);
  }

  /** The same for a route or listener of port `at`: the services on that port are one fact. */
  getAt(at: number | undefined, host: string): Service | undefined {
    note(at !== undefined && this.isOnPort(host, at, isStream) ? fact.port(at) : fact.host(host));
    return this.#services.get(host);
  }

  /** Number of services, for caches only: it is no fact. */
  get size(): number {
    return this.#services.size;
  }

  /** Hosts with another service than before, or with one now or then only. For caches only: they are no facts. */
  changedSince(before: Services): readonly string[] {
    return this.#services.changedKeys(before.#services);
  }

  /** Hosts of services with a port that is not UDP, sorted. */
  hosts(): readonly string[] {
    note(fact.HOSTS);
    this.#hosts ??= this.#services.sorted().flatMap(([host, { ports }]) => (ports.some(isStream) ? [host] : []));
    return this.#hosts;
  }

  /** All services, in the order of their hosts. */
  all(): readonly (readonly [host: string, service: Service])[] {
    note(fact.ANY_HOST);
    return this.#services.sorted();
  }

  /** The same for readers that read no destination rules. */
  named(): readonly (readonly [host: string, service: Service])[] {
    note(fact.ANY_SERVICE);
    return this.#services.sorted();
  }

  /** By port, without UDP: see `servicesByPort`. */
  byPort(): ReadonlyMap<number, readonly ServicePortEntry[]> {
    note(fact.ANY_HOST);
    return servicesByPort(this.#memos, this.#services);
  }

  /** The services of a port, without UDP, in the order of their hosts. */
  onPort(port: number): readonly ServicePortEntry[] {
    note(fact.port(port));
    return servicesByPort(this.#memos, this.#services).get(port) ?? [];
  }

  /** Whether a service that a host pattern covers has the port, with any protocol. */
  haveAnyPort(pattern: string, port: number): boolean {
    note(fact.anyPort(port));
    const has = ({ ports }: Service) => ports.some((each) => each.port === port);
    return this.#services.sorted().some(([host, service]) => hostMatches(pattern, host) && has(service));
  }

  /** Whether the host is one of the services in the facts about this port. */
  isOnPort(host: string, port: number, accepts: (port: ServicePort) => boolean): boolean {
    return this.#services.get(host)?.ports.some((each) => each.port === port && accepts(each)) === true;
  }
}

type Finder = Scope['destinationRule'];
type Labels = Readonly<Record<string, string>>;

const NO_LABELS: Labels = {};

/** Merged destination rules by host. One object for the same finder. */
export class Rules {
  readonly #finder: Finder;
  readonly #labels: Labels;

  private constructor(finder: Finder, labels: Labels) {
    this.#finder = finder;
    this.#labels = labels;
  }

  /**
   * @param labels the labels of the proxies by which rules select
   */
  static of(memos: Memos, find: Finder, labels: Labels = NO_LABELS): Rules {
    if (labels === NO_LABELS) return memos.weak<Finder, Rules>('read rules').get(find, () => new Rules(find, labels));
    const known = memos.weak<Finder, Map<string, Rules>>('read rules by labels').get(find, () => new Map());
    const key = JSON.stringify(labels);
    const rules = known.get(key) ?? new Rules(find, labels);
    known.set(key, rules);
    return rules;
  }

  /** Whether these have the same rule for the same service. For caches only: it is no fact. */
  areLike(memos: Memos, others: Rules): boolean {
    return this.#labels === others.#labels && findAlike(memos, this.#finder, others.#finder);
  }

  #find(host: string): MergedDestinationRule | undefined {
    return selectedRule(this.#finder(host), this.#labels);
  }

  of(host: string): MergedDestinationRule | undefined {
    note(fact.rule(host));
    return this.#find(host);
  }

  /** The rules that name Secrets according to `names`, in the order of their hosts. */
  namingSecrets(services: Services, names: (rule: MergedDestinationRule) => boolean): readonly MergedDestinationRule[] {
    note(fact.NAMING_SECRETS);
    const found = unrecorded(() => services.all()).flatMap(([host]) => this.#find(host) ?? []);
    return found.filter(names);
  }

  /**
   * The same for readers that use only the hash policy of the rule (`fact.hash`), its settings for TCP connections
   * (`fact.forwarding`), or the TLS that its clusters originate (`fact.tls`), for a route or listener of port `at`: the
   * rules of the services on that port are one fact.
   */
  asReadAt(
    at: number | undefined,
    host: string,
    services: Services,
    aspect: Aspect,
  ): MergedDestinationRule | undefined {
    const { ofPort, ofHost, accepts } = ASPECTS[aspect];
    const together = at !== undefined && services.isOnPort(host, at, accepts);
    note(together ? ofPort(at) : ofHost(host));
    return unrecorded(() => this.#find(host));
  }
}

/** The parts of a rule that are read outside of its clusters. */
export type Aspect = 'hash of requests' | 'connections' | 'TLS';

const ASPECTS = {
  'hash of requests': { ofPort: fact.httpHashAt, ofHost: fact.hash, accepts: mayBeHttp },
  connections: { ofPort: fact.forwardingAt, ofHost: fact.forwarding, accepts: isStream },
  TLS: { ofPort: fact.tlsAt, ofHost: fact.tls, accepts: isStream },
} as const;

export function isStream({ protocol }: Pick<ServicePort, 'protocol'>): boolean {
  return protocol !== 'UDP';
}

export function mayBeHttp({ protocol }: Pick<ServicePort, 'protocol'>): boolean {
  return (
    protocol === 'HTTP' ||
    protocol === 'HTTP2' ||
    protocol === 'GRPC' ||
    protocol === 'GRPC-Web' ||
    protocol === 'Unsupported'
  );
}
