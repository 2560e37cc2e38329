/** Semantic validation: what is refused beyond wrong types. One file per group of kinds. */
import { tlsSecretProblems } from '../../core/tls/tls-secret-problems.ts';
import type { ContentOf } from '../kinds/schemas.ts';
import type { Kind } from '../kinds/types.ts';
import type { DocumentLimits } from '../limits.ts';
import type { ValidationError } from '../parsing/issues.ts';
import type { SecretContent } from '../schema/core.ts';
import { validateAuthorizationPolicy } from './authorization.ts';
import { validateEndpointSlice, validateEndpoints, validatePod, validateService } from './core.ts';
import { validateDestinationRule } from './destination-rule.ts';
import { validateEnvoyFilter } from './envoy-filter.ts';
import { validateGateway } from './gateway.ts';
import { validateBackendTlsPolicy, validateKubernetesGateway, validateRoute } from './gateway-api.ts';
import {
  validateAttributeManifest,
  validatePolicyAdapter,
  validatePolicyHandler,
  validatePolicyInstance,
  validatePolicyRule,
  validatePolicyTemplate,
} from './policy.ts';
import { validateProxyConfig } from './proxy-config.ts';
import { validateVirtualService } from './routes/virtual-service.ts';
import { validatePeerAuthentication, validateRequestAuthentication } from './security.ts';
import { validateServiceEntry, validateWorkloadEntry } from './service-entry.ts';
import { validateSidecar } from './sidecar.ts';
import { validateTelemetry } from './telemetry.ts';
import { errorList, type ValidationErrors } from './validation-errors.ts';
import { validateWorkloadGroup } from './workload-group.ts';

type Validators = { readonly [K in Kind]?: (content: ContentOf<K>, errors: ValidationErrors) => void };

const VALIDATORS: Validators = {
  AuthorizationPolicy: validateAuthorizationPolicy,
  DestinationRule: validateDestinationRule,
  EnvoyFilter: validateEnvoyFilter,
  Gateway: validateGateway,
  PeerAuthentication: validatePeerAuthentication,
  ProxyConfig: validateProxyConfig,
  RequestAuthentication: validateRequestAuthentication,
  ServiceEntry: validateServiceEntry,
  Sidecar: validateSidecar,
  Telemetry: validateTelemetry,
  VirtualService: validateVirtualService,
  WorkloadEntry: validateWorkloadEntry,
  WorkloadGroup: validateWorkloadGroup,
  adapter: validatePolicyAdapter,
  attributemanifest: validateAttributeManifest,
  handler: validatePolicyHandler,
  instance: validatePolicyInstance,
  rule: validatePolicyRule,
  template: validatePolicyTemplate,
  EndpointSlice: validateEndpointSlice,
  Endpoints: validateEndpoints,
  Pod: validatePod,
  Secret: validateSecret,
  Service: validateService,
  BackendTLSPolicy: validateBackendTlsPolicy,
  GRPCRoute: validateRoute,
  HTTPRoute: validateRoute,
  KubernetesGateway: validateKubernetesGateway,
  TCPRoute: validateRoute,
  TLSRoute: validateRoute,
};

/** Errors in content that matches its kind's schema; paths start at the content. */
export function semanticErrors<K extends Kind>(
  kind: K,
  content: ContentOf<K>,
  limits: DocumentLimits,
): ValidationError[] {
  const { errors, found } = errorList(limits);
  VALIDATORS[kind]?.(content, errors);
  return found;
}

/** Validates Secrets for TLS at gateways; see `core/tls-secret-problems.ts`. */
function validateSecret(content: SecretContent, errors: ValidationErrors): void {
  for (const { entry, message } of tlsSecretProblems(content)) {
    if (entry === undefined) errors.add(['data'], message);
    // `stringData` takes precedence, as in Kubernetes.
    else errors.add([content.stringData?.[entry] === undefined ? 'data' : 'stringData', entry], message);
  }
}
