/**
 * Telemetry for all proxies beside none: what a proxy is sent, the memory of the control plane, and that of a real
 * Envoy with the listeners of all services, and after a request to each of them.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ACCESS_LOG_CLUSTER } from '../../src/core/proxy.ts';
import { type Envoy, startEnvoy } from '../../test/harness/envoy.ts';
import { freePort } from '../../test/harness/files.ts';
import { request } from '../../test/harness/http.ts';
import type { Owner } from '../../test/harness/owner.ts';
import { quiet } from '../counters.ts';
import { type Bench, type BenchContext, joinProxies, type Mesh, memory, withMesh } from '../mesh.ts';
import { HTTP_PORT, head } from '../world/documents.ts';
import { namespaceName } from '../world/world.ts';

const MIB = 1024 * 1024;
/** Requests at a time. All fail, because the addresses of the endpoints are nowhere: they are counted nevertheless. */
const IN_FLIGHT = 16;

const SPANS_AND_LOGS = { enableEnvoyAccessLogService: true, defaultConfig: { tracing: { sampling: 1 } } };
const MODES: Readonly<Record<string, object>> = {
  off: {},
  'spans and access log service': SPANS_AND_LOGS,
  'spans, access log service and metrics': { ...SPANS_AND_LOGS, defaultProviders: { metrics: ['prometheus'] } },
};

interface Measurement {
  readonly bytesPerProxy: number;
  /** Seconds from the server's start until all proxies have everything. */
  readonly serverCpu: number;
  readonly rssMiB: number;
  /** Memory that Envoy has allocated. */
  readonly listenersMiB: number;
  readonly requestedMiB: number;
}

export const telemetry: Bench = {
  name: 'telemetry',
  about: 'spans, access logs and metrics for all proxies beside none: bytes, and memory of the server and of Envoy',
  async run(context) {
    const rows: (readonly (string | number)[])[] = [];
    for (const [name, fields] of Object.entries(MODES)) {
      context.progress(name);
      const { bytesPerProxy, serverCpu, rssMiB, listenersMiB, requestedMiB } = await measured(context, fields);
      const figures = [bytesPerProxy / 1000, serverCpu, rssMiB, listenersMiB, requestedMiB];
      rows.push([name, ...figures.map((value) => value.toFixed(1))]);
    }
    const { services, proxies } = context.options;
    const title = `Telemetry: ${services} services, ${proxies} proxies`;
    const ofEnvoy = ['Envoy with all listeners, MiB', 'Envoy after a request to each service, MiB'];
    const columns = ['telemetry', 'kB a proxy', 'server CPU, s', 'server RSS, MiB', ...ofEnvoy];
    return { rows: [], tables: [{ title, columns, rows }] };
  },
};

async function measured(context: BenchContext, fields: object): Promise<Measurement> {
  const [proxyListenPort, proxyInboundListenPort, egress] = [await freePort(), await freePort(), await freePort()];
  const meshConfig = { ...fields, proxyListenPort, proxyInboundListenPort, connectTimeout: '100ms' };
  return await withMesh(context, { meshConfig }, async (mesh, owner) => {
    await writeFile(join(mesh.world.folder, 'measured.yaml'), sidecarAt(egress));
    const { synced } = await joinProxies(context, mesh);
    const { totals } = await quiet(mesh);
    const { rssMiB } = memory(mesh);
    const envoys = {
      listeners: await envoyOf(owner, mesh, 'all', 'REDIRECT'),
      requested: await envoyOf(owner, mesh, 'measured', 'NONE'),
    };
    await requestAll(mesh, egress, context.options.services);
    return {
      bytesPerProxy: (totals.bytes - mesh.started.totals.bytes) / mesh.size.proxies,
      serverCpu: synced.serverCpu,
      rssMiB,
      listenersMiB: await allocated(envoys.listeners),
      requestedMiB: await allocated(envoys.requested),
    };
  });
}

/** One listener that Envoy binds, for requests to all services. */
function sidecarAt(port: number): string {
  const start = head('networking.istio.io/v1', 'Sidecar', 'measured', namespaceName(0));
  return `${start}  workloadSelector: {labels: {app: measured}}
  egress:
  - port: {number: ${port}, name: http, protocol: HTTP}
    bind: 127.0.0.1
    captureMode: NONE
    hosts: ["*/*"]
`;
}

async function envoyOf(owner: Owner, { server, size }: Mesh, app: string, interception: string): Promise<Envoy> {
  const namespace = namespaceName(0);
  return await startEnvoy(owner, {
    id: `sidecar~127.0.0.1~${app}.${namespace}~${namespace}.svc.cluster.local`,
    metadata: {
      NAMESPACE: namespace,
      WORKLOAD_NAME: app,
      LABELS: { app },
      INTERCEPTION_MODE: interception,
      INSTANCE_IPS: '127.0.0.1',
    },
    mode: size.mode,
    adsPort: server.ports.grpc,
    staticResources: { clusters: [{ name: ACCESS_LOG_CLUSTER, type: 'STATIC', connect_timeout: '1s' }] },
  });
}

async function requestAll({ world }: Mesh, port: number, services: number): Promise<void> {
  const hosts = Array.from({ length: services }, (_, index) => `${world.service(index).host}:${HTTP_PORT}`);
  const next = hosts.values();
  const work = async (): Promise<void> => {
    for (const host of next) {
      const { status } = await request({ port, host });
      if (status !== 503) throw new Error(`a request to ${host} returned HTTP ${status}`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
}

async function allocated(envoy: Envoy): Promise<number> {
  const { allocated: bytes } = JSON.parse(await envoy.admin('/memory')) as { readonly allocated: string };
  return Number(bytes) / MIB;
}
