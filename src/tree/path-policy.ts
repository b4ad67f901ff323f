/**
 * What nobody may do with a path, whatever the permissions and the folder rules are: with names of the gateway and of
 * operating systems, with mount points, with a folder and what is in it, and with symlinks. Pure functions of paths of
 * the whole tree, called by `Access` only. What one principal may do is in `policy.ts`.
 */
import { isWithin, nameOf, reservedPrefix, within, type Path } from '../base/path.js'
import type { Refusal } from './policy.js'

/** Names of files that operating systems create automatically. macOS also creates names with the prefix `._`. */
const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

/** Names that are reserved by the core, in any case, do not exist. */
export function reserved(at: Path): Refusal | undefined {
  return at.toLowerCase().includes(`/${reservedPrefix}`) ? { code: 'not_found' } : undefined
}

/** A new name while system files are ignored. */
export function systemFile(at: Path): Refusal | undefined {
  const name = nameOf(at)
  return systemFiles.has(name) || name.startsWith('._') ? { code: 'denied', detail: 'system_file' } : undefined
}

/** Mount points, the folders above them, and the principal's base cannot be moved or removed. */
export function fixed(isFixed: boolean, detail: 'mount_moved' | 'mount_removed'): Refusal | undefined {
  return isFixed ? { code: 'denied', detail } : undefined
}

/** The target of a move or a copy. `isFolder`: the source is one. `isMountFolder`: the target is one. */
export function replacement(
  source: Path,
  target: Path,
  isFolder: boolean,
  isMountFolder: boolean,
): Refusal | undefined {
  if (isFolder && isWithin(source, target)) return { code: 'invalid', detail: 'into_itself' }
  if (isWithin(target, source)) return { code: 'invalid', reason: 'a folder cannot be replaced by what is in it' }
  return isMountFolder ? { code: 'denied', reason: 'a mount point cannot be replaced' } : undefined
}

/** The text of a relative symlink. After another symlink, `..` would mean the parent of that symlink's target. */
export function relativeTarget(text: string): Refusal | undefined {
  const names = text.split('/').filter((name) => name !== '' && name !== '.')
  const first = names.findIndex((name) => name !== '..')
  if (first < 0 || !names.includes('..', first)) return undefined
  return { code: 'denied', reason: 'the target of a symlink may have .. at its start only' }
}

/** Where a new symlink leads to. `mountPoint`: that of its storage. */
export function symlinkTarget(mountPoint: Path, leadsTo: Path): Refusal | undefined {
  if (within(mountPoint, leadsTo) !== undefined) return undefined
  return { code: 'denied', reason: 'the target of a symlink must be in the same storage' }
}
