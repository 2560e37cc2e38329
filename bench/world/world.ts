/** The generated configuration directory and the changes that the benches make to it. */
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Predicate } from '../client/messages.ts';
import type { Content, Mode } from '../options.ts';
import { monotonicMs } from './clock.ts';
import {
  authorizationPolicy,
  delegatedRoutes,
  destinationRule,
  envoyFilter,
  HTTP_PORT,
  peerAuthentication,
  type ServiceRef,
  serviceEntry,
  serviceRef,
  sidecar,
  virtualService,
} from './documents.ts';

/** One edit of the directory, and what a proxy has when the edit has arrived. */
export interface Change {
  /** Relative to the directory. */
  readonly path: string;
  /** Undefined: the file is removed. */
  readonly text: string | undefined;
  readonly expect: readonly Predicate[];
}

export const CHANGE_KINDS = [
  'endpoint',
  'route',
  'service added',
  'service removed',
  'policy',
  'nothing visible',
] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

export interface WorldSize {
  readonly services: number;
  readonly endpoints: number;
  readonly namespaces: number;
  /** Namespaces whose proxies see `hostsPerSidecar` services because of a Sidecar. */
  readonly sidecars?: number;
  /** Services have no port but that for HTTP. */
  readonly onlyHttp?: boolean;
  /** The protocol of the watched proxies: over Delta, virtual hosts are separate resources. */
  readonly mode?: Mode;
  readonly content: Content;
}

/** Every third service has routes and a rule. */
const RICH = 3;
/** At most half of the services, so that a window can move. */
const HOSTS_PER_SIDECAR = 50;
/** More than the rounds of a run, but few enough that no service gets the addresses of the next. */
const VERSIONS_BETWEEN_ATTEMPTS = 30;
const ROUTES = String(HTTP_PORT);
/** A namespace that sees no other and that no other sees. */
const HIDDEN = 'ns-hidden';

export function namespaceName(index: number): string {
  return `ns-${String(index).padStart(2, '0')}`;
}

export function scopedNamespace(index: number): string {
  return `scoped-${String(index).padStart(4, '0')}`;
}

export function clusterName({ host }: ServiceRef): string {
  return `outbound|${HTTP_PORT}||${host}`;
}

export class World {
  readonly size: WorldSize;
  readonly folder: string;
  readonly #staging: string;
  #edits = 0;

  /** `folder` must not exist yet; beside it a folder of the same name and `.staging` is used. */
  constructor(folder: string, size: WorldSize) {
    this.folder = folder;
    this.size = size;
    this.#staging = `${folder}.staging`;
  }

  service(number: number): ServiceRef {
    return serviceRef(number, namespaceName(number % this.size.namespaces));
  }

  /** A service with routes and a rule, a different one in each round. */
  #rich(round: number): ServiceRef {
    const count = Math.ceil(this.size.services / RICH);
    return this.service(RICH * (round % count));
  }

  /** The number of a service without routes and rules, a different one in each step. */
  plain(step: number): number {
    const number = Math.floor(step / (RICH - 1)) * RICH + 1 + (step % (RICH - 1));
    // The last group of services may have none.
    return number % Math.max(RICH, this.size.services - (this.size.services % RICH));
  }

  #entry(service: ServiceRef, version: number): string {
    const { endpoints, content, onlyHttp } = this.size;
    return serviceEntry(service, { endpoints, version, content, onlyHttp });
  }

  /** Services that a scope sees; `shift` moves the window by so many. */
  #scopeOf(index: number, shift: number): ServiceRef[] {
    const count = Math.min(HOSTS_PER_SIDECAR, Math.floor(this.size.services / 2));
    return Array.from({ length: count }, (_, i) => this.service((index * 7 + shift + i) % this.size.services));
  }

  *#files(): Generator<[string, string]> {
    const { services, namespaces, sidecars = 0 } = this.size;
    for (let number = 0; number < services; number++) {
      const service = this.service(number);
      yield [`services/${service.name}.yaml`, this.#entry(service, 0)];
      if (number % RICH !== 0) continue;
      yield [`routes/${service.name}.yaml`, virtualService(service, 0)];
      yield [`rules/${service.name}.yaml`, destinationRule(service, 0)];
    }
    for (let index = 0; index < namespaces; index += RICH) {
      const namespace = namespaceName(index);
      yield [`policies/${namespace}.yaml`, `${peerAuthentication(namespace)}---\n${authorizationPolicy(namespace)}`];
    }
    for (let index = 0; index < sidecars; index++)
      yield [`sidecars/${scopedNamespace(index)}.yaml`, sidecar(scopedNamespace(index), this.#scopeOf(index, 0))];
    yield ['services/hidden.yaml', this.#hidden(0)];
  }

  #hidden(version: number): string {
    const service = serviceRef(this.size.services, HIDDEN);
    const { endpoints, content } = this.size;
    return serviceEntry(service, { endpoints, version, exportTo: '.', content });
  }

  async write(): Promise<void> {
    await mkdir(this.#staging, { recursive: true });
    for (const folder of ['services', 'routes', 'rules', 'policies', 'sidecars'])
      await mkdir(join(this.folder, folder), { recursive: true });
    for (const [path, text] of this.#files()) await writeFile(join(this.folder, path), text);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
    await rm(this.#staging, { recursive: true, force: true });
  }

  /** Makes the edit in one step; returns the monotonic time, ms, just before it was visible. */
  async apply({ path, text }: Change): Promise<number> {
    const target = join(this.folder, path);
    if (text === undefined) {
      const at = monotonicMs();
      await rm(target);
      return at;
    }
    // Another edit may be on its way.
    const staged = join(this.#staging, `${++this.#edits}.yaml`);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(staged, text);
    const at = monotonicMs();
    await rename(staged, target);
    return at;
  }

  /**
   * The change of this kind in this round; `service removed` removes what `service added` of the same round added.
   * A repetition changes the same service to yet another value.
   */
  change(kind: ChangeKind, round: number, attempt = 0): Change {
    const { services } = this.size;
    const version = round + 1 + attempt * VERSIONS_BETWEEN_ATTEMPTS;
    switch (kind) {
      case 'endpoint':
        return this.endpoint(round % services, version);
      case 'route': {
        const service = this.#rich(round);
        const expect = [this.#routes(service, 'changed')];
        return { path: `routes/${service.name}.yaml`, text: virtualService(service, version), expect };
      }
      case 'policy': {
        const service = this.#rich(round);
        // A changed cluster warms until it gets its endpoints, so both have to arrive.
        const expect: Predicate[] = [
          { type: 'cds', state: 'changed', name: clusterName(service) },
          { type: 'eds', state: 'received', name: clusterName(service) },
        ];
        return { path: `rules/${service.name}.yaml`, text: destinationRule(service, version), expect };
      }
      case 'service added':
      case 'service removed': {
        const service = this.service(services + 1 + round);
        const added = kind === 'service added';
        const name = clusterName(service);
        const expect: Predicate[] = [
          { type: 'cds', state: added ? 'present' : 'gone', name },
          this.#routes(service, added ? 'present' : 'gone'),
          { type: 'lds', state: 'received', name: '' },
        ];
        if (added) expect.push({ type: 'eds', state: 'present', name });
        const text = added ? this.#entry(service, 0) : undefined;
        return { path: `services/${service.name}.yaml`, text, expect };
      }
      case 'nothing visible':
        return { path: 'services/hidden.yaml', text: this.#hidden(version), expect: [] };
    }
  }

  /** The sign that the routes to a service were added, changed or removed. */
  #routes(service: ServiceRef, state: 'present' | 'changed' | 'gone'): Predicate {
    return this.size.mode === 'delta'
      ? { type: 'vhds', state, name: `${ROUTES}/${service.host}:${HTTP_PORT}` }
      : { type: 'rds', state: 'changed', name: ROUTES };
  }

  /** Another address for the first endpoint of a service. */
  endpoint(number: number, version: number): Change {
    const { services } = this.size;
    const service = this.service(number % services);
    return {
      path: `services/${service.name}.yaml`,
      text: this.#entry(service, version),
      expect: [{ type: 'eds', state: 'changed', name: clusterName(service) }],
    };
  }

  /** Another version of the routes that a VirtualService has from another namespace. */
  delegate(round: number): Change {
    const service = this.service(1);
    const text = delegatedRoutes(service, namespaceName(0), round);
    return { path: 'routes/delegated.yaml', text, expect: [this.#routes(service, 'changed')] };
  }

  /** Another version of patches for all proxies: they change a listener, and one virtual host. */
  filter(round: number): Change {
    const expect: Predicate[] = [{ type: 'lds', state: 'changed', name: `0.0.0.0_${HTTP_PORT}` }];
    const service = this.service(0);
    if (round > 0) expect.push(this.#routes(service, 'changed'));
    return { path: 'filter.yaml', text: envoyFilter(service, round), expect };
  }

  /** Moves the window of services of one Sidecar by one: a service enters at its end and one leaves at its start. */
  scope(index: number, round: number): Change {
    const hosts = this.#scopeOf(index, round + 1);
    const last = hosts.at(-1);
    const expect: Predicate[] = last === undefined ? [] : [{ type: 'eds', state: 'present', name: clusterName(last) }];
    const namespace = scopedNamespace(index);
    return { path: `sidecars/${namespace}.yaml`, text: sidecar(namespace, hosts), expect };
  }
}
