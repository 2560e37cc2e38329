/** The last log lines of the program, as they are written. */
import { useState } from 'preact/hooks';
import type { RecentEvent } from '../../src/observe/recent/shapes.ts';
import { LIVE_MS, useJson } from '../api.ts';
import { clock } from '../format.ts';
import { type Place, setFilters } from '../location.ts';
import { Empty, Source, Table, Waiting } from '../parts/basics.tsx';

const PATH = '/debug/eventsz';

/** From the mildest on. */
const LEVELS = ['debug', 'info', 'warn', 'error'];

const KINDS: Readonly<Record<string, string>> = { warn: 'warn', error: 'bad', fatal: 'bad' };

function isShown({ level, scope, message }: RecentEvent, least: string, search: string): boolean {
  const rank = LEVELS.indexOf(level);
  if (rank >= 0 && rank < LEVELS.indexOf(least)) return false;
  return search === '' || `${scope} ${message}`.toLowerCase().includes(search);
}

export function EventsView({ query }: Place) {
  const [paused, setPaused] = useState(false);
  const loaded = useJson<{ events: readonly RecentEvent[] }>(paused ? '' : PATH, LIVE_MS);
  const [least, search] = [query.get('level') ?? 'debug', query.get('search') ?? ''];
  const events = loaded.data?.events ?? [];
  const shown = events.filter((event) => isShown(event, least, search.toLowerCase()));
  return (
    <>
      <h1>Events</h1>
      <search class="filter">
        <label>
          Search
          <input
            type="search"
            placeholder="log scope or text"
            value={search}
            onInput={({ currentTarget }) => setFilters({ search: currentTarget.value })}
          />
        </label>
        <label>
          From level
          <select value={least} onChange={({ currentTarget }) => setFilters({ level: currentTarget.value })}>
            {LEVELS.map((level) => (
              <option key={level} value={level}>
                {level}
              </option>
            ))}
          </select>
        </label>
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? 'Continue' : 'Pause'}
        </button>
      </search>
      <Waiting of={loaded} />
      {loaded.data !== undefined && shown.length === 0 && (
        <Empty>
          {events.length === 0 ? 'Nothing was logged since the program serves proxies.' : 'No line matches the filter.'}
        </Empty>
      )}
      {shown.length > 0 && (
        <Table label="Events" columns={['Time', 'Level', 'Scope', 'Message']}>
          {shown.map(({ number, at, level, scope, message }) => (
            <tr key={number}>
              <td class="number">{clock(at)}</td>
              <td class={KINDS[level]}>{level}</td>
              <td>{scope}</td>
              <td class="mono value">{message}</td>
            </tr>
          ))}
        </Table>
      )}
      <Source paths={[PATH]} />
    </>
  );
}
