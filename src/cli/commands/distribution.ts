/** `distribution KIND/NAMESPACE/NAME`: which proxies have acknowledged the current version of a document. */
import { CtlError, messageOf } from '../../core/errors.ts';
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import { discoveryDistributionFlags, flagSettings, usageError } from '../../settings/index.ts';
import { unavailable } from '../errors.ts';
import { formatted } from '../output/index.ts';
import { type Command, command } from '../program.ts';
import { askReplicas } from '../replicas.ts';

/** A line of `/debug/config_distribution`. */
interface Distribution {
  readonly proxy: string;
  readonly connectionId: string;
  readonly versions: Readonly<Partial<Record<XdsType, string | null>>>;
  readonly upToDate: boolean;
}

export function distributionCommand(): Command {
  return command({
    name: 'distribution',
    summary: 'Show which proxies have acknowledged the current version of a document.',
    flags: discoveryDistributionFlags,
    arguments: ['<kind>/<namespace>/<name>'],
    async run({ flags, io }) {
      const { httpAddr, namespace, output } = flagSettings(discoveryDistributionFlags, flags);
      const [resource = ''] = flags.positionals;
      if (httpAddr.length === 0) throw usageError('distribution needs --httpAddr');
      if (resource.split('/').length !== 3) throw usageError(`expected KIND/NAMESPACE/NAME, got ${resource}`);
      const { found, failed } = await askReplicas(httpAddr, io.env, async (client) => {
        const page = (await client.page('config_distribution', { resource })) as Distribution[];
        return page.map((line) => ({ ...line, discovery: client.server }));
      });
      for (const error of failed) io.stderr.write(`${messageOf(error)}\n`);
      if (found.length === 0) throw firstOf(failed);
      const lines = found.flat().filter(({ proxy }) => namespace === '' || proxy.endsWith(`.${namespace}`));
      io.stdout.write(await formatted(lines, output, () => rows(lines)));
      return failed.length === 0 && lines.every(({ upToDate }) => upToDate) ? 0 : 1;
    },
  });
}

/** A document that no replica knows is not found; else nobody answered. */
function firstOf(failed: readonly unknown[]): unknown {
  const unknown = failed.find((error) => error instanceof CtlError && error.code === 'not_found');
  return unknown ?? unavailable('no discovery service returned what its proxies have');
}

function rows(lines: readonly (Distribution & { readonly discovery: string })[]): string[][] {
  const current = currentVersion(lines);
  const all = lines.map(({ proxy, versions, upToDate, discovery }) => {
    const lacks = XDS_TYPES.filter((type) => current !== undefined && versions[type] !== undefined)
      .filter((type) => versions[type] !== current)
      .map((type) => type.toUpperCase());
    return [proxy, upToDate ? 'yes' : 'no', lacks.join(', '), discovery];
  });
  return [
    ['NAME', 'UP TO DATE', 'LACKS', 'DISCOVERY'],
    ...all.sort(([a = ''], [b = '']) => (a < b ? -1 : a > b ? 1 : 0)),
  ];
}

/** That of a proxy that is up to date; undefined if there is none. */
function currentVersion(lines: readonly Distribution[]): string | null | undefined {
  return Object.values(lines.find(({ upToDate }) => upToDate)?.versions ?? {})[0];
}
