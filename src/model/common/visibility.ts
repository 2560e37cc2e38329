/** `exportTo`: which namespaces may see a service, virtual service or destination rule. */
import { compareText } from './order.ts';

const EVERYWHERE: readonly string[] = ['*'];

/**
 * Normal form of an `exportTo` list, sorted: `*` replaces the rest, its own namespace is `.`, `~` occurs only alone. An
 * empty list means the mesh's default, and an empty default means everywhere.
 */
export function normaliseExportTo(
  exportTo: readonly string[] | undefined,
  meshDefault: readonly string[],
  namespace: string,
): readonly string[] {
  const written = exportTo === undefined || exportTo.length === 0 ? meshDefault : exportTo;
  if (written.length === 0 || written.includes('*')) return EVERYWHERE;
  const names = new Set(written.map((name) => (name === namespace ? '.' : name)));
  if (names.size > 1) names.delete('~');
  return [...names].sort(compareText);
}

/** Whether a resource of namespace `owner` with this normalised `exportTo` is visible in `namespace`. */
export function isVisible(exportTo: readonly string[], owner: string, namespace: string): boolean {
  for (const name of exportTo) {
    if (name === '*' || name === namespace || (name === '.' && owner === namespace)) return true;
  }
  return false;
}

export function isPublic(exportTo: readonly string[]): boolean {
  return exportTo[0] === '*';
}
