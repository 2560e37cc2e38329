import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { ServedDocuments } from '../../mcp/index.ts';
import { QUIET_TRANSPORT } from '../testing/transport.ts';
import { ConfigRequests } from './config-requests.ts';

function requests(authorize: () => void) {
  const [failed, rejected]: [unknown[], string[]] = [[], []];
  const made = new ConfigRequests({
    transport: { ...QUIET_TRANSPORT, read: () => assert.fail('reads') },
    mode: 'sotw',
    caller: undefined,
    serving: {
      served: new ServedDocuments({
        read: () => undefined,
        delayMs: 0,
        clock: { now: () => 0, setTimer: () => ({ cancel: () => {} }) },
        onLeftOut: () => {},
      }),
      authorize,
      rejected: (_peer, message) => void rejected.push(message),
    },
    fail: (error) => void failed.push(error),
  });
  const refuse = (nack: string): void =>
    made.receive({ typeUrl: 'networking.istio.io/v1/VirtualService', responseNonce: '1', nack, node: undefined });
  return { refuse, failed, rejected };
}

test('the errors of a caller that may not read documents are not logged', () => {
  const denied = new CtlError('permission_denied', 'not you');
  const { refuse, failed, rejected } = requests(() => {
    throw denied;
  });
  refuse('forged line');
  assert.deepEqual([failed, rejected], [[denied], []]);
});

test('the error of a control plane is cut for the log', () => {
  const { refuse, failed, rejected } = requests(() => {});
  refuse(`a\n${'b'.repeat(30_000)}`);
  assert.deepEqual([failed, rejected], [[], [`networking.istio.io/v1/VirtualService: a ${'b'.repeat(998)}`]]);
});
