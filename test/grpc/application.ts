/** gRPC applications that speak xDS themselves, in processes of their own: clients in Go and Node.js, servers in Go. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Server, ServerCredentials, type ServiceDefinition, status } from '@grpc/grpc-js';
import { type Child, eventually, freePort, type Owner, request, startChild, tempDir } from '../harness/index.ts';
import { buildGrpcApplication } from './build.ts';

export type Language = 'go' | 'node';

export interface CallRequest {
  /** `xds:///…` */
  readonly target: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly calls: number;
  readonly timeoutMs: number;
  /** Calls at a time; Go only. */
  readonly parallel: number;
  /** Of a call that fails with UNAVAILABLE, made by the application itself; Go only. */
  readonly attempts: number;
  /** Calls on a channel of their own; Go only. */
  readonly fresh: boolean;
}

/** How often each server answered, and how often each error occurred, with the last message. */
export interface CallResult {
  readonly answers: Readonly<Record<string, number>>;
  readonly errors: Readonly<Record<string, number>>;
  readonly message: string;
}

/** An application that runs somewhere, by the address of its HTTP server. */
export interface GrpcControl {
  /** Calls one after the other on one channel for each target. */
  call(target: string, options?: Partial<Omit<CallRequest, 'target'>>): Promise<CallResult>;
  /** Starts a server; Go only. */
  serve(address: string, name: string): Promise<void>;
  /** By address: `serving`, or why it does not serve. */
  modes(): Promise<Readonly<Record<string, string>>>;
}

export interface GrpcApplication extends GrpcControl {
  readonly child: Child;
}

/**
 * Longer than gRPC waits for resources that do not come, which is 15 seconds, and than tens of thousands of calls take
 * on a crowded machine.
 */
const ANSWER_TIMEOUT_MS = 300_000;

export const SAY = '/echo.Echo/Say';

/** What a call is unless a test says otherwise. */
const CALL: Omit<CallRequest, 'target'> = {
  method: SAY,
  headers: {},
  calls: 1,
  timeoutMs: 20_000,
  parallel: 1,
  attempts: 1,
  fresh: false,
};

export interface ApplicationOptions {
  readonly language: Language;
  /** Path of the bootstrap. */
  readonly bootstrap: string;
  /** Wraps the command, for another network namespace. */
  readonly wrap?: (command: string, args: readonly string[]) => readonly [command: string, args: readonly string[]];
  /** Address of the HTTP server; default: a free port of loopback. */
  readonly control?: string;
}

/** Starts an application; it ends with its owner. */
export async function startGrpcApplication(owner: Owner, options: ApplicationOptions): Promise<GrpcApplication> {
  const { language, bootstrap, control = `127.0.0.1:${await freePort()}` } = options;
  const command = language === 'go' ? await buildGrpcApplication() : process.execPath;
  const args = language === 'go' ? [control] : [join(import.meta.dirname, 'node-main.ts'), control];
  const [wrapped, wrappedArgs] = options.wrap?.(command, args) ?? [command, args];
  const child = await startChild(owner, {
    name: `grpc-application ${language}`,
    command: wrapped,
    args: wrappedArgs,
    env: { GRPC_XDS_BOOTSTRAP: bootstrap },
  });
  const [address = '', port = ''] = control.split(':');
  const application = { child, ...grpcControl(address, Number(port)) };
  await eventually(async () => {
    child.assertRunning();
    await application.call('xds:///nothing', { calls: 0 });
  });
  return application;
}

export function grpcControl(address: string, port: number): GrpcControl {
  const post = async (path: string, body: unknown): Promise<unknown> => {
    const sent = { address, port, path, method: 'POST', body: JSON.stringify(body) };
    const answer = await request({ ...sent, timeoutMs: ANSWER_TIMEOUT_MS });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.body}`);
    return answer.json();
  };
  return {
    call: (target, options = {}) => post('/call', { ...CALL, target, ...options }) as Promise<CallResult>,
    serve: async (at, name) => void (await post('/serve', { address: at, name })),
    modes: async () => (await post('/modes', {})) as Record<string, string>,
  };
}

export interface BootstrapFields {
  readonly serverUri: string;
  readonly id: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Paths of PEM files; absent: no certificates. */
  readonly certificates?: { readonly certificate: string; readonly key: string; readonly roots: string };
}

/** Writes a bootstrap as Istio's agent does. */
export async function writeGrpcBootstrap(owner: Owner, fields: BootstrapFields): Promise<string> {
  const { serverUri, id, metadata, certificates } = fields;
  const path = join(await tempDir(owner), 'bootstrap.json');
  const provider = certificates && {
    plugin_name: 'file_watcher',
    config: {
      certificate_file: certificates.certificate,
      private_key_file: certificates.key,
      ca_certificate_file: certificates.roots,
      refresh_interval: '600s',
    },
  };
  const server = { server_uri: serverUri, channel_creds: [{ type: 'insecure' }], server_features: ['xds_v3'] };
  const node = { id, metadata: { GENERATOR: 'grpc', ...metadata }, locality: {} };
  const bootstrap = {
    xds_servers: [server],
    node,
    ...(provider && { certificate_providers: { default: provider } }),
    server_listener_resource_name_template: 'xds.istio.io/grpc/lds/inbound/%s',
  };
  await writeFile(path, JSON.stringify(bootstrap));
  return path;
}

const METHODS = ['Say', 'Shout', 'Sleep', 'Flaky'] as const;

const ECHO = Object.fromEntries(
  METHODS.map((name) => [
    name,
    {
      path: `/echo.Echo/${name}`,
      requestStream: false,
      responseStream: false,
      requestSerialize: (bytes: Buffer) => bytes,
      requestDeserialize: (bytes: Buffer) => bytes,
      responseSerialize: (bytes: Buffer) => bytes,
      responseDeserialize: (bytes: Buffer) => bytes,
    },
  ]),
) satisfies ServiceDefinition;

/**
 * A gRPC server without xDS in this process. It answers with its name, a `google.protobuf.StringValue`. `Sleep` never
 * answers, `Flaky` fails the first attempt of each call.
 */
export async function startPlainServer(owner: Owner, address: string, name: string): Promise<void> {
  const server = new Server({ 'grpc.enable_channelz': 0 });
  const text = Buffer.from(name);
  const answer = Buffer.concat([Buffer.from([0x0a, text.length]), text]);
  server.addService(ECHO, {
    Say: (_: unknown, done: (error: null, bytes: Buffer) => void) => done(null, answer),
    Shout: (_: unknown, done: (error: null, bytes: Buffer) => void) => done(null, answer),
    Sleep: () => {},
    Flaky: (
      call: { metadata: { get(name: string): unknown[] } },
      done: (error: { code: number } | null, bytes?: Buffer) => void,
    ) => {
      const retried = call.metadata.get('grpc-previous-rpc-attempts').length > 0;
      if (retried) done(null, answer);
      else done({ code: status.UNAVAILABLE });
    },
  });
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
  });
  owner.after(() => server.forceShutdown());
}
