/** Test support: the state of a proxy's subscription to one type. */
import type { TypeStatus } from '../../push/types.ts';

export const IDLE: TypeStatus = {
  subscribed: 'none',
  nonceSent: '',
  nonceAcked: '',
  resumedUpToDate: false,
  nonceNacked: '',
  versionSent: 0,
  versionAcked: 0,
  versionComplete: 0,
  current: false,
  lastNack: undefined,
  quarantined: new Map(),
  sentMessages: 0,
  sentBytes: 0,
};
