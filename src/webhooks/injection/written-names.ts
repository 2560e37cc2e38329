/**
 * Charts and manifests of Istio name the container of the proxy `istio-proxy`, with `image: auto`. Injection treats it
 * like `mesh-proxy`. It keeps its name, because annotations, autoscalers and people refer to it: templates and later
 * steps only know `mesh-proxy`, so the name is replaced before them and restored afterwards.
 */
import type { PodObject } from '../types.ts';
import { type PodRecord, recordOf, recordsOf, textOf, textsOf } from './pod-shape.ts';
import { STATUS_ANNOTATION } from './status.ts';
import { PROXY_CONTAINER } from './templates/parts.ts';

const WRITTEN_NAME = 'istio-proxy';
const LISTS = ['initContainers', 'containers'] as const;

export interface MeshNamed {
  readonly pod: PodObject;
  /** Restores the name of the container in the injected Pod. */
  restore(pod: PodObject): PodObject;
}

export function withMeshNames(pod: PodObject): MeshNamed {
  const isWritten = isInjectedAs(pod, WRITTEN_NAME) || LISTS.some((list) => entriesOf(pod, list).some(isProxy));
  if (!isWritten) return { pod, restore: (injected) => injected };
  return {
    pod: renamed(pod, WRITTEN_NAME, PROXY_CONTAINER),
    restore: (injected) => renamed(injected, PROXY_CONTAINER, WRITTEN_NAME),
  };
}

/** A container with another image belongs to another agent. */
function isProxy({ name, image }: PodRecord): boolean {
  return name === WRITTEN_NAME && (image === 'auto' || image === '');
}

function entriesOf({ spec }: PodObject, list: (typeof LISTS)[number]): readonly PodRecord[] {
  return recordsOf(recordOf(spec)[list]);
}

function statusOf({ metadata }: PodObject): string | undefined {
  return textsOf(recordOf(metadata).annotations)[STATUS_ANNOTATION];
}

/** Whether the status of an earlier injection has a container of this name. */
function isInjectedAs(pod: PodObject, name: string): boolean {
  const status = parsed(statusOf(pod));
  return LISTS.some((list) => Array.isArray(status[list]) && status[list].includes(name));
}

function parsed(status: string | undefined): PodRecord {
  try {
    return recordOf(JSON.parse(status ?? '{}'));
  } catch {
    return {};
  }
}

/** The Pod with the container under another name, and the status renamed with it. */
function renamed(pod: PodObject, from: string, to: string): PodObject {
  const spec = recordOf(pod.spec);
  const lists = LISTS.filter((list) => Array.isArray(spec[list])).map((list) => [
    list,
    (spec[list] as readonly unknown[]).map((entry) =>
      textOf(recordOf(entry).name) === from ? { ...recordOf(entry), name: to } : entry,
    ),
  ]);
  const named = { ...pod, spec: { ...spec, ...Object.fromEntries(lists) } };
  const status = parsed(statusOf(pod));
  const names = LISTS.filter((list) => Array.isArray(status[list])).map((list) => [
    list,
    (status[list] as readonly unknown[]).map((name) => (name === from ? to : name)),
  ]);
  if (names.length === 0) return named;
  const metadata = recordOf(pod.metadata);
  const text = JSON.stringify({ ...status, ...Object.fromEntries(names) });
  return {
    ...named,
    metadata: { ...metadata, annotations: { ...recordOf(metadata.annotations), [STATUS_ANNOTATION]: text } },
  };
}
