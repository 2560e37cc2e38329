/**
 * The xDS protocol as state machines, one for each stream: what a proxy asked for and has, and what to send it next.
 * They are pure: requests, content and time come in, responses come out; there is no socket and no clock.
 *
 * - `machine.ts` keeps the types of a stream in the order that does not interrupt traffic.
 * - `subscription.ts` is the state of one type and `driver.ts` what requests and responses do to it, both the same for
 *   either variant; `sotw.ts` and `delta.ts` are what the variants do differently.
 * - `plan.ts`, `selection.ts`, `resume.ts` and `content-version.ts` compute what streams in equal states share.
 * - `rejection.ts` finds out which resources a proxy rejected; `vhds-state.ts` has what is particular to virtual hosts.
 */

export { DeltaProtocol } from './delta.ts';
export type { Answer } from './inflight.ts';
export { AdsMachine, type Outgoing } from './machine.ts';
export { NameSet, NameSets, NO_NAMES } from './name-set.ts';
export type { AnyRequest, DeltaRequest, ExtensionList, SotwRequest, VersionMap } from './requests.ts';
export type { ResourceState } from './resource-states.ts';
export type { ResponseMessage } from './responses.ts';
export { SharedResults } from './shared-results.ts';
export { SotwProtocol } from './sotw.ts';
export type { Variant } from './variant.ts';
