/**
 * Checks the contents of the database: accounts, settings, host keys, and the folders of this machine that storages
 * show.
 */
import { lstat, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { driverTypes } from '../../../drivers/index.js'
import type { Accounts } from '../../accounts/accounts.js'
import { isGatewayError } from '../../base/errors.js'
import { childOf, root, topNames, within, type Path } from '../../base/path.js'
import type { Config } from '../../installation/config.js'
import type { Settings } from '../../settings/settings.js'
import { shownElsewhere } from '../../tree/denied-elsewhere.js'
import { Grants } from '../../tree/grants.js'
import type { StorageRow } from '../../database/tables/storages.js'
import type { Store } from '../../database/tables.js'
import type { DataFolder } from '../data-folder.js'
import { commandLine, reasonOf, shellWord, wrong, type Finding } from '../finding.js'
import { localFolderOf } from '../local-files.js'
import { mayRead } from './owner.js'
import { signInFindings } from './sign-in.js'

/** The findings on the content of the database. Changes nothing. */
export async function contentFindings({ config, store, settings, accounts }: DataFolder): Promise<readonly Finding[]> {
  const storages = await store.storages.all()
  return [
    adminFinding(config, accounts),
    ...settingFindings(config, settings),
    ...(await signInFindings(config, settings)),
    await temporaryFolderFinding(settings),
    await hostKeysFinding(config, store.secrets),
    proxyFinding(config),
    ...(await localFindings(config, storages)),
    await topNamesFinding(config, accounts, storages),
    ...grantFindings(config, accounts, await Grants.load(store), storages),
  ]
}

function adminFinding(config: Config, accounts: Accounts): Finding {
  const admin = accounts.users.byUniqueRole('admin')
  if (admin === undefined) return wrong('admin', 'there is no admin', 'start the daemon once: it creates the admin')
  const { username, disabled } = admin
  if (!disabled) return { what: 'admin', ok: true, detail: username }
  return wrong('admin', `${username} is disabled`, commandLine(config, 'user', 'enable', username))
}

function settingFindings(config: Config, settings: Settings): readonly Finding[] {
  const faults = [...settings.faults()]
  if (faults.length === 0) return [{ what: 'settings', ok: true, detail: 'all values are valid' }]
  return faults.map(({ key, reason, fallback }) =>
    wrong(
      `setting ${key}`,
      reason,
      key === 'token'
        ? commandLine(config, 'admin', 'token', '--reset')
        : commandLine(config, 'setting', 'set', key, fallback),
    ),
  )
}

async function temporaryFolderFinding(settings: Settings): Promise<Finding> {
  const folder = settings.get('offline_download_temp_dir')
  const what = 'temporary folder'
  if (folder === '') return { what, ok: true, detail: 'in the data folder' }
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (isFolder) return { what, ok: true, detail: folder }
  const remedy = `mkdir -p ${shellWord(folder)} # for the user of the daemon`
  return wrong(what, `the setting offline_download_temp_dir names ${folder}, which is no folder`, remedy)
}

async function hostKeysFinding(config: Config, secrets: Store['secrets']): Promise<Finding> {
  const what = 'host keys'
  // Imported lazily, as in `admin host-keys`.
  const { publicHostKeys } = await import('../../../protocols/sftp/host-keys.js')
  try {
    return { what, ok: true, detail: `${(await publicHostKeys(secrets)).length} in the database` }
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return { what, ok: true, detail: 'the daemon makes them when it starts' }
    return wrong(what, reasonOf(error), commandLine(config, 'admin', 'host-keys', '--rotate'))
  }
}

/** Behind a proxy that is not trusted, all clients share one address, and with it the limit of failed sign-ins. */
function proxyFinding(config: Config): Finding {
  const trusted = config.trusted_proxies.rules.length
  const isBehind = config.site_url.startsWith('https://') && config.addresses.https === 'off'
  if (!isBehind || trusted > 0) return { what: 'proxies', ok: true, detail: `${trusted} trusted` }
  return wrong(
    'proxies',
    'site_url is of https, which a proxy must serve, but none is trusted: all clients have the address of the proxy',
    'list the address of the proxy in trusted_proxies',
  )
}

/** Storages of the driver Local: their folders, as the user of the daemon sees them. */
async function localFindings(config: Config, rows: readonly StorageRow[]): Promise<readonly Finding[]> {
  const owner = await stat(config.data)
  const shownAt = new Map<string, string>()
  const findings: Finding[] = []
  for (const row of rows) {
    const { disabled, mountPath } = row
    const named = disabled ? undefined : localFolderOf(config, row)
    if (named === undefined) continue
    const folder = await realpath(named).catch(() => undefined)
    // A missing folder is a fault of the storage, which `check` reports.
    if (folder === undefined) continue
    const what = `folder of ${mountPath}`
    const other = shownAt.get(folder)
    if (other !== undefined) {
      const remedy = commandLine(config, 'storage', 'disable', mountPath)
      findings.push(
        wrong(what, `${folder} is the folder of ${other} too: locks and caches of one miss the other`, remedy),
      )
    }
    shownAt.set(folder, mountPath)
    if ((await mayRead(owner, folder, 'folder')) === false) {
      const remedy = `chgrp ${owner.gid} ${shellWord(folder)} && chmod g+rx ${shellWord(folder)} # g+w to write there`
      findings.push(wrong(what, `the user of the daemon (${owner.uid}) may not read ${folder}`, remedy))
    }
  }
  return findings
}

/** What was named as URLs begin before these existed: mount paths, and names on this machine. */
async function topNamesFinding(config: Config, { users }: Accounts, storages: readonly StorageRow[]): Promise<Finding> {
  const what = 'names of URLs'
  const tops = new Set<Path>([root, ...users.list().map(({ basePath }) => basePath)])
  const paths = [...tops].flatMap((top) => [...topNames].map((name) => childOf(top, name)))
  for (const storage of storages) {
    const { disabled, mountPath } = storage
    if (disabled) continue
    const folder = localFolderOf(config, storage)
    for (const path of paths) {
      const isMounted = within(path, mountPath) !== undefined
      const inner = folder === undefined ? undefined : within(mountPath, path)
      const isThere = inner !== undefined && folder !== undefined && (await exists(join(folder, inner)))
      if (isMounted || isThere) {
        const remedy = `rename ${path}, or what is mounted there`
        return wrong(what, `${path} cannot be opened over HTTP: the URLs of shares and pages begin so`, remedy)
      }
    }
  }
  return { what, ok: true, detail: 'nothing is named as URLs begin' }
}

function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}

/** Maximum findings about storages that show what grants deny: more would not be read. */
const maxShown = 20

/** Storages that show elsewhere what a grant denies: a grant is about a path. */
function grantFindings(
  config: Config,
  { users, groups }: Accounts,
  grants: Grants,
  storages: readonly StorageRow[],
): readonly Finding[] {
  const findings: Finding[] = []
  for (const { grant, path, driver, mountPoint } of shownElsewhere(grants.list(), grants, storages, driverTypes)) {
    const { userId, groupId, deny } = grant
    const [kind, name] =
      groupId === undefined ? ['user', users.get(userId ?? 0)?.username] : ['group', groups.get(groupId)?.name]
    // A group or user that has just been removed.
    if (name === undefined) continue
    const detail = `the grant of the ${kind} ${name} denies ${deny.join(', ')}, and ${mountPoint} (${driver}) shows what is there at ${path} too`
    const remedy = commandLine(config, 'grant', 'add', path, `--${kind}`, name, '--deny', deny.join(','))
    findings.push(wrong(`grant at ${grant.path}`, detail, remedy))
    if (findings.length === maxShown) break
  }
  if (findings.length > 0) return findings
  return [{ what: 'grants', ok: true, detail: 'no storage shows elsewhere what a grant denies' }]
}
