/** What the deployment of a Gateway adds to the status that is computed from documents. */
import { type Condition, type DesiredStatus, recordsOf, type StatusFields } from './types.ts';

/** The status with Programmed False where the objects that run the Gateway are refused. */
export function withDeployment(desired: DesiredStatus | undefined, problem: string | undefined) {
  if (desired === undefined || problem === undefined) return desired;
  const status = desired.status as StatusFields;
  const conditions = recordsOf(status.conditions);
  const accepted = conditions.find(({ type }) => type === 'Accepted');
  // The Gateway's own problems come first.
  if (accepted?.status !== 'True') return desired;
  const { observedGeneration } = accepted;
  const programmed: Condition = {
    type: 'Programmed',
    status: 'False',
    reason: 'Invalid',
    message: `not deployed: ${problem}`,
    ...(typeof observedGeneration === 'number' ? { observedGeneration } : {}),
  };
  const others = conditions.filter(({ type }) => type !== 'Programmed');
  return { ...desired, status: { ...status, conditions: [...others, programmed] } };
}
