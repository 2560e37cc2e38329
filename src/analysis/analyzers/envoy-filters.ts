/** Patches of EnvoyFilters that depend on the order of others, or that are ignored. */
import { type EnvoyConfigPatch, type Resource, unappliedPatch } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { MessageCode } from '../messages/index.ts';
import type { Findings } from '../types.ts';

type Operation = EnvoyConfigPatch['patch']['operation'];

/** Operations on what other patches may have added or removed before. */
const RELATIVE: ReadonlySet<Operation> = new Set<Operation>(['REMOVE', 'REPLACE', 'INSERT_BEFORE', 'INSERT_AFTER']);

export function* envoyPatches(mesh: AnalyzedMesh): Findings {
  const versioned = yield* mesh.once('patches by version', () => versionedFilters(mesh));
  for (const document of mesh.documents('EnvoyFilter')) {
    const { configPatches = [], priority = 0 } = document.content;
    for (const [index, each] of configPatches.entries()) {
      yield undefined;
      const field = `configPatches[${index}]`;
      const misused = misuse(each);
      if (misused !== undefined) yield mesh.finding(misused.code, document, `${field}: ${misused.message}`);
      else if (priority === 0 && RELATIVE.has(each.patch.operation))
        yield relative(mesh, document, each, field, versioned);
    }
  }
}

function relative(
  mesh: AnalyzedMesh,
  document: Resource<'EnvoyFilter'>,
  each: EnvoyConfigPatch,
  field: string,
  versioned: ReadonlySet<string>,
) {
  const { operation } = each.patch;
  const name = filterOf(each);
  const message = `${field}: ${operation} depends on what other EnvoyFilters did before, and priority is not set`;
  if (name === undefined || !versioned.has(`${document.meta.namespace}/${name}`))
    return mesh.finding('IST0151', document, message);
  return mesh.finding('IST0155', document, `${message}; filter ${name} is also patched for one version of proxies`);
}

/** Operations with a code of their own where they are not applied. */
const UNAPPLIED: ReadonlyMap<Operation, MessageCode> = new Map<Operation, MessageCode>([
  ['REPLACE', 'IST0152'],
  ['ADD', 'IST0153'],
  ['REMOVE', 'IST0154'],
]);

function misuse(each: EnvoyConfigPatch): { code: MessageCode; message: string } | undefined {
  const { applyTo, patch } = each;
  const code = UNAPPLIED.get(patch.operation);
  const unapplied = code && unappliedPatch(each);
  if (code === undefined || unapplied?.path.at(-1) !== 'operation') return undefined;
  return { code, message: `${patch.operation} of a ${applyTo} is ignored` };
}

/** The filter that a patch adds or matches. */
function filterOf({ patch, match }: EnvoyConfigPatch): string | undefined {
  const name = patch.value?.name;
  return typeof name === 'string' ? name : match?.listener?.filterChain?.filter?.name;
}

/** `namespace/name` of filters that an EnvoyFilter of the namespace patches for proxies of some versions only. */
function* versionedFilters(mesh: AnalyzedMesh): Generator<undefined, ReadonlySet<string>> {
  const names = new Set<string>();
  for (const { meta, content } of mesh.documents('EnvoyFilter')) {
    yield undefined;
    for (const each of content.configPatches ?? []) {
      const name = filterOf(each);
      if (each.match?.proxy?.proxyVersion && name !== undefined) names.add(`${meta.namespace}/${name}`);
    }
  }
  return names;
}
