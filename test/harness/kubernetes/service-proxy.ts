/**
 * A simulated kube-proxy and DNS: connections to the cluster IP of a Service, from Pods and from the API server, reach
 * a ready endpoint, and `hosts` has the names of Services for Pods. Endpoints that refuse the connection are tried in
 * turn.
 */
import { execFile } from 'node:child_process';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { createScope, type Owner } from '../owner.ts';
import type { ApiObject, KubernetesApi } from './api.ts';
import { API_SERVICE_ADDRESS } from './control-plane.ts';
import { startController } from './controller.ts';
import { reportedErrors } from './recent-errors.ts';
import { keyOf, watchCollection } from './watch.ts';

export interface ServiceProxy {
  /** Lines of hosts(5) for all Services that have a cluster IP. */
  hosts(): string;
}

interface Service extends ApiObject {
  readonly spec: {
    readonly clusterIP?: string;
    readonly ports?: readonly { readonly name?: string; readonly port: number; readonly protocol?: string }[];
  };
}

interface Slice extends ApiObject {
  readonly endpoints?:
    | readonly {
        readonly addresses: readonly string[];
        readonly conditions: { readonly ready?: boolean };
      }[]
    | null;
  readonly ports?: readonly { readonly name?: string; readonly port: number }[] | null;
}

const SERVICE_LABEL = 'kubernetes.io/service-name';

/** When a target has not answered for so long, the next one is tried as well: one that has gone drops what it gets. */
const NEXT_TARGET_MS = 1_000;

/**
 * A connection to the first target that accepts one; undefined when all refuse it.
 * @param opened receives each socket, also those that are not chosen
 */
function connectAny(
  targets: readonly (readonly [address: string, port: number])[],
  opened: (socket: Socket) => void,
): Promise<Socket | undefined> {
  const { promise, resolve } = Promise.withResolvers<Socket | undefined>();
  const open = new Set<Socket>();
  const left = [...targets];
  let timer: NodeJS.Timeout | undefined;
  const settle = (chosen: Socket | undefined): void => {
    clearTimeout(timer);
    left.length = 0;
    for (const socket of open) if (socket !== chosen) socket.destroy();
    resolve(chosen);
  };
  const next = (): void => {
    clearTimeout(timer);
    const [host, port] = left.shift() ?? [];
    if (port === undefined) {
      if (open.size === 0) settle(undefined);
      return;
    }
    const socket = connect({ host, port });
    open.add(socket);
    opened(socket);
    socket.once('connect', () => settle(socket));
    socket.once('close', () => {
      open.delete(socket);
      next();
    });
    timer = setTimeout(next, NEXT_TARGET_MS);
  };
  next();
  return promise;
}

class Services {
  readonly #services = new Map<string, Service>();
  readonly #slices = new Map<string, Slice>();
  /** By address and port. */
  readonly #servers = new Map<string, Server>();
  readonly #sockets = new Set<Socket>();
  #next = 0;

  /** Listens where the Service is reached, or no more; rejects when that has to be tried again. */
  async reconcile(key: string, service: Service | undefined): Promise<void> {
    if (service === undefined) return this.#remove(key);
    const { clusterIP: address, ports = [] } = service.spec;
    if (address === undefined || address === 'None' || address === '' || address === API_SERVICE_ADDRESS) return;
    this.#services.set(key, service);
    for (const { port, protocol = 'TCP' } of ports)
      if (protocol === 'TCP' && !this.#servers.has(`${address}:${port}`))
        this.#servers.set(`${address}:${port}`, await this.#listen(address, port));
  }

  #remove(key: string): void {
    const { clusterIP: address, ports = [] } = this.#services.get(key)?.spec ?? {};
    this.#services.delete(key);
    for (const { port } of ports) {
      this.#servers.get(`${address}:${port}`)?.close();
      this.#servers.delete(`${address}:${port}`);
    }
  }

  sliceChanged(slice: Slice): void {
    this.#slices.set(keyOf(slice), slice);
  }

  sliceGone(key: string): void {
    this.#slices.delete(key);
  }

  hosts(): string {
    return [...this.#services.values()]
      .map(({ metadata: { name, namespace }, spec: { clusterIP } }) => {
        const short = `${name}.${namespace}`;
        return `${clusterIP} ${short}.svc.cluster.local ${short}.svc ${short}`;
      })
      .join('\n');
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers.values()) server.close();
  }

  async #listen(address: string, port: number): Promise<Server> {
    await promisify(execFile)('ip', ['addr', 'replace', `${address}/32`, 'dev', 'lo']);
    const server = createServer((near) => void this.#relay(near, address, port));
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, address, resolve));
    return server;
  }

  async #relay(near: Socket, address: string, port: number): Promise<void> {
    this.#track(near);
    const far = await connectAny(this.#targets(address, port), (socket) => {
      this.#track(socket);
      near.once('close', () => socket.destroy());
    });
    if (far === undefined) {
      near.destroy();
      return;
    }
    far.on('close', () => near.destroy());
    near.pipe(far).pipe(near);
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
  }

  /** Ready endpoints, each time from another one on. */
  #targets(address: string, port: number): (readonly [string, number])[] {
    const service = [...this.#services.values()].find(({ spec }) => spec.clusterIP === address);
    const name = service?.spec.ports?.find((candidate) => candidate.port === port)?.name ?? '';
    const slices = [...this.#slices.values()].filter(({ metadata }) => {
      const labels = (metadata.labels ?? {}) as Record<string, string>;
      return metadata.namespace === service?.metadata.namespace && labels[SERVICE_LABEL] === service?.metadata.name;
    });
    const targets = slices.flatMap(({ endpoints, ports }) => {
      const target = (ports ?? []).find((candidate) => (candidate.name ?? '') === name);
      const ready = (endpoints ?? []).filter(({ conditions }) => conditions.ready !== false);
      return target === undefined
        ? []
        : ready.flatMap(({ addresses }) => addresses.map((each) => [each, target.port] as const));
    });
    const first = targets.length === 0 ? 0 : this.#next++ % targets.length;
    return [...targets.slice(first), ...targets.slice(0, first)];
  }
}

/** Runs until its owner ends. Needs a network namespace of the tests' own, in which the stage `kubernetes` runs. */
export function startServiceProxy(owner: Owner, api: KubernetesApi): ServiceProxy {
  const services = new Services();
  const errors = reportedErrors(owner, 'service proxy');
  const controller = createScope();
  owner.after(async () => {
    await controller.close();
    services.close();
  });
  startController(controller, {
    api,
    path: '/api/v1/services',
    reconcile: (key, service) => services.reconcile(key, service as Service | undefined),
    errors,
  });
  watchCollection(owner, api, '/apis/discovery.k8s.io/v1/endpointslices', {
    changed: (object) => services.sliceChanged(object as Slice),
    gone: (key) => services.sliceGone(key),
  });
  return services;
}
