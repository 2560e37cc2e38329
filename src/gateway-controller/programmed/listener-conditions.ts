/**
 * The condition Programmed of a Gateway and of its listeners, as far as it depends on proxies: a listener is programmed
 * once a ready proxy has acknowledged it, the Gateway once all of its listeners are.
 */
import type { ServedListener } from '../../translators/index.ts';
import { type Complaint, isTrue, unprogrammed } from '../status/deployment-status.ts';
import { type DesiredStatus, recordsOf, type StatusFields } from '../types.ts';
import type { ProxyListeners } from './report.ts';

export interface Programming {
  readonly listeners: readonly ServedListener[];
  /** The listeners of ready proxies. */
  readonly proxies: readonly ProxyListeners[];
  /** The status that the Gateway has in the API server. */
  readonly current: StatusFields;
}

/** Maximum number of listener names in a message. */
const MAX_NAMES = 5;

export function withAcknowledged(desired: DesiredStatus, programming: Programming): DesiredStatus {
  const status = desired.status as StatusFields;
  const conditions = recordsOf(status.conditions);
  const complaints = new Map<unknown, Complaint>();
  const listeners = recordsOf(status.listeners).map((listener) => {
    const served = programming.listeners.find(({ name }) => name === listener.name);
    const ofListener = recordsOf(listener.conditions);
    const complaint =
      served && isTrue(ofListener, 'Programmed') ? complaintOf(served, ofListener, programming) : undefined;
    if (complaint === undefined) return listener;
    complaints.set(listener.name, complaint);
    return { ...listener, conditions: unprogrammed(ofListener, complaint) };
  });
  if (complaints.size === 0) return desired;
  const ofGateway = isTrue(conditions, 'Programmed') ? unprogrammed(conditions, summary(complaints)) : conditions;
  return { ...desired, status: { ...status, conditions: ofGateway, listeners } };
}

/** Why a listener is not programmed; undefined when it is. */
function complaintOf(
  { name, digest }: ServedListener,
  desired: readonly StatusFields[],
  { proxies, current }: Programming,
): Complaint | undefined {
  if (proxies.some(({ acknowledged }) => acknowledged.has(digest))) return undefined;
  const error = proxies.map(({ rejected }) => rejected.get(digest)).find((text) => text !== undefined);
  if (error !== undefined) return { reason: 'Invalid', message: `a proxy rejects the listener: ${error}` };
  // It was acknowledged before: the replica that knew this has ended, or its proxies reconnect.
  const listener = recordsOf(current.listeners).find((each) => each.name === name);
  const generation = generationOf(desired);
  if (generation !== undefined && generationOf(recordsOf(listener?.conditions)) === generation) return undefined;
  return { reason: 'Pending', message: 'no ready proxy has acknowledged the listener yet' };
}

/** The generation for which a condition Programmed is True; undefined where it is not. */
function generationOf(conditions: readonly StatusFields[]): unknown {
  return conditions.find(({ type, status }) => type === 'Programmed' && status === 'True')?.observedGeneration;
}

/** A rejected listener takes precedence over one that is not acknowledged yet. */
function summary(complaints: ReadonlyMap<unknown, Complaint>): Complaint {
  const invalid = [...complaints].find(([, { reason }]) => reason === 'Invalid');
  if (invalid !== undefined) return { reason: 'Invalid', message: `listener ${invalid[0]}: ${invalid[1].message}` };
  const names = [...complaints.keys()];
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : '';
  const shown = `${names.slice(0, MAX_NAMES).join(', ')}${more}`;
  const what = names.length === 1 ? 'listener' : 'listeners';
  return { reason: 'Pending', message: `no ready proxy has acknowledged ${what} ${shown} yet` };
}
