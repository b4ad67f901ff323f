/** `tidegate storage …` */
import { setTimeout } from 'node:timers/promises'
import type { Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import { holderOf } from '../data-folder.js'
import type { AnyDriverType } from '../driver.js'
import { GatewayError } from '../errors.js'
import { checkOptions, mustBeGiven } from '../fields.js'
import { cleanPath } from '../path.js'
import { storeNew } from '../storages.js'
import { newStorage } from '../store/new-storage.js'
import type { StorageRow, Store } from '../store/rows.js'
import { checkStorage } from './check.js'
import { inDataFolder, withCommonOptions, type CommonFlags, type DataFolder } from './data-folder.js'
import { readInput } from './input.js'
import { formatTable, print } from './output.js'

interface AddFlags extends CommonFlags {
  readonly option: readonly string[]
  readonly optionsFile?: string
  readonly remark: string
}

export function addStorageCommands(program: Command): void {
  const storage = program.command('storage').description('storages: add, list, rm')

  withCommonOptions(storage.command('add <mount-path> <driver>'))
    .description('mount a storage; a running daemon starts it at once; status 1 where it does not work')
    .option(
      '-o, --option <name=value>',
      'an option of the driver; may be given several times',
      (option: string, others: readonly string[]) => [...others, option],
      [],
    )
    .option(
      '--options-file <file>',
      'more of them as a JSON object, from standard input with -: for passwords and keys',
    )
    .option('--remark <text>', 'a note for people', '')
    .addHelpText('after', `\nDrivers and their options (* must be given):\n${driverTypes.map(helpFor).join('\n')}`)
    .action(async (mountPath: string, driver: string, flags: AddFlags) => {
      const type = driverTypes.find((each) => each.name === driver)
      if (type === undefined) {
        const known = driverTypes.map((each) => each.name).join(', ')
        throw new GatewayError('invalid', { reason: `there is no driver ${driver}; there are: ${known}` })
      }
      const addition = checkOptions(type.fields, await optionsOf(type, flags))
      const wanted = newStorage({ mountPath: cleanPath(mountPath), driver, addition: JSON.stringify(addition) })
      await inDataFolder(flags, async ({ config, store }) => {
        const { id } = await storeNew({ ...wanted, remark: flags.remark }, { store, driverTypes })
        const isServed = (await holderOf(config.data)) !== undefined
        const row = await (isServed ? settled(store, id) : tried(id, { config, store }))
        if (!['work', ''].includes(row.status)) {
          if (flags.json === true) print(flags, describe(row), '')
          const reason = `${row.mountPath} is added, with the id ${id}, but does not work: ${row.status}`
          throw new GatewayError('unavailable', { reason })
        }
        const state =
          row.status === 'work' ? 'and works' : isServed ? 'and still starting' : 'and starts with the daemon'
        print(flags, describe(row), `${row.mountPath} is added ${state}`)
      })
    })

  withCommonOptions(storage.command('list'))
    .description('list storages, with what the daemon last said of each')
    .action((flags: CommonFlags) =>
      inDataFolder(flags, async ({ store }) => {
        const storages = (await store.storages.all()).map(describe)
        const rows = storages.map((each) => [each.id, each.mount_path, each.driver, each.status || 'not started yet'])
        print(flags, storages, formatTable(['id', 'mount path', 'driver', 'status'], rows))
      }),
    )

  withCommonOptions(storage.command('rm <storage>'))
    .description('take a storage, by its id or mount path, out of the tree; what it stores stays')
    .action((which: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ store }) => {
        const row = (await store.storages.all()).find((each) => String(each.id) === which || each.mountPath === which)
        if (row === undefined) throw new GatewayError('not_found', { reason: `there is no storage ${which}` })
        await store.storages.delete(row.id)
        print(flags, describe(row), `${row.mountPath} is removed from the tree`)
      }),
    )
}

/** Milliseconds that a storage may take to start, as far as whoever adds it waits; looks are this far apart. */
const patience = 15_000
const interval = 100

/** The row once the daemon has said how the storage does; as it is, where that takes too long. */
async function settled(store: Store, id: number): Promise<StorageRow> {
  for (let waited = 0; ; waited += interval) {
    const row = await rowOf(store, id)
    if (row.status !== '' || waited >= patience) return row
    await setTimeout(interval)
  }
}

/** Without a daemon: the row with the status that a daemon would give it now, as far as that can be found out. */
async function tried(id: number, { config, store }: Pick<DataFolder, 'config' | 'store'>): Promise<StorageRow> {
  const found = await checkStorage(id, { config, store })
  const row = await rowOf(store, id)
  return found?.ok === false ? { ...row, status: found.detail } : row
}

async function rowOf(store: Store, id: number): Promise<StorageRow> {
  const row = (await store.storages.all()).find((each) => each.id === id)
  if (row === undefined) throw new GatewayError('not_found', { reason: 'the storage was removed meanwhile' })
  return row
}

/** Those of the file, and over them those of the command line. */
async function optionsOf(type: AnyDriverType, { option, optionsFile }: AddFlags): Promise<Record<string, unknown>> {
  const pairs = option.map((each) => {
    const equals = each.indexOf('=')
    return equals < 0 ? ([each, undefined] as const) : ([each.slice(0, equals), each.slice(equals + 1)] as const)
  })
  const options = { ...(optionsFile !== undefined && (await readOptions(optionsFile))), ...Object.fromEntries(pairs) }
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || !Object.hasOwn(type.fields, name)) {
      throw new GatewayError('invalid', {
        reason: `${type.name} has no option "${name}"; write name=value, with one of: ${Object.keys(type.fields).join(', ')}`,
      })
    }
  }
  return options
}

async function readOptions(file: string): Promise<object> {
  const content = await readInput(file, 'options file')
  let options: unknown
  try {
    options = JSON.parse(content)
  } catch {
    // Told below, without what it says: there may be a password in it.
  }
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return options
  throw new GatewayError('invalid', { reason: `${file} does not hold a JSON object` })
}

function helpFor(type: AnyDriverType): string {
  const fields = Object.entries(type.fields).map(([name, field]) => (mustBeGiven(field) ? `${name}*` : name))
  return `  ${type.name}: ${fields.join(', ') || '(no options)'}`
}

/** Without the driver's options: they may hold secrets. */
function describe(row: StorageRow) {
  return {
    id: row.id,
    mount_path: row.mountPath,
    driver: row.driver,
    status: row.status,
    disabled: row.disabled,
    remark: row.remark,
  }
}
