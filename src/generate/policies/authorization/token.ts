/**
 * Attributes of an end user: the payload of the verified token, which the token filter stores in the request's
 * metadata. Without a valid token, nothing here matches.
 */
import type { envoy } from '../../../protobuf/index.ts';
import { JWT_FILTER, PAYLOAD } from '../authentication/metadata.ts';
import { ALWAYS, allOf, anyOf, type Condition, leaf, NEVER, not, type PrincipalLeaf } from './condition.ts';
import type { Reading } from './operation.ts';
import { type Pattern, parsePattern, stringMatcher } from './text.ts';

type User = Condition<PrincipalLeaf>;
type Value = envoy.type.matcher.v3.ValueMatcher.Input;

const PRESENT: Value = { presentMatch: true };

/**
 * `requestPrincipals`: the string `<issuer>/<subject>`. Both may contain slashes, and metadata has them separately: the
 * pattern is split at each slash. A token without subject has the principal `<issuer>/`.
 */
export function requestPrincipal(value: string, reading: Reading): User {
  const pattern = parsePattern(value);
  switch (pattern.kind) {
    case 'any':
      return reading === 'narrow' ? claim(['iss'], PRESENT) : anyOf([claim(['iss'], PRESENT), claim(['sub'], PRESENT)]);
    case 'exact':
      return anyOf(
        splits(pattern.text).map(([issuer, subject]) => {
          const mayHaveNone = reading === 'wide' && subject !== '';
          return allOf([issuerIs(issuer, mayHaveNone), subjectIs(subject)]);
        }),
      );
    case 'prefix':
      return anyOf([
        claim(['iss'], textValue(pattern)),
        ...splits(pattern.text).map(([issuer, subject]) => {
          const mayHaveNone = reading === 'wide' && subject !== '';
          return allOf([issuerIs(issuer, mayHaveNone), subjectBegins(subject)]);
        }),
      ]);
    case 'suffix':
      return anyOf([
        claim(['sub'], textValue(pattern)),
        ...splits(pattern.text).map(([issuer, subject]) => {
          const mayHaveNone = reading === 'wide' && subject !== '';
          return allOf([issuerEnds(issuer, mayHaveNone), subjectIs(subject)]);
        }),
      ]);
  }
}

/** For each slash, the parts before and after it. */
function splits(text: string): (readonly [before: string, after: string])[] {
  return [...text.matchAll(/\//g)].map(({ index }) => [text.slice(0, index), text.slice(index + 1)] as const);
}

/**
 * A token has no issuer only if a rule without an issuer verified it. Such a token matches only patterns with a
 * subject: a request without a token has neither.
 */
function issuerIs(issuer: string, mayHaveNone: boolean): User {
  if (issuer !== '') return claim(['iss'], textValue({ kind: 'exact', text: issuer }));
  return mayHaveNone ? not(claim(['iss'], PRESENT)) : NEVER;
}

function issuerEnds(end: string, mayHaveNone: boolean): User {
  if (end === '' && mayHaveNone) return ALWAYS;
  return claim(['iss'], end === '' ? PRESENT : textValue({ kind: 'suffix', text: end }));
}

function subjectIs(subject: string): User {
  const same = claim(['sub'], textValue({ kind: 'exact', text: subject }));
  return subject === '' ? anyOf([same, not(claim(['sub'], PRESENT))]) : same;
}

function subjectBegins(start: string): User {
  return start === '' ? ALWAYS : claim(['sub'], textValue({ kind: 'prefix', text: start }));
}

/**
 * A claim by its path, one name for each level. Strings are compared, and elements of lists, of which one must match;
 * numbers, booleans and objects only match `*`, which checks that there is a value (this is not known for objects).
 */
export function claimMatches(path: readonly string[], value: string): User {
  const element = textValue(parsePattern(value));
  return claim(path, { orMatch: { valueMatchers: [element, { listMatch: { oneOf: element } }] } });
}

function textValue(pattern: Pattern): Value {
  return pattern.kind === 'any' ? PRESENT : { stringMatch: stringMatcher(pattern) };
}

function claim(path: readonly string[], value: Value): User {
  return leaf({ metadata: { filter: JWT_FILTER, path: [PAYLOAD, ...path].map((key) => ({ key })), value } });
}
