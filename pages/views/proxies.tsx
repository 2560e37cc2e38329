/** All proxies: their states by type, and what they reject. */
import type { ProxyPage, ProxyRow, SyncState } from '../../src/debug/shapes.ts';
import { LIVE_MS, useJson } from '../api.ts';
import { clock, count, span } from '../format.ts';
import { address, type Place, setFilters } from '../location.ts';
import { Empty, Source, State, Table, Waiting } from '../parts/basics.tsx';
import { Pager } from '../parts/lists.tsx';
import { ConfigurationCell } from '../parts/on-demand.tsx';

const STATES: readonly SyncState[] = ['SYNCED', 'STALE', 'REJECTED', 'NOT SENT'];
const ROWS = 100;

function Row({ row }: { row: ProxyRow }) {
  const { rejection } = row;
  return (
    <>
      <tr>
        <th scope="row">
          <a href={address('/proxy', { id: row.id })} title={row.id}>
            {row.proxy}
          </a>
        </th>
        <td>
          <State state={row.state} />
        </td>
        <td class="states">
          {Object.entries(row.types).map(([type, state]) => (
            <State key={type} state={state} of={type} />
          ))}
        </td>
        <td class="wide">{row.type}</td>
        <td class="wide">
          <ConfigurationCell of={row.configuration} />
        </td>
        <td>{row.version}</td>
        <td class="number wide" title={clock(row.connectedAt)}>
          {span((Date.now() - row.connectedAt) / 1000)}
        </td>
      </tr>
      {rejection !== undefined && (
        <tr class="more">
          <td colSpan={7}>
            <span class="bad">rejects {rejection.resources.join(', ') || `a ${rejection.type}`}</span> since{' '}
            {clock(rejection.at)}
            <q>{rejection.message}</q>
          </td>
        </tr>
      )}
    </>
  );
}

function Filter({ query, page }: { query: URLSearchParams; page: ProxyPage | undefined }) {
  const wanted = query.get('state') ?? '';
  return (
    <search class="filter">
      <label>
        Search
        <input
          type="search"
          placeholder="name, node id, version, rejection"
          value={query.get('search') ?? ''}
          onInput={({ currentTarget }) => setFilters({ search: currentTarget.value, start: '' })}
        />
      </label>
      <label>
        State
        <select value={wanted} onChange={({ currentTarget }) => setFilters({ state: currentTarget.value, start: '' })}>
          <option value="">all{page && ` (${count(page.counts.total)})`}</option>
          {STATES.map((state) => (
            <option key={state} value={state}>
              {state.toLowerCase()}
              {page && ` (${count(page.counts[state])})`}
            </option>
          ))}
        </select>
      </label>
    </search>
  );
}

export function ProxiesView({ query }: Place) {
  const start = Number(query.get('start') ?? 0) || 0;
  const parameters = { search: query.get('search') ?? '', state: query.get('state') ?? '', start: start || '' };
  const path = address('/debug/proxiesz', parameters);
  const loaded = useJson<ProxyPage>(path, LIVE_MS);
  const { data } = loaded;
  return (
    <>
      <h1>Proxies</h1>
      <Filter query={query} page={data} />
      <Waiting of={loaded} />
      {data !== undefined && data.proxies.length === 0 && (
        <Empty>
          {data.counts.total === 0 ? 'No proxy is connected.' : 'No proxy matches. Clear the filter to see all.'}
        </Empty>
      )}
      {data !== undefined && data.proxies.length > 0 && (
        <>
          <Table
            label="Proxies"
            columns={['Proxy', 'State', 'Types', '-Kind', '-Configuration', 'Version', '#-Connected for']}
          >
            {data.proxies.map((row) => (
              <Row key={row.connection} row={row} />
            ))}
          </Table>
          <Pager start={start} rows={ROWS} shown={data.proxies.length} next={data.next} matching={data.matching} />
        </>
      )}
      <Source paths={[path]} />
    </>
  );
}
