/** ProxyConfig: how the proxies of injected Pods run. Fields of `defaultConfig` that concern all proxies are not here. */
import { z } from 'zod';
import { int32, stringMap, workloadSelector } from './common.ts';

export const proxyImage = z.strictObject({ imageType: z.string().optional() });

export const proxyConfigDocument = z.strictObject({
  selector: workloadSelector.optional(),
  concurrency: int32.optional(),
  environmentVariables: stringMap.optional(),
  image: proxyImage.optional(),
});
export type ProxyConfigSpec = z.output<typeof proxyConfigDocument>;
