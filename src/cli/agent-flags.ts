/** The flags of ctl-agent (specification: ctl-agent "Endpoints"). */

import { loggingFlags, versionFlags } from './common-flags.ts';
import type { FlagTable } from './flag-table.ts';

/** On every command of ctl-agent. */
export const agentCommonFlags = { ...loggingFlags('ctl-agent') } as const satisfies FlagTable;

export const agentVersionFlags = { ...versionFlags, ...agentCommonFlags } as const satisfies FlagTable;

/** On `ctl-agent wait`. */
export const agentWaitFlags = {
  periodMillis: { type: 'int', default: 500, min: 1, meaning: 'Milliseconds between attempts.' },
  requestTimeoutMillis: { type: 'int', default: 500, min: 1, meaning: 'Milliseconds to wait for a response.' },
  timeoutSeconds: {
    type: 'int',
    default: 60,
    min: 0,
    meaning: 'Maximum seconds to wait for the proxy to be ready.',
  },
  url: {
    type: 'string',
    default: 'http://localhost:15021/healthz/ready',
    meaning: 'URL polled.',
    check: checkHttpUrl,
  },
  ...agentCommonFlags,
} as const satisfies FlagTable;

function checkHttpUrl(text: string): void {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) throw new Error('not an http URL');
}
