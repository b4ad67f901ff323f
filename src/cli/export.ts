/** What `tidegate export` writes: the configuration that is in the database, as plain JSON. */
import { driverTypes } from '../../drivers/index.js'
import { version } from '../contract/version.js'
import { secretSettings, settingsTable } from '../settings/settings-table.js'
import { parseAddition } from '../storage/fields.js'
import type { FolderRule, StorageRow, UserRow } from '../store/rows.js'
import { withoutPassword } from '../store/store-url.js'
import type { Store } from '../store/tables.js'
import { describe } from './users.js'

/**
 * Users, storages, folder rules and stored settings. Without secrets, these are left out: hashes of passwords, secrets of two-step verification,
 * passwords of folders, secret settings, options of drivers that are declared secret, options and settings that this program does not know, and
 * passwords in URLs.
 */
export async function exportOf(
  { users, storages, rules, settings }: Pick<Store, 'users' | 'storages' | 'rules' | 'settings'>,
  withSecrets: boolean,
): Promise<object> {
  return {
    program: version,
    users: (await users.all()).map((user) => userOf(user, withSecrets)),
    storages: (await storages.all()).map((storage) => storageOf(storage, withSecrets)),
    rules: (await rules.all()).map((rule) => ruleOf(rule, withSecrets)),
    settings: settingsOf(await settings.all(), withSecrets),
  }
}

function userOf(user: UserRow, withSecrets: boolean): object {
  const secrets = { password_hash: user.passwordHash, otp_secret: user.otpSecret }
  return { ...describe(user), sso_id: user.ssoId, ...(withSecrets && secrets) }
}

function storageOf({ addition, ...row }: StorageRow, withSecrets: boolean): object {
  const options = optionsOf(addition)
  const fields = driverTypes.find(({ name }) => name === row.driver)?.fields ?? {}
  const shown = Object.entries(options ?? {})
    .filter(([name]) => Object.hasOwn(fields, name) && fields[name]?.secret !== true)
    .map(([name, value]) => [name, typeof value === 'string' ? withoutPassword(value) : value] as const)
  return { ...snakeCase(row), addition: withSecrets ? (options ?? addition) : Object.fromEntries(shown) }
}

/** Undefined if the text is not valid, or so deep that it cannot be written. */
function optionsOf(addition: string): Record<string, unknown> | undefined {
  try {
    const options = parseAddition(addition)
    JSON.stringify(options)
    return options
  } catch {
    return undefined
  }
}

function ruleOf({ password, ...rule }: FolderRule, withSecrets: boolean): object {
  return { ...snakeCase(rule), has_password: password !== '', ...(withSecrets && { password }) }
}

function settingsOf(stored: ReadonlyMap<string, string>, withSecrets: boolean): object {
  const known = new Set(settingsTable.map(({ key }) => key))
  const shown = [...stored].filter(([key]) => known.has(key) && !secretSettings.has(key))
  return Object.fromEntries(withSecrets ? stored : shown.map(([key, value]) => [key, withoutPassword(value)]))
}

/** The row with the names of the API. */
function snakeCase(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
}
