/**
 * What one proxy should have, beside what another proxy should have, what it should have had some minutes ago, or what
 * its Envoy has.
 */
import { useState } from 'preact/hooks';
import { differences as dumpDifferences } from '../../src/cli/config-dump/difference.ts';
import {
  type ConfigDump,
  type Section as DumpSection,
  readDump,
  textOf,
  at as valueAt,
} from '../../src/cli/config-dump/dump.ts';
import type { ProxyDifference, ProxyResource } from '../../src/debug/shapes.ts';
import { Refused, readJson, useJson } from '../api.ts';
import { clock, count, plural, span } from '../format.ts';
import { address, setFilters } from '../location.ts';
import { Copy, Empty, Section, Source, Table, Waiting } from '../parts/basics.tsx';
import { differences } from '../text/differences.ts';

/** An address of the view of the proxy, with the same comparison. */
export type To = (parameters: Readonly<Record<string, string>>) => string;

/** What is compared with. */
export interface Other {
  readonly name: string;
  /** `versus=…` or `at=…`, which makes a list a difference. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Where a resource of the other side is read. */
  readonly path: string;
}

/** Undefined: nothing is compared. */
export function otherOf(id: string, versus: string, at: string): Other | undefined {
  if (versus !== '') {
    return { name: versus, parameters: { versus }, path: address('/debug/proxyz', { proxyID: versus }) };
  }
  if (at === '') return undefined;
  const path = address('/debug/proxyz', { proxyID: id, at });
  return { name: clock(Number(at)), parameters: { at }, path };
}

const ANOTHER = 'another';
const ENVOY = 'envoy';

export function Compare(props: {
  id: string;
  nodeId: string;
  versus: string;
  at: string;
  moments: readonly number[];
  to: To;
}) {
  const { id, nodeId, versus, at, moments, to } = props;
  const [wantsEnvoy, setWantsEnvoy] = useState(false);
  const chosen = wantsEnvoy ? ENVOY : at === '' ? ANOTHER : at;
  const choose = (value: string): void => {
    setWantsEnvoy(value === ENVOY);
    setFilters({ at: value === ENVOY || value === ANOTHER ? '' : value, versus: '', name: '' });
  };
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    setFilters({ versus: String(new FormData(form).get('versus') ?? '').trim(), at: '', name: '' });
  };
  return (
    <>
      <form class="filter" onSubmit={submit}>
        <label>
          Compare with
          <select value={chosen} onChange={({ currentTarget }) => choose(currentTarget.value)}>
            <option value={ANOTHER}>another proxy</option>
            {moments.map((moment) => (
              <option key={moment} value={String(moment)}>
                {clock(moment)}, {span((Date.now() - moment) / 1000)} ago
              </option>
            ))}
            <option value={ENVOY}>what its Envoy has</option>
          </select>
        </label>
        {chosen === ANOTHER && (
          <>
            <label>
              Proxy
              <input type="search" name="versus" placeholder="pod.namespace" defaultValue={versus} />
            </label>
            <button type="submit">Compare</button>
          </>
        )}
        {at !== '' && (
          <button type="button" onClick={() => choose(ANOTHER)}>
            Show all again
          </button>
        )}
      </form>
      {wantsEnvoy && <ComparedEnvoy id={id} nodeId={nodeId} to={to} />}
    </>
  );
}

/** The fields of one resource that differ. */
export function ComparedResource({ path, other, content }: { path: string; other: Other; content: unknown }) {
  const loaded = useJson<ProxyResource>(path);
  if (loaded.error instanceof Refused && loaded.error.status === 404) {
    return <Section title={`Compared with ${other.name}`}>{<Empty>The resource is not there.</Empty>}</Section>;
  }
  if (loaded.data === undefined) return <Waiting of={loaded} />;
  const found = differences(content, loaded.data.content);
  return (
    <Section title={`Compared with ${other.name}`}>
      {found.length === 0 ? (
        <Empty>Both are the same.</Empty>
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

/** The resources of a type that differ. */
export function ComparedType({ base, type, other, to }: { base: string; type: string; other: Other; to: To }) {
  const path = `${base}&${new URLSearchParams({ type, ...other.parameters })}`;
  const loaded = useJson<ProxyDifference>(path);
  const { data } = loaded;
  const groups = [
    ['Different', 'changed'],
    ['Only here', 'onlyHere'],
    [`Only there (${other.name})`, 'onlyThere'],
  ] as const;
  return (
    <>
      <Waiting of={loaded} />
      {data !== undefined && <p>{plural(data.same, 'resource is', 'resources are')} the same.</p>}
      {data?.askable !== undefined && (
        <p>
          Not asked for yet, and no difference: {count(data.askable.here)} here, {count(data.askable.there)} there.
        </p>
      )}
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

/** The types of the sections of a dump. */
const TYPES: Partial<Readonly<Record<DumpSection, string>>> = {
  clusters: 'cds',
  listeners: 'lds',
  routes: 'rds',
  endpoints: 'eds',
};

/** The dump is read in the browser, and sent nowhere. */
function ComparedEnvoy({ id, nodeId, to }: { id: string; nodeId: string; to: To }) {
  const [state, set] = useState<{ envoy?: ConfigDump; wanted?: ConfigDump; problem?: string }>({});
  const command = `curl -s 'localhost:15000/config_dump?include_eds' > dump.json`;
  const read = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    try {
      const envoy = readDump(JSON.parse(await file.text()));
      set({ envoy, wanted: readDump(await readJson(address('/debug/config_dump', { proxyID: id }))) });
    } catch (error) {
      set({ problem: `${file.name}: ${error instanceof Error ? error.message : String(error)}` });
    }
  };
  const { envoy, wanted, problem } = state;
  const node = textOf(valueAt(envoy?.bootstrap, 'node', 'id'));
  const isOther = node !== '' && node !== nodeId;
  const found = envoy === undefined || wanted === undefined ? undefined : dumpDifferences(wanted, envoy);
  return (
    <Section title="What its Envoy has">
      <p>Whoever may run commands in the Pod reads the configuration of its Envoy there. It stays in this browser.</p>
      <div class="curl">
        <code>{command}</code>
        <Copy text={command} what="command" />
      </div>
      <p>
        <label>
          Configuration dump{' '}
          <input
            type="file"
            accept=".json,application/json"
            onChange={({ currentTarget }) => void read(currentTarget.files?.[0])}
          />
        </label>
      </p>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {isOther && <p class="warn">The dump is of another node: {node}</p>}
      {found?.length === 0 && <Empty>Envoy has what it should have.</Empty>}
      {found !== undefined && found.length > 0 && (
        <Table label="Differences from Envoy" columns={['Resource', 'Difference', 'Fields']}>
          {found.map(({ section, name, kind, fields = [] }) => (
            <tr key={`${section} ${name}`}>
              <th scope="row">
                {kind === 'only in Envoy' ? name : <a href={to({ type: TYPES[section] ?? '', name })}>{name}</a>}{' '}
                <small>{section}</small>
              </th>
              <td>{kind}</td>
              <td class="mono value">{fields.join(', ')}</td>
            </tr>
          ))}
        </Table>
      )}
      <Source paths={[address('/debug/config_dump', { proxyID: id })]} />
    </Section>
  );
}
