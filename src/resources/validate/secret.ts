/** Validates Secrets for TLS at gateways; see `core/tls-secret-problems.ts`. */
import { tlsSecretProblems } from '../../core/tls/tls-secret-problems.ts';
import type { SecretContent } from '../schema/core.ts';
import type { ValidationErrors } from './validation-errors.ts';

export function validateSecret(content: SecretContent, errors: ValidationErrors): void {
  for (const { entry, message } of tlsSecretProblems(content)) {
    if (entry === undefined) errors.add(['data'], message);
    // `stringData` takes precedence, as in the orchestrator.
    else errors.add([content.stringData?.[entry] === undefined ? 'data' : 'stringData', entry], message);
  }
}
