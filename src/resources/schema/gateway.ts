/** Gateway: the ports that a gateway workload opens. */
import { z } from 'zod';
import { port, selectorLabelMap, strings } from './common.ts';
import { type DerivedGateway, derivable } from './derived.ts';
import { serverTlsSettings } from './tls-settings.ts';

const server = z.strictObject({
  port,
  bind: z.string().optional(),
  hosts: strings,
  tls: serverTlsSettings.optional(),
  defaultEndpoint: z.string().optional(),
  name: z.string().optional(),
});

export const gateway = derivable<DerivedGateway>()(
  z.strictObject({
    servers: z.array(server).optional(),
    selector: selectorLabelMap.optional(),
  }),
);

export type GatewaySpec = z.output<typeof gateway>;
export type GatewayServer = z.output<typeof server>;
