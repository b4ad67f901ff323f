/**
 * Changes of many files and folders, in the tree as one principal sees it. Each change is authorized separately. Errors
 * that can be predicted are found before the first change. Renaming by a regular expression computes the names here
 * too.
 */
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, nameTaken, undefinedIfMissing } from '../base/errors.js'
import { checkMemberName, checkName, childOf, nameOf, type Path } from '../base/path.js'
import { Pauses } from '../base/pauses.js'
import { compileLinear, maxPatternLength, findMatches } from '../base/patterns.js'
import type { AccessOptions } from './operation-options.js'
import type { VirtualFs } from './virtual-fs.js'

/** Maximum number of files that one operation changes: their paths are held until its end. */
const maxChanges = 200_000

/** The new name of a member of a folder. */
interface Renaming {
  readonly from: string
  readonly to: string
}

/**
 * Renames members of a folder, one after the other. Checks all of them first, and rejects without any change: with
 * `exists` if a new name would be taken when its renaming is due, with `not_found` if an old name does not exist, with
 * `invalid` for an invalid name.
 */
export async function renameMembers(
  fs: VirtualFs,
  folder: Path,
  renamings: readonly Renaming[],
  options: AccessOptions = {},
): Promise<void> {
  await fs.assertMayChange('rename', folder, options)
  const pauses = new Pauses(options.signal)
  for (const { from, to } of renamings) {
    checkMemberName(from)
    checkName(to)
    if (pauses.areDue) await pauses.take()
  }
  /** Whether a name exists after the renamings checked so far. */
  const changed = new Map<string, boolean>()
  for (const { from, to } of renamings) {
    if (pauses.areDue) await pauses.take()
    const taken = from !== to && (changed.get(to) ?? (await isTaken(fs, childOf(folder, to), from, options)))
    if (taken) throw nameTaken(to)
    const isPresent = changed.get(from) ?? (await entryAt(fs, childOf(folder, from), options)) !== undefined
    if (!isPresent) throw new GatewayError('not_found')
    if (from === to) continue
    changed.set(from, false)
    changed.set(to, true)
  }
  for (const { from, to } of renamings) {
    if (pauses.areDue) await pauses.take()
    if (from !== to) await fs.move(childOf(folder, from), childOf(folder, to), { ...options, overwrite: false })
  }
}

/**
 * Renames every member of a folder for which `newName`, for example from `compileRenaming`, returns a new name. Rejects
 * as `renameMembers`, and with `too_large` if that would be more than 200,000.
 */
export async function renameEach(
  fs: VirtualFs,
  folder: Path,
  newName: (name: string) => string | undefined,
  options: AccessOptions = {},
): Promise<void> {
  await fs.assertMayChange('rename', folder, options)
  const renamings: Renaming[] = []
  const pauses = new Pauses(options.signal)
  for await (const page of fs.pages(folder, options)) {
    for (const { name: from } of page) {
      const to = newName(from)
      if (to !== undefined && to !== from) renamings.push({ from, to })
      assertNotTooMany(renamings)
      if (pauses.areDue) await pauses.take()
    }
  }
  await renameMembers(fs, folder, renamings, options)
}

/**
 * How to handle a file whose name is taken in the target folder, or by another file to be moved: 'cancel' rejects the
 * operation, 'skip' does not move the file, 'overwrite' replaces the other file.
 */
type ConflictPolicy = 'cancel' | 'skip' | 'overwrite'

/** Moves one file, or adds a task that will move it. */
type Mover = (from: Path, to: Path, overwrite: boolean) => Promise<unknown>

/**
 * Moves every file below `from`, at any depth, directly into `to`. Folders and symlinks are not moved. Returns the
 * number of files. Rejects before the first move: with `exists` if a name is taken and the policy does not allow that,
 * and with `too_large` if there are too many files. A file never replaces a folder.
 */
export async function gatherFiles(
  fs: VirtualFs,
  from: Path,
  to: Path,
  policy: ConflictPolicy,
  options: AccessOptions = {},
  move: Mover = (source, target, overwrite) => fs.move(source, target, { ...options, overwrite }),
): Promise<number> {
  await fs.assertMayChange('move', from, options)
  const chosen: Path[] = []
  const names = new Set<string>()
  for await (const path of filesBelow(fs, from, to, options)) {
    const name = nameOf(path)
    const old = names.has(name) ? 'file' : (await entryAt(fs, childOf(to, name), options))?.kind
    if (old === 'folder' || (old !== undefined && policy !== 'overwrite')) {
      if (policy === 'skip') continue
      throw nameTaken(name)
    }
    names.add(name)
    chosen.push(path)
    assertNotTooMany(chosen)
  }
  for (const path of chosen) {
    await move(path, childOf(to, nameOf(path)), policy === 'overwrite')
  }
  return chosen.length
}

function assertNotTooMany({ length }: readonly unknown[]): void {
  if (length > maxChanges) throw new GatewayError('too_large', { reason: 'too many files for one request' })
}

/** All files below `folder`, except for those directly in `except`. */
async function* filesBelow(fs: VirtualFs, folder: Path, except: Path, options: AccessOptions): AsyncGenerator<Path> {
  const folders = [folder]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    for await (const page of fs.pages(at, options)) {
      for (const { name, kind, isSymlink } of page) {
        if (isSymlink === true) continue
        if (kind === 'folder') folders.push(childOf(at, name))
        if (kind === 'file' && at !== except) yield childOf(at, name)
      }
    }
  }
}

/**
 * Removes every empty folder below `folder`, also those that become empty thereby. Skips folders with any content, even
 * if it is hidden from the principal, folders that the principal may not list or remove, and folders above a mount
 * point.
 */
export async function removeEmptyFolders(fs: VirtualFs, folder: Path, options: AccessOptions = {}): Promise<void> {
  await fs.assertMayChange('remove', folder, options)
  for (const name of (await contentOf(fs, folder, options)).folders)
    await removeIfEmpty(fs, childOf(folder, name), options)
}

/** Removes the folder if it contains nothing but empty folders. Returns whether it was removed. */
async function removeIfEmpty(fs: VirtualFs, folder: Path, options: AccessOptions): Promise<boolean> {
  try {
    const { folders, hasOthers } = await contentOf(fs, folder, options)
    let hasContent = hasOthers
    for (const name of folders) hasContent = !(await removeIfEmpty(fs, childOf(folder, name), options)) || hasContent
    if (hasContent) return false
    // The listing omits hidden entries. The backend refuses to remove a folder that has any.
    await fs.remove(folder, { ...options, what: 'folder' })
    return true
  } catch (error) {
    if (isGatewayError(error, 'not_empty', 'not_found', 'denied', 'hidden', 'password_required')) return false
    throw error
  }
}

async function contentOf(
  fs: VirtualFs,
  folder: Path,
  options: AccessOptions,
): Promise<{ readonly folders: readonly string[]; readonly hasOthers: boolean }> {
  const folders: string[] = []
  let hasOthers = false
  for await (const page of fs.pages(folder, options)) {
    for (const { name, kind, isSymlink } of page) {
      if (kind === 'folder' && isSymlink !== true) folders.push(name)
      else hasOthers = true
    }
  }
  return { folders, hasOthers }
}

/**
 * Whether another entry than `own` has the name. On a case-insensitive backend, a new spelling of `own` finds `own`
 * itself.
 */
async function isTaken(fs: VirtualFs, path: Path, own: string, options: AccessOptions): Promise<boolean> {
  const entry = await entryAt(fs, path, options)
  return entry !== undefined && entry.name !== own
}

function entryAt(fs: VirtualFs, path: Path, options: AccessOptions): Promise<Entry | undefined> {
  return undefinedIfMissing(fs.stat(path, { ...options, ofSymlink: true }))
}

/** Maximum characters of a replacement and of a result of `compileRenaming`. */
const maxLength = maxPatternLength

/** A part of a replacement: literal text, or a capturing group by number or name. */
type Piece = { readonly text: string } | { readonly group: string }

/**
 * Compiles a renaming by regular expression: RE2 syntax, matched in linear time, with the replacement syntax of Go's
 * package regexp. Returns a function from a name to its new name, or to undefined if the pattern does not match. Every
 * match is replaced. `$1`, `${1}` and `${name}` insert a group, unknown groups insert nothing, `$$` inserts a dollar
 * sign. The result may be an invalid name. Throws `invalid` for a malformed or too costly pattern; the function throws
 * `invalid` for a name that takes too long to match.
 */
export function compileRenaming(pattern: string, replacement: string): (name: string) => string | undefined {
  if (pattern.length > maxLength || replacement.length > maxLength) {
    throw new GatewayError('invalid', { reason: `patterns and replacements have ${maxLength} characters at most` })
  }
  const compiled = compileLinear(pattern)
  const pieces = piecesOf(replacement)
  const numbers = new Map(Object.entries(compiled.expression.namedGroups()))
  return (name) => {
    let result = ''
    let end = -1
    for (const matcher of findMatches(compiled, name)) {
      // As in Go, an empty match directly after a match is ignored.
      if (matcher.start() === matcher.end() && matcher.start() === end) continue
      result += name.slice(Math.max(end, 0), matcher.start())
      for (const piece of pieces) {
        if ('text' in piece) {
          result += piece.text
          continue
        }
        const number = /^\d{1,9}$/.test(piece.group) ? Number(piece.group) : numbers.get(piece.group)
        if (number !== undefined && number <= matcher.groupCount()) result += matcher.group(number) ?? ''
      }
      end = matcher.end()
      // Longer than any valid name: the caller rejects it, so that the rest need not be computed.
      if (result.length > maxLength) return result
    }
    return end < 0 ? undefined : result + name.slice(end)
  }
}

function piecesOf(replacement: string): readonly Piece[] {
  const pieces: Piece[] = []
  let end = 0
  // A dollar sign that starts none of these forms is literal.
  for (const match of replacement.matchAll(/\$(?:(\$)|\{(\w+)\}|(\w+))/g)) {
    const [whole, dollar, braced, plain] = match
    pieces.push({ text: replacement.slice(end, match.index) + (dollar ?? '') })
    const group = braced ?? plain
    if (group !== undefined) pieces.push({ group })
    end = match.index + whole.length
  }
  pieces.push({ text: replacement.slice(end) })
  return pieces
}
