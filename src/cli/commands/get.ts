/**
 * `get <kind> [<name>]`: lists the mesh configuration in force at the discovery service, of one or all namespaces. An
 * empty list is a success. Refused documents of the kind are named on stderr.
 */
import { messageOf } from '../../core/errors.ts';
import { httpText } from '../../core/network/http-call.ts';
import { dialAddress, discoveryGetFlags, flagSettings, usageError } from '../../settings/index.ts';
import { debugCredential, MAX_DEBUG_PAGE_BYTES } from '../debug-credential.ts';
import { unavailable } from '../errors.ts';
import { type Command, command } from '../program.ts';

const TIMEOUT_MS = 60_000;

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
      const url = new URL(`http://${dialAddress(httpAddr)}/debug/configz`);
      url.searchParams.set('kind', kind);
      url.searchParams.set('namespace', namespace);
      const { items, problems } = await configuration(url, await debugCredential(io.env));
      const found = name === undefined ? items : items.filter(({ metadata }) => metadata.name === name);
      io.stdout.write(await shown(found, output));
      for (const problem of problems) io.stderr.write(`refused: ${problemLine(problem)}\n`);
      if (found.length > 0) return 0;
      if (output === '') io.stderr.write(`nothing found${namespace === '' ? '' : ` in namespace ${namespace}`}\n`);
      return name === undefined ? 0 : 1;
    },
  });
}

async function configuration(url: URL, headers: Readonly<Record<string, string>>): Promise<Configuration> {
  const answer = await httpText({ to: url, timeoutMs: TIMEOUT_MS, headers }, MAX_DEBUG_PAGE_BYTES).catch(
    (error: unknown) => {
      throw unavailable(
        `cannot call ${url.host}: ${messageOf(error)}; --httpAddr is the address of the discovery service`,
      );
    },
  );
  if (answer.status === 400) throw usageError(answer.text.trim());
  if (answer.status !== 200) throw unavailable(`${url.host} returned HTTP ${answer.status}: ${answer.text.trim()}`);
  return JSON.parse(answer.text) as Configuration;
}

async function shown(items: readonly Item[], output: string): Promise<string> {
  const list = { apiVersion: 'v1', kind: 'List', items };
  if (output === 'json') return `${JSON.stringify(list, null, 2)}\n`;
  if (output === 'yaml') return (await import('../../core/yaml.ts')).stringify(list);
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

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? [])
    .slice(0, -1)
    .map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('   ')
      .trimEnd();
  return rows.map((row) => `${line(row)}\n`).join('');
}

function locationOf({ file = '', line }: Origin): string {
  return line === undefined ? file : `${file}:${line}`;
}

function problemLine({ key, field, message, origin }: Problem): string {
  return [locationOf(origin), key, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}
