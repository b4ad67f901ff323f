/** Which commands the audit records: all that change something in a data folder. */
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/program.js'
import { isRecorded } from '../../src/cli/recording.js'
import t from 'tap'

/** Commands that change nothing in the database of an installation, or replace it as a whole. */
const others = /^(?:[\w-]+ (?:list|show|get|failures)|tidegate \w+|store copy|import \w+)$/

function leaves(command: Command): readonly string[] {
  if (command.commands.length > 0) return command.commands.flatMap(leaves)
  return [`${command.parent?.name() ?? ''} ${command.name()}`]
}

void t.test('every command that changes something is recorded', (t) => {
  const all = leaves(createProgram())
  t.ok(all.length > 40)
  for (const words of all) t.equal(isRecorded(words), !others.test(words), words)
  t.end()
})
