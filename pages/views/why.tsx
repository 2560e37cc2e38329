/** The way of a request: its listener, route, clusters and policies, and the documents behind each of them. */
import type { HeldShown, Origin } from '../../src/debug/shapes.ts';
import { useJson } from '../api.ts';
import { plural } from '../format.ts';
import { address, type Place, setFilters } from '../location.ts';
import { Empty, Section, Source, Waiting } from '../parts/basics.tsx';
import { DocumentLink, originText } from '../parts/lists.tsx';
import { OnDemand } from '../parts/on-demand.tsx';

type Documents = readonly { readonly key: string; readonly origin?: Origin }[];

interface Way {
  /** What is probably wrong with the question. */
  readonly note?: string;
  readonly listener?: { readonly name: string; readonly documents: Documents };
  readonly route?: {
    readonly name: string;
    readonly virtualHost?: string;
    readonly match?: string;
    readonly result?: string;
    readonly onlyIf?: readonly { readonly conditions: readonly string[] }[];
    readonly onDemand?: HeldShown;
    readonly documents: Documents;
  };
  readonly clusters?: readonly {
    readonly name: string;
    readonly weight?: number;
    readonly missing?: boolean;
    readonly mutualTls?: string;
    readonly onDemand?: HeldShown;
    readonly documents: Documents;
  }[];
  /** More clusters than the answer names. */
  readonly clustersOmitted?: number;
  readonly policies: readonly {
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly endpoints: number;
    readonly acceptMutualTls: number;
    readonly mutualTls: string;
    readonly requestAuthentications: Documents;
    readonly authorizationPolicies: Documents;
  }[];
}

function MadeBy({ documents }: { documents: Documents }) {
  return (
    <ul class="plain">
      {documents.map(({ key, origin }) => (
        <li key={key}>
          <DocumentLink of={key} /> {origin !== undefined && <small>{originText(origin)}</small>}
        </li>
      ))}
    </ul>
  );
}

function Route({ route }: { route: NonNullable<Way['route']> }) {
  const { name, virtualHost, match, result, onlyIf = [], onDemand, documents } = route;
  return (
    <Section title="Route" note={name}>
      <p>
        {virtualHost === undefined ? 'No virtual host matches' : `virtual host ${virtualHost}`}
        {match !== undefined && `, path ${match}`}
        {result !== undefined && <b class="warn">, result {result}</b>}
      </p>
      {onlyIf.map(({ conditions }) => (
        <p key={conditions.join()} class="warn">
          Another route comes first if {conditions.join(' and ')}.
        </p>
      ))}
      <OnDemand of={onDemand} />
      <MadeBy documents={documents} />
    </Section>
  );
}

function Policies({ policies }: Pick<Way, 'policies'>) {
  if (policies.length === 0) return <Empty>No workload of the mesh is known at the destination.</Empty>;
  return (
    <>
      {policies.map((policy) => (
        <div key={JSON.stringify([policy.namespace, policy.labels])}>
          <p>
            {plural(policy.endpoints, 'endpoint')}, {policy.acceptMutualTls} of them accept mutual TLS; mode{' '}
            {policy.mutualTls}
          </p>
          <MadeBy documents={[...policy.authorizationPolicies, ...policy.requestAuthentications]} />
        </div>
      ))}
    </>
  );
}

function Shown({ way, source }: { way: Way; source: string }) {
  const { note, listener, route, clusters = [], clustersOmitted = 0, policies } = way;
  return (
    <>
      {note !== undefined && <p class="warn">Note: {note}.</p>}
      <Section title="Listener" note={listener?.name}>
        {listener === undefined ? (
          <Empty>No listener takes the connection.</Empty>
        ) : (
          <MadeBy documents={listener.documents} />
        )}
      </Section>
      {route !== undefined && <Route route={route} />}
      <Section title="Clusters">
        {clusters.length === 0 && <Empty>The request reaches no cluster.</Empty>}
        {clusters.map(({ name, weight, missing, mutualTls, onDemand, documents }) => (
          <div key={name}>
            <p>
              <a href={address('/proxy', { id: source, type: 'cds', name })}>{name}</a>
              {weight !== undefined && ` ${weight} %`}
              {missing === true && <b class="bad"> is missing</b>}
              {mutualTls !== undefined && <small> mutual TLS {mutualTls}</small>}
            </p>
            <OnDemand of={onDemand} />
            <MadeBy documents={documents} />
          </div>
        ))}
        {clustersOmitted > 0 && <p>{plural(clustersOmitted, 'more cluster')} not shown.</p>}
      </Section>
      <Section title="Policies at the destination">
        <Policies policies={policies} />
      </Section>
    </>
  );
}

export function WhyView({ query }: Place) {
  const [source = '', destination = ''] = ['source', 'destination'].map((name) => query.get(name) ?? '');
  const isAsked = source !== '' && destination !== '';
  const path = isAsked ? address('/debug/whyz', { source, destination }) : '';
  const loaded = useJson<Way>(path);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const given = (name: string) => String(form.get(name) ?? '').trim();
    setFilters({ source: given('source'), destination: given('destination') });
  };
  return (
    <>
      <h1>Why does a request go there?</h1>
      <form class="filter" onSubmit={submit}>
        <label>
          From proxy
          <input type="search" name="source" placeholder="pod.namespace" defaultValue={source} />
        </label>
        <label>
          To
          <input type="search" name="destination" placeholder="host:port/path" defaultValue={destination} />
        </label>
        <button type="submit">Show the way</button>
      </form>
      {!isAsked && <Empty>Name a connected proxy, and the host, port and path that its application asks for.</Empty>}
      {isAsked && <Waiting of={loaded} />}
      {isAsked && loaded.data !== undefined && loaded.error === undefined && (
        <Shown way={loaded.data} source={source} />
      )}
      {isAsked && <Source paths={[path]} />}
    </>
  );
}
