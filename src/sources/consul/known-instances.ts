/** What is known of one instance of a service in the catalogue. */
import type { BadState, Registration } from './answers.ts';

export type Status = 'passing' | BadState;

/** An instance of a service with its state. */
export interface Instance extends Registration {
  readonly status: Status;
}

export interface Known {
  readonly registration: Registration;
  /** Memory, about. */
  readonly bytes: number;
  /** Index and epoch of the answer about its service. */
  readonly index: number;
  readonly epoch: number;
  /** How many losses there had been when it was read. */
  readonly losses: number;
  status: Status;
  /** The registry no longer has it; it stays for a time. */
  readonly isMissing: boolean;
}

/** Memory of an instance, and of each of its strings, besides characters, bytes, about. */
const INSTANCE_BYTES = 700;
const STRING_BYTES = 32;

/** Memory of an instance, bytes, about: a character takes one byte or two. */
export function bytesOf({ datacenter, node, id, address, kind, tags, meta }: Registration): number {
  let bytes = INSTANCE_BYTES + 2 * (datacenter.length + node.length + id.length + address.length + kind.length);
  for (const tag of tags) bytes += STRING_BYTES + 2 * tag.length;
  for (const value of meta.values()) bytes += STRING_BYTES + 2 * value.length;
  return bytes;
}

/** Identifiers of instances are unique on their node. */
export function instanceKey(node: string, id: string): string {
  return `${node}\0${id}`;
}

export function placeOf({ address, port }: Registration): string {
  return `${address}\0${port}`;
}

export function statusIn({ critical, warning }: Registration): Status {
  if (critical) return 'critical';
  return warning ? 'warning' : 'passing';
}

export function nodesOf(instances: ReadonlyMap<string, Known>): ReadonlySet<string> {
  return new Set([...instances.values()].map(({ registration }) => registration.node));
}

export function isEqual(before: ReadonlyMap<string, Known>, after: ReadonlyMap<string, Known>): boolean {
  if (before.size !== after.size) return false;
  for (const [key, { registration, status }] of after) {
    const was = before.get(key);
    if (was === undefined || was.status !== status || !isSame(was.registration, registration)) return false;
  }
  return true;
}

/** Equal as far as anything but the checks goes; the state is compared apart. */
function isSame(one: Registration, other: Registration): boolean {
  return contentOf(one) === contentOf(other);
}

function contentOf({ address, port, kind, tags, meta, weights }: Registration): string {
  return JSON.stringify([address, port, kind, tags, [...meta].toSorted(), weights]);
}
