/** Small parts that all views use. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { SyncState } from '../../src/debug/shapes.ts';
import { type Loaded, Refused, setToken } from '../api.ts';

export function Section(props: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section>
      <h2>
        {props.title}
        {props.note !== undefined && <small> {props.note}</small>}
      </h2>
      {props.children}
    </section>
  );
}

const STATE_WORDS: Readonly<Record<SyncState, readonly [sign: string, kind: string]>> = {
  SYNCED: ['✓', 'good'],
  STALE: ['…', 'warn'],
  'NOT SENT': ['–', 'idle'],
  REJECTED: ['✕', 'bad'],
};

export function stateKind(state: SyncState): string {
  return STATE_WORDS[state][1];
}

/** A state in words, with a sign and a colour. */
export function State({ state, of = '' }: { state: SyncState; of?: string }) {
  const [sign, kind] = STATE_WORDS[state];
  return (
    <span class={`state ${kind}`}>
      <span aria-hidden="true">{sign}</span> {of === '' ? state.toLowerCase() : of}
      {of !== '' && <span class="unseen"> {state.toLowerCase()}</span>}
    </span>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** What to show instead of data: nothing yet, a problem, or a request for a token. */
export function Waiting<T>({ of }: { of: Loaded<T> }) {
  const { data, error, reload } = of;
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
    return <NeedsToken problem={error.message} reload={reload} />;
  }
  if (error !== undefined) {
    const old = data === undefined ? '' : ' What is shown is from before.';
    return (
      <p class="problem" role="alert">
        {error instanceof Refused ? error.message : `The server does not answer: ${error.message}.`}
        {old} It is asked again.
      </p>
    );
  }
  return data === undefined ? <p class="empty">Reading…</p> : null;
}

function NeedsToken({ problem, reload }: { problem: string; reload: () => void }) {
  const [token, set] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    setToken(token.trim());
    reload();
  };
  return (
    <form class="token" onSubmit={submit}>
      <p class="problem" role="alert">
        {problem}
      </p>
      <label>
        Bearer token of a service account
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={({ currentTarget }) => set(currentTarget.value)}
        />
      </label>
      <button type="submit">Use it until this tab is closed</button>
    </form>
  );
}

/** Copies a text. */
export function Copy({ text, what }: { text: string; what: string }) {
  const [done, set] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      {done ? 'Copied' : 'Copy'}
      <span class="unseen"> {what}</span>
    </button>
  );
}

/** Where the data of a view is from, for scripts. */
export function Source({ paths }: { paths: readonly string[] }) {
  return (
    <footer>
      {paths.map((path) => {
        const command = `curl -s '${location.origin}${path}'`;
        return (
          <div class="curl" key={path}>
            <a href={path}>JSON</a>
            <code>{command}</code>
            <Copy text={command} what="command" />
          </div>
        );
      })}
    </footer>
  );
}

/** Tabs are links: each has an address. */
export function Tabs(props: { label: string; tabs: readonly (readonly [href: string, text: string])[]; at: string }) {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map(([href, text]) => (
        <a key={href} href={href} aria-current={href === props.at ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

/** A table that is scrolled sideways where it is too wide. `columns`: titles, a leading `#` is for numbers, `-` for what narrow screens leave out. */
export function Table(props: { label: string; columns: readonly string[]; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be scrolled by keyboard
    <section class="scroll" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.columns.map((title) => (
              <th key={title} scope="col" class={columnClass(title)}>
                {title.replace(/^#?-?/, '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </section>
  );
}

function columnClass(title: string): string {
  return `${title.startsWith('#') ? 'number' : ''} ${/^#?-/.test(title) ? 'wide' : ''}`.trim();
}
