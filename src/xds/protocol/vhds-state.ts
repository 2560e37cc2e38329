/**
 * Sees to it that a proxy has the virtual hosts of the route configurations that it is sent, where these leave them to
 * discovery (VHDS).
 *
 * As Envoy 1.40 was seen to treat them: it asks for all of them, in one subscription that lives as long as the stream,
 * when it has taken the first route configuration that wants some. Those of a configuration that it does not have it
 * lets fall, but counts them as received, also when it comes back. So each time a configuration is sent its virtual
 * hosts are sent after it; and before one that the proxy does not have, those that it may count as received are taken
 * from it: if the stream ends in between, it comes back without them. A configuration that had its virtual hosts within
 * it serves none from when they are to be discovered until they come.
 */
import type { Bundle } from '../../push/types.ts';
import { findIn, HAS_NOTHING, type Have, hasSome, heldOf } from './client-state.ts';
import { covers } from './interest.ts';
import { NO_NAMES } from './name-set.ts';
import type { RemovalPolicy } from './removal-policy.ts';
import type { Selections } from './selection.ts';
import type { Subscription } from './subscription.ts';

const NONE: readonly string[] = [];

export class VhdsState {
  readonly #rds: Subscription;
  readonly #vhds: Subscription;
  readonly #selections: Selections;
  /** Route configurations that were sent before the proxy asked for virtual hosts. */
  readonly #unfed = new Set<string>();
  /**
   * Virtual hosts were sent that the proxy has not asked for. It takes them when it has taken the routes before them,
   * else it ignores them.
   */
  #unasked = false;
  #returned = false;

  constructor(rds: Subscription, vhds: Subscription, selections: Selections) {
    this.#rds = rds;
    this.#vhds = vhds;
    this.#selections = selections;
  }

  /** The proxy came back with something, and so may count virtual hosts as received that it has not told of yet. */
  returned(): void {
    this.#returned = true;
  }

  /**
   * Before a request for virtual hosts is taken, by the nonce that it answers. An answer to what came unasked says that
   * it was taken; another request, that it was ignored, or will be taken yet: returns the names of these.
   */
  beforeAsked(nonce: string): readonly string[] {
    if (!this.#unasked) return NONE;
    if (nonce !== this.#vhds.lastNonce) return this.#forget();
    this.#unasked = false;
    this.#unfed.clear();
    return NONE;
  }

  /**
   * The first request for virtual hosts was taken. What it shows the proxy may have had before the routes, and lost.
   */
  asked(hosts: readonly Bundle[]): void {
    for (const name of this.#unfed) this.#vhds.doubt(this.#selections.hostsOf(name, hosts));
    this.#owe(this.#unfed, hosts);
  }

  /** A request for routes was taken: those sent before may be rejected, or not wanted. */
  routesAnswered(rejected: boolean): void {
    if (this.#unasked && (rejected || !this.#mayAsk())) this.#forget();
  }

  /** False when the proxy has none of the routes after which virtual hosts were sent that it has not asked for. */
  #mayAsk(): boolean {
    const { inflight, interest, have } = this.#rds;
    if (inflight !== undefined) return true;
    for (const name of this.#unfed)
      if (interest !== undefined && covers(interest, name) && heldOf(have, name) !== undefined) return true;
    return false;
  }

  /**
   * Virtual hosts that were sent unasked may have been ignored: when the proxy asks for them they are sent to it as to
   * any other.
   */
  #forget(): readonly string[] {
    this.#unasked = false;
    return this.#vhds.forget();
  }

  /** Route configurations of the response that is just being sent whose virtual hosts are discovered. */
  #routes(): readonly string[] {
    return (this.#rds.inflight?.changed.lists ?? []).flatMap((changed) => [...this.#selections.refsOf(changed).names]);
  }

  /**
   * What the proxy may count as received of the virtual hosts of routes that are just being sent, and that it did not
   * have: to be taken from it before them. `had`: the routes before.
   */
  taken(had: Have, hosts: readonly Bundle[]): readonly string[] {
    const told = this.#vhds.interest !== undefined && !this.#unasked;
    if (!told && !this.#returned) return NONE;
    const anew = this.#routes().filter((name) => !hasSome(had, name));
    return anew.flatMap((name) =>
      this.#selections.hostsOf(name, hosts).filter((host) => !told || this.#vhds.mayHave(host)),
    );
  }

  /** The virtual hosts of route configurations that were just sent are to follow. `had`: the configurations before. */
  feed(had: Have, hosts: readonly Bundle[]): void {
    const routes = this.#routes();
    const awaits = (name: string): boolean => hasSome(had, name) && this.#selections.hostsOf(name, hosts).length > 0;
    // In use, maybe as another release of this program made it: its hosts must not wait to be asked for.
    if (this.#vhds.interest === undefined && routes.some(awaits)) {
      this.#vhds.subscribe({ wildcard: true, names: NO_NAMES });
      this.#unasked = true;
    }
    this.#owe(routes, hosts);
  }

  /** Virtual hosts of route configurations that the proxy is just getting. It has let fall those that it had before. */
  #owe(routes: Iterable<string>, hosts: readonly Bundle[]): void {
    const { interest, inflight, have, owed } = this.#vhds;
    for (const name of routes) {
      if (interest === undefined || this.#unasked) this.#unfed.add(name);
      if (interest === undefined) continue;
      // Of a proxy that has nothing and is sent nothing yet: all of them come in any case.
      if (have !== HAS_NOTHING || inflight !== undefined)
        for (const host of this.#selections.hostsOf(name, hosts)) owed.add(host);
    }
    if (interest !== undefined && !this.#unasked) this.#unfed.clear();
  }

  /**
   * Virtual hosts go at once, in one response with those that take over their domains. Those of a route configuration
   * that goes as a whole stay as long as the proxy asks for it: connections of a listener that drains still use it.
   */
  goes(routes: readonly Bundle[]): RemovalPolicy {
    const { interest } = this.#rds;
    return (host) => {
      const name = host.slice(0, host.lastIndexOf('/'));
      return interest === undefined || !covers(interest, name) || findIn(routes, name) !== undefined;
    };
  }
}
