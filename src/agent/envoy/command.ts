/** The command line of Envoy. https://www.envoyproxy.io/docs/envoy/latest/operations/cli */

export interface EnvoyOptions {
  readonly binary: string;
  readonly configPath: string;
  /** 0: one worker thread per core. */
  readonly concurrency: number;
  readonly logLevel: string;
  /** `component:level`, comma-separated; empty: none. */
  readonly componentLogLevel: string;
  /** How long removed listeners keep their connections. */
  readonly drainMs: number;
  readonly ipv6: boolean;
}

/** Level, component and text, without what the agent's own log adds; `log-line.ts` parses it. */
const LOG_FORMAT = '[%l][%n] %v';

/**
 * Arguments for Envoy. There is no hot restart: an agent has one Envoy at a time, and the shared memory that hot
 * restart needs would let two agents of one host disturb each other. While draining, every response has `Connection:
 * close` or GOAWAY from the first one on (`immediate`), because the agent drains for a few seconds only.
 */
export function envoyArguments(options: EnvoyOptions): string[] {
  const { configPath, concurrency, logLevel, componentLogLevel, drainMs, ipv6 } = options;
  return [
    ['--config-path', configPath],
    ['--disable-hot-restart'],
    ['--drain-time-s', String(Math.max(1, Math.round(drainMs / 1000)))],
    ['--drain-strategy', 'immediate'],
    ['--local-address-ip-version', ipv6 ? 'v6' : 'v4'],
    ['--log-format', LOG_FORMAT],
    ['--log-format-escaped'],
    ['--log-level', logLevel],
    componentLogLevel === '' ? [] : ['--component-log-level', componentLogLevel],
    concurrency === 0 ? [] : ['--concurrency', String(concurrency)],
  ].flat();
}
