/** The content of the files that a machine needs to run a workload of a WorkloadGroup. */
import { isIP } from 'node:net';
import { stringify } from 'yaml';
import { CtlError } from '../core/errors.ts';
import type { ReadinessProbe, WorkloadGroupSpec } from '../resources/index.ts';
import { AGENT_UNIT, CONFIG_FOLDER, REDIRECT_UNIT, STATE_FOLDER } from './units.ts';

export interface WorkloadFilesInput {
  readonly namespace: string;
  readonly group: string;
  readonly spec: WorkloadGroupSpec;
  readonly token: string;
  /** When the token ends, milliseconds since the epoch. */
  readonly tokenEnds: number;
  /** PEM. */
  readonly rootCertificate: string;
  /** `host:port` of the control plane. */
  readonly discoveryAddress: string;
  /** For the hosts file of the machine; '' for none. */
  readonly discoveryIp: string;
  /** The machine's own address; '': the first that it has. */
  readonly address: string;
  /** '' for the default one. */
  readonly trustDomain: string;
  /** Whether the agent answers the DNS queries of the machine. */
  readonly dns: boolean;
}

export interface WorkloadFile {
  readonly name: string;
  readonly text: string;
  /** Permission bits. */
  readonly mode: number;
}

const DEFAULT_ACCOUNT = 'default';

export function accountOf({ template }: WorkloadGroupSpec): string {
  return template.serviceAccount || DEFAULT_ACCOUNT;
}

export function workloadFiles(input: WorkloadFilesInput): readonly WorkloadFile[] {
  const file = (name: string, text: string, mode = 0o644): WorkloadFile => ({ name, text, mode });
  const hosts = hostsOf(input);
  return [
    file('token', `${input.token}\n`, 0o600),
    file('root-cert.pem', input.rootCertificate),
    file('cluster.env', environmentOf(input)),
    file('mesh.yaml', stringify(meshConfigOf(input))),
    ...(hosts === '' ? [] : [file('hosts', hosts)]),
    file('ctl-agent.service', AGENT_UNIT),
    file('ctl-agent-redirect.service', REDIRECT_UNIT),
    file('README.md', readmeOf(input, hosts)),
  ];
}

/** systemd and shells read these alike; a line break would add a variable for a program that runs as root. */
const WORD = /^[A-Za-z0-9._:/-]+$/;

/** Throws a CtlError for a service account that is not a valid name. */
function environmentOf({ namespace, spec, address, dns }: WorkloadFilesInput): string {
  const variables = {
    POD_NAMESPACE: namespace,
    SERVICE_ACCOUNT: accountOf(spec),
    ...(address === '' ? {} : { INSTANCE_IP: address }),
    ...(dns ? { DNS_AGENT: 'true' } : {}),
    CA_TOKEN_FILE: `${CONFIG_FOLDER}/token`,
    CA_ROOT_CA: `${CONFIG_FOLDER}/root-cert.pem`,
    // The certificate of the last run is enough for a restart: the token ends long before.
    OUTPUT_CERTS: `${STATE_FOLDER}/certs`,
    PROV_CERT: `${STATE_FOLDER}/certs`,
  };
  const wrong = Object.entries(variables).find(([, value]) => !WORD.test(value));
  if (wrong !== undefined) {
    const [name, value] = wrong;
    throw new CtlError('invalid_argument', `${name}: ${JSON.stringify(value.slice(0, 80))} is not a valid name`);
  }
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

function meshConfigOf({ group, spec, discoveryAddress, trustDomain }: WorkloadFilesInput): object {
  const { metadata, template, probe } = spec;
  const labels = { ...template.labels, ...metadata?.labels };
  return {
    ...(trustDomain === '' ? {} : { trustDomain }),
    defaultConfig: {
      discoveryAddress,
      proxyMetadata: {
        MESH_META_AUTO_REGISTER_GROUP: group,
        ...(template.network ? { MESH_META_NETWORK: template.network } : {}),
        MESH_METAJSON_LABELS: JSON.stringify(labels),
      },
      ...(probe === undefined ? {} : { readinessProbe: probe satisfies ReadinessProbe }),
    },
  };
}

function hostsOf({ discoveryAddress, discoveryIp }: WorkloadFilesInput): string {
  const host = discoveryAddress.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  return discoveryIp === '' || isIP(host) !== 0 ? '' : `${discoveryIp} ${host}\n`;
}

function readmeOf({ namespace, group, tokenEnds }: WorkloadFilesInput, hosts: string): string {
  const append = hosts === '' ? '' : 'grep -qxFf hosts /etc/hosts || cat hosts >> /etc/hosts\n';
  return `# A workload of WorkloadGroup ${namespace}/${group}

These files make a machine a workload of the mesh. It needs Node.js 24, iptables, Envoy
(\`/usr/local/bin/envoy\`) and the programs of meshd (\`/opt/meshd/dist\`). If they are in other
folders, change the units. Copy this folder to the machine, and run these commands there, as root:

\`\`\`sh
id mesh-proxy || useradd --system --no-create-home mesh-proxy
install -d ${CONFIG_FOLDER}
install -m 644 root-cert.pem cluster.env mesh.yaml ${CONFIG_FOLDER}
install -m 600 -o mesh-proxy -g mesh-proxy token ${CONFIG_FOLDER}
install -m 644 ctl-agent.service ctl-agent-redirect.service /etc/systemd/system
${append}systemctl daemon-reload
systemctl enable --now ctl-agent
\`\`\`

- The token is a secret. It authenticates the request for the first certificate, until
  ${new Date(tokenEnds).toISOString()}. After that, restarts use the certificate in
  \`${STATE_FOLDER}/certs\`. A machine that was off for more than a day needs a new token.
- Run the application as any user except mesh-proxy. Its traffic goes through Envoy.
- \`systemctl stop ctl-agent\` drains the proxy. Traffic is still redirected, so that nothing
  bypasses the proxy; \`ctl-agent mesh-clean-iptables\` removes the redirection.
`;
}
