/**
 * Injection: decides, renders the templates, merges them into the Pod, and applies the steps that follow them.
 *
 * What the Pod has takes precedence over the templates. A Pod that was injected already (the API server calls webhooks
 * again after others changed the Pod) has everything that the templates define, so it only gets what the changes of
 * other webhooks require.
 */
import { CtlError } from '../../core/errors.ts';
import { didYouMean } from '../../core/nearest.ts';
import { meshVariable, workloadLabels } from '../../resources/index.ts';
import type { Injected, InjectionParameters, InjectionSettings, Injector, PodObject } from '../types.ts';
import { ANNOTATIONS, type PodOptions, readAnnotations } from './annotations/annotations.ts';
import { type InjectionConfig, injectionConfig, injectionValues } from './config.ts';
import { reasonToSkip } from './decide.ts';
import { gatewayContainer } from './gateway-pod.ts';
import { mergePods } from './merge.ts';
import { checkOverlay, checkPod } from './pod-check.ts';
import { type PodRecord, recordOf, recordsOf, textOf, textsOf } from './pod-shape.ts';
import { allOf, documentsFor, NO_PROXY_CONFIGS, type PodDocuments } from './proxy-configs.ts';
import { isInjected, statusOf, withStatus } from './status.ts';
import { warnOfLikelyMistakes } from './steps/likely-wrong.ts';
import { orderContainers } from './steps/order.ts';
import { rewriteProbes } from './steps/probes.ts';
import { mergeMetrics } from './steps/prometheus.ts';
import { carryProxyUser } from './steps/proxy-user.ts';
import type { InjectionContext, InjectionStep } from './steps/step.ts';
import { templateData } from './template-data/data.ts';
import type { TemplateData } from './template-data/types.ts';
import { SIDECAR_TEMPLATE } from './templates/built-in.ts';
import { PROXY_CONTAINER, TEMPLATE_VARIABLES } from './templates/parts.ts';
import { type InjectionTemplate, templateError } from './templates/template.ts';
import { withMeshNames } from './written-names.ts';

/** @throws CtlError `invalid_argument` with origin, line and field of what is wrong in config or values */
export function createInjector(settings: InjectionSettings): Injector {
  const config = injectionConfig(settings.config);
  const values = injectionValues(settings.values);
  return {
    inject(
      written: PodObject,
      namespace: string,
      parameters: InjectionParameters = {},
      proxyConfigs: Parameters<Injector['inject']>[3] = NO_PROXY_CONFIGS,
    ): Injected {
      checkPod(written);
      const { controlPlaneNamespace } = settings;
      const labels = workloadLabels(textsOf(recordOf(written.metadata).labels));
      const reason = reasonToSkip({ pod: written, namespace, controlPlaneNamespace, labels }, config);
      if (reason !== undefined) return { kind: 'skipped', reason };
      const { options, warnings } = readAnnotations(written.metadata);
      const gateway = isInjected(written) ? undefined : gatewayContainer(written);
      if (gateway !== undefined && wantsSidecar(options.templates, config)) {
        return { kind: 'skipped', reason: `spec.containers[${textOf(gateway)}]: the Pod is a gateway itself` };
      }
      const templates = chosenTemplates(options.templates ?? config.defaultTemplates, config);
      const { pod, restore } = withMeshNames(written);
      const documents = documentsFor(labels, proxyConfigs);
      const { data, warnings: more } = templateData({
        pod,
        namespace,
        parameters,
        options,
        documents,
        values,
        settings,
      });
      const context = {
        data: fittedTo(pod, data),
        original: pod,
        isRepeated: isInjected(pod),
        warnings: [...warnings, ...more, ...reservedVariables(options, documents)],
      };
      const injected = restore(withTemplates(pod, templates, config, context));
      return { kind: 'injected', pod: injected, warnings: [...new Set(context.warnings)] };
    },
  };
}

/** Applies the decisions that the containers and variables of the Pod imply. */
function fittedTo(pod: PodObject, data: TemplateData): TemplateData {
  const { proxy } = data;
  const env = proxy.env.filter(({ name }) => !TEMPLATE_VARIABLES.has(name));
  return { ...data, proxy: { ...proxy, native: isNative(pod, proxy.native), env } };
}

/** Variables of the Pod's proxy configuration and its documents that the templates set themselves. */
function reservedVariables({ proxyConfig }: PodOptions, documents: PodDocuments): readonly string[] {
  const annotation = `metadata.annotations[${ANNOTATIONS.proxyConfig.name}]: proxyMetadata`;
  const sources = [
    [annotation, proxyConfig?.config] as const,
    ...allOf(documents).map(({ title, config }) => [`${title}: environmentVariables`, config] as const),
  ];
  return sources.flatMap(([field, config]) => {
    const names = Object.keys(recordOf(config?.proxyMetadata)).filter((name) =>
      TEMPLATE_VARIABLES.has(meshVariable(name)),
    );
    return names.map((name) => `${field}.${name}: no effect, because injection sets this variable`);
  });
}

/**
 * Whether the proxy is an init container with `restartPolicy: Always`. It is if the Pod itself defines it as an init
 * container, or if `wanted` and the Pod has another container, because a Pod needs at least one.
 */
function isNative({ spec: podSpec }: PodObject, wanted: boolean): boolean {
  const spec = recordOf(podSpec);
  if (recordsOf(spec.initContainers).some(({ name }) => name === PROXY_CONTAINER)) return true;
  return wanted && recordsOf(spec.containers).some(({ name }) => name !== PROXY_CONTAINER);
}

/** Whether a Pod may get a sidecar. @param asked the templates of its annotation; without one, the default ones apply */
function wantsSidecar(asked: readonly string[] | undefined, { aliases }: InjectionConfig): boolean {
  return asked === undefined || withoutAliases(asked, aliases).includes(SIDECAR_TEMPLATE);
}

function withoutAliases(names: readonly string[], aliases: InjectionConfig['aliases']): readonly string[] {
  return [...new Set(names.flatMap((name) => aliases.get(name) ?? [name]))];
}

/** @throws CtlError with the annotation for an unknown name */
function chosenTemplates(names: readonly string[], { templates, aliases }: InjectionConfig): InjectionTemplate[] {
  return withoutAliases(names, aliases).map((name) => {
    const template = templates.get(name);
    if (template !== undefined) return template;
    const known = [...templates.keys(), ...aliases.keys()];
    throw new CtlError('invalid_argument', `unknown template ${JSON.stringify(name)}${didYouMean(name, known)}`, {
      field: `metadata.annotations[${ANNOTATIONS.templates.name}]`,
    });
  });
}

/** The steps after the templates, in this order. */
const STEPS: readonly InjectionStep[] = [
  orderContainers,
  carryProxyUser,
  rewriteProbes,
  mergeMetrics,
  warnOfLikelyMistakes,
];

function withTemplates(
  pod: PodObject,
  templates: readonly InjectionTemplate[],
  { injectedAnnotations }: InjectionConfig,
  context: InjectionContext,
): PodObject {
  const { data } = context;
  const base: PodRecord =
    Object.keys(injectedAnnotations).length === 0 ? {} : { metadata: { annotations: injectedAnnotations } };
  const overlay = templates.reduce((below, template) => mergePods(below, rendered(template, data)), base);
  const merged = mergePods(overlay, inListsOf(overlay, pod));
  const stepped = STEPS.reduce((before, step) => step(before, context), merged);
  return withStatus(
    stepped,
    statusOf(
      overlay,
      data.revision,
      templates.map(({ name }) => name),
    ),
  );
}

function rendered(template: InjectionTemplate, data: TemplateData): PodRecord {
  const overlay = template.render(data);
  checkOverlay(overlay, (problem) => templateError(template.name, problem));
  return overlay;
}

/**
 * Moves containers of the Pod that override one of the templates to the list in which the templates have it. Users who
 * override fields of the sidecar need not know whether it is an init container.
 * @throws CtlError for an init container that the templates define as a container, and for two containers of one name
 */
function inListsOf(overlay: PodRecord, pod: PodRecord): PodRecord {
  const names = (list: unknown) => new Set(recordsOf(list).map(({ name }) => textOf(name)));
  const ofTemplates = recordOf(overlay.spec);
  const [asInit, asContainer] = [names(ofTemplates.initContainers), names(ofTemplates.containers)];
  const spec = recordOf(pod.spec);
  const [containers, initContainers] = [recordsOf(spec.containers), recordsOf(spec.initContainers)];
  const ofOverlay = new Set([...asInit, ...asContainer]);
  checkUnique(containers, ofOverlay, 'containers');
  checkUnique(initContainers, ofOverlay, 'initContainers');
  const moved = containers.filter(({ name }) => asInit.has(textOf(name)));
  const refused = new Set([...asContainer, ...names(moved)]);
  const wrong = initContainers.findIndex(({ name }) => refused.has(textOf(name)));
  if (wrong >= 0) {
    const field = `spec.initContainers[${wrong}].name`;
    throw new CtlError(
      'invalid_argument',
      'expected this container, which the templates define, only in spec.containers',
      {
        field,
      },
    );
  }
  if (moved.length === 0) return pod;
  const kept = containers.filter(({ name }) => !asInit.has(textOf(name)));
  return { ...pod, spec: { ...spec, containers: kept, initContainers: [...initContainers, ...moved] } };
}

/** Each would override the same container of the templates. */
function checkUnique(containers: readonly PodRecord[], names: ReadonlySet<string>, list: string): void {
  const seen = new Set<string>();
  for (const [index, { name }] of containers.entries()) {
    const shown = textOf(name);
    if (!names.has(shown)) continue;
    if (seen.has(shown)) {
      const field = `spec.${list}[${index}].name`;
      throw new CtlError('invalid_argument', `expected one container ${shown}, which overrides the templates`, {
        field,
      });
    }
    seen.add(shown);
  }
}
