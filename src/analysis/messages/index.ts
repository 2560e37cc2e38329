/** All codes. Numbers and names are those of Istio's analyzers, so that people and tools that know them find theirs. */
import { DOCUMENT_MESSAGES } from './documents.ts';
import { GATEWAY_MESSAGES } from './gateways.ts';
import { POLICY_MESSAGES } from './policies.ts';
import { ROUTING_MESSAGES } from './routing.ts';
import { SERVICE_MESSAGES } from './services.ts';
import { WORKLOAD_MESSAGES } from './workloads.ts';

export { NOT_REPORTED } from './not-reported.ts';

const BY_THEME = {
  ...DOCUMENT_MESSAGES,
  ...ROUTING_MESSAGES,
  ...GATEWAY_MESSAGES,
  ...SERVICE_MESSAGES,
  ...POLICY_MESSAGES,
  ...WORKLOAD_MESSAGES,
};

export type MessageCode = keyof typeof BY_THEME;

export const MESSAGES: Readonly<typeof BY_THEME> = BY_THEME;
