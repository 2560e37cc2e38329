/**
 * Results that are computed for one stream of a server and used for all of its streams in the same state: thousands of
 * proxies have the same resources, subscribe to the same names and are sent the same, one after the other. With the
 * memos switched off everything is computed for each stream, and the messages are the same.
 */
import type { Memos } from '../../core/memo.ts';
import { ContentVersions } from './content-version.ts';
import { FEW_NAMES, NameSets } from './name-set.ts';
import { Plans } from './plans/plan.ts';
import { Comparisons } from './resume.ts';
import { Selections } from './selection.ts';

export class SharedResults {
  readonly names: NameSets;
  readonly selections: Selections;
  readonly plans: Plans;
  readonly versions: ContentVersions;
  readonly comparisons: Comparisons;

  /** @param few for tests; see {@link FEW_NAMES} */
  constructor(memos: Memos, few = FEW_NAMES) {
    this.names = new NameSets(memos, few);
    this.selections = new Selections(this.names, memos, few);
    this.plans = new Plans(this.selections, memos.enabled);
    this.versions = new ContentVersions(this.selections, memos.enabled);
    this.comparisons = new Comparisons(memos);
  }
}
