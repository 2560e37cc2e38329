/** Names of resources that exist for one proxy only: the last part begins with a word and a space, which no host has. */
import type { EncodedResource } from '../../push/index.ts';

const ANSWER = 'answer ';
const MADE_FOR = 'any ';

/** Whether a name is of a resource that was made for one proxy. */
export function isOwnName(name: string): boolean {
  const host = name.slice(name.lastIndexOf('/') + 1);
  return host.startsWith(ANSWER) || host.startsWith(MADE_FOR);
}

/** Whether a resource only ends the wait for a name. */
export function isAnswer({ name }: EncodedResource): boolean {
  return name.slice(name.lastIndexOf('/') + 1).startsWith(ANSWER);
}

const ownName = (name: string, kind: string): string => {
  const host = name.lastIndexOf('/') + 1;
  return `${name.slice(0, host)}${kind}${name.slice(host)}`;
};

/** The name of the resource that ends the wait for a name. */
export function answerName(name: string): string {
  return ownName(name, ANSWER);
}

/** The name of a virtual host that was made for a name. */
export function madeName(name: string): string {
  return ownName(name, MADE_FOR);
}

/**
 * A name without a host. Its answer makes a route configuration usable: Envoy waits for a first response with a name of
 * the configuration.
 */
export function readyName(routes: string): string {
  return `${routes}/`;
}
