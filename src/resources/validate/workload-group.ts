/** Validates WorkloadGroup: the template, and that the probe is one that an agent can run. */
import { shown } from '../parsing/issues.ts';
import type { ReadinessProbe, WorkloadGroupSpec } from '../schema/workload-group.ts';
import { checkPlacement } from './service-entry.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkLabels, checkPort } from './values.ts';

const ACTIONS = ['httpGet', 'tcpSocket', 'exec', 'grpc'] as const;

export function validateWorkloadGroup(spec: WorkloadGroupSpec, errors: ValidationErrors): void {
  const { metadata, template, probe } = spec;
  checkLabels(errors.at('metadata', 'labels'), metadata?.labels);
  if (template.address) {
    errors.add(['template', 'address'], 'expected none: each workload of the group has its own');
  }
  checkPlacement(template, errors.at('template'));
  if (probe !== undefined) checkProbe(probe, errors.at('probe'));
}

function checkProbe(probe: ReadinessProbe, errors: ValidationErrors): void {
  for (const field of ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'successThreshold'] as const) {
    checkFromZero(probe[field], errors.at(field));
  }
  checkFromZero(probe.failureThreshold, errors.at('failureThreshold'));
  const actions = ACTIONS.filter((action) => probe[action] !== undefined);
  if (actions.length !== 1) errors.add([], `expected exactly one of ${ACTIONS.join(', ')}`);
  const { httpGet, tcpSocket, exec, grpc } = probe;
  if (httpGet !== undefined) {
    checkPort(errors.at('httpGet', 'port'), httpGet.port);
    const { scheme = 'HTTP' } = httpGet;
    each(errors.at('httpGet', 'httpHeaders'), httpGet.httpHeaders, ({ name, value }, at) => {
      // As the API server checks the probes of Pods.
      if (!/^[-A-Za-z0-9]+$/.test(name)) {
        at.addForAuthor(['name'], `expected a header name of letters, digits and -, got ${shown(name)}`);
      }
      if (value !== undefined && /[\0\r\n]/.test(value)) at.addForAuthor(['value'], 'expected a string on one line');
    });
    if (!/^https?$/i.test(scheme)) errors.add(['httpGet', 'scheme'], `expected HTTP or HTTPS, got ${shown(scheme)}`);
  }
  if (tcpSocket !== undefined) checkPort(errors.at('tcpSocket', 'port'), tcpSocket.port);
  if (grpc !== undefined) checkPort(errors.at('grpc', 'port'), grpc.port);
  if (exec !== undefined && !exec.command[0]) errors.add(['exec', 'command'], 'required, expected a program');
}

function checkFromZero(value: number | undefined, errors: ValidationErrors): void {
  if (value !== undefined && value < 0) errors.add([], 'expected a number of at least 0');
}
