/** Checks who may read and write the files of an installation. */
import { X509Certificate } from 'node:crypto'
import { lstat, readFile, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../../installation/config.js'
import { auditFolder, backupFolder, firstStorageFolder } from '../../installation/data-folder.js'
import { withoutPassword } from '../../database/store-url.js'
import { shellWord, wrong, type Finding } from '../finding.js'
import { mayRead, type OwnerIds } from './owner.js'

/** Days before its end from which a certificate is reported. */
const renewalDays = 14
/** Maximum entries of a folder that are looked at. */
const maxEntries = 10_000

/** Entries of the data folder that may belong to anyone: the files of users, and what the file system has made. */
const ownedByAnyone: ReadonlySet<string> = new Set([firstStorageFolder, 'lost+found'])

/** The findings on the data folder, the configuration file, and the certificate. Changes nothing. */
export async function fileFindings(config: Config): Promise<readonly Finding[]> {
  let folder: Awaited<ReturnType<typeof statOf>>
  try {
    folder = await statOf(config.data)
  } catch (error) {
    const remedy = 'run this as the user of the daemon, or as root'
    return [wrong('data folder', `${config.data} cannot be examined: ${(error as Error).message}`, remedy)]
  }
  if (!folder?.isDirectory()) {
    const remedy = `install -d -m 700 ${shellWord(config.data)} # as the user of the daemon, or name another with --data`
    return [wrong('data folder', `there is no folder ${config.data}`, remedy)]
  }
  return [
    dataFolderFinding(config.data, folder),
    await ownerFinding(config.data, folder),
    await hostKeyFinding(config.data),
    ...(config.configFile === undefined ? [] : [await configFileFinding(config, config.configFile)]),
    ...(config.addresses.https === 'off' ? [] : await certificateFindings(config, folder)),
  ]
}

/** Returns the result of stat(2); undefined if there is no such file. */
async function statOf(path: string) {
  return stat(path).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code))) return undefined
    throw error
  })
}

function dataFolderFinding(data: string, { mode, uid }: { readonly mode: number; readonly uid: number }): Finding {
  const own = process.getuid?.()
  if (own !== undefined && own !== 0 && own !== uid) {
    const detail = `${data} belongs to the user ${uid}, and this command runs as ${own}`
    return wrong('data folder', detail, `sudo -u '#${uid}' tidegate doctor --data ${shellWord(data)}`)
  }
  if ((mode & 0o077) === 0) return { what: 'data folder', ok: true, detail: `only its user may enter ${data}` }
  return wrong('data folder', `other users of this machine may enter ${data}`, `chmod 700 ${shellWord(data)}`)
}

/** A command that another user has run leaves files that the daemon cannot open. */
async function ownerFinding(data: string, { uid, gid }: OwnerIds): Promise<Finding> {
  const folders = [data, ...['ssh', 'spool', backupFolder, auditFolder].map((name) => join(data, name))]
  const foreign: string[] = []
  for (const folder of folders) {
    const names = await readdir(folder).catch(() => [])
    for (const name of names.slice(0, maxEntries)) {
      if (folder === data && ownedByAnyone.has(name)) continue
      const entry = await lstat(join(folder, name)).catch(() => undefined)
      if (entry && entry.uid !== uid) foreign.push(join(folder, name))
    }
  }
  const [first] = foreign
  if (first === undefined) return { what: 'owners', ok: true, detail: `all files of ${data} have its user` }
  const more = foreign.length > 1 ? ` and ${foreign.length - 1} more` : ''
  return wrong(
    'owners',
    `${first}${more} do not belong to the user of the data folder`,
    `chown -h ${uid}:${gid} ${foreign.map(shellWord).join(' ')}`,
  )
}

async function hostKeyFinding(data: string): Promise<Finding> {
  const folder = join(data, 'ssh')
  const names = (await readdir(folder).catch(() => [])).filter((name) => !name.endsWith('.pub'))
  const open: string[] = []
  for (const name of names.slice(0, maxEntries)) {
    const file = await lstat(join(folder, name)).catch(() => undefined)
    if (file?.isFile() && (file.mode & 0o077) !== 0) open.push(join(folder, name))
  }
  if (open.length === 0) return { what: 'host key files', ok: true, detail: 'no other user may read them' }
  const remedy = `chmod 600 ${open.map(shellWord).join(' ')}`
  return wrong('host key files', 'other users of this machine may read the keys of the SFTP server', remedy)
}

async function configFileFinding({ store }: Config, path: string): Promise<Finding> {
  const file = await statOf(path)
  const hasPassword = store !== withoutPassword(store)
  if (!hasPassword || !file || (file.mode & 0o004) === 0) {
    return { what: 'configuration file', ok: true, detail: path }
  }
  return wrong(
    'configuration file',
    `other users of this machine may read the password of the database in ${path}`,
    `chmod o= ${shellWord(path)}`,
  )
}

async function certificateFindings(config: Config, owner: OwnerIds): Promise<readonly Finding[]> {
  const { tls_certificate: certificate, tls_key: key } = config
  // `check` reports a pair that cannot be loaded.
  const file = await statOf(key).catch(() => undefined)
  const end = await readFile(certificate).then(
    (bytes) => endFinding(certificate, bytes),
    () => [],
  )
  if (!file) return end
  if ((file.mode & 0o007) !== 0) {
    const detail = `other users of this machine may read ${key}`
    return [...end, wrong('certificate key', detail, `chmod o= ${shellWord(key)}`)]
  }
  const readable = await mayRead(owner, key, 'file')
  if (readable === false) {
    const remedy = `chgrp ${owner.gid} ${shellWord(key)} && chmod g+r ${shellWord(key)} # and its folders: chmod g+x`
    return [...end, wrong('certificate key', `the user of the daemon (${owner.uid}) may not read ${key}`, remedy)]
  }
  return end
}

/** When the certificate ends. None for a file that is no certificate. */
function endFinding(file: string, bytes: Buffer): readonly Finding[] {
  let validTo: string
  try {
    validTo = new X509Certificate(bytes).validTo
  } catch {
    return []
  }
  const what = 'end of the certificate'
  const days = (Date.parse(validTo) - Date.now()) / 86_400_000
  if (days >= renewalDays) return [{ what, ok: true, detail: `${file} is valid until ${validTo}` }]
  const detail = `${file} ${days < 0 ? 'has expired' : 'expires'}: ${validTo}`
  return [wrong(what, detail, 'renew it: the daemon reads the new files by itself')]
}
