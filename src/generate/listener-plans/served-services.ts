/** The services of a listener, and their order of precedence. */
import type { Memos } from '../../core/memo.ts';
import { compareCreated, compareText, type Service } from '../../model/index.ts';
import { isHttp, protocolKind } from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import type { Services } from '../reads/index.ts';
import type { HttpTarget } from './plan-types.ts';

type Entries = readonly ServicePortEntry[];

/**
 * The service port for a listener at `port`: the one with this number, else the only one. For HTTP listeners, only
 * ports without another declared protocol are used; for a unix domain socket (0), the first of them.
 */
export function servedAs(service: Service, port: number, http: boolean): ServicePortEntry | undefined {
  const usable = service.ports.filter(({ protocol }) =>
    http ? isHttp(protocol) || protocol === 'Unsupported' : protocol !== 'UDP',
  );
  const found = usable.find((candidate) => candidate.port === port);
  const only = usable.length === 1 || (http && port === 0) ? usable[0] : undefined;
  const served = found ?? only;
  return served === undefined ? undefined : { service, port: served };
}

/**
 * Those of the services of a port that serve HTTP: one list for all listeners with the same services, because indexes
 * of their domains are cached by it.
 * @param sniff whether protocols are detected
 */
export function httpEntries(memos: Memos, entries: Entries, sniff: boolean): Entries {
  const name = sniff ? 'HTTP or undeclared services of ports' : 'HTTP services of ports';
  return memos.weak<Entries, Entries>(name).get(entries, () => {
    const http = entries.filter(({ port }) => protocolKind(port.protocol, sniff) !== 'tcp');
    return http.length === entries.length ? entries : http;
  });
}

/**
 * What an HTTP listener of a Sidecar serves at its port. Mostly these are the services that listeners without a Sidecar
 * have at the port: then it is the list of {@link httpEntries}.
 */
export function ownHttpEntries(memos: Memos, services: Services, port: number, sniff: boolean): Entries {
  const known = memos.weak<Services, Map<number, Entries>>('HTTP services of own ports').get(services, () => new Map());
  let entries = known.get(port);
  if (entries === undefined) {
    const ofPort = httpEntries(memos, services.onPort(port), sniff);
    entries = isOfAll(ofPort, services) ? ofPort : ownEntries(services, port, ofPort);
    known.set(port, entries);
  }
  return entries;
}

/** Whether each service has one of these. */
function isOfAll(entries: Entries, services: Services): boolean {
  const all = services.all();
  return entries.length === all.length && entries.every(({ service }, index) => service === all[index]?.[1]);
}

/** @param ofPort in place of an equal list */
function ownEntries(services: Services, port: number, ofPort: Entries): Entries {
  const own = services.all().flatMap(([, service]) => servedAs(service, port, true) ?? []);
  return isSame(own, ofPort) ? ofPort : own;
}

function isSame(some: Entries, others: Entries): boolean {
  return (
    some.length === others.length &&
    some.every(({ service, port }, index) => service === others[index]?.service && port === others[index].port)
  );
}

/** What a listener must know of the HTTP services behind it. */
interface HttpTraits extends Pick<HttpTarget, 'grpcWeb' | 'dynamicPort'> {
  /** Namespaces of the headless services. */
  readonly headless: ReadonlySet<string>;
}

export function httpTraits(memos: Memos, entries: Entries): HttpTraits {
  return memos.weak<Entries, HttpTraits>('traits of HTTP services').get(entries, () => {
    const dynamicPort = entries.find(({ service }) => service.resolution === 'dynamic')?.port.port;
    return {
      grpcWeb: entries.some(({ port }) => port.protocol === 'GRPC-Web'),
      ...(dynamicPort !== undefined && { dynamicPort }),
      headless: new Set(entries.flatMap(({ service: { headless, namespace } }) => (headless ? [namespace] : []))),
    };
  });
}

/** Kubernetes Services first, then the oldest: existing services keep their addresses when others are added. */
export function byPrecedence(a: Service, b: Service): number {
  if (a.registry !== b.registry) return a.registry === 'Orchestrator' ? -1 : 1;
  return compareCreated(a.created, b.created) || compareText(a.hostname, b.hostname);
}
