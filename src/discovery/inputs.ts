/**
 * The inputs of the program: sources of resources, the mesh configuration and the networks, gathered until all have been read
 * once, and followed from then on.
 */
import type { DiscoverySettings } from '../cli/index.ts';
import { CtlError } from '../core/errors.ts';
import { getScope } from '../observe/index.ts';
import {
  defaultMeshConfig,
  defaultMeshNetworks,
  type MeshConfig,
  type MeshNetworks,
  parseMeshConfig,
  parseMeshNetworks,
} from '../resources/mesh-config.ts';
import { CLUSTER_KINDS, type ResourceEvent } from '../resources/types.ts';
import { createDirectorySource, createFileValue, startMockSource, systemClock } from '../sources/index.ts';
import { restartWatch } from './model-settings.ts';

type Close = () => Promise<void> | void;

/** The mesh configuration and the networks: their first values, and later ones through the handlers. */
export interface MeshFiles {
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  close(): Promise<void>;
}

export interface MeshHandlers {
  onMesh(mesh: MeshConfig, at: number): void;
  onNetworks(networks: MeshNetworks, at: number): void;
}

export interface Sources {
  close(): Promise<void>;
}

function closeAll(closers: readonly Close[]): () => Promise<void> {
  return async () => {
    for (const close of closers) await close();
  };
}

export async function openMeshFiles(settings: DiscoverySettings, handlers: MeshHandlers): Promise<MeshFiles> {
  const closers: Close[] = [];
  const mesh = await followMesh(settings, handlers, closers);
  const networks = await followNetworks(settings, handlers, closers);
  return { mesh, networks, close: closeAll(closers) };
}

/** Throws CtlError where a registry that is to be read has nothing to be read from: it would serve an empty mesh. */
export function checkRegistries({ registries, configDir }: DiscoverySettings): void {
  if (!registries.includes('Orchestrator') || configDir !== '') return;
  const message =
    'the registry Orchestrator has nothing to read from: name a directory with --configDir (this version reads no cluster), or another registry';
  throw new CtlError('failed_precondition', message, { field: '--registries' });
}

/** Takes a batch of a source; `seenAt`: monotonic ms of the last sign of a change there, when the source knows it. */
type OnEvents = (events: readonly ResourceEvent[], seenAt?: number) => void;

/** Told that something is changing, at `at` in monotonic ms, before it is known what. */
type OnSign = (at: number) => void;

/**
 * Resolves when every source has been read once; a configuration directory that does not exist is waited for. Rejects with CtlError
 * when one is there and it, a folder or a file in it cannot be read.
 */
export async function openSources(settings: DiscoverySettings, onEvents: OnEvents, onSign: OnSign): Promise<Sources> {
  const closers: Close[] = [];
  await Promise.all([readDirectory(settings, { onEvents, onSign }, closers), readMock(settings, onEvents)]);
  return { close: closeAll(closers) };
}

async function followMesh(settings: DiscoverySettings, handlers: MeshHandlers, closers: Close[]): Promise<MeshConfig> {
  const log = getScope('model');
  let tellOfRestart: (next: MeshConfig) => void = () => {};
  const file = createFileValue({
    path: settings.meshConfig,
    what: 'mesh configuration',
    parse: parseMeshConfig,
    defaultValue: defaultMeshConfig(),
    onValue: (value, at) => {
      tellOfRestart(value);
      handlers.onMesh(value, at);
    },
    log,
    clock: systemClock,
    resyncMs: settings.resyncMs,
  });
  closers.push(() => file.close());
  const first = await file.start();
  tellOfRestart = restartWatch(settings, first, (message) => log.warn(message));
  return first;
}

function followNetworks(settings: DiscoverySettings, handlers: MeshHandlers, closers: Close[]): Promise<MeshNetworks> {
  const file = createFileValue({
    path: settings.networksConfig,
    what: 'mesh networks',
    parse: parseMeshNetworks,
    defaultValue: defaultMeshNetworks(),
    onValue: (value, at) => handlers.onNetworks(value, at),
    log: getScope('model'),
    clock: systemClock,
    resyncMs: settings.resyncMs,
  });
  closers.push(() => file.close());
  return file.start();
}

function readDirectory(
  settings: DiscoverySettings,
  { onEvents, onSign }: { readonly onEvents: OnEvents; readonly onSign: OnSign },
  closers: Close[],
): Promise<void> {
  const log = getScope('source');
  if (settings.configDir === '') {
    log.warn('no --configDir: only built-in registries are read');
    return Promise.resolve();
  }
  const registry = settings.registries.includes('Orchestrator');
  return new Promise((resolve, reject) => {
    const source = createDirectorySource({
      dir: settings.configDir,
      onEvents: (events, seenAt) => onEvents(registry ? events : withoutRegistry(events), seenAt),
      onSign,
      onSynced: resolve,
      onFailed: reject,
      log,
      clock: systemClock,
      resyncMs: settings.resyncMs,
    });
    closers.push(() => source.close());
    source.start();
  });
}

function readMock(settings: DiscoverySettings, onEvents: OnEvents): Promise<void> {
  if (!settings.registries.includes('Mock')) return Promise.resolve();
  return new Promise((resolve) => {
    startMockSource({ onEvents, onSynced: resolve, clock: systemClock });
  });
}

/** Kinds of the Orchestrator registry come from files only when that registry is read. */
function withoutRegistry(events: readonly ResourceEvent[]): ResourceEvent[] {
  return events.filter((event) => {
    const key = event.type === 'set' ? `${event.resource.kind}/` : event.type === 'delete' ? event.key : '';
    return !CLUSTER_KINDS.some((kind) => key.startsWith(`${kind}/`));
  });
}
