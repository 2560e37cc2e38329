/**
 * The xDS protocol as state machines, one for each stream: what a proxy has requested and received, and what to send
 * next. They are pure: requests, content and time come in, responses come out; there is no socket and no clock.
 *
 * - `machine.ts` keeps the types of a stream in the order that does not interrupt traffic.
 * - `subscription.ts` has the state of one type, `driver.ts` the effect of requests and responses on it, both the same
 *   for both variants; `sotw.ts` and `delta.ts` have the differences between the variants.
 * - `plan.ts`, `selection.ts`, `resume.ts` and `content-version.ts` compute results that streams in equal states share.
 * - `rejection.ts` determines which resources a proxy rejected; `vhds-state.ts` handles the special rules of virtual
 *   hosts.
 */

export { sameBundles } from './client-state.ts';
export { DeltaProtocol } from './delta.ts';
export type { Answer } from './inflight.ts';
export { limitNames } from './interest.ts';
export { AdsMachine, type Outgoing } from './machine.ts';
export { addedNames, NameSet, NameSets, NO_NAMES } from './name-set.ts';
export type { AnyRequest, DeltaRequest, ExtensionList, SotwRequest, VersionMap } from './requests.ts';
export type { ResourceState, UnacceptedAnswer } from './resource-states.ts';
export type { ResponseMessage } from './responses.ts';
export { SharedResults } from './shared-results.ts';
export { SotwProtocol } from './sotw.ts';
export type { Variant } from './variant.ts';
