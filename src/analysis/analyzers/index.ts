/** The analyzers: each finds what its codes describe. */
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';
import { annotations } from './annotations.ts';
import { ruleHosts, tlsConflicts, unverifiedServers } from './destination-rules.ts';
import { bypassedSubsets, destinations } from './destinations.ts';
import { documentWarnings, refusedDocuments } from './documents.ts';
import { envoyPatches } from './envoy-filters.ts';
import { gatewayCredentials } from './gateway-credentials.ts';
import { conflictingServers, gatewayWorkloads, sharedCertificates } from './gateways.ts';
import { missingProxies, namespaceInjection } from './injection.ts';
import { applicationUsers, automaticImages, serviceAssociations, webhooks } from './manifests.ts';
import { gatewaySelectors, namedNamespaces, policyWorkloads } from './policies.ts';
import { policyDocuments } from './policy-documents.ts';
import { sidecarSelectors, telemetrySelectors } from './selectors.ts';
import { conflictingProtocols, entryAddresses, networkRegistries, portProtocols } from './services.ts';
import { accessLogProviders } from './telemetry.ts';
import { namedGateways } from './virtual-service-gateways.ts';
import { conflictingHosts } from './virtual-service-hosts.ts';
import { unreachableRules } from './virtual-service-rules.ts';
import { deprecated, negativeConditions } from './written.ts';

export const ANALYZERS: readonly ((mesh: AnalyzedMesh) => Findings)[] = [
  refusedDocuments,
  documentWarnings,
  policyDocuments,
  destinations,
  bypassedSubsets,
  namedGateways,
  conflictingHosts,
  unreachableRules,
  ruleHosts,
  unverifiedServers,
  tlsConflicts,
  gatewayWorkloads,
  gatewayCredentials,
  conflictingServers,
  sharedCertificates,
  sidecarSelectors,
  telemetrySelectors,
  accessLogProviders,
  policyWorkloads,
  namedNamespaces,
  gatewaySelectors,
  portProtocols,
  entryAddresses,
  conflictingProtocols,
  networkRegistries,
  envoyPatches,
  namespaceInjection,
  missingProxies,
  serviceAssociations,
  applicationUsers,
  automaticImages,
  webhooks,
  annotations,
  deprecated,
  negativeConditions,
];
