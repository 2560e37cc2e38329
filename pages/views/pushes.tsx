/** The last changes: what caused them, which proxies needed them, and where the time went. */
import type { RecentPush } from '../../src/observe/recent/shapes.ts';
import { LIVE_MS, useJson } from '../api.ts';
import { bytes, clock, count, milliseconds } from '../format.ts';
import { Empty, Source, Waiting } from '../parts/basics.tsx';
import { DocumentLink } from '../parts/lists.tsx';

/** Stages in order, each with what it is. */
const STAGES: readonly (readonly [name: string, meaning: string])[] = [
  ['debounce', 'until the changes were quiet'],
  ['snapshot', 'the model was derived'],
  ['views', 'what is touched was found'],
  ['generate', 'workers generated, several at once'],
  ['intern', 'results were stored'],
];

function Stages({ stages }: Pick<RecentPush, 'stages'>) {
  return (
    <div class="stages">
      {STAGES.map(([name, meaning]) => {
        const ms = stages[name] ?? 0;
        return (
          <span
            key={name}
            class={`stage ${name}`}
            style={{ flexGrow: ms }}
            title={`${name}: ${milliseconds(ms)} (${meaning})`}
          />
        );
      })}
    </div>
  );
}

function Resources({ push }: { push: RecentPush }) {
  const more = push.changed - push.resources.length;
  if (push.changed === 0) return <span class="idle">mesh configuration</span>;
  return (
    <>
      {push.resources.map((key) => (
        <DocumentLink key={key} of={key} />
      ))}
      {more > 0 && <small> and {count(more)} more</small>}
    </>
  );
}

function Push({ push }: { push: RecentPush }) {
  const { acknowledged, underWay, stages } = push;
  const facts = STAGES.filter(([name]) => (stages[name] ?? 0) > 0).map(
    ([name]) => `${name} ${milliseconds(stages[name])}`,
  );
  return (
    <li>
      <div class="when">
        <time dateTime={new Date(push.at).toISOString()}>{clock(push.at)}</time>
        <small>version {push.version}</small>
        <small>{push.triggers.join(', ')}</small>
      </div>
      <div class="what">
        <Resources push={push} />
        <Stages stages={stages} />
        <small>{facts.join(' · ')}</small>
      </div>
      <div class="reached">
        {acknowledged + underWay === 0 ? (
          <span class="idle">no proxy needed it</span>
        ) : (
          <>
            <b>{count(acknowledged)}</b> {acknowledged === 1 ? 'proxy' : 'proxies'}
            {underWay > 0 && <span class="warn">, {count(underWay)} not yet</span>}
          </>
        )}
        {push.p50 !== undefined && (
          <small>
            p50 {milliseconds(push.p50)}, p99 {milliseconds(push.p99)}, last {milliseconds(push.max)}
          </small>
        )}
        {push.bytes > 0 && <small>{bytes(push.bytes)}</small>}
      </div>
    </li>
  );
}

export function PushesView() {
  const loaded = useJson<{ pushes: readonly RecentPush[] }>('/debug/pushz', LIVE_MS);
  const pushes = loaded.data?.pushes ?? [];
  return (
    <>
      <h1>Pushes</h1>
      <p class="key" aria-hidden="true">
        {STAGES.map(([name, meaning]) => (
          <span key={name} class="legend">
            <span class={`swatch stage ${name}`} />
            {name}: {meaning}
          </span>
        ))}
      </p>
      <Waiting of={loaded} />
      {loaded.data !== undefined && pushes.length === 0 && (
        <Empty>
          Nothing has changed since the program started. Each published change is a line here, the newest first.
        </Empty>
      )}
      <ol class="pushes">
        {pushes.map((push) => (
          <Push key={`${push.version}-${push.at}`} push={push} />
        ))}
      </ol>
      <Source paths={['/debug/pushz']} />
    </>
  );
}
