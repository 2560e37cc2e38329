/**
 * The objects of the Gateway API as the API server has them now, with their status: each kind with a status that the
 * server has, followed while kinds come and go with their definitions.
 */
import { createFailureLog, createSharedFailureLog } from '../core/log.ts';
import { Informer, type KubernetesObject } from '../kubernetes/index.ts';
import { KindObjects, type KindObjectsOptions, type StatusObject } from '../object-status/index.ts';
import { writtenKind } from '../resources/index.ts';
import { DEFINITIONS, Definitions, definedKinds, type ServedType } from '../sources/index.ts';
import { type DefinitionVersions, VERSION_ANNOTATION } from './definition-versions.ts';
import { GATEWAY_GROUP, STATUS_KINDS } from './types.ts';

/** Between reads of API discovery where definitions may not be watched, ms. */
const DISCOVERY_MS = 60_000;

interface Definition {
  readonly plural: string;
  readonly version: string | undefined;
}

export class GatewayObjects {
  readonly #options: KindObjectsOptions;
  /** The kinds by their names in the store. */
  readonly #kinds = new Map<string, KindObjects>();
  readonly #definitions: Definitions;
  readonly #versions: Informer<Definition>;
  #closed = false;

  constructor(options: KindObjectsOptions) {
    this.#options = options;
    const { client, log } = options;
    const { connection } = client;
    const kinds = `resources in ${GATEWAY_GROUP}`;
    const kindFailures = createSharedFailureLog(log, `${kinds} cannot be read`, `${kinds} can be read again`);
    const definitions = `CRDs of ${GATEWAY_GROUP}`;
    this.#definitions = new Definitions({
      connection,
      resyncMs: DISCOVERY_MS,
      failures: {
        failed: (name, reason) => kindFailures(name).failed(`${name}: ${reason}`),
        recovered: (name) => kindFailures(name).succeeded(),
      },
      kinds: definedKinds(STATUS_KINDS),
      onTypes: ({ types }, isGone) => this.#served(types, isGone),
    });
    this.#versions = new Informer<Definition>({
      connection,
      type: DEFINITIONS,
      fromRetained: true,
      convert: toDefinition,
      onChange: () => this.#options.onChanged(this.keysOf('GatewayClass')),
      failures: createFailureLog(log, `${definitions} cannot be read`, `${definitions} can be read again`),
    });
  }

  start(): void {
    this.#versions.start();
    this.#definitions.start();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#definitions, this.#versions, ...this.#kinds.values()].map((each) => each.close()));
  }

  get(key: string): StatusObject | undefined {
    return this.#kinds.get(parseKind(key))?.get(key);
  }

  keysOf(kind: string): readonly string[] {
    return this.#kinds.get(kind)?.keys() ?? [];
  }

  /** See `KindObjects.write`. */
  async write(object: StatusObject, send: () => Promise<KubernetesObject>): Promise<void> {
    const objects = [...this.#kinds.values()].find(({ type }) => type.plural === object.type.plural);
    await (objects === undefined ? send() : objects.write(object, send));
  }

  /** Versions of the definitions; undefined until they are listed. */
  get versions(): DefinitionVersions | undefined {
    if (!this.#versions.isSynced) return undefined;
    return new Map([...this.#versions.values()].map(({ plural, version }) => [plural, version]));
  }

  #served(types: ReadonlyMap<string, ServedType>, isGone: (name: string) => boolean): void {
    if (this.#closed) return;
    for (const type of types.values()) {
      const before = this.#kinds.get(type.kind);
      if (before?.type.version === type.version) continue;
      this.#end(type.kind);
      const objects = new KindObjects(type.kind, { ...type, kind: writtenKind(type.kind) }, this.#options);
      this.#kinds.set(type.kind, objects);
      objects.start();
    }
    for (const [kind, { type }] of this.#kinds) if (isGone(`${type.plural}.${type.group}`)) this.#end(kind);
  }

  #end(kind: string): void {
    const objects = this.#kinds.get(kind);
    if (objects === undefined) return;
    this.#kinds.delete(kind);
    void objects.close();
    this.#options.onChanged(objects.keys());
  }
}

/** Undefined for definitions of other groups. */
function toDefinition({ metadata }: KubernetesObject): Definition | undefined {
  const { name, annotations } = metadata;
  if (!name.endsWith(`.${GATEWAY_GROUP}`)) return undefined;
  return { plural: name.slice(0, -GATEWAY_GROUP.length - 1), version: annotations?.[VERSION_ANNOTATION] };
}

function parseKind(key: string): string {
  return key.slice(0, key.indexOf('/'));
}
