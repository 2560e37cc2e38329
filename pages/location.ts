/** The address of the page: which view is shown, and its filters. */
import { useEffect, useState } from 'preact/hooks';

/** Tells the views that the address has changed; browsers report only steps through their history. */
const CHANGED = 'meshd:location';

export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

function place(): Place {
  return { path: location.pathname.replace(/(?<=.)\/+$/, ''), query: new URLSearchParams(location.search) };
}

/** Where the page is now; the view is drawn again when it changes. */
export function usePlace(): Place {
  const [current, set] = useState(place);
  useEffect(() => {
    const read = () => set(place());
    for (const event of ['popstate', CHANGED]) addEventListener(event, read);
    return () => {
      for (const event of ['popstate', CHANGED]) removeEventListener(event, read);
    };
  }, []);
  return current;
}

/** Goes to another view. */
export function go(href: string): void {
  history.pushState(undefined, '', href);
  dispatchEvent(new Event(CHANGED));
}

/** Changes filters of this view, in the address: '' removes one. Typing does not fill the history. */
export function setFilters(changes: Readonly<Record<string, string>>): void {
  const { path, query } = place();
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(undefined, '', text === '' ? path : `${path}?${text}`);
  dispatchEvent(new Event(CHANGED));
}

/** An address with parameters; empty ones are left out. */
export function address(path: string, parameters: Readonly<Record<string, string | number | undefined>> = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Follows links between views without loading the document again. */
export function followLinks(paths: ReadonlySet<string>): void {
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (link === null || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link.origin !== location.origin || !paths.has(link.pathname) || link.target !== '') return;
    event.preventDefault();
    go(link.pathname + link.search);
    document.querySelector('main')?.focus();
    scrollTo(0, 0);
  });
}
