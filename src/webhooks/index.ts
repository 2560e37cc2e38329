/** Webhooks: injection of sidecars and validation of documents for the API server of a cluster. */
export type {
  AdmissionAnswer,
  AdmissionOutcome,
  AdmissionRequest,
  ConfigText,
  Injected,
  InjectionParameters,
  InjectionSettings,
  Injector,
  JsonPatchOperation,
  PodObject,
} from './types.ts';
