/** Maps paths to keys, and object metadata to entries. */
import type { Entry } from '../../src/contract/entry.js'
import { nameOf, type Path } from '../../src/base/path.js'

/** The metadata key in which rclone stores the modification time: seconds since the Unix epoch, with decimals. */
const timeKey = 'mtime'

export class ObjectKeys {
  /** Prefix of all keys of the mount: empty, or ending with a slash. */
  readonly #prefix: string
  readonly placeholder: string

  constructor(rootFolder: string, placeholder: string) {
    const segments = rootFolder.split('/').filter((segment) => segment !== '')
    this.#prefix = segments.length === 0 ? '' : `${segments.join('/')}/`
    this.placeholder = placeholder
  }

  file(path: Path): string {
    return this.#prefix + path.slice(1)
  }

  /** The prefix of all keys below the folder. */
  folder(path: Path): string {
    return path === '/' ? this.#prefix : `${this.file(path)}/`
  }

  marker(path: Path): string {
    return this.folder(path) + this.placeholder
  }

  /** Whether the key represents the folder with this prefix, rather than a file in it. */
  isMarker(key: string, prefix: string): boolean {
    return key === prefix || key === prefix + this.placeholder
  }
}

export function timeMetadata(modified: Date): Record<string, string> {
  return { [timeKey]: String(modified.getTime() / 1000) }
}

/** The modification time in the metadata; undefined if it is missing or malformed. */
export function metadataTime(metadata: Readonly<Record<string, string>> | undefined): Date | undefined {
  const seconds = metadata?.[timeKey]
  if (seconds === undefined || !/^-?\d{1,12}(\.\d+)?$/.test(seconds)) return undefined
  const time = new Date(Math.round(Number(seconds) * 1000))
  return Number.isNaN(time.getTime()) ? undefined : time
}

const noCodings: ReadonlySet<string> = new Set(['identity', 'aws-chunked'])

interface ObjectFacts {
  readonly ETag?: string | undefined
  readonly LastModified?: Date | undefined
  readonly Metadata?: Record<string, string> | undefined
  readonly ContentEncoding?: string | undefined
}

/** `keepTimes`: prefers the modification time in the metadata to the time of the upload. */
export function fileEntry(name: string, size: number | undefined, facts: ObjectFacts, keepTimes: boolean): Entry {
  const storedTime = keepTimes ? metadataTime(facts.Metadata) : undefined
  const revision = revisionOf(facts.ETag)
  const contentEncoding = contentCodings(facts.ContentEncoding)
  return {
    name,
    kind: 'file',
    size: size ?? 0,
    modified: storedTime ?? wholeSeconds(facts.LastModified),
    ...(revision === undefined ? {} : { revision }),
    ...(contentEncoding === '' ? {} : { contentEncoding }),
  }
}

/** `aws-chunked` was the coding of an upload: some servers store it although the bytes no longer have it. */
function contentCodings(header = ''): string {
  const codings = header.split(',').map((coding) => coding.trim().toLowerCase())
  return codings.filter((coding) => /^[a-z0-9.-]+$/.test(coding) && !noCodings.has(coding)).join(', ')
}

/** S3 has no folder times: `since` is the time of the mount. */
export function folderEntry(name: string, since: Date): Entry {
  return { name, kind: 'folder', size: 0, modified: since }
}

export function entryName(path: Path): string {
  return path === '/' ? '' : nameOf(path)
}

/** Undefined for an empty one: some servers list files that way of which they know no ETag. */
export function revisionOf(etag: string | undefined): string | undefined {
  return etag?.replace(/^W\//, '').replaceAll('"', '') || undefined
}

/** Listings may contain milliseconds, which the headers of an object cannot express. */
function wholeSeconds(time: Date | undefined): Date {
  return new Date(Math.floor((time?.getTime() ?? 0) / 1000) * 1000)
}
