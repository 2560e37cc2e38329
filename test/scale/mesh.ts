/**
 * The mesh of the scale test: 10 namespaces of 100 services with 5 endpoints each, and 30 proxies in each namespace.
 *
 *   ns-0 … ns-4  see every public service
 *   ns-5 … ns-9  have a Sidecar that imports only their own namespace
 *   ns-9         exports its services to nobody else (exportTo `.`)
 *   hidden       has a service that is exported to nobody, and no proxies
 */
import type { ConfigDir, Document } from '../e2e/support/config.ts';
import { endpoints, resource, service } from '../e2e/support/config.ts';
import { SimProxy, type SimProxyOptions } from '../harness/sim-proxy.ts';

export const NAMESPACES = 10;
export const SERVICES = 100;
export const ENDPOINTS = 5;
export const PROXIES = 30;

/** From this namespace on, proxies see only their own namespace. */
const NARROW_FROM = 5;
/** The namespace whose services others do not see. */
export const PRIVATE = 9;
export const HIDDEN = 'hidden';

export const namespaceName = (index: number) => `ns-${index}`;
export const serviceName = (index: number) => `svc-${index}`;
export const hostname = (namespace: number, index: number) =>
  `${serviceName(index)}.${namespaceName(namespace)}.svc.cluster.local`;

/** Whether proxies of the first namespace see the services of the second. */
export function sees(proxies: number, services: number): boolean {
  return proxies === services || (proxies < NARROW_FROM && services !== PRIVATE);
}

function exported(document: Document, exportTo: string | undefined): Document {
  if (exportTo === undefined) return document;
  const metadata = document.metadata as Document;
  return { ...document, metadata: { ...metadata, annotations: { 'networking.mesh.io/exportTo': exportTo } } };
}

/** Endpoints of a service; another `revision` is another address for the first of them. */
export function serviceEndpoints(namespace: number, index: number, revision = 0): Document {
  const addresses = Array.from({ length: ENDPOINTS }, (_, each) =>
    each === 0 && revision > 0 ? `10.200.${revision}.1` : `10.${namespace}.${index}.${each + 1}`,
  );
  return endpoints(serviceName(index), addresses, [{ name: 'http', port: 8080 }], namespaceName(namespace));
}

export function hiddenEndpoints(revision: number): Document {
  return endpoints('unseen', [`10.201.0.${revision}`], [{ name: 'http', port: 8080 }], HIDDEN);
}

const ports = [{ name: 'http', port: 80, targetPort: 8080 }];

/** File name → documents. */
export function meshFiles(): Map<string, readonly Document[]> {
  const files = new Map<string, readonly Document[]>();
  for (let namespace = 0; namespace < NAMESPACES; namespace++) {
    const name = namespaceName(namespace);
    const services = Array.from({ length: SERVICES }, (_, index) =>
      exported(
        service(serviceName(index), { namespace: name, clusterIP: `10.${100 + namespace}.0.${index + 1}`, ports }),
        namespace === PRIVATE ? '.' : undefined,
      ),
    );
    files.set(name, services);
    for (let index = 0; index < SERVICES; index++)
      files.set(endpointsFile(namespace, index), [serviceEndpoints(namespace, index)]);
    if (namespace >= NARROW_FROM)
      files.set(`${name}-sidecar`, [resource('Sidecar', 'default', { egress: [{ hosts: ['./*'] }] }, name)]);
  }
  files.set(HIDDEN, [exported(service('unseen', { namespace: HIDDEN, clusterIP: '10.120.0.1', ports }), '.')]);
  files.set(`${HIDDEN}-endpoints`, [hiddenEndpoints(1)]);
  return files;
}

/** Endpoints have a file each, so that an edit is of one service. */
export const endpointsFile = (namespace: number, index: number) => `${namespaceName(namespace)}/${serviceName(index)}`;

export async function writeMesh(config: ConfigDir): Promise<void> {
  for (const [name, documents] of meshFiles()) await config.apply(name, ...documents);
}

export interface ScaleProxy {
  readonly namespace: number;
  readonly proxy: SimProxy;
  /** Responses since the last `clear`. */
  readonly received: { type: string; names: readonly string[]; removed: readonly string[] }[];
}

/** Simulated proxies, half of each namespace SotW and half Delta; not connected yet. */
export function makeProxies(port: number): ScaleProxy[] {
  const proxies: ScaleProxy[] = [];
  for (let namespace = 0; namespace < NAMESPACES; namespace++) {
    for (let index = 0; index < PROXIES; index++) {
      const name = namespaceName(namespace);
      const received: ScaleProxy['received'] = [];
      const options: SimProxyOptions = {
        port,
        mode: index % 2 === 0 ? 'sotw' : 'delta',
        id: `sidecar~10.250.${namespace}.${index + 1}~pod-${index}.${name}~${name}.svc.cluster.local`,
        metadata: { NAMESPACE: name, INTERCEPTION_MODE: 'REDIRECT' },
        onResponse: (type, names, removed) => void received.push({ type, names, removed }),
      };
      proxies.push({ namespace, proxy: new SimProxy(options), received });
    }
  }
  return proxies;
}
