/**
 * The hosts that Envoy has asked for and waits for. A request with an unknown host waits in Envoy without a time limit;
 * if the control plane does not answer in time, the host gets a virtual host that returns HTTP 503 and says why. It is
 * removed by the response that answers the host.
 *
 * Source: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds
 */
import { XDS } from '../../core/xds-types.ts';
import { encodeFields, WireReader } from '../../protobuf/wire/index.ts';
import { type LocatedResource, resourceValue } from './messages.ts';

/** Hosts that get a virtual host. Requests to further ones get HTTP 404. */
const MAX_MADE = 1000;
const MAX_WAITING = 10_000;

/** Begins the last part of names of virtual hosts that are made here. No host has a space. */
const MADE_FOR = 'unavailable ';
const VERSION = 'unavailable';

/** Fields of `envoy.service.discovery.v3.Resource` and of `envoy.config.route.v3.VirtualHost`. */
const RESOURCE = { version: 1, message: 2, name: 3, aliases: 4 };
const HOST = { name: 1, domains: 2, routes: 3 };
/** `RouteMatch.prefix`; `Route.match`, `Route.direct_response`; `DirectResponseAction`; `DataSource.inline_string`. */
const PREFIX = 1;
const ROUTE = { match: 1, directResponse: 7 };
const DIRECT_RESPONSE = { status: 1, body: 2 };
const INLINE_STRING = 3;

const UNAVAILABLE = 503;
const ANY_HOST = '*';

/** The route configuration and the host of a name `<route configuration>/<host>`. */
function split(name: string): { readonly routes: string; readonly host: string } {
  const slash = name.lastIndexOf('/');
  return { routes: name.slice(0, Math.max(0, slash)), host: name.slice(slash + 1) };
}

/** Whether a name of a request stands for a host that a request of an application has. */
export function isHost(typeUrl: string, name: string): boolean {
  if (typeUrl !== XDS.vhds.url) return false;
  const { routes, host } = split(name);
  return routes !== '' && host !== '' && !host.includes(' ');
}

/** The virtual host that is made for a name. */
function madeName(name: string): string {
  const { routes, host } = split(name);
  return `${routes}/${MADE_FOR}${host}`;
}

/** The name for which this virtual host was made; undefined if it was not made here. */
function nameOfMade(name: string): string | undefined {
  const { routes, host } = split(name);
  return host.startsWith(MADE_FOR) ? `${routes}/${host.slice(MADE_FOR.length)}` : undefined;
}

/**
 * The names that are answered by these resources: the control plane, and this module, name a resource that is made for
 * a name like it, with a word and a space before the host.
 */
export function namesAnsweredBy(resources: Iterable<string>): ReadonlySet<string> {
  const names = new Set<string>();
  for (const name of resources) {
    const { routes, host } = split(name);
    const space = host.indexOf(' ');
    if (space > 0) names.add(`${routes}/${host.slice(space + 1)}`);
  }
  return names;
}

export class AskedHosts {
  /** When Envoy has asked, ms. */
  readonly #waiting = new Map<string, number>();
  readonly #made = new Set<string>();

  /** When Envoy has asked for the host for which it waits longest. */
  get oldest(): number | undefined {
    const [oldest] = this.#waiting.values();
    return oldest;
  }

  /** Envoy asks for hosts. */
  ask(names: Iterable<string>, now: number): void {
    for (const name of names)
      if (this.#waiting.size < MAX_WAITING && !this.#waiting.has(name)) this.#waiting.set(name, now);
  }

  /** Envoy reports what it has. Returns what the control plane has sent it, without what was made here. */
  reported(versions: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
    const others = new Map(versions);
    for (const name of versions.keys()) {
      const made = nameOfMade(name);
      if (made !== undefined) {
        others.delete(name);
        this.#made.add(made);
      }
    }
    return others;
  }

  /** The control plane has sent these resources. Returns the virtual hosts that have to go, because others come. */
  answered(resources: readonly LocatedResource[]): readonly string[] {
    if (this.#waiting.size + this.#made.size === 0) return [];
    const gone = new Set<string>();
    for (const resource of resources) {
      const { routes } = split(resource.name);
      const domains = this.#made.size === 0 ? [] : domainsOf(resource).map((domain) => `${routes}/${domain}`);
      for (const name of [...aliasesOf(resource), ...domains]) {
        this.#waiting.delete(name);
        if (this.#made.delete(name)) gone.add(madeName(name));
      }
    }
    return [...gone];
  }

  /** The names for which Envoy has waited since this time or longer; it does not wait for them any more. */
  overdue(since: number): readonly string[] {
    const names: string[] = [];
    for (const [name, at] of this.#waiting) {
      if (at > since) break;
      names.push(name);
    }
    for (const name of names) this.#waiting.delete(name);
    return names;
  }

  /**
   * The resources that end the wait for these names, and the names that get no virtual host and have none.
   * @param present the virtual hosts that Envoy has: it asks again for a host none of whose routes matches
   */
  unavailable(
    names: readonly string[],
    present: Iterable<LocatedResource>,
  ): { readonly resources: readonly Buffer[]; readonly refused: readonly string[] } {
    const taken = new Set(
      Array.from(present).flatMap((resource) => {
        const { routes } = split(resource.name);
        return domainsOf(resource).map((domain) => `${routes}/${domain}`);
      }),
    );
    const refused: string[] = [];
    const resources = names.map((name) => {
      const { host } = split(name);
      const isMade = !host.includes(ANY_HOST) && !taken.has(name) && this.#made.size < MAX_MADE;
      if (isMade) this.#made.add(name);
      else if (!taken.has(name)) refused.push(name);
      return encodeFields([
        [RESOURCE.version, VERSION],
        ...(isMade ? ([[RESOURCE.message, hostMessage(name)]] as const) : []),
        [RESOURCE.name, madeName(name)],
        [RESOURCE.aliases, name],
      ]);
    });
    return { resources, refused };
  }
}

/** `google.protobuf.Any` of the virtual host that returns HTTP 503. */
function hostMessage(name: string): Buffer {
  const { host } = split(name);
  const body = `${host}: the control plane did not answer in time whether there is such a service\n`;
  const directResponse = encodeFields([
    [DIRECT_RESPONSE.status, UNAVAILABLE],
    [DIRECT_RESPONSE.body, encodeFields([[INLINE_STRING, body]])],
  ]);
  const route = encodeFields([
    [ROUTE.match, encodeFields([[PREFIX, '/']])],
    [ROUTE.directResponse, directResponse],
  ]);
  const value = encodeFields([
    [HOST.name, madeName(name)],
    [HOST.domains, host],
    [HOST.routes, route],
  ]);
  return encodeFields([
    [1, XDS.vhds.url],
    [2, value],
  ]);
}

function stringsOf(bytes: Buffer, number: number): readonly string[] {
  const reader = new WireReader(bytes);
  const found: string[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === number) found.push(reader.text(field));
  return found;
}

/** Other names of a resource, for which it is the answer. */
const aliasesOf = ({ bytes }: LocatedResource): readonly string[] => stringsOf(bytes, RESOURCE.aliases);
const domainsOf = (resource: LocatedResource): readonly string[] =>
  stringsOf(resourceValue('delta', resource), HOST.domains);
