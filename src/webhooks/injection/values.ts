/**
 * The values that the built-in templates and `ProxyData` read, with the names that users of Istio know. Templates of
 * users may read others.
 */
import { z } from 'zod';
import { isDnsLabel } from '../../core/dns-names.ts';
import { messageOf } from '../../core/errors.ts';
import { ports, portsOrAll, type Reader, ranges, rangesOrAll } from './annotations/values.ts';
import { AGENT_STATUS_PORT, ENVOY_PORTS } from './redirection.ts';

/** Quantities by name of the resource. */
const quantities = z.record(z.string(), z.union([z.string(), z.number()]));
const resources = z.looseObject({ requests: quantities.optional(), limits: quantities.optional() });
const seconds = (least: number) => z.int().min(least, `expected a whole number of at least ${least}`);
const port = z.int().min(0, 'expected a port').max(65_535, 'expected a port');
/** YAML reads a tag such as 1.20 as a number, which loses the zero. */
const tag = z.string('expected a string (put it in quotes)');

/** A comma-separated list, as in the annotation of the same name. */
const list = (read: Reader<readonly string[]>) =>
  z.string().superRefine((text, context) => {
    try {
      read(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: messageOf(error) });
    }
  });

/** The Pod's namespace in a search domain, in this project's syntax and in Istio's. */
const NAMESPACE_OUTPUT = /\{\{ *(?:namespace|valueOrDefault \.DeploymentMeta\.Namespace "default") *\}\}/g;

const searchDomain = z
  .string()
  .refine(
    (text) => text.length <= 253 && text.replaceAll(NAMESPACE_OUTPUT, 'x').split('.').every(isDnsLabel),
    'expected a DNS domain, in which {{ namespace }} is the namespace of the Pod',
  );

/** The search domains of a Pod. */
export function searchDomains({ global: { podDNSSearchNamespaces } }: Values, namespace: string): readonly string[] {
  return podDNSSearchNamespaces.map((text) => text.replaceAll(NAMESPACE_OUTPUT, () => namespace));
}

const proxy = z.looseObject({
  /** A whole image, or the name between `hub` and `tag`. Empty: the image of the control plane's settings. */
  image: z.string().default(''),
  /** Command line of the agent in the image. */
  command: z.array(z.string()).default(['/usr/local/bin/node', '/opt/meshd/dist/ctl-agent.js']),
  resources: resources.default({ requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '1Gi' } }),
  logLevel: z.string().default('warning'),
  componentLogLevel: z.string().default('misc:error'),
  includeIPRanges: list(rangesOrAll).default('*'),
  excludeIPRanges: list(ranges).default(''),
  includeInboundPorts: list(portsOrAll).default('*'),
  excludeInboundPorts: list(ports).default(''),
  includeOutboundPorts: list(ports).default(''),
  excludeOutboundPorts: list(ports).default(''),
  holdApplicationUntilProxyStarts: z.boolean().default(false),
  readinessInitialDelaySeconds: seconds(0).default(0),
  readinessPeriodSeconds: seconds(1).default(15),
  readinessFailureThreshold: seconds(1).default(4),
  statusPort: port
    .refine((value) => !ENVOY_PORTS.includes(value), 'expected a port other than those of Envoy')
    .default(AGENT_STATUS_PORT),
});

const proxyInit = z.looseObject({
  /** A complete image, or the name between `hub` and `tag`. Empty: the image of the proxy. */
  image: z.string().default(''),
  resources: resources.default({ requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '256Mi' } }),
});

const global = z.looseObject({
  hub: z.string().default(''),
  tag: tag.default(''),
  imagePullPolicy: z.enum(['', 'Always', 'IfNotPresent', 'Never']).default(''),
  imagePullSecrets: z.array(z.string()).default([]),
  logging: z.looseObject({ level: z.string().default('') }).prefault({}),
  /** Whether a CNI plugin redirects the traffic of Pods. */
  cni: z.boolean().default(false),
  nativeSidecar: z.boolean().default(true),
  /** Search domains of Pods. */
  podDNSSearchNamespaces: z.array(searchDomain).default([]),
  network: z.string().default(''),
  rewriteAppHTTPProbe: z.boolean().default(true),
  proxy: proxy.prefault({}),
  proxy_init: proxyInit.prefault({}),
});

export const valuesSchema = z.looseObject({ global: global.prefault({}) });
export type Values = z.output<typeof valuesSchema>;

export function defaultValues(): Values {
  return valuesSchema.parse({});
}
