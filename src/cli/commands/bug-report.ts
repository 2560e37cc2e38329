/**
 * `bug-report`: one archive with what people need to find out what is wrong with a running control plane: versions,
 * settings, status, configuration without secrets, findings, log, metrics, and profiles where they are enabled.
 */
import { buildInfo } from '../../core/build-info.ts';
import { hostPort } from '../../core/network/listen.ts';
import { isObject } from '../../core/objects.ts';
import { dialAddress, discoveryBugReportFlags, flagSettings } from '../../settings/index.ts';
import { Archive } from '../bug-report/archive.ts';
import { Collector, REPORT_LIMITS, type ReportLimits, type Service } from '../bug-report/collect.ts';
import { PARTS, profileParts, proxyPart } from '../bug-report/parts.ts';
import { debugCredential } from '../debug-credential.ts';
import { unavailable } from '../errors.ts';
import { printable } from '../output/index.ts';
import { type Command, command, type ProgramIo } from '../program.ts';

/** Configurations of proxies that are not named: those that are not in sync. */
const MAX_PROXIES = 5;

/** @param limits for tests */
export function bugReportCommand(limits: ReportLimits = REPORT_LIMITS): Command {
  return command({
    name: 'bug-report',
    summary: 'Collect versions, settings, status, configuration without secrets, log and metrics into one archive.',
    flags: discoveryBugReportFlags,
    arguments: ['[<pod>.<namespace>...]'],
    async run({ flags, io }) {
      const settings = flagSettings(discoveryBugReportFlags, flags);
      const at = new Date();
      const name = `meshd-bug-report-${at.toISOString().slice(0, 19).replace(/[:T]/g, '-')}.tar.gz`;
      const path = settings.archive === '' ? name : settings.archive;
      const service = await serviceOf(settings, io);
      const archive = await Archive.create(path, Math.floor(at.getTime() / 1000));
      const collector = new Collector(service, archive, limits, () => performance.now());
      await collect(collector, flags.positionals, settings.profileSeconds);
      const { collected } = collector;
      const found = collected.filter(({ missing }) => missing === undefined);
      const manifest = {
        created: at.toISOString(),
        command: buildInfo(),
        service: service.addresses,
        parts: collected,
      };
      await archive.add('manifest.json', Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
      await archive.end();
      for (const { file, missing } of collected)
        if (missing !== undefined) io.stderr.write(`missing: ${file}: ${printable(missing)}\n`);
      if (found.length === 0)
        throw unavailable(`${path} is empty: is ${service.addresses.http.host} a discovery service?`);
      io.stdout.write(`${path}\n`);
      return 0;
    },
  });
}

type Settings = ReturnType<typeof flagSettings<typeof discoveryBugReportFlags>>;

async function serviceOf(
  { httpAddr, monitoringAddr, introspectAddress, introspectPort }: Settings,
  { env }: ProgramIo,
): Promise<Service> {
  const host = introspectAddress === '*' ? 'localhost' : introspectAddress;
  return {
    addresses: {
      http: new URL(httpAddr.startsWith('https://') ? httpAddr : `http://${dialAddress(httpAddr)}`),
      monitoring: new URL(`http://${dialAddress(monitoringAddr)}`),
      introspection: new URL(`http://${hostPort({ host, port: introspectPort })}`),
    },
    credential: await debugCredential(env),
  };
}

async function collect(collector: Collector, named: readonly string[], profileSeconds: number): Promise<void> {
  let proxies = named;
  for (const part of PARTS) {
    const response = await collector.add(part);
    if (part.file === 'status/proxies.json' && response !== undefined && named.length === 0) {
      proxies = proxiesNotInSync(response);
    }
  }
  for (const proxy of proxies) await collector.add(proxyPart(proxy));
  if (profileSeconds > 0) for (const part of profileParts(profileSeconds)) await collector.add(part);
}

/** Names from `/debug/proxiesz`. */
function proxiesNotInSync(response: Buffer): readonly string[] {
  const page: unknown = JSON.parse(response.toString('utf8'));
  const rows: readonly unknown[] = isObject(page) && Array.isArray(page.proxies) ? page.proxies : [];
  return rows
    .flatMap((row) => (isObject(row) && row.state !== 'SYNCED' && typeof row.proxy === 'string' ? [row.proxy] : []))
    .slice(0, MAX_PROXIES);
}
