/**
 * Building blocks of the resource schemas that several kinds share: durations, string matches, ports, labels and
 * others.
 *
 * Rules for all of them: field names are those of the YAML (camelCase). Absent fields stay absent, because generation
 * must distinguish absent from zero. Spellings with the same meaning (deprecated twins, the `istio` names) are
 * normalized here, so that nothing else has to know them.
 */
import { z } from 'zod';
import { selectorLabels, workloadLabels } from '../kinds/aliases.ts';
import { parseDuration } from './duration.ts';

/** The nanoseconds of a 63-bit number, in whole hours: Envoy refuses messages with a longer duration. */
const MAX_DURATION_HOURS = 2_562_047;
const MAX_DURATION_MILLIS = MAX_DURATION_HOURS * 3_600_000;

/** A duration string (`1.5s`, `1m0s`, `250ms`) → milliseconds, possibly fractional. */
export const duration = z.string('expected a duration such as "1.5s"').transform((text, context) => {
  const millis = parseDuration(text);
  if (millis !== undefined && Math.abs(millis) <= MAX_DURATION_MILLIS) return millis;
  const message =
    millis === undefined
      ? 'expected a duration such as "1.5s" or "1m0s"'
      : `expected a duration of at most ${MAX_DURATION_HOURS}h`;
  context.issues.push({ code: 'custom', input: text, message });
  return z.NEVER;
});

const WHOLE = 'expected a whole number';
export const uint32 = z
  .int(WHOLE)
  .min(0, 'expected a number of at least 0')
  .max(0xffffffff, 'expected a 32-bit number');
export const int32 = z
  .int(WHOLE)
  .min(-0x80000000, 'expected a 32-bit number')
  .max(0x7fffffff, 'expected a 32-bit number');
/** Whether a port is in range is checked in `validate/`, so that the message can name the port. */
export const portNumber = uint32;

export const strings = z.array(z.string());
export const stringMap = z.record(z.string(), z.string());

/** Labels of a workload, an endpoint or a subset's pods: mesh twins are added to `istio` names. */
export const workloadLabelMap = stringMap.transform(workloadLabels);
/** Labels that select: `istio` names are replaced by their mesh twins. */
export const selectorLabelMap = stringMap.transform(selectorLabels);

/** Percentage from 0 to 100, with fractions. */
export const percent = z.strictObject({ value: z.number().default(0) });
export type Percent = z.output<typeof percent>;

/** How a string is compared: exactly one of the three. `regex` is RE2 and must match the whole string. */
export type StringMatch = { readonly exact: string } | { readonly prefix: string } | { readonly regex: string };
/** A {@link StringMatch}, or "is present". */
export type HeaderMatch = StringMatch | { readonly present: true };

const stringMatchFields = z.strictObject({
  exact: z.string().optional(),
  prefix: z.string().optional(),
  regex: z.string().optional(),
});

function oneMatch(fields: z.output<typeof stringMatchFields>): StringMatch | 'none' | 'several' {
  const { exact, prefix, regex } = fields;
  const given = [exact, prefix, regex].filter((value) => value !== undefined).length;
  if (given > 1) return 'several';
  if (exact !== undefined) return { exact };
  if (prefix !== undefined) return { prefix };
  if (regex !== undefined) return { regex };
  return 'none';
}

export const stringMatch = stringMatchFields.transform((fields, context): StringMatch => {
  const match = oneMatch(fields);
  if (match !== 'none' && match !== 'several') return match;
  context.issues.push({ code: 'custom', input: fields, message: 'expected exactly one of exact, prefix, regex' });
  return z.NEVER;
});

/** Header matches: `{}` (or nothing) means that the header must be present, whatever its value. */
export const headerMatch = z
  .preprocess((value) => value ?? {}, stringMatchFields)
  .transform((fields, context): HeaderMatch => {
    const match = oneMatch(fields);
    if (match === 'none') return { present: true };
    if (match !== 'several') return match;
    context.issues.push({ code: 'custom', input: fields, message: 'expected at most one of exact, prefix, regex' });
    return z.NEVER;
  });

/** `selector: {matchLabels}` of the security kinds. */
export const workloadSelector = z.strictObject({ matchLabels: selectorLabelMap.optional() });
/** `workloadSelector: {labels}` of the networking kinds. */
export const networkingSelector = z
  .strictObject({ labels: selectorLabelMap.optional() })
  .transform(({ labels = {} }) => ({ labels }));

export const portSelector = z.strictObject({ number: portNumber.optional() });

/** A port of a Gateway server, a ServiceEntry or a Sidecar listener. */
export const port = z.strictObject({
  number: portNumber.optional(),
  protocol: z.string().optional(),
  name: z.string().optional(),
  targetPort: portNumber.optional(),
});
export type Port = z.output<typeof port>;

/** Reference to a gateway or service that a policy attaches to. */
export const targetRef = z.strictObject({
  group: z.string().optional(),
  kind: z.string(),
  name: z.string(),
  namespace: z.string().optional(),
});
export type TargetRef = z.output<typeof targetRef>;
