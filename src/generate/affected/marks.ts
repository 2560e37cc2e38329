/** Units collected for a view: what has to be generated again. */
import type { ServicePort } from '../../model/types.ts';
import { outboundRouteName, serviceRouteName } from '../common/index.ts';
import { GENERATED_TYPES, type GeneratedType, type Unit, type UnitSelection } from '../types.ts';

export const ALL_UNITS: UnitSelection = { cds: 'all', sds: 'all', lds: 'all', rds: 'all', vhds: 'all' };

export class Marks {
  readonly #units: Record<GeneratedType, Set<Unit>> = {
    cds: new Set(),
    sds: new Set(),
    lds: new Set(),
    rds: new Set(),
    vhds: new Set(),
  };
  readonly #all = new Set<GeneratedType>();

  add(type: GeneratedType, unit: Unit): void {
    this.#units[type].add(unit);
  }

  all(type: GeneratedType): void {
    this.#all.add(type);
  }

  /** Marks of routes are about virtual hosts, too, where these are resources of their own. */
  withVirtualHosts(): this {
    for (const unit of this.#units.rds) this.add('vhds', unit);
    if (this.#all.has('rds')) this.all('vhds');
    return this;
  }

  listenerPort(port: number): void {
    this.add('lds', String(port));
  }

  /** The route configurations in which a service's port may stand. */
  routesOf(host: string, port: ServicePort): void {
    if (!maybeHttp(port)) return;
    this.add('rds', outboundRouteName(port.port));
    this.add('rds', serviceRouteName(host, port.port));
  }

  /** Undefined when nothing was marked. */
  selection(): UnitSelection | undefined {
    const selection: Partial<Record<GeneratedType, 'all' | ReadonlySet<Unit>>> = {};
    for (const type of GENERATED_TYPES) {
      if (this.#all.has(type)) selection[type] = 'all';
      else if (this.#units[type].size > 0) selection[type] = this.#units[type];
    }
    return Object.keys(selection).length === 0 ? undefined : selection;
  }
}

function maybeHttp({ protocol }: ServicePort): boolean {
  return (
    protocol === 'HTTP' ||
    protocol === 'HTTP2' ||
    protocol === 'GRPC' ||
    protocol === 'GRPC-Web' ||
    protocol === 'Unsupported'
  );
}
