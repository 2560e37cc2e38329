/** Encoded listeners. */
import { encode, envoy } from '../../protobuf/index.ts';
import type { GeneratedResource } from '../types.ts';

/** Every listener has a name, whatever the message type says. */
export type NamedListener = envoy.config.listener.v3.Listener.Input & { readonly name: string };

/** `routes` are the names of the route configurations that the listener asks for. */
export function listenerResource(listener: NamedListener, routes: readonly string[]): GeneratedResource {
  return { name: listener.name, bytes: encode(envoy.config.listener.v3.Listener, listener), refs: routes };
}
