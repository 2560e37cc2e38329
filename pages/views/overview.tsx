/** The state of the program at a glance. */
import type { Overview as OverviewJson, ProblemKind } from '../../src/debug/shapes.ts';
import type { RecentSeries } from '../../src/observe/recent/shapes.ts';
import { LIVE_MS, useJson } from '../api.ts';
import { bytes, count, milliseconds, plural, span } from '../format.ts';
import { address } from '../location.ts';
import { Empty, Section, Source, Table, Waiting } from '../parts/basics.tsx';
import { Chart } from '../parts/chart.tsx';

/** What each problem is, and where its cause is shown. */
const PROBLEMS: Readonly<Record<ProblemKind, readonly [one: string, many: string, href: string]>> = {
  rejectingProxies: ['proxy rejects', 'proxies reject', address('/proxies', { state: 'REJECTED' })],
  withheld: ['resource withheld', 'resources withheld', '/configuration?show=findings'],
  failingViews: ['view cannot be generated', 'views cannot be generated', '/configuration?show=findings'],
  refusedDocuments: ['document refused', 'documents refused', '/configuration?show=refused'],
  refusedPolicies: ['policy refused', 'policies refused', '/configuration?show=refused'],
  staleSources: ['source fails', 'sources fail', '/configuration?show=sources'],
  findings: ['finding of generation', 'findings of generation', '/configuration?show=findings'],
  nameConflicts: ['name conflict', 'name conflicts', '/configuration?show=findings'],
};

/** Conflicts in which one document wins. */
const MILD: ReadonlySet<string> = new Set(['findings', 'nameConflicts']);

function Problems({ problems }: Pick<OverviewJson, 'problems'>) {
  const found = Object.entries(PROBLEMS).filter(([kind]) => problems[kind as ProblemKind] > 0);
  if (found.length === 0) return <Empty>Nothing needs attention.</Empty>;
  return (
    <ul class="tiles">
      {found.map(([kind, [one, many, href]]) => {
        const number = problems[kind as ProblemKind];
        return (
          <li key={kind}>
            <a class={`tile ${MILD.has(kind) ? 'warn' : 'bad'}`} href={href}>
              <b>{count(number)}</b> {number === 1 ? one : many}
            </a>
          </li>
        );
      })}
    </ul>
  );
}

function Proxies({ proxies }: Pick<OverviewJson, 'proxies'>) {
  if (proxies.total === 0) {
    return <Empty>No proxy is connected. Envoys and agents connect to the addresses of --grpcAddr.</Empty>;
  }
  const tiles = [
    ['', '', proxies.total, 'connected'],
    ['SYNCED', 'good', proxies.SYNCED, 'in sync'],
    ['STALE', 'warn', proxies.STALE, 'unacknowledged'],
    ['REJECTED', 'bad', proxies.REJECTED, 'rejecting'],
    ['NOT SENT', 'idle', proxies['NOT SENT'], 'not sent yet'],
  ] as const;
  return (
    <ul class="tiles">
      {tiles.map(([state, kind, number, text]) => (
        <li key={text}>
          <a class={`tile ${number > 0 ? kind : ''}`} href={address('/proxies', { state })}>
            <b>{count(number)}</b> {text}
          </a>
        </li>
      ))}
    </ul>
  );
}

function Charts({ series }: { series: RecentSeries }) {
  const { times } = series;
  const rate = (value: number) => `${value < 10 ? Math.round(value * 10) / 10 : count(Math.round(value))}/s`;
  return (
    <div class="charts">
      <Chart
        title="Convergence"
        times={times}
        shown={milliseconds}
        lines={[
          { name: 'p50', color: '--first', values: series.convergenceP50 },
          { name: 'p99', color: '--second', values: series.convergenceP99 },
        ]}
      />
      <Chart
        title="Pushes"
        times={times}
        shown={rate}
        lines={[{ name: 'responses', color: '--first', values: series.pushesPerSecond }]}
      />
      <Chart
        title="Proxies"
        times={times}
        shown={(value) => (Number.isInteger(value) ? count(value) : '')}
        lines={[{ name: 'connected', color: '--first', values: series.proxies }]}
      />
      <Chart
        title="Memory"
        times={times}
        shown={bytes}
        lines={[
          { name: 'process', color: '--first', values: series.rss },
          { name: 'heap', color: '--second', values: series.heap },
        ]}
      />
    </div>
  );
}

function Program({ program }: { program: NonNullable<OverviewJson['program']> }) {
  const { memory } = program;
  const facts = [
    ['Running for', span(program.uptimeSeconds)],
    ['Snapshot', `version ${program.snapshotVersion}`],
    ['Services', count(program.services)],
    ['Push queue', `${count(program.queued)} waiting, ${count(program.underWay)} under way`],
    ['Views', count(program.views)],
    ['Memory', `${bytes(memory.rss)}, heap ${bytes(memory.heapUsed)} of ${bytes(memory.heapLimit)}`],
  ];
  return (
    <div class="columns">
      <Section title="Program">
        <dl>
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </Section>
      <Section title="Certificates">
        {program.certificates.length === 0 ? (
          <Empty>This program has none.</Empty>
        ) : (
          <dl>
            {program.certificates.map(({ name, expires, days, state }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd class={state}>
                  {days < 0 ? 'expired' : days === 0 ? 'less than a day left' : `${plural(days, 'day')} left`}{' '}
                  <small>{expires.slice(0, 10)}</small>
                </dd>
              </div>
            ))}
          </dl>
        )}
      </Section>
      <Section title="Sources">
        {program.sources.length === 0 ? (
          <Empty>No source is configured: see --configDir and --kubeconfig.</Empty>
        ) : (
          <Table label="Sources" columns={['Source', 'State']}>
            {program.sources.map(({ id, state, staleSeconds }) => (
              <tr key={id}>
                <th scope="row">{id}</th>
                <td class={state === 'current' ? 'good' : 'bad'}>
                  {state}
                  {staleSeconds > 0 && `, stale for ${span(staleSeconds)}`}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Section>
    </div>
  );
}

export function OverviewView() {
  const state = useJson<OverviewJson>('/debug/overviewz', LIVE_MS);
  const recent = useJson<Partial<RecentSeries>>('/debug/seriesz', LIVE_MS * 5);
  const { data } = state;
  return (
    <>
      <h1>Overview</h1>
      <Waiting of={state} />
      {data !== undefined && (
        <>
          <Section title="Proxies">
            <Proxies proxies={data.proxies} />
          </Section>
          <Section title="Attention">
            <Problems problems={data.problems} />
          </Section>
          {recent.data?.times !== undefined && (
            <Section title="Last 30 minutes">
              <Charts series={recent.data as RecentSeries} />
            </Section>
          )}
          {data.program !== undefined && <Program program={data.program} />}
        </>
      )}
      <Source paths={['/debug/overviewz', '/debug/seriesz']} />
    </>
  );
}
