/** Encoded listeners. */
import { encode, envoy } from '../../protobuf/index.ts';
import { addressOf, type Binds } from '../common/index.ts';
import type { GeneratedResource } from '../types.ts';

/** Every listener has a name, although the message type makes it optional. */
export type NamedListener = envoy.config.listener.v3.Listener.Input & { readonly name: string };

/**
 * The sockets of a listener: two rather than one on `::` for both families, so that the original destination and peer
 * of each connection have their own family, and Envoy's logs and dumps contain both addresses.
 */
export function listenerAddresses(
  { bind, extraBind }: Binds,
  port: number,
): Pick<NamedListener, 'address' | 'additionalAddresses'> {
  const address = addressOf(bind, port);
  return extraBind === undefined
    ? { address }
    : { address, additionalAddresses: [{ address: addressOf(extraBind, port) }] };
}

/** @param routes names of the route configurations that the listener requests */
export function listenerResource(listener: NamedListener, routes: readonly string[]): GeneratedResource {
  return { name: listener.name, bytes: encode(envoy.config.listener.v3.Listener, listener), refs: routes };
}
