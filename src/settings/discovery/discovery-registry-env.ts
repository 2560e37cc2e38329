/** The environment variables of the external registry (`--registries=ExtRegistry`). */
import type { EnvTable } from '../env-table.ts';

export const discoveryRegistryEnv = {
  CTL_EXTREGISTRY_NAMESPACE: {
    setting: 'extregistryNamespace',
    type: 'string',
    default: 'default',
    meaning: 'Namespace of the mesh that the services of the external registry are in.',
  },
  CTL_EXTREGISTRY_DATACENTERS: {
    setting: 'extregistryDatacenters',
    type: 'string',
    default: '',
    meaning: 'Datacenters of the external registry that are read, separated by commas; that of the server when empty.',
  },
  CTL_EXTREGISTRY_CONSUL_NAMESPACE: {
    setting: 'extregistryConsulNamespace',
    type: 'string',
    default: '',
    meaning:
      'Namespace in Consul whose services are read, for servers that have namespaces; that of the token when empty.',
  },
  CTL_EXTREGISTRY_PARTITION: {
    setting: 'extregistryPartition',
    type: 'string',
    default: '',
    meaning: 'Admin partition in Consul whose services are read, for servers that have partitions.',
  },
  CTL_EXTREGISTRY_TOKEN_FILE: {
    setting: 'extregistryTokenFile',
    type: 'string',
    default: '',
    meaning:
      'File with the ACL token for the external registry, which needs node:read and service:read. It is read again ' +
      'when it changes.',
  },
  CTL_EXTREGISTRY_CA_FILE: {
    setting: 'extregistryCaFile',
    type: 'string',
    default: '',
    meaning:
      'File with the certificates, PEM, by which https servers of the external registry are verified; the ' +
      'authorities of the system when empty. It is read again when it changes.',
  },
  CTL_EXTREGISTRY_CONSISTENCY: {
    setting: 'extregistryConsistency',
    type: 'string',
    default: 'default',
    meaning:
      'Consistency mode of requests to the external registry: default, stale (any server answers) or consistent (the ' +
      'leader asks the others before it answers).',
  },
  CTL_EXTREGISTRY_WAIT: {
    setting: 'extregistryWaitMs',
    type: 'duration',
    default: '1m0s',
    min: 1000,
    meaning: 'How long a blocking query of the external registry waits for a change; Consul waits at most 10 minutes.',
  },
  CTL_EXTREGISTRY_TIMEOUT: {
    setting: 'extregistryTimeoutMs',
    type: 'duration',
    default: '10s',
    min: 100,
    meaning: 'Limit for a response of the external registry, in addition to the wait of a blocking query.',
  },
  CTL_EXTREGISTRY_MAX_REQUESTS: {
    setting: 'extregistryMaxRequests',
    type: 'integer',
    default: 16,
    min: 1,
    unit: 'requests',
    meaning:
      'Maximum number of concurrent requests about single services to the external registry, in each datacenter. ' +
      'Four more are about all services.',
  },
  CTL_EXTREGISTRY_SWEEP_QPS: {
    setting: 'extregistrySweepQps',
    type: 'float',
    default: 100,
    min: 0.1,
    meaning:
      'Services that are read again each second after a change that the list of checks does not show, such as one of ' +
      'the metadata of an instance.',
  },
  CTL_EXTREGISTRY_HOLD: {
    setting: 'extregistryHoldMs',
    type: 'duration',
    default: '15m0s',
    min: 0,
    meaning:
      'How long services and instances stay that the external registry no longer has after its index went backwards, ' +
      'or that are missing when more than half of the services disappear at once; 0s: they are removed at once.',
  },
  CTL_EXTREGISTRY_MAX_SERVICES: {
    setting: 'extregistryMaxServices',
    type: 'integer',
    default: 20000,
    min: 1,
    unit: 'services',
    meaning: 'Maximum number of services of the external registry, in each datacenter. Further ones are not read.',
  },
  CTL_EXTREGISTRY_MAX_INSTANCES: {
    setting: 'extregistryMaxInstances',
    type: 'integer',
    default: 200000,
    min: 1,
    unit: 'instances',
    meaning:
      'Maximum number of instances of all services of the external registry, in each datacenter. A service that ' +
      'would exceed it keeps the instances that it had.',
  },
  CTL_EXTREGISTRY_PASSING_ONLY: {
    setting: 'extregistryPassingOnly',
    type: 'boolean',
    default: false,
    meaning: 'Instances of the external registry with a check in state warning are not used.',
  },
} as const satisfies EnvTable;
