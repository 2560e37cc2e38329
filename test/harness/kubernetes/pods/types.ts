/** Pods as the API has them, as far as the simulated kubelet reads them; and images, which are local programs. */
import type { ApiObject } from '../api.ts';

/** A container as an image sees it. */
export interface ContainerStart {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The declared TCP ports. */
  readonly ports: readonly number[];
  readonly podIP: string;
  readonly podName: string;
}

/** What an image adds to a container. */
export interface ImageProcess {
  /** Entry point with the container's arguments; a `command` of the container replaces it. */
  readonly argv: readonly string[];
  /** Variables that those of the container override. */
  readonly env?: Readonly<Record<string, string>>;
  /** Files or folders of this machine, by their absolute path in the container. */
  readonly files?: Readonly<Record<string, string>>;
  /** Receives the output as well. */
  onOutput?(text: string): void;
}

/** The program of a container: a command line suffices where nothing else is needed. */
export type Image = (container: ContainerStart) => readonly string[] | ImageProcess;

interface KeyReference {
  readonly name: string;
  readonly key: string;
  readonly optional?: boolean;
}

/** A reference to a resource of a container of the Pod. */
export interface ResourceReference {
  readonly containerName?: string;
  /** `limits.cpu` */
  readonly resource: string;
  readonly divisor?: string;
}

export interface ValueSource {
  readonly fieldRef?: { readonly fieldPath: string };
  readonly resourceFieldRef?: ResourceReference;
  readonly configMapKeyRef?: KeyReference;
  readonly secretKeyRef?: KeyReference;
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: ValueSource;
}

export interface HttpAction {
  readonly path?: string;
  /** A number, or the name of a port of the container. */
  readonly port: number | string;
  readonly host?: string;
  readonly scheme?: 'HTTP' | 'HTTPS';
  readonly httpHeaders?: readonly { readonly name: string; readonly value: string }[];
}

/** What a probe or a hook does. */
export interface Handler {
  readonly httpGet?: HttpAction;
  readonly tcpSocket?: { readonly port: number | string; readonly host?: string };
  readonly exec?: { readonly command: readonly string[] };
  /** Of hooks only. */
  readonly sleep?: { readonly seconds: number };
}

export interface Probe extends Handler {
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
}

/** Of a container, which overrides that of its Pod. */
export interface SecurityContext {
  readonly runAsUser?: number;
  readonly runAsGroup?: number;
  readonly runAsNonRoot?: boolean;
}

export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
  readonly subPath?: string;
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly workingDir?: string;
  readonly env?: readonly EnvVar[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number; readonly protocol?: string }[];
  readonly resources?: {
    readonly limits?: Readonly<Record<string, string>>;
    readonly requests?: Readonly<Record<string, string>>;
  };
  readonly volumeMounts?: readonly VolumeMount[];
  readonly startupProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: { readonly postStart?: Handler; readonly preStop?: Handler };
  /** Of init containers only: a native sidecar. */
  readonly restartPolicy?: 'Always';
  readonly securityContext?: SecurityContext & {
    readonly allowPrivilegeEscalation?: boolean;
    readonly readOnlyRootFilesystem?: boolean;
    readonly capabilities?: { readonly add?: readonly string[]; readonly drop?: readonly string[] };
  };
}

export interface Pod extends ApiObject {
  readonly spec: {
    readonly nodeName?: string;
    readonly serviceAccountName?: string;
    readonly restartPolicy?: 'Always' | 'OnFailure' | 'Never';
    readonly terminationGracePeriodSeconds?: number;
    readonly hostAliases?: readonly { readonly ip: string; readonly hostnames?: readonly string[] }[];
    readonly securityContext?: SecurityContext & {
      readonly fsGroup?: number;
      readonly sysctls?: readonly { readonly name: string; readonly value: string }[];
    };
    readonly initContainers?: readonly Container[];
    readonly containers: readonly Container[];
    readonly volumes?: readonly Volume[];
  };
}

export interface Items {
  readonly items?: readonly { readonly key: string; readonly path: string }[];
  readonly optional?: boolean;
}

export interface DownwardFile {
  readonly path: string;
  readonly fieldRef?: { readonly fieldPath: string };
  readonly resourceFieldRef?: ResourceReference;
}

export interface Projection {
  readonly secret?: Items & { readonly name: string };
  readonly configMap?: Items & { readonly name: string };
  readonly serviceAccountToken?: {
    readonly path: string;
    readonly audience?: string;
    readonly expirationSeconds?: number;
  };
  readonly downwardAPI?: { readonly items: readonly DownwardFile[] };
}

export interface Volume {
  readonly name: string;
  readonly secret?: Items & { readonly secretName: string };
  readonly configMap?: Items & { readonly name: string };
  readonly downwardAPI?: { readonly items: readonly DownwardFile[] };
  readonly projected?: { readonly sources: readonly Projection[] };
  readonly emptyDir?: object;
}

/** Numbers of the declared TCP ports. */
export const tcpPorts = ({ ports = [] }: Container): number[] =>
  ports.filter(({ protocol = 'TCP' }) => protocol === 'TCP').map(({ containerPort }) => containerPort);

export const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
