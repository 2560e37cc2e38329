/** One proxy: what it should have, what that was made of, and what differs from another proxy. */
import type { ProxyDetail, ProxyDifference, ProxyResource, ProxyResources } from '../../src/debug/shapes.ts';
import { LIVE_MS, useJson } from '../api.ts';
import { clock, count, plural } from '../format.ts';
import { address, type Place, setFilters } from '../location.ts';
import { Copy, Empty, Section, Source, State, Table, Tabs, Waiting } from '../parts/basics.tsx';
import { DocumentLink, originText, Pager } from '../parts/lists.tsx';
import { differences } from '../text/differences.ts';
import { yaml } from '../text/yaml.ts';

const ROWS = 100;

/** An address of this view: of the same proxy, with the same comparison. */
type To = (parameters: Readonly<Record<string, string>>) => string;

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

function List({ base, type, query, to }: { base: string; type: string; query: URLSearchParams; to: To }) {
  const start = Number(query.get('start') ?? 0) || 0;
  const path = `${base}&${new URLSearchParams({ type, search: query.get('search') ?? '', start: String(start) })}`;
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

function Compared({ path, versus, content }: { path: string; versus: string; content: unknown }) {
  const loaded = useJson<ProxyResource>(path);
  if (loaded.data === undefined) return <Waiting of={loaded} />;
  const found = differences(content, loaded.data.content);
  return (
    <Section title={`Compared with ${versus}`}>
      {found.length === 0 ? (
        <Empty>Both have the same.</Empty>
      ) : (
        <Table label="Differences" columns={['Field', 'Here', 'There']}>
          {found.map(({ path: field, here, there }) => (
            <tr key={field}>
              <th scope="row">{field}</th>
              <td class="mono value">{here === undefined ? '–' : JSON.stringify(here)}</td>
              <td class="mono value">{there === undefined ? '–' : JSON.stringify(there)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function Resource(props: { base: string; type: string; name: string; versus: string; to: To }) {
  const { base, type, name, versus, to } = props;
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
          <div class="columns">
            <MadeBy madeBy={data.madeBy} />
            <Links type={type} resource={data} to={to} />
          </div>
          {versus !== '' && (
            <Compared
              path={`${address('/debug/proxyz', { proxyID: versus })}&${of}`}
              versus={versus}
              content={data.content}
            />
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

function Difference({ base, type, versus, to }: { base: string; type: string; versus: string; to: To }) {
  const path = `${base}&${new URLSearchParams({ type, versus })}`;
  const loaded = useJson<ProxyDifference>(path);
  const { data } = loaded;
  const groups = [
    ['Different', 'changed'],
    ['Only here', 'onlyHere'],
    [`Only ${versus}`, 'onlyThere'],
  ] as const;
  return (
    <>
      <Waiting of={loaded} />
      {data !== undefined && <p>{plural(data.same, 'resource is', 'resources are')} the same.</p>}
      {data !== undefined &&
        groups.map(([title, group]) => (
          <Section key={group} title={`${title}: ${count(data.counts[group])}`}>
            <ul class="plain">
              {data[group].map((name) => (
                <li key={name}>{group === 'onlyThere' ? name : <a href={to({ type, name })}>{name}</a>}</li>
              ))}
            </ul>
          </Section>
        ))}
      <Source paths={[path]} />
    </>
  );
}

function Compare({ versus }: { versus: string }) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    setFilters({ versus: String(new FormData(form).get('versus') ?? '').trim(), name: '' });
  };
  return (
    <form class="filter" onSubmit={submit}>
      <label>
        Compare with
        <input type="search" name="versus" placeholder="pod.namespace" defaultValue={versus} />
      </label>
      <button type="submit">Compare</button>
    </form>
  );
}

export function ProxyView({ query }: Place) {
  const [id = '', type = '', name = '', versus = ''] = ['id', 'type', 'name', 'versus'].map(
    (key) => query.get(key) ?? '',
  );
  const base = address('/debug/proxyz', { proxyID: id });
  const loaded = useJson<ProxyDetail>(base, LIVE_MS);
  const { data } = loaded;
  const to: To = (parameters) => address('/proxy', { id, ...parameters, versus });
  const tabs = (data?.types ?? []).map(
    ({ type: each, noun, resources }) => [to({ type: each }), `${noun}s ${count(resources)}`] as const,
  );
  const shown =
    type === '' ? (data?.types.find((each) => each.type === 'lds')?.type ?? data?.types[0]?.type ?? '') : type;
  return (
    <>
      <h1>{data?.proxy.proxy ?? id}</h1>
      <Waiting of={loaded} />
      {data !== undefined && (
        <>
          <Header detail={data} />
          <Compare versus={versus} />
          <Tabs label="Types" tabs={tabs} at={to({ type: shown })} />
        </>
      )}
      {shown === '' && data !== undefined && <Empty>It should have nothing yet.</Empty>}
      {shown !== '' && name !== '' && <Resource base={base} type={shown} name={name} versus={versus} to={to} />}
      {shown !== '' && name === '' && versus !== '' && <Difference base={base} type={shown} versus={versus} to={to} />}
      {shown !== '' && name === '' && versus === '' && <List base={base} type={shown} query={query} to={to} />}
    </>
  );
}
