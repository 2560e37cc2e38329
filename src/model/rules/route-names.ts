/** The names in a virtual service: gateways and destinations, resolved in its namespace. */
import type { VirtualService } from '../types/types.ts';

export const MESH_GATEWAY = 'mesh';

/** `mesh`, `name`, `./name`, `namespace/name` or the older `name.namespace…` → `mesh` or `namespace/name`. */
export function gatewayName(written: string, namespace: string): string {
  if (written === MESH_GATEWAY) return written;
  if (written.startsWith('./')) return `${namespace}/${written.slice(2)}`;
  if (written.includes('/')) return written;
  const [name = '', owner] = written.split('.');
  return `${owner ?? namespace}/${name}`;
}

type Content = VirtualService['content'];

/** The content with full names. @param host returns the full name of a host */
export function resolveContent(content: Content, namespace: string, host: (name: string) => string): Content {
  // A destination that does not exist has an empty host.
  const destination = <T extends { host: string }>(to: T): T => (to.host === '' ? to : { ...to, host: host(to.host) });
  const routed = <T extends { destination: { host: string } }>(to: T): T => ({
    ...to,
    destination: destination(to.destination),
  });
  const matched = <T extends { gateways?: string[] | undefined }>(match: T): T =>
    match.gateways === undefined
      ? match
      : { ...match, gateways: match.gateways.map((name) => gatewayName(name, namespace)) };
  return {
    ...content,
    ...(content.http && {
      http: content.http.map((rule) => ({
        ...rule,
        ...(rule.match && { match: rule.match.map(matched) }),
        ...(rule.route && { route: rule.route.map(routed) }),
        ...(rule.mirror && { mirror: destination(rule.mirror) }),
        ...(rule.mirrors && { mirrors: rule.mirrors.map(routed) }),
      })),
    }),
    ...(content.tls && {
      tls: content.tls.map((rule) => ({
        ...rule,
        ...(rule.match && { match: rule.match.map(matched) }),
        ...(rule.route && { route: rule.route.map(routed) }),
      })),
    }),
    ...(content.tcp && {
      tcp: content.tcp.map((rule) => ({
        ...rule,
        ...(rule.match && { match: rule.match.map(matched) }),
        ...(rule.route && { route: rule.route.map(routed) }),
      })),
    }),
  };
}
