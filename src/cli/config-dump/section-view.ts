/** What the table of a section of a configuration dump is made of. */
import type { ConfigDump, DumpedResource } from './dump.ts';

/** Values of `--fqdn`, `--port` and `--name`; '' selects everything. */
export interface Filter {
  readonly fqdn: string;
  readonly port: string;
  readonly name: string;
}

export interface SectionView {
  readonly header: readonly string[];
  readonly matches: (resource: DumpedResource, filter: Filter, dump: ConfigDump) => boolean;
  /** Rows of a resource. The filter is for resources of which a part is selected. */
  readonly rows: (resource: DumpedResource, filter: Filter, dump: ConfigDump) => readonly (readonly string[])[];
}
