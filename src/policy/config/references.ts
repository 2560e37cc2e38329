/** Names with which documents refer to each other. */

/** A document's name and namespace. */
export interface Reference {
  readonly name: string;
  readonly namespace: string;
}

/**
 * What a reference can mean, the first that exists: `name`, `name.kind`, `name.namespace` or `name.kind.namespace`.
 * @param kinds names that stand for the kind, such as `instance` and `quota`
 */
export function meanings(text: string, namespace: string, kinds: ReadonlySet<string>): readonly Reference[] {
  const [name = '', second, third, ...rest] = text.split('.');
  if (name === '' || rest.length > 0) return [];
  if (second === undefined) return [{ name, namespace }];
  if (third !== undefined) return kinds.has(second) ? [{ name, namespace: third }] : [];
  return [...(kinds.has(second) ? [{ name, namespace }] : []), { name, namespace: second }];
}

/** The meanings that count: documents of other namespaces are not found, except of the configuration namespace. */
export function visibleMeanings(
  text: string,
  { namespace, configNamespace }: { readonly namespace: string; readonly configNamespace: string },
  kinds: ReadonlySet<string>,
): readonly Reference[] {
  return meanings(text, namespace, kinds).filter(
    (meaning) => meaning.namespace === namespace || meaning.namespace === configNamespace,
  );
}

export const idOf = ({ name, namespace }: Reference): string => `${name}.${namespace}`;

/** The ID of an instance: `name.instance.namespace`. */
export const instanceId = ({ name, namespace }: Reference): string => `${name}.instance.${namespace}`;
