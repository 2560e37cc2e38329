/** Meshes of one view in many localities, and generators, for tests of placements. */
import assert from 'node:assert/strict';
import type { ProxyNode } from '../../core/proxy.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { resourceMessage } from '../bundles/encode-resource.ts';
import { type GeneratedJob, InlineGenerator, type JobSource, type SubmitOptions } from '../jobs/generator.ts';
import type { GenerateJob } from '../protocol.ts';
import { type Connected, Mesh, meshResource, service, sidecar } from './mesh.ts';

const { Cluster } = envoy.config.cluster.v3;
const { ClusterLoadAssignment } = envoy.config.endpoint.v3;

export const ZONES = Array.from({ length: 20 }, (_, index) => `r${index}/z`);

export function entry(name: string, resolution: 'DNS' | 'STATIC', zones: readonly string[] = ZONES) {
  const address = (index: number) => (resolution === 'DNS' ? `${name}${index}.example.com` : `10.3.0.${index + 1}`);
  return meshResource('ServiceEntry', 'shop', name, {
    hosts: [`${name}.example.com`],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    location: 'MESH_EXTERNAL',
    resolution,
    endpoints: zones.map((locality, index) => ({ address: address(index), locality })),
  });
}

/** Prefers what is near. */
export function nearby(name: string) {
  const trafficPolicy = { outlierDetection: { consecutive5xxErrors: 5 } };
  return meshResource('DestinationRule', 'shop', name, { host: `${name}.example.com`, trafficPolicy });
}

export const DNS = 'outbound|80||dns.example.com';
export const STATIC = 'outbound|80||static.example.com';
export const SHOP = [service('shop', 'web'), entry('dns', 'DNS'), entry('static', 'STATIC')];
export const RULES = [nearby('dns'), nearby('static')];

export function at(index: number, locality: string, namespace = 'client'): ProxyNode {
  return { ...sidecar(`10.5.0.${index + 1}`, namespace), locality };
}

/** Notes its jobs. */
export class NotingGenerator extends InlineGenerator {
  readonly jobs: GenerateJob[] = [];
  readonly #noted = new Map<JobSource, JobSource>();

  override submit(source: JobSource, _options?: SubmitOptions) {
    const noted: JobSource = {
      key: source.key,
      lanes: () => source.lanes(),
      takeJob: () => {
        const job = source.takeJob();
        this.jobs.push(job);
        return job;
      },
    };
    this.#noted.set(source, noted);
    return super.submit(noted);
  }

  override withdraw(source: JobSource): boolean {
    return super.withdraw(this.#noted.get(source) ?? source);
  }

  /** Units of a type that were asked for, by view. */
  asked(type: 'cds' | 'lds' | 'rds'): (string | readonly string[])[] {
    return this.jobs.flatMap(({ view, units }) => (view.part === 'inbound' ? [] : (units[type] ?? [])));
  }
}

/** Its answers come when `answered` says so. */
export class LateGenerator extends InlineGenerator {
  answered: Promise<void> = Promise.resolve();

  override async submit(source: JobSource): Promise<GeneratedJob> {
    const job = await super.submit(source);
    await this.answered;
    return job;
  }
}

/** Reports the clusters of these hosts as failed. */
export class FailingGenerator extends InlineGenerator {
  readonly failing = new Set<string>();

  override async submit(source: JobSource): Promise<GeneratedJob> {
    const job = await super.submit(source);
    const isFailing = ({ type, unit }: { type: string; unit: string }) => type === 'cds' && this.failing.has(unit);
    const failed = job.answer.units.filter(isFailing);
    const failures = failed.map(({ type, unit, reads }) => ({ type, unit, reads, message: 'broken' }));
    const units = job.answer.units.filter((unit) => !isFailing(unit));
    return { ...job, answer: { ...job.answer, units, failures } };
  }
}

export function notingMesh(resources: ConstructorParameters<typeof Mesh>[1]): {
  mesh: Mesh;
  generator: NotingGenerator;
} {
  let generator: NotingGenerator | undefined;
  const mesh = new Mesh((snapshot: Snapshot) => {
    generator = new NotingGenerator(snapshot);
    return generator;
  }, resources);
  assert.ok(generator !== undefined);
  return { mesh, generator };
}

export function resourceOf({ session }: Connected, type: 'cds' | 'eds', name: string) {
  return session.parts(type).flatMap((part) => part.get(name) ?? [])[0];
}

/** The locality of highest priority among the endpoints that a cluster carries, or asks for. */
export function nearest(proxy: Connected, name: string): string | undefined {
  const carrier = name === DNS ? resourceOf(proxy, 'cds', name) : resourceOf(proxy, 'eds', name);
  assert.ok(carrier !== undefined, `no ${name}`);
  const assignment =
    name === DNS
      ? Cluster.decode(resourceMessage(carrier)).loadAssignment
      : ClusterLoadAssignment.decode(resourceMessage(carrier));
  const first = (assignment?.endpoints ?? []).filter(({ priority }) => (priority ?? 0) === 0);
  const names = first.map(({ locality }) => `${locality?.region}/${locality?.zone}`);
  return names.length === 1 ? names[0] : undefined;
}
