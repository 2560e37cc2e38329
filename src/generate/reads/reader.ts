/**
 * The interface through which generators read the mesh: it has the same queries, and records each as a fact. The mesh
 * itself is not accessible through it, so every read is recorded.
 */
import type { Memos } from '../../core/memo.ts';
import {
  type Addressing,
  addressingKey,
  type ConfigKind,
  type EgressListener,
  type Endpoint,
  type MeshSnapshot,
  type ModelSettings,
  type NetworkGateways,
  type Scope,
  type ServiceKey,
  type ServicePeers,
  servicesFor,
} from '../../model/index.ts';
import type { MeshConfig, MeshNetworks, MetricsEntry, Resource, ResourceKey } from '../../resources/index.ts';
import { type PolicyTraffic, policyTrafficOf } from '../indexes/index.ts';
import * as fact from './facts.ts';
import { note } from './recorder.ts';
import { Rules, Services } from './services.ts';
import { GatewayRoutes, VirtualServices } from './virtual-services.ts';

/** A table with lookups of single entries. */
export interface Lookup<V> {
  get(key: string): V | undefined;
}

export interface EgressReader extends Pick<EgressListener, 'port' | 'bind' | 'captureMode'> {
  readonly services: Services;
  readonly virtualServices: VirtualServices;
}

/** A scope. Its existence and its shape are one fact. */
type ReadAsWritten = Exclude<keyof Scope, 'egress' | 'services' | 'destinationRule'>;

export interface ScopeReader extends Pick<Scope, ReadAsWritten> {
  readonly egress: readonly EgressReader[];
  readonly services: Services;
  readonly rules: Rules;
}

function readScope(memos: Memos, scope: Scope): ScopeReader {
  return memos
    .weak<Scope, ScopeReader>('read scopes')
    .get(scope, () => scopeReader(memos, scope, (services) => Services.of(memos, services)));
}

/** A scope with the addresses of its services that some proxies use. */
function readScopeFor(memos: Memos, scope: Scope, addressing: Addressing): ScopeReader {
  const known = memos.weak<Scope, Map<string, ScopeReader>>('read scopes with addresses').get(scope, () => new Map());
  const key = addressingKey(addressing);
  let reader = known.get(key);
  if (reader === undefined) {
    reader = scopeReader(memos, scope, (all) => Services.of(memos, servicesFor(memos, all, addressing)));
    known.set(key, reader);
  }
  return reader;
}

type Labels = Readonly<Record<string, string>>;

/** The same scope, with the destination rules for proxies with these labels. */
function withLabels(memos: Memos, scope: Scope, reader: ScopeReader, labels: Labels | undefined): ScopeReader {
  if (labels === undefined) return reader;
  const known = memos
    .weak<ScopeReader, Map<string, ScopeReader>>('read scopes with labels')
    .get(reader, () => new Map());
  const key = JSON.stringify(labels);
  const made = known.get(key) ?? { ...reader, rules: Rules.of(memos, scope.destinationRule, labels) };
  known.set(key, made);
  return made;
}

function scopeReader(memos: Memos, scope: Scope, readServices: (all: Scope['services']) => Services): ScopeReader {
  const { egress, services, destinationRule, ...asWritten } = scope;
  return {
    ...asWritten,
    egress: egress.map(({ port, bind, captureMode, services: imported, virtualServices }) => {
      return {
        port,
        bind,
        captureMode,
        services: readServices(imported),
        virtualServices: VirtualServices.of(memos, virtualServices),
      };
    }),
    services: readServices(services),
    rules: Rules.of(memos, destinationRule),
  };
}

/** There is one for each snapshot. */
export class MeshReader {
  readonly #mesh: MeshSnapshot;
  readonly settings: ModelSettings;
  readonly memos: Memos;
  readonly peers: Lookup<ServicePeers>;
  /** The metrics in Telemetry documents. */
  readonly metrics: Lookup<readonly MetricsEntry[]>;
  /** What rules of a namespace make the policy component decide and record. */
  readonly policyTraffic: Lookup<PolicyTraffic>;
  /** Endpoints that are part of clusters or listeners. */
  readonly carriedEndpoints: Lookup<readonly Endpoint[]>;

  private constructor(mesh: MeshSnapshot) {
    this.#mesh = mesh;
    this.settings = mesh.settings;
    this.memos = mesh.memos;
    this.peers = {
      get(service: ServiceKey) {
        note(fact.peers(service));
        return mesh.peers.get(service);
      },
    };
    this.metrics = {
      get(key: ResourceKey) {
        note(fact.metrics(key));
        return mesh.resources('Telemetry').get(key)?.content.metrics;
      },
    };
    this.policyTraffic = {
      get(namespace: string) {
        note(fact.policyTraffic(namespace));
        return policyTrafficOf(mesh, namespace);
      },
    };
    this.carriedEndpoints = {
      get(service: ServiceKey) {
        note(fact.endpoints(service));
        return mesh.carriedEndpoints.get(service);
      },
    };
  }

  static of(mesh: MeshSnapshot): MeshReader {
    return mesh.memos.weak<MeshSnapshot, MeshReader>('readers').get(mesh, () => new MeshReader(mesh));
  }

  get mesh(): MeshConfig {
    note(fact.MESH);
    return this.#mesh.mesh;
  }

  get networks(): MeshNetworks {
    note(fact.MESH);
    return this.#mesh.networks;
  }

  /**
   * Not a separate fact: every reader also reads the endpoints of a service, which change when the gateways of their
   * networks change.
   */
  get networkGateways(): NetworkGateways {
    return this.#mesh.networkGateways;
  }

  /** Address ranges that contain the addresses of all Pods, nodes and API servers. */
  get workloadRanges(): readonly string[] {
    note(fact.WORKLOAD_RANGES);
    return this.#mesh.workloadRanges;
  }

  /** @param labels of the proxies, by which destination rules select them */
  scopeById(id: string, labels?: Labels): ScopeReader | undefined {
    note(fact.SCOPE);
    const scope = this.#mesh.scopeById(id);
    return scope && withLabels(this.memos, scope, readScope(this.memos, scope), labels);
  }

  /** The same with the addresses of services that some proxies use. */
  scopeWithAddresses(id: string, addressing: Addressing, labels?: Labels): ScopeReader | undefined {
    note(fact.SCOPE);
    const scope = this.#mesh.scopeById(id);
    return scope && withLabels(this.memos, scope, readScopeFor(this.memos, scope, addressing), labels);
  }

  /** Services visible to a gateway of this namespace: all exported to it. */
  gatewayScope(namespace: string, labels?: Labels): ScopeReader {
    note(fact.SCOPE);
    const scope = this.#mesh.gatewayScope(namespace);
    return withLabels(this.memos, scope, readScope(this.memos, scope), labels);
  }

  virtualServicesOfGateway(gateway: string): GatewayRoutes {
    return new GatewayRoutes(this.memos, gateway, this.#mesh.virtualServicesOfGateway(gateway));
  }

  resources<K extends ConfigKind>(kind: K): Lookup<Resource<K>> {
    const table = this.#mesh.resources(kind);
    return {
      get(key: ResourceKey) {
        note(fact.resource(key));
        return table.get(key);
      },
    };
  }
}
