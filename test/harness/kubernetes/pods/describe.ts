/** A Pod of the simulated kubelet in words, for the report of a failed test. */
import type { ContainerStatus, PodStatus } from './status.ts';

const indent = (text: string, by: string) => text.trimEnd().replaceAll(/^/gm, by);

function containerLines({ name, ready, restartCount, state }: ContainerStatus, output: string): string[] {
  if (ready) return [];
  const line = `  ${name}: ${restartCount} restarts, ${JSON.stringify(state)}`;
  return output === '' ? [line] : [line, indent(output, '    | ')];
}

/**
 * One line for a ready Pod; otherwise conditions that are not met and containers that are not ready.
 * @param outputOf the end of the output of `namespace/pod/container`
 */
export function describePod(key: string, status: PodStatus, outputOf: (container: string) => string): string {
  const { phase, podIP = 'no address', conditions = [], initContainerStatuses = [], containerStatuses = [] } = status;
  const unmet = conditions.filter((condition) => condition.status === 'False');
  if (unmet.length === 0) return `${key}: ${phase}, ready, ${podIP}`;
  return [
    `${key}: ${phase}, ${podIP}`,
    ...unmet.map(({ type, reason = '', message = '' }) => `  not ${type}: ${[reason, message].join(' ').trim()}`),
    ...[...initContainerStatuses, ...containerStatuses].flatMap((container) =>
      containerLines(container, outputOf(`${key}/${container.name}`)),
    ),
  ].join('\n');
}
