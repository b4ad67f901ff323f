/** The user of the daemon in a container that is started as root. */
import { lchown, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../base/errors.js'
import { makeFolders } from '../base/make-folders.js'
import { firstStorageFolder } from '../installation/data-folder.js'

/** The largest id of a user or group: one more means "unchanged" (chown(2)). */
const maxId = 0xfffffffe

/**
 * Applies the variables that images of other programs have too. `UMASK` (octal) applies always. If this process is root
 * and `PUID` is set, the data folder and what is in it get that user and the group `PGID` (by default the same number),
 * but for what is below `files`, which belongs to whom its user says; then this process becomes that user, for good.
 * Rejects with `invalid` for other values and if root may not do so, and with the other errors of the system.
 */
export async function applyContainerUser(
  data: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const { PUID, PGID, UMASK } = environment
  if (UMASK !== undefined && UMASK !== '') process.umask(numberOf('UMASK', UMASK, 8, 0o777))
  if (process.getuid?.() !== 0 || PUID === undefined || PUID === '') return
  const uid = numberOf('PUID', PUID, 10, maxId)
  const gid = PGID === undefined || PGID === '' ? uid : numberOf('PGID', PGID, 10, maxId)
  try {
    await makeFolders(data, 0o700)
    await give(data, uid, gid, (name) => name !== firstStorageFolder)
    process.setgroups?.([gid])
    process.setgid?.(gid)
    process.setuid?.(uid)
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    if (!['EACCES', 'EPERM'].includes(code)) throw error
    throw new GatewayError('invalid', {
      reason: `PUID needs the capabilities CHOWN, DAC_READ_SEARCH, SETUID and SETGID: ${message}`,
      cause: error,
    })
  }
}

function numberOf(name: string, text: string, base: 8 | 10, max: number): number {
  const value = (base === 8 ? /^[0-7]{1,4}$/ : /^\d{1,10}$/).test(text) ? parseInt(text, base) : NaN
  if (value >= 0 && value <= max) return value
  throw new GatewayError('invalid', {
    reason: `${name} must be ${base === 8 ? 'an octal number such as 022' : 'the number of a user or group'}`,
  })
}

/**
 * Changes the owner of the entry and, if it is a folder, of those in it for which `isEntered` is true. Symlinks are not
 * followed.
 */
async function give(path: string, uid: number, gid: number, isEntered: (name: string) => boolean): Promise<void> {
  const found = await lstat(path)
  if (found.uid !== uid || found.gid !== gid) await lchown(path, uid, gid)
  if (!found.isDirectory()) return
  for (const name of await readdir(path)) {
    const entry = join(path, name)
    if (isEntered(name)) await give(entry, uid, gid, () => true)
    else await lchown(entry, uid, gid)
  }
}
