/** Semantic validation: what an admission check refuses beyond wrong types. One file per group of kinds. */
import type { Fault } from '../issues.ts';
import type { ContentOf } from '../schemas.ts';
import type { Kind } from '../types.ts';
import { validateAuthorizationPolicy } from './authorization.ts';
import { validateEndpointSlice, validateEndpoints, validatePod, validateService } from './core.ts';
import { validateDestinationRule } from './destination-rule.ts';
import { validateEnvoyFilter } from './envoy-filter.ts';
import { validateGateway } from './gateway.ts';
import { validateSecret } from './secret.ts';
import { validatePeerAuthentication, validateRequestAuthentication } from './security.ts';
import { validateServiceEntry, validateWorkloadEntry } from './service-entry.ts';
import { validateSidecar } from './sidecar.ts';
import { faultList, type ValidationErrors } from './validation-errors.ts';
import { validateVirtualService } from './virtual-service.ts';

type Validators = { readonly [K in Kind]?: (content: ContentOf<K>, faults: ValidationErrors) => void };

const VALIDATORS: Validators = {
  AuthorizationPolicy: validateAuthorizationPolicy,
  DestinationRule: validateDestinationRule,
  EnvoyFilter: validateEnvoyFilter,
  Gateway: validateGateway,
  PeerAuthentication: validatePeerAuthentication,
  RequestAuthentication: validateRequestAuthentication,
  ServiceEntry: validateServiceEntry,
  Sidecar: validateSidecar,
  VirtualService: validateVirtualService,
  WorkloadEntry: validateWorkloadEntry,
  EndpointSlice: validateEndpointSlice,
  Endpoints: validateEndpoints,
  Pod: validatePod,
  Secret: validateSecret,
  Service: validateService,
};

/** ValidationErrors in content that has passed its kind's schema; paths start at the content. */
export function semanticErrors<K extends Kind>(kind: K, content: ContentOf<K>): Fault[] {
  const { faults, found } = faultList();
  VALIDATORS[kind]?.(content, faults);
  return found;
}
