/** What analysis finds in the configuration of a mesh, and what describes it. */
import type { ResourceOrigin } from '../resources/index.ts';

/** The most severe first. */
export const LEVELS = ['Error', 'Warning', 'Info'] as const;
export type Level = (typeof LEVELS)[number];

/** The resource that a finding is about; the kind as documents write it. */
export interface FoundResource {
  readonly kind: string;
  /** Empty for resources without a namespace. */
  readonly namespace: string;
  readonly name: string;
}

export interface Finding {
  /** Such as `IST0101`. */
  readonly code: string;
  readonly level: Level;
  /** The name of the code, such as `ReferencedResourceNotFound`. */
  readonly name: string;
  /** One sentence. */
  readonly message: string;
  readonly resource: FoundResource;
  readonly origin: ResourceOrigin;
  /** The path of the description in the documents of this repository. */
  readonly documentation: string;
  /** Namespaces besides the resource's own on which the finding depends; only who sees all of them may read it. */
  readonly reveals?: readonly string[];
}

/** A kind of finding: the codes and names are those of Istio's analyzers. */
export interface Message {
  readonly level: Level;
  readonly name: string;
  /** What is wrong, and what follows from it. */
  readonly meaning: string;
  /** Documents, YAML, in which it is found. */
  readonly example: string;
  /** The same documents as they are meant. */
  readonly mended: string;
  /** Set where the program reads the kinds of these documents from files and with --kubeconfig only. */
  readonly manifests?: true;
}

/** A document as it was written, of a kind of which a mesh reads nothing, or not everything. */
export interface Manifest {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly document: Readonly<Record<string, unknown>>;
  readonly origin: ResourceOrigin;
}

/** An annotation of Pods that sidecar injection reads. */
export interface AnnotationRule {
  /** Throws an error that says what was expected; undefined where no value is wrong. */
  readonly read?: (text: string) => unknown;
}

/** The labels by which documents select a workload. */
export interface Workload {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Set for Pods, whose ports others reach through Services. */
  readonly isPod?: true;
  /** Set for Pods without a proxy, to which no policy applies. */
  readonly isOutside?: true;
}

/** What an analyzer yields: a finding, or undefined where it may be interrupted. */
export type Findings = Generator<Finding | undefined, void>;
