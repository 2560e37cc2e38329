/**
 * Keeps the virtual hosts of a proxy consistent with its route configurations, if these use virtual host discovery
 * (VHDS).
 *
 * Envoy 1.40 behaves as follows. After it has accepted the first route configuration that uses discovery it subscribes
 * to all virtual hosts, once for the whole stream. It drops virtual hosts of configurations that it does not have, but
 * records them as received and reports them so when it reconnects. So after each route configuration its virtual hosts
 * are sent again; and before a configuration that is new to the proxy, those that it may have recorded are removed: if
 * the stream ends in between, it does not report them. When a configuration that contained its virtual hosts is
 * replaced by one that uses discovery, no host is served until they arrive.
 */
import type { Bundle } from '../../push/index.ts';
import { type ClientState, EMPTY_STATE, findResource, hasAnyVersion, knownResource } from './client-state.ts';
import { covers } from './interest.ts';
import { NO_NAMES } from './name-set.ts';
import type { RemovalPolicy } from './plans/removal-policy.ts';
import type { Selections } from './selection.ts';
import type { Subscription } from './subscription.ts';

const NONE: readonly string[] = [];

export class VhdsState {
  readonly #rds: Subscription;
  readonly #vhds: Subscription;
  readonly #selections: Selections;
  /** Route configurations that were sent before the proxy subscribed to virtual hosts. */
  readonly #early = new Set<string>();
  /**
   * Virtual hosts were sent that the proxy has not subscribed to. It applies them if it accepts the routes before them,
   * else it ignores them.
   */
  #unsolicited = false;
  #reconnected = false;

  constructor(rds: Subscription, vhds: Subscription, selections: Selections) {
    this.#rds = rds;
    this.#vhds = vhds;
    this.#selections = selections;
  }

  /**
   * Called if the proxy had a configuration before this stream: it may have recorded virtual hosts that it has not
   * reported yet.
   */
  reconnected(): void {
    this.#reconnected = true;
  }

  /**
   * To be called before a request for virtual hosts is processed. If it answers unsolicited virtual hosts, the proxy
   * has applied them; if not, it has ignored them or will apply them later.
   * @param nonce nonce of the response that the request answers
   * @returns names that the proxy may or may not apply
   */
  beforeRequest(nonce: string): readonly string[] {
    if (!this.#unsolicited) return NONE;
    if (nonce !== this.#vhds.lastNonce) return this.#reset();
    this.#unsolicited = false;
    this.#early.clear();
    return NONE;
  }

  /**
   * The first request for virtual hosts was processed. The proxy may have had the virtual hosts that it reports before
   * it was sent the routes, and dropped them.
   */
  subscribed(hosts: readonly Bundle[]): void {
    for (const name of this.#early) this.#vhds.forgetVersions(this.#selections.hostsOf(name, hosts));
    this.#forceHosts(this.#early, hosts);
  }

  /** A request for routes was processed: the proxy may have rejected the last routes, or no longer need them. */
  routesAnswered(rejected: boolean): void {
    if (this.#unsolicited && (rejected || !this.#maySubscribe())) this.#reset();
  }

  /** Whether the proxy has any of the routes for which unsolicited virtual hosts were sent. */
  #maySubscribe(): boolean {
    const { inflight, interest, state } = this.#rds;
    if (inflight !== undefined) return true;
    for (const name of this.#early)
      if (interest !== undefined && covers(interest, name) && knownResource(state, name) !== undefined) return true;
    return false;
  }

  /** Unsolicited virtual hosts may have been ignored: they are sent again when the proxy subscribes. */
  #reset(): readonly string[] {
    this.#unsolicited = false;
    return this.#vhds.reset();
  }

  /** Route configurations of the outstanding response that use discovery. */
  #sentRoutes(): readonly string[] {
    return (this.#rds.inflight?.changed.lists ?? []).flatMap((changed) => [...this.#selections.refsOf(changed).names]);
  }

  /**
   * Virtual hosts to remove before the routes that are being sent: the virtual hosts that the proxy may have recorded
   * for configurations that are new to it. @param before the routes that the proxy had before
   */
  toRemove(before: ClientState, hosts: readonly Bundle[]): readonly string[] {
    const reported = this.#vhds.interest !== undefined && !this.#unsolicited;
    if (!reported && !this.#reconnected) return NONE;
    const added = this.#sentRoutes().filter((name) => !hasAnyVersion(before, name));
    return added.flatMap((name) =>
      this.#selections.hostsOf(name, hosts).filter((host) => !reported || this.#vhds.mayHave(host)),
    );
  }

  /**
   * Routes were sent: their virtual hosts are sent next. @param before the routes that the proxy had before
   */
  routesSent(before: ClientState, hosts: readonly Bundle[]): void {
    const routes = this.#sentRoutes();
    const inUse = (name: string): boolean =>
      hasAnyVersion(before, name) && this.#selections.hostsOf(name, hosts).length > 0;
    // The proxy serves these routes, perhaps in the form of another release of this program: they must not lose their
    // virtual hosts until it subscribes to them.
    if (this.#vhds.interest === undefined && routes.some(inUse)) {
      this.#vhds.subscribe({ wildcard: true, names: NO_NAMES });
      this.#unsolicited = true;
    }
    this.#forceHosts(routes, hosts);
  }

  /** Forces the virtual hosts of sent route configurations to be sent again, because the proxy has dropped them. */
  #forceHosts(routes: Iterable<string>, hosts: readonly Bundle[]): void {
    const { interest, inflight, state, forced } = this.#vhds;
    for (const name of routes) {
      if (interest === undefined || this.#unsolicited) this.#early.add(name);
      if (interest === undefined) continue;
      // A proxy that has no virtual hosts and was sent none is sent all of them in any case.
      if (state !== EMPTY_STATE || inflight !== undefined)
        for (const host of this.#selections.hostsOf(name, hosts)) forced.add(host);
    }
    if (interest !== undefined && !this.#unsolicited) this.#early.clear();
  }

  /**
   * A virtual host is removed at once, in one response with the virtual hosts that take over its domains. Virtual hosts
   * of a route configuration that no longer exists stay as long as the proxy subscribes to it: connections of a
   * draining listener still use it.
   */
  removalPolicy(routes: readonly Bundle[]): RemovalPolicy {
    const { interest } = this.#rds;
    return (host) => {
      const name = host.slice(0, host.lastIndexOf('/'));
      return interest === undefined || !covers(interest, name) || findResource(routes, name) !== undefined;
    };
  }
}
