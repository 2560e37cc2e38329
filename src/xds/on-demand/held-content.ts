/** What a sidecar on demand holds of what it may ask for, and why: for debug pages. */
import type { XdsType } from '../../core/xds-types.ts';
import type { Bundle, Parts } from '../../push/index.ts';

/**
 * Why a proxy holds a resource. `connection`: a TCP connection needs the cluster; `start`: its listeners or settings
 * need it whatever it asks for; `named`: its Sidecar names the host; `kept`: it had it before it reconnected; `whole`:
 * it gets everything.
 */
export type HeldBecause = (
  | { readonly because: 'asked' /** Of the request. */; readonly host: string /** Unix ms. */; readonly at: number }
  | { readonly because: 'connection' /** Unix ms. */; readonly at: number }
  | { readonly because: 'learned' /** The workload that asked; absent: not known. */; readonly from?: string }
  | { readonly because: 'start' | 'named' | 'kept' | 'whole' }
) & {
  /** The virtual host that leads to the cluster, or the cluster that it is a member of. */
  readonly via?: string;
};

export interface HeldContent {
  /** What the proxy has, or is being sent. */
  parts(type: XdsType): readonly Bundle[];
  /** What it would have of this content, with what it has asked for until now. */
  of(content: Parts): Parts;
  /** Why it holds a resource; empty if it does not. */
  why(type: XdsType, name: string): readonly HeldBecause[];
}
