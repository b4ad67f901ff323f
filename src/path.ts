/**
 * The only place that cleans, joins and splits a path of the tree.
 *
 * A `Path` is absolute, `/`-separated, without `.`, `..`, empty segments or a trailing slash; `/` is
 * the root. The brand makes the compiler refuse a text that did not come through here.
 */
import { randomBytes } from 'node:crypto'
import { GatewayError } from './errors.js'

declare const clean: unique symbol
export type Path = string & { readonly [clean]: true }

export const root = '/' as Path

/** Names that the core gives to what it sets aside; no door shows them. */
export const reservedPrefix = '.tidegate-'

/** Longest name that is accepted, in bytes: what most file systems have room for. */
const nameLimit = 255

/** Longest path that is accepted, in bytes: Linux's PATH_MAX. */
export const pathLimit = 4096

/** Those of ASCII and of Latin-1 (C0, DEL, C1): Unicode's category Cc. What only steers how text is shown (Cf) is none. */
const controlCharacters = /\p{Cc}/u

/**
 * A path from a user's text: `\` counts as `/`, a missing leading slash is added, empty and `.`
 * segments are dropped. Rejects with `invalid` where a segment is `..` or holds a NUL, or where
 * the text is longer than `pathLimit` or no valid Unicode.
 */
export function cleanPath(text: string): Path {
  if (text.includes('\0')) throw new GatewayError('invalid', { reason: 'a path cannot hold a NUL character' })
  if (!text.isWellFormed()) throw new GatewayError('invalid', { reason: 'a path must be valid Unicode' })
  if (Buffer.byteLength(text) > pathLimit) throw new GatewayError('invalid', { reason: 'the path is too long' })
  const segments: string[] = []
  for (const segment of text.replaceAll('\\', '/').split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment === '..') throw new RelativePathError()
    segments.push(segment)
  }
  return `/${segments.join('/')}` as Path
}

/**
 * A path at which something new may come to stand: as `cleanPath` has it, but a `\` is refused rather than read as a `/`, as
 * it is in every other new name. Otherwise a file called `a\b` would end up as `b` in a folder that nobody asked for.
 */
export function newPath(text: string): Path {
  if (text.includes('\\')) throw new RelativePathError()
  return cleanPath(text)
}

/** A path that tries to climb by `..`; the HTTP door has a status of its own for it. */
export class RelativePathError extends GatewayError {
  constructor() {
    super('invalid', { reason: 'using relative path is not allowed' })
  }

  override at(): this {
    return this
  }
}

/**
 * A path as SFTP clients send it: relative to `from`, with `.` and `..` resolved; `..` at the root
 * stays at the root. A `\` is no separator here. Rejects with `invalid` on a NUL or an over-long text.
 */
export function resolvePath(from: Path, text: string): Path {
  if (text.includes('\0')) throw new GatewayError('invalid', { reason: 'a path cannot hold a NUL character' })
  if (Buffer.byteLength(text) > pathLimit) throw new GatewayError('invalid', { reason: 'the path is too long' })
  const segments = text.startsWith('/') ? [] : segmentsOf(from)
  for (const segment of text.split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment === '..') segments.pop()
    else segments.push(segment)
  }
  return `/${segments.join('/')}` as Path
}

/** A constant of the program as a path. Rejects with `invalid` unless it is clean already. */
export function asPath(text: string): Path {
  if (cleanPath(text) !== text) throw new GatewayError('invalid', { reason: `not a clean path: ${text}` })
  return text as Path
}

/**
 * Checks the name of something new, wherever it comes from: a field, a header, the result of a
 * pattern. Rejects with `invalid` where it is empty, `.` or `..`, holds `/`, `\`, NUL or another
 * control character, is not well-formed Unicode, or is longer than 255 bytes.
 */
export function checkName(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\\')) {
    throw new RelativePathError()
  }
  if (controlCharacters.test(name)) {
    throw new GatewayError('invalid', { reason: 'a name cannot hold control characters' })
  }
  if (!name.isWellFormed()) throw new GatewayError('invalid', { reason: 'a name must be valid Unicode' })
  if (Buffer.byteLength(name) > nameLimit) throw new GatewayError('invalid', { reason: 'the name is too long' })
  return name
}

/** A new name in the same folder that is shown, `<name>~<word>-<hex>`, for what cannot have its own; a long one is cut. */
export function besideOf(path: Path, word: 'replaced' | 'kept'): Path {
  const end = `~${word}-${randomBytes(4).toString('hex')}`
  const characters = Array.from(nameOf(path))
  while (Buffer.byteLength(characters.join('') + end) > nameLimit) characters.pop()
  return childOf(parentOf(path), characters.join('') + end)
}

/**
 * Whether a name that a backend reports can be shown and asked for again. It is not empty, `.` or `..`; holds no `/`, `\`,
 * NUL, or U+FFFD, which stands for bytes that are no text; and is well-formed Unicode.
 */
export function isListableName(name: string): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    !name.includes('/') &&
    !name.includes('\0') &&
    !name.includes('\\') &&
    !name.includes('\ufffd') &&
    name.isWellFormed()
  )
}

/** A name that `isListableName` refuses, for what the backend itself could not find again by the name it reports. */
export function refusedName(reported: string): string {
  return isListableName(reported) ? `${reported}\ufffd` : reported
}

/** The child of `parent` with this one name. The name must be a single segment. */
export function childOf(parent: Path, name: string): Path {
  return (parent === '/' ? `/${name}` : `${parent}/${name}`) as Path
}

/** `below` (a path in its own right) put under `base`: `/a` and `/b/c` give `/a/b/c`. */
export function under(base: Path, below: Path): Path {
  if (base === '/') return below
  return (below === '/' ? base : base + below) as Path
}

/** The path of `path` as seen from `base`, `/` for `base` itself; undefined where it lies outside. */
export function within(base: Path, path: Path): Path | undefined {
  if (base === '/') return path
  if (path === base) return root
  return path.startsWith(base) && path[base.length] === '/' ? (path.slice(base.length) as Path) : undefined
}

/** Whether `path` is `ancestor` or lies below it. */
export function isWithin(ancestor: Path, path: Path): boolean {
  return within(ancestor, path) !== undefined
}

/** The last segment; empty for the root. */
export function nameOf(path: Path): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** The folder that holds it; the root holds itself. */
export function parentOf(path: Path): Path {
  const slash = path.lastIndexOf('/')
  return (slash <= 0 ? '/' : path.slice(0, slash)) as Path
}

export function segmentsOf(path: Path): string[] {
  return path === '/' ? [] : path.slice(1).split('/')
}

/**
 * A name, or a path, without what a backend that folds case and form does not tell apart. Only to be compared with
 * another one, never to be asked for.
 */
export function folded<Text extends string>(text: Text): Text {
  return text.normalize('NFC').toUpperCase() as Text
}

/**
 * `path`, its parent, and so on up to and with the root; of these, those of `deepest` segments at the most. Who knows how deep
 * what they look for lies says so: a path comes from anybody, and may have two thousand segments.
 */
export function* upwardFrom(path: Path, deepest = Infinity): Generator<Path> {
  for (let at = cutTo(path, deepest); ; at = parentOf(at)) {
    yield at
    if (at === '/') return
  }
}

/**
 * Of `path` and those above it, the deepest that `look` finds, with what it found; undefined where not even the root is. What lies above
 * something found must be found too. Most often the first is, so it is asked for first, then ever larger steps are taken: a path may
 * have a thousand levels, and a backend that goes through all of them at each question.
 */
export async function deepestFound<Found>(
  path: Path,
  look: (path: Path) => Promise<Found | undefined>,
): Promise<{ readonly at: Path; readonly found: Found } | undefined> {
  const upward = [...upwardFrom(path)]
  let deepest: { at: Path; found: Found } | undefined
  let missing = 0
  for (let there = upward.length, step = 0; missing < there; step = Math.max(1, step * 2)) {
    const probe = Math.min(missing + step, Math.floor((missing + there) / 2))
    const at = upward[probe] ?? root
    const found = await look(at)
    if (found === undefined) {
      missing = probe + 1
    } else {
      there = probe
      deepest = { at, found }
    }
  }
  return deepest
}

function cutTo(path: Path, segments: number): Path {
  let end = 0
  for (let count = 0; count < segments; count++) {
    end = path.indexOf('/', end + 1)
    if (end < 0) return path
  }
  return segments === 0 ? root : (path.slice(0, end) as Path)
}

/** The most segments that one of them has. */
export function deepestOf(paths: Iterable<Path>): number {
  let deepest = 0
  for (const path of paths) deepest = Math.max(deepest, segmentsOf(path).length)
  return deepest
}

/** As part of a URL: each segment percent-encoded. */
export function encodePath(path: Path): string {
  return path.split('/').map(encodeURIComponent).join('/')
}

/** `text` without this character at its end. A pattern would take a time that grows with the square of the characters. */
export function withoutTrailing(text: string, character: string): string {
  let end = text.length
  while (end > 0 && text[end - 1] === character) end--
  return text.slice(0, end)
}
