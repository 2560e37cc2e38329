/**
 * `proxy-config SECTION [PROXY]`: the configuration that a proxy should have, from the control plane, or that of the
 * `config_dump` of an Envoy in a file. Keys are never printed.
 */
import { discoveryProxyConfigFlags, flagSettings, usageError } from '../../settings/index.ts';
import { type ConfigDump, type Filter, readDump, secretRows, shownSecrets, VIEWS } from '../config-dump/index.ts';
import { debugClient } from '../debug-client.ts';
import { MAX_DEBUG_PAGE_BYTES } from '../debug-credential.ts';
import { inputJson } from '../input-file.ts';
import { formatted, table } from '../output/index.ts';
import { type Command, command } from '../program.ts';

const SECTIONS = ['clusters', 'listeners', 'routes', 'endpoints', 'secrets'] as const;
type Shown = (typeof SECTIONS)[number];

/** A section of a dump, as it is printed. */
interface Printed {
  readonly value: unknown;
  readonly rows: readonly (readonly string[])[];
}

export function proxyConfigCommand(now: () => number = Date.now): Command {
  return command({
    name: 'proxy-config',
    summary: 'Show the configuration of a proxy: all, clusters, endpoints, listeners, routes or secrets.',
    flags: discoveryProxyConfigFlags,
    arguments: ['<section>', '[<pod>.<namespace>]'],
    choices: ['all', ...SECTIONS],
    async run({ flags, io }) {
      const { askable, file, fqdn, httpAddr, name, output, port } = flagSettings(discoveryProxyConfigFlags, flags);
      const [given = '', proxy] = flags.positionals;
      const sections = sectionsOf(given);
      if ((file === '') === (proxy === undefined)) throw usageError('proxy-config needs the name of a proxy or --file');
      if (askable && file !== '') throw usageError('--askable needs the name of a proxy, because Envoy does not know');
      const query = { proxyID: proxy ?? '', ...(askable && { askable: 'true' }) };
      const dump = readDump(
        file === ''
          ? await (await debugClient(httpAddr, io.env)).page('config_dump', query)
          : await inputJson(file, MAX_DEBUG_PAGE_BYTES),
      );
      const filter = { fqdn, name, port: port === 0 ? '' : String(port) };
      const printed = sections.map((section) => [section, printedSection(section, dump, filter, now())] as const);
      const [first] = printed;
      if (output === 'table') io.stdout.write(printed.map(([, { rows }]) => table(rows)).join('\n'));
      else {
        const all = Object.fromEntries(printed.map(([section, { value }]) => [section, value]));
        io.stdout.write(await formatted(given === 'all' ? all : first?.[1].value, output, () => []));
      }
      return 0;
    },
  });
}

/** Singular names are understood as well. */
function sectionsOf(given: string): readonly Shown[] {
  if (given === 'all') return SECTIONS;
  const found = SECTIONS.find((section) => given === section || `${given}s` === section);
  if (found !== undefined) return [found];
  throw usageError(`expected all, ${SECTIONS.join(', ')}, got ${JSON.stringify(given.slice(0, 80))}`);
}

function printedSection(section: Shown, dump: ConfigDump, filter: Filter, now: number): Printed {
  if (section === 'secrets') {
    const { name } = filter;
    const secrets = shownSecrets(name === '' ? dump.secrets : dump.secrets.filter((one) => one.name === name), now);
    return { value: secrets, rows: secretRows(secrets) };
  }
  const { header, matches, rows } = VIEWS[section];
  const found = dump[section].filter((resource) => matches(resource, filter, dump));
  const sorted = found.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const lines = sorted.flatMap((resource) => rows(resource, filter, dump));
  return { value: sorted.map(({ message }) => message), rows: [header, ...lines] };
}
