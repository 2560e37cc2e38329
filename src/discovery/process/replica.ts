/** The name of this replica of the program, for people: of its Pod, else of its machine. */
import { hostname } from 'node:os';
import type { Environment } from '../../settings/index.ts';

export function replicaName(env: Environment): string {
  return env.POD_NAME || hostname();
}
