/**
 * Volumes of Pods of the simulated kubelet: Secrets, ConfigMaps, tokens of service accounts and fields of the Pod, as
 * files below a folder. There is no mount: `relocate` changes paths in arguments and variables to that folder.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ApiObject, KubernetesApi } from './api.ts';

interface Items {
  readonly items?: readonly { readonly key: string; readonly path: string }[];
  readonly optional?: boolean;
}

interface DownwardFile {
  readonly path: string;
  readonly fieldRef: { readonly fieldPath: string };
}

interface Projection {
  readonly secret?: Items & { readonly name: string };
  readonly configMap?: Items & { readonly name: string };
  readonly serviceAccountToken?: {
    readonly path: string;
    readonly audience?: string;
    readonly expirationSeconds?: number;
  };
  readonly downwardAPI?: { readonly items: readonly DownwardFile[] };
}

export interface Volume {
  readonly name: string;
  readonly secret?: Items & { readonly secretName: string };
  readonly configMap?: Items & { readonly name: string };
  readonly downwardAPI?: { readonly items: readonly DownwardFile[] };
  readonly projected?: { readonly sources: readonly Projection[] };
  readonly emptyDir?: object;
}

export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
}

export interface VolumeOptions {
  readonly api: KubernetesApi;
  readonly pod: ApiObject & { readonly spec: { readonly serviceAccountName?: string } };
  /** The value of a `fieldRef`. */
  field(path: string): string;
}

/** Text or bytes by path in the volume. */
type Files = ReadonlyMap<string, string | Buffer>;

/** Kubernetes' own default, seconds. */
const TOKEN_SECONDS = 3_600;

function chosen(data: Readonly<Record<string, string | Buffer>>, { items }: Items): Files {
  if (items === undefined) return new Map(Object.entries(data));
  return new Map(items.map(({ key, path }) => [path, data[key] ?? '']));
}

async function objectFiles(
  { api, pod }: VolumeOptions,
  kind: 'secrets' | 'configmaps',
  name: string,
  items: Items,
): Promise<Files> {
  const answer = await api.request({ path: `/api/v1/namespaces/${pod.metadata.namespace}/${kind}/${name}` });
  if (answer.status === 404 && items.optional === true) return new Map();
  if (answer.status !== 200) throw new Error(`${kind} ${name}: the API server answered ${answer.status}`);
  const { data = {} } = answer.json() as { data?: Record<string, string> };
  if (kind === 'configmaps') return chosen(data, items);
  const decoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64')] as const);
  return chosen(Object.fromEntries(decoded), items);
}

function downwardFiles({ field }: VolumeOptions, items: readonly DownwardFile[]): Files {
  return new Map(items.map(({ path, fieldRef }) => [path, field(fieldRef.fieldPath)]));
}

async function tokenFile(
  { api, pod }: VolumeOptions,
  { path, audience, expirationSeconds = TOKEN_SECONDS }: NonNullable<Projection['serviceAccountToken']>,
): Promise<Files> {
  const { name, namespace, uid } = pod.metadata;
  const account = pod.spec.serviceAccountName ?? 'default';
  const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name, uid };
  const spec = { audiences: audience === undefined ? undefined : [audience], expirationSeconds, boundObjectRef };
  const answer = await api.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec },
  });
  if (answer.status !== 201) throw new Error(`a token of ${account}: the API server answered ${answer.status}`);
  return new Map([[path, (answer.json() as { status: { token: string } }).status.token]]);
}

async function projectedFiles(options: VolumeOptions, projection: Projection): Promise<Files> {
  const { secret, configMap, serviceAccountToken, downwardAPI } = projection;
  if (secret !== undefined) return objectFiles(options, 'secrets', secret.name, secret);
  if (configMap !== undefined) return objectFiles(options, 'configmaps', configMap.name, configMap);
  if (serviceAccountToken !== undefined) return tokenFile(options, serviceAccountToken);
  if (downwardAPI !== undefined) return downwardFiles(options, downwardAPI.items);
  throw new Error(`the simulated kubelet knows no projection of ${Object.keys(projection).join(', ')}`);
}

async function filesOf(options: VolumeOptions, volume: Volume): Promise<Files> {
  const { secret, configMap, downwardAPI, projected, emptyDir } = volume;
  if (secret !== undefined) return objectFiles(options, 'secrets', secret.secretName, secret);
  if (configMap !== undefined) return objectFiles(options, 'configmaps', configMap.name, configMap);
  if (downwardAPI !== undefined) return downwardFiles(options, downwardAPI.items);
  if (emptyDir !== undefined) return new Map();
  if (projected === undefined) throw new Error(`the simulated kubelet knows no such volume as ${volume.name}`);
  const all = await Promise.all(projected.sources.map((source) => projectedFiles(options, source)));
  return new Map(all.flatMap((files) => [...files]));
}

/**
 * Writes the volumes that a container mounts below its folder. Rejects while an object that they need does not exist.
 */
export async function writeVolumes(
  folder: string,
  mounts: readonly VolumeMount[],
  volumes: readonly Volume[],
  options: VolumeOptions,
): Promise<void> {
  for (const { name, mountPath } of mounts) {
    const volume = volumes.find((candidate) => candidate.name === name);
    if (volume === undefined) throw new Error(`the Pod has no volume ${name}`);
    const files = await filesOf(options, volume);
    const root = join(folder, mountPath);
    await mkdir(root, { recursive: true });
    for (const [path, content] of files) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    }
  }
}

/** A text that begins with the path of a mount, with the path of its files in the folder. */
export function relocate(text: string, folder: string, mounts: readonly VolumeMount[]): string {
  const inside = mounts.some(({ mountPath }) => text === mountPath || text.startsWith(`${mountPath}/`));
  return inside ? join(folder, text) : text;
}
