/** Access of the command line to the data folder. A running daemon shares its database and notices every change. */
import { access } from 'node:fs/promises'
import { Option, type Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import { protocols } from '../../protocols/index.js'
import { Accounts } from '../accounts/accounts.js'
import { sharedLimiters } from '../accounts/limiter.js'
import { GatewayError } from '../base/errors.js'
import { backupBeforeUpgrade } from '../installation/backup.js'
import {
  listenAddresses,
  loadConfig,
  storeLocation,
  variableOf,
  type Config,
  type ConfigFlags,
} from '../installation/config.js'
import { thisInstance } from '../installation/instance.js'
import { settingDefinitions } from '../settings/settings-table.js'
import { Settings } from '../settings/settings.js'
import type { Store } from '../database/tables.js'
import { isPostgresUrl } from '../database/store-url.js'
import { openStore, type BeforeUpgrade } from '../database/store.js'
import { recorded } from './recording.js'

export interface CommonFlags extends ConfigFlags {
  readonly json?: boolean
}

/** The settings of a daemon of this program. */
export const knownSettings = settingDefinitions(protocols, driverTypes)

export interface DataFolder {
  readonly config: Config
  readonly store: Store
  readonly settings: Settings
  readonly accounts: Accounts
}

/** Adds the options for the location of the data. */
export function withDataOptions(command: Command): Command {
  return command
    .option('--data <dir>', 'data folder (TIDEGATE_DATA)')
    .option('--config <file>', 'configuration file (TIDEGATE_CONFIG)')
    .option('--store <url>', 'PostgreSQL database instead of an SQLite file in the data folder (TIDEGATE_STORE)')
}

/** Adds the options for the addresses of the protocols. */
export function withAddressOptions(command: Command): Command {
  for (const [name, { description }] of listenAddresses(protocols)) {
    command.option(`--${name} <host:port>`, `${description} (${variableOf(name)})`)
  }
  return command
}

/** Adds the options of every command on the data folder. */
export function withCommonOptions(command: Command): Command {
  return withDataOptions(command).addOption(new Option('--json', 'print JSON for programs'))
}

/**
 * Returns the location of the database, for `openStore`. Rejects with `not_found` if the file does not exist, because
 * only the daemon creates it, and with `denied` if this user may not look it up.
 */
export async function databaseOf(config: Pick<Config, 'data' | 'store'>): Promise<string> {
  const location = storeLocation(config)
  if (isPostgresUrl(location)) return location
  try {
    await access(location)
    return location
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') {
      const reason = `no permission to read ${config.data}: run this as the user of the daemon`
      throw new GatewayError('denied', { reason, cause: error })
    }
    throw new GatewayError('not_found', {
      reason: `there is no database in ${config.data}: name the data folder with --data, or the database with --store or --config, as for the daemon; or run "tidegate serve" once`,
      cause: error,
    })
  }
}

/** The configuration by a command's flags and the environment. */
export function configOf(flags: ConfigFlags): Promise<Config> {
  return loadConfig({ flags, environment: process.env, protocols })
}

/**
 * Opens the database of an existing installation, as the daemon would unless `beforeUpgrade` says otherwise. Rejects as
 * `databaseOf` and `openStore`.
 */
export async function openData(
  config: Config,
  beforeUpgrade: BeforeUpgrade = backupBeforeUpgrade(config),
): Promise<Store> {
  return openStore(await databaseOf(config), { runs: thisInstance().runs, beforeUpgrade })
}

/** Opens the data folder, calls `work`, and closes it. */
export async function inDataFolder<T>(flags: CommonFlags, work: (folder: DataFolder) => Promise<T>): Promise<T> {
  const config = await configOf(flags)
  const store = await openData(config)
  try {
    return await withAccounts(config, store, (folder) => recorded(flags, folder, () => work(folder)))
  } finally {
    await store.close()
  }
}

/** Runs `work` with the accounts and settings of a database that the caller has opened. It stays open. */
export async function withAccounts<T>(
  config: Config,
  store: Store,
  work: (folder: DataFolder) => Promise<T>,
): Promise<T> {
  const settings = await Settings.open(store, knownSettings)
  // No command signs in: what is refused now is known to the processes that share the database.
  const cluster = {
    assertCurrent: () => undefined,
    ofOthers: () => undefined,
    limiters: sharedLimiters(store.signIns),
  }
  const accounts = await Accounts.open({ store, settings, tokenHours: config.token_hours, cluster })
  try {
    return await work({ config, store, settings, accounts })
  } finally {
    await accounts.close()
    settings.close()
  }
}
