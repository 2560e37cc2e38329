/** Configuration in tests: documents as plain objects, stored as YAML files of a directory. */
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { stringify } from 'yaml';

export type Document = Readonly<Record<string, unknown>>;

/** Test meshes live in this namespace unless they say otherwise. */
export const NAMESPACE = 'default';

const SECURITY_KINDS: ReadonlySet<string> = new Set([
  'AuthorizationPolicy',
  'PeerAuthentication',
  'RequestAuthentication',
]);

/** A mesh resource: `networking.mesh.io` or `security.mesh.io`. */
export function resource(kind: string, name: string, spec: Document, namespace = NAMESPACE): Document {
  const apiVersion = SECURITY_KINDS.has(kind) ? 'security.mesh.io/v1beta1' : 'networking.mesh.io/v1alpha3';
  return { apiVersion, kind, metadata: { name, namespace }, spec };
}

export interface ServicePort {
  readonly name: string;
  readonly port: number;
  /** Default: `port`. */
  readonly targetPort?: number;
  readonly appProtocol?: string;
}

export interface ServiceFields {
  readonly namespace?: string;
  readonly clusterIP?: string;
  readonly ports: readonly ServicePort[];
  readonly selector?: Readonly<Record<string, string>>;
  /** Further fields of `spec`. */
  readonly more?: Document;
}

export function service(name: string, fields: ServiceFields): Document {
  const { namespace = NAMESPACE, clusterIP, ports, selector, more = {} } = fields;
  const spec = {
    ports,
    ...(clusterIP === undefined ? {} : { clusterIP }),
    ...(selector === undefined ? {} : { selector }),
    ...more,
  };
  return { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec };
}

export interface EndpointPort {
  readonly name: string;
  readonly port: number;
}

/** Names of existing pods with their addresses, or addresses without pods. */
export function endpoints(
  name: string,
  pods: Readonly<Record<string, string>> | readonly string[],
  ports: readonly EndpointPort[],
  namespace = NAMESPACE,
): Document {
  const addresses = Array.isArray(pods)
    ? pods.map((ip: string) => ({ ip }))
    : Object.entries(pods).map(([pod, ip]) => ({ ip, targetRef: { kind: 'Pod', name: pod, namespace } }));
  const subsets = addresses.length === 0 ? [] : [{ addresses, ports }];
  return { apiVersion: 'v1', kind: 'Endpoints', metadata: { name, namespace }, subsets };
}

export interface PodFields {
  readonly namespace?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ip: string;
  readonly nodeName?: string;
  readonly serviceAccount?: string;
}

export function pod(name: string, fields: PodFields): Document {
  const { namespace = NAMESPACE, labels, ip, nodeName, serviceAccount } = fields;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels },
    spec: {
      ...(nodeName === undefined ? {} : { nodeName }),
      ...(serviceAccount === undefined ? {} : { serviceAccountName: serviceAccount }),
    },
    status: { phase: 'Running', podIP: ip, conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

/** A configuration directory that a test edits. Files are named without their extension. */
export interface ConfigDir {
  readonly path: string;
  /** Writes `<name>.yaml` with these documents in one step, so that it is never empty or incomplete. */
  apply(name: string, ...documents: readonly Document[]): Promise<void>;
  /** Writes a file in place, as an editor may: it is empty for a moment. */
  write(file: string, text: string): Promise<void>;
  remove(name: string): Promise<void>;
}

export function configDir(path: string): ConfigDir {
  const write = async (file: string, text: string) => {
    await mkdir(dirname(join(path, file)), { recursive: true });
    await writeFile(join(path, file), text);
  };
  return {
    path,
    write,
    async apply(name, ...documents) {
      // With an extension that the directory source ignores.
      const draft = `${name}.draft`;
      await write(draft, documents.map((each) => stringify(each)).join('---\n'));
      await rename(join(path, draft), join(path, `${name}.yaml`));
    },
    remove: (name) => rm(join(path, `${name}.yaml`)),
  };
}
