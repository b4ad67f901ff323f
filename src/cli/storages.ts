/** `tidegate storage …` */
import { setTimeout } from 'node:timers/promises'
import type { Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { GatewayError, undefinedIfMissing } from '../base/errors.js'
import { lockHolderOf } from '../installation/data-folder.js'
import { insertStorage } from '../mounts/storage-admin.js'
import { checkOptions, isMandatory, parseAddition } from '../mounts/fields.js'
import { storedStateOf, storedStatus } from '../mounts/mounts.js'
import { newStorage } from '../database/new-storage.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { Store } from '../database/tables.js'
import { checkStorage } from './check.js'
import { inDataFolder, withCommonOptions, type CommonFlags, type DataFolder } from './data-folder.js'
import { readInput } from '../installation/input.js'
import { formatTable, print } from './output.js'
import { treePath } from './tree-path.js'

interface OptionFlags extends CommonFlags {
  readonly option: readonly string[]
  readonly optionsFile?: string
  readonly remark?: string
}

export function addStorageCommands(program: Command): void {
  const storage = program.command('storage').description('storages: add, edit, enable, disable, list, rm')

  withOptions(storage.command('add <mount-path> <driver>'))
    .description('mount a storage; a running daemon starts it immediately; exits with status 1 if it does not work')
    .action(async (mountPath: string, driver: string, flags: OptionFlags) => {
      const type = typeOf(driver)
      const addition = checkOptions(type.fields, await optionsOf(type, flags))
      const configuration = newStorage({ mountPath: treePath(mountPath), driver, addition: JSON.stringify(addition) })
      await inDataFolder(flags, async (folder) => {
        const { store } = folder
        const { id } = await insertStorage({ ...configuration, remark: flags.remark ?? '' }, { store, driverTypes })
        await printStarted(id, 'is added', flags, folder)
      })
    })

  withOptions(storage.command('edit <storage>'))
    .description(
      'change the options or the note of a storage by its id or mount path, and leave the rest; a running daemon starts ' +
        'it again; exits with status 1 if it does not work',
    )
    .action((idOrPath: string, flags: OptionFlags) =>
      inDataFolder(flags, async (folder) => {
        const { store } = folder
        const row = await findStorage(store, idOrPath)
        const type = typeOf(row.driver)
        const options = { ...parseAddition(row.addition), ...(await optionsOf(type, flags)) }
        const addition = { ...options, ...checkOptions(type.fields, options) }
        await store.storages.update(row.id, {
          ...(flags.remark !== undefined && { remark: flags.remark }),
          addition: JSON.stringify(addition),
          status: row.disabled ? row.status : storedStatus.starting,
          modified: new Date(),
        })
        if (row.disabled)
          print(flags, describe(await rowOf(store, row.id)), `${row.mountPath} is changed, and is disabled`)
        else await printStarted(row.id, 'is changed', flags, folder)
      }),
    )

  withCommonOptions(storage.command('enable <storage>'))
    .description('start a storage by its id or mount path; exits with status 1 if it does not work')
    .action((idOrPath: string, flags: CommonFlags) =>
      inDataFolder(flags, async (folder) => {
        const { id } = await findStorage(folder.store, idOrPath)
        await folder.store.storages.update(id, {
          disabled: false,
          status: storedStatus.starting,
          // Also an enabled one starts again.
          modified: new Date(),
        })
        await printStarted(id, 'is enabled', flags, folder)
      }),
    )

  withCommonOptions(storage.command('disable <storage>'))
    .description('stop a storage by its id or mount path; its transfers end')
    .action((idOrPath: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ store }) => {
        const { id } = await findStorage(store, idOrPath)
        const row = await store.storages.update(id, { disabled: true, status: storedStatus.disabled })
        print(flags, describe(row), `${row.mountPath} is disabled`)
      }),
    )

  withCommonOptions(storage.command('list'))
    .description('list storages with their last known status')
    .action((flags: CommonFlags) =>
      inDataFolder(flags, async ({ store }) => {
        const storages = (await store.storages.all()).map(describe)
        const rows = storages.map((each) => [each.id, each.mount_path, each.driver, each.status || 'not started yet'])
        print(flags, storages, formatTable(['id', 'mount path', 'driver', 'status'], rows))
      }),
    )

  withCommonOptions(storage.command('rm <storage>'))
    .description('remove a storage from the tree by its id or mount path; its files are not deleted')
    .action((idOrPath: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ config, store }) => {
        const row = await findStorage(store, idOrPath)
        if ((await lockHolderOf(config.data)) === undefined) await store.storages.delete(row.id)
        else await deletedByDaemon(store, row)
        print(flags, describe(row), `${row.mountPath} is removed from the tree`)
      }),
    )
}

/** Adds the options for what a storage is configured with. */
function withOptions(command: Command): Command {
  return withCommonOptions(command)
    .option(
      '-o, --option <name=value>',
      'an option of the driver; may be repeated',
      (option: string, others: readonly string[]) => [...others, option],
      [],
    )
    .option(
      '--options-file <file>',
      'file with a JSON object of options, or "-" for standard input; for passwords and keys',
    )
    .option('--remark <text>', 'a note')
    .addHelpText('after', `\nDrivers and their options (* required):\n${driverTypes.map(helpFor).join('\n')}`)
}

function typeOf(driver: string): AnyDriverType {
  const type = driverTypes.find((each) => each.name === driver)
  if (type) return type
  const names = driverTypes.map((each) => each.name).join(', ')
  throw new GatewayError('invalid', { reason: `there is no driver ${driver}; there are: ${names}` })
}

async function findStorage(store: Store, idOrPath: string): Promise<StorageRow> {
  const row = (await store.storages.all()).find((each) => String(each.id) === idOrPath || each.mountPath === idOrPath)
  if (row === undefined) throw new GatewayError('not_found', { reason: `there is no storage ${idOrPath}` })
  return row
}

/** Prints what was `done`, and whether the storage works. Rejects with `unavailable` if it does not. */
async function printStarted(
  id: number,
  done: string,
  flags: CommonFlags,
  { config, store }: DataFolder,
): Promise<void> {
  const isServed = (await lockHolderOf(config.data)) !== undefined
  const row = await (isServed ? startedRow(store, id) : checkedRow(id, { config, store }))
  const state = storedStateOf(row)
  if (state === 'failed') {
    if (flags.json === true) print(flags, describe(row), '')
    const reason = `${row.mountPath} ${done}, with the id ${id}, but does not work: ${row.status}`
    throw new GatewayError('unavailable', { reason })
  }
  const outcome = state === 'working' ? 'and works' : isServed ? 'and still starting' : 'and starts with the daemon'
  print(flags, describe(row), `${row.mountPath} ${done} ${outcome}`)
}

/** Milliseconds for which a command waits for the daemon to start or delete a storage. */
const daemonTimeout = 15_000
/** Milliseconds between two polls. */
const pollInterval = 100

/** Waits until the daemon has stored a status. Resolves to the row without one after the timeout. */
async function startedRow(store: Store, id: number): Promise<StorageRow> {
  for (let waited = 0; ; waited += pollInterval) {
    const row = await rowOf(store, id)
    if (storedStateOf(row) !== 'starting' || waited >= daemonTimeout) return row
    await setTimeout(pollInterval)
  }
}

/**
 * Waits until the daemon has deleted the storage, with what half-sent uploads have left on its backend. Rejects after
 * the timeout.
 */
async function deletedByDaemon(store: Store, { id, mountPath }: StorageRow): Promise<void> {
  for (let waited = 0; waited < daemonTimeout; waited += pollInterval) {
    const row = (await store.storages.all()).find((each) => each.id === id)
    if (row === undefined) return
    // Again where the daemon has stored another status.
    if (row.status !== storedStatus.removing) {
      await undefinedIfMissing(store.storages.update(id, { status: storedStatus.removing }))
    }
    await setTimeout(pollInterval)
  }
  throw new GatewayError('unavailable', {
    reason: `the daemon has not removed ${mountPath} within ${daemonTimeout / 1000} s`,
  })
}

/** Without a daemon: checks the storage, and returns the row with the error as its status. */
async function checkedRow(id: number, { config, store }: Pick<DataFolder, 'config' | 'store'>): Promise<StorageRow> {
  const finding = await checkStorage(id, { config, store })
  const row = await rowOf(store, id)
  return finding?.ok === false ? { ...row, status: finding.detail } : row
}

async function rowOf(store: Store, id: number): Promise<StorageRow> {
  const row = (await store.storages.all()).find((each) => each.id === id)
  if (row === undefined) throw new GatewayError('not_found', { reason: 'the storage was removed meanwhile' })
  return row
}

/** The options of the file, overridden by those of the command line. */
async function optionsOf(type: AnyDriverType, { option, optionsFile }: OptionFlags): Promise<Record<string, unknown>> {
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
    // Reported below without the parser's message, which may contain a password.
  }
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return options
  throw new GatewayError('invalid', { reason: `${file} does not hold a JSON object` })
}

function helpFor(type: AnyDriverType): string {
  const fields = Object.entries(type.fields).map(([name, field]) => (isMandatory(field) ? `${name}*` : name))
  return `  ${type.name}: ${fields.join(', ') || '(no options)'}`
}

/** The printed fields of a storage. The driver's options are omitted because they may contain secrets. */
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
