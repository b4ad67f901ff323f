/** Generates docs/settings.md from the table of settings and from the sources that read them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import { driverTypes } from '../../drivers/index.js'
import { protocols } from '../../protocols/index.js'
import { settingDefinitions, type SettingDefinition, type SettingGroup } from '../../src/settings/settings-table.js'

export const settingsPagePath = 'docs/settings.md'

export const allSettings = settingDefinitions(protocols, driverTypes)

const introduction = `# Settings

What an admin changes at run time, as opposed to the [configuration](configuration.md) that is read at start. Values are
stored in the database; where none is stored, the default holds. Names and defaults are those of the AList / OpenList API, so that
clients written for it find them; many belong to parts that this version does not have.

The last column says what a value does today:

- **in force**: the daemon or its console reads it.
- **returned to clients**: \`/api/public/settings\` returns it to every client, which may use it. It has no effect on the daemon.
- **stored, no effect yet**: the daemon stores it for a part that this version does not have.

This page is made from the source: \`npm run docs\` writes it, and a test fails while it is out of date.
`

/** Notes on a group that do not fit into the table. */
const notes: Partial<Record<SettingGroup, string>> = {
  index: `\`database\` and \`database_non_full_text\` are one and the same here: an index that finds any part of a name. \`bleve\` and
\`meilisearch\` are not part of this server: they are rejected, and the previous value stays in force. The index is preserved while search is off, and
is updated from the tree when search is on again. A path in \`ignore_paths\` is removed from the index immediately; a path that is no longer ignored is added by the
next build or update. Changes through the gateway are always indexed, also at the
paths at which \`Alias\` and \`Crypt\` storages show the same files. Two storages over one backend, such as two \`Local\` storages whose folders overlap, do not know of each other: a change
through one of them is one by another program for the other. With \`auto_update_index\`, changes by other programs in a folder are indexed when the
folder is listed from the backend.`,
}

type Effect = 'in force' | 'returned to clients' | 'stored, no effect yet'

/**
 * The TypeScript sources that may read a setting, each as its text. Drivers may not: they know settings of other
 * gateways.
 */
export function sources(): string[] {
  return ['src', 'protocols', 'web'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name))
      .map((name) => readFileSync(join(folder, name), 'utf8'))
      .filter((text) => /\bsettings?\b/i.test(text)),
  )
}

/**
 * A key counts as read where it is a string literal of its own, or a property of `settings` or `singleSignOn`, as in
 * the console; the size of a queue counts where work of its kind exists.
 */
export function isRead(key: string, texts: readonly string[]): boolean {
  const [, kind] = /^(.*)_task_threads_num$/.exec(key) ?? []
  const sign =
    kind === undefined ? `'${key}'|\\b(?:settings|singleSignOn)\\??\\.${key}\\b` : `\\.register\\('${kind}', `
  const pattern = new RegExp(sign)
  return texts.some((text) => pattern.test(text))
}

function effectOf({ flag, inForce }: SettingDefinition): Effect {
  if (inForce) return 'in force'
  return flag === 'public' || flag === 'readonly' ? 'returned to clients' : 'stored, no effect yet'
}

function defaultCell(value: string): string {
  if (value === '') return 'empty'
  const line = value.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
  return `\`${line.length > 60 ? `${line.slice(0, 57)}…` : line}\``
}

function helpCell(help: string): string {
  return help.replaceAll('|', '\\|').replaceAll('<', '&lt;')
}

function typeCell({ type, options }: SettingDefinition): string {
  return type === 'select' ? options.map((option) => `\`${option}\``).join(', ') : type
}

/** The whole page, formatted. Reads the sources below the working directory. */
export async function settingsPage(): Promise<string> {
  const groups = [...new Set(allSettings.map(({ group }) => group))]
  const parts = groups.map((group) => {
    const rows = allSettings
      .filter((each) => each.group === group)
      .map((each) => {
        const value = [typeCell(each), defaultCell(each.default), each.flag, effectOf(each)]
        const cells = [`\`${each.key}\``, helpCell(each.help), ...value]
        return `| ${cells.join(' | ')} |`
      })
    const note = notes[group]
    return [
      `\n## ${group}\n`,
      ...(note === undefined ? [] : [`${note}\n`]),
      // Padded to the longest text, no row would be readable.
      '<!-- prettier-ignore -->',
      '| key | meaning | type | default | who sees it | effect |',
      '| --- | --- | --- | --- | --- | --- |',
      ...rows,
    ].join('\n')
  })
  const options = await resolveConfig(settingsPagePath)
  return format(`${introduction}${parts.join('\n')}\n`, { ...options, filepath: settingsPagePath })
}
