/** Webhooks of a test, as the Service of the control plane: an HTTPS server that answers every review with a function. */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { derOf, ecKey, makeCa, makeLeaf, pemOf } from '../../../src/security/testing/credentials.ts';
import type { Owner } from '../../harness/index.ts';
import type { KubernetesApi } from '../../harness/kubernetes/index.ts';

/** The API server resolves Services by their EndpointSlices only with this flag; there is no kube-proxy. */
export const RESOLVE_SERVICES = '--enable-aggregator-routing=true';

/** Where the endpoints of the Service are: any address of the network of the test file. */
export const SERVICE_ADDRESS = '10.244.17.1';

export interface Review {
  /** Of the URL, without its query. */
  readonly path: string;
  readonly request: { readonly uid: string; readonly name: string; readonly dryRun: boolean };
}

/** Undefined: allowed. Otherwise the message of the refusal. */
export type Answer = (review: Review) => string | undefined;

export interface WebhookServer {
  /** PEM of the authority of its certificate. */
  readonly ca: string;
  readonly port: number;
}

/** Starts a server with a certificate for `meshd.<namespace>.svc`. */
export async function startWebhookServer(owner: Owner, namespace: string, answer: Answer): Promise<WebhookServer> {
  const times = { notBefore: Date.now() - 60_000, notAfter: Date.now() + 3_600_000 };
  const [ca, keys] = [makeCa({ name: 'webhooks', ...times }), ecKey('P-256')];
  const leaf = makeLeaf({ issuer: ca, keys, uris: [], dnsNames: [`meshd.${namespace}.svc`], ...times });
  const key = keys.privateKey.export({ format: 'pem', type: 'pkcs8' });
  const server = createServer({ key, cert: pemOf(leaf) }, (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const { request } = JSON.parse(Buffer.concat(chunks).toString()) as Pick<Review, 'request'>;
      const message = answer({ path: incoming.url?.split('?')[0] ?? '', request });
      const status = message === undefined ? {} : { status: { code: 422, message } };
      const response = { uid: request.uid, allowed: message === undefined, ...status };
      outgoing.setHeader('content-type', 'application/json');
      outgoing.end(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, SERVICE_ADDRESS, resolve));
  owner.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { ca: pemOf(derOf(ca)), port: (server.address() as AddressInfo).port };
}

/** Makes the Service `meshd` lead to these ports of this network, each like a Pod of its own. */
export async function serveAt(api: KubernetesApi, namespace: string, ports: readonly number[]): Promise<void> {
  const slices = ports.map((port, index) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `meshd-${index}`, namespace, labels: { 'kubernetes.io/service-name': 'meshd' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [SERVICE_ADDRESS], conditions: { ready: true } }],
    ports: [{ name: 'https-webhook', port, protocol: 'TCP' }],
  }));
  await api.apply(slices);
}
