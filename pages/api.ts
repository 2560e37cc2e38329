/** Requests to the server that these pages are from. */
import { useEffect, useRef, useState } from 'preact/hooks';

/** How often a view that shows the current state reads it, ms. */
export const LIVE_MS = 2000;

/** The longest time between attempts while the server does not answer, ms. */
const MAX_RETRY_MS = 30_000;

const TOKEN = 'token';

/** A bearer token for a server on another machine; kept until the tab is closed. */
export function setToken(token: string): void {
  if (token === '') sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, token);
}

function headers(): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** What the server answered instead of the data. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text.trim() === '' ? `the server returned HTTP ${status}` : text.trim());
    this.status = status;
  }
}

async function answered(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(path, { ...init, headers: { ...headers(), ...init.headers } });
  if (!response.ok) throw new Refused(response.status, await response.text());
  return response;
}

export async function readJson<T>(path: string, signal: AbortSignal | null = null): Promise<T> {
  return (await (await answered(path, { signal })).json()) as T;
}

/** Changes something. Throws {@link Refused}. */
export async function put(path: string, body: unknown = {}): Promise<void> {
  const init = { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  await answered(path, init);
}

export interface Loaded<T> {
  /** The last answer, also while a newer one is on its way or cannot be had. */
  readonly data: T | undefined;
  readonly error: Error | undefined;
  /** Reads at once. */
  readonly reload: () => void;
}

type Read<T> = (path: string, signal: AbortSignal) => Promise<T>;

/**
 * The answer for a path; '' reads nothing.
 * @param every reads again after so many ms, while the page is visible; 0: once
 */
export function useJson<T>(path: string, every = 0, read: Read<T> = readJson<T>): Loaded<T> {
  const [state, set] = useState<{ path: string; data?: T; error?: Error }>({ path });
  const [attempt, setAttempt] = useState(0);
  const failures = useRef(0);
  useEffect(() => {
    if (path === '') return;
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = (): void => {
      if (every === 0 || ended.signal.aborted) return;
      timer = setTimeout(run, Math.min(MAX_RETRY_MS, every * 2 ** Math.min(failures.current, 10)));
    };
    const run = async (): Promise<void> => {
      if (document.hidden) return next();
      try {
        const data = await read(path, ended.signal);
        failures.current = 0;
        if (!ended.signal.aborted) set({ path, data });
      } catch (error) {
        failures.current++;
        const problem = error instanceof Error ? error : new Error(String(error));
        if (!ended.signal.aborted) set((before) => ({ ...(before.path === path ? before : { path }), error: problem }));
      }
      next();
    };
    void run();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [path, every, attempt]);
  // A view with another filter shows the rows of the last one until its own are there.
  return { data: state.data, error: state.error, reload: () => setAttempt((before) => before + 1) };
}

/** Text instead of JSON, for {@link useJson}. */
export async function readText(path: string, signal: AbortSignal): Promise<string> {
  return (await answered(path, { signal })).text();
}
