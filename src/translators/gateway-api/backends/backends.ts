/** Resolves the backends of routes. */
import type { BackendReference } from '../../../resources/index.ts';
import type { Complaint } from '../conditions.ts';
import type { Documents, Fact } from '../documents.ts';
import type { RouteKind } from '../listeners/listeners.ts';
import { isPermitted } from '../references.ts';

export interface BackendContext {
  readonly backends: Backends;
  readonly kind: RouteKind;
  readonly namespace: string;
}

export interface Backend {
  readonly namespace: string;
  readonly service: string;
  readonly host: string;
  readonly port: number;
}

export function serviceHost(namespace: string, name: string, domain: string): string {
  return `${name}.${namespace}.svc.${domain}`;
}

/** The backend of a reference, or the reason why it cannot be used. */
export function resolveBackend({ backends, kind, namespace }: BackendContext, reference: BackendReference) {
  return backends.resolve(kind, namespace, reference);
}

type Resolution = Backend | Complaint;

interface Resolved {
  readonly compute: () => Resolution;
  resolution: Resolution;
}

/**
 * The resolutions of references to backends, each computed once for all rules that need it. A rule reads the resolution
 * and not the Service, so that a change of a Service only affects the rules whose backends it changes.
 */
export class Backends {
  readonly #documents: Documents;
  readonly #domain: string;
  readonly #all = new Map<string, Resolved>();

  constructor(documents: Documents, domain: string) {
    this.#documents = documents;
    this.#domain = domain;
  }

  /** Records that the current computation reads the resolution. */
  resolve(from: RouteKind, fromNamespace: string, reference: BackendReference): Resolution {
    const { group = '', kind = 'Service', namespace = fromNamespace, name, port } = reference;
    const id = JSON.stringify([from, fromNamespace, group, kind, namespace, name, port]);
    this.#documents.note(backendFact(id));
    const known = this.#all.get(id);
    if (known !== undefined) return known.resolution;
    const target = { group, kind, namespace, name, port };
    const compute = () => this.#resolve({ kind: from, namespace: fromNamespace }, target);
    const resolution = this.#documents.reading(`backend:${id}`, compute);
    this.#all.set(id, { compute, resolution });
    return resolution;
  }

  /**
   * Computes a resolution again, because something that it read has changed.
   * @returns the fact that changed with it, if any
   */
  update(id: string): Fact | undefined {
    const known = this.#all.get(id);
    if (known === undefined) return undefined;
    const resolution = this.#documents.reading(`backend:${id}`, known.compute);
    if (JSON.stringify(resolution) === JSON.stringify(known.resolution)) return undefined;
    known.resolution = resolution;
    return backendFact(id);
  }

  /** Removes the resolutions among these facts, which have no readers. */
  forget(facts: Iterable<Fact>): void {
    for (const fact of facts) {
      if (!fact.startsWith(FACT_PREFIX)) continue;
      const id = fact.slice(FACT_PREFIX.length);
      this.#all.delete(id);
      this.#documents.forget(`backend:${id}`);
    }
  }

  #resolve(from: { kind: RouteKind; namespace: string }, target: Target): Resolution {
    const { group, kind, namespace, name, port } = target;
    if (group !== '' || kind !== 'Service') {
      const shown = group === '' ? kind : `${kind}.${group}`;
      return { reason: 'InvalidKind', message: `backend ${shown} ${name}: expected a Service` };
    }
    if (!isPermitted(this.#documents, from, '', 'Service', { namespace, name })) {
      const message = `Service ${namespace}/${name}: no ReferenceGrant in namespace ${namespace} permits the reference`;
      return { reason: 'RefNotPermitted', message };
    }
    const missing = (message: string): Complaint => ({ reason: 'BackendNotFound', message });
    const service = this.#documents.get('Service', namespace, name);
    if (service === undefined) return missing(`Service ${namespace}/${name} does not exist`);
    const { type, ports = [] } = service.content.spec;
    // It could name any address, including protected ones (see CVE-2021-25740 for Ingress).
    if (type === 'ExternalName') return missing(`Service ${namespace}/${name} is of type ExternalName`);
    if (!ports.some((each) => each.port === port && each.protocol === 'TCP')) {
      return missing(`Service ${namespace}/${name} has no TCP port ${port ?? ''}`.trimEnd());
    }
    return { namespace, service: name, host: serviceHost(namespace, name, this.#domain), port: port ?? 0 };
  }
}

/** A reference with all defaults. */
interface Target {
  readonly group: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly port: number | undefined;
}

const FACT_PREFIX = 'backend/';

function backendFact(id: string): Fact {
  return `${FACT_PREFIX}${id}`;
}
