/** Parts of routes of every protocol: destinations and weights. */
import type { Destination } from '../../schema/virtual-service.ts';
import { each, type ValidationErrors } from '../validation-errors.ts';
import { checkDnsLabel, checkHost, checkPort } from '../values.ts';

/** Checks a destination of any route, mirror or egress proxy. */
export function checkDestination(destination: Destination, errors: ValidationErrors): void {
  checkHost(errors.at('host'), destination.host);
  if (destination.subset !== undefined) checkDnsLabel(errors.at('subset'), destination.subset);
  if (destination.port !== undefined) checkPort(errors.at('port', 'number'), destination.port.number);
}

/**
 * Weights are relative: any sum above 0 is valid (older meshes required 100). A single destination needs none; among
 * several, one without weight receives nothing.
 */
export function checkWeights(route: readonly { weight?: number | undefined }[], errors: ValidationErrors): void {
  each(errors, route, ({ weight }, at) => {
    if (weight !== undefined && weight < 0) at.add(['weight'], `expected a weight of at least 0, got ${weight}`);
  });
  if (route.length < 2) return;
  const total = route.reduce((sum, { weight }) => sum + Math.max(0, weight ?? 0), 0);
  if (total === 0) errors.add([], 'expected at least one weight above 0 when there are several destinations');
}
