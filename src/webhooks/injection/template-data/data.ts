/** The data of templates for one Pod. */
import { GENERATOR_METADATA, GRPC_GENERATOR, GRPC_SERVER_LISTENERS } from '../../../core/proxy.ts';
import { workloadLabels } from '../../../resources/index.ts';
import type { InjectionParameters, InjectionSettings, PodObject } from '../../types.ts';
import type { PodOptions } from '../annotations/annotations.ts';
import { recordOf, textOf, textsOf } from '../pod-shape.ts';
import type { PodDocuments } from '../proxy-configs.ts';
import { AGENT_STATUS_PORT } from '../redirection.ts';
import type { Values } from '../values.ts';
import { effectiveProxyConfig, forAgent } from './effective-proxy-config.ts';
import { concurrencyOf, proxyData } from './proxy-data.ts';
import type { TemplateData } from './types.ts';
import { workloadData } from './workload.ts';

/** The label values that the API server accepts; names of networks may be longer. */
const LABEL_VALUE = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

export interface DataInput {
  readonly pod: PodObject;
  readonly namespace: string;
  readonly parameters: InjectionParameters;
  /** The Pod's annotations and labels. */
  readonly options: PodOptions;
  /** The Pod's ProxyConfigs. */
  readonly documents: PodDocuments;
  readonly values: Values;
  readonly settings: InjectionSettings;
}

/**
 * The bootstrap of gRPC applications without an agent, for the template `grpc-simple`: the control plane's address in
 * plain text, and a node without a certificate. The kubelet replaces the variables of the Pod in it.
 */
interface GrpcBootstrapInput {
  /** `host:port` of the control plane, over TLS. */
  readonly discoveryAddress: string;
  /** DNS domain of the cluster. */
  readonly domain: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** More metadata of the node; empty values are left out. */
  readonly metadata: Readonly<Record<string, string>>;
}

const SECURE_PORT = 15_012;
const PLAIN_TEXT_PORT = 15_010;

/** JSON. */
function simpleGrpcBootstrap(input: GrpcBootstrapInput): string {
  const { discoveryAddress, domain, namespace, labels, metadata } = input;
  const server = discoveryAddress.replace(`:${SECURE_PORT}`, `:${PLAIN_TEXT_PORT}`);
  const [listeners] = GRPC_SERVER_LISTENERS;
  const given = Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== ''));
  const bootstrap = {
    xds_servers: [
      { server_uri: `dns:///${server}`, channel_creds: [{ type: 'insecure' }], server_features: ['xds_v3'] },
    ],
    node: {
      id: `sidecar~$(INSTANCE_IP)~$(POD_NAME).${namespace}~${namespace}.svc.${domain}`,
      // gRPC for Node.js requires a locality.
      locality: {},
      metadata: { ...given, NAMESPACE: namespace, LABELS: labels, [GENERATOR_METADATA]: GRPC_GENERATOR },
    },
    server_listener_resource_name_template: `${listeners}%s`,
  };
  // Kubernetes would replace `$(NAME)` in other strings, too: `$$` is a dollar sign.
  return JSON.stringify(bootstrap, (key, value: unknown) =>
    typeof value === 'string' && key !== 'id' ? value.replaceAll('$', '$$$$') : value,
  );
}

/**
 * @returns the data, and warnings for the user of `kubectl apply`
 * @throws CtlError with the field that has a wrong value, such as `metadata.annotations[proxy.mesh.io/config]`
 */
export function templateData(input: DataInput): { readonly data: TemplateData; readonly warnings: readonly string[] } {
  const { pod, namespace, parameters, options, documents, values, settings } = input;
  const metadata = recordOf(pod.metadata);
  const podSpec = recordOf(pod.spec);
  const config = effectiveProxyConfig(settings, options, documents);
  const { proxy, warnings } = proxyData({ options, values, config, settings, podSpec, namespace });
  const concurrency = config.value.concurrency ?? concurrencyOf(proxy.resources);
  const { trustDomain, domain, rootConfigMap, controlPlaneNamespace, jwtPolicy, revision } = settings;
  const network = options.network ?? parameters.network ?? values.global.network;
  const workload = workloadData(metadata, namespace);
  const cluster = parameters.cluster ?? settings.clusterId;
  const grpcBootstrap = simpleGrpcBootstrap({
    discoveryAddress: textOf(config.written.discoveryAddress),
    domain,
    namespace,
    labels: textsOf(metadata.labels),
    metadata: { CLUSTER_ID: cluster, NETWORK: network, WORKLOAD_NAME: workload.name },
  });
  const data: TemplateData = {
    pod: {
      metadata: {
        name: textOf(metadata.name),
        generateName: textOf(metadata.generateName),
        namespace,
        labels: workloadLabels(textsOf(metadata.labels)),
        annotations: workloadLabels(textsOf(metadata.annotations)),
      },
      spec: podSpec,
    },
    namespace,
    workload,
    proxy: { ...proxy, grpcBootstrap },
    values,
    proxyConfig: forAgent(
      {
        ...config.written,
        ...(concurrency === undefined ? {} : { concurrency }),
        ...([0, AGENT_STATUS_PORT].includes(proxy.statusPort) ? {} : { statusPort: proxy.statusPort }),
      },
      options.proxyConfig?.config,
    ),
    mesh: { trustDomain, domain, rootConfigMap, controlPlaneNamespace, jwtPolicy },
    revision,
    cluster,
    network,
    networkLabel: LABEL_VALUE.test(network) ? network : '',
  };
  const ofConfig = options.proxyConfig?.warning;
  return {
    data,
    warnings: [
      ...(ofConfig === undefined ? [] : [`metadata.annotations[proxy.mesh.io/config]: ${ofConfig}`]),
      ...documents.warnings,
      ...warnings,
    ],
  };
}
