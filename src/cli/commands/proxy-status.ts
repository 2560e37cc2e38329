/**
 * `proxy-status [PROXY]`: whether each connected proxy has the configuration that it should have, by type. For one
 * proxy also its last rejections, and with `--file` what its Envoy has otherwise.
 */
import { CtlError, messageOf } from '../../core/errors.ts';
import { XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { ProxyConfiguration } from '../../debug/index.ts';
import { discoveryProxyStatusFlags, type Environment, flagSettings, usageError } from '../../settings/index.ts';
import { type Difference, differences, readDump } from '../config-dump/index.ts';
import type { DebugClient } from '../debug-client.ts';
import { MAX_DEBUG_PAGE_BYTES } from '../debug-credential.ts';
import { unavailable } from '../errors.ts';
import { inputJson } from '../input-file.ts';
import { formatted, table } from '../output/index.ts';
import { type Command, command } from '../program.ts';
import { askReplicas } from '../replicas.ts';

/** A line of `/debug/syncz`, as far as it is read here. */
interface Status {
  readonly proxy: string;
  readonly id: string;
  readonly cluster_id: string;
  readonly istio_version: string;
  /** Name of the replica that serves the proxy; its address where the caller may not see the name. */
  readonly discovery: string;
  /** Absent in the answer of an older service. */
  readonly configuration?: ProxyConfiguration;
  readonly [field: string]: unknown;
}

interface Rejected {
  readonly message: string;
  readonly resources: readonly string[];
}

/** The types of the table; others are shown for one proxy. */
const COLUMNS: readonly XdsType[] = ['cds', 'lds', 'eds', 'rds', 'ecds'];

/** Shown for types that a proxy does not subscribe to. */
const IGNORED = 'IGNORED';

/** Resources of a rejection that are named. */
const MAX_NAMED = 10;

export function proxyStatusCommand(): Command {
  return command({
    name: 'proxy-status',
    summary: 'Show whether proxies have the configuration that they should have, and what they rejected.',
    flags: discoveryProxyStatusFlags,
    arguments: ['[<pod>.<namespace>]'],
    async run({ flags, io }) {
      const { file, httpAddr, namespace, output } = flagSettings(discoveryProxyStatusFlags, flags);
      const [proxy] = flags.positionals;
      if (httpAddr.length === 0) throw usageError('proxy-status needs --httpAddr');
      if (file !== '' && proxy === undefined) throw usageError('--file needs the name of a proxy');
      const { found, failed } = await askAll(httpAddr, io.env, proxy ?? '');
      const lines = found.flatMap(({ statuses }) => statuses).filter(inNamespace(namespace));
      for (const error of failed) io.stderr.write(`${messageOf(error)}\n`);
      if (lines.length === 0 && failed.length > 0)
        throw unavailable('no discovery service returned the status of its proxies');
      if (proxy === undefined) {
        io.stdout.write(await formatted(lines, output, () => overview(lines)));
        return failed.length === 0 ? 0 : 1;
      }
      const [line] = lines;
      if (line === undefined) throw new CtlError('not_found', `proxy ${proxy} is not connected`);
      const client = found.find(({ statuses }) => statuses.includes(line))?.client;
      const changed = file === '' || client === undefined ? undefined : await compared(client, proxy, file);
      const value = { ...line, ...(changed !== undefined && { differences: changed }) };
      io.stdout.write(output === 'table' ? oneProxy(line, changed) : await formatted(value, output, () => []));
      return failed.length === 0 && (changed ?? []).length === 0 ? 0 : 1;
    },
  });
}

const inNamespace = (namespace: string) => (line: Status) => namespace === '' || line.proxy.endsWith(`.${namespace}`);

function askAll(addresses: readonly string[], env: Environment, proxyID: string) {
  return askReplicas(addresses, env, async (client) => {
    const page = (await client.page('syncz', { proxyID })) as Status[];
    return { client, statuses: page.map((line) => ({ ...line, discovery: line.discovery || client.server })) };
  });
}

const stateOf = (line: Status, type: XdsType): string => String(line[`${XDS[type].noun}_state`] ?? IGNORED);

/** What a proxy gets of the mesh, in a few words. */
function configurationOf({ configuration }: Status): string {
  if (configuration === undefined) return '';
  const { mode, because, hosts } = configuration;
  if (hosts === undefined || mode === 'all') return `${mode}${because === undefined ? '' : '*'}`;
  const all = hosts.asked + hosts.learned + hosts.named + hosts.kept;
  return `${mode}: ${all} host${all === 1 ? '' : 's'}`;
}

/** The column of the configuration is there if the proxies of the mesh do not simply get everything. */
function overview(lines: readonly Status[]): string[][] {
  const isShown = lines.some(({ configuration: { mode = 'all', because } = {} }) => mode !== 'all' || because);
  const types = COLUMNS.map((type) => type.toUpperCase());
  const header = ['NAME', 'CLUSTER', ...types, ...(isShown ? ['CONFIGURATION'] : []), 'DISCOVERY', 'VERSION'];
  const rows = lines.map((line) => {
    const states = COLUMNS.map((type) => stateOf(line, type));
    const configuration = isShown ? [configurationOf(line)] : [];
    return [line.proxy, line.cluster_id, ...states, ...configuration, line.discovery, line.istio_version];
  });
  return [header, ...rows.sort(([a = ''], [b = '']) => (a < b ? -1 : a > b ? 1 : 0))];
}

function oneProxy(line: Status, changed: readonly Difference[] | undefined): string {
  const facts = [
    ['Proxy:', line.proxy],
    ['Node:', line.id],
    ['Cluster:', line.cluster_id],
    ['Discovery:', line.discovery],
    ['Version:', line.istio_version],
    ...configurationRows(line.configuration),
  ];
  const known = XDS_TYPES.filter((type) => line[`${XDS[type].noun}_state`] !== undefined);
  const text = (field: string): string => String(line[field] ?? '');
  const types = known.map((type) => {
    const { noun } = XDS[type];
    return [type.toUpperCase(), stateOf(line, type), text(`${noun}_sent`), text(`${noun}_acked`)];
  });
  const parts = [table(facts), table([['TYPE', 'STATE', 'SENT', 'ACKNOWLEDGED'], ...types])];
  const rejected = known.flatMap((type) => rejectedLines(type, line[`${XDS[type].noun}_rejected`] as Rejected));
  if (rejected.length > 0) parts.push(table(rejected));
  if (changed !== undefined) parts.push(changed.length === 0 ? 'No differences.\n' : differenceTable(changed));
  return parts.join('\n');
}

function configurationRows(configuration: ProxyConfiguration | undefined): string[][] {
  if (configuration === undefined) return [];
  const { mode, because, hosts } = configuration;
  const { asked = 0, unknown = 0, learned = 0, named = 0, kept = 0 } = hosts ?? {};
  return [
    ['Configuration:', because === undefined ? mode : `${mode}, because ${because}`],
    ...(hosts === undefined
      ? []
      : [
          ['Hosts:', `${asked} asked for, of which ${unknown} unknown`],
          ['', `${learned} learned, ${named} named by its Sidecar, ${kept} kept from before it reconnected`],
        ]),
  ];
}

function rejectedLines(type: XdsType, rejected: Rejected | undefined): string[][] {
  if (rejected === undefined) return [];
  const { message, resources } = rejected;
  const more = resources.length > MAX_NAMED ? ` and ${resources.length - MAX_NAMED} more` : '';
  const names = `${resources.slice(0, MAX_NAMED).join(', ')}${more}`;
  return [[`Last rejection of ${type.toUpperCase()}:`, message], ...(names === '' ? [] : [['', names]])];
}

async function compared(client: DebugClient, proxyID: string, file: string): Promise<Difference[]> {
  const actual = readDump(await inputJson(file, MAX_DEBUG_PAGE_BYTES));
  return differences(readDump(await client.page('config_dump', { proxyID })), actual);
}

function differenceTable(changed: readonly Difference[]): string {
  const rows = changed.map(({ section, name, kind, fields = [] }) => [section, name, kind, fields.join(', ')]);
  return table([['SECTION', 'NAME', 'DIFFERENCE', 'FIELDS'], ...rows]);
}
