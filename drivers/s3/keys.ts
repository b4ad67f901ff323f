/** Paths as keys, and what is told of an object as an entry. */
import type { Entry } from '../../src/driver.js'
import { nameOf, type Path } from '../../src/path.js'

/** The metadata key in which rclone keeps times: seconds since 1970, with decimals. */
const timeKey = 'mtime'

export class Keys {
  /** Of all keys of the mount: empty, or with a slash at its end. */
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

  /** With which all keys in a folder start. */
  folder(path: Path): string {
    return path === '/' ? this.#prefix : `${this.file(path)}/`
  }

  marker(path: Path): string {
    return this.folder(path) + this.placeholder
  }

  /** Whether the key stands for the folder of this prefix, and is no file in it. */
  isMarker(key: string, prefix: string): boolean {
    return key === prefix || key === prefix + this.placeholder
  }
}

export function metadataOf(modified: Date): Record<string, string> {
  return { [timeKey]: String(modified.getTime() / 1000) }
}

/** The time that was given with an upload; undefined where there is none, or none that makes sense. */
export function givenTime(metadata: Readonly<Record<string, string>> | undefined): Date | undefined {
  const seconds = metadata?.[timeKey]
  if (seconds === undefined || !/^-?\d{1,12}(\.\d+)?$/.test(seconds)) return undefined
  const time = new Date(Math.round(Number(seconds) * 1000))
  return Number.isNaN(time.getTime()) ? undefined : time
}

export interface ObjectFacts {
  readonly ETag?: string | undefined
  readonly LastModified?: Date | undefined
  readonly Metadata?: Record<string, string> | undefined
}

/** `keepTimes`: of the time that came with the upload, where one did. */
export function fileEntry(name: string, size: number | undefined, facts: ObjectFacts, keepTimes: boolean): Entry {
  const given = keepTimes ? givenTime(facts.Metadata) : undefined
  const revision = revisionOf(facts.ETag)
  return {
    name,
    kind: 'file',
    size: size ?? 0,
    modified: given ?? wholeSeconds(facts.LastModified),
    ...(revision === undefined ? {} : { revision }),
  }
}

/** Folders have no times of their own: `since` is that of the mount. */
export function folderEntry(name: string, since: Date): Entry {
  return { name, kind: 'folder', size: 0, modified: since }
}

export function entryName(path: Path): string {
  return path === '/' ? '' : nameOf(path)
}

export function revisionOf(etag: string | undefined): string | undefined {
  return etag?.replace(/^W\//, '').replaceAll('"', '')
}

/** Listings may tell milliseconds that the headers of the object itself cannot. */
function wholeSeconds(time: Date | undefined): Date {
  return new Date(Math.floor((time?.getTime() ?? 0) / 1000) * 1000)
}
