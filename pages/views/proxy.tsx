/** One proxy: what it should have, what that was made of, and what differs elsewhere. */
import type { ProxyDetail, ProxyResource, ProxyResources } from '../../src/debug/shapes.ts';
import { LIVE_MS, useJson } from '../api.ts';
import { clock, count } from '../format.ts';
import { address, type Place, setFilters } from '../location.ts';
import { Copy, Empty, Section, Source, State, Table, Tabs, Waiting } from '../parts/basics.tsx';
import { DocumentLink, originText, Pager } from '../parts/lists.tsx';
import { configurationText, OnDemand } from '../parts/on-demand.tsx';
import { yaml } from '../text/yaml.ts';
import { Compare, ComparedResource, ComparedType, type Other, otherOf, type To } from './proxy-comparison.tsx';

const ROWS = 100;

/** The types of what a resource leads to. */
const LEADS_TO: Readonly<Record<string, string>> = { lds: 'rds', rds: 'cds', vhds: 'cds', cds: 'eds' };

/** The clusters that a route configuration or a listener names, in its order. */
function clustersIn(content: unknown, found = new Set<string>()): Set<string> {
  if (typeof content !== 'object' || content === null) return found;
  for (const [key, value] of Object.entries(content)) {
    if (key === 'cluster' && typeof value === 'string') found.add(value);
    else if (key === 'clusters' && Array.isArray(value)) {
      for (const item of value) if (typeof item?.name === 'string') found.add(item.name);
    }
    clustersIn(value, found);
  }
  return found;
}

/** The names that a resource leads to, by type. */
function linksOf(type: string, { refs, content }: ProxyResource): (readonly [type: string, name: string])[] {
  const next = LEADS_TO[type];
  if (next === undefined) return [];
  const clusters = type === 'cds' ? [] : [...clustersIn(content)].map((name) => ['cds', name] as const);
  return [...refs.map((name) => [next, name] as const), ...clusters];
}

function Header({ detail }: { detail: ProxyDetail }) {
  const { proxy, node } = detail;
  const facts = [
    ['Node', proxy.id],
    ['Version', proxy.version],
    ['Service account', node.serviceAccount],
    ['Configuration', configurationText(proxy.configuration)],
    ['Connected', `${clock(proxy.connectedAt)} from ${node.peer}, ${proxy.mode}`],
  ].filter(([, value]) => value !== '');
  return (
    <>
      <p class="states">
        {Object.entries(proxy.types).map(([type, state]) => (
          <State key={type} state={state} of={type} />
        ))}
      </p>
      {proxy.rejection !== undefined && (
        <div class="rejection">
          <span class="bad">rejects {proxy.rejection.resources.join(', ') || `a ${proxy.rejection.type}`}</span> since{' '}
          {clock(proxy.rejection.at)}
          <q>{proxy.rejection.message}</q>
        </div>
      )}
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function List(props: { base: string; type: string; query: URLSearchParams; to: To; askable: number | undefined }) {
  const { base, type, query, to, askable } = props;
  const start = Number(query.get('start') ?? 0) || 0;
  const isAskable = query.get('askable') ?? '';
  const search = { type, search: query.get('search') ?? '', start: String(start) };
  const path = `${base}&${new URLSearchParams({ ...search, ...(isAskable && { askable: isAskable }) })}`;
  const loaded = useJson<ProxyResources>(path, LIVE_MS);
  const { data } = loaded;
  return (
    <>
      <search class="filter">
        <label>
          Search
          <input
            type="search"
            value={query.get('search') ?? ''}
            onInput={({ currentTarget }) => setFilters({ search: currentTarget.value, start: '' })}
          />
        </label>
        {askable !== undefined && (
          <label>
            On demand
            <select
              value={isAskable}
              onChange={({ currentTarget }) => setFilters({ askable: currentTarget.value, start: '' })}
            >
              <option value="">what it holds</option>
              <option value="true">what it has not asked for ({count(askable)})</option>
            </select>
          </label>
        )}
      </search>
      <Waiting of={loaded} />
      {data !== undefined && data.resources.length === 0 && <Empty>No resource matches.</Empty>}
      {data !== undefined && data.resources.length > 0 && (
        <>
          <Table label="Resources" columns={['Name', '-Version']}>
            {data.resources.map(({ name, version }) => (
              <tr key={name}>
                <th scope="row">
                  <a href={to({ type, name })}>{name}</a>
                </th>
                <td class="mono wide idle">{version}</td>
              </tr>
            ))}
          </Table>
          <Pager start={start} rows={ROWS} shown={data.resources.length} next={data.next} matching={data.matching} />
        </>
      )}
      <Source paths={[path]} />
    </>
  );
}

function Links({ type, resource, to }: { type: string; resource: ProxyResource; to: To }) {
  const links = linksOf(type, resource);
  if (links.length === 0) return null;
  return (
    <Section title="Leads to">
      <ul class="plain">
        {links.map(([next, name]) => (
          <li key={`${next} ${name}`}>
            <a href={to({ type: next, name })}>{name}</a> <small>{next}</small>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function MadeBy({ madeBy }: Pick<ProxyResource, 'madeBy'>) {
  return (
    <Section title="Made by">
      {madeBy.length === 0 && <Empty>No document: it is the same for every mesh with these settings.</Empty>}
      <ul class="plain">
        {madeBy.map(({ key, origin }) => (
          <li key={key}>
            <DocumentLink of={key} /> {origin !== undefined && <small>{originText(origin)}</small>}
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Resource(props: { base: string; type: string; name: string; other: Other | undefined; to: To }) {
  const { base, type, name, other, to } = props;
  const of = new URLSearchParams({ type, name });
  const path = `${base}&${of}`;
  const loaded = useJson<ProxyResource>(path);
  const { data } = loaded;
  const text = data === undefined ? '' : yaml(data.content);
  return (
    <>
      <h2 class="resource-name">
        <a href={to({ type })}>{type}</a> / {name}
      </h2>
      <Waiting of={loaded} />
      {data !== undefined && (
        <>
          <OnDemand of={data.onDemand} />
          <div class="columns">
            <MadeBy madeBy={data.madeBy} />
            <Links type={type} resource={data} to={to} />
          </div>
          {other !== undefined && (
            <ComparedResource path={`${other.path}&${of}`} other={other} content={data.content} />
          )}
          <Section title="Content" note={data.version}>
            <p>
              <Copy text={text} what="YAML" />
            </p>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be scrolled by keyboard */}
            <pre tabIndex={0}>{text}</pre>
          </Section>
        </>
      )}
      <Source paths={[path]} />
    </>
  );
}

export function ProxyView({ query }: Place) {
  const [id = '', type = '', name = '', versus = '', at = ''] = ['id', 'type', 'name', 'versus', 'at'].map(
    (key) => query.get(key) ?? '',
  );
  const base = address('/debug/proxyz', { proxyID: id });
  const loaded = useJson<ProxyDetail>(base, LIVE_MS);
  const { data } = loaded;
  const other = otherOf(id, versus, at);
  const to: To = (parameters) => address('/proxy', { id, ...parameters, versus, at });
  const tabs = (data?.types ?? []).map(
    ({ type: each, noun, resources }) => [to({ type: each }), `${noun}s ${count(resources)}`] as const,
  );
  const shown =
    type === '' ? (data?.types.find((each) => each.type === 'lds')?.type ?? data?.types[0]?.type ?? '') : type;
  const askable = data?.types.find((each) => each.type === shown)?.askable;
  return (
    <>
      <h1>{data?.proxy.proxy ?? id}</h1>
      <Waiting of={loaded} />
      {data !== undefined && (
        <>
          <Header detail={data} />
          <Compare id={id} nodeId={data.proxy.id} versus={versus} at={at} moments={data.moments} to={to} />
          <Tabs label="Types" tabs={tabs} at={to({ type: shown })} />
        </>
      )}
      {shown === '' && data !== undefined && <Empty>It should have nothing yet.</Empty>}
      {shown !== '' && name !== '' && <Resource base={base} type={shown} name={name} other={other} to={to} />}
      {shown !== '' && name === '' && other !== undefined && (
        <ComparedType base={base} type={shown} other={other} to={to} />
      )}
      {shown !== '' && name === '' && other === undefined && (
        <List base={base} type={shown} query={query} to={to} askable={askable} />
      )}
    </>
  );
}
