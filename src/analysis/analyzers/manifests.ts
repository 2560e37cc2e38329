/** Deployments, Pods and webhooks as they were written, of which a mesh reads nothing or not everything. */
import { isObject } from '../../core/objects.ts';
import { labelsMatch } from '../../model/index.ts';
import { type Resource, workloadLabels } from '../../resources/index.ts';
import { injectionOf, isInjected } from '../mesh/injection.ts';
import { type AnalyzedMesh, listed, nameOf } from '../mesh/mesh.ts';
import type { Finding, Findings, Manifest } from '../types.ts';

type Fields = Readonly<Record<string, unknown>>;

const NOTHING: Fields = {};
const WORKLOADS = ['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job'] as const;

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : NOTHING);
const listOf = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.map(fieldsOf) : []);

/** The Pod that a manifest has or makes. */
function podOf({ kind, document }: Manifest): { readonly metadata: Fields; readonly spec: Fields } {
  if (kind === 'Pod') return { metadata: fieldsOf(document.metadata), spec: fieldsOf(document.spec) };
  const template = fieldsOf(fieldsOf(document.spec).template);
  return { metadata: fieldsOf(template.metadata), spec: fieldsOf(template.spec) };
}

function texts(value: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(fieldsOf(value)).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return workloadLabels(Object.fromEntries(entries));
}

function isMeshed(mesh: AnalyzedMesh, manifest: Manifest): boolean {
  const { metadata } = podOf(manifest);
  const own = injectionOf({ labels: texts(metadata.labels), annotations: texts(metadata.annotations) });
  return own ?? isInjected(mesh.namespaceLabels(manifest.namespace));
}

/** Services of one Deployment that give a port different meanings. */
export function* serviceAssociations(mesh: AnalyzedMesh): Findings {
  for (const manifest of mesh.manifests(...WORKLOADS)) {
    yield undefined;
    const labels = texts(podOf(manifest).metadata.labels);
    if (!isMeshed(mesh, manifest)) continue;
    const services = mesh.servicesOf(manifest.namespace, labels);
    yield* differingProtocols(mesh, manifest, services);
    yield* differingPorts(mesh, manifest, services);
  }
}

interface PortUse {
  readonly service: string;
  readonly port: number;
  readonly protocol: string;
  readonly target: string;
}

function usesOf(services: readonly Resource<'Service'>[]): PortUse[] {
  return services.flatMap((service) =>
    (service.content.spec.ports ?? []).map(({ port, protocol, targetPort }) => ({
      service: nameOf(service),
      port,
      protocol,
      target: String(targetPort || port),
    })),
  );
}

function* differingProtocols(mesh: AnalyzedMesh, manifest: Manifest, services: readonly Resource<'Service'>[]) {
  for (const [port, uses] of Map.groupBy(usesOf(services), (use) => use.port)) {
    const protocols = new Set(uses.map(({ protocol }) => protocol));
    if (protocols.size < 2) continue;
    const names = listed(uses.map(({ service }) => service));
    const message = `port ${port} has the protocols ${listed(protocols)} in its Services ${names}`;
    yield mesh.finding('IST0116', manifest, message);
  }
}

function* differingPorts(mesh: AnalyzedMesh, manifest: Manifest, services: readonly Resource<'Service'>[]) {
  for (const [target, uses] of Map.groupBy(usesOf(services), (use) => use.target)) {
    const ports = new Set(uses.map(({ port }) => String(port)));
    if (ports.size < 2) continue;
    const names = listed(uses.map(({ service }) => service));
    const message = `its Services ${names} have different ports (${listed(ports)}) for target port ${target}`;
    yield mesh.finding('IST0137', manifest, message);
  }
}

/** The user of the sidecar, whose connections are not redirected. */
const PROXY_USER = 1337;
const PROXY_CONTAINERS: ReadonlySet<unknown> = new Set(['mesh-proxy', 'istio-proxy']);

export function* applicationUsers(mesh: AnalyzedMesh): Findings {
  for (const manifest of mesh.manifests('Pod', ...WORKLOADS)) {
    yield undefined;
    const { spec } = podOf(manifest);
    const containers = listOf(spec.containers).filter(({ name }) => !PROXY_CONTAINERS.has(name));
    const users = [spec, ...containers].map((each) => fieldsOf(each.securityContext).runAsUser);
    if (!users.includes(PROXY_USER)) continue;
    const message = `it runs as user ${PROXY_USER}, the user of the sidecar: its connections bypass the mesh`;
    yield mesh.finding('IST0144', manifest, message);
  }
}

/** `image: auto` is a place that injection fills. */
export function* automaticImages(mesh: AnalyzedMesh): Findings {
  const webhooks = [...mesh.manifests('MutatingWebhookConfiguration')].flatMap(({ document }) =>
    listOf(document.webhooks).filter(({ name }) => isOfMesh(name)),
  );
  for (const manifest of mesh.manifests('Pod', ...WORKLOADS)) {
    yield undefined;
    const { metadata, spec } = podOf(manifest);
    const isAutomatic = listOf(spec.containers).some(
      ({ name, image }) => PROXY_CONTAINERS.has(name) && image === 'auto',
    );
    if (!isAutomatic) continue;
    if (manifest.kind === 'Pod') {
      yield mesh.finding('IST0147', manifest, 'the image of its sidecar is still auto: no webhook has injected it');
    } else if (!isInjectedBy(mesh, webhooks, manifest, texts(metadata.labels))) {
      yield mesh.finding('IST0146', manifest, 'the image of its sidecar is auto, and no webhook injects its Pods');
    }
  }
}

function isOfMesh(name: unknown): boolean {
  return typeof name === 'string' && /(^|\.)(istio|mesh)\.io$/.test(name);
}

/** By the labels alone where no webhook configuration is among the manifests. */
function isInjectedBy(
  mesh: AnalyzedMesh,
  webhooks: readonly Fields[],
  manifest: Manifest,
  labels: Readonly<Record<string, string>>,
): boolean {
  if (webhooks.length === 0) return isMeshed(mesh, manifest);
  const ofNamespace = mesh.namespaceLabels(manifest.namespace);
  return webhooks.some(
    ({ namespaceSelector, objectSelector }) =>
      selects(namespaceSelector, ofNamespace) && selects(objectSelector, labels),
  );
}

/** Kubernetes LabelSelector. */
function selects(selector: unknown, labels: Readonly<Record<string, string>>): boolean {
  const { matchLabels, matchExpressions } = fieldsOf(selector);
  const wanted = Object.entries(fieldsOf(matchLabels)).map(([key, value]) => [key, String(value)] as const);
  if (!labelsMatch(Object.fromEntries(wanted), labels)) return false;
  return listOf(matchExpressions).every(({ key, operator, values }) => {
    const has = labels[String(key)];
    const among = Array.isArray(values) && values.includes(has);
    if (operator === 'In') return has !== undefined && among;
    if (operator === 'NotIn') return has === undefined || !among;
    return operator === 'Exists' ? has !== undefined : has === undefined;
  });
}

/** Webhooks of the mesh: Services that they call, and Pods that two of them inject. */
export function* webhooks(mesh: AnalyzedMesh): Findings {
  const all = [...mesh.manifests('MutatingWebhookConfiguration')].flatMap((manifest) =>
    listOf(manifest.document.webhooks).map((webhook) => ({ manifest, webhook })),
  );
  const own = all.filter(({ webhook }) => isOfMesh(webhook.name));
  for (const { manifest, webhook } of own) {
    yield undefined;
    yield* missingService(mesh, manifest, webhook);
    const others = own.filter((other) => other.webhook !== webhook && overlap(webhook, other.webhook));
    if (others.length === 0) continue;
    const names = listed(others.map((other) => `${other.manifest.name}/${String(other.webhook.name)}`));
    const message = `webhook ${String(webhook.name)}: ${names} injects the same Pods; they may be injected twice`;
    yield mesh.finding('IST0139', manifest, message);
  }
}

function* missingService(mesh: AnalyzedMesh, manifest: Manifest, webhook: Fields): Generator<Finding> {
  const { service } = fieldsOf(webhook.clientConfig);
  if (!isObject(service)) return;
  const { namespace, name } = service;
  if (mesh.snapshot.resources('Service').has(`Service/${String(namespace)}/${String(name)}`)) return;
  const called = `${String(namespace)}/${String(name)}`;
  const message = `webhook ${String(webhook.name)} calls Service ${called}, which does not exist`;
  yield mesh.finding('IST0139', manifest, message);
}

/** Labels of Namespaces and Pods with which people select injection. */
function* samples(
  webhook: Fields,
): Generator<readonly [Readonly<Record<string, string>>, Readonly<Record<string, string>>]> {
  const revisions = revisionsOf(webhook);
  const keys = (base: string, values: readonly string[]) => [{}, ...values.map((value) => ({ [base]: value }))];
  const withRevision = (labels: readonly Readonly<Record<string, string>>[]) =>
    labels.flatMap((each) => [
      each,
      ...revisions.flatMap((rev) => [{ ...each, 'istio.io/rev': rev, 'mesh.io/rev': rev }]),
    ]);
  const namespaces = ['enabled', 'disabled'].map((value) => ({ 'istio-injection': value, 'mesh-injection': value }));
  const objects = keys('sidecar.istio.io/inject', ['true', 'false']).map((labels) => workloadLabels(labels));
  for (const ofNamespace of withRevision([{}, ...namespaces]))
    for (const ofObject of withRevision(objects)) yield [ofNamespace, ofObject];
}

function revisionsOf({ namespaceSelector, objectSelector }: Fields): string[] {
  return [namespaceSelector, objectSelector].flatMap((selector) => {
    const { matchLabels, matchExpressions } = fieldsOf(selector);
    const named = listOf(matchExpressions).flatMap(({ key, values }) =>
      /^(istio|mesh)\.io\/rev$/.test(String(key)) && Array.isArray(values) ? values.map(String) : [],
    );
    const own = Object.entries(fieldsOf(matchLabels)).filter(([key]) => /^(istio|mesh)\.io\/rev$/.test(key));
    return [...named, ...own.map(([, value]) => String(value))];
  });
}

function overlap(one: Fields, other: Fields): boolean {
  for (const [ofNamespace, ofObject] of samples(one)) {
    const both = [one, other].every(
      ({ namespaceSelector, objectSelector }) =>
        selects(namespaceSelector, ofNamespace) && selects(objectSelector, ofObject),
    );
    if (both) return true;
  }
  return false;
}
