/**
 * The names of the facts: everything that generation can read of a mesh. A reader records them (`reader.ts`), a change
 * set determines which of them changed (`changed-facts.ts`). Most are relative to the scope that a view is generated
 * from, so that views of many namespaces have the same facts. The others (configuration resources, peers, endpoints in
 * clusters, targets of gateways) are mesh-wide.
 */
import type { ResourceKey } from '../../resources/index.ts';

export type Fact = string;

/** The mesh configuration, and the networks. */
export const MESH: Fact = 'mesh';

/** The address ranges that contain workloads. */
export const WORKLOAD_RANGES: Fact = 'workload ranges';

/** Whether the scope exists, its Sidecar, egress listeners and traffic policy. */
export const SCOPE: Fact = 'scope';
/** Which hosts are services. Its members are hosts. */
export const HOSTS: Fact = 'hosts';
/** Which ports services have. */
export const PORTS: Fact = 'ports';
/** Which ports services have that may be HTTP, and which of them. */
export const HTTP_PORTS: Fact = 'HTTP ports';
/** Any service or merged destination rule. */
export const ANY_HOST: Fact = 'any host';
/** Any service: all of them, with their addresses. */
export const ANY_SERVICE: Fact = 'any service';
/** Rules of the scope's services that name Secrets. */
export const NAMING_SECRETS: Fact = 'rules naming Secrets';

export const host = (name: string): Fact => `host ${name}`;
export const rule = (name: string): Fact => `rule ${name}`;
/** The host that one of these two is about; undefined for others. */
export const hostOf = (about: Fact): string | undefined => OF_HOST.exec(about)?.[1];
const OF_HOST = /^(?:host|rule) (\S+)$/;
/** The hash policy of requests in the rule of a host; its settings for connections; the TLS that it originates. */
export const hash = (name: string): Fact => `hash ${name}`;
export const forwarding = (name: string): Fact => `forwarding ${name}`;
export const tls = (name: string): Fact => `TLS ${name}`;
/** The services on a port; the services that may be HTTP; the hosts of services of any protocol, including UDP. */
export const port = (number: number): Fact => `port ${number}`;
export const httpPort = (number: number): Fact => `HTTP port ${number}`;
export const anyPort = (number: number): Fact => `any port ${number}`;
/** The same of the rules of a port's services. */
export const forwardingAt = (number: number): Fact => `forwarding at ${number}`;
export const httpHashAt = (number: number): Fact => `HTTP hash at ${number}`;
export const tlsAt = (number: number): Fact => `TLS at ${number}`;
/**
 * The virtual services that route requests to services of a port; requests to a service; connections to services of a
 * port.
 */
export const routesAt = (number: number): Fact => `routes at ${number}`;
export const routesFor = (name: string): Fact => `routes for ${name}`;
export const connectionsAt = (number: number): Fact => `connections at ${number}`;

/**
 * The same of services, for readers that use the addresses of their cluster: these can change without the services that
 * all others read.
 */
export const inCluster = (cluster: string, name: Fact): Fact => `${name} in ${cluster}`;
export const isOfServices = (name: Fact): boolean => OF_SERVICES.test(name);
const OF_SERVICES = /^(?:hosts|ports|HTTP ports|any host|any service|(?:host|port|HTTP port|any port) \S+)$/;

/** A configuration resource: its fact is its key. */
export const resource = (key: ResourceKey): Fact => key;
/** The metrics in a Telemetry document. */
export const metrics = (telemetry: ResourceKey): Fact => `metrics of ${telemetry}`;
/** Whether a Gateway passes mutual TLS through by server name. */
export const passing = (gateway: string): Fact => `passing ${gateway}`;
/** The virtual services of a gateway; those that route connections. */
export const gatewayRoutes = (gateway: string): Fact => `routes of ${gateway}`;
export const gatewayConnections = (gateway: string): Fact => `connections of ${gateway}`;
/** The target hosts of a gateway's virtual services; whether one host is among them. */
export const targets = (gateway: string): Fact => `targets of ${gateway}`;
export const target = (gateway: string, name: string): Fact => `target of ${gateway} ${name}`;
/** The hosts that an AuthorizationPolicy calls; whether one host is among them. */
export const authorizerHosts = (policy: ResourceKey): Fact => `called by ${policy}`;
export const authorizerHost = (policy: ResourceKey, name: string): Fact => `called by ${policy} ${name}`;
/** What the policy component has to decide and record for the traffic of a namespace, by rules of a namespace. */
export const policyTraffic = (namespace: string): Fact => `policy of ${namespace}`;
/** Whether a Secret has a usable key pair, or usable authorities. */
export const keyPair = (secret: ResourceKey): Fact => `key pair ${secret}`;
export const authorities = (secret: ResourceKey): Fact => `authorities ${secret}`;
/** The peers of a service, by its key. */
export const peers = (service: string): Fact => `peers ${service}`;
/** The endpoints of a service that are part of clusters or listeners, by its key. */
export const endpoints = (service: string): Fact => `endpoints ${service}`;
