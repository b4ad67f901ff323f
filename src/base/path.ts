/**
 * Normalizes, joins and splits paths of the tree. No other module does.
 *
 * A `Path` is absolute and `/`-separated, without `.`, `..`, empty segments or a trailing slash; `/` is the root. The
 * type is branded, so that a plain string is not assignable to it.
 */
import { randomBytes } from 'node:crypto'
import { GatewayError } from './errors.js'
import { isDecoded } from './utf8.js'

declare const clean: unique symbol
export type Path = string & { readonly [clean]: true }

export const root = '/' as Path

/** Prefix of the names of backups and other temporary entries of the core. No protocol shows them. */
export const reservedPrefix = '.tidegate-'

/** This name and the id of a share begin a path that is not of the tree. */
export const shareFolder = '@s'

/**
 * Names that cannot be made in the root of the tree or of a base folder: the URLs of shares and of pages begin with
 * them.
 */
export const topNames: ReadonlySet<string> = new Set([shareFolder, '@login', '@manage'])

/** Maximum length of a name in bytes, as in most file systems. */
export const maxNameLength = 255

/** Maximum length of a path in bytes: PATH_MAX of Linux. */
export const maxPathLength = 4096

/**
 * The control characters of ASCII and Latin-1 (C0, DEL, C1): Unicode's category Cc. Format characters (Cf) are not
 * included.
 */
const controlCharacter = /\p{Cc}/u

/**
 * Parses a path from user input: `\` is treated as `/`, a missing leading slash is added, empty and `.` segments are
 * removed. Throws `invalid` if a segment is `..`, if the text contains a NUL or is not well-formed Unicode, or if it is
 * longer than `maxPathLength` bytes.
 */
export function cleanPath(text: string): Path {
  if (text.includes('\0')) throw new GatewayError('invalid', { reason: 'a path cannot hold a NUL character' })
  if (!text.isWellFormed()) throw new GatewayError('invalid', { reason: 'a path must be valid Unicode' })
  if (isTooLong(text)) throw new GatewayError('invalid', { reason: 'the path is too long' })
  // Most paths of most clients are clean.
  if (/^(?:\/[^/\\.][^/\\]*)+$/.test(text)) return text as Path
  const segments: string[] = []
  for (const segment of text.replaceAll('\\', '/').split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment === '..') throw relativePathError()
    segments.push(segment)
  }
  return `/${segments.join('/')}` as Path
}

/** UTF-8 has at most three bytes for each code unit of UTF-16. */
function isTooLong(text: string): boolean {
  return text.length * 3 > maxPathLength && Buffer.byteLength(text) > maxPathLength
}

/**
 * Parses the path of an entry to be created. Like `cleanPath`, but a `\` is rejected, as in every other new name.
 * Otherwise a file named `a\b` would be created as `b` in a folder that was not requested.
 */
export function newPath(text: string): Path {
  if (text.includes('\\')) throw relativePathError()
  return cleanPath(text)
}

/** The error for a path that contains `..`, or for a name with more than one segment. */
export function relativePathError(): GatewayError {
  return new GatewayError('invalid', { detail: 'relative_path' })
}

/**
 * Parses a path from an SFTP client: relative to `from`, with `.` and `..` resolved; `..` at the root is the root. A
 * `\` is not a separator. Throws `invalid` if the text contains a NUL or is longer than `maxPathLength` bytes.
 */
export function resolvePath(from: Path, text: string): Path {
  if (text.includes('\0')) throw new GatewayError('invalid', { reason: 'a path cannot hold a NUL character' })
  if (isTooLong(text)) throw new GatewayError('invalid', { reason: 'the path is too long' })
  // Most paths of most clients are clean.
  if (text.startsWith('/') && !text.endsWith('/') && !text.includes('//') && !text.includes('/.')) return text as Path
  const segments = text.startsWith('/') ? [] : segmentsOf(from)
  for (const segment of text.split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment === '..') segments.pop()
    else segments.push(segment)
  }
  return `/${segments.join('/')}` as Path
}

/** Converts a constant of the program to a path. Throws `invalid` if it is not normalized. */
export function asPath(text: string): Path {
  if (cleanPath(text) !== text) throw new GatewayError('invalid', { reason: `not a clean path: ${text}` })
  return text as Path
}

/**
 * Checks the name of an entry to be created, from any source: a field, a header, the result of a pattern. Throws
 * `invalid` if it is empty, `.` or `..`, contains `/`, `\`, NUL, another control character or U+FFFD, is not
 * well-formed Unicode, or is longer than 255 bytes. Every name that it accepts is listable (`isListableName`).
 */
export function checkName(name: string): string {
  assertOneSegment(name)
  if (controlCharacter.test(name)) {
    throw new GatewayError('invalid', { reason: 'a name cannot hold control characters' })
  }
  if (!isDecoded(name)) throw new GatewayError('invalid', { reason: 'a name must be valid Unicode without U+FFFD' })
  if (Buffer.byteLength(name) > maxNameLength) throw new GatewayError('invalid', { reason: 'the name is too long' })
  return name
}

/**
 * Checks the name of an existing member of a folder that a client sent apart from the path of the folder. Throws
 * `invalid` if it is empty, `.` or `..`, contains `/`, `\` or NUL, is not well-formed Unicode, or is longer than
 * `maxPathLength` bytes. Other names that `checkName` rejects may exist in a storage.
 */
export function checkMemberName(name: string): string {
  assertOneSegment(name)
  if (name.includes('\0')) throw new GatewayError('invalid', { reason: 'a name cannot hold a NUL character' })
  if (!name.isWellFormed()) throw new GatewayError('invalid', { reason: 'a name must be valid Unicode' })
  if (isTooLong(name)) throw new GatewayError('invalid', { reason: 'the name is too long' })
  return name
}

function assertOneSegment(name: string): void {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\\')) {
    throw relativePathError()
  }
}

/**
 * A new visible name in the same folder, `<name>~<word>-<hex>`, for an entry that cannot have its own name. A name that
 * would have more than `maxLength` bytes is truncated.
 */
export function siblingPathOf(path: Path, word: 'replaced' | 'kept', maxLength = maxNameLength): Path {
  const suffix = `~${word}-${randomBytes(4).toString('hex')}`
  const characters = Array.from(nameOf(path))
  while (Buffer.byteLength(characters.join('') + suffix) > maxLength) characters.pop()
  return childOf(parentOf(path), characters.join('') + suffix)
}

/**
 * Whether a name that a backend reports can be shown and requested again. It must not be empty, `.` or `..`, must not
 * contain `/`, `\`, NUL or U+FFFD, which replaces undecodable bytes, and must be well-formed Unicode.
 */
export function isListableName(name: string): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    !name.includes('/') &&
    !name.includes('\0') &&
    !name.includes('\\') &&
    isDecoded(name)
  )
}

/** A name that `isListableName` rejects, for an entry that the backend could not find again by the name it reports. */
export function refusedName(reported: string): string {
  return isListableName(reported) ? `${reported}\ufffd` : reported
}

/** The child of `parent` with this name, which must be a single segment. */
export function childOf(parent: Path, name: string): Path {
  return (parent === '/' ? `/${name}` : `${parent}/${name}`) as Path
}

/** Joins `relative`, a path relative to `base`, to `base`: `/a` and `/b/c` give `/a/b/c`. */
export function under(base: Path, relative: Path): Path {
  if (base === '/') return relative
  return (relative === '/' ? base : base + relative) as Path
}

/** The path relative to `base`, `/` for `base` itself; undefined if `path` is outside of it. */
export function within(base: Path, path: Path): Path | undefined {
  if (base === '/') return path
  if (path === base) return root
  return path.startsWith(base) && path[base.length] === '/' ? (path.slice(base.length) as Path) : undefined
}

/** Whether `path` is `ancestor` or one of its descendants. */
export function isWithin(ancestor: Path, path: Path): boolean {
  return within(ancestor, path) !== undefined
}

/** The last segment; empty for the root. */
export function nameOf(path: Path): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** The parent folder; that of the root is the root. */
export function parentOf(path: Path): Path {
  const slash = path.lastIndexOf('/')
  return (slash <= 0 ? '/' : path.slice(0, slash)) as Path
}

export function segmentsOf(path: Path): string[] {
  return path === '/' ? [] : path.slice(1).split('/')
}

/**
 * A name or path in a form that is equal for names that a case-insensitive backend treats as equal: in NFC and upper
 * case. Only for comparisons, never for requests.
 */
export function foldCase<Text extends string>(text: Text): Text {
  return text.normalize('NFC').toUpperCase() as Text
}

/**
 * Yields `path`, its parent, and so on up to and including the root, omitting paths of more than `maxSegments`
 * segments. The limit avoids work for untrusted paths, which may have two thousand segments.
 */
export function* selfAndAncestors(path: Path, maxSegments = Infinity): Generator<Path> {
  for (let at = truncateTo(path, maxSegments); ; at = parentOf(at)) {
    yield at
    if (at === '/') return
  }
}

/**
 * Among `path` and its ancestors, the deepest for which `look` returns a result, with that result; undefined if there
 * is none. Every ancestor of a path that is found must be found too. `path` itself is most likely, so it is looked up
 * first, followed by ancestors in exponentially growing steps: a path may have a thousand levels, and a backend may
 * traverse all of them at each lookup.
 */
export async function findDeepest<Found>(
  path: Path,
  look: (path: Path) => Promise<Found | undefined>,
): Promise<{ readonly at: Path; readonly found: Found } | undefined> {
  const upward = [...selfAndAncestors(path)]
  let deepest: { at: Path; found: Found } | undefined
  let missing = 0
  for (let existing = upward.length, step = 0; missing < existing; step = Math.max(1, step * 2)) {
    const probe = Math.min(missing + step, Math.floor((missing + existing) / 2))
    const at = upward[probe] ?? root
    const found = await look(at)
    if (found === undefined) {
      missing = probe + 1
    } else {
      existing = probe
      deepest = { at, found }
    }
  }
  return deepest
}

export function truncateTo(path: Path, segments: number): Path {
  let end = 0
  for (let count = 0; count < segments; count++) {
    end = path.indexOf('/', end + 1)
    if (end < 0) return path
  }
  return segments === 0 ? root : (path.slice(0, end) as Path)
}

/** `base` in the spelling of `path`, if `path` is `base` or below it but for `foldCase`; else undefined. */
export function spelledAsIn(base: Path, path: Path): Path | undefined {
  const spelled = truncateTo(path, segmentsOf(base).length)
  return foldCase(spelled) === foldCase(base) ? spelled : undefined
}

/** The maximum number of segments of these paths. */
export function maxDepthOf(paths: Iterable<Path>): number {
  let deepest = 0
  for (const path of paths) deepest = Math.max(deepest, segmentsOf(path).length)
  return deepest
}

/** Encodes a path for a URL: each segment is percent-encoded. */
export function encodePath(path: Path): string {
  // Most paths need no encoding.
  if (/^[\w/.~-]*$/.test(path)) return path
  return path.split('/').map(encodeURIComponent).join('/')
}

/** Removes all occurrences of this character from the end of `text`, in linear time, unlike a regular expression. */
export function trimTrailing(text: string, character: string): string {
  let end = text.length
  while (end > 0 && text[end - 1] === character) end--
  return text.slice(0, end)
}
