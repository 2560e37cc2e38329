/** Parts of long lists, and of where a document is from. */
import type { Origin } from '../../src/debug/shapes.ts';
import { MESH_KINDS } from '../../src/resources/kinds/kinds.ts';
import { count } from '../format.ts';
import { address, setFilters } from '../location.ts';

/** `file:line`, or the source of a document without a file. */
export function originText({ source, file, line }: Origin): string {
  if (file === undefined) return source;
  return line === undefined ? file : `${file}:${line}`;
}

/** Steps through the pages of a list whose place is in the address. */
export function Pager(props: {
  start: number;
  /** The most rows of a page, and those of this one. */
  rows: number;
  shown: number;
  next: number | undefined;
  /** Undefined: it is not known how many there are. */
  matching?: number;
}) {
  const { start, rows, shown, next, matching } = props;
  const go = (to: number) => setFilters({ start: to === 0 ? '' : String(to) });
  return (
    <p class="pager">
      <button type="button" disabled={start === 0} onClick={() => go(Math.max(0, start - rows))}>
        Previous
      </button>
      <span>
        {start + 1}–{start + shown}
        {matching !== undefined && ` of ${count(matching)}`}
      </span>
      <button type="button" disabled={next === undefined} onClick={() => go(next ?? 0)}>
        Next
      </button>
    </p>
  );
}

/** The kinds whose documents the page of the configuration shows. */
export const SHOWN_KINDS: readonly string[] = MESH_KINDS;

/** A document by its key `Kind/namespace/name`, with a link where there is a page of it. */
export function DocumentLink({ of }: { of: string }) {
  const [kind = '', namespace = '', name = ''] = of.split('/');
  if (!SHOWN_KINDS.includes(kind)) return <span class="resource">{of}</span>;
  return (
    <a class="resource" href={address('/configuration', { kind, namespace, search: name })}>
      {of}
    </a>
  );
}
