/** A configuration that is read from a file, else from a key of a ConfigMap, and followed. */
import { systemClock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { Connection } from '../../kubernetes/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { createFileValue, type FollowedConfigMap, followConfigMap, type ParsedText } from '../../sources/index.ts';
import { revisionSuffix } from '../process/revision.ts';

export interface NamedConfigMap {
  readonly followed: FollowedConfigMap;
  /** For messages. */
  readonly title: string;
}

/**
 * The ConfigMap of this revision in the program's namespace; undefined where mesh resources come from files, because
 * then its configuration comes from files, too.
 * @param connection to the cluster; undefined when no cluster is read
 * @param baseName its name without the revision
 * @throws CtlError when REVISION is not a name
 */
export function openConfigMap(
  { namespace, revision, configDir }: DiscoverySettings,
  connection: Connection | undefined,
  baseName: string,
  log: Log,
): NamedConfigMap | undefined {
  if (connection === undefined || configDir !== '') return undefined;
  const name = `${baseName}${revisionSuffix(revision)}`;
  const followed = followConfigMap({ connection, namespace, name, clock: systemClock, log });
  return { followed, title: `ConfigMap ${namespace}/${name}` };
}

export interface FollowOptions<T> {
  readonly path: string;
  /** The key of the ConfigMap. */
  readonly key: string;
  readonly what: string;
  /** Reads the text of the file or of the key; `origin` names it for messages. */
  readonly read: (text: string, origin: string) => ParsedText<T>;
  readonly defaultValue: T;
  readonly onValue: (value: T, eventTime: number) => void;
  /**
   * Called if the file exists at startup but cannot be read: the file is read again after the promise has resolved, and
   * `first` rejects if it rejects. If absent, `first` rejects at once.
   */
  readonly beforeRetry?: (error: unknown) => Promise<void>;
  readonly map: NamedConfigMap | undefined;
  readonly resyncMs: number;
  readonly log: Log;
}

export interface Followed<T> {
  /** Rejects with CtlError when the file exists and cannot be read. */
  readonly first: Promise<T>;
  close(): Promise<void>;
}

/** If the file exists, at startup or later, it takes effect; otherwise the ConfigMap. */
export function followValue<T>({
  path,
  key,
  what,
  read: readText,
  defaultValue,
  onValue,
  beforeRetry = (error) => Promise.reject(error),
  map,
  resyncMs,
  log,
}: FollowOptions<T>): Followed<T> {
  const both = (): void => log.info(`${what}: the file ${path} is in force, not key ${key} of ${map?.title}`);
  /** JSON of the value in force, once there is one. */
  let inForce: { readonly json: string | undefined } | undefined;
  const emit = (value: T, eventTime: number): void => {
    const json = JSON.stringify(value);
    if (inForce === undefined || json === inForce.json) return;
    inForce = { json };
    onValue(value, eventTime);
  };
  const file = createFileValue<T>({
    path,
    what,
    read: readText,
    defaultValue,
    ...(map === undefined ? {} : { otherwise: `that of ${map.title} or else the default` }),
    onValue: (value, at) => {
      if (inConfigMap?.value() !== undefined && !fileCounted) both();
      fileCounted = true;
      emit(value, at);
    },
    log,
    clock: systemClock,
    resyncMs,
  });
  let fileCounted = false;
  const inConfigMap = map?.followed.follow<T>({
    key,
    what,
    read: readText,
    defaultValue,
    onValue: (value, at) => {
      if (!file.isFromFile()) emit(value, at);
    },
  });
  const startFile = async (): Promise<void> => {
    for (;;) {
      try {
        await file.start();
        return;
      } catch (error) {
        await beforeRetry(error);
      }
    }
  };
  const read = async (): Promise<T> => {
    await startFile();
    fileCounted = file.isFromFile();
    if (fileCounted) void inConfigMap?.first.then(() => inConfigMap.value() !== undefined && both());
    else await inConfigMap?.first;
    // Either can have changed meanwhile.
    const value = file.isFromFile() ? file.value() : (inConfigMap?.value() ?? defaultValue);
    inForce = { json: JSON.stringify(value) };
    return value;
  };
  return { first: read(), close: () => file.close() };
}
