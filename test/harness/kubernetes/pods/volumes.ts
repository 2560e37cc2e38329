/** Volumes of Pods of the simulated kubelet, as folders that its containers mount. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { KubernetesApi } from '../api.ts';
import { fieldOf, type ReadKey, resourceOf } from './fields.ts';
import type { DownwardFile, Items, Pod, Projection, Volume } from './types.ts';

export interface VolumeOptions {
  readonly api: KubernetesApi;
  readonly pod: Pod;
  readonly podIP: string;
}

/** Text or bytes by path in the volume. */
type Files = ReadonlyMap<string, string | Buffer>;

/** Kubernetes' own default, seconds. */
const TOKEN_SECONDS = 3_600;

function chosen(data: Readonly<Record<string, string | Buffer>>, { items }: Items): Files {
  if (items === undefined) return new Map(Object.entries(data));
  return new Map(items.map(({ key, path }) => [path, data[key] ?? '']));
}

/** The data of a Secret or ConfigMap; undefined when it does not exist and is optional. */
async function dataOf(
  { api, pod }: Pick<VolumeOptions, 'api' | 'pod'>,
  kind: 'secrets' | 'configmaps',
  name: string,
  optional: boolean,
): Promise<Readonly<Record<string, string | Buffer>> | undefined> {
  const answer = await api.request({ path: `/api/v1/namespaces/${pod.metadata.namespace}/${kind}/${name}` });
  if (answer.status === 404 && optional) return undefined;
  if (answer.status !== 200) throw new Error(`${kind} ${name}: the API server answered ${answer.status}`);
  const { data = {} } = answer.json() as { data?: Record<string, string> };
  if (kind === 'configmaps') return data;
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64')]));
}

/** Reads variables of a Pod's containers. */
export const keyReader =
  (options: Pick<VolumeOptions, 'api' | 'pod'>): ReadKey =>
  async (kind, name, key, optional) => {
    const value = (await dataOf(options, kind, name, optional))?.[key];
    if (value === undefined && !optional) throw new Error(`${kind} ${name} has no key ${key}`);
    return value?.toString();
  };

async function objectFiles(
  options: VolumeOptions,
  kind: 'secrets' | 'configmaps',
  name: string,
  items: Items,
): Promise<Files> {
  const data = await dataOf(options, kind, name, items.optional === true);
  return data === undefined ? new Map() : chosen(data, items);
}

function downwardFiles({ pod, podIP }: VolumeOptions, items: readonly DownwardFile[]): Files {
  return new Map(
    items.map(({ path, fieldRef, resourceFieldRef }) => {
      if (fieldRef !== undefined) return [path, fieldOf(pod, podIP, fieldRef.fieldPath)];
      if (resourceFieldRef !== undefined) return [path, resourceOf(pod, undefined, resourceFieldRef)];
      throw new Error(`the simulated kubelet knows no such source of ${path}`);
    }),
  );
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
 * Writes each volume of the Pod to a folder of its name. Rejects while an object that they need does not exist. Every
 * user may read the files, and write to volumes of the kind `emptyDir`.
 */
export async function writeVolumes(folder: string, options: VolumeOptions): Promise<void> {
  for (const volume of options.pod.spec.volumes ?? []) {
    const files = await filesOf(options, volume);
    const root = join(folder, volume.name);
    await mkdir(root, { recursive: true });
    if (volume.emptyDir !== undefined) await chmod(root, 0o777);
    for (const [path, content] of files) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    }
  }
}
