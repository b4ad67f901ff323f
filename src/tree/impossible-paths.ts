/** Paths and names that are refused whatever the permissions, the folder rules and the grants are. */
import { isWithin, nameOf, parentOf, reservedPrefix, topNames, within, type Path } from '../base/path.js'
import type { PolicyRefusal } from './policy/one-path.js'

/** Names of files that operating systems create automatically. macOS also creates names with the prefix `._`. */
const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

/** Names that are reserved by the core, in any case, do not exist. */
export function reservedName(at: Path): PolicyRefusal | undefined {
  return at.toLowerCase().includes(`/${reservedPrefix}`) ? { code: 'not_found' } : undefined
}

/** A new name that URLs begin with. `isTop`: whether a folder is the root of the tree or of somebody's base folder. */
export function topName(at: Path, isTop: (folder: Path) => boolean): PolicyRefusal | undefined {
  return topNames.has(nameOf(at)) && isTop(parentOf(at)) ? { code: 'denied', detail: 'reserved_name' } : undefined
}

/** A new name while system files are ignored. */
export function systemFile(at: Path): PolicyRefusal | undefined {
  const name = nameOf(at)
  return systemFiles.has(name) || name.startsWith('._') ? { code: 'denied', detail: 'system_file' } : undefined
}

/** A path that an answer would name to a principal with this base. */
export function outsideBase(base: Path, at: Path): PolicyRefusal | undefined {
  return isWithin(base, at) ? undefined : { code: 'denied' }
}

/** The text of a relative symlink. After another symlink, `..` would mean the parent of that symlink's target. */
export function relativeTarget(text: string): PolicyRefusal | undefined {
  const names = text.split('/').filter((name) => name !== '' && name !== '.')
  const first = names.findIndex((name) => name !== '..')
  if (first < 0 || !names.includes('..', first)) return undefined
  return { code: 'denied', reason: 'the target of a symlink may have .. at its start only' }
}

/** Returns the refusal of a new symlink by the place that it leads to. `mountPoint`: the mount point of its storage. */
export function symlinkTarget(mountPoint: Path, leadsTo: Path): PolicyRefusal | undefined {
  if (within(mountPoint, leadsTo) !== undefined) return undefined
  return { code: 'denied', reason: 'the target of a symlink must be in the same storage' }
}
