/** Checks of the stored state of a self-signed authority, wherever it is stored. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { CtlError, type ErrorLocation } from '../../core/errors.ts';

/** @throws CtlError that names the location when the certificate cannot be read */
export function checkCertificate(location: ErrorLocation, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw problemAt(location, 'holds a certificate that cannot be read', error);
  }
}

/** @throws CtlError that names the location when the key does not match the certificate */
export function checkPair(location: ErrorLocation, keyPem: string, certificatePem: string): void {
  const certificate = checkCertificate(location, certificatePem);
  let fits: boolean;
  try {
    fits = certificate.checkPrivateKey(createPrivateKey(keyPem));
  } catch (error) {
    throw problemAt(location, 'holds a key that cannot be read', error);
  }
  if (!fits) throw problemAt(location, 'holds a key that is not the key of its certificate');
}

export function problemAt(location: ErrorLocation, message: string, cause?: unknown): CtlError {
  return new CtlError('failed_precondition', message, location, cause);
}
