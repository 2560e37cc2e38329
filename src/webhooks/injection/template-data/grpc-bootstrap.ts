/**
 * The bootstrap of gRPC applications without an agent, for the template `grpc-simple`: the control plane's address in
 * plain text, and a node without a certificate. The kubelet replaces the variables of the Pod in it.
 */
import { GENERATOR_METADATA, GRPC_GENERATOR, GRPC_SERVER_LISTENERS } from '../../../core/proxy.ts';

export interface GrpcBootstrapInput {
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
export function simpleGrpcBootstrap(input: GrpcBootstrapInput): string {
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
  // Kubernetes would replace `$(NAME)` in other texts, too: `$$` is a dollar sign.
  return JSON.stringify(bootstrap, (key, value: unknown) =>
    typeof value === 'string' && key !== 'id' ? value.replaceAll('$', '$$$$') : value,
  );
}
