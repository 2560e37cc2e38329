/**
 * Searches files that cannot be parsed for documents of the security kinds and for rules of the policy component: a
 * policy with invalid YAML must not count as deleted. The lines with kind and namespace identify it.
 */
import { isDnsLabel } from '../../core/dns-names.ts';
import { SECURITY_KINDS, type Substitute, type SubstitutedKind } from '../kinds/types.ts';
import { resembles } from './resembles.ts';
import { type SubstituteName, substitutesFor } from './substitute.ts';

/** Maximum number of documents of a file that are examined; nearly all files have one, and some have a list. */
const MAX_DOCUMENTS = 100;

const COMMENT = /^[ \t]*#.*$/gm;
/** The word after `kind`, whatever is between them: the colon may be missing; there may be an anchor or a tag. */
const KIND = /\bkind\b["']?[ \t]*[:;=]?\s*(?:[&!]\S*\s+)*["']?([A-Za-z]+)/gi;
/** At the beginning of a line, `kind` is that of the whole document. */
const TOP_KIND = new RegExp(`^["']?${KIND.source}`, 'gim');
/** The API group of the policies. */
const SECURITY_GROUP = /\bsecurity\.(?:mesh|istio)\.io\b/;
const TOP_GROUP = /^["']?apiVersion\b[^\n]*\bsecurity\.(?:mesh|istio)\.io\b/im;
/** The API group of the policy component's rules. */
const RULE_GROUP = /\bconfig\.(?:mesh|istio)\.io\b/;
/** Fields that identify the kind of a policy where `kind` does not. */
const FIELDS_OF_KIND: readonly (readonly [SubstitutedKind, RegExp])[] = [
  ['RequestAuthentication', /\bjwtRules\b/],
  ['PeerAuthentication', /\b(?:mtls|portLevelMtls)\b/],
  ['AuthorizationPolicy', /\b(?:rules|action)\b/],
];
const NAMESPACE = /\bnamespace["']?\s*:\s*["']?([^\s"',}#]*)/g;
const NAME = /\bname["']?\s*:\s*["']?([a-z0-9][-a-z0-9.]*)["']?[ \t]*(?:[,}#\r\n]|$)/;
const ACTION = /\baction["']?\s*:\s*["']?([A-Za-z]*)/g;

/** Substitutes for the policies that the text seems to contain; undefined when it seems to contain none. */
export function salvaged(text: string): Substitute[] | undefined {
  const plain = text.replace(COMMENT, '');
  const kinds = kindsIn(plain);
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

/** The kinds of the policies in a text. */
function kindsIn(text: string): SubstitutedKind[] {
  const mayBeMisspelt = SECURITY_GROUP.test(text);
  const hasRules = RULE_GROUP.test(text);
  const meant = (word: string): SubstitutedKind | undefined =>
    SECURITY_KINDS.find((kind) => word === kind || (mayBeMisspelt && resembles(word, kind))) ??
    (hasRules && (word === 'rule' || resembles(word, 'rule')) ? 'rule' : undefined);
  const kindByFields = (): SubstitutedKind[] =>
    TOP_GROUP.test(text) ? FIELDS_OF_KIND.flatMap(([kind, word]) => (word.test(text) ? [kind] : [])).slice(0, 1) : [];
  const top = [...text.matchAll(TOP_KIND)].map(([, word = '']) => word);
  // A policy that is quoted inside another document, such as a ConfigMap, is not a policy.
  if (top.length > 0 && !top.some((word) => /list$/i.test(word) || meant(word) !== undefined)) return kindByFields();
  const found = [...text.matchAll(KIND)].flatMap(([, word = '']) => meant(word) ?? []).slice(0, MAX_DOCUMENTS);
  return found.length === 0 ? kindByFields() : found;
}

function nameOf(text: string): SubstituteName {
  const [namespace] = namespacesOf(text, 1) ?? [];
  if (namespace === undefined) return {};
  const name = NAME.exec(metadataOf(text))?.[1];
  return { namespace, ...(name === undefined ? {} : { name }) };
}

/** The part between `metadata` and `spec`: names after `spec` belong to something else. */
function metadataOf(text: string): string {
  const from = text.search(/\bmetadata\b/);
  const rest = from < 0 ? '' : text.slice(from);
  const to = rest.search(/\bspec\b/);
  return to < 0 ? '' : rest.slice(0, to);
}

/** The namespaces of the documents; undefined if one of them cannot be determined. */
function namespacesOf(text: string, documents: number): string[] | undefined {
  const written = [...text.matchAll(NAMESPACE)].map(([, namespace = '']) => namespace);
  const distinct = [...new Set(written)];
  if (!distinct.every(isDnsLabel)) return undefined;
  // A document without a namespace is in the default namespace.
  if (written.length === 0) return /\bnamespace\b/.test(text) ? undefined : ['default'];
  return written.length < documents || (documents === 1 && distinct.length > 1) ? undefined : distinct;
}

/** The only part of the spec that is trusted: an action that only observes. */
function specOf(text: string): { readonly action?: string } | undefined {
  const [action, ...more] = [...text.matchAll(ACTION)].map(([, written = '']) => written);
  return action === 'AUDIT' && more.length === 0 ? { action } : undefined;
}
