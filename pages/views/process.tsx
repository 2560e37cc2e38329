/** What the process is: version, flags, variables, memory, metrics. The addresses are those of Istio's ControlZ. */
import { useState } from 'preact/hooks';
import { LIVE_MS, put, readText, useJson } from '../api.ts';
import { count } from '../format.ts';
import { type Place, setFilters } from '../location.ts';
import { Empty, Source, Table, Tabs, Waiting } from '../parts/basics.tsx';

/** Titles by path; the JSON of `/<topic>z` is at `/<topic>j`. */
export const TOPICS: Readonly<Record<string, string>> = {
  '/procz': 'Process',
  '/memz': 'Memory',
  '/flagz': 'Flags',
  '/envz': 'Variables',
  '/argz': 'Arguments',
  '/versionz': 'Version',
  '/metricz': 'Metrics',
  '/signalz': 'Signals',
};

/** The topics whose values change. */
const LIVE: ReadonlySet<string> = new Set(['/procz', '/memz', '/metricz']);

/** The most lines of metrics that are shown. */
const MAX_LINES = 500;

type Fact = readonly [name: string, value: unknown];

/** Names and values of nested JSON: `heap.used_heap_size`. */
function factsOf(value: unknown, prefix = ''): Fact[] {
  if (typeof value !== 'object' || value === null) return [[prefix, value]];
  if (Array.isArray(value)) {
    const named = value.every((item) => typeof item === 'object' && item !== null && 'name' in item);
    if (!named) return value.map((item, index) => [prefix === '' ? String(index) : prefix, item]);
    return value.map(({ name, ...rest }) => [name, Object.values(rest).join(', ')]);
  }
  return Object.entries(value).flatMap(([name, item]) => factsOf(item, prefix === '' ? name : `${prefix}.${name}`));
}

function shown(value: unknown): string {
  return typeof value === 'number' ? count(value) : String(value);
}

function Facts({ label, facts }: { label: string; facts: readonly Fact[] }) {
  if (facts.length === 0) return <Empty>None is set.</Empty>;
  return (
    <Table label={label} columns={['Name', 'Value']}>
      {facts.map(([name, value]) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td class="mono value">{shown(value)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** A button that asks once more before it acts. */
function Action(props: { path: string; text: string; sure: string; done: string }) {
  const [state, set] = useState<'idle' | 'asking' | 'done' | string>('idle');
  const act = async (): Promise<void> => {
    try {
      await put(props.path);
      set('done');
    } catch (error) {
      set(String(error));
    }
  };
  return (
    <p>
      {state === 'asking' ? (
        <>
          {props.sure}{' '}
          <button type="button" onClick={() => void act()}>
            Yes, {props.text.toLowerCase()}
          </button>{' '}
          <button type="button" onClick={() => set('idle')}>
            No
          </button>
        </>
      ) : (
        <button type="button" onClick={() => set('asking')}>
          {props.text}
        </button>
      )}{' '}
      <span role="status">{state === 'done' ? props.done : state.startsWith('Error') ? state : ''}</span>
    </p>
  );
}

function Metrics({ query }: Place) {
  const loaded = useJson<string>('/metrics', LIVE_MS * 2, readText);
  const search = (query.get('search') ?? '').toLowerCase();
  const lines = (loaded.data ?? '').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const matching = lines.filter((line) => line.toLowerCase().includes(search));
  return (
    <>
      <search class="filter">
        <label>
          Search
          <input
            type="search"
            value={query.get('search') ?? ''}
            onInput={({ currentTarget }) => setFilters({ search: currentTarget.value })}
          />
        </label>
      </search>
      <Waiting of={loaded} />
      {loaded.data !== undefined && (
        <Facts label="Metrics" facts={matching.slice(0, MAX_LINES).map((line) => splitLine(line))} />
      )}
      {matching.length > MAX_LINES && <Empty>{count(matching.length - MAX_LINES)} more: search for a part.</Empty>}
      <Source paths={['/metrics']} />
    </>
  );
}

function splitLine(line: string): Fact {
  const end = line.lastIndexOf(' ');
  return [line.slice(0, end), Number(line.slice(end + 1))];
}

function Topic({ path }: { path: string }) {
  const json = path.replace(/z$/, 'j');
  const loaded = useJson<unknown>(json, LIVE.has(path) ? LIVE_MS : 0);
  return (
    <>
      <Waiting of={loaded} />
      {loaded.data !== undefined && <Facts label={TOPICS[path] ?? ''} facts={factsOf(loaded.data)} />}
      {path === '/memz' && (
        <Action
          path="/memj/forcecollection"
          text="Collect garbage"
          sure="Pushes wait until it is done."
          done="Garbage was collected."
        />
      )}
      {path === '/signalz' && (
        <Action
          path="/signalj/SIGTERM"
          text="End the program"
          sure="Proxies connect to another replica, or wait for the next start."
          done="The program drains its streams and ends."
        />
      )}
      <Source paths={[json]} />
    </>
  );
}

export function ProcessView(place: Place) {
  const { path } = place;
  return (
    <>
      <h1>{TOPICS[path]}</h1>
      <Tabs label="Process" tabs={Object.entries(TOPICS)} at={path} />
      {path === '/metricz' ? <Metrics {...place} /> : <Topic path={path} />}
    </>
  );
}
