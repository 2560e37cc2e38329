/**
 * Entry point of traffic redirection: rules that redirect a workload's connections to the proxy, and their removal.
 * Rules are data (`rules.ts`), `footprint.ts` lists what they leave behind, and only `run.ts` changes the host.
 */
import { getScope } from '../../logging/index.ts';
import { applyRedirection, cleanRedirection } from './apply.ts';
import { findNameservers, findUser, presentFamilies, readText, usableFamilies } from './host.ts';
import { ineffectiveSettings, portOf, type RedirectionSettings, redirectionOf } from './options.ts';
import { printCleanCommands, printCommands, printRestoreFormat } from './print.ts';
import { runProgram } from './run.ts';
import { RedirectionFault, validateRedirection } from './validate.ts';
import { validateDns } from './validate-dns.ts';

export { RedirectionFault };

export interface MeshIptablesSettings extends RedirectionSettings {
  readonly dryRun: boolean;
  readonly restoreFormat: boolean;
  readonly runValidation: boolean;
  readonly skipRuleApply: boolean;
  readonly iptablesProbePort: string;
  readonly probeTimeoutMs: number;
  /** The user whose IDs the proxy has when neither is set. */
  readonly proxyUser: string;
}

/** Sets up redirection; `print` receives requested output. Rejects with a CtlError of one line. */
export async function meshIptables(settings: MeshIptablesSettings, print: (text: string) => void): Promise<void> {
  const log = getScope('default');
  const nameservers = await findNameservers(readText);
  const redirection = redirectionOf(settings, { proxyUser: await findUser(readText, settings.proxyUser), nameservers });
  const probePort = portOf('iptables-probe-port', settings.iptablesProbePort);
  const ineffective = ineffectiveSettings(settings, redirection, nameservers);
  // The output is for shells and iptables-restore, which ignore comments.
  if (settings.dryRun || settings.restoreFormat) print(ineffective.map((each) => `# warning: ${each}\n`).join(''));
  if (!settings.dryRun) for (const each of ineffective) log.warn(each);
  if (settings.restoreFormat) print(printRestoreFormat(await presentFamilies(readText), redirection));
  else if (settings.dryRun) print(printCommands(await presentFamilies(readText), redirection));
  if (settings.dryRun) return;

  if (!settings.skipRuleApply) {
    const families = await usableFamilies(runProgram, readText, (why) => log.warn('IPv6 is not redirected', { why }));
    await applyRedirection(runProgram, families, redirection);
    log.info('traffic is redirected', { mode: redirection.interception.mode, families: families.join(', ') });
    if (redirection.dns !== undefined) {
      const { servers, port } = redirection.dns;
      log.info('DNS queries are redirected', { servers: servers.join(', '), port });
    }
  }
  if (!settings.runValidation) return;
  const families = await presentFamilies(readText);
  const { probeTimeoutMs: timeoutMs } = settings;
  for (const line of await validateRedirection({ families, redirection, probePort, timeoutMs })) log.info(line);
  for (const line of await validateDns(redirection, timeoutMs)) log.info(line);
}

/** Removes what `meshIptables` added, and nothing else. Rejects with a CtlError of one line. */
export async function meshCleanIptables(
  settings: { readonly dryRun: boolean },
  print: (text: string) => void,
): Promise<void> {
  const log = getScope('default');
  if (settings.dryRun) return print(printCleanCommands(await presentFamilies(readText)));
  const families = await usableFamilies(runProgram, readText, (why) => log.warn('IPv6 rules are not checked', { why }));
  await cleanRedirection(runProgram, families);
  log.info('traffic is no longer redirected');
}
