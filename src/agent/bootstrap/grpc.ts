/**
 * The bootstrap of gRPC applications beside the agent that speak xDS themselves ("proxyless"): they reach the control
 * plane through the xDS proxy of the agent, and read the workload's certificate from files.
 * Sources: https://github.com/grpc/proposal, A27 (servers, node), A29 (certificates), A36 (listeners of servers)
 */
import { chmod, rename, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { CtlError, messageOf } from '../../core/errors.ts';
import { hostPort } from '../../core/network/listen.ts';
import { isObject } from '../../core/objects.ts';
import {
  GENERATOR_METADATA,
  GRPC_CERTIFICATE_PROVIDER,
  GRPC_GENERATOR,
  GRPC_SERVER_LISTENERS,
} from '../../core/proxy.ts';
import type { JsonObject } from '../../protobuf/index.ts';
import { makeFolder } from '../folder.ts';
import type { LocalAddress } from '../settings/xds-local.ts';

export interface GrpcBootstrap {
  readonly path: string;
  readonly content: JsonObject;
}

export interface GrpcBootstrapInput {
  /** GRPC_XDS_BOOTSTRAP; '' for none. */
  readonly path: string;
  /** The xDS proxy as programs of the machine reach it; undefined without one. */
  readonly local: LocalAddress | undefined;
  /** The node of Envoy. */
  readonly node: JsonObject;
  /** OUTPUT_CERTS; '' for an application without certificates. */
  readonly certificates: string;
}

/** How often applications check for a renewed certificate. */
const REFRESH_INTERVAL = '60s';

/** Undefined when none is wanted. Throws CtlError `invalid_argument` without an xDS proxy. */
export function grpcBootstrap({ path, local, node, certificates }: GrpcBootstrapInput): GrpcBootstrap | undefined {
  if (path === '') return undefined;
  if (local === undefined)
    throw new CtlError('invalid_argument', 'the bootstrap of gRPC applications needs the xDS proxy (XDS_LOCAL)', {
      field: 'GRPC_XDS_BOOTSTRAP',
    });
  const metadata = isObject(node.metadata) ? node.metadata : {};
  const server = { server_uri: uriOf(local), channel_creds: [{ type: 'insecure' }], server_features: ['xds_v3'] };
  const [listeners] = GRPC_SERVER_LISTENERS;
  return {
    path,
    content: {
      xds_servers: [server],
      // gRPC for Node.js requires a locality.
      node: { locality: {}, ...node, metadata: { ...metadata, [GENERATOR_METADATA]: GRPC_GENERATOR } },
      ...(certificates !== '' && {
        certificate_providers: { [GRPC_CERTIFICATE_PROVIDER]: fileWatcher(resolve(certificates)) },
      }),
      server_listener_resource_name_template: `${listeners}%s`,
    },
  };
}

/** A target of gRPC (https://grpc.github.io/grpc/core/md_doc_naming.html). */
function uriOf(local: LocalAddress): string {
  return 'path' in local ? `unix://${resolve(local.path)}` : hostPort(local);
}

/** The files of OUTPUT_CERTS, which the agent replaces all at once. */
function fileWatcher(folder: string): JsonObject {
  return {
    plugin_name: 'file_watcher',
    config: {
      certificate_file: join(folder, 'cert-chain.pem'),
      private_key_file: join(folder, 'key.pem'),
      ca_certificate_file: join(folder, 'root-cert.pem'),
      refresh_interval: REFRESH_INTERVAL,
    },
  };
}

/** Writes the file in one step. It has no secrets, and the application may run as another user. Throws CtlError. */
export async function writeGrpcBootstrap(bootstrap: GrpcBootstrap | undefined): Promise<void> {
  if (bootstrap === undefined) return;
  const { path, content } = bootstrap;
  const draft = `${path}.${process.pid}`;
  try {
    await makeFolder(dirname(path));
    await writeFile(draft, JSON.stringify(content, null, 2));
    // Applications run as other users, whatever the umask of the agent.
    await chmod(draft, 0o644);
    await rename(draft, path);
  } catch (error) {
    const message = `cannot write the bootstrap of gRPC applications: ${messageOf(error)}`;
    throw new CtlError('failed_precondition', message, { file: path, field: 'GRPC_XDS_BOOTSTRAP' }, error);
  }
}
