/** Meshes, Sidecars and generators for tests of the whole engine. */
import type { GeneratedJob, Generator } from '../jobs/generator.ts';
import type { GenerateJob } from '../protocol.ts';
import { endpoints, inline, type Mesh, meshResource, service } from './mesh.ts';

export const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1'), service('other', 'db')];

/** A Sidecar for all proxies of a namespace. */
export function scope(namespace: string, ...hosts: string[]) {
  return meshResource('Sidecar', namespace, 'default', { egress: [{ hosts }] });
}

/** A Sidecar for the proxies of a namespace that are labelled as this application. */
export function scopeOf(app: string, namespace: string, ...hosts: string[]) {
  return meshResource('Sidecar', namespace, 'of-app', { workloadSelector: { labels: { app } }, egress: [{ hosts }] });
}

/** An inline generator whose answers are changed on their way. */
export function changing(change: (job: GeneratedJob) => GeneratedJob) {
  return (snapshot: Parameters<typeof inline>[0]): Generator => {
    const inner = inline(snapshot);
    return {
      advance: (next, changes) => inner.advance(next, changes),
      submit: async (source) => change(await inner.submit(source)),
      released: (ids) => inner.released(ids),
      withdraw: (source) => inner.withdraw(source),
      close: () => inner.close(),
    };
  };
}

/** An inline generator. @param taken called with each job */
export function watched(taken: (job: GenerateJob) => void) {
  return (snapshot: Parameters<typeof inline>[0]): Generator => {
    const generator = inline(snapshot);
    const submit = generator.submit.bind(generator);
    generator.submit = (source, options) => {
      const takeJob = (): GenerateJob => {
        const job = source.takeJob();
        taken(job);
        return job;
      };
      return submit({ key: source.key, lanes: () => source.lanes(), takeJob }, options);
    };
    return generator;
  };
}

/** The snapshot with endpoints of a namespace that cannot be encoded. */
export function breakEndpoints(snapshot: Mesh['snapshot'], namespace: string): Mesh['snapshot'] {
  const services = [...snapshot.endpoints.keys()].filter((key) => key.startsWith(`${namespace}/`));
  const broken = services.map((key) => [key, [null] as never] as const);
  return Object.assign(Object.create(snapshot), { ...snapshot, endpoints: snapshot.endpoints.with(broken) });
}
