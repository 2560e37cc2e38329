/**
 * Valid settings that have no effect in this version. The document's author gets a warning, because there is no other
 * sign of that. Remove an entry when its feature exists.
 */
import { ineffectiveField, unappliedPatch } from '../envoy-patches.ts';
import type { ContentOf } from '../kinds/schemas.ts';
import type { Kind } from '../kinds/types.ts';
import type { DocumentLimits } from '../limits.ts';
import type { ValidationError } from '../parsing/issues.ts';
import { waypointTargets } from '../policy-targets.ts';
import type { ConnectionPool } from '../schema/destination-rule.ts';
import { ordinaryStars } from './ordinary-stars.ts';

type Finders = {
  readonly [K in Kind]?: (
    content: ContentOf<K>,
    limits: DocumentLimits,
    namespace: string,
  ) => readonly ValidationError[];
};

/** Parameters by which Istio's proxies kept results. */
const UNREAD_PARAMS: Readonly<Record<string, RegExp>> = {
  denier: /^valid_?(duration|use_?count)$/i,
  listchecker: /^caching_?(interval|use_?count)$/i,
  memquota: /^min_?deduplication_?duration$/i,
};

const FINDERS: Finders = {
  AuthorizationPolicy: (content) => [...ordinaryStars(content), ...waypointTargets(content)],
  RequestAuthentication: waypointTargets,
  EnvoyFilter: ({ configPatches = [], targetRefs }) => [
    ...waypointTargets({ targetRefs }),
    ...configPatches.flatMap((patch, index) => {
      const unapplied = unappliedPatch(patch) ?? ineffectiveField(patch);
      return unapplied === undefined ? [] : [{ ...unapplied, path: ['configPatches', index, ...unapplied.path] }];
    }),
  ],
  Gateway: ({ servers = [] }) =>
    servers.flatMap(({ port, tls, defaultEndpoint }, index) => [
      ...(tls?.httpsRedirect === true && isTls(port.protocol)
        ? [{ path: ['servers', index, 'tls', 'httpsRedirect'], message: 'no effect: requests already arrive over TLS' }]
        : []),
      ...(defaultEndpoint === undefined
        ? []
        : [
            {
              path: ['servers', index, 'defaultEndpoint'],
              message: 'no effect: VirtualServices decide the destination',
            },
          ]),
      ...targetPort(['servers', index], port),
      ...(tls?.tlsCertificates ?? []).flatMap(({ caCertificates }, pair) => {
        if (caCertificates === undefined) return [];
        const message = 'no effect: clients are verified with caCertificates of the server';
        return [{ path: ['servers', index, 'tls', 'tlsCertificates', pair, 'caCertificates'], message }];
      }),
    ]),
  handler: ({ compiledAdapter, params = {} }) => {
    const unread = compiledAdapter === undefined ? undefined : UNREAD_PARAMS[compiledAdapter];
    return Object.keys(params)
      .filter((name) => unread?.test(name))
      .map((name) => ({ path: ['params', name], message: 'no effect: an Envoy asks once for each request' }));
  },
  instance: ({ compiledTemplate, params = {} }) =>
    compiledTemplate === undefined
      ? []
      : Object.keys(params)
          .filter((name) => /^monitored_?resource/i.test(name))
          .map((name) => ({ path: ['params', name], message: 'no effect: no adapter inside reads it' })),
  ProxyConfig: ({ selector }, { rootNamespace }, namespace) => {
    if (namespace !== rootNamespace || Object.keys(selector?.matchLabels ?? {}).length === 0) return [];
    const message = 'it selects Pods of the root namespace only: without a selector, a document is for the whole mesh';
    return [{ path: ['selector'], message }];
  },
  ServiceEntry: ({ resolution, ports = [] }) =>
    ports.flatMap(({ number, targetPort = number }, index) => {
      // Envoy's own defaults: HTTPS where the proxy originates TLS for requests.
      if (resolution !== 'DYNAMIC_DNS' || targetPort === number || (number === 80 && targetPort === 443)) return [];
      const message = `no effect with resolution DYNAMIC_DNS: proxies connect to port ${number}`;
      return [{ path: ['ports', index, 'targetPort'], message }];
    }),
  Sidecar: ({ inboundConnectionPool, ingress = [], egress = [] }) => [
    ...inboundPool(['inboundConnectionPool'], inboundConnectionPool),
    ...ingress.flatMap(({ port, connectionPool }, index) => [
      ...inboundPool(['ingress', index, 'connectionPool'], connectionPool),
      ...targetPort(['ingress', index], port),
    ]),
    ...egress.flatMap(({ port }, index) => targetPort(['egress', index], port)),
  ],
  Telemetry: waypointTargets,
  VirtualService: (content, { servesDelegates }) => {
    const { hosts = [], http = [] } = content;
    const found = [...exponentialDelays(http), ...sourceSubnets(content)];
    if (servesDelegates) return found;
    const message = 'the document is not applied while CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE is false';
    if (hosts.length === 0) return [{ path: ['hosts'], message }];
    const delegates = http.flatMap(({ delegate }, index) =>
      delegate === undefined ? [] : [{ path: ['http', index, 'delegate'], message }],
    );
    return [...found, ...delegates];
  },
};

/**
 * The ports of Gateways and Sidecars have the same type as those of ServiceEntries, but `targetPort` only has an effect
 * in a ServiceEntry.
 */
function targetPort(
  path: ValidationError['path'],
  port: { readonly targetPort?: number | undefined } | undefined,
): ValidationError[] {
  if (port?.targetPort === undefined) return [];
  return [{ path: [...path, 'port', 'targetPort'], message: 'no effect: expected in a ServiceEntry only' }];
}

/** The settings of a pool that have no effect for connections to the application. */
function inboundPool(path: ValidationError['path'], pool: ConnectionPool | undefined): readonly ValidationError[] {
  const found: ValidationError[] = [];
  if (pool?.http?.h2UpgradePolicy !== undefined && pool.http.h2UpgradePolicy !== 'DEFAULT')
    found.push({
      path: [...path, 'http', 'h2UpgradePolicy'],
      message: 'no effect: the application gets the protocol of its port',
    });
  return found;
}

function exponentialDelays(http: NonNullable<ContentOf<'VirtualService'>['http']>): readonly ValidationError[] {
  return http.flatMap(({ fault }, index) => {
    if (fault?.delay?.exponentialDelay === undefined) return [];
    const message = 'no effect: Envoy injects fixed delays only (fixedDelay)';
    return [{ path: ['http', index, 'fault', 'delay', 'exponentialDelay'], message }];
  });
}

/** At sidecars, all connections come from the proxy's own workload; Istio ignores the field everywhere. */
function sourceSubnets({ gateways, tcp = [], tls = [] }: ContentOf<'VirtualService'>): readonly ValidationError[] {
  const isForSidecars = (names: readonly string[] | undefined, otherwise: boolean) =>
    names?.length ? names.includes('mesh') : otherwise;
  const message = 'no effect at sidecars, whose connections all come from their own workload (see sourceLabels)';
  return Object.entries({ tcp, tls }).flatMap(([field, routes]) =>
    routes.flatMap(({ match = [] }, route) =>
      match.flatMap(({ sourceSubnet, gateways: named }, clause) =>
        sourceSubnet && isForSidecars(named, isForSidecars(gateways, true))
          ? [{ path: [field, route, 'match', clause, 'sourceSubnet'], message }]
          : [],
      ),
    ),
  );
}

function isTls(protocol: string | undefined): boolean {
  return ['HTTPS', 'TLS'].includes(protocol?.toUpperCase() ?? '');
}

/** Paths start at the content. */
export function notActedOn<K extends Kind>(
  kind: K,
  content: ContentOf<K>,
  limits: DocumentLimits,
  namespace: string,
): readonly ValidationError[] {
  return FINDERS[kind]?.(content, limits, namespace) ?? [];
}
