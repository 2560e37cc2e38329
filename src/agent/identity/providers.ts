/** The providers of certificates by the values of CA_PROVIDER. */
import { CtlError } from '../../core/errors.ts';
import { type CaProtocol, CLOUD_PROTOCOL, meshProtocol } from './ca-protocols.ts';

/** What signs, or undefined for the SPIFFE Workload API, which has keys and certificates ready. */
export type Provider = CaProtocol | undefined;

const ISTIO = (): Provider => meshProtocol('istio.v1.auth.IstioCertificateService');

const PROVIDERS: Readonly<Record<string, () => Provider>> = {
  SelfCA: () => meshProtocol('mesh.v1.auth.MeshCertificateService'),
  Istio: ISTIO,
  // Names from settings of Istio 1.7 and earlier.
  Istiod: ISTIO,
  Citadel: ISTIO,
  GoogleCA: () => CLOUD_PROTOCOL,
  MeshCA: () => CLOUD_PROTOCOL,
  SPIFFE: () => undefined,
};

/** Throws CtlError invalid_argument for an unknown provider, and for one that needs CA_ADDR without it. */
export function providerOf(name: string, caAddress: string): Provider {
  const make = Object.hasOwn(PROVIDERS, name) ? PROVIDERS[name] : undefined;
  if (make === undefined) {
    const message = `${JSON.stringify(name)} is not one of ${Object.keys(PROVIDERS).join(', ')}`;
    throw new CtlError('invalid_argument', message, { field: 'CA_PROVIDER' });
  }
  const provider = make();
  if (provider?.external === true && caAddress === '')
    throw new CtlError('invalid_argument', `must name the authority for CA_PROVIDER=${name}`, { field: 'CA_ADDR' });
  return provider;
}
