/**
 * The documents that configuration protocols carry: by which message, in which collection of MCP, and under which types
 * of configuration over xDS. The names are those of Istio.
 */
import type { MeshKind, PolicyKind } from '../resources/index.ts';

export interface ExchangedKind {
  readonly kind: MeshKind;
  /** The full name of the message in the body of a resource. */
  readonly message: string;
  /** The collection of MCP; undefined if Istio 1.7 has none. */
  readonly collection: string | undefined;
  /** API groups with versions, the newest first: `GROUP/VERSION/KIND` is a type of configuration over xDS. */
  readonly apis: readonly string[];
}

const NETWORKING = ['networking.istio.io/v1', 'networking.istio.io/v1beta1', 'networking.istio.io/v1alpha3'] as const;
const SECURITY = ['security.istio.io/v1', 'security.istio.io/v1beta1'] as const;

function networking(kind: MeshKind, collection?: string): ExchangedKind {
  const message = `istio.networking.v1alpha3.${kind}`;
  return { kind, message, collection: collection && `istio/networking/v1alpha3/${collection}`, apis: NETWORKING };
}

function security(kind: MeshKind, collection: string): ExchangedKind {
  const message = `istio.security.v1beta1.${kind}`;
  return { kind, message, collection: `istio/security/v1beta1/${collection}`, apis: SECURITY };
}

/** A kind of the policy component. */
function policy(kind: PolicyKind, message: string, collection: string): ExchangedKind {
  return { kind, message, collection, apis: ['config.istio.io/v1alpha2'] };
}

/** How Istio sends kinds whose messages are not part of its API. */
const STRUCT = 'google.protobuf.Struct';

/** Policies first: they are asked for and sent before what they protect. */
export const EXCHANGED_KINDS: readonly ExchangedKind[] = [
  security('AuthorizationPolicy', 'authorizationpolicies'),
  security('PeerAuthentication', 'peerauthentications'),
  security('RequestAuthentication', 'requestauthentications'),
  networking('DestinationRule', 'destinationrules'),
  { ...networking('EnvoyFilter', 'envoyfilters'), apis: ['networking.istio.io/v1alpha3'] },
  networking('Gateway', 'gateways'),
  networking('ServiceEntry', 'serviceentries'),
  networking('Sidecar', 'sidecars'),
  networking('VirtualService', 'virtualservices'),
  networking('WorkloadEntry', 'workloadentries'),
  networking('WorkloadGroup'),
  {
    kind: 'ProxyConfig',
    message: 'istio.networking.v1beta1.ProxyConfig',
    collection: undefined,
    apis: ['networking.istio.io/v1beta1'],
  },
  {
    kind: 'Telemetry',
    message: 'istio.telemetry.v1alpha1.Telemetry',
    collection: undefined,
    apis: ['telemetry.istio.io/v1', 'telemetry.istio.io/v1alpha1'],
  },
  policy('attributemanifest', 'istio.policy.v1beta1.AttributeManifest', 'istio/policy/v1beta1/attributemanifests'),
  policy('adapter', STRUCT, 'istio/config/v1alpha2/adapters'),
  policy('template', STRUCT, 'istio/config/v1alpha2/templates'),
  policy('handler', 'istio.policy.v1beta1.Handler', 'istio/policy/v1beta1/handlers'),
  policy('instance', 'istio.policy.v1beta1.Instance', 'istio/policy/v1beta1/instances'),
  policy('rule', 'istio.policy.v1beta1.Rule', 'istio/policy/v1beta1/rules'),
];

/** The kinds with a collection of MCP, by its name. */
export const BY_COLLECTION: ReadonlyMap<string, ExchangedKind> = new Map(
  EXCHANGED_KINDS.flatMap((each) => (each.collection === undefined ? [] : [[each.collection, each]])),
);

/** The types of configuration over xDS, with their kinds. */
export const BY_XDS_TYPE: ReadonlyMap<string, ExchangedKind> = new Map(
  EXCHANGED_KINDS.flatMap((each) => each.apis.map((api) => [`${api}/${each.kind}`, each] as const)),
);

/** Whether a type URL has the form of configuration over xDS, `GROUP/VERSION/KIND`, as no type of a proxy has. */
export function isConfigType(typeUrl: string): boolean {
  return /^[a-z0-9.-]+\/v[a-z0-9]+\/[A-Za-z]+$/.test(typeUrl);
}
