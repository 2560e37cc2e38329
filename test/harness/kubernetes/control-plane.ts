/**
 * A Kubernetes control plane for tests: etcd, kube-apiserver and, when asked for, kube-controller-manager, as
 * processes of this machine. There is no node: objects are stored, watched, validated and authorized as in a cluster,
 * and nothing runs a Pod.
 *
 *     const cluster = await startKubernetes(t);                       // about 3 s and 350 MiB; ends with the test
 *     await cluster.api.apply(`apiVersion: v1\nkind: Namespace …`);   // as cluster admin; YAML text or objects
 *     const file = await cluster.kubeconfig(t);                       // the path of a kubeconfig of the admin
 *     const token = await cluster.serviceAccountToken({ namespace: 'default', name: 'web', audiences: ['mesh-ca'] });
 *     const other = createApi(t, cluster.as({ token }));              // another user
 *     await cluster.apiServer.kill();                                 // SIGKILL
 *     await cluster.apiServer.start();                                // same data, same address
 *
 * `kubernetesUnavailable()` is for the `skip` of a test. The stage `kubernetes` of `npm test` builds the programs first
 * (see `programs.ts`), and runs its files in a network namespace where 10.244.0.0/16 is local: EndpointSlices refuse
 * addresses of 127.0.0.0/8.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Child, startChild } from '../child.ts';
import { eventually } from '../eventually.ts';
import { freePorts, tempDir } from '../files.ts';
import { request } from '../http.ts';
import { createScope, type Owner } from '../owner.ts';
import {
  type ApiAccess,
  type ApiReference,
  type Credential,
  createApi,
  type KubernetesApi,
  kubeconfig,
} from './api.ts';
import { createAuthority, type KeyPair, serverCertificate, tokenKeys, userCertificate } from './certificates.ts';
import { applyDefinitions } from './deploy.ts';
import { copyData, firstData } from './first-data.ts';
import { type ProgramName, programPath } from './programs.ts';

const HOST = '127.0.0.1';

/** The address of the API server in Pods, for tests that make it reachable there: the first one of the services. */
export const API_SERVICE_ADDRESS = '10.64.0.1';

/** The issuer (`iss`) of tokens of service accounts. */
export const TOKEN_ISSUER = 'https://kubernetes.default.svc';

const AUDIENCES = [TOKEN_ISSUER, 'mesh-ca', 'istio-ca'];

/**
 * The controllers that run: service accounts and their root certificate, endpoints, deletion of namespaces, and
 * Deployments and Jobs. The garbage collector runs only when it is asked for: it deletes objects whose owners do not
 * exist, as in tests.
 */
const CONTROLLERS = [
  'serviceaccount-controller',
  'serviceaccount-token-controller',
  'root-ca-certificate-publisher-controller',
  'endpointslice-controller',
  'endpoints-controller',
  'namespace-controller',
  'deployment-controller',
  'replicaset-controller',
  'job-controller',
];

export interface KubernetesOptions {
  /** Starts kube-controller-manager as well (3 s, 100 MiB). Default false: deleted namespaces then stay Terminating. */
  readonly controllerManager?: boolean;
  /** The definitions of the mesh's kinds, without those of the `istio.io` groups. Default false. */
  readonly definitions?: boolean;
  /**
   * Starts without the data of a first start: clusters that are to be told apart need other identities, such as the uid
   * of the Service `default/kubernetes`. Default false.
   */
  readonly ownIdentity?: boolean;
  /** Runs the garbage collector in it. Default false: what the owner of deleted objects owned stays. */
  readonly garbageCollector?: boolean;
  /**
   * Gives every Pod a service account and its token, as in a cluster. It needs the controller manager, and refuses Pods
   * in namespaces whose account `default` does not exist yet. Default false.
   */
  readonly serviceAccounts?: boolean;
  /** Additional flags of kube-apiserver, such as `--min-request-timeout=3`, which ends watches early. */
  readonly apiServerFlags?: readonly string[];
}

/** A program that a test can stop and restart. */
export interface ControlledProgram {
  /** Restarts it with its data at its address, and waits until it is ready. */
  start(): Promise<void>;
  /** Sends SIGTERM; settles when it has ended. */
  stop(): Promise<void>;
  /** Sends SIGKILL; settles when it has ended. */
  kill(): Promise<void>;
  /** Sends SIGSTOP: connections are accepted, but requests get no answer. */
  pause(): void;
  /** Sends SIGCONT. */
  resume(): void;
  readonly pid: number;
  output(): string;
}

export interface TokenOptions {
  readonly namespace: string;
  /** Namespace of the ServiceAccount, which must exist. */
  readonly name: string;
  /** Default: the API server's own. */
  readonly audiences?: readonly string[];
  /** Binds the token to an object, such as a Pod of that name and uid. */
  readonly boundTo?: ApiReference & { readonly metadata: { readonly uid?: string } };
  /** Default 3600; the server refuses less than 600. */
  readonly expirationSeconds?: number;
}

export interface Kubernetes {
  readonly url: string;
  /** PEM of the authority that issued the server's certificate. */
  readonly ca: string;
  /** Requests as cluster admin. */
  readonly api: KubernetesApi;
  readonly admin: { readonly token: string };
  /** Access for `createApi` and `kubeconfig` with these credentials. */
  as(credential: Credential): ApiAccess;
  /** A client certificate of a user. */
  userCertificate(name: string, groups?: readonly string[]): KeyPair;
  /** Writes a kubeconfig, by default of the admin, to a file that is removed with its owner. Returns its path. */
  kubeconfig(owner: Owner, credential?: Credential): Promise<string>;
  /** Gets a token by the TokenRequest API. */
  serviceAccountToken(options: TokenOptions): Promise<string>;
  /** Creates a namespace with a new name: `<prefix>-<random>`. */
  newNamespace(prefix?: string): Promise<string>;
  readonly etcd: ControlledProgram;
  /** The data of etcd. */
  readonly dataFolder: string;
  readonly apiServer: ControlledProgram;
  /** Undefined without `controllerManager`. */
  readonly controllerManager: ControlledProgram | undefined;
  /** Compacts etcd to its newest revision: watches from older ones end with 410. */
  compact(): Promise<void>;
}

interface ProgramOptions {
  readonly name: ProgramName;
  readonly flags: readonly string[];
  readonly isReady: () => Promise<void>;
}

/** A program that takes longer to become ready has failed. */
const READY_TIMEOUT_MS = 60_000;

/** Garbage is collected when the heap has grown sixfold: a quarter of the CPU time of kube-apiserver is saved. */
const GO_OPTIONS = { GOGC: '500' };

async function startProgram(owner: Owner, { name, flags, isReady }: ProgramOptions): Promise<ControlledProgram> {
  let child: Child;
  const start = async () => {
    const started = await startChild(owner, { name, command: programPath(name), args: flags, env: GO_OPTIONS });
    // Runs before the child's own hook. The data is removed with the test, so the program need not stop in order.
    owner.after(async () => void (await started.kill()));
    child = started;
    const attempt = async () => {
      child.assertRunning();
      await isReady();
    };
    await eventually(attempt, { timeoutMs: READY_TIMEOUT_MS, what: `${name} is ready` });
  };
  await start();
  return {
    start,
    stop: async () => void (await child.stop()),
    kill: async () => void (await child.kill()),
    pause: () => child.signal('SIGSTOP'),
    resume: () => child.signal('SIGCONT'),
    get pid() {
      return child.pid;
    },
    output: () => child.output(),
  };
}

const flag = ([name, value]: readonly [string, string]) => `--${name}=${value}`;

function startEtcd(owner: Owner, dataFolder: string, [client = 0, peer = 0]: readonly number[]) {
  const [clientUrl, peerUrl] = [`http://${HOST}:${client}`, `http://${HOST}:${peer}`];
  const flags = Object.entries({
    name: 'test',
    'data-dir': dataFolder,
    'listen-client-urls': clientUrl,
    'advertise-client-urls': clientUrl,
    'listen-peer-urls': peerUrl,
    'initial-advertise-peer-urls': peerUrl,
    'initial-cluster': `test=${peerUrl}`,
    'unsafe-no-fsync': 'true',
    'log-level': 'warn',
  }).map(flag);
  const isReady = async () => {
    const { status, body } = await request({ port: client, path: '/health' });
    if (status !== 200) throw new Error(`etcd is not healthy: ${body}`);
  };
  return startProgram(owner, { name: 'etcd', flags, isReady });
}

/** Files for the programs, by name, below the folder. */
async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, { mode: 0o600 });
}

function apiServerFlags(folder: string, etcdPort: number, port: number, serviceAccounts: boolean): string[] {
  const file = (name: string) => join(folder, name);
  return Object.entries({
    'etcd-servers': `http://${HOST}:${etcdPort}`,
    'bind-address': HOST,
    'advertise-address': HOST,
    'secure-port': String(port),
    // The Service `kubernetes` is not used, and its endpoint could not be a loopback address.
    'endpoint-reconciler-type': 'none',
    'cert-dir': file('generated'),
    'tls-cert-file': file('server.crt'),
    'tls-private-key-file': file('server.key'),
    'client-ca-file': file('ca.crt'),
    'token-auth-file': file('tokens.csv'),
    'authorization-mode': 'RBAC',
    ...(serviceAccounts ? {} : { 'disable-admission-plugins': 'ServiceAccount' }),
    'service-account-issuer': TOKEN_ISSUER,
    'service-account-signing-key-file': file('token.key'),
    'service-account-key-file': file('token.pub'),
    'api-audiences': AUDIENCES.join(','),
    'service-cluster-ip-range': '10.64.0.0/10',
    // A sixth of the CPU time of its start. Tests overload no API server.
    'enable-priority-and-fairness': 'false',
  }).map(flag);
}

function startControllerManager(
  owner: Owner,
  folder: string,
  port: number,
  controllers: readonly string[],
  isReady: () => Promise<void>,
) {
  const file = (name: string) => join(folder, name);
  const flags = Object.entries({
    kubeconfig: file('admin.kubeconfig'),
    controllers: controllers.join(','),
    'leader-elect': 'false',
    'bind-address': HOST,
    'secure-port': String(port),
    'cert-dir': file('generated'),
    'root-ca-file': file('ca.crt'),
    'service-account-private-key-file': file('token.key'),
    'use-service-account-credentials': 'false',
    'kube-api-qps': '200',
    'kube-api-burst': '400',
  }).map(flag);
  return startProgram(owner, { name: 'kube-controller-manager', flags, isReady });
}

/** etcd's JSON gateway: https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/. */
async function etcdCall(port: number, path: string, body: object): Promise<{ header: { revision: string } }> {
  const answer = await request({ port, path, method: 'POST', body: JSON.stringify(body) });
  if (answer.status !== 200) throw new Error(`etcd answered ${answer.status} to ${path}: ${answer.body}`);
  return answer.json() as { header: { revision: string } };
}

/** Access with credentials, and administration for tests. */
function clientSide(api: KubernetesApi, url: string, authority: KeyPair, admin: { token: string }) {
  const as = (credential: Credential): ApiAccess => ({ url, ca: authority.certificate, credential });
  return {
    url,
    ca: authority.certificate,
    api,
    admin,
    as,
    userCertificate: (name: string, groups: readonly string[] = []) => userCertificate(authority, name, groups),
    async kubeconfig(owner: Owner, credential: Credential = admin) {
      const path = join(await tempDir(owner), 'kubeconfig');
      await writeFile(path, kubeconfig(as(credential)), { mode: 0o600 });
      return path;
    },
    async serviceAccountToken(options: TokenOptions) {
      const { namespace, name, audiences, boundTo, expirationSeconds } = options;
      const bound = boundTo && {
        apiVersion: boundTo.apiVersion,
        kind: boundTo.kind,
        name: boundTo.metadata.name,
        uid: boundTo.metadata.uid,
      };
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
      const spec = { audiences, expirationSeconds, boundObjectRef: bound };
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
      const answer = await api.request({ method: 'POST', path, body });
      if (answer.status !== 201) throw new Error(`${path} answered ${answer.status}: ${answer.body}`);
      return (answer.json() as { status: { token: string } }).status.token;
    },
    async newNamespace(prefix = 'test') {
      const name = `${prefix}-${randomBytes(4).toString('hex')}`;
      await api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }]);
      return name;
    },
  };
}

/** An owner that ends with another one. It runs its hooks in reverse order. */
function inReverseOrder(parent: Owner): Owner {
  const scope = createScope();
  parent.after(() => scope.close());
  return {
    after: scope.after,
    get error() {
      return parent.error;
    },
  };
}

/** Starts a new control plane. It ends with its owner. */
export async function startKubernetes(parent: Owner, options: KubernetesOptions = {}): Promise<Kubernetes> {
  const owner = inReverseOrder(parent);
  const folder = await tempDir(owner);
  const [etcdPort = 0, peerPort = 0, port = 0, controllerPort = 0] = await freePorts(4, HOST);
  const url = `https://${HOST}:${port}`;
  const [authority, tokens] = [createAuthority(), await tokenKeys()];
  const server = serverCertificate(authority, [HOST, API_SERVICE_ADDRESS]);
  const admin = { token: randomBytes(16).toString('hex') };
  await mkdir(join(folder, 'generated'));
  await writeFiles(folder, {
    'ca.crt': authority.certificate,
    'server.crt': server.certificate,
    'server.key': server.key,
    'token.key': tokens.privateKey,
    'token.pub': tokens.publicKey,
    'tokens.csv': `${admin.token},admin,admin,system:masters\n`,
    'admin.kubeconfig': kubeconfig({ url, ca: authority.certificate, credential: admin }),
  });
  const dataFolder = join(folder, 'etcd');
  const first = options.ownIdentity ? undefined : firstData(options.definitions ? 'definitions' : 'empty');
  if (first !== undefined) await copyData(first, dataFolder);
  const etcd = await startEtcd(owner, dataFolder, [etcdPort, peerPort]);
  const api = createApi(owner, { url, ca: authority.certificate, credential: admin });
  const flags = [
    ...apiServerFlags(folder, etcdPort, port, options.serviceAccounts ?? false),
    ...(options.apiServerFlags ?? []),
  ];
  const isReady = async () => {
    const { status, body } = await api.request({ path: '/readyz' });
    if (status !== 200) throw new Error(`/readyz answered ${status}: ${body}`);
  };
  const apiServer = await startProgram(owner, { name: 'kube-apiserver', flags, isReady });
  if (options.definitions && first === undefined) await applyDefinitions(api);
  const controllers = options.garbageCollector ? [...CONTROLLERS, 'garbage-collector-controller'] : CONTROLLERS;
  const controllerManager = options.controllerManager
    ? // Its own port answers before its controllers run: one of their works is the sign that they do.
      await startControllerManager(owner, folder, controllerPort, controllers, async () => {
        await api.get('/api/v1/namespaces/default/serviceaccounts/default');
      })
    : undefined;
  return {
    ...clientSide(api, url, authority, admin),
    etcd,
    dataFolder,
    apiServer,
    controllerManager,
    async compact() {
      const { header } = await etcdCall(etcdPort, '/v3/kv/range', { key: 'AA==', count_only: true });
      await etcdCall(etcdPort, '/v3/kv/compaction', { revision: header.revision, physical: true });
    },
  };
}
