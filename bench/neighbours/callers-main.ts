/** The process of hostile callers: runs the callers of one scenario until it is killed. It ends with the bench. */
import { SCENARIOS } from './index.ts';
import type { Assignment } from './scenario.ts';

process.on('message', ({ scenario, target }: Assignment) => {
  const callers = SCENARIOS.find(({ name }) => name === scenario)?.callers;
  void callers?.(target).then(() => process.send?.('begun'));
});
process.on('disconnect', () => process.exit(0));
process.on('SIGINT', () => {});
