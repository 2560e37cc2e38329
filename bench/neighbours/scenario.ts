/** What a hostile caller or tenant does while honest proxies of other namespaces are measured. */

/** The change that honest proxies wait for, or the review that an API server waits for. */
export type Measured = 'endpoint' | 'service added' | 'injection';

/** Where hostile callers find the server. */
export interface Target {
  readonly grpcPort: number;
  readonly httpsPort: number;
  /** Part of the scenario's size, 0 to 1. Tests run small ones. */
  readonly load: number;
}

/** A document of the hostile namespace, which has a few proxies. */
export interface TenantDocument {
  /** A version differs from the one before it in what proxies receive. */
  text(load: number, version: number, file: number): string;
  /** Files that are written at a time, each with a document; default: 1. */
  readonly files?: number;
  /** `before each change`: a little earlier than each measured change. `always`: once a second, whatever happens. */
  readonly written: 'before each change' | 'always';
}

export interface Scenario {
  readonly name: string;
  /** One line for the report: what is done, at full size. */
  readonly about: string;
  readonly measured: Measured;
  /** Runs in a process of its own, which is killed at the end. Resolves when the disturbance has begun. */
  readonly callers?: (target: Target) => Promise<void>;
  readonly document?: TenantDocument;
}

/** The parameters of the process of hostile callers. */
export interface Assignment {
  readonly scenario: string;
  readonly target: Target;
}

/** The namespace of the hostile tenant. */
export const HOSTILE = 'hostile';

/** The loopback address of hostile callers. Honest ones have 127.0.0.1 or one of 127.1.0.0/16. */
export const HOSTILE_ADDRESS = '127.2.0.1';

/** So many of `full`, at least one. */
export function sized(full: number, load: number): number {
  return Math.max(1, Math.round(full * load));
}
