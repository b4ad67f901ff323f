/** Which commands the audit records: all that change something in a data folder. */
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/program.js'
import { recordedCommands } from '../../src/cli/recording.js'
import t from 'tap'

const onlyShows = 'it only shows something'

/** Why the audit does not record these commands. */
const reasons: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['user', 'group', 'grant', 'share', 'key', 'storage', 'setting', 'webhook', 'sign-ins'].map((subject) => [
      `${subject} list`,
      onlyShows,
    ]),
  ),
  'share show': onlyShows,
  'setting get': onlyShows,
  'webhook failures': onlyShows,
  'tidegate explain': onlyShows,
  'tidegate check': onlyShows,
  'tidegate doctor': onlyShows,
  'tidegate nodes': onlyShows,
  'tidegate audit': onlyShows,
  'tidegate export': onlyShows,
  'tidegate backup': 'it changes nothing in the installation',
  'tidegate serve': 'it is the daemon, which records what is asked of it',
  'store copy': 'it changes nothing in the one database, and the other one gets the audit of that',
}

function leaves(command: Command): readonly string[] {
  if (command.commands.length > 0) return command.commands.flatMap(leaves)
  return [`${command.parent?.name() ?? ''} ${command.name()}`]
}

void t.test('every command is recorded, or there is a reason not to', (t) => {
  const all = leaves(createProgram())
  t.ok(all.length > 40)
  for (const words of all) t.not(recordedCommands.includes(words), words in reasons, words)
  const told = [...recordedCommands, ...Object.keys(reasons)]
  t.same(
    told.filter((words) => !all.includes(words)),
    [],
    'all of these are commands',
  )
  t.end()
})
