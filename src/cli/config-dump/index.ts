/** Configuration dumps of the control plane and of Envoy: reading, comparing, tables. */
import { clusters } from './clusters.ts';
import { endpoints } from './endpoints.ts';
import { listeners } from './listeners.ts';
import { routes } from './routes.ts';
import type { SectionView } from './section-view.ts';

export { type Difference, differences } from './difference.ts';
export { type ConfigDump, type DumpedResource, readDump } from './dump.ts';
export { secretRows, shownSecrets } from './secrets.ts';
export type { Filter, SectionView } from './section-view.ts';

/** The sections with tables of messages; secrets are shown by their certificates. */
export const VIEWS = { clusters, listeners, routes, endpoints } as const satisfies Readonly<
  Record<string, SectionView>
>;
