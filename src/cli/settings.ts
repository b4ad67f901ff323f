/** `tidegate setting …` */
import type { Command } from 'commander'
import { GatewayError } from '../base/errors.js'
import type { Settings } from '../settings/settings.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { readInput } from '../installation/input.js'
import { formatTable, print } from './output.js'

export function addSettingCommands(program: Command): void {
  const setting = program.command('setting').description('settings that apply at run time: get, list, set')

  withCommonOptions(setting.command('get <key>'))
    .description('print the value of a setting')
    .action((key: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ settings }) => {
        const { value } = rowOf(settings, key)
        print(flags, { key, value }, value)
      }),
    )

  withCommonOptions(setting.command('list [text]'))
    .description('list the settings whose key or description contains the text, without the permanent token')
    .action((text = '', flags: CommonFlags) =>
      inDataFolder(flags, async ({ settings }) => {
        const wanted = (text as string).toLowerCase()
        const rows = settings
          .rows()
          .filter(({ key, help }) => key !== 'token' && `${key} ${help}`.toLowerCase().includes(wanted))
        const shown = rows.map(({ key, value, help, inForce }) => ({ key, value, help, in_force: inForce }))
        const cells = rows.map(({ key, value, help }) => [key, shortened(value), help])
        print(flags, shown, formatTable(['key', 'value', 'meaning'], cells))
      }),
    )

  withCommonOptions(setting.command('set <key> <value>'))
    .description('set a setting; "-" as the value: from standard input; an empty value: the default of most settings')
    .action((key: string, word: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ settings }) => {
        const row = rowOf(settings, key)
        if (row.flag === 'readonly') throw new GatewayError('invalid', { reason: `${key} cannot be changed` })
        await settings.set(
          new Map([[key, word === '-' ? (await readInput('-', 'value')).replace(/\r?\n$/, '') : word]]),
        )
        const note = row.inForce ? '' : ', and has no effect in this version'
        print(flags, { key, value: settings.get(key) }, `${key} is set${note}`)
      }),
    )
}

/** Throws `not_found` for a key that is neither known nor stored. */
function rowOf(settings: Settings, key: string) {
  const row = settings.rows().find((each) => each.key === key)
  if (row === undefined) {
    throw new GatewayError('not_found', { reason: `there is no setting ${key}: see "tidegate setting list"` })
  }
  return row
}

/** One line that fits into a table. */
function shortened(value: string): string {
  const [line = ''] = value.split('\n')
  return line.length < value.length || line.length > 40 ? `${line.slice(0, 40)}…` : line
}
