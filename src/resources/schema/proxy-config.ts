/** ProxyConfig: how the proxies of injected Pods run. Fields of `defaultConfig` that concern all proxies are not here. */
import { z } from 'zod';
import { int32, workloadSelector } from './common.ts';
import { secret } from './secret.ts';

/** Values may be credentials. */
const environment = z.record(z.string(), secret('value', z.string()));

export const proxyImage = z.strictObject({ imageType: z.string().optional() });

export const proxyConfigDocument = z.strictObject({
  selector: workloadSelector.optional(),
  concurrency: int32.optional(),
  environmentVariables: environment.optional(),
  image: proxyImage.optional(),
});
export type ProxyConfigSpec = z.output<typeof proxyConfigDocument>;
