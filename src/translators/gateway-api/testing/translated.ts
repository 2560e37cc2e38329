/** Documents as YAML, translated: what is derived from them, and their statuses. */
import { parseAllDocuments } from 'yaml';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../../../resources/kinds/types.ts';
import { parseResource } from '../../../resources/parsing/parse.ts';
import type { Condition, DesiredStatus } from '../status-types.ts';
import { GatewayApiTranslator } from '../translator.ts';

/** @throws Error for a document that is refused */
export function documentsOf(yaml: string): AnyResource[] {
  return parseAllDocuments(yaml).flatMap((document) => {
    const raw: unknown = document.toJS();
    if (raw === null) return [];
    const parsed = parseResource(raw, { source: 'test' }, () => undefined);
    if ('resource' in parsed) return parsed.resource;
    throw new Error('problem' in parsed ? `${parsed.problem.field}: ${parsed.problem.message}` : parsed.ignored.what);
  });
}

export function setChanges(documents: readonly AnyResource[]): ResourceChange[] {
  return documents.map((after) => ({ key: keyOf(after), before: undefined, after }));
}

/** A class and a Service. */
const BASE = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: meshd, generation: 1}
spec: {controllerName: mesh.io/gateway-controller}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
`;

export interface Translated {
  readonly translator: GatewayApiTranslator;
  readonly derived: ReadonlyMap<ResourceKey, AnyResource>;
  status(key: ResourceKey): DesiredStatus['status'] | undefined;
  /** The change that sets one of the documents. */
  changesOf(key: ResourceKey): readonly ResourceChange[];
}

/** Translates documents beside a GatewayClass `meshd` and a Service `shop/web` with port 80. */
export function translated(yaml: string): Translated {
  const translator = new GatewayApiTranslator({ domain: 'cluster.local' });
  const given = setChanges(documentsOf(BASE + yaml));
  const changes = translator.apply(given);
  const derived = new Map(changes.flatMap(({ key, after }) => (after === undefined ? [] : [[key, after] as const])));
  return {
    translator,
    derived,
    status: (key) => translator.statuses().get(key)?.status,
    changesOf: (key) => given.filter((change) => change.key === key),
  };
}

/** Conditions as `Type=Status Reason`. */
export function shown(conditions: readonly Condition[] | undefined): string[] {
  return (conditions ?? []).map(({ type, status, reason }) => `${type}=${status} ${reason}`);
}
