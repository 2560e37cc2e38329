/**
 * Which domains the services of a route configuration have, kept for all namespaces that see the same services. Who owns a domain
 * matters only when two claim it; that nobody does is shown here without going through every domain of every service again: seen
 * from different namespaces, services differ only in the short names of the namespace's own.
 */
import type { ServicePortEntry } from '../service-index.ts';
import { foreignViewer, isOwn, serviceDomains, type Viewer } from './domains.ts';

/** A namespace's own services of a book. */
interface OwnHosts {
  readonly hosts: ReadonlySet<BookedHost>;
  /** The domains that only their own namespace knows. */
  readonly domains: readonly string[];
}

/** The services of a route configuration, each with its place in the order of virtual host names. */
export interface DomainBook {
  /** By host, in the order of the entries. */
  readonly hosts: ReadonlyMap<string, BookedHost>;
  /** Whether the services have no domain in common, as other namespaces than their own see them. */
  readonly disjoint: boolean;
  /** All those domains. */
  readonly domains: ReadonlySet<string>;
}

export interface BookedHost {
  readonly entry: ServicePortEntry;
  /** Of its virtual host: `host:port`. */
  readonly name: string;
  /** What clients name as the port. */
  readonly port: number;
  /** As those see it who have no services of their own. */
  readonly domains: readonly string[];
  /** Place of the name among the names of all, in code-unit order. */
  readonly place: number;
}

const books = new WeakMap<readonly ServicePortEntry[], Map<string, DomainBook>>();

/** @param port what clients address; 0 where that is each service's own port */
export function domainBook(entries: readonly ServicePortEntry[], port: number, viewer: Viewer): DomainBook {
  const known = books.get(entries) ?? new Map<string, DomainBook>();
  books.set(entries, known);
  const key = `${port}${viewer.shared}`;
  let book = known.get(key);
  if (book === undefined) {
    book = makeBook(entries, port, foreignViewer(viewer));
    known.set(key, book);
  }
  return book;
}

function makeBook(entries: readonly ServicePortEntry[], port: number, viewer: Viewer): DomainBook {
  const hosts = new Map<string, BookedHost>();
  const domains = new Set<string>();
  let disjoint = true;
  const names = entries.map(({ service, port: { port: own } }) => `${service.hostname}:${port || own}`);
  const places = new Map(names.toSorted().map((name, place) => [name, place]));
  for (const [index, entry] of entries.entries()) {
    const { service } = entry;
    const name = names[index] ?? '';
    const clientPort = port || entry.port.port;
    const before = domains.size;
    const claimed = serviceDomains(service, clientPort, viewer);
    hosts.set(service.hostname, { entry, name, port: clientPort, domains: claimed, place: places.get(name) ?? 0 });
    for (const domain of claimed) domains.add(domain);
    disjoint &&= domains.size === before + claimed.length;
  }
  return { hosts, disjoint, domains };
}

const ownHostsOfBooks = new WeakMap<DomainBook, Map<string, OwnHosts>>();

/** The viewer's own services of a book. */
export function ownHosts(book: DomainBook, viewer: Viewer): OwnHosts {
  const known = ownHostsOfBooks.get(book) ?? new Map<string, OwnHosts>();
  ownHostsOfBooks.set(book, known);
  let own = known.get(viewer.own);
  if (own === undefined) {
    const hosts = [...book.hosts.values()].filter(({ entry }) => isOwn(entry.service, viewer));
    const domains = hosts.flatMap(({ entry, port, domains: ofAll }) =>
      serviceDomains(entry.service, port, viewer).filter((domain) => !ofAll.includes(domain)),
    );
    own = { hosts: new Set(hosts), domains };
    known.set(viewer.own, own);
  }
  return own;
}
