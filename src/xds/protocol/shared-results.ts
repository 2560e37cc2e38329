/**
 * Results that are computed for one stream of a server and used for all of its streams in the same state: thousands of
 * proxies have the same resources, subscribe to the same names and are sent the same, one after the other. With the
 * memos switched off everything is computed for each stream, and the messages are the same.
 */
import type { Memos } from '../../core/memo.ts';
import { ContentVersions } from './content-version.ts';
import { NameSets } from './name-set.ts';
import { Plans } from './plans/plan.ts';
import { Comparisons } from './resume.ts';
import { Selections } from './selection.ts';

export class SharedResults {
  readonly names: NameSets;
  readonly selections: Selections;
  readonly plans: Plans;
  readonly versions: ContentVersions;
  readonly comparisons: Comparisons;

  constructor(memos: Memos) {
    this.names = new NameSets(memos);
    this.selections = new Selections(this.names, memos);
    this.plans = new Plans(this.selections, memos.enabled);
    this.versions = new ContentVersions(this.selections, memos.enabled);
    this.comparisons = new Comparisons(memos);
  }
}
