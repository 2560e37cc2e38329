/**
 * Text that cannot be parsed, looked at for documents of the security kinds: a policy whose YAML is broken must not be as if it had
 * never been written. Which kind and which namespace is found by the lines that say so.
 */
import { type SubstituteName, substitutesFor } from './substitute.ts';
import { SECURITY_KINDS, type SecurityKind, type Substitute } from './types.ts';

/** Documents of one text that are looked at; there is one in nearly all, and a list of some in others. */
const MAX_DOCUMENTS = 100;

const COMMENT = /^[ \t]*#.*$/gm;
/** `kind: X` at the beginning of a line is the kind of the whole document. */
const TOP_KIND = /^["']?kind["']?[ \t]*:[ \t]*["']?([A-Za-z]+)/gm;
const SECURITY_KIND = new RegExp(`\\bkind["']?\\s*:\\s*["']?(${SECURITY_KINDS.join('|')})\\b`, 'g');
const NAMESPACE = /\bnamespace["']?\s*:\s*["']?([^\s"',}#]*)/g;
const NAME = /\bname["']?\s*:\s*["']?([a-z0-9][-a-z0-9.]*)["']?[ \t]*(?:[,}#\r\n]|$)/;
const ACTION = /\baction["']?\s*:\s*["']?([A-Za-z]*)/g;
const VALID_NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** What has to be in force in the place of the security documents that the text seems to hold; undefined when it seems to hold none. */
export function salvaged(text: string): Substitute[] | undefined {
  const plain = text.replace(COMMENT, '');
  const top = [...plain.matchAll(TOP_KIND)].map(([, kind = '']) => kind);
  // Text of policies inside of another document, such as a ConfigMap, is no policy.
  if (top.length > 0 && !top.some((kind) => kind.endsWith('List') || isSecurity(kind))) return undefined;
  const kinds = [...plain.matchAll(SECURITY_KIND)].slice(0, MAX_DOCUMENTS).map(([, kind]) => kind as SecurityKind);
  if (kinds.length === 0) return undefined;
  const [only] = kinds;
  if (only !== undefined && kinds.length === 1) return substitutesFor(only, nameOf(plain), specOf(plain));
  const namespaces = namespacesOf(plain, kinds.length);
  return [...new Set(kinds)].flatMap((kind) =>
    namespaces === undefined
      ? substitutesFor(kind, {}, undefined)
      : namespaces.flatMap((namespace) => substitutesFor(kind, { namespace }, undefined)),
  );
}

function isSecurity(kind: string): boolean {
  return SECURITY_KINDS.some((each) => each === kind);
}

function nameOf(text: string): SubstituteName {
  const [namespace] = namespacesOf(text, 1) ?? [];
  if (namespace === undefined) return {};
  const name = NAME.exec(metadataOf(text))?.[1];
  return { namespace, ...(name === undefined ? {} : { name }) };
}

/** What stands between the two words: behind the second one, names are of something else. */
function metadataOf(text: string): string {
  const from = text.search(/\bmetadata\b/);
  const rest = from < 0 ? '' : text.slice(from);
  const to = rest.search(/\bspec\b/);
  return to < 0 ? '' : rest.slice(0, to);
}

/** The namespaces that the text names; undefined where some document's cannot be told. */
function namespacesOf(text: string, documents: number): string[] | undefined {
  const written = [...text.matchAll(NAMESPACE)].map(([, namespace = '']) => namespace);
  const distinct = [...new Set(written)];
  if (!distinct.every((namespace) => VALID_NAMESPACE.test(namespace))) return undefined;
  // A document that says nothing is in the default namespace.
  if (written.length === 0) return /\bnamespace\b/.test(text) ? undefined : ['default'];
  return written.length < documents || (documents === 1 && distinct.length > 1) ? undefined : distinct;
}

/** Of what stands in the spec only this is believed: a policy that does nothing but observe. */
function specOf(text: string): { readonly action?: string } | undefined {
  const [action, ...more] = [...text.matchAll(ACTION)].map(([, written = '']) => written);
  return action === 'AUDIT' && more.length === 0 ? { action } : undefined;
}
