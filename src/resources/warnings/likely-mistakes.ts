/**
 * Valid settings that their author probably did not mean. The author gets a warning when the document is checked; the
 * mesh applies the document as it is.
 */

import type { ContentOf, HttpMatch, HttpRoute } from '../kinds/schemas.ts';
import type { AnyResource, Kind } from '../kinds/types.ts';
import { shown, type ValidationError } from '../parsing/issues.ts';

type Finders = { readonly [K in Kind]?: (content: ContentOf<K>) => readonly ValidationError[] };

const FINDERS: Finders = {
  DestinationRule: ({ subsets = [], workloadSelector }) => [
    ...subsets.flatMap(({ name, labels = {}, trafficPolicy }, index) =>
      Object.keys(labels).length > 0 || trafficPolicy !== undefined
        ? []
        : [
            {
              path: ['subsets', index],
              message: `subset ${shown(name)} has no labels: it selects all endpoints of the service`,
            },
          ],
    ),
    ...emptySelector(workloadSelector),
  ],
  EnvoyFilter: ({ workloadSelector }) => emptySelector(workloadSelector),
  Gateway: ({ servers = [] }) =>
    servers.flatMap(({ port }, index) => {
      const path = ['servers', index, 'port', 'protocol'];
      if (port.number === 443 && isPlainHttp(port.protocol))
        return [{ path, message: `${port.protocol} on port 443 is plain text: clients expect HTTPS on this port` }];
      if (port.number === 80 && port.protocol === 'HTTPS')
        return [{ path, message: 'HTTPS on port 80: clients send plain text to this port' }];
      return [];
    }),
  ServiceEntry: ({ addresses = [], ports = [], endpoints = [], location, resolution, workloadSelector }) => [
    ...emptySelector(workloadSelector),
    ...(resolution !== 'STATIC' || endpoints.length > 0 || workloadSelector !== undefined
      ? []
      : [{ path: ['endpoints'], message: 'resolution STATIC without endpoints: requests fail with HTTP 503' }]),
    ...(addresses.length > 0 || location === 'MESH_INTERNAL'
      ? []
      : ports.flatMap(({ protocol, number }, index) =>
          isConnection(protocol)
            ? [
                {
                  path: ['ports', index],
                  message: `without addresses, it matches ${protocol} connections to port ${number} of any address`,
                },
              ]
            : [],
        )),
  ],
  Sidecar: ({ workloadSelector }) => emptySelector(workloadSelector),
  VirtualService: ({ http = [] }) => [...neverReached(http), ...unweighted(http), ...tooShort(http)],
};

/** Paths start at the content. */
export function likelyMistakes(resource: AnyResource): readonly ValidationError[] {
  // The table is indexed by the same kind as the content.
  const find = FINDERS[resource.kind] as ((content: unknown) => readonly ValidationError[]) | undefined;
  return find?.(resource.content) ?? [];
}

function emptySelector(selector: { readonly labels: Readonly<Record<string, string>> } | undefined): ValidationError[] {
  if (selector === undefined || Object.keys(selector.labels).length > 0) return [];
  return [{ path: ['workloadSelector'], message: 'it has no labels: the document applies to all workloads' }];
}

function isPlainHttp(protocol: string | undefined): boolean {
  return ['HTTP', 'HTTP2', 'GRPC'].includes(protocol?.toUpperCase() ?? '');
}

/** Whether connections of the protocol are only distinguished by their addresses. */
function isConnection(protocol: string | undefined): boolean {
  return protocol?.toUpperCase() === 'TCP';
}

/** Routes after a route that matches every request, or with the same match as an earlier route. */
function neverReached(routes: readonly HttpRoute[]): ValidationError[] {
  const all = routes.findIndex(({ match }) => !match?.length || match.some(matchesAll));
  const found: ValidationError[] = [];
  const first = new Map<string, string>();
  routes.forEach(({ match = [] }, index) => {
    if (all >= 0 && index > all) {
      found.push({ path: ['http', index], message: `never reached: http[${all}] matches every request` });
      return;
    }
    match.forEach((each, at) => {
      const { name: _name, statPrefix: _statPrefix, ...condition } = each;
      const text = JSON.stringify(condition);
      const earlier = first.get(text);
      if (earlier === undefined) first.set(text, `http[${index}].match[${at}]`);
      else found.push({ path: ['http', index, 'match', at], message: `never reached: it duplicates ${earlier}` });
    });
  });
  return found;
}

function matchesAll({ name: _name, statPrefix: _statPrefix, ignoreUriCase: _case, uri, ...rest }: HttpMatch): boolean {
  if (Object.keys(rest).length > 0) return false;
  return uri === undefined || ('prefix' in uri && (uri.prefix === '/' || uri.prefix === ''));
}

/** One of several destinations without a weight gets no request. */
function unweighted(routes: readonly HttpRoute[]): ValidationError[] {
  return routes.flatMap(({ route = [] }, index) =>
    route.length < 2
      ? []
      : route.flatMap(({ weight }, at) =>
          weight === undefined
            ? [
                {
                  path: ['http', index, 'route', at],
                  message: 'receives no requests: it has no weight, and other destinations do',
                },
              ]
            : [],
        ),
  );
}

/** The first attempt of a request may use its whole time. */
function tooShort(routes: readonly HttpRoute[]): ValidationError[] {
  return routes.flatMap(({ timeout, retries }, index) => {
    const { attempts = 0, perTryTimeout } = retries ?? {};
    if (!timeout || perTryTimeout === undefined || attempts < 1 || perTryTimeout < timeout) return [];
    const message = 'expected less than the timeout of the route: no time is left for a retry';
    return [{ path: ['http', index, 'retries', 'perTryTimeout'], message }];
  });
}
