/**
 * Which bundles the content of a proxy had. A proxy on demand may not look at its content for thousands of changes: if
 * it kept the bundles, each proxy would keep another version of all that its namespace sees.
 */
import { XDS_TYPES } from '../../core/xds-types.ts';
import type { Bundle, Parts } from '../../push/index.ts';

const OTHER_TYPES = XDS_TYPES.filter((type) => type !== 'eds');

type Ids = readonly number[];

const NO_IDS: Ids = [];

export class ContentIds {
  readonly #endpoints: Ids;
  readonly #others: readonly Ids[];

  constructor(content: Parts) {
    this.#endpoints = idsOf(content.eds);
    this.#others = OTHER_TYPES.map((type) => idsOf(content[type]));
  }

  /** Whether this content has the same bundles. */
  match(content: Parts): boolean {
    return matches(this.#endpoints, content.eds) && this.matchBesidesEndpoints(content);
  }

  /** Whether it has the same bundles of all types but endpoints. */
  matchBesidesEndpoints(content: Parts): boolean {
    for (const [index, type] of OTHER_TYPES.entries())
      if (!matches(this.#others[index] ?? NO_IDS, content[type])) return false;
    return true;
  }
}

function idsOf(bundles: readonly Bundle[]): Ids {
  return bundles.length === 0 ? NO_IDS : bundles.map(({ id }) => id);
}

function matches(ids: Ids, bundles: readonly Bundle[]): boolean {
  if (ids.length !== bundles.length) return false;
  for (let index = 0; index < ids.length; index++) if (ids[index] !== bundles[index]?.id) return false;
  return true;
}
