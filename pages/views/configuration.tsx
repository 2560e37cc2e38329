/** The configuration: what is in force, what was refused, and what was found wrong. */
import type { Origin } from '../../src/debug/shapes.ts';
import { type Loaded, Refused, useJson } from '../api.ts';
import { count, plural } from '../format.ts';
import { address, type Place, setFilters } from '../location.ts';
import { Copy, Empty, Section, Source, Table, Tabs, Waiting } from '../parts/basics.tsx';
import { originText, Pager, SHOWN_KINDS } from '../parts/lists.tsx';
import { yaml } from '../text/yaml.ts';

const TABS = [
  ['/configuration', 'In force'],
  ['/configuration?show=refused', 'Refused'],
  ['/configuration?show=findings', 'Findings'],
  ['/configuration?show=sources', 'Sources'],
] as const;

const ROWS = 50;
const LIVE_MS = 5000;

interface Problem {
  readonly id: string;
  readonly key?: string;
  readonly field: string;
  readonly message: string;
  readonly origin: Origin;
  readonly inForce?: string;
}

interface Item {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string; readonly labels: object };
  readonly spec: unknown;
  readonly origin: Origin;
  readonly source: string;
  /** In force instead of a refused version. */
  readonly held?: boolean;
  readonly refused?: readonly Problem[];
  readonly warnings?: readonly { readonly field: string; readonly message: string }[];
  readonly others?: readonly unknown[];
}

interface Configz {
  readonly items: readonly Item[];
  readonly next?: number;
  readonly problems: readonly Problem[];
  readonly nameConflicts: readonly { readonly resource: string; readonly message: string }[];
  readonly sources?: readonly {
    readonly id: string;
    readonly cluster: string;
    readonly synced: boolean;
    readonly health: { readonly ok: boolean; readonly reason?: string };
  }[];
}

function Notes({ item }: { item: Item }) {
  const { held, refused = [], warnings = [], others = [] } = item;
  return (
    <>
      {held === true && <p class="warn">The last good version is in force: a newer one was refused.</p>}
      {refused.map(({ field, message }) => (
        <p key={field + message} class="bad">
          {field} {message}
        </p>
      ))}
      {warnings.map(({ field, message }) => (
        <p key={field + message} class="warn">
          {field}: {message}
        </p>
      ))}
      {others.length > 0 && (
        <p class="warn">{plural(others.length, 'other source has', 'other sources have')} it, too.</p>
      )}
    </>
  );
}

function Document({ item }: { item: Item }) {
  const { apiVersion, kind, metadata, spec } = item;
  const key = `${kind}/${metadata.namespace}/${metadata.name}`;
  const filled = Object.entries(metadata).filter(
    ([, value]) => typeof value !== 'object' || Object.keys(value).length > 0,
  );
  const text = yaml({ apiVersion, kind, metadata: Object.fromEntries(filled), spec });
  const troubled = item.held === true || item.refused !== undefined;
  return (
    <details class="document">
      <summary>
        <span class={troubled ? 'bad' : item.warnings === undefined ? undefined : 'warn'}>{key}</span>{' '}
        <small>{originText(item.origin)}</small>
        {troubled && <small class="bad"> refused</small>}
        {item.warnings !== undefined && <small class="warn"> {plural(item.warnings.length, 'warning')}</small>}
      </summary>
      <Notes item={item} />
      <p>
        <Copy text={text} what={`YAML of ${key}`} />{' '}
        <a href={address('/debug/why', { config: key })}>Proxies that it affects (JSON)</a>
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be scrolled by keyboard */}
      <pre tabIndex={0}>{text}</pre>
    </details>
  );
}

function InForce({ query }: { query: URLSearchParams }) {
  const start = Number(query.get('start') ?? 0) || 0;
  const [kind, namespace, search] = ['kind', 'namespace', 'search'].map((name) => query.get(name) ?? '');
  const path = address('/debug/configz', { kind, namespace, search, start: start || '', limit: ROWS });
  const loaded = useJson<Configz>(path, LIVE_MS);
  const kinds = useJson<Readonly<Record<string, number>>>('/debug/resourcesz');
  const { data } = loaded;
  return (
    <>
      <search class="filter">
        <label>
          Kind
          <select value={kind} onChange={({ currentTarget }) => setFilters({ kind: currentTarget.value, start: '' })}>
            <option value="">all of the mesh</option>
            {SHOWN_KINDS.map((name) => (
              <option key={name} value={name}>
                {name} {kinds.data && `(${count(kinds.data[name] ?? 0)})`}
              </option>
            ))}
          </select>
        </label>
        <label>
          Namespace
          <input
            type="search"
            class="short"
            value={namespace}
            onInput={({ currentTarget }) => setFilters({ namespace: currentTarget.value, start: '' })}
          />
        </label>
        <label>
          Name
          <input
            type="search"
            class="short"
            value={search}
            onInput={({ currentTarget }) => setFilters({ search: currentTarget.value, start: '' })}
          />
        </label>
      </search>
      <Waiting of={loaded} />
      {data?.items.length === 0 && <Empty>No document matches. Names and namespaces are case-sensitive.</Empty>}
      {data?.items.map((item) => (
        <Document key={`${item.kind}/${item.metadata.namespace}/${item.metadata.name}`} item={item} />
      ))}
      {data !== undefined && (start > 0 || data.next !== undefined) && (
        <Pager start={start} rows={ROWS} shown={data.items.length} next={data.next} />
      )}
      <Source paths={[path]} />
    </>
  );
}

function Problems({ problems }: { problems: readonly Problem[] }) {
  return (
    <Table label="Refused documents" columns={['Where', 'What is wrong']}>
      {problems.map(({ id, key, field, message, origin, inForce }) => (
        <tr key={`${origin.source} ${id}`}>
          <th scope="row">
            {originText(origin)}
            <br />
            <small>{key ?? id}</small>
          </th>
          <td>
            {field !== '' && <code>{field}: </code>}
            {message}
            {inForce !== undefined && (
              <p class="warn">
                {inForce === 'last_good' ? 'Its last good version is in force.' : 'The strictest policy is in force.'}
              </p>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

const NO_ITEMS = '/debug/configz?limit=0';

interface PushStatus {
  readonly findings: Readonly<Record<string, readonly string[]>>;
  readonly refusedPolicies: readonly Problem[];
  readonly failing?: readonly { readonly view: string; readonly failures: number; readonly error: string }[];
}

function RefusedDocuments() {
  const loaded = useJson<Configz>(NO_ITEMS, LIVE_MS);
  const policies = useJson<PushStatus>('/debug/push_status', LIVE_MS);
  const inForce = new Map(policies.data?.refusedPolicies.map(({ id, inForce: what }) => [id, what]));
  const problems = loaded.data?.problems.map((problem) => {
    const what = inForce.get(problem.id);
    return what === undefined ? problem : { ...problem, inForce: what };
  });
  return (
    <>
      <Waiting of={loaded} />
      {problems?.length === 0 && <Empty>No document is refused.</Empty>}
      {problems !== undefined && problems.length > 0 && <Problems problems={problems} />}
      <Source paths={[NO_ITEMS, '/debug/push_status']} />
    </>
  );
}

interface Analysis {
  readonly findings: readonly {
    readonly code: string;
    readonly level: string;
    readonly name: string;
    readonly message: string;
    readonly resource: { readonly kind: string; readonly namespace: string; readonly name: string };
    readonly origin: string;
    readonly documentation: string;
  }[];
}

interface Withheld {
  readonly withheld: readonly {
    readonly type: string;
    readonly name: string;
    readonly proxy: string;
    readonly message: string;
  }[];
}

/** A program without this page does not have the feature. */
function isAbsent({ error }: Loaded<unknown>): boolean {
  return error instanceof Refused && error.status === 404;
}

function Analyzed() {
  // The whole mesh is read for it: when somebody asks, not every few seconds.
  const loaded = useJson<Analysis>('/debug/analysisz');
  if (isAbsent(loaded)) return null;
  const findings = loaded.data?.findings ?? [];
  return (
    <Section title="Analysis">
      <Waiting of={loaded} />
      {loaded.data !== undefined && (
        <button type="button" onClick={loaded.reload}>
          Analyze again
        </button>
      )}
      {loaded.data !== undefined && findings.length === 0 && <Empty>Nothing was found.</Empty>}
      {findings.length > 0 && (
        <Table label="Analysis" columns={['Code', 'Resource', 'Finding']}>
          {findings.map(({ code, level, name, message, resource, origin, documentation }) => (
            <tr key={`${code}${resource.kind}/${resource.namespace}/${resource.name}${message}`}>
              <th scope="row">
                <a href={documentation}>{code}</a> <small>{name}</small>
              </th>
              <td>
                {resource.kind}/{resource.namespace}/{resource.name}
                <br />
                <small>{origin}</small>
              </td>
              <td class={level === 'Error' ? 'bad' : level === 'Warning' ? 'warn' : undefined}>{message}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function WithheldResources() {
  const loaded = useJson<Withheld>('/debug/withheldz', LIVE_MS);
  if (isAbsent(loaded)) return null;
  const withheld = loaded.data?.withheld ?? [];
  return (
    <Section title="Withheld resources">
      <Waiting of={loaded} />
      {loaded.data !== undefined && withheld.length === 0 && <Empty>No resource is withheld from proxies.</Empty>}
      {withheld.length > 0 && (
        <Table label="Withheld resources" columns={['Resource', 'Rejected by', 'Message']}>
          {withheld.map(({ type, name, proxy, message }) => (
            <tr key={`${type} ${name} ${proxy}`}>
              <th scope="row">
                {type} {name}
              </th>
              <td>{proxy}</td>
              <td class="mono">{message}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function Findings() {
  const loaded = useJson<PushStatus>('/debug/push_status', LIVE_MS);
  const configz = useJson<Configz>(NO_ITEMS, LIVE_MS);
  const findings = Object.entries(loaded.data?.findings ?? {});
  const failing = loaded.data?.failing ?? [];
  const conflicts = configz.data?.nameConflicts ?? [];
  return (
    <>
      <Waiting of={loaded} />
      {failing.length > 0 && (
        <Section title="Views that cannot be generated">
          <Table label="Views that cannot be generated" columns={['View', 'Error', '#Attempts']}>
            {failing.map(({ view, failures, error }) => (
              <tr key={view}>
                <th scope="row">{view}</th>
                <td class="bad">{error}</td>
                <td class="number">{failures}</td>
              </tr>
            ))}
          </Table>
        </Section>
      )}
      <Analyzed />
      <WithheldResources />
      <Section title="Generation">
        {loaded.data !== undefined && findings.length === 0 && <Empty>Generation found nothing wrong.</Empty>}
        {findings.map(([metric, messages]) => (
          <div key={metric}>
            <h3>{metric}</h3>
            <ul class="plain">
              {messages.map((message) => (
                <li key={message}>{message}</li>
              ))}
            </ul>
          </div>
        ))}
      </Section>
      <Section title="Name conflicts">
        {conflicts.length === 0 && <Empty>No name is claimed twice.</Empty>}
        <ul class="plain">
          {conflicts.map(({ resource, message }) => (
            <li key={resource + message}>{message}</li>
          ))}
        </ul>
      </Section>
      <Source paths={['/debug/push_status', NO_ITEMS]} />
    </>
  );
}

function Sources() {
  const loaded = useJson<Configz>(NO_ITEMS, LIVE_MS);
  const sources = loaded.data?.sources ?? [];
  return (
    <>
      <Waiting of={loaded} />
      {loaded.data !== undefined && sources.length === 0 && <Empty>No source is shown to this caller.</Empty>}
      {sources.length > 0 && (
        <Table label="Sources" columns={['Source', 'Cluster', 'State']}>
          {sources.map(({ id, cluster, synced, health }) => (
            <tr key={id}>
              <th scope="row">{id}</th>
              <td>{cluster}</td>
              <td class={health.ok && synced ? 'good' : 'bad'}>
                {synced ? (health.ok ? 'current' : health.reason) : 'not read yet'}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Source paths={[NO_ITEMS]} />
    </>
  );
}

const SHOWN = { refused: RefusedDocuments, findings: Findings, sources: Sources } as const;

export function ConfigurationView({ query }: Place) {
  const show = query.get('show') ?? '';
  const Shown = Object.hasOwn(SHOWN, show) ? SHOWN[show as keyof typeof SHOWN] : undefined;
  return (
    <>
      <h1>Configuration</h1>
      <Tabs label="Configuration" tabs={TABS} at={address('/configuration', { show })} />
      {Shown === undefined ? <InForce query={query} /> : <Shown />}
    </>
  );
}
