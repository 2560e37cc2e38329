/** Prints a redirection for people and for `iptables-restore`: the output of `--dry-run` and `--restore-format`. */
import { addJump, FAMILIES, FOOTPRINT, TABLES } from './footprint.ts';
import { inboundSourceAddress, routeCommand, ruleCommand } from './routing.ts';
import { redirectionRules } from './rules.ts';
import { applyTransaction, NO_RULES } from './transaction.ts';
import type { Family, Redirection } from './types.ts';

/** Shell commands, one per line, in the order for a host without rules of meshd. */
export function printCommands(families: readonly Family[], wanted: Redirection): string {
  const lines = families.flatMap((family) => [
    ...networkCommands(family, wanted),
    ...redirectionRules(family, wanted).flatMap(({ table, chains, jumps }) => {
      const iptables = `${FAMILIES[family].iptables} -t ${table}`;
      return [
        ...chains.map(({ name }) => `${iptables} -N ${name}`),
        ...chains.flatMap(({ name, rules }) => rules.map((rule) => `${iptables} -A ${name} ${rule}`)),
        ...jumps.map((jump) => `${iptables} ${addJump(jump)}`),
      ];
    }),
  ]);
  return `${lines.join('\n')}\n`;
}

/**
 * Input for `iptables-restore --noflush`, a part for each address family; commands that it does not support are
 * comments.
 */
export function printRestoreFormat(families: readonly Family[], wanted: Redirection): string {
  return families
    .map((family) => {
      const heads = [
        `# ${FAMILIES[family].restore} --noflush`,
        ...networkCommands(family, wanted).map((each) => `# ${each}`),
      ];
      const tables = redirectionRules(family, wanted).map((rules) => applyTransaction(rules, NO_RULES));
      return `${heads.join('\n')}\n${tables.join('')}`;
    })
    .join('');
}

/** The shell commands of cleaning, one per line; those that find nothing to remove have no effect. */
export function printCleanCommands(families: readonly Family[]): string {
  const lines = families.flatMap((family) =>
    TABLES.flatMap((table) => {
      const iptables = `${FAMILIES[family].iptables} -t ${table}`;
      const { chains, jumps } = FOOTPRINT[table];
      return [
        ...jumps.map((jump) => `${iptables} -D ${jump}`),
        ...chains.map((name) => `${iptables} -F ${name}`),
        ...chains.map((name) => `${iptables} -X ${name}`),
      ];
    }),
  );
  return `${lines.join('\n')}\n`;
}

function networkCommands(family: Family, { interception }: Redirection): readonly string[] {
  const commands = family === 'ipv6' ? [inboundSourceAddress('replace')] : [];
  if (interception.mode === 'TPROXY') {
    const route = { mark: interception.mark, table: interception.routeTable };
    commands.push(ruleCommand(family, 'add', route), routeCommand(family, 'replace', route));
  }
  return commands.map((words) => `ip ${words.join(' ')}`);
}
