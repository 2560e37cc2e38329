/** The agent understands what injection writes: flags, variables and files of every golden file of injection. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAppProbes } from '../src/agent/health/app-probes.ts';
import { redirectionOf } from '../src/agent/iptables/options.ts';
import { parseAppMetrics } from '../src/agent/metrics/app-metrics.ts';
import { readProxyConfig } from '../src/agent/settings/proxy-config.ts';
import { agentProxyFlags, meshIptablesEnv, meshIptablesFlags, parseFlags } from '../src/settings/index.ts';
import { goldenCases, goldenResult } from '../src/webhooks/injection/testing/golden-cases.ts';

interface Probe {
  readonly httpGet?: { readonly path: string };
}

interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly startupProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly securityContext?: { readonly runAsUser?: number };
}

interface Pod {
  readonly spec: {
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
  };
}

const ADDRESS = '127.0.0.1';

/** Names of the proxy: a Pod may have written that of Istio. */
const PROXIES = ['mesh-proxy', 'istio-proxy'];
/** Containers that redirect traffic, or check that it is. */
const REDIRECTIONS = ['mesh-init', 'mesh-validation'];
/** Pods of the template `grpc-simple`. */
const WITHOUT_AGENT = ['grpc-simple'];

const DEFAULT_USER = 1337;

function injectedPods(): readonly (readonly [name: string, pod: Pod])[] {
  return goldenCases().flatMap(({ name }) => {
    const result = goldenResult(name);
    return 'pod' in result ? [[name, result.pod as unknown as Pod] as const] : [];
  });
}

/** The value that the kubelet gives the container. */
function variable({ env = [] }: Container, name: string): string {
  return (env.find((each) => each.name === name)?.value ?? '').replaceAll('$$', '$');
}

for (const [name, pod] of injectedPods()) {
  const { containers, initContainers = [] } = pod.spec;
  const all = [...initContainers, ...containers];
  const proxy = all.find((container) => PROXIES.includes(container.name));

  const skip = WITHOUT_AGENT.includes(name) && 'has no agent';
  test(`the agent in the Pod ${name} understands its arguments and variables`, { skip }, () => {
    assert.ok(proxy !== undefined);
    const [command, role, ...flags] = proxy.args ?? [];
    assert.equal(command, 'proxy');
    assert.ok(role === 'sidecar' || role === 'router', role);
    const given = flags.map((flag) => flag.replace('$(POD_NAMESPACE)', 'shop'));
    assert.deepEqual(parseFlags(given, agentProxyFlags).positionals, []);
    const config = readProxyConfig(JSON.parse(variable(proxy, 'PROXY_CONFIG')), 'PROXY_CONFIG');
    assert.ok(config.discoveryAddress !== undefined);
    parseAppMetrics(variable(proxy, 'MESH_METRICS_ANNOTATIONS'), config.statusPort ?? 15_020);
  });

  test(`every rewritten probe of the Pod ${name} is one that its agent knows`, () => {
    const probes = parseAppProbes(variable(proxy ?? { name: '' }, 'MESH_ORCH_APP_PROBERS'), ADDRESS);
    const rewritten = all.flatMap(({ startupProbe, readinessProbe, livenessProbe }) =>
      [startupProbe, readinessProbe, livenessProbe].flatMap((probe) => probe?.httpGet?.path ?? []),
    );
    const paths = rewritten.filter((path) => path.startsWith('/app-health/'));
    assert.deepEqual(paths.sort(), [...probes.keys()].sort());
  });

  test(`mesh-iptables understands its arguments in the Pod ${name}`, () => {
    for (const init of all.filter((container) => REDIRECTIONS.includes(container.name))) {
      const [command, ...flags] = init.args ?? [];
      assert.equal(command, 'mesh-iptables');
      const { given, positionals } = parseFlags(flags, meshIptablesFlags);
      assert.deepEqual(positionals, []);
      const text = (flag: string, fallback = '') => String(given.get(flag) ?? fallback);
      const redirection = redirectionOf(
        {
          proxyPort: meshIptablesEnv.PROXY_PORT.default,
          inboundCapturePort: meshIptablesEnv.INBOUND_CAPTURE_PORT.default,
          inboundTunnelPort: meshIptablesEnv.INBOUND_TUNNEL_PORT.default,
          meshInboundInterceptionMode: text('mesh-inbound-interception-mode'),
          meshInboundPorts: text('mesh-inbound-ports'),
          meshInboundTproxyMark: '',
          meshInboundTproxyRouteTable: '',
          meshLocalExcludePorts: text('mesh-local-exclude-ports'),
          meshLocalOutboundPortsExclude: text('mesh-local-outbound-ports-exclude'),
          meshOutboundPorts: text('mesh-outbound-ports'),
          meshServiceCidr: text('mesh-service-cidr'),
          meshServiceExcludeCidr: text('mesh-service-exclude-cidr'),
          orchVirtInterfaces: text('orch-virt-interfaces'),
          proxyUid: text('proxy-uid'),
          proxyGid: text('proxy-gid'),
          dnsAgent: variable(init, 'DNS_AGENT'),
          dnsCapture: variable(init, 'MESH_META_DNS_CAPTURE'),
          dnsAddress: variable(init, 'DNS_ADDR') || meshIptablesEnv.DNS_ADDR.default,
        },
        { proxyUser: undefined, nameservers: [] },
      );
      // What root sends is redirected: such a proxy is known by its group.
      assert.deepEqual(redirection.proxyUids, [proxy?.securityContext?.runAsUser || DEFAULT_USER]);
    }
  });
}
