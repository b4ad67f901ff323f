/** The user of the daemon, who owns the data folder, and what that user may do with other files. */
import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface OwnerIds {
  readonly uid: number
  readonly gid: number
}

/**
 * Whether the user may read the file, or enter and read the folder. Undefined if this process can be neither that user
 * nor ask as that user, which root can by setpriv(1).
 */
export async function mayRead(owner: OwnerIds, path: string, kind: 'file' | 'folder'): Promise<boolean | undefined> {
  const own = process.getuid?.()
  if (own === owner.uid) {
    const mode = kind === 'folder' ? constants.R_OK | constants.X_OK : constants.R_OK
    return access(path, mode).then(
      () => true,
      () => false,
    )
  }
  if (own !== 0) return undefined
  const groups = await groupsOf(owner.uid)
  const identity = ['--reuid', String(owner.uid), '--regid', String(owner.gid)]
  const tests = ['-r', path, ...(kind === 'folder' ? ['-a', '-x', path] : [])]
  try {
    const as = groups === undefined ? ['--clear-groups'] : ['--groups', groups]
    await run('setpriv', [...identity, ...as, 'test', ...tests])
    return true
  } catch (error) {
    // test(1) has the status 1 for what is not so; every other failure says nothing about the file.
    return (error as { readonly code?: unknown }).code === 1 ? false : undefined
  }
}

/** The groups of the user, separated by commas. Undefined if the system has no such user. */
async function groupsOf(uid: number): Promise<string | undefined> {
  try {
    const { stdout } = await run('id', ['-G', '--', String(uid)])
    return stdout.trim().replaceAll(' ', ',')
  } catch {
    return undefined
  }
}
