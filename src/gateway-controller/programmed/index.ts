/** Decides when a Gateway is programmed, by what its proxies have acknowledged to all replicas of the control plane. */
export {
  AcknowledgedListeners,
  type AcknowledgedListenersOptions,
  type Acknowledgements,
} from './acknowledgements.ts';
export { withAcknowledged } from './listener-conditions.ts';
