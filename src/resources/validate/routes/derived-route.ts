/** Validates the routes of derived documents: what Envoy would refuse in them comes from a user's document. */
import { fieldPath } from '../../parsing/issues.ts';
import type { HttpMatch, HttpRoute } from '../../schema/virtual-service.ts';
import { errorList } from '../validation-errors.ts';
import { checkHeaderText, checkRegex } from '../values.ts';
import { checkHttpRoute } from './http-route.ts';

/** Envoy's `path_separated_prefix`. */
const PATH_PREFIX = /^[^?#]+[^?#/]$/;

/** The first error of a match of a derived route, one line; undefined for a match without any. */
export function derivedMatchProblem(match: HttpMatch): string | undefined {
  return derivedRouteProblem({ match: [match], directResponse: { status: 200 } });
}

/** The first error of a derived route, one line; undefined for a route without any. */
export function derivedRouteProblem(route: HttpRoute): string | undefined {
  const { errors, found } = errorList();
  const usable = route.route?.filter(({ unusable }) => unusable === undefined);
  checkHttpRoute(usable === undefined ? route : { ...route, route: usable }, errors);
  for (const { pathPrefix } of route.match ?? []) {
    if (pathPrefix !== undefined && !PATH_PREFIX.test(pathPrefix)) {
      errors.add(['match', 'pathPrefix'], 'expected a path without ? and #');
    }
  }
  checkHeaderText(errors.at('redirect', 'uriPrefix'), route.redirect?.uriPrefix);
  const regex = route.redirect?.uriRegexRewrite;
  if (regex !== undefined) checkRegex(errors.at('redirect', 'uriRegexRewrite', 'match'), regex.match);
  const [first] = found;
  return first === undefined ? undefined : `${fieldPath(first.path)}: ${first.message}`;
}
