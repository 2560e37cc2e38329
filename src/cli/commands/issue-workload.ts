/**
 * `ctl-discovery issue-workload`: writes what a machine outside the cluster needs to be a workload of a WorkloadGroup
 * into one folder. The group, the token and the root certificates come from a cluster, or from a file, a local issuer
 * and a file.
 */
import { isIP } from 'node:net';
import { CtlError } from '../../core/errors.ts';
import { discoveryIssueWorkloadFlags, flagSettings, usageError } from '../../settings/index.ts';
import type { WorkloadFilesInput } from '../../workload-files/index.ts';
import { type Command, command } from '../program.ts';

type Settings = ReturnType<typeof flagSettings<typeof discoveryIssueWorkloadFlags>>;
type Inputs = Pick<WorkloadFilesInput, 'spec' | 'token' | 'tokenEnds' | 'rootCertificate'>;

export function issueWorkloadCommand(): Command {
  return command({
    name: 'issue-workload',
    summary: 'Write the files for a machine that is to register as a workload of a WorkloadGroup.',
    flags: discoveryIssueWorkloadFlags,
    async run({ flags, io }) {
      const settings = flagSettings(discoveryIssueWorkloadFlags, flags);
      const { namespace, group, discoveryAddress, discoveryIp, address, output } = settings;
      checkGiven({ namespace, group, output, 'discovery-address': discoveryAddress });
      for (const [flag, ip] of [
        ['address', address],
        ['discovery-ip', discoveryIp],
      ] as const) {
        if (ip !== '' && isIP(ip) === 0)
          throw usageError(`--${flag}: expected an IP address, got ${JSON.stringify(ip)}`);
      }
      if (!/^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+):\d{1,5}$/i.test(discoveryAddress)) {
        throw usageError(`--discovery-address: expected host:port, got ${JSON.stringify(discoveryAddress)}`);
      }
      const { workloadFiles, writeFiles } = await import('../../workload-files/index.ts');
      const inputs = settings.kubeconfig === '' ? await fromFiles(settings) : await ofCluster(settings);
      const files = workloadFiles({ ...settings, ...inputs });
      await writeFiles(output, files);
      io.stdout.write(`${output}: ${files.map(({ name }) => name).join(', ')}\n`);
      return 0;
    },
  });
}

function checkGiven(given: Readonly<Record<string, string>>): void {
  const missing = Object.keys(given).find((flag) => given[flag] === '');
  if (missing !== undefined) throw usageError(`issue-workload needs --${missing}`);
}

async function ofCluster(settings: Settings): Promise<Inputs> {
  const { kubeconfig, namespace, group, audience, ttlMs } = settings;
  const { fromCluster } = await import('../../workload-files/index.ts');
  return await fromCluster({ kubeconfig, namespace, group, audience, lifetimeSeconds: ttlMs / 1000 });
}

async function fromFiles(settings: Settings): Promise<Inputs> {
  const { file, issuerDir, rootCert, namespace, group, audience, ttlMs } = settings;
  checkGiven({ 'file (or --kubeconfig)': file, 'issuer-dir': issuerDir, 'root-cert': rootCert });
  const { accountOf, groupInFile, textOf } = await import('../../workload-files/index.ts');
  const { issueToken } = await import('../../security/index.ts');
  const spec = await groupInFile(file, namespace, group);
  const rootCertificate = await textOf(rootCert);
  if (!rootCertificate.includes('-----BEGIN CERTIFICATE-----')) {
    throw new CtlError('invalid_argument', 'expected certificates in PEM form', { file: rootCert });
  }
  const now = Date.now();
  const identity = { namespace, serviceAccount: accountOf(spec) };
  const token = await issueToken({ directory: issuerDir, identity, audience, lifetimeSeconds: ttlMs / 1000, now });
  return { spec, token, tokenEnds: now + ttlMs, rootCertificate };
}
