/** What routes of every protocol have: destinations and weights. */
import type { Destination } from '../schema/virtual-service.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkDnsLabel, checkHost, checkPort } from './values.ts';

/** Checks a destination of any route, mirror or egress proxy. */
export function checkDestination(destination: Destination, faults: ValidationErrors): void {
  checkHost(faults.at('host'), destination.host);
  if (destination.subset !== undefined) checkDnsLabel(faults.at('subset'), destination.subset);
  if (destination.port !== undefined) checkPort(faults.at('port', 'number'), destination.port.number);
}

/**
 * Weights are relative, as in today's meshes: any sum above 0 (older ones wanted 100). A single destination needs none;
 * among several, one without weight gets nothing.
 */
export function checkWeights(route: readonly { weight?: number | undefined }[], faults: ValidationErrors): void {
  each(faults, route, ({ weight }, at) => {
    if (weight !== undefined && weight < 0) at.add(['weight'], `expected a weight from 0, got ${weight}`);
  });
  if (route.length < 2) return;
  const total = route.reduce((sum, { weight }) => sum + Math.max(0, weight ?? 0), 0);
  if (total === 0) faults.add([], 'expected weights with a sum above 0 for several destinations');
}
