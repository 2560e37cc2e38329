/** When a Gateway is programmed: what its proxies have acknowledged, at all replicas of the control plane. */
export {
  AcknowledgedListeners,
  type AcknowledgedListenersOptions,
  type Acknowledgements,
} from './acknowledgements.ts';
export { withAcknowledged } from './listener-conditions.ts';
