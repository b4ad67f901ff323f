/** How the questions of the model are asked of the tree, and which of them it can be asked. */
import { isWithin, parentOf, root, under, within, type Path } from '../../src/base/path.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { keep, lockAsk, overwrite, property, sourceOf } from '../tree/tree-fixture.js'
import type { Entry, Question, World } from './model.js'

type Kind = Entry['kind']

/** Does what the question is about. Rejects if it is refused, and when it comes to a change. */
export async function ask(tree: VirtualFs, world: World, question: Question): Promise<unknown> {
  const own = (path: Path) => within(tree.principal.base, path) ?? root
  const { action, password } = question
  const path = own(question.path)
  const options = { password }
  const transferOptions = { ...options, ...(question.replaces === true ? overwrite : keep) }
  switch (action) {
    case 'see':
      return tree.stat(path, options)
    case 'read':
      if (isZip(world, question)) return tree.assertMembersReadable(path, [], options)
      return (await tree.read(path, undefined, options)).destroy()
    case 'write':
      return write(tree, path, world, question)
    case 'remove':
      return tree.remove(path, options)
    case 'rename':
    case 'move':
      return tree.move(path, own(question.to ?? root), transferOptions)
    case 'copy':
      return tree.copy(path, own(question.to ?? root), transferOptions)
    case 'share':
      return tree.assertAllowed('share', path, options)
  }
}

/** A signed URL is that of a file. */
function isZip(world: World, { path, wholeTree, signed }: Question): boolean {
  return wholeTree === true && signed === undefined && kindAt(world, path) === 'folder'
}

/** Does one of the operations that write. The time chooses where several suit. */
async function write(tree: VirtualFs, path: Path, world: World, question: Question): Promise<unknown> {
  const { password, makes, reads, wholeTree, time } = question
  const options = { password }
  const choose = (...operations: readonly (() => Promise<unknown>)[]) => operations[time % operations.length]?.()
  if (wholeTree) return tree.lock(path, { ...lockAsk, deep: true }, options)
  if (reads) return tree.open(path, makes ? 'replace' : 'update', { ...options, readable: true })
  if (!makes) {
    return choose(
      () => tree.setAttributes(path, { modified: new Date(0) }, options),
      () => tree.setProperties(path, [{ set: property }], options),
      () => tree.lock(path, lockAsk, { ...options, makesFile: false }),
    )
  }
  const making = [
    () => tree.write(path, sourceOf(''), options),
    () => tree.open(path, 'replace', options),
    () => tree.lock(path, lockAsk, options),
  ]
  return kindAt(world, question.path) === undefined
    ? choose(...making, () => tree.mkdir(path, options))
    : choose(...making)
}

/** The path that the symlinks on the way lead to; with `last`, also one in the last segment. */
export function realPath({ symlinks }: Pick<World, 'symlinks'>, path: Path, last: boolean): Path {
  const symlink = symlinks.find((each) => isWithin(each.path, path) && (last || each.path !== path))
  return symlink ? under(symlink.target, within(symlink.path, path) ?? root) : path
}

/** The kind of what is at a path, or of what a symlink there leads to. */
function kindAt(world: World, path: Path): Kind | undefined {
  const real = realPath(world, path, true)
  return real === root ? 'folder' : world.entries.find((each) => each.path === real)?.kind
}

interface Ready {
  readonly world: World
  readonly question: Question
}

/**
 * The question in a world in which nothing but a decision refuses it: what it is about exists unless it is made, and a
 * new path is free unless it is replaced. Undefined if there is no such world, or nothing asks this of the tree.
 */
export function askable(world: World, question: Question): Ready | undefined {
  const { user, action, path, to = path } = question
  const base = world.users.find(({ id }) => id === user)?.base
  if (action === 'share' || base === undefined || !isWithin(base, path) || !isWithin(base, to)) return undefined
  const moves = action === 'rename' || action === 'move' || action === 'remove'
  // A base folder stays where it is.
  if (moves && path === base) return undefined
  const entries = new Map(world.entries.map((each) => [each.path, each]))
  if (!addSource(world, entries, question, !moves) || !addFolderOfTarget(world, entries, question)) return undefined
  const ready = { ...world, entries: [...entries.values()] }
  return { world: ready, question: action === 'write' ? suitable(ready, question) : question }
}

type Entries = Map<Path, Entry>

/** Adds an entry and the folders above it, unless they exist. Returns whether that is possible. */
function add(entries: Entries, path: Path, kind: Kind): boolean {
  if (path === root) return kind === 'folder'
  if (!add(entries, parentOf(path), 'folder')) return false
  const found = entries.get(path)?.kind
  if (found === undefined) entries.set(path, { path, kind })
  return found === undefined || kind === 'file' || found === 'folder'
}

function addSource(world: World, entries: Entries, { action, path, makes, time }: Question, last: boolean): boolean {
  if (!last && world.symlinks.some((each) => each.path === path)) return true
  const real = realPath(world, path, last)
  if (real === root) return true
  const isMade = action === 'write' && makes === true
  return isMade ? add(entries, parentOf(real), 'folder') : add(entries, real, time % 2 === 0 ? 'file' : 'folder')
}

function addFolderOfTarget(world: World, entries: Entries, { path, to, replaces }: Question): boolean {
  if (to === undefined) return true
  const [source, target] = [realPath(world, path, false), realPath(world, to, false)]
  if (isWithin(path, to) || isWithin(source, target) || isWithin(target, source)) return false
  if (world.symlinks.some((each) => isWithin(to, each.path))) return false
  if (!add(entries, parentOf(target), 'folder')) return false
  if (replaces !== true) for (const at of [...entries.keys()]) if (isWithin(target, at)) entries.delete(at)
  return world.symlinks.every((each) => entries.has(each.target))
}

/** A lock of infinite depth may make a file. Only a file is made otherwise, or opened. */
function suitable(world: World, question: Question): Question {
  if (question.wholeTree === true) return { ...question, makes: true, reads: false }
  const isFolder = kindAt(world, question.path) === 'folder'
  return { ...question, makes: question.makes === true && !isFolder, reads: question.reads === true && !isFolder }
}
