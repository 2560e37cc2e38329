/**
 * Two tenants with a gateway each, for tests of credentials: `edge`, whose gateway is a real Envoy that end users
 * reach, and `shop`, which has a Secret of the same name. Every host is routed to the backend `a`.
 */
import assert from 'node:assert/strict';
import { certificateSet, testRoot } from '../../../src/agent/identity/testing/certificates.ts';
import { type Agent, eventually as retry, startEcho } from '../../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './config.ts';
import { type HttpsTarget, https } from './https-client.ts';
import { planMesh } from './mesh.ts';
import { type SecretsWorld, startSecretsWorld, tlsSecret } from './secrets-world.ts';
import { lazy, suiteOwner } from './suite.ts';

const PORT = 7443;
export const BACKEND_PORT = 7480;

export const owner = suiteOwner();
export const address = planMesh();
export const root = testRoot('end users');
export const clients = testRoot('clients');
export const make = (host: string) => certificateSet(root, host);
export const CLIENT = certificateSet(clients, 'client.example');
export const STRANGER = certificateSet(testRoot('strangers'), 'client.example');
/** The other tenant's Secret of the same name. */
export const FOREIGN = make('a.example');

export const shared = lazy<{ readonly world: SecretsWorld; readonly gateway: Agent }>();
export const world = () => shared.get().world;
export const config = () => world().config;

export const eventually = (check: () => Promise<void> | void) => retry(check, { timeoutMs: 30_000 });
export const at = (host: string, more: Partial<HttpsTarget> = {}): HttpsTarget => ({
  address: address(1),
  port: PORT,
  host,
  root: root.pem,
  ...more,
});

export const server = (name: string, hosts: readonly string[], tls: Document, bind = address(1)) => ({
  port: { number: PORT, name, protocol: 'HTTPS' },
  bind,
  hosts,
  tls,
});
export const simple = (credentialName: string): Document => ({ mode: 'SIMPLE', credentialName });

export function gateway(servers: readonly Document[], name = 'front', namespace = 'edge'): Document {
  return resource('Gateway', name, { selector: { app: 'edge' }, servers }, namespace);
}

export const served = async (host: string, certificate: string, more?: Partial<HttpsTarget>) => {
  const answer = await https(at(host, more));
  assert.deepEqual([answer.status, answer.by, answer.certificate], [200, 'a', certificate]);
};
export const refused = (host: string, more?: Partial<HttpsTarget>) => assert.rejects(https(at(host, more)));

export async function findings(): Promise<string> {
  return (await world().discovery().http('/debug/push_status')).body;
}

/** How often the gateway's Envoy has accepted a new or changed listener. */
export async function listenerStats(): Promise<string> {
  const stats = await shared.get().gateway.admin('/stats?filter=listener_manager.listener_(added|modified|in_place)');
  return stats.trim();
}

/** Starts everything. To be called before the first test. */
export async function startTenants(): Promise<void> {
  await startEcho(owner, { name: 'a', address: address(21), port: BACKEND_PORT });
  const edge = (name: string, labels: Readonly<Record<string, string>>, namespace: string, last: number) =>
    pod(name, { namespace, labels, ip: address(last), serviceAccount: name });
  const files = {
    backend: [
      service('a', { ports: [{ name: 'http', port: BACKEND_PORT }] }),
      endpoints('a', [address(21)], [{ name: 'http', port: BACKEND_PORT }]),
    ],
    workloads: [
      edge('gw', { app: 'edge' }, 'edge', 1),
      edge('side', { app: 'side' }, 'edge', 2),
      edge('gw', { app: 'edge' }, 'shop', 3),
    ],
    routes: [
      resource(
        'VirtualService',
        'all',
        {
          hosts: ['*'],
          gateways: ['edge/front', 'shop/front'],
          http: [{ route: [{ destination: { host: 'a.default.svc.cluster.local' } }] }],
        },
        'edge',
      ),
    ],
    foreign: [
      tlsSecret('a-cert', 'shop', FOREIGN),
      gateway([server('own', ['a.example'], simple('a-cert'), address(3))], 'front', 'shop'),
    ],
  };
  const names = ['a', 'b', 'mutual', 'apart', 'generic', 'all', 'client'].map((name) => `${name}-cert`);
  const started = await startSecretsWorld(owner, files, names);
  const agent = await started.startGateway({
    name: 'gw',
    namespace: 'edge',
    address: address(1),
    labels: { app: 'edge' },
    serviceAccount: 'gw',
  });
  shared.set({ world: started, gateway: agent });
}
