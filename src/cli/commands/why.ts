/**
 * `why SOURCE DESTINATION`: which way a request of a proxy's workload takes, which policies apply, how mutual TLS was
 * decided, and which documents are behind it.
 */
import type { HeldShown } from '../../debug/index.ts';
import { discoveryWhyFlags, flagSettings } from '../../settings/index.ts';
import { debugClient, withLists } from '../debug-client.ts';
import { formatted, table } from '../output/index.ts';
import { type Command, command } from '../program.ts';

interface Shown {
  readonly key: string;
  readonly origin?: { readonly source?: string; readonly file?: string; readonly line?: number };
}

/** `/debug/whyz` */
interface Way {
  readonly source: string;
  readonly destination: {
    readonly host: string;
    readonly port: number;
    readonly path: string;
    readonly service?: string;
  };
  readonly note?: string;
  readonly listener?: { readonly name: string; readonly documents: readonly Shown[] };
  readonly route?: {
    readonly name: string;
    readonly virtualHost?: string;
    readonly match?: string;
    readonly result?: string;
    readonly onlyIf?: readonly { readonly conditions: readonly string[]; readonly clusters: readonly Named[] }[];
    readonly documents: readonly Shown[];
    /** Absent for a proxy that gets everything. */
    readonly onDemand?: HeldShown;
  };
  readonly clusters?: readonly (Named & {
    readonly mutualTls?: string;
    readonly onDemand?: HeldShown;
    readonly documents: readonly Shown[];
  })[];
  /** More clusters than the answer names. */
  readonly clustersOmitted?: number;
  readonly policies: readonly {
    readonly endpoints: number;
    readonly acceptMutualTls: number;
    readonly mutualTls: string;
    readonly peerAuthentications: readonly Shown[];
    readonly requestAuthentications: readonly Shown[];
    readonly authorizationPolicies: readonly Shown[];
  }[];
}

interface Named {
  readonly name: string;
  readonly weight?: number;
}

export function whyCommand(): Command {
  return command({
    name: 'why',
    summary: 'Show the way of a request, the policies that apply, and the documents behind them.',
    flags: discoveryWhyFlags,
    arguments: ['<pod>.<namespace>', '<host>[:<port>][/<path>]'],
    async run({ flags, io }) {
      const { httpAddr, output } = flagSettings(discoveryWhyFlags, flags);
      const [source = '', destination = ''] = flags.positionals;
      const client = await debugClient(httpAddr, io.env);
      const way = withLists<Way>(await client.page('whyz', { source, destination }), client, 'policies');
      io.stdout.write(output === 'table' ? shownWay(way) : await formatted(way, output, () => []));
      return 0;
    },
  });
}

function shownWay(way: Way): string {
  const { source, destination, note, listener, route, clusters = [], clustersOmitted = 0, policies } = way;
  const { host, port, path, service } = destination;
  const rows: string[][] = [
    ['Request:', `${source} -> ${host}:${port}${path}${service === undefined ? '' : ` (service ${service})`}`],
    ...(note === undefined ? [] : [['Note:', note]]),
    ['Listener:', listener?.name ?? 'none'],
    ...indented(listener?.documents ?? []),
  ];
  if (route !== undefined) {
    const { name, virtualHost = 'no virtual host', match = '', result = '', onlyIf = [] } = route;
    rows.push(['Route:', [name, virtualHost, match, result].filter((part) => part !== '').join(' > ')]);
    rows.push(...held(route.onDemand), ...indented(route.documents));
    for (const { conditions, clusters: others } of onlyIf) {
      rows.push(['', `with ${conditions.join(' and ')}: ${others.map(shownCluster).join(', ') || 'another action'}`]);
    }
  }
  for (const cluster of clusters) {
    rows.push(
      ['Cluster:', shownCluster(cluster)],
      ['', `mutual TLS of the client: ${cluster.mutualTls ?? 'no such cluster'}`],
    );
    rows.push(...held(cluster.onDemand), ...indented(cluster.documents));
  }
  if (clustersOmitted > 0) rows.push(['', `${clustersOmitted} more clusters are not shown`]);
  for (const policy of policies) {
    const { endpoints, acceptMutualTls, mutualTls } = policy;
    rows.push(['Destination:', `${acceptMutualTls} of ${endpoints} endpoints accept mutual TLS; mode ${mutualTls}`]);
    rows.push(
      ...indented([...policy.peerAuthentications, ...policy.requestAuthentications, ...policy.authorizationPolicies]),
    );
  }
  return table(rows);
}

const shownCluster = ({ name, weight }: Named): string => (weight === undefined ? name : `${name} (weight ${weight})`);

const held = (shown: HeldShown | undefined): string[][] =>
  (shown?.because ?? []).map((reason) => ['', `on demand: ${reason}`]);

const indented = (all: readonly Shown[]): string[][] => documents(all).map((line) => ['', `by ${line}`]);

function documents(all: readonly Shown[] = []): string[] {
  return all.map(({ key, origin: { source = '', file, line } = {} }) => {
    const where = file === undefined ? source : line === undefined ? file : `${file}:${line}`;
    return where === '' ? key : `${key} (${where})`;
  });
}
