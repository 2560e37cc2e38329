/** Which workload made the others of its scope learn a host: for people who ask why a proxy has it. */
import type { NameSet } from '../protocol/index.ts';
import { MAX_HOSTS, MAX_SCOPES } from './learned-hosts.ts';

export class Askers {
  /** By scope, the last used one last; workloads by virtual host. */
  readonly #scopes = new Map<string, Map<string, string>>();

  /**
   * A proxy has asked for virtual hosts.
   * @param known hosts of the scope that were learned before
   */
  note(scope: string, hosts: NameSet, known: NameSet, workload: string): void {
    const askers = this.#scopes.get(scope) ?? new Map<string, string>();
    this.#scopes.delete(scope);
    this.#scopes.set(scope, askers);
    for (const host of hosts.names)
      if (!known.has(host) && (askers.has(host) || askers.size < MAX_HOSTS)) askers.set(host, workload);
    const [oldest] = this.#scopes.keys();
    if (this.#scopes.size > MAX_SCOPES && oldest !== undefined) this.#scopes.delete(oldest);
  }

  /** Undefined if it was another replica, or the program before its restart, that learned the host. */
  of(scope: string, host: string): string | undefined {
    return this.#scopes.get(scope)?.get(host);
  }
}
