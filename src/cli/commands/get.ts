/**
 * `get <kind> [<name>]`: lists the mesh configuration in force at the discovery service, of one or all namespaces. An
 * empty list is a success. Refused documents of the kind are named on stderr.
 */
import { discoveryGetFlags, flagSettings } from '../../settings/index.ts';
import { debugClient, withLists } from '../debug-client.ts';
import { formatted, printable, table } from '../output/index.ts';
import { type Command, command } from '../program.ts';

/** A resource in the answer of `/debug/configz`. */
interface Item {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly address?: string };
  /** The status of a WorkloadEntry that is probed. */
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
  readonly origin: Origin;
}

interface Origin {
  readonly source?: string;
  readonly file?: string;
  readonly line?: number;
}

interface Problem {
  readonly key?: string;
  readonly field: string;
  readonly message: string;
  readonly origin: Origin;
}

interface Configuration {
  readonly items: readonly Item[];
  readonly problems: readonly Problem[];
}

export function getCommand(): Command {
  return command({
    name: 'get',
    summary: 'List the configuration in force, of one kind.',
    flags: discoveryGetFlags,
    arguments: ['<kind>', '[<name>]'],
    async run({ flags, io }) {
      const { httpAddr, namespace, output } = flagSettings(discoveryGetFlags, flags);
      const [kind = '', name] = flags.positionals;
      const client = await debugClient(httpAddr, io.env);
      const { items, problems } = withLists<Configuration>(
        await client.page('configz', { kind, namespace }),
        client,
        'items',
        'problems',
      );
      const found = name === undefined ? items : items.filter(({ metadata }) => metadata.name === name);
      io.stdout.write(await shown(found, output));
      for (const problem of problems) io.stderr.write(`refused: ${printable(problemLine(problem))}\n`);
      if (found.length > 0) return 0;
      if (output === '') io.stderr.write(`nothing found${namespace === '' ? '' : ` in namespace ${namespace}`}\n`);
      return name === undefined ? 0 : 1;
    },
  });
}

async function shown(items: readonly Item[], output: string): Promise<string> {
  const list = { apiVersion: 'v1', kind: 'List', items };
  if (output !== '') return formatted(list, output, () => []);
  if (items.length === 0) return '';
  const columns = Object.entries({ ...COMMON, ...COLUMNS[items[0]?.kind ?? ''], ...LAST });
  const rows = items.map((item) => columns.map(([, cell]) => cell(item)));
  return table([columns.map(([name]) => name), ...rows]);
}

type Columns = Readonly<Record<string, (item: Item) => string>>;

const COMMON: Columns = {
  NAMESPACE: ({ metadata }) => metadata.namespace,
  NAME: ({ metadata }) => metadata.name,
};
/** By kind; those that `kubectl get` shows, too. */
const COLUMNS: Readonly<Record<string, Columns>> = {
  WorkloadEntry: {
    ADDRESS: ({ spec }) => spec.address ?? '',
    HEALTHY: ({ status }) => status?.conditions?.find(({ type }) => type === 'Healthy')?.status ?? '',
  },
};
const LAST: Columns = { FROM: ({ origin }) => locationOf(origin) || (origin.source ?? '') };

function locationOf({ file = '', line }: Origin): string {
  return line === undefined ? file : `${file}:${line}`;
}

function problemLine({ key, field, message, origin }: Problem): string {
  return [locationOf(origin), key, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}
