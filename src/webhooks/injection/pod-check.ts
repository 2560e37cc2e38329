/**
 * Checks the fields of a Pod that injection reads or changes, so that a Pod with wrong types is refused with one line
 * that names the field. The API server checks everything else.
 */
import { z } from 'zod';
import { CtlError } from '../../core/errors.ts';
import { fieldPath } from '../../resources/index.ts';
import { problemOf } from './problem.ts';

const texts = z.record(z.string(), z.string()).nullish();
const named = z.looseObject({ name: z.string().min(1, 'expected a name') });
const list = <T extends z.ZodType>(entry: T) => z.array(entry).nullish();
const fields = z.looseObject({}).nullish();
const port = z.union([z.string(), z.number()], 'expected a port').nullish();

const handlers = {
  httpGet: z
    .looseObject({
      port,
      httpHeaders: list(z.looseObject({ name: z.string().nullish(), value: z.string().nullish() })),
    })
    .nullish(),
  tcpSocket: z.looseObject({ port }).nullish(),
  grpc: z.looseObject({ port }).nullish(),
  exec: fields,
};
const probe = z.looseObject({ ...handlers, timeoutSeconds: z.number().nullish() }).nullish();

const container = z.looseObject({
  name: z.string().min(1, 'expected a name'),
  image: z.string().nullish(),
  command: list(z.string()),
  args: list(z.string()),
  env: list(named),
  envFrom: list(z.looseObject({})),
  ports: list(
    z.looseObject({
      name: z.string().nullish(),
      containerPort: z.number().nullish(),
      protocol: z.string().nullish(),
    }),
  ),
  resources: z.looseObject({ requests: fields, limits: fields }).nullish(),
  volumeMounts: list(z.looseObject({ name: z.string().nullish(), mountPath: z.string().nullish() })),
  volumeDevices: list(z.looseObject({})),
  securityContext: z.looseObject({ capabilities: fields, seccompProfile: fields }).nullish(),
  lifecycle: z.looseObject({ postStart: fields, preStop: fields }).nullish(),
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
  restartPolicy: z.string().nullish(),
});

const podSchema = z.looseObject({
  apiVersion: z.literal('v1').nullish(),
  kind: z.literal('Pod').nullish(),
  metadata: z
    .looseObject({
      name: z.string().nullish(),
      generateName: z.string().nullish(),
      namespace: z.string().nullish(),
      labels: texts,
      annotations: texts,
      ownerReferences: list(
        z.looseObject({ apiVersion: z.string().nullish(), kind: z.string().nullish(), name: z.string().nullish() }),
      ),
    })
    .nullish(),
  spec: z.looseObject({
    containers: z.array(container).min(1, 'expected at least one container'),
    initContainers: list(container),
    volumes: list(named),
    imagePullSecrets: list(z.looseObject({ name: z.string().nullish() })),
    hostNetwork: z.boolean().nullish(),
    nodeSelector: texts,
    affinity: fields,
    os: fields,
    securityContext: fields,
    hostAliases: list(z.looseObject({})),
    topologySpreadConstraints: list(z.looseObject({})),
  }),
});

/** The metadata of a Pod, a template of one, or the fields that a template gives. */
const overlaySchema = z.strictObject({
  metadata: z.strictObject({ labels: texts, annotations: texts }).nullish(),
  spec: podSchema.shape.spec.extend({ containers: list(container) }).nullish(),
});

/** @throws CtlError `invalid_argument` with the field */
export function checkPod(pod: unknown): void {
  check(podSchema, pod, (message, field) => new CtlError('invalid_argument', message, { field }));
}

/** Checks what a template gives. @throws what `errorOf` makes of the problem */
export function checkOverlay(overlay: unknown, errorOf: (problem: string) => CtlError): void {
  check(overlaySchema, overlay, (message, field) => errorOf(`${field}: ${message}`));
}

function check(schema: z.ZodType, value: unknown, errorOf: (message: string, field: string) => CtlError): void {
  const read = schema.safeParse(value, { reportInput: true });
  if (read.success) return;
  const { path, message } = problemOf(read.error);
  throw errorOf(message, fieldPath(path));
}
