/** Log levels of each scope, changed while the program runs. */
import { useState } from 'preact/hooks';
import { put, useJson } from '../api.ts';
import { Source, Table, Waiting } from '../parts/basics.tsx';

const LEVELS = ['debug', 'info', 'warn', 'error', 'fatal', 'none'] as const;

interface Settings {
  readonly output_level: string;
  readonly stack_trace_level: string;
  readonly log_callers: boolean;
}

interface Scope extends Settings {
  readonly name: string;
  readonly default: Settings;
}

function isDefault({ default: usual, ...now }: Scope): boolean {
  return (
    now.output_level === usual.output_level &&
    now.stack_trace_level === usual.stack_trace_level &&
    now.log_callers === usual.log_callers
  );
}

function Levels(props: { label: string; value: string; set: (level: string) => void }) {
  return (
    <select
      aria-label={props.label}
      value={props.value}
      onChange={({ currentTarget }) => props.set(currentTarget.value)}
    >
      {LEVELS.map((level) => (
        <option key={level} value={level}>
          {level}
        </option>
      ))}
    </select>
  );
}

function Row({ scope, change }: { scope: Scope; change: (change: Partial<Settings>) => void }) {
  const { name } = scope;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        <Levels
          label={`Level of ${name}`}
          value={scope.output_level}
          set={(level) => change({ output_level: level })}
        />
      </td>
      <td>
        <Levels
          label={`Stack traces of ${name}`}
          value={scope.stack_trace_level}
          set={(level) => change({ stack_trace_level: level })}
        />
      </td>
      <td>
        <input
          type="checkbox"
          aria-label={`Callers of ${name}`}
          checked={scope.log_callers}
          onChange={({ currentTarget }) => change({ log_callers: currentTarget.checked })}
        />
      </td>
      <td>
        {!isDefault(scope) && (
          <button type="button" class="small" onClick={() => change(scope.default)}>
            Back to {scope.default.output_level}
            <span class="unseen"> for {name}</span>
          </button>
        )}
      </td>
    </tr>
  );
}

export function LogsView() {
  const loaded = useJson<readonly Scope[]>('/scopej');
  const [problem, setProblem] = useState('');
  const change = async (changes: readonly (readonly [string, Partial<Settings>])[]): Promise<void> => {
    try {
      for (const [name, settings] of changes) await put(`/scopej/${name}`, settings);
      setProblem('');
    } catch (error) {
      setProblem(String(error));
    }
    loaded.reload();
  };
  const scopes = loaded.data ?? [];
  const changed = scopes.filter((scope) => !isDefault(scope));
  return (
    <>
      <h1>Log levels</h1>
      <p class="empty">
        Changes are in force at once and until the program ends. The flag --log_output_level sets what is the default.
      </p>
      <Waiting of={loaded} />
      {problem !== '' && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {scopes.length > 0 && (
        <>
          <Table label="Log scopes" columns={['Scope', 'Level', 'Stack traces from', 'Callers', 'Default']}>
            {scopes.map((scope) => (
              <Row key={scope.name} scope={scope} change={(settings) => void change([[scope.name, settings]])} />
            ))}
          </Table>
          <p>
            <button
              type="button"
              disabled={changed.length === 0}
              onClick={() => void change(changed.map((scope) => [scope.name, scope.default]))}
            >
              All back to default
            </button>
          </p>
        </>
      )}
      <Source paths={['/scopej']} />
    </>
  );
}
